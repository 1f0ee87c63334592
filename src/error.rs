//! Errors: one enum that joins those of all floors.
//!
//! Each floor has small enums of its own, which name nodes, files and values in fields. [`enum@Error`] holds them
//! whole, so that a caller can match on what went wrong; its text is theirs.

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

/// What a fallible function of ovolo gives.
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
    /// The e-graph holds no program that the backends can run.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No value of the e-graph has a name that was asked for.
    #[error(transparent)]
    UnknownValue(#[from] UnknownValue),
    /// An extractor refuses its problem.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// Nothing that can be run computes the outputs.
    #[error("nothing that can be run computes the outputs")]
    NothingRuns,
    /// A cost model cannot be made.
    #[error(transparent)]
    Pricing(#[from] PricingError),
    /// A cost model has no price for a kernel, or what it asks has failed.
    #[error("the cost model `{model}`{why}")]
    CostModel {
        /// The model.
        model: String,
        /// What is wrong: how the sentence goes on, with its punctuation.
        why: String,
    },
    /// A program cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No plan is within a limit of memory.
    #[error("{why}")]
    TooLarge {
        /// The device whose memory is limited.
        device: Device,
        /// The limit, in bytes.
        limit: usize,
        /// What is live at the peak of the smallest plan that was found.
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
    /// A registry has nothing of a name.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A setting that is wrong, or does not go with another.
    #[error("{0}")]
    Setting(String),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What a pass, a cost model or another part from outside reports.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the file system with the path that it is about; made for `map_err`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File(FileError { path, source })
    }

    /// A setting that is wrong.
    pub fn setting(message: impl Into<String>) -> Self {
        Self::Setting(message.into())
    }

    /// An error of a part that ovolo does not know.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// The diagnostics of a text, where the error is about one.
    pub fn diagnostics(&self) -> Option<&Diagnostics> {
        match self {
            Self::Graph(found) | Self::Rules(found) | Self::Pipeline(found) => Some(found),
            Self::Pricing(PricingError::Prices(found)) => Some(found),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_files_name_the_file() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::io("a/b.npy")(missing);
        assert!(error.to_string().starts_with("a/b.npy: "));
        assert!(
            matches!(error, Error::File(FileError { path, .. }) if path == std::path::Path::new("a/b.npy"))
        );
    }
}
