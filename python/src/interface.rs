//! What a model takes and gives, as scripts for ONNX Runtime read it.

use crate::dtype::onnx_name;
use ovolo::ValueType;
use ovolo::onnx::{Interface, Size};
use ovolo::plan::Plan;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns how ONNX Runtime writes a type: `tensor(float)`, `seq(tensor(int64))`.
pub fn type_name(ty: &ValueType) -> String {
    match ty {
        ValueType::Tensor(dtype) => format!("tensor({})", onnx_name(*dtype)),
        ValueType::Sequence(inner) => format!("seq({})", type_name(inner)),
        ValueType::Optional(inner) => format!("optional({})", type_name(inner)),
        ValueType::Map(key, value) => {
            format!("map({},{})", key.map_or("string", onnx_name), type_name(value))
        }
    }
}

/// Returns what a plan takes and gives, for a model that does not declare it.
pub fn of_plan(plan: &Plan) -> Interface {
    let inputs = plan.inputs.iter().map(|(name, ty)| (name, ty));
    let outputs = plan.outputs.iter().map(|(name, ty, _)| (name, ty));
    let shape = |(name, ty): (&std::sync::Arc<str>, &ovolo::TensorType)| {
        (name.to_string(), ty.shape.iter().map(|size| Size::Fixed(*size)).collect())
    };
    let shapes = inputs.clone().chain(outputs.clone()).map(shape).collect();
    let typed = |(name, ty): (&std::sync::Arc<str>, &ovolo::TensorType)| {
        (name.to_string(), ValueType::Tensor(ty.dtype))
    };
    Interface {
        inputs: inputs.map(typed).collect(),
        outputs: outputs.map(typed).collect(),
        shapes,
        ..Interface::default()
    }
}

/// Returns values as a list of tuples: name, type, shape. A dimension is a number, a name, or `None`.
pub fn described<'py>(
    py: Python<'py>,
    values: impl Iterator<Item = (String, String)>,
    interface: &Interface,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (name, ty) in values {
        let dims = PyList::empty(py);
        for size in interface.shapes.get(&name).into_iter().flatten() {
            match size {
                Size::Fixed(size) => dims.append(size)?,
                Size::Named(name) => dims.append(name)?,
                Size::Unknown => dims.append(py.None())?,
            }
        }
        list.append((name, ty, dims))?;
    }
    Ok(list)
}

/// Returns the inputs that must be given.
pub fn inputs<'py>(py: Python<'py>, interface: &Interface) -> PyResult<Bound<'py, PyList>> {
    let needed = interface.inputs.iter().filter(|(name, _)| !interface.defaults.contains(name));
    described(py, needed.map(|(name, ty)| (name.clone(), type_name(ty))), interface)
}

/// Returns the inputs that have default values.
pub fn defaults<'py>(py: Python<'py>, interface: &Interface) -> PyResult<Bound<'py, PyList>> {
    let optional = interface.inputs.iter().filter(|(name, _)| interface.defaults.contains(name));
    described(py, optional.map(|(name, ty)| (name.clone(), type_name(ty))), interface)
}

/// Returns the outputs.
pub fn outputs<'py>(py: Python<'py>, interface: &Interface) -> PyResult<Bound<'py, PyList>> {
    let all = interface.outputs.iter();
    described(py, all.map(|(name, ty)| (name.clone(), type_name(ty))), interface)
}

/// Returns what a model says of itself.
pub fn about<'py>(py: Python<'py>, interface: &Interface) -> PyResult<Bound<'py, PyDict>> {
    let about = &interface.about;
    let map = PyDict::new(py);
    map.set_item("producer_name", &about.producer)?;
    map.set_item("graph_name", &about.graph)?;
    map.set_item("domain", &about.domain)?;
    map.set_item("description", &about.description)?;
    map.set_item("version", about.version)?;
    map.set_item("custom_metadata_map", &about.metadata)?;
    Ok(map)
}
