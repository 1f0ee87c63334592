//! What training needs to go on as if it had not been interrupted, as a `.npz` or `.safetensors` file.

use super::archive;
use super::error::TrainError;
use super::trainer::Trainer;
use ovolo::tensor::{Shape, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// The arrays that are neither parameters nor state.
const EPOCHS: &str = "training/epochs";
const SEED: &str = "training/seed";
const OPTIMIZER: &str = "training/optimizer";

/// How far training has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of epochs that are done.
    pub epochs: u64,
    /// The seed of the order of the rows.
    pub seed: u64,
    /// The name of the optimiser.
    pub optimizer: String,
}

/// Writes parameters, state and progress. A reader sees the old file or the new one, never a part of one.
///
/// # Errors
/// The file cannot be written, or is a `.npz` file of more than 4 GiB.
pub fn write(path: &Path, trainer: &Trainer, progress: &Progress) -> Result<(), TrainError> {
    let count =
        |value: u64| Tensor::from_i128(ovolo::DType::U64, Shape::from(Vec::new()), &[i128::from(value)]);
    let (epochs, seed) = (count(progress.epochs), count(progress.seed));
    let optimizer = Tensor::from_texts(Shape::from(Vec::new()), &[progress.optimizer.as_str()]);
    let own = [(EPOCHS, &epochs), (SEED, &seed), (OPTIMIZER, &optimizer)];
    archive::write(path, trainer.kept().chain(own))
}

/// Writes parameters and running statistics alone.
///
/// # Errors
/// As [`write()`].
pub fn write_parameters(path: &Path, trainer: &Trainer) -> Result<(), TrainError> {
    let step = trainer.step();
    archive::write(path, trainer.kept().take(step.parameters.len() + step.statistics.len()))
}

/// Reads some parameters and running statistics into a trainer, by their names.
///
/// # Errors
/// The file cannot be read, has a value of another type, or has a name that the step does not keep.
pub fn read_parameters(path: &Path, trainer: &mut Trainer) -> Result<(), TrainError> {
    let arrays = archive::read(path)?;
    let arrays = arrays.iter().map(|(name, array)| (name.as_str(), array)).collect();
    trainer.replace(&path.display().to_string(), &arrays)
}

/// Reads parameters and state into a trainer, and returns the progress.
///
/// # Errors
/// The file is no checkpoint, or one of another model or another optimiser.
pub fn read(path: &Path, trainer: &mut Trainer, optimizer: &str) -> Result<Progress, TrainError> {
    let name = path.display().to_string();
    let wrong = |why: String| TrainError::Data { file: name.clone(), why };
    let arrays = archive::read(path)?;
    let arrays: BTreeMap<&str, &Tensor> = arrays.iter().map(|(name, array)| (name.as_str(), array)).collect();
    let count = |array: &str| {
        let value = arrays.get(array).and_then(|array| u64::try_from(*array.to_i128()?.first()?).ok());
        value.ok_or_else(|| wrong(format!("it has no array `{array}`: it is no checkpoint of `ovolo train`")))
    };
    let (epochs, seed) = (count(EPOCHS)?, count(SEED)?);
    let texts = arrays.get(OPTIMIZER).and_then(|array| array.to_texts());
    let own = texts.and_then(|texts| texts.first().map(ToString::to_string)).unwrap_or_default();
    if own != optimizer {
        return Err(wrong(format!("it was written with the optimiser `{own}`: give --optimizer {own}")));
    }
    trainer.restore(&name, &arrays)?;
    Ok(Progress { epochs, seed, optimizer: own })
}
