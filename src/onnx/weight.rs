//! The constants of a model: tensors in its file, tensors in other files, and tensors whose values are absent.
//!
//! Large ones stay in the mapped file until they are read, so that the original and the packed weights need not be
//! in memory at the same time.

use super::element::{self, tensor_type};
use super::proto::TensorProto;
use super::{MissingWeights, OnnxError, Refusal};
use crate::random::{self, Random};
use crate::tensor::{Lender, Tensor, TensorType};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

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
            !proto.raw_data.is_empty() || element::holds_typed(proto)
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
            element::typed(proto, ty).map_err(|why| refusal(what, why))
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
        let size = element::file_bytes(&ty);
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

fn refusal(what: &str, why: Refusal) -> OnnxError {
    OnnxError::Weight { tensor: what.to_owned(), why }
}

/// Makes a tensor of these bytes, which may be those of a mapped file.
fn raw_tensor(bytes: &[u8], ty: TensorType, map: Option<&Arc<Mmap>>) -> Result<Tensor, Refusal> {
    let as_stored = element::as_stored(ty.dtype) && cfg!(target_endian = "little");
    let large = bytes.len() >= SMALL && bytes.len() == ty.bytes();
    let lent = map.filter(|_| as_stored && large).and_then(|map| Stretch::find(map, bytes));
    match lent.and_then(|stretch| Tensor::lent(ty.clone(), Box::new(stretch))) {
        Some(tensor) => Ok(tensor),
        None => element::raw(bytes, ty),
    }
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
    let mut stream = Random(random::hash(random::EMPTY, name));
    let mut uniform = || {
        // The upper 53 bits make a number in (0, 1].
        #[allow(clippy::cast_precision_loss)]
        let number = ((stream.word() >> 11) + 1) as f64;
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
