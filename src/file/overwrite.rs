//! Refuses to write a file that is read.

use super::same;
use std::path::{Path, PathBuf};

/// A file that is to be written is also one that is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it would overwrite {}, which is read", input.display())]
pub struct Overwrites {
    /// The file that is read.
    pub input: PathBuf,
}

/// Refuses to write a file that is one of the inputs.
///
/// # Errors
/// The input that would be overwritten.
pub fn spare<'a>(file: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Overwrites> {
    match inputs.into_iter().find(|input| same(file, input)) {
        Some(input) => Err(Overwrites { input: input.to_owned() }),
        None => Ok(()),
    }
}
