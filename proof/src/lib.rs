//! Trust in rules: what a rule file says, held against what its rules do.
//!
//! [`example`] runs the examples beside the rules, [`check`] finds rules without a point, [`verify`] checks every
//! rule numerically on generated instances, and random members of the e-graphs of whole models against the models.
//! [`ablate`] says what each rule is worth, and [`mod@reference`] writes the reference for rule authors.
pub mod ablate;
pub mod check;
pub mod example;
pub mod reference;
pub mod verify;

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");
