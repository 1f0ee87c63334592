//! Auditing rules: what a rule file says, held against what its rules do.
//!
//! [`verify`] checks every rule numerically on generated instances, and random members of the
//! e-graphs of whole models against the models.
pub mod verify;
