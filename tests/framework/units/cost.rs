//! Tests of the cost models.

mod learned;
mod noise;
mod pattern;
mod price;
mod process;
mod rank;

pub use ovolo::cost::*;
pub(crate) use process::source::Answer;
pub use process::source::AnswerError;
