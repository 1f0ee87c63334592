//! Element types and elements as ONNX's files store them.
//!
//! A file holds the elements of a tensor as bytes, or in a list of numbers of one of a few types. Integers of 2 and 4
//! bits and floats of 4 bits are packed, the first element into the low bits of a byte; a complex number is two floats.

use super::Refusal;
use super::proto::TensorProto;
use crate::tensor::{DType, Shape, Tensor, TensorType};

/// The largest constant, in bytes. A larger one means that the file is damaged.
const MAX_BYTES: usize = 1 << 36;

/// The number of strings among ONNX's element types.
pub(super) const STRING: i32 = 8;

/// ONNX's numbers of the element types.
const TYPES: &[(i32, DType)] = &[
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (STRING, DType::Text),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (14, DType::C64),
    (15, DType::C128),
    (16, DType::BF16),
    (17, DType::F8E4M3FN),
    (18, DType::F8E4M3FNUZ),
    (19, DType::F8E5M2),
    (20, DType::F8E5M2FNUZ),
    (21, DType::U4),
    (22, DType::I4),
    (23, DType::F4E2M1),
    (24, DType::F8E8M0),
    (25, DType::U2),
    (26, DType::I2),
];

/// Returns the element type with one of ONNX's numbers. The error names the type if ovolo does not support it.
pub(crate) fn element_type(number: i32) -> Result<DType, Refusal> {
    if let Some((_, dtype)) = TYPES.iter().find(|(known, _)| *known == number) {
        return Ok(*dtype);
    }
    let name = match number {
        0 => "undefined",
        27 | 28 => "a 6-bit float",
        _ => {
            return Err(Refusal::other(format!(
                "its element type has the number {number}, which ONNX does not define"
            )));
        }
    };
    let known: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    Err(Refusal::other(format!("its element type is {name}; ovolo has {}", known.join(", "))))
}

/// Returns the element type with one of the names that attributes had before they had numbers.
pub(crate) fn element_named(name: &str) -> Result<DType, Refusal> {
    const NAMES: &[(&str, DType)] = &[
        ("FLOAT", DType::F32),
        ("UINT8", DType::U8),
        ("INT8", DType::I8),
        ("UINT16", DType::U16),
        ("INT16", DType::I16),
        ("INT32", DType::I32),
        ("INT64", DType::I64),
        ("BOOL", DType::Bool),
        ("FLOAT16", DType::F16),
        ("DOUBLE", DType::F64),
        ("UINT32", DType::U32),
        ("UINT64", DType::U64),
        ("STRING", DType::Text),
    ];
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    found.ok_or_else(|| Refusal::other(format!("`{name}` is not the name of an element type that ovolo has")))
}

impl DType {
    /// Returns the number of the type in ONNX's `TensorProto.DataType`.
    pub fn onnx_number(self) -> i32 {
        TYPES.iter().find(|(_, known)| *known == self).map_or(0, |(number, _)| *number)
    }
}

/// Returns the type of a tensor in a file.
pub(super) fn tensor_type(proto: &TensorProto) -> Result<TensorType, Refusal> {
    checked_type(element_type(proto.data_type)?, dims(proto)?)
}

/// Returns the dimensions of a tensor in a file.
pub(super) fn dims(proto: &TensorProto) -> Result<Vec<usize>, Refusal> {
    let dims: Option<Vec<usize>> = proto.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    dims.ok_or_else(|| Refusal::other(format!("its shape {:?} has a negative dimension", proto.dims)))
}

/// Makes a type, and refuses one that is larger than [`MAX_BYTES`].
pub(crate) fn checked_type(dtype: DType, dims: Vec<usize>) -> Result<TensorType, Refusal> {
    let bytes =
        dims.iter().filter(|&&dim| dim > 0).try_fold(dtype.size(), |size, &dim| size.checked_mul(dim));
    if bytes.is_none_or(|bytes| bytes > MAX_BYTES) {
        return Err(Refusal::other(format!(
            "its shape {} is larger than {} GiB",
            Shape::new(dims),
            MAX_BYTES >> 30
        )));
    }
    Ok(TensorType::plain(dtype, Shape::new(dims)))
}

/// Returns the number of bytes that the elements of a tensor have in a file.
pub(super) fn file_bytes(ty: &TensorType) -> usize {
    match ty.dtype.bits() {
        bits if bits < 8 => ty.shape.count().div_ceil(8 / bits),
        _ => ty.bytes(),
    }
}

/// Returns whether the bytes in a file are those in memory, on a machine that stores the low byte first.
pub(super) fn as_stored(dtype: DType) -> bool {
    !matches!(dtype, DType::Bool | DType::Text) && dtype.bits() >= 8
}

/// Makes a tensor from the bytes of its elements in a file.
pub(super) fn raw(bytes: &[u8], ty: TensorType) -> Result<Tensor, Refusal> {
    let needed = file_bytes(&ty);
    if bytes.len() != needed {
        return Err(Refusal::other(format!(
            "{ty} needs {needed} bytes, but its data has {}; the file is damaged, export it again",
            bytes.len()
        )));
    }
    if ty.dtype == DType::Text {
        return Err(Refusal::other("its data is bytes, but strings are stored one by one; export it again"));
    }
    let mut tensor = Tensor::zeros(ty);
    let dtype = tensor.ty().dtype;
    match dtype {
        DType::Bool => {
            let pairs = tensor.bytes_mut().iter_mut().zip(bytes);
            pairs.for_each(|(to, from)| *to = u8::from(*from != 0));
        }
        _ if dtype.bits() < 8 => unpack(bytes, dtype.bits(), tensor.bytes_mut()),
        _ => tensor.bytes_mut().copy_from_slice(bytes),
    }
    if cfg!(target_endian = "big") {
        reverse(&mut tensor);
    }
    Ok(tensor)
}

