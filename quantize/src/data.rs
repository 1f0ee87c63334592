//! Calibration data: tensors for the inputs of a model, in batches of the size that the model takes.

use super::error::QuantizeError;
use ovolo::onnx::{Interface, decode_value};
use ovolo::plan::Plan;
use ovolo::tensor::{DType, Shape, Tensor, TensorType};
use ovolo::{Value, ValueType, npy};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tensors as they were read: for each input, those of its files in order.
#[derive(Clone, Debug, Default)]
pub struct Data {
    inputs: BTreeMap<String, Vec<(String, Tensor)>>,
}

/// A tensor for each input of a model.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    inputs: BTreeMap<String, Tensor>,
}

impl Data {
    /// Reads the data of a folder. For an input `NAME` it has `NAME.npy` or `NAME.pb`, or a folder `NAME` of such files;
    /// files `*.npz` have arrays for several inputs each. A `/` in a name is a `_` here. Files of a folder come in the
    /// order of the numbers that they are called by, and then of their names.
    ///
    /// # Errors
    /// A file or folder cannot be read, or an input has no file.
    pub fn read(folder: &Path, names: &[&str], interface: &Interface) -> Result<Self, QuantizeError> {
        let mut data = Self::default();
        for path in listed(folder)? {
            if has_ending(&path, "npz") {
                let bytes = std::fs::read(&path).map_err(|why| wrong(&path, why.to_string()))?;
                let arrays = npy::decode_npz(&path.display().to_string(), &bytes)
                    .map_err(|why| wrong(&path, why.to_string()))?;
                for (name, tensor) in arrays {
                    let known = names.iter().find(|known| file_name(known) == name || **known == name);
                    let known =
                        known.ok_or_else(|| wrong(&path, format!("the model has no input `{name}`")))?;
                    data.push(known, &path, tensor);
                }
            }
        }
        for name in names {
            let base = folder.join(file_name(name));
            let mut files: Vec<PathBuf> = ["npy", "pb"].iter().map(|end| ended(&base, end)).collect();
            files.retain(|file| file.is_file());
            if base.is_dir() {
                files.extend(listed(&base)?);
            }
            for file in files {
                data.add(name, &file, interface)?;
            }
        }
        if let Some(name) = names.iter().find(|name| !data.inputs.contains_key(**name)) {
            let wanted = file_name(name);
            let why = format!(
                "there are no data for input `{name}`: it needs {wanted}.npy, {wanted}.pb, a folder {wanted}, or files \
                 *.npz"
            );
            return Err(wrong(folder, why));
        }
        Ok(data)
    }

    /// Adds the tensor in a file to those of an input. It is an array of NumPy (`.npy`), or a tensor in ONNX's own format
    /// (`.pb`).
    ///
    /// # Errors
    /// The file cannot be read, or holds no such tensor.
    pub fn add(&mut self, name: &str, file: &Path, interface: &Interface) -> Result<(), QuantizeError> {
        let tensor = if has_ending(file, "pb") {
            let bytes = std::fs::read(file).map_err(|why| wrong(file, why.to_string()))?;
            let ty = interface.input(name).cloned().unwrap_or(ValueType::Tensor(DType::F32));
            match decode_value(&bytes, &ty).map_err(|why| wrong(file, why.to_string()))? {
                Value::Tensor(tensor) => tensor,
                other => return Err(wrong(file, format!("it is {}, not a tensor", other.kind()))),
            }
        } else if has_ending(file, "npy") {
            npy::read(file)?
        } else {
            return Err(wrong(file, "calibration data are files .npy, .pb or .npz".to_owned()));
        };
        self.push(name, file, tensor);
        Ok(())
    }

    /// Adds a tensor to those of an input.
    pub fn push(&mut self, name: &str, file: &Path, tensor: Tensor) {
        self.inputs.entry(name.to_owned()).or_default().push((file.display().to_string(), tensor));
    }

    /// Returns the first tensor of each input.
    pub fn first(&self) -> BTreeMap<String, Tensor> {
        let first =
            |(name, list): (&String, &Vec<(String, Tensor)>)| Some((name.clone(), list.first()?.1.clone()));
        self.inputs.iter().filter_map(first).collect()
    }

