//! Tensors in NumPy files: `.npy` (one array) and `.npz` (several named arrays).
//!
//! Reads little-endian elements of every type, in C or in Fortran
//! order (which is transposed, so that the tensor is row-major). Refuses other element types,
//! big-endian files, structured and pickled arrays, files that are longer or shorter than their
//! header says, and `.npz` archives that are compressed or larger than 4 GiB. Writes row-major arrays
//! in the default layout. Errors name the file.
//!
//! NumPy has no names for `bf16` and for the narrow types. They are written as the Python package `ml_dtypes` writes
//! them: `bf16` as `V2`, `f8e5m2` as `f1`, all other narrow types as `V1`. A file of `V1` does not say which of them it
//! holds: it is read as `f8e4m3fn`, and [`Tensor::reinterpreted`] gives it another type.

mod header;
mod zip;

use crate::file::{self, FileError};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorType, advance};
use header::{Element, Header};
use rustc_hash::FxHashSet;
use std::path::Path;

/// Why the arrays of a file cannot be read, or arrays cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] FileError),
    /// The file has another format, is damaged, or has features that are not supported.
    #[error("{file}: {why}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The same for one array of several.
    #[error("{file}: array `{array}`: {why}")]
    Array {
        /// The file.
        file: String,
        /// The array.
        array: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A file has two arrays with one name.
    #[error("{file}: there are two arrays named `{array}`")]
    Twice {
        /// The file.
        file: String,
        /// The array.
        array: String,
    },
    /// Two arrays to be written have the same name.
    #[error("{file}: two arrays to be written are named `{array}`")]
    SameName {
        /// The file.
        file: String,
        /// The name.
        array: String,
    },
}

/// Reads a `.npy` file.
///
/// # Errors
/// [`NpyError::Io`] if the file cannot be read, other variants if it does not hold a supported array.
pub fn read(path: impl AsRef<Path>) -> Result<Tensor, NpyError> {
    let path = path.as_ref();
    decode(&path.display().to_string(), &std::fs::read(path).map_err(FileError::at(path))?)
}

/// Writes a `.npy` file.
///
/// # Errors
/// [`NpyError::Io`].
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), NpyError> {
    let path = path.as_ref();
    Ok(file::write(path, &[&encode(tensor)]).map_err(FileError::at(path))?)
}

/// Reads the tensor in the bytes of a `.npy` file. `file` is its name in errors.
///
/// # Errors
/// [`NpyError`] for what the module refuses.
pub fn decode(file: &str, bytes: &[u8]) -> Result<Tensor, NpyError> {
    decode_array(bytes).map_err(|why| NpyError::File { file: file.to_owned(), why })
}

/// Returns the bytes of a `.npy` file.
pub fn encode(tensor: &Tensor) -> Vec<u8> {
    let texts = tensor.to_texts().map(|texts| text_bytes(&texts));
    let element = match &texts {
        Some((length, _)) => Element::Text(*length),
        None => Element::Number(tensor.ty().dtype),
    };
    let mut bytes = Header { element, fortran: false, shape: tensor.ty().shape.to_vec() }.write();
    match texts {
        Some((_, texts)) => bytes.extend(texts),
        None => bytes.extend_from_slice(tensor.to_layout(&Layout::PLAIN).bytes()),
    }
    bytes
}

/// Reads the arrays in the bytes of a `.npz` file. `file` is its name in errors.
///
/// # Errors
/// [`NpyError`] for what the module refuses.
pub fn decode_npz(file: &str, bytes: &[u8]) -> Result<Vec<(String, Tensor)>, NpyError> {
    let wrong = |why: String| NpyError::File { file: file.to_owned(), why };
    let wrong_array =
        |array: &str, why: String| NpyError::Array { file: file.to_owned(), array: array.to_owned(), why };
    let mut names = FxHashSet::default();
    let mut arrays = Vec::new();
    for (member, content) in zip::read(bytes).map_err(wrong)? {
        let name = member.strip_suffix(".npy").unwrap_or(&member).to_owned();
        let tensor = decode_array(content).map_err(|why| wrong_array(&name, why))?;
        if !names.insert(name.clone()) {
            return Err(NpyError::Twice { file: file.to_owned(), array: name });
        }
        arrays.push((name, tensor));
    }
    Ok(arrays)
}

