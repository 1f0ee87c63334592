//! The constants of a model: tensors in its file, tensors in other files, and tensors whose values are absent.
//!
//! Large ones stay in the mapped file until they are read, so that the original and the packed weights need not be
//! in memory at the same time.

use super::proto::TensorProto;
use super::{MissingWeights, OnnxError, Refusal};
use crate::tensor::{DType, Lender, Shape, Tensor, TensorType};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The largest constant, in bytes. A larger one means that the file is damaged.
const MAX_BYTES: usize = 1 << 36;

/// Constants of fewer bytes are copied while the model is imported.
const SMALL: usize = 16 << 10;

/// A range of bytes in a mapped file.
struct Stretch {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl Stretch {
    /// Returns the range of these bytes in a map; `None` if they are not in it.
    fn find(map: &Arc<Mmap>, bytes: &[u8]) -> Option<Self> {
        let start = bytes.as_ptr().addr().checked_sub(map.as_ptr().addr())?;
        let range = start..start.checked_add(bytes.len())?;
        (range.end <= map.len()).then(|| Self { map: Arc::clone(map), range })
    }
}

impl AsRef<[u8]> for Stretch {
    fn as_ref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}

impl Lender for Stretch {
    fn rest(&self) {
        #[cfg(unix)]
        {
            let (advice, range) = (memmap2::UncheckedAdvice::DontNeed, self.range.clone());
            // SAFETY: the file is mapped for reading; pages that are let go are read from it again. If this call
            // fails, it only costs memory.
            let _ = unsafe { self.map.unchecked_advise_range(advice, range.start, range.len()) };
        }
    }
}

/// Reads constants, and keeps the model's file and those of external data mapped.
pub(super) struct Weights {
    folder: Option<PathBuf>,
    /// The file of the model; `None` if the model was given in memory.
    model: Option<Arc<Mmap>>,
    policy: MissingWeights,
    files: BTreeMap<String, Arc<Mmap>>,
    /// Initializers whose values were generated.
    pub seeded: Vec<String>,
    /// Initializers whose values are missing.
    pub missing: Vec<String>,
}

impl Weights {
    /// Makes a reader that reads external data from a folder; `None` refuses external data.
    pub(crate) fn new(folder: Option<PathBuf>, model: Option<Arc<Mmap>>, policy: MissingWeights) -> Self {
        Self { folder, model, policy, files: BTreeMap::new(), seeded: Vec::new(), missing: Vec::new() }
    }

    /// Returns the value of a constant. `what` is its name in messages.
    ///
    /// Stripped weights are generated. If they are to be refused, they are added to `missing` and their value is
    /// zero.
    pub(crate) fn read(&mut self, proto: &TensorProto, what: &str) -> Result<Tensor, OnnxError> {
        let ty = tensor_type(proto).map_err(|why| refusal(what, why))?;
        let count = ty.shape.count();
        let external = proto.data_location == 1 || !proto.external_data.is_empty();
        let held = if external {
            self.present(proto)
        } else {
            !proto.raw_data.is_empty() || typed_count(proto, ty.dtype) > 0
        };
        if let Some((mean, deviation)) = distribution(proto).filter(|_| count > 0 && !held) {
            if self.policy == MissingWeights::Refuse {
                self.missing.push(format!("`{}` {ty}", proto.name));
                return Ok(Tensor::zeros(TensorType::plain(ty.dtype, [0_usize])));
            }
            self.seeded.push(proto.name.clone());
            return Ok(seeded(&proto.name, ty, mean, deviation));
        }
        if external {
            return self.external(proto, ty).map_err(|why| refusal(what, why));
        }
        if count > 0 && !held {
            let why = format!(
                "{ty} needs {} bytes, but the file holds none for it; export the model again",
                ty.bytes()
            );
            return Err(refusal(what, Refusal::other(why)));
        }
        if proto.raw_data.is_empty() {
            typed_tensor(proto, ty).map_err(|why| refusal(what, why))
        } else {
            raw_tensor(&proto.raw_data, ty, self.model.as_ref()).map_err(|why| refusal(what, why))
        }
    }

    /// Returns whether the file of the external data exists.
    fn present(&self, proto: &TensorProto) -> bool {
        let location = proto.external_data.iter().find(|entry| entry.key == "location");
        match (&self.folder, location) {
            (Some(folder), Some(location)) => folder.join(&location.value).exists(),
            _ => false,
        }
    }

