//! Training: one graph that computes the loss, its gradients and the next parameters, from a model for inference.
//!
//! A [`Network`] is a model with its parameters. A [`Recipe`] has what else a step needs: the [`Table`] of derivatives, which
//! says for each op what the gradient with respect to each operand is, as rules; a [`Loss`]; and an [`Optimizer`].
//! [`Step::new`] makes the graph of a step of both: in reverse mode, on the ops of the model as it was imported, before any
//! rule of a pipeline sees it. A [`Trainer`] compiles the step as any other graph and runs it on batches of [`Data`]; an
//! [`Evaluator`] runs the model with the trainer's parameters, and [`checkpoint`] keeps them. [`register`] adds ONNX's own
//! operator `Gradient`, by the same table.
//!
//! All is deterministic: the same model, data and seed give the same bytes, on the same machine with the same number of
//! threads.

mod apply;
mod archive;
mod builder;
pub mod checkpoint;
mod command;
mod data;
mod dropout;
mod elementwise;
mod error;
mod evaluator;
mod form;
mod initial;
mod initializer;
mod lazy;
mod loss;
mod mark;
mod network;
mod norm;
mod operator;
mod optimizer;
mod reverse;
mod safetensors;
mod step;
mod table;
mod trainer;
mod unroll;
mod wire;

pub use command::{Derivatives, Grad, Train};
pub use data::Data;
pub use dropout::Dropout;
pub use error::TrainError;
pub use evaluator::Evaluator;
pub use loss::Loss;
pub use network::Network;
pub use operator::register;
pub use optimizer::Optimizer;
pub use step::{Kept, Recipe, Step};
pub use table::Table;
pub use trainer::Trainer;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from others.
pub const BUILD: &str = env!("OVOLO_BUILD");
