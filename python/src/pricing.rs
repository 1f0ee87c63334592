//! Cost models that are written in Python.

use crate::chosen::{Chosen, Raised};
use crate::registry::interned;
use ovolo::cost::{
    CostModel, FEATURES, FeatureValue, Given, Machine, PriceModel, Pricing, PricingError, Query,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The setting that chooses a cost model written in Python: an object with a method `seconds(kernel)`, and optionally
/// `copy(bytes)`.
#[derive(Clone, Debug, Serialize)]
pub struct ByPython(pub Chosen);

impl ByPython {
    /// Makes the setting for an object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Chosen::new(object, "seconds").map(Self)
    }
}

impl Pricing for ByPython {
    fn name(&self) -> &str {
        self.0.name
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        Ok(Box::new(Model {
            name: interned(self.0.name),
            raised: self.0.raised.clone(),
            object: Arc::clone(&self.0.object),
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
    /// The prices of copies, unless the object has its own.
    prices: PriceModel,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The answers, by the features of kernels.
    seconds: FxHashMap<String, Option<f64>>,
    /// The first wrong answer.
    trouble: Option<String>,
}

impl Model {
    fn ask(&self, py: Python<'_>, features: &[(&str, FeatureValue)]) -> Result<Option<f64>, String> {
        let asked = || -> PyResult<Option<f64>> {
            let map = PyDict::new(py);
            for (name, value) in features {
                match value {
                    FeatureValue::Number(number) => map.set_item(name, number)?,
                    FeatureValue::Text(text) => map.set_item(name, text)?,
                }
            }
            let kernel = py.import("ovolo.extension")?.call_method1("Kernel", (map,))?;
            self.object.bind(py).call_method1("seconds", (kernel,))?.extract()
        };
        let seconds = asked().map_err(|raised| self.raised.keep(py, raised))?;
        match seconds {
            Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
                Err(format!("the answer {seconds} is no time: it must be at least zero, or None"))
            }
            seconds => Ok(seconds),
        }
    }

    /// Notes the first error.
    fn note(&self, why: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.trouble.get_or_insert_with(|| why.to_owned());
    }
}

impl CostModel for Model {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let features: Vec<(&str, FeatureValue)> =
            FEATURES.iter().map(|feature| (feature.name, feature.value(query))).collect();
        let key = features.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join("\0");
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(seconds) = known.seconds.get(&key) {
                return *seconds;
            }
            if known.trouble.is_some() {
                return None;
            }
        }
        // The lock is free now: a thread that holds it must never wait for the interpreter.
        let seconds = Python::attach(|py| self.ask(py, &features)).unwrap_or_else(|why| {
            self.note(&why);
            None
        });
        self.known.lock().unwrap_or_else(PoisonError::into_inner).seconds.insert(key, seconds);
        seconds
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
        self.known.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    fn lacking(&self) -> String {
        format!("`{}.seconds` gives None for it, which says that the kernel is not known", self.name)
    }
}