    fn external(&mut self, proto: &TensorProto, ty: TensorType) -> Result<Tensor, Refusal> {
        let entry = |key: &str| proto.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(Refusal::other(format!(
                    "the {key} of its external data is `{text}`, not a number of bytes"
                ))),
            },
        };
        let location = entry("location")
            .ok_or_else(|| Refusal::other("its data is external, but no location says where"))?
            .to_owned();
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let size = ty.bytes();
        if let Some(length) = length.filter(|&length| length != size) {
            return Err(Refusal::other(format!(
                "{ty} needs {size} bytes, but its external data in `{location}` is said to have {length}"
            )));
        }
        let file = self.file(&location)?;
        let held = file.as_ref().map_or(0, |map| map.len());
        let end = offset.checked_add(size).filter(|&end| end <= held).ok_or_else(|| {
            Refusal::other(format!(
                "{ty} needs {size} bytes at offset {offset} of `{location}`, but that file has only {held}; \
                 it is truncated or of another model"
            ))
        })?;
        match file {
            Some(map) => raw_tensor(&map[offset..end], ty, Some(&map)),
            None => Ok(Tensor::zeros(ty)),
        }
    }

    /// Returns the mapped file; `None` for an empty one.
    fn file(&mut self, location: &str) -> Result<Option<Arc<Mmap>>, Refusal> {
        if let Some(map) = self.files.get(location) {
            return Ok(Some(Arc::clone(map)));
        }
        let folder = self.folder.as_ref().ok_or_else(|| {
            Refusal::other(format!(
                "its data is in `{location}`, but the model was read from memory; load it from its file"
            ))
        })?;
        let real = locate(folder, location)?;
        let Some(map) = map(&real).map_err(|why| absent(location, &why))? else {
            return Ok(None);
        };
        let map = Arc::new(map);
        self.files.insert(location.to_owned(), Arc::clone(&map));
        Ok(Some(map))
    }
}

/// Returns the path of a file of external data, which must be in the model's folder or below.
pub(super) fn locate(folder: &Path, location: &str) -> Result<PathBuf, Refusal> {
    let outside = || {
        Refusal::other(format!(
            "its data is in `{location}`, outside of the model's folder; ovolo reads external data only from that folder or below"
        ))
    };
    if !Path::new(location).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Err(outside());
    }
    let real = folder.join(location).canonicalize().map_err(|why| absent(location, &why))?;
    if !real.starts_with(folder.canonicalize().map_err(|why| absent(location, &why))?) {
        return Err(outside());
    }
    Ok(real)
}

fn absent(location: &str, why: &std::io::Error) -> Refusal {
    Refusal::other(format!(
        "its data is in `{location}`, which cannot be read from the model's folder ({why}); put that file beside the model"
    ))
}

/// Maps a file for reading; `None` for an empty one, which cannot be mapped.
pub(crate) fn map(path: &Path) -> std::io::Result<Option<Mmap>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(std::io::Error::other("it is a folder"));
    }
    if metadata.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the map is read until the model's constants are packed. A file that another program truncates
    // meanwhile ends the process, as with any mapped file, which cannot be prevented.
    let map = unsafe { Mmap::map(&file)? };
    #[cfg(unix)]
    map.advise(memmap2::Advice::Sequential)?; // Each byte is read once, in the order of the file.
    Ok(Some(map))
}

/// Returns the number of an element type in ONNX.
pub(super) const fn element_number(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::BF16 => 16,
    }
}

/// Returns the element type with one of ONNX's numbers. The error names the type if ovolo does not support it.
pub(super) fn element_type(number: i32) -> Result<DType, Refusal> {
    let name = match number {
        1 => return Ok(DType::F32),
        2 => return Ok(DType::U8),
        3 => return Ok(DType::I8),
        6 => return Ok(DType::I32),
        7 => return Ok(DType::I64),
        9 => return Ok(DType::Bool),
        10 => return Ok(DType::F16),
        11 => return Ok(DType::F64),
        16 => return Ok(DType::BF16),
        0 => "undefined",
        4 => "uint16",
        5 => "int16",
        8 => "string",
        12 => "uint32",
        13 => "uint64",
        14 => "complex64",
        15 => "complex128",
        17..=20 | 24 => "an 8-bit float",
        21 | 22 => "a 4-bit integer",
        23 => "a 4-bit float",
        _ => {
            return Err(Refusal::other(format!(
                "its element type has the number {number}, which ONNX does not define"
            )));
        }
    };
    let known: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    Err(Refusal::other(format!("its element type is {name}; ovolo has {}", known.join(", "))))
}

fn refusal(what: &str, why: Refusal) -> OnnxError {
    OnnxError::Weight { tensor: what.to_owned(), why }
}

fn tensor_type(proto: &TensorProto) -> Result<TensorType, Refusal> {
    let dtype = element_type(proto.data_type)?;
    let dims: Option<Vec<usize>> = proto.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let dims =
        dims.ok_or_else(|| Refusal::other(format!("its shape {:?} has a negative dimension", proto.dims)))?;
    checked_type(dtype, dims)
}

