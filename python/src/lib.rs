//! The native part of the Python package `ovolo`. What users see is in `ovolo/*.py`, which calls this.

mod buffer;
mod chosen;
mod dtype;
mod error;
mod extractor;
mod interface;
mod item;
mod note;
mod plan;
mod pricing;
mod registry;
mod rule;
mod session;
mod settings;
mod signal;
mod snapshot;
mod training;

use pyo3::prelude::*;

/// Compiles and runs ONNX models.
#[pymodule]
fn _ovolo(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    ovolo_cli::read_environment(&registry::shared()).map_err(|why| error::Error::new_err(why.to_string()))?;
    note::to_logging();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", py.get_type::<error::Error>())?;
    module.add("InvalidArgument", py.get_type::<error::InvalidArgument>())?;
    module.add_class::<session::Session>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<training::Trainer>()?;
    module.add_class::<buffer::Lent>()?;
    module.add_function(wrap_pyfunction!(dtype::elements, module)?)?;
    module.add_function(wrap_pyfunction!(session::open, module)?)?;
    module.add_function(wrap_pyfunction!(plan::compile, module)?)?;
    module.add_function(wrap_pyfunction!(rule::verify, module)?)?;
    module.add_function(wrap_pyfunction!(rule::differ, module)?)?;
    module.add_function(wrap_pyfunction!(snapshot::shown, module)?)?;
    module.add_function(wrap_pyfunction!(training::grad, module)?)?;
    module.add_function(wrap_pyfunction!(training::order, module)?)?;
    module.add_function(wrap_pyfunction!(training::trainer, module)?)?;
    module.add_function(wrap_pyfunction!(registry::backends, module)?)?;
    module.add_function(wrap_pyfunction!(registry::names, module)?)
}
