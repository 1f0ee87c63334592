//! Why a model cannot be quantised.

use ovolo::Error;
use ovolo::npy::NpyError;
use ovolo::onnx::OnnxError;
use ovolo::session::SessionError;

/// Why a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
pub enum QuantizeError {
    /// The model cannot be imported.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A version of the model cannot be compiled.
    #[error(transparent)]
    Compile(#[from] Error),
    /// A version of the model cannot be run.
    #[error(transparent)]
    Run(#[from] SessionError),
    /// An array of NumPy cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// The bytes of the model are no message of Protocol Buffers.
    #[error("{model}: it is no ONNX model: {why}")]
    Damaged {
        /// The model.
        model: String,
        /// The reason.
        why: String,
    },
    /// The model is too old.
    #[error(
        "{model}: it uses opset {opset}, and scales of channels need opset 13 or later: convert it with \
         `onnx.version_converter`"
    )]
    Opset {
        /// The model.
        model: String,
        /// Its version of ONNX's own operators.
        opset: i64,
    },
    /// Constants are in other files.
    #[error("{model}: `{tensor}` is in another file, and only models of one file can be quantised")]
    External {
        /// The model.
        model: String,
        /// The constant.
        tensor: String,
    },
    /// A constant cannot be read.
    #[error("{model}: constant `{tensor}`: {why}")]
    Constant {
        /// The model.
        model: String,
        /// The constant.
        tensor: String,
        /// The reason.
        why: String,
    },
    /// No layer can be quantised.
    #[error(
        "{model}: it has no Conv, ConvTranspose, Gemm or MatMul in float32 with constant weights, no sum and no pool, so there is nothing to quantise"
    )]
    NoLayers {
        /// The model.
        model: String,
    },
    /// There are no calibration data.
    #[error("there are no calibration data: give --data or --input")]
    NoData,
    /// Calibration data do not fit the model.
    #[error("{file}: {why}")]
    Data {
        /// The file or folder.
        file: String,
        /// The reason.
        why: String,
    },
    /// A value of the model has no range.
    #[error("`{tensor}` holds {value} in batch {batch} of the calibration data, so it has no range")]
    NotFinite {
        /// The value.
        tensor: String,
        /// The element.
        value: f32,
        /// The number of the batch, from 0.
        batch: usize,
    },
    /// The loss cannot be measured on the outputs.
    #[error("the loss cannot be measured: {0}")]
    Loss(String),
    /// The choice among the layers failed.
    #[error("the choice among the layers: {0}")]
    Choice(#[from] ovolo::extract::ExtractError),
}
