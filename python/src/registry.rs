//! What ovolo has: backends, pipelines, cost models, extractors.

use ovolo::registry::Registry;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Makes a registry of all that ovolo ships.
pub fn standard() -> Registry {
    ovolo_standard::registry()
}

/// Returns the registry that all models share to which no object of Python belongs.
pub fn shared() -> Arc<Registry> {
    static SHARED: OnceLock<Arc<Registry>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(standard())))
}

/// Returns a name for the whole life of the process, as the framework wants it. A name that comes again takes no
/// memory.
pub fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let new: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(new);
    new
}

/// Returns the name of a Python object that is part of a registry: its attribute `name`, or that of its class in kebab
/// case.
pub fn name_of(object: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let name: String = match object.getattr_opt("name")? {
        Some(name) => name.extract()?,
        None => ovolo::setting::kebab(&object.get_type().name()?.to_string()),
    };
    Ok(interned(&name))
}

/// Returns the backends: what was found of each, or `None` for one that is absent.
#[pyfunction]
pub fn backends(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let map = PyDict::new(py);
    for (name, backend) in shared().backends().iter() {
        map.set_item(name, backend.found().ok())?;
    }
    Ok(map)
}

/// Returns the names of what the settings of a compilation can name.
#[pyfunction]
pub fn names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let registry = shared();
    let map = PyDict::new(py);
    map.set_item("pipeline", registry.pipeline_names().collect::<Vec<_>>())?;
    // Those that read a program or a file of answers: in Python, an object is both.
    let own = |name: &&str| !["process", "choices"].contains(name);
    map.set_item("cost", registry.catalog().pricings.names().filter(own).collect::<Vec<_>>())?;
    map.set_item("extractor", registry.catalog().extractors.names().filter(own).collect::<Vec<_>>())?;
    Ok(map)
}
