//! Post-training quantisation: which layers of a model compute with 8-bit integers, and with which scales.
//!
//! A [`Document`] is an ONNX model whose bytes are kept. [`layers`](Document::layers) finds what can be quantised:
//! convolutions and matrix products with constant weights, sums and pools. [`calibrate`] runs the model on given
//! [`Batch`]es and returns the [`Range`] of each value that a layer reads. [`Search`] quantises each layer alone, prices
//! the plan and measures the loss, lets an extraction choose among the layers, and tries layers together.
//! [`Document::quantised`] writes the choice in QDQ form: pairs of `QuantizeLinear` and `DequantizeLinear`, which every
//! engine for ONNX can run. The model's own nodes stay.
//!
//! The rules in `rules/integer.ron` make integer kernels of such pairs, so a quantised model is compiled as any other.
//!
//! Levels of activations are `u8` with one scale and one zero point for a tensor. Levels of weights are `i8` with one
//! scale for each output channel, symmetric around zero.

mod calibration;
mod choice;
mod command;
mod data;
mod document;
mod engine;
mod entropy;
mod error;
mod histogram;
mod layer;
mod loss;
mod range;
mod report;
mod search;
mod weight;
mod wire;

pub use calibration::{Calibration, NoCalibration, calibrate};
pub use choice::{Gain, path};
pub use command::Quantize;
pub use data::{Batch, Data};
pub use document::Document;
pub use engine::{Engine, Runnable};
pub use entropy::threshold;
pub use error::QuantizeError;
pub use histogram::{BINS, Histogram};
pub use layer::{Layer, Weights};
pub use loss::{Metric, accuracy};
pub use range::{Range, Ranges};
pub use search::{Objective, Point, Search};
pub use weight::{Levels, levels_of_bias, levels_of_weights};

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from others.
pub const BUILD: &str = env!("OVOLO_BUILD");
