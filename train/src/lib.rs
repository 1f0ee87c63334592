//! Training: one graph that computes the loss, its gradients and the next parameters, from a model for inference.
//!
//! A [`Table`] says for each op what the gradient with respect to each operand is, as rules.

mod apply;
mod builder;
pub mod checkpoint;
mod command;
mod data;
mod elementwise;
mod error;
mod evaluator;
mod form;
mod initial;
mod loss;
mod network;
mod norm;
mod optimizer;
mod reverse;
mod step;
mod table;
mod trainer;
mod wire;

pub use command::{Derivatives, Grad, Train};
pub use data::Data;
pub use error::TrainError;
pub use evaluator::Evaluator;
pub use loss::Loss;
pub use network::Network;
pub use optimizer::Optimizer;
pub use step::{Kept, Recipe, Step};
pub use table::Table;
pub use trainer::Trainer;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from others.
pub const BUILD: &str = env!("OVOLO_BUILD");
