//! Checks rules: whether they hold, and whether they are of use.
//!
//! [`example`] runs the examples beside the rules, [`check`] finds rules without a purpose, and [`verify`]
//! evaluates every rule on generated instances, and random members of the e-graphs of whole models.
//! [`compare`] finds where a compiled model departs from what it should compute, and which rule or kernel is at fault.
//! [`ablate`] measures what each rule is worth, and [`mod@reference`] writes the reference for rule authors.
pub mod ablate;
pub mod check;
pub mod compare;
pub mod example;
pub mod reference;
pub mod verify;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from
/// others.
pub const BUILD: &str = env!("OVOLO_BUILD");
