//! Tests of plans.

mod schedule;
