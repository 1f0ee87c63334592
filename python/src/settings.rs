//! The settings of a compilation, from keyword arguments.

use crate::error::error;
use crate::extractor::ByPython as Extractor;
use crate::pricing::ByPython as Pricing;
use crate::registry::{shared, standard};
use ovolo::registry::Registry;
use ovolo::setting::Kind;
use ovolo_cli::{Job, Settings};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How a model is compiled. The fields are keyword arguments of `ovolo.compile` and options of a provider.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given {
    model: PathBuf,
    weights: Option<PathBuf>,
    pipeline: Option<String>,
    threads: Option<usize>,
    dims: BTreeMap<String, usize>,
    rules: Vec<PathBuf>,
    add: Vec<String>,
    costs: Vec<PathBuf>,
    cost: Option<Py<PyAny>>,
    extractor: Option<Py<PyAny>>,
    memory_limit: Option<usize>,
    seeded_weights: bool,
    cache: bool,
}

/// A job, and the objects of Python that take part in it.
pub struct Asked {
    /// The job.
    pub job: Job,
    /// The objects of Python.
    pub asking: Asking,
}

/// The objects of Python that take part in a job.
pub struct Asking {
    cost: Option<Pricing>,
    extractor: Option<Extractor>,
}

impl Asking {
    /// Returns the exception for an error of the job: the one that an object of Python has raised is its cause. What is no
    /// `Exception`, such as `KeyboardInterrupt`, ends the call itself.
    pub fn error(&self, py: Python<'_>, said: PyErr) -> PyErr {
        let raised = self.cost.as_ref().and_then(|cost| cost.chosen().raised.take());
        let raised =
            raised.or_else(|| self.extractor.as_ref().and_then(|extractor| extractor.0.raised.take()));
        match raised {
            Some(raised) if !raised.is_instance_of::<PyException>(py) => raised,
            raised => {
                said.set_cause(py, raised);
                said
            }
        }
    }
}

impl Asked {
    /// Returns the exception for an error of the job.
    pub fn error(&self, py: Python<'_>, why: impl std::fmt::Display) -> PyErr {
        self.asking.error(py, error(why))
    }
}

impl Given {
    /// Makes a job of the settings.
    pub fn asked(self, py: Python<'_>) -> PyResult<Asked> {
        let mut settings = Settings::new(self.model);
        settings.weights = self.weights;
        settings.dims = self.dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
        settings.pipeline = self.pipeline.unwrap_or(settings.pipeline);
        settings.threads = self.threads;
        settings.rules = self.rules;
        settings.add = self.add;
        settings.costs = self.costs;
        settings.seeded_weights = self.seeded_weights;
        settings.memory_limit =
            self.memory_limit.map(|bytes| (ovolo::tensor::Device::Host, bytes)).into_iter().collect();
        // Objects of Python are parts of a registry of their own, which has all other parts too.
        let mut own: Option<Registry> = None;
        let mut cost = None;
        if let Some(given) = self.cost {
            if let Ok(name) = given.extract::<String>(py) {
                settings.cost = Some(name);
            } else {
                let pricing = Pricing::new(given.bind(py))?;
                settings.cost = Some(pricing.chosen().name.to_owned());
                let kind = Kind::of(Arc::new(pricing.clone()) as Arc<dyn ovolo::cost::Pricing>);
                own.get_or_insert_with(standard).add_pricing(kind).map_err(error)?;
                cost = Some(pricing);
            }
        }
        let mut extractor = None;
        if let Some(given) = self.extractor {
            if let Ok(name) = given.extract::<String>(py) {
                settings.extractor = Some(name);
            } else {
                let own_extractor = Extractor::new(given.bind(py))?;
                settings.extractor = Some(own_extractor.0.name.to_owned());
                let kind = Kind::of(Arc::new(own_extractor.clone()) as Arc<dyn ovolo::extract::Extractor>);
                own.get_or_insert_with(standard).add_extractor(kind).map_err(error)?;
                extractor = Some(own_extractor);
            }
        }
        // What an object of Python decides is not known to the cache.
        let cached = self.cache && own.is_none();
        let registry = own.map_or_else(shared, Arc::new);
        Ok(Asked { job: Job::new(registry, settings, cached), asking: Asking { cost, extractor } })
    }
}
