//! Cost models that are written in Python.

use crate::chosen::{Chosen, Raised};
use crate::registry::interned;
use ovolo::cost::{
    CostModel, FEATURES, FeatureValue, Given, Machine, PriceModel, Pricing, PricingError, Query,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The setting that chooses a cost model written in Python: an object with a method `seconds(kernel)`, or `batch(kernels)`
/// for many kernels at once, and optionally `copy(bytes)`.
#[derive(Clone, Debug, Serialize)]
pub struct ByPython {
    chosen: Chosen,
    /// Whether the object prices many kernels at once.
    batch: bool,
}

impl ByPython {
    /// Makes the setting for an object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batch = object.hasattr("batch")?;
        let roles = ["a cost model", "seconds` or `batch"];
        let chosen = Chosen::new(object, if batch { "batch" } else { "seconds" }, roles)?;
        Ok(Self { chosen, batch })
    }

    /// Returns the object.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }
}

impl Pricing for ByPython {
    fn name(&self) -> &str {
        self.chosen.name
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        Ok(Box::new(Model {
            name: interned(self.chosen.name),
            raised: self.chosen.raised.clone(),
            object: Arc::clone(&self.chosen.object),
            batch: self.batch,
            prices: PriceModel::new("flops", Machine::NOMINAL, Arc::clone(given.prices)),
            known: Mutex::default(),
        }))
    }

    fn by_speeds(&self) -> bool {
        false
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// A cost model written in Python.
struct Model {
    name: &'static str,
    raised: Raised,
    object: Arc<Py<PyAny>>,
    batch: bool,
    /// The prices of copies, unless the object has its own.
    prices: PriceModel,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The answers, by the features of kernels.
    seconds: FxHashMap<String, Option<f64>>,
    /// The kernels of a batch that has begun.
    gathered: Option<Gathered>,
    /// The first wrong answer.
    trouble: Option<String>,
}

/// The features of a kernel, with their names.
type Features = Vec<(&'static str, FeatureValue)>;

/// Kernels, each once, in the order of the first question.
#[derive(Default)]
struct Gathered {
    keys: FxHashSet<String>,
    kernels: Vec<(String, Features)>,
}

impl Model {
    /// Asks for the prices of kernels.
    fn ask(&self, py: Python<'_>, kernels: &[&Features]) -> Result<Vec<Option<f64>>, String> {
        let wanted = kernels.len();
        let asked = || -> PyResult<Vec<Option<f64>>> {
            let object = self.object.bind(py);
            let kernels =
                kernels.iter().map(|features| kernel(py, features)).collect::<PyResult<Vec<_>>>()?;
            if self.batch {
                let answers = object.call_method1("batch", (kernels,))?;
                if answers.cast::<PyMapping>().is_ok() {
                    return Err(PyTypeError::new_err(
                        "`batch` must return prices in the order of the kernels, not a mapping",
                    ));
                }
                // At most one price too many is read, since an iterator may have no end.
                return answers.try_iter()?.take(wanted + 1).map(|answer| number(&answer?)).collect();
            }
            let price = |kernel| number(&object.call_method1("seconds", (kernel,))?);
            kernels.into_iter().map(price).collect()
        };
        let prices = asked().map_err(|raised| {
            let why = self.raised.keep(py, raised);
            match kernels {
                [one] => format!("{why} (for a kernel of `{}`)", op(one)),
                many => format!("{why} (for a batch of {} kernels)", many.len()),
            }
        })?;
        if prices.len() != wanted {
            let given = if prices.len() > wanted { "more".to_owned() } else { prices.len().to_string() };
            return Err(format!("`{}.batch` got {wanted} kernels and returned {given} prices", self.name));
        }
        let no_time = |seconds: &f64| seconds.is_nan() || *seconds < 0.0;
        match prices.iter().position(|seconds| seconds.as_ref().is_some_and(no_time)) {
            Some(at) => Err(format!(
                "the answer {} for a kernel of `{}` is no time: it must be at least zero, or None",
                prices[at].unwrap_or_default(),
                op(kernels[at])
            )),
            None => Ok(prices),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first error.
    fn note(&self, why: &str) {
        self.known().trouble.get_or_insert_with(|| why.to_owned());
    }
}

/// Returns a price; `None` for a kernel that the cost model does not know.
fn number(answer: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    answer.extract().map_err(|_| {
        let shown = answer.repr().map_or_else(|_| "something else".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("a price is a number of seconds, or None, not {shown}"))
    })
}

/// Returns the op of a kernel.
fn op(features: &Features) -> String {
    features.iter().find(|(name, _)| *name == "op").map(|(_, value)| value.to_string()).unwrap_or_default()
}

/// Returns the object that a cost model gets for a kernel.
fn kernel<'py>(py: Python<'py>, features: &Features) -> PyResult<Bound<'py, PyAny>> {
    let map = PyDict::new(py);
    for (name, value) in features {
        match value {
            FeatureValue::Number(number) => map.set_item(name, number)?,
            FeatureValue::Text(text) => map.set_item(name, text)?,
        }
    }
    py.import("ovolo.extension")?.call_method1("Kernel", (map,))
}

impl CostModel for Model {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let features: Features =
            FEATURES.iter().map(|feature| (feature.name, feature.value(query))).collect();
        let key = features.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join("\0");
        {
            let mut known = self.known();
            if let Some(seconds) = known.seconds.get(&key) {
                return *seconds;
            }
            if known.trouble.is_some() {
                return None;
            }
            if let Some(gathered) = &mut known.gathered {
                if gathered.keys.insert(key.clone()) {
                    gathered.kernels.push((key, features));
                }
                return Some(0.0);
            }
        }
        // The lock is free now: a thread that holds it must never wait for the interpreter.
        let seconds = match Python::attach(|py| self.ask(py, &[&features])) {
            Ok(prices) => prices[0],
            Err(why) => {
                self.note(&why);
                None
            }
        };
        self.known().seconds.insert(key, seconds);
        seconds
    }

    fn begin_batch(&self) -> bool {
        if self.batch {
            self.known().gathered = Some(Gathered::default());
        }
        self.batch
    }

    fn end_batch(&self) {
        let Some(Gathered { kernels, .. }) = self.known().gathered.take() else { return };
        if kernels.is_empty() {
            return;
        }
        let asked: Vec<&Features> = kernels.iter().map(|(_, features)| features).collect();
        match Python::attach(|py| self.ask(py, &asked)) {
            Ok(prices) => self.known().seconds.extend(kernels.into_iter().map(|(key, _)| key).zip(prices)),
            Err(why) => self.note(&why),
        }
    }

    fn copy(&self, bytes: usize) -> f64 {
        Python::attach(|py| {
            let object = self.object.bind(py);
            let asked = object.getattr_opt("copy").and_then(|method| match method {
                Some(method) => method.call1((bytes,))?.extract().map(Some),
                None => Ok(None),
            });
            match asked {
                Ok(Some(seconds)) => seconds,
                Ok(None) => self.prices.copy(bytes),
                Err(raised) => {
                    let why = self.raised.keep(py, raised);
                    self.note(&why);
                    f64::INFINITY
                }
            }
        })
    }

    fn trouble(&self) -> Option<String> {
        self.known().trouble.clone()
    }

    fn lacking(&self) -> String {
        let method = if self.batch { "batch" } else { "seconds" };
        format!("`{}.{method}` gives None for it, which says that the kernel is not known", self.name)
    }
}