    /// Cuts the data into batches for a plan. A tensor is one batch if it has the shape of the input; otherwise its
    /// first axis is several times as long as the input's, or is an axis more.
    ///
    /// # Errors
    /// A tensor has another type, or its first axis cannot be cut into batches; an input has no data, or fewer batches
    /// than another one; or the plan has no such input.
    pub fn batches(&self, plan: &Plan) -> Result<Vec<Batch>, QuantizeError> {
        let wanted = plan.given_inputs();
        if let Some(name) = self.inputs.keys().find(|name| wanted.iter().all(|(known, _)| **known != ***name))
        {
            let files = &self.inputs[name];
            let file = files.first().map_or("", |(file, _)| file);
            return Err(QuantizeError::Data {
                file: file.into(),
                why: format!("the model has no input `{name}`"),
            });
        }
        let mut batches: Vec<Batch> = Vec::new();
        for (position, (name, ty)) in wanted.iter().enumerate() {
            let Some(files) = self.inputs.get(&**name) else {
                let why = format!("input `{name}` has none");
                return Err(QuantizeError::Data { file: "the calibration data".into(), why });
            };
            let mut parts = Vec::new();
            for (file, tensor) in files {
                let cut = cut(tensor, ty).ok_or_else(|| {
                    let why = format!("it holds {}, and batches of input `{name}` are {ty}", tensor.ty());
                    QuantizeError::Data { file: file.clone(), why }
                })?;
                parts.extend(cut);
            }
            if position == 0 {
                batches.resize_with(parts.len(), Batch::default);
            }
            if parts.len() != batches.len() || parts.is_empty() {
                let why = format!(
                    "input `{name}` has {} batches, and another input {}",
                    parts.len(),
                    batches.len()
                );
                return Err(QuantizeError::Data { file: files[0].0.clone(), why });
            }
            for (batch, part) in batches.iter_mut().zip(parts) {
                batch.inputs.insert(name.to_string(), part);
            }
        }
        if batches.is_empty() { Err(QuantizeError::NoData) } else { Ok(batches) }
    }
}

impl Batch {
    /// Returns the tensor of an input.
    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs.get(name)
    }

    /// Returns the tensors in the order of a plan's inputs.
    ///
    /// # Errors
    /// An input has none.
    pub fn in_order(&self, plan: &Plan) -> Result<Vec<&Tensor>, QuantizeError> {
        let find = |(name, _): &(std::sync::Arc<str>, TensorType)| {
            self.input(name).ok_or_else(|| QuantizeError::Data {
                file: "the calibration data".into(),
                why: format!("input `{name}` has none"),
            })
        };
        plan.inputs.iter().map(find).collect()
    }
}

/// Cuts a tensor into batches of a type; `None` if that is not possible.
fn cut(tensor: &Tensor, ty: &TensorType) -> Option<Vec<Tensor>> {
    let (given, wanted) = (&tensor.ty().shape, &ty.shape);
    if tensor.ty().dtype != ty.dtype || tensor.ty().dtype == DType::Text {
        return None;
    }
    if given == wanted {
        return Some(vec![tensor.clone()]);
    }
    let first = *given.first()?;
    let count = if given.get(1..) == Some(wanted) {
        first
    } else {
        let size = *wanted.first().filter(|size| **size > 0)?;
        let fits = given.get(1..) == wanted.get(1..) && first.is_multiple_of(size);
        fits.then(|| first / size)?
    };
    let size = wanted.count() * ty.dtype.size();
    let part = |at: usize| {
        let mut part = Tensor::zeros(TensorType::plain(ty.dtype, Shape::new(wanted.to_vec())));
        part.bytes_mut().copy_from_slice(&tensor.bytes()[at * size..][..size]);
        part
    };
    Some((0..count).map(part).collect())
}

/// Returns the files in a folder, in the order of the numbers that they are called by, and then of their names.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, QuantizeError> {
    let entries = std::fs::read_dir(folder).map_err(|why| wrong(folder, why.to_string()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|why| wrong(folder, why.to_string()))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    let number = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        stem.and_then(|stem| stem.parse::<u64>().ok()).unwrap_or(u64::MAX)
    };
    files.sort_by_key(|path| (number(path), path.clone()));
    Ok(files)
}

fn file_name(input: &str) -> String {
    input.replace('/', "_")
}

fn ended(base: &Path, ending: &str) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(format!(".{ending}"));
    PathBuf::from(path)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

fn wrong(path: &Path, why: String) -> QuantizeError {
    QuantizeError::Data { file: path.display().to_string(), why }
}
