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

mod zip;

use crate::file::{self, FileError};
use crate::tensor::{DType, Layout, Tensor, TensorType, advance};
use npyz::{Endianness, NpyHeader, Order, TypeChar, WriterBuilder};
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

/// The header of a plain array has a few hundred bytes; a longer one is damaged, or describes an unsupported array.
const LONGEST_HEADER: usize = 4096;

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
/// As [`encode`], and [`NpyError::Io`].
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), NpyError> {
    let path = path.as_ref();
    Ok(file::write(path, &[&encode(&path.display().to_string(), tensor)?]).map_err(FileError::at(path))?)
}

/// Reads the tensor in the bytes of a `.npy` file. `file` is its name in errors.
///
/// # Errors
/// [`NpyError`] for what the module refuses.
pub fn decode(file: &str, bytes: &[u8]) -> Result<Tensor, NpyError> {
    decode_array(bytes).map_err(|why| NpyError::File { file: file.to_owned(), why })
}

/// Returns the bytes of a `.npy` file. `file` is its name in errors.
///
/// # Errors
/// [`NpyError`] if the header cannot be written.
pub fn encode(file: &str, tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    encode_array(tensor).map_err(|why| NpyError::File { file: file.to_owned(), why })
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
    let wrong_array =
        |array: &str, why: String| NpyError::Array { file: file.to_owned(), array: array.to_owned(), why };
    let mut names = FxHashSet::default();
    let mut members = Vec::new();
    for (name, tensor) in arrays {
        if !names.insert(name) {
            return Err(NpyError::SameName { file: file.to_owned(), array: name.to_owned() });
        }
        let content = encode_array(tensor).map_err(|why| wrong_array(name, why))?;
        members.push((format!("{name}.npy"), content));
    }
    zip::write(&members).map_err(wrong)
}

/// The name of `f8e5m2` in a header.
const SHORT_FLOAT: &[u8] = b"'<f1'";

/// The name of a byte without a type in a header.
const UNNAMED: &[u8] = b"'<V1'";

/// Returns where a header has the name of an element type.
fn place(bytes: &[u8], name: &[u8]) -> Option<usize> {
    let header = &bytes[..bytes.len().min(LONGEST_HEADER)];
    let descr = header.windows(7).position(|part| part == b"'descr'")? + 7;
    let at = descr + header[descr..].windows(name.len()).position(|part| part == name)?;
    header[descr..at].iter().all(|byte| b": ".contains(byte)).then_some(at)
}

fn decode_array(bytes: &[u8]) -> Result<Tensor, String> {
    check_header(bytes)?;
    // The parser of the header does not know this type, so it reads one of the same size.
    let half = place(bytes, SHORT_FLOAT);
    let renamed = half.map(|at| {
        let mut renamed = bytes.to_vec();
        renamed[at..at + SHORT_FLOAT.len()].copy_from_slice(UNNAMED);
        renamed
    });
    let mut rest = renamed.as_deref().unwrap_or(bytes);
    let header = NpyHeader::from_reader(&mut rest).map_err(|error| format!("not a `.npy` array: {error}"))?;
    let dtype = if half.is_some() { DType::F8E5M2 } else { dtype(&header.dtype())? };
    let shape = header.shape().iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or("the shape is too large for this machine")?;
    if dtype == DType::Text {
        return texts(&header, shape, rest);
    }
    let ty = TensorType::plain(dtype, shape);
    let size = shape_bytes(header.shape()).filter(|_| ty.bytes() == rest.len());
    if size.is_none() {
        return Err(format!("{ty} has {} bytes, the file holds {} after its header", ty.bytes(), rest.len()));
    }
    let mut tensor = Tensor::zeros(ty);
    if header.order() == Order::Fortran && header.shape().len() > 1 {
        transpose(rest, &mut tensor);
    } else {
        tensor.bytes_mut().copy_from_slice(rest);
    }
    if dtype == DType::Bool {
        tensor.bytes_mut().iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Ok(tensor)
}

/// Refuses what the parser of the header cannot handle: other files, headers without an end, and shapes whose size
/// overflows.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"\x93NUMPY") || bytes.len() < 12 {
        let what = if bytes.starts_with(b"PK") { "; it is an archive, as `.npz` files are" } else { "" };
        return Err(format!("not a `.npy` array: it does not begin like one{what}"));
    }
    let (start, length) = match bytes[6] {
        1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
        _ => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
    };
    if length > LONGEST_HEADER {
        return Err(format!("its header has {length} bytes, more than any plain array needs"));
    }
    let header = bytes.get(start..start + length).ok_or("it ends within its header")?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
    let shape = header.split_once("shape").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
    if let Some((dims, _)) = shape {
        let dims: Vec<u64> = dims.split(',').filter_map(|dim| dim.trim().parse().ok()).collect();
        shape_bytes(&dims).ok_or("the shape is too large for any machine")?;
    }
    Ok(())
}

