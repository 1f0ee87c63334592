//! Tests of the stages of a compilation.

mod what_if;
