//! Files of named tensors: `.npz`, or `.safetensors` if the name ends so.

use super::error::TrainError;
use super::safetensors;
use ovolo::tensor::{DType, Shape, Tensor};
use ovolo::{file, npy};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns whether a file is of the format safetensors, by its name.
fn is_safetensors(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
}

/// Returns whether a name is that of a file of tensors.
pub(crate) fn is_named(path: &Path) -> bool {
    is_safetensors(path) || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

/// Reads a file. In the format safetensors, texts are scalars of text.
///
/// # Errors
/// The file cannot be read, or is no such file.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, TrainError> {
    let name = path.display().to_string();
    let wrong = |why: String| TrainError::Data { file: name.clone(), why };
    let bytes = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    if !is_safetensors(path) {
        return Ok(npy::decode_npz(&name, &bytes)?.into_iter().collect());
    }
    let (tensors, texts) = safetensors::decode(&bytes).map_err(|why| wrong(why.to_string()))?;
    let text = |text: &str| Tensor::from_texts(Shape::from(Vec::new()), &[text]);
    let texts = texts.into_iter().map(|(name, value)| (name, text(&value)));
    Ok(tensors.into_iter().chain(texts).collect())
}

/// Writes a file. A reader sees the old file or the new one, never a part of one.
///
/// # Errors
/// The file cannot be written; a `.npz` file has more than 4 GiB; or a tensor has elements that safetensors does not have.
pub(crate) fn write<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), TrainError> {
    let name = path.display().to_string();
    let wrong = |why: String| TrainError::Data { file: name.clone(), why };
    let bytes = if is_safetensors(path) {
        let (texts, tensors): (Vec<_>, Vec<_>) = tensors
            .partition(|(_, tensor)| tensor.ty().dtype == DType::Text && tensor.ty().shape.rank() == 0);
        let text = |tensor: &Tensor| tensor.to_texts()?.first().map(ToString::to_string);
        let texts = texts.into_iter().filter_map(|(name, tensor)| Some((name.to_owned(), text(tensor)?)));
        safetensors::encode(tensors.into_iter(), &texts.collect()).map_err(|why| wrong(why.to_string()))?
    } else {
        npy::encode_npz(&name, tensors)?
    };
    file::write(path, &[&bytes]).map_err(|why| wrong(why.to_string()))
}