/// Returns the bytes of a shape with 8-byte elements; `None` if a product overflows. Empty dimensions are left out
/// of the product.
fn shape_bytes(dims: &[u64]) -> Option<u64> {
    dims.iter()
        .try_fold(8_u64, |bytes, &size| bytes.checked_mul(size.max(1)))
        .filter(|&bytes| bytes < 1 << 56)
}

fn dtype(written: &npyz::DType) -> Result<DType, String> {
    let npyz::DType::Plain(ty) = written else {
        return Err("it is a structured array; save its fields one by one".to_owned());
    };
    if ty.endianness() == Endianness::Big && ty.size_field() > 1 {
        return Err(format!(
            "element type `{ty}` is big-endian; save it as `array.astype(array.dtype.newbyteorder(\"<\"))`"
        ));
    }
    match (ty.type_char(), ty.size_field()) {
        (TypeChar::Bool, 1) => Ok(DType::Bool),
        (TypeChar::Uint, 1) => Ok(DType::U8),
        (TypeChar::Uint, 2) => Ok(DType::U16),
        (TypeChar::Uint, 4) => Ok(DType::U32),
        (TypeChar::Uint, 8) => Ok(DType::U64),
        (TypeChar::Int, 1) => Ok(DType::I8),
        (TypeChar::Int, 2) => Ok(DType::I16),
        (TypeChar::Int, 4) => Ok(DType::I32),
        (TypeChar::Int, 8) => Ok(DType::I64),
        (TypeChar::RawData, 1) => Ok(DType::F8E4M3FN),
        (TypeChar::RawData, 2) => Ok(DType::BF16),
        (TypeChar::Complex, 8) => Ok(DType::C64),
        (TypeChar::Complex, 16) => Ok(DType::C128),
        (TypeChar::UnicodeStr, _) => Ok(DType::Text),
        (TypeChar::Float, 2) => Ok(DType::F16),
        (TypeChar::Float, 4) => Ok(DType::F32),
        (TypeChar::Float, 8) => Ok(DType::F64),
        (TypeChar::Object, _) => Err("it holds pickled Python objects, which are not supported".to_owned()),
        _ => Err(format!(
            "element type `{ty}` is not supported; the supported types are booleans, integers, floats, complex numbers and strings"
        )),
    }
}

/// Reads strings: each has the same number of characters of 4 bytes, and those after its end are zero.
fn texts(header: &NpyHeader, shape: Vec<usize>, bytes: &[u8]) -> Result<Tensor, String> {
    let npyz::DType::Plain(ty) = header.dtype() else { return Err("its strings have no length".to_owned()) };
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err("its strings are in column-major order; save `numpy.ascontiguousarray(array)`".to_owned());
    }
    let shape = crate::tensor::Shape::from(shape);
    let length = usize::try_from(ty.size_field()).unwrap_or(usize::MAX);
    let needed = length.checked_mul(4).and_then(|size| size.checked_mul(shape.count()));
    if shape_bytes(header.shape()).is_none() || needed != Some(bytes.len()) {
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

fn encode_array(tensor: &Tensor) -> Result<Vec<u8>, String> {
    let texts = tensor.to_texts().map(|texts| text_bytes(&texts));
    let wide = texts.as_ref().map_or_else(String::new, |(length, _)| format!("<U{length}"));
    let name = match tensor.ty().dtype {
        DType::Text => wide.as_str(),
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 => "<V2",
        _ => "<V1",
    };
    let dtype = npyz::DType::Plain(name.parse().map_err(|error| format!("element type `{name}`: {error}"))?);
    let shape: Vec<u64> = tensor.ty().shape.iter().map(|&size| size as u64).collect();
    let mut bytes = npyz::WriteOptions::new_header_only()
        .dtype(dtype)
        .shape(&shape)
        .writer(Vec::new())
        .write_header_only()
        .map_err(|error| error.to_string())?;
    if let (DType::F8E5M2, Some(at)) = (tensor.ty().dtype, place(&bytes, UNNAMED)) {
        bytes[at..at + UNNAMED.len()].copy_from_slice(SHORT_FLOAT);
    }
    match texts {
        Some((_, texts)) => bytes.extend(texts),
        None => bytes.extend_from_slice(tensor.to_layout(&Layout::PLAIN).bytes()),
    }
    Ok(bytes)
}
