//! Training: steps of it as graphs, and trainers.

use crate::dtype::Types;
use crate::error::{invalid, of_input};
use crate::item::{array, tensor};
use crate::settings::{Asked, Given};
use ovolo::graph::text;
use ovolo::registry::Registry;
use ovolo::tensor::Tensor;
use ovolo_train::checkpoint::{self, Progress};
use ovolo_train::{Data, Dropout, Kept, Loss, Network, Optimizer, Recipe, Step, Table, TrainError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What a step consists of besides the model. The fields are keyword arguments in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Wanted {
    loss: String,
    optimizer: Option<String>,
    numbers: BTreeMap<String, f64>,
    freeze: Vec<String>,
    lazy: Vec<String>,
    derivatives: Vec<PathBuf>,
    of: Option<String>,
    fixed_statistics: bool,
    dropout: BTreeMap<String, f64>,
    own_dropout: bool,
}

impl Wanted {
    fn recipe(self, registry: &Registry) -> Result<Recipe, TrainError> {
        let mut texts = Vec::new();
        for file in self.derivatives {
            let name = file.display().to_string();
            match std::fs::read_to_string(file) {
                Ok(text) => texts.push((name, text)),
                Err(why) => return Err(TrainError::Data { file: name, why: why.to_string() }),
            }
        }
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Ok(Recipe {
            table: Table::with(registry, &texts)?,
            loss: Loss::find(registry, &self.loss)?,
            optimizer: self.optimizer.map(|name| Optimizer::find(&name, &self.numbers)).transpose()?,
            freeze: self.freeze,
            lazy: self.lazy,
            output: self.of,
            batch_statistics: !self.fixed_statistics,
            dropout: Dropout { own: self.own_dropout, after: self.dropout.into_iter().collect() },
        })
    }
}

/// Makes the step of a model.
fn made(asked: &Asked, wanted: Wanted) -> Result<(Network, Step), String> {
    let job = &asked.job;
    let registry = job.registry();
    let network = Network::read(registry, &job.settings().model).map_err(|why| why.to_string())?;
    let import = job.import().map_err(|why| why.to_string())?;
    let recipe = wanted.recipe(registry).map_err(|why| why.to_string())?;
    let step = Step::new(registry, &network, &import, &recipe).map_err(|why| why.to_string())?;
    Ok((network, step))
}

/// Returns the step of a model as a graph in text form.
#[pyfunction]
pub fn grad(py: Python<'_>, given: Given, wanted: Wanted) -> PyResult<String> {
    let asked = given.asked(py)?;
    let made = py.detach(|| {
        let (network, step) = made(&asked, wanted)?;
        let text = text::print_in_full(&step.graph, &|_| None);
        text.ok_or_else(|| format!("{}: a constant cannot be written as text", network.name()))
    });
    made.map_err(|why| asked.error(py, why))
}

/// Returns the rows of data in the order of an epoch.
#[pyfunction]
pub fn order(rows: usize, seed: u64, epoch: u64) -> Vec<usize> {
    Data::order(rows, seed, epoch)
}

/// A step that runs on batches, with the values that it keeps.
#[pyclass(module = "ovolo._ovolo", frozen)]
pub struct Trainer {
    asked: Asked,
    network: Network,
    optimizer: String,
    inner: Mutex<ovolo_train::Trainer>,
}

/// Compiles the step of a model. The seed decides what is dropped, and random parameters if training is from scratch.
#[pyfunction]
pub fn trainer(
    py: Python<'_>,
    given: Given,
    wanted: Wanted,
    seed: u64,
    from_scratch: bool,
) -> PyResult<Trainer> {
    let optimizer = wanted.optimizer.clone().unwrap_or_default();
    let asked = given.asked(py)?;
    let made = py.detach(|| {
        let (network, step) = made(&asked, wanted)?;
        let options = asked.job.options().map_err(|why| why.to_string())?;
        let inner = ovolo_train::Trainer::new(step, &network, &options);
        let mut inner = inner.map_err(|why| why.to_string())?;
        inner.seed(seed);
        if from_scratch {
            inner.draw(seed, &network);
        }
        Ok::<_, String>((network, inner))
    });
    let (network, inner) = made.map_err(|why| asked.error(py, why))?;
    Ok(Trainer { asked, network, optimizer, inner: Mutex::new(inner) })
}

impl Trainer {
    /// Works with the trainer without the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut ovolo_train::Trainer) -> Result<T, TrainError> + Send,
    ) -> PyResult<T> {
        let made = py.detach(|| work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner)));
        made.map_err(|why| self.asked.error(py, why))
    }

    /// Returns what a batch consists of: the inputs of the model, and the labels.
    fn taken(&self, py: Python<'_>) -> PyResult<Vec<Kept>> {
        self.with(py, |inner| {
            let step = inner.step();
            Ok(step.inputs.iter().chain([&step.labels]).cloned().collect())
        })
    }

    /// Returns some of the kept values as arrays, by name.
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        of: impl Fn(&Step) -> &[Kept] + Send + Sync,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = self.with(py, |inner| {
            let wanted: Vec<&str> = of(inner.step()).iter().map(|kept| &*kept.name).collect();
            let kept = inner.kept().filter(|(name, _)| wanted.contains(name));
            Ok(kept.map(|(name, value)| (name.to_owned(), value.owned())).collect::<Vec<_>>())
        })?;
        let map = PyDict::new(py);
        for (name, value) in values {
            map.set_item(name, array(py, value)?)?;
        }
        Ok(map)
    }
}