/// Returns the bytes of a `.npz` file. `file` is its name in errors.
///
/// # Errors
/// [`NpyError`] for two arrays with one name, and for more than 4 GiB.
pub fn encode_npz<'a>(
    file: &str,
    arrays: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<Vec<u8>, NpyError> {
    let wrong = |why: String| NpyError::File { file: file.to_owned(), why };
    let mut names = FxHashSet::default();
    let mut members = Vec::new();
    for (name, tensor) in arrays {
        if !names.insert(name) {
            return Err(NpyError::SameName { file: file.to_owned(), array: name.to_owned() });
        }
        members.push((format!("{name}.npy"), encode(tensor)));
    }
    zip::write(&members).map_err(wrong)
}

fn decode_array(bytes: &[u8]) -> Result<Tensor, String> {
    let (header, elements) = Header::read(bytes)?;
    let dtype = match header.element {
        Element::Text(length) => return texts(header, length, elements),
        Element::Number(dtype) => dtype,
    };
    let ty = TensorType::plain(dtype, header.shape);
    if ty.bytes() != elements.len() {
        let (needed, held) = (ty.bytes(), elements.len());
        return Err(format!("{ty} has {needed} bytes, the file holds {held} after its header"));
    }
    let mut tensor = Tensor::zeros(ty);
    if header.fortran && tensor.ty().shape.rank() > 1 {
        transpose(elements, &mut tensor);
    } else {
        tensor.bytes_mut().copy_from_slice(elements);
    }
    if dtype == DType::Bool {
        tensor.bytes_mut().iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(tensor)
}

/// Reads strings: each has the same number of characters of 4 bytes, and those after its end are zero.
fn texts(header: Header, length: usize, bytes: &[u8]) -> Result<Tensor, String> {
    if header.fortran && header.shape.len() > 1 {
        return Err("its strings are in column-major order; save `numpy.ascontiguousarray(array)`".to_owned());
    }
    let shape = Shape::from(header.shape);
    if length * 4 * shape.count() != bytes.len() {
        let have = bytes.len();
        return Err(format!("{shape} strings of {length} characters do not fit the file's {have} bytes"));
    }
    let text = |at: usize| {
        let characters = bytes[at * length * 4..(at + 1) * length * 4].as_chunks::<4>().0;
        let text = characters.iter().map(|bytes| char::from_u32(u32::from_le_bytes(*bytes)));
        text.collect::<Option<String>>().map(|text| text.trim_end_matches('\0').to_owned())
    };
    let texts = (0..shape.count()).map(text).collect::<Option<Vec<_>>>();
    Ok(Tensor::from_texts(shape, &texts.ok_or("one of its strings has a character that is none")?))
}

/// Returns the bytes of strings, and how many characters each has. NumPy does not keep zeros at the end of a string.
fn text_bytes(texts: &[std::sync::Arc<str>]) -> (usize, Vec<u8>) {
    let length = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let padded = texts.iter().flat_map(|text| text.chars().chain(std::iter::repeat('\0')).take(length));
    (length, padded.flat_map(|character| u32::from(character).to_le_bytes()).collect())
}

/// Fills a row-major tensor from elements in column-major order.
fn transpose(source: &[u8], tensor: &mut Tensor) {
    let shape = tensor.ty().shape.clone();
    let size = tensor.ty().dtype.size();
    let mut strides = vec![size; shape.rank()];
    for axis in 1..shape.rank() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut index = vec![0; shape.rank()];
    for element in tensor.bytes_mut().chunks_exact_mut(size) {
        let from: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        element.copy_from_slice(&source[from..from + size]);
        advance(&mut index, &shape);
    }
}
