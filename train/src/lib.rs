//! Training: one graph that computes the loss, its gradients and the next parameters, from a model for inference.
//!
//! A [`Table`] says for each op what the gradient with respect to each operand is, as rules.

mod apply;
mod builder;
mod elementwise;
mod error;
mod form;
mod reverse;
mod table;

pub use error::TrainError;
pub use table::Table;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from others.
pub const BUILD: &str = env!("OVOLO_BUILD");