#[pymethods]
impl Trainer {
    /// Returns what a batch consists of: by name, the element types and shapes of the inputs, and of the labels at the end.
    fn batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = Types::get(py)?;
        let map = PyDict::new(py);
        for kept in self.taken(py)? {
            let shape: Vec<usize> = kept.ty.shape.iter().copied().collect();
            map.set_item(&*kept.name, (types.numpy(py, kept.ty.dtype)?, shape))?;
        }
        Ok(map)
    }

    /// Runs the step on a batch, and returns the loss.
    fn step(&self, py: Python<'_>, batch: &Bound<'_, PyDict>, rate: f64) -> PyResult<f64> {
        let types = self.taken(py)?;
        let mut values = Vec::with_capacity(types.len());
        for kept in &types {
            let value = batch.get_item(&*kept.name)?;
            let value = value.ok_or_else(|| invalid(format!("the batch has no `{}`", kept.name)))?;
            let value = tensor(&value, Some(kept.ty.dtype)).map_err(|why| of_input(py, &kept.name, why))?;
            if *value.ty() != kept.ty {
                let found = value.ty();
                return Err(invalid(format!(
                    "input `{}` is {found}, and the step takes {}",
                    kept.name, kept.ty
                )));
            }
            values.push(value);
        }
        let labels = values.pop().ok_or_else(|| invalid("a batch has labels"))?;
        self.with(py, |inner| inner.run(values, labels, rate))
    }

    /// Returns the parameters.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arrays(py, |step| &step.parameters)
    }

    /// Returns the running statistics of batch norms.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arrays(py, |step| &step.statistics)
    }

    /// Returns the number of steps, and what the optimiser keeps of each parameter.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arrays(py, |step| &step.state)
    }

    /// Replaces some of the values that the step keeps.
    fn replace(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut new: BTreeMap<String, Tensor> = BTreeMap::new();
        for (name, value) in values.iter() {
            let name: String = name.extract()?;
            let value = tensor(&value, Some(ovolo::DType::F32)).map_err(|why| of_input(py, &name, why))?;
            new.insert(name, value.owned());
        }
        let new: BTreeMap<&str, &Tensor> = new.iter().map(|(name, value)| (name.as_str(), value)).collect();
        self.with(py, |inner| inner.replace("values", &new))
    }

    /// Writes a checkpoint.
    fn save(&self, py: Python<'_>, path: PathBuf, epochs: u64, seed: u64) -> PyResult<()> {
        let progress = Progress { epochs, seed, optimizer: self.optimizer.clone() };
        self.with(py, |inner| checkpoint::write(&path, inner, &progress))
    }

    /// Reads a checkpoint, and returns the number of epochs and the seed.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
        let progress = self.with(py, |inner| checkpoint::read(&path, inner, &self.optimizer))?;
        Ok((progress.epochs, progress.seed))
    }

    /// Returns the bytes of the model with the parameters of now.
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |inner| self.network.with_values(&inner.kept().collect()))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