/// Makes a type, and refuses one that is larger than [`MAX_BYTES`].
pub(super) fn checked_type(dtype: DType, dims: Vec<usize>) -> Result<TensorType, Refusal> {
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

/// Makes a tensor of these bytes, which may be those of a mapped file.
fn raw_tensor(bytes: &[u8], ty: TensorType, map: Option<&Arc<Mmap>>) -> Result<Tensor, Refusal> {
    if bytes.len() != ty.bytes() {
        return Err(Refusal::other(format!(
            "{ty} needs {} bytes, but its data has {}; the file is damaged, export it again",
            ty.bytes(),
            bytes.len()
        )));
    }
    let as_stored = ty.dtype != DType::Bool && cfg!(target_endian = "little");
    let lent = map.filter(|_| as_stored && bytes.len() >= SMALL).and_then(|map| Stretch::find(map, bytes));
    if let Some(tensor) = lent.and_then(|stretch| Tensor::lent(ty.clone(), Box::new(stretch))) {
        return Ok(tensor);
    }
    let mut tensor = Tensor::zeros(ty);
    tensor.bytes_mut().copy_from_slice(bytes);
    if tensor.ty().dtype == DType::Bool {
        for byte in tensor.bytes_mut() {
            *byte = u8::from(*byte != 0);
        }
    } else if cfg!(target_endian = "big") {
        let size = tensor.ty().dtype.size();
        tensor.bytes_mut().chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok(tensor)
}

fn typed_count(proto: &TensorProto, dtype: DType) -> usize {
    match dtype {
        DType::F32 => proto.float_data.len(),
        DType::F64 => proto.double_data.len(),
        DType::I64 => proto.int64_data.len(),
        _ => proto.int32_data.len(),
    }
}

fn typed_tensor(proto: &TensorProto, ty: TensorType) -> Result<Tensor, Refusal> {
    let (have, need) = (typed_count(proto, ty.dtype), ty.shape.count());
    if have != need {
        return Err(Refusal::other(format!(
            "{ty} needs {need} elements, but its data has {have}; the file is damaged, export it again"
        )));
    }
    let shape = ty.shape.clone();
    let bits = || {
        let halves = proto.int32_data.iter().map(|&value| u16::try_from(value));
        halves
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Refusal::other(format!("its data has an element that is no {}", ty.dtype)))
    };
    Ok(match ty.dtype {
        DType::F32 => Tensor::from_elements(shape, &proto.float_data),
        DType::F64 => Tensor::from_elements(shape, &proto.double_data),
        DType::I64 => Tensor::from_elements(shape, &proto.int64_data),
        DType::I32 => Tensor::from_elements(shape, &proto.int32_data),
        DType::F16 => {
            let values: Vec<half::f16> = bits()?.into_iter().map(half::f16::from_bits).collect();
            Tensor::from_elements(shape, &values)
        }
        DType::BF16 => {
            let values: Vec<half::bf16> = bits()?.into_iter().map(half::bf16::from_bits).collect();
            Tensor::from_elements(shape, &values)
        }
        DType::Bool | DType::U8 | DType::I8 => {
            let fits = |&value: &i32| match ty.dtype {
                DType::U8 => u8::try_from(value).is_ok(),
                DType::I8 => i8::try_from(value).is_ok(),
                _ => true,
            };
            if let Some(value) = proto.int32_data.iter().find(|value| !fits(value)) {
                return Err(Refusal::other(format!(
                    "its data has the element {value}, which is no {}",
                    ty.dtype
                )));
            }
            let values: Vec<f64> = proto.int32_data.iter().map(|&value| f64::from(value)).collect();
            Tensor::from_f64(ty.dtype, shape, &values)
        }
    })
}

/// Returns the mean and the deviation of a stripped weight from its note `normal MEAN STD`.
fn distribution(proto: &TensorProto) -> Option<(f64, f64)> {
    let mut numbers = proto.doc_string.strip_prefix("normal ")?.split_whitespace().map(str::parse::<f64>);
    let pair = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (numbers.next().is_none() && pair.0.is_finite() && pair.1.is_finite()).then_some(pair)
}

/// Returns normal values from a generator that is seeded by the name. They are the same on every machine whose
/// `ln`, `cos` and `sin` give the same results. They repeat after [`PERIOD`] elements, which is faster than
/// generating all of them.
fn seeded(name: &str, ty: TensorType, mean: f64, deviation: f64) -> Tensor {
    /// The period is a prime number, so that the rows of a weight differ.
    const PERIOD: usize = 65_537;
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3) // FNV-1a
    });
    let mut uniform = || {
        // This is SplitMix64, whose upper 53 bits make a number in (0, 1].
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[allow(clippy::cast_precision_loss)]
        let number = (((bits ^ bits >> 31) >> 11) + 1) as f64;
        number / (1_u64 << 53) as f64
    };
    let count = ty.shape.count();
    let mut table = Vec::with_capacity(PERIOD.min(count) + 1);
    while table.len() < PERIOD.min(count) {
        // The Box-Muller transform makes two normal values from two uniform ones.
        let radius = (-2.0 * uniform().ln()).sqrt();
        let angle = std::f64::consts::TAU * uniform();
        table.push(mean + deviation * radius * angle.cos());
        table.push(mean + deviation * radius * angle.sin());
    }
    table.truncate(PERIOD.min(count));
    let period = Tensor::from_f64(ty.dtype, [table.len()], &table);
    let mut tensor = Tensor::zeros(ty);
    for chunk in tensor.bytes_mut().chunks_mut(period.bytes().len().max(1)) {
        chunk.copy_from_slice(&period.bytes()[..chunk.len()]);
    }
    tensor
}
