//! Auditing rules: what a rule file says, held against what its rules do.
//!
//! [`example`] runs the examples beside the rules, [`check`] finds rules without a point.
pub mod check;
pub mod example;
