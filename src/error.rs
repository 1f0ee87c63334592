//! Errors: one enum that joins those of all floors.
//!
//! Each floor has small enums of its own, which name nodes, files and values in fields. [`enum@Error`] contains
//! them unchanged, so that a caller can match on what went wrong, and shows their text.

mod cache;
mod registry;

pub use cache::CacheError;
pub use registry::RegistryError;

pub use crate::diagnostic::{Diagnostic, Diagnostics, Label, Source, Span, nearest, suggestion};

use crate::backend::BackendError;
use crate::cost::PricingError;
use crate::egraph::{BuildError, SaturateError, UnknownValue};
use crate::extract::ExtractError;
use crate::file::FileError;
use crate::npy::NpyError;
use crate::onnx::OnnxError;
use crate::op::OpError;
use crate::plan::PlanError;
use crate::session::SessionError;
pub use crate::table::{Duplicate, Unknown};
use crate::tensor::Device;
use crate::verify::VerifyErrors;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of a function of ovolo that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text form of a graph has mistakes.
    #[error("{0}")]
    Graph(Diagnostics),
    /// Rule files have mistakes.
    #[error("{0}")]
    Rules(Diagnostics),
    /// Pipeline files have mistakes.
    #[error("{0}")]
    Pipeline(Diagnostics),
    /// The verifier refuses a graph.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// An op refuses its operands or attributes, or has no kernel for a call.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A rule equates values of different types.
    #[error(transparent)]
    Saturate(#[from] SaturateError),
    /// The e-graph contains no graph that the backends can run.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No value of the e-graph has a name that was asked for.
    #[error(transparent)]
    UnknownValue(#[from] UnknownValue),
    /// An extractor refuses its problem.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// A number of threads that no plan runs with.
    #[error("a plan runs with 1 to {most} threads, not {threads}")]
    Threads {
        /// The number that was asked for.
        threads: usize,
        /// The most threads.
        most: usize,
    },
    /// The backends have no kernels that compute the outputs.
    #[error("no kernels of the backends compute the outputs")]
    NothingRuns,
    /// A cost model cannot be made.
    #[error(transparent)]
    Pricing(#[from] PricingError),
    /// A cost model has no price for a kernel, or its subprocess has failed.
    #[error("the cost model `{model}`{why}")]
    CostModel {
        /// The model.
        model: String,
        /// What is wrong, as the rest of the sentence, with its punctuation.
        why: String,
    },
    /// A graph cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No plan is within a limit of memory.
    #[error("{why}")]
    TooLarge {
        /// The device whose memory is limited.
        device: Device,
        /// The limit, in bytes.
        limit: usize,
        /// The values that are live at the peak of the smallest plan that was found.
        why: String,
    },
    /// A model cannot be imported, or its inputs do not fit.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A tensor file (`.npy`, `.npz`) cannot be read or written.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A plan cannot be loaded or run.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A backend is absent, or refuses a plan.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Something cannot be added to a registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A registry has nothing with a given name.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// An entry of the cache cannot be written, saved or loaded.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A pipeline lacks a pass.
    #[error("{file}: pipeline `{pipeline}` has no `{pass}`, so {effect}; add it to `passes`")]
    NoPass {
        /// The file of the pipeline.
        file: Arc<str>,
        /// The pipeline.
        pipeline: String,
        /// The pass.
        pass: &'static str,
        /// What follows from that.
        effect: &'static str,
    },
    /// A pass stands at a place of its pipeline where it cannot run.
    #[error("pass `{pass}` {why}")]
    Misplaced {
        /// The pass.
        pass: String,
        /// What is wrong with its place, as the rest of the sentence.
        why: &'static str,
    },
    /// No backend of the pipeline has a device whose memory is limited or asked for.
    #[error("no backend of the pipeline has a device `{device}`; its memory is that of {}", .known.join(", "))]
    UnknownDevice {
        /// The device.
        device: Device,
        /// The host and the first device of each family, in backquotes.
        known: Vec<String>,
    },
    /// Inputs and outputs cannot stay on a device.
    #[error(
        "pass `resident`: no op copies the model's inputs and outputs between the host and `{device}`; `ovolo doctor` \
         lists the devices"
    )]
    NoCopy {
        /// The device.
        device: Device,
    },
    /// A pattern for the names of ops fits no kernel of an e-graph.
    #[error("`{pattern}` fits no kernel of this e-graph; there are {}", .known.join(", "))]
    NoKernel {
        /// The pattern.
        pattern: String,
        /// The ops that have kernels.
        known: Vec<String>,
    },
    /// No input of a model has this dimension without a size, so its sizes cannot be rounded up.
    #[error("no input of the model has a dimension `{dim}` without a size")]
    NoDimension {
        /// The dimension.
        dim: String,
    },
    /// A node refuses its operands in a run on inputs in which one dimension has several sizes. Operators that broadcast
    /// accept such inputs.
    #[error("{}, and the model cannot run on such inputs:\n  {why}", .dims.join("; "))]
    Unequal {
        /// The sizes of each such dimension, in words.
        dims: Vec<String>,
        /// The error.
        why: Box<Error>,
    },
    /// A dimension was given no sizes to which its own are rounded up.
    #[error("the dimension `{dim}` needs at least one size for its buckets")]
    NoBucket {
        /// The dimension.
        dim: String,
    },
    /// The size of a dimension cannot be rounded up, since that would change the results.
    #[error(
        "the size {size} of dimension `{dim}` cannot be rounded up to {bucket}: {why}\n  help: run without buckets for this \
         dimension"
    )]
    Bucket {
        /// The dimension.
        dim: String,
        /// Its size.
        size: usize,
        /// The size to which it would be rounded up.
        bucket: usize,
        /// What depends on the size.
        why: String,
    },
    /// A plan cannot be kept, since a program has priced or chosen its kernels.
    #[error(
        "a plan that a program has priced or chosen has no key: what the program would answer now is not known"
    )]
    NoKey,
    /// A pass cannot describe its settings, which are part of the cache's key.
    #[error("the settings of pass `{pass}` cannot be described: {why}")]
    Undescribed {
        /// The pass.
        pass: String,
        /// What its serialisation reports.
        why: String,
    },
    /// A region of a model, or its plan, was dropped while it was needed.
    #[error("a region or its plan was dropped while it was needed")]
    Dropped,
    /// The user has stopped a long task.
    #[error("{task} was stopped; {kept}")]
    Stopped {
        /// The task.
        task: &'static str,
        /// What is kept of it.
        kept: &'static str,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of a pass, a cost model or another part that is not ovolo's own.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns a function that adds the path to an error of the file system, for use in `map_err`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File(FileError { path, source })
    }

    /// Wraps an error of a part that is not ovolo's own.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// Returns the diagnostics, if the error is about a text.
    pub fn diagnostics(&self) -> Option<&Diagnostics> {
        match self {
            Self::Graph(found) | Self::Rules(found) | Self::Pipeline(found) => Some(found),
            Self::Pricing(PricingError::Prices(found)) => Some(found),
            _ => None,
        }
    }
}
