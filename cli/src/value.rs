//! Values in files: `.npy` holds one tensor, and `.pb` one value of any kind, as ONNX writes it.

use ovolo::onnx::{Interface, Item, decode_value, encode_value};
use ovolo::tensor::{Tensor, TensorType};
use ovolo::value::{Keys, Map};
use ovolo::{DType, Value, ValueType, npy};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The format of the files that hold outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// One NumPy array for each tensor.
    #[default]
    Npy,
    /// One message of ONNX for each output: a tensor, a sequence, an optional value or a map.
    Pb,
}

impl Format {
    /// Returns how names of files of this format end.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Npy => "npy",
            Self::Pb => "pb",
        }
    }

    /// Returns the name of the file for a value: a `/` becomes a `_`.
    pub fn file_name(self, name: &str) -> String {
        format!("{}.{}", name.replace('/', "_"), self.extension())
    }
}

/// Returns what a model declares. A graph in its text form declares no more than the types of tensors.
pub(super) fn interface(model: &Path) -> Result<Interface, String> {
    if ovolo::graph::text::is_named(model) {
        return Ok(Interface::default());
    }
    Interface::read(model).map_err(|error| error.to_string())
}

/// Reads an input of a declared type from a file.
pub(super) fn read(path: &Path, ty: Option<&ValueType>) -> Result<Item<Tensor>, String> {
    let file = path.display();
    if path.extension().is_some_and(|extension| extension == Format::Pb.extension()) {
        let bytes = std::fs::read(path).map_err(|error| format!("{file}: {error}"))?;
        let ty = ty.unwrap_or(&ValueType::Tensor(DType::F32));
        let value = decode_value(&bytes, ty).map_err(|why| format!("{file}: {why}"))?;
        return item(value).map_err(|kind| format!("{file}: it is {kind}, which no model can take yet"));
    }
    let tensor = npy::read(path).map_err(|error| error.to_string())?;
    // NumPy has one name for most types of 8 bits and fewer.
    let unnamed = tensor.ty().dtype == DType::F8E4M3FN;
    Ok(Item::Tensor(match ty {
        Some(ValueType::Tensor(dtype)) if unnamed && dtype.is_narrow() => tensor.reinterpreted(*dtype),
        _ => tensor,
    }))
}

/// Writes outputs as `NAME.npy`, as [`write_files`] does.
pub(super) fn write_outputs(
    outputs: &[(String, Tensor)],
    directory: &Path,
    read: &[PathBuf],
) -> Result<(), String> {
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    write_files(&names, Format::Npy, directory, read, &|at| Ok(npy::encode(&outputs[at].1)))
}

/// Writes the bytes of outputs into one file each. Writes none if two have the same file name, or if one would replace
/// an input.
fn write_files(
    names: &[&str],
    format: Format,
    directory: &Path,
    read: &[PathBuf],
    bytes: &dyn Fn(usize) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let mut files = BTreeMap::new();
    for name in names {
        let file = format.file_name(name);
        let target = directory.join(&file);
        if let Some(other) = files.insert(file.clone(), name) {
            return Err(format!(
                "outputs `{other}` and `{name}` would both be {file}: rename one of them in the model"
            ));
        }
        ovolo::file::spare(&target, read.iter().map(PathBuf::as_path))
            .map_err(|why| format!("--output-dir {}: {why}", directory.display()))?;
    }
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for (at, name) in names.iter().enumerate() {
        let file = directory.join(format.file_name(name));
        ovolo::file::write(&file, &[&bytes(at)?]).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Writes outputs as `NAME.pb`, each as the type that the model declares for it.
pub(super) fn write(
    outputs: &[(String, Item<Tensor>)],
    interface: &Interface,
    directory: &Path,
    read: &[PathBuf],
) -> Result<(), String> {
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    write_files(&names, Format::Pb, directory, read, &|at| {
        let (name, item) = &outputs[at];
        let bytes = encode_value(name, &value(item), interface.output(name));
        bytes.map_err(|why| format!("output `{name}`: {why}"))
    })
}

fn item(value: Value) -> Result<Item<Tensor>, &'static str> {
    match value {
        Value::Tensor(tensor) => Ok(Item::Tensor(tensor)),
        Value::Sequence(list) => list.into_iter().map(item).collect::<Result<_, _>>().map(Item::Sequence),
        Value::Optional(None) => Ok(Item::Absent),
        Value::Optional(Some(present)) => item(*present),
        other @ Value::Map(_) => Err(other.kind()),
    }
}

/// Returns the maps of a matrix's rows.
fn maps(keys: &Tensor, rows: &Tensor) -> Vec<Value> {
    let (size, width) = (rows.ty().dtype.size(), keys.ty().shape.count());
    let one = |bytes: &[u8]| {
        let mut tensor = Tensor::zeros(TensorType::plain(rows.ty().dtype, [0_usize; 0]));
        tensor.bytes_mut().copy_from_slice(bytes);
        Value::Tensor(tensor)
    };
    let row = |bytes: &[u8]| {
        let keys = match keys.to_texts() {
            Some(texts) => Keys::Strings(texts.iter().map(|text| text.to_string()).collect()),
            None => Keys::Integers(keys.ty().dtype, keys.to_i64().unwrap_or_default()),
        };
        Value::Map(Map { keys, values: bytes.chunks_exact(size).map(one).collect() })
    };
    rows.bytes().chunks_exact((size * width).max(1)).map(row).collect()
}

fn value(item: &Item<Tensor>) -> Value {
    match item {
        Item::Tensor(tensor) => Value::Tensor(tensor.clone()),
        Item::Sequence(list) => Value::Sequence(list.iter().map(value).collect()),
        Item::Maps(keys, rows) => Value::Sequence(maps(keys, rows)),
        Item::Absent => Value::Optional(None),
    }
}
