//! Tensors in the format safetensors: the length of a header as eight bytes, the header as JSON, and the elements, all
//! little-endian. The header says for each name the element type, the shape, and the range of bytes; `__metadata__` has
//! texts.

use ovolo::tensor::{DType, Shape, Tensor, TensorType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The name of the part of the header that has texts.
const METADATA: &str = "__metadata__";
/// The multiple of bytes at which the elements begin.
const ALIGNMENT: usize = 8;

/// The element types by their names in the format.
const TYPES: &[(&str, DType)] = &[
    ("BOOL", DType::Bool),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E4M3", DType::F8E4M3FN),
    ("I16", DType::I16),
    ("U16", DType::U16),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("I32", DType::I32),
    ("U32", DType::U32),
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("I64", DType::I64),
    ("U64", DType::U64),
];

/// What the header says of one tensor.
#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// What a file has: tensors and texts, by name.
pub(crate) type Content = (Vec<(String, Tensor)>, BTreeMap<String, String>);

/// Why bytes are no such file, or tensors cannot be written as one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SafetensorsError {
    /// The header is not as long as it says, or no JSON.
    #[error("it is no safetensors file: {0}")]
    Header(String),
    /// The entry of a tensor is wrong.
    #[error("tensor `{name}`: {why}")]
    Entry {
        /// The tensor.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The format has no such element type.
    #[error("tensor `{name}` has elements {dtype}, for which safetensors has no type: write a `.npz` file")]
    Type {
        /// The tensor.
        name: String,
        /// Its element type.
        dtype: DType,
    },
}

/// Returns the bytes of a file with these tensors, in this order, and these texts.
///
/// # Errors
/// The format has no type for the elements of one.
pub(crate) fn encode<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a Tensor)>,
    texts: &BTreeMap<String, String>,
) -> Result<Vec<u8>, SafetensorsError> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    if !texts.is_empty() {
        header.insert(METADATA.to_owned(), serde_json::json!(texts));
    }
    for (name, tensor) in tensors {
        let dtype = tensor.ty().dtype;
        let known = TYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| (*name).to_owned());
        let known = known.ok_or_else(|| SafetensorsError::Type { name: name.to_owned(), dtype })?;
        let begin = data.len();
        data.extend_from_slice(tensor.bytes());
        let entry =
            Entry { dtype: known, shape: tensor.ty().shape.to_vec(), data_offsets: [begin, data.len()] };
        header.insert(name.to_owned(), serde_json::json!(entry));
    }
    let mut head = Value::Object(header).to_string().into_bytes();
    head.resize(head.len().next_multiple_of(ALIGNMENT), b' ');
    let length = (head.len() as u64).to_le_bytes();
    Ok([&length[..], &head, &data].concat())
}

/// Reads a file.
///
/// # Errors
/// Its header is damaged, or what it says of a tensor does not fit.
pub(crate) fn decode(bytes: &[u8]) -> Result<Content, SafetensorsError> {
    let short = || SafetensorsError::Header("it is shorter than its header says".to_owned());
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (head, data) = rest.split_at_checked(length).ok_or_else(short)?;
    let wrong = |why: serde_json::Error| SafetensorsError::Header(why.to_string());
    let header: BTreeMap<String, Value> = serde_json::from_slice(head).map_err(wrong)?;
    let (mut tensors, mut texts) = (Vec::new(), BTreeMap::new());
    for (name, value) in header {
        if name == METADATA {
            texts = serde_json::from_value(value).map_err(wrong)?;
            continue;
        }
        let entry: Result<Entry, _> = serde_json::from_value(value);
        let read = entry.map_err(|why| why.to_string()).and_then(|entry| tensor(&entry, data));
        tensors.push(match read {
            Ok(tensor) => (name, tensor),
            Err(why) => return Err(SafetensorsError::Entry { name, why }),
        });
    }
    Ok((tensors, texts))
}

fn tensor(entry: &Entry, data: &[u8]) -> Result<Tensor, String> {
    let known = TYPES.iter().find(|(name, _)| *name == entry.dtype).map(|(_, dtype)| *dtype);
    let dtype =
        known.ok_or_else(|| format!("its element type is `{}`, which ovolo does not have", entry.dtype))?;
    let [begin, end] = entry.data_offsets;
    let bytes =
        data.get(begin..end).ok_or_else(|| format!("its bytes {begin} to {end} are not in the file"))?;
    let count = entry.shape.iter().try_fold(dtype.size(), |count, size| count.checked_mul(*size));
    if count != Some(bytes.len()) {
        let shape = Shape::from(entry.shape.clone());
        return Err(format!("{} bytes are no {dtype}{shape}", bytes.len()));
    }
    let mut tensor = Tensor::zeros(TensorType::plain(dtype, entry.shape.clone()));
    if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err("a truth value is neither 0 nor 1".to_owned());
    }
    tensor.bytes_mut().copy_from_slice(bytes);
    Ok(tensor)
}
