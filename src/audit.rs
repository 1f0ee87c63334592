//! Auditing rules: what a rule file says, held against what its rules do.
//!
//! [`example`] runs the examples beside the rules. [`verify`] checks every rule numerically on
//! generated instances, and random members of the e-graphs of whole models against the models.
pub mod example;
pub mod verify;