/// Returns the bytes of a tensor's elements in a file. Strings have none: they are stored one by one.
pub(super) fn stored(tensor: &Tensor) -> Vec<u8> {
    let mut plain = tensor.to_layout(&crate::tensor::Layout::PLAIN);
    if cfg!(target_endian = "big") {
        reverse(&mut plain);
    }
    let bits = plain.ty().dtype.bits();
    if bits >= 8 {
        return plain.bytes().to_vec();
    }
    let pack = |group: &[u8]| group.iter().rev().fold(0, |byte, element| byte << bits | element);
    plain.bytes().chunks(8 / bits).map(pack).collect()
}

/// Swaps the bytes of each number.
fn reverse(tensor: &mut Tensor) {
    let dtype = tensor.ty().dtype;
    let size = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    tensor.bytes_mut().chunks_exact_mut(size).for_each(<[u8]>::reverse);
}

/// Writes each group of this many bits into a byte of its own, the low ones first.
fn unpack(packed: &[u8], bits: usize, to: &mut [u8]) {
    let each = 8 / bits;
    for (at, element) in to.iter_mut().enumerate() {
        *element = packed[at / each] >> (at % each * bits) & ((1 << bits) - 1);
    }
}

/// Returns whether a tensor in a file has elements in a list of numbers.
pub(super) fn holds_typed(proto: &TensorProto) -> bool {
    let floats = proto.float_data.len() + proto.double_data.len();
    floats
        + proto.string_data.len()
        + proto.int32_data.len()
        + proto.int64_data.len()
        + proto.uint64_data.len()
        > 0
}

/// Makes a tensor from the list of numbers in which a file holds its elements.
pub(super) fn typed(proto: &TensorProto, ty: TensorType) -> Result<Tensor, Refusal> {
    let have = match ty.dtype {
        DType::F32 | DType::C64 => proto.float_data.len(),
        DType::F64 | DType::C128 => proto.double_data.len(),
        DType::I64 => proto.int64_data.len(),
        DType::Text => proto.string_data.len(),
        DType::U32 | DType::U64 => proto.uint64_data.len(),
        _ => proto.int32_data.len(),
    };
    let need = match ty.dtype {
        dtype if dtype.is_complex() => 2 * ty.shape.count(),
        dtype if dtype.bits() < 8 => file_bytes(&ty),
        _ => ty.shape.count(),
    };
    if have != need {
        return Err(Refusal::other(format!(
            "{ty} needs {need} elements, but its data has {have}; the file is damaged, export it again"
        )));
    }
    let shape = ty.shape.clone();
    let strange =
        |value: i128| Refusal::other(format!("its data has the element {value}, which is no {}", ty.dtype));
    Ok(match ty.dtype {
        DType::F32 => Tensor::from_elements(shape, &proto.float_data),
        DType::F64 => Tensor::from_elements(shape, &proto.double_data),
        DType::I64 => Tensor::from_elements(shape, &proto.int64_data),
        DType::I32 => Tensor::from_elements(shape, &proto.int32_data),
        DType::U64 => Tensor::from_elements(shape, &proto.uint64_data),
        DType::Text => {
            let texts = proto.string_data.iter().map(|bytes| std::str::from_utf8(bytes));
            let texts = texts.collect::<Result<Vec<_>, _>>();
            let texts = texts.map_err(|_| Refusal::other("it has a string that is not UTF-8"))?;
            Tensor::from_texts(shape, &texts)
        }
        DType::C64 => Tensor::from_elements(shape, proto.float_data.as_chunks::<2>().0),
        DType::C128 => Tensor::from_elements(shape, proto.double_data.as_chunks::<2>().0),
        DType::F16 | DType::BF16 => {
            let bits: Result<Vec<u16>, Refusal> = proto
                .int32_data
                .iter()
                .map(|&value| u16::try_from(value).map_err(|_| strange(value.into())))
                .collect();
            Tensor::from_elements(shape, &bits?).reinterpreted(ty.dtype)
        }
        dtype if dtype.bits() < 8 || dtype.is_narrow_float() => {
            let bytes: Result<Vec<u8>, Refusal> = proto
                .int32_data
                .iter()
                .map(|&value| u8::try_from(value & 0xff).map_err(|_| strange(value.into())))
                .collect();
            raw(&bytes?, ty)?
        }
        dtype => {
            let values: Vec<i128> = match dtype {
                DType::U32 => proto.uint64_data.iter().map(|&value| value.into()).collect(),
                _ => proto.int32_data.iter().map(|&value| value.into()).collect(),
            };
            let (least, most) = dtype.integer_range().unwrap_or_default();
            let fits = |value: &&i128| dtype == DType::Bool || (least..=most).contains(*value);
            if let Some(value) = values.iter().find(|value| !fits(value)) {
                return Err(strange(*value));
            }
            Tensor::from_i128(dtype, shape, &values)
        }
    })
}
