//! Objects of Python that settings choose: cost models and extractors.

use crate::registry::name_of;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An object that is registered under a name.
#[derive(Clone, Serialize)]
pub struct Chosen {
    /// The name under which it is registered.
    pub name: &'static str,
    /// What the object has raised.
    #[serde(skip)]
    pub raised: Raised,
    /// The object.
    #[serde(skip)]
    pub object: Arc<Py<PyAny>>,
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chosen({})", self.name)
    }
}

impl Chosen {
    /// Chooses an object, which must have a method of this name. A message calls the object by its role, and names the
    /// methods that it may have.
    pub fn new(object: &Bound<'_, PyAny>, method: &str, [role, methods]: [&str; 2]) -> PyResult<Self> {
        if let Ok(class) = object.cast::<PyType>() {
            let name = class.name()?;
            return Err(PyTypeError::new_err(format!(
                "give an object, such as `{name}()`, and not the class `{name}`"
            )));
        }
        // The absence of the method is told now, and not at each call.
        if !object.hasattr(method)? {
            let given = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{role} is a name, or an object with a method `{methods}`; the {given} has none"
            )));
        }
        let name = name_of(object)?;
        Ok(Self { name, raised: Raised::default(), object: Arc::new(object.clone().unbind()) })
    }
}

/// An exception that Python code has raised where the framework takes only a text.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps the first exception, and returns its text.
    pub fn keep(&self, py: Python<'_>, raised: PyErr) -> String {
        let text = raised.to_string();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| raised.clone_ref(py));
        text
    }

    /// Returns the exception, if there is one, and forgets it.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
