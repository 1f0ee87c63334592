//! Tests of the parts of rules.

mod interval;
mod part;
mod precision;
