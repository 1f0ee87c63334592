//! Values of Python as values of models, and back.

use crate::buffer::{Lent, borrow};
use crate::dtype::{Types, mask};
use crate::error::invalid;
use ovolo::onnx::Item;
use ovolo::tensor::{Layout, Shape, Tensor, TensorType};
use ovolo::{DType, ValueType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// Returns a value of Python as one that a model takes. `ty` is the type that the model declares.
pub fn item(value: &Bound<'_, PyAny>, ty: Option<&ValueType>) -> PyResult<Item<Tensor>> {
    match ty {
        Some(ValueType::Optional(_)) if value.is_none() => Ok(Item::Absent),
        Some(ValueType::Optional(inner)) => item(value, Some(inner)),
        Some(ValueType::Sequence(inner)) => {
            let list: Vec<Bound<'_, PyAny>> = value.extract().map_err(|_| wrong("a list", value))?;
            list.iter().map(|one| item(one, Some(inner))).collect::<PyResult<_>>().map(Item::Sequence)
        }
        Some(ValueType::Map(..)) => Err(PyTypeError::new_err("no model can take a map yet")),
        Some(ValueType::Tensor(dtype)) => tensor(value, Some(*dtype)).map(Item::Tensor),
        None => tensor(value, None).map(Item::Tensor),
    }
}

fn wrong(wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let given = value.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("the model takes {wanted}, and {given} was given"))
}

/// Returns an array, or what can be made one, as a tensor. `dtype` is the element type of values that have none, such
/// as lists of numbers.
pub fn tensor(value: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let py = value.py();
    let types = Types::get(py)?;
    if value.get_type().is(&types.array)
        && let Some(found) = types.of(&value.getattr(pyo3::intern!(py, "dtype"))?)?
        && found != DType::Text
    {
        return from_array(value, found);
    }
    let wanted = dtype.map(|dtype| types.numpy(py, dtype)).transpose()?;
    let array = arrays(py)?.call_method1("as_array", (value, wanted))?;
    match types.of(&array.getattr("dtype")?)? {
        Some(DType::Text) => from_texts(&array),
        Some(found) => from_array(&array, found),
        None => Err(PyTypeError::new_err(format!(
            "ovolo has no element type for arrays of {}",
            array.getattr("dtype")?.str()?
        ))),
    }
}

/// The module with what is easier to say in Python.
fn arrays(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("ovolo._array")
}

fn from_array(array: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let py = array.py();
    let ty = TensorType::plain(dtype, shape(array)?);
    match borrow(array, ty.clone(), mask(dtype)) {
        Err(refused)
            if refused.is_instance_of::<pyo3::exceptions::PyBufferError>(py)
                || refused.is_instance_of::<pyo3::exceptions::PyValueError>(py) =>
        {
            // Its elements do not follow one another.
            borrow(&arrays(py)?.call_method1("in_order", (array,))?, ty, mask(dtype))
        }
        tensor => tensor,
    }
}

fn from_texts(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let texts: Vec<String> = arrays(array.py())?.call_method1("texts", (array,))?.extract()?;
    Ok(Tensor::from_texts(shape(array)?, &texts))
}

fn shape(array: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let dims = array.getattr(pyo3::intern!(array.py(), "shape"))?;
    let dims = dims.cast::<PyTuple>()?;
    dims.iter().map(|dim| dim.extract::<usize>()).collect::<PyResult<Vec<_>>>().map(Shape::from)
}

/// Returns a value of a model as one of Python: an array, a list, a list of dictionaries, or `None`.
pub fn object(py: Python<'_>, item: Item<Tensor>) -> PyResult<Bound<'_, PyAny>> {
    match item {
        Item::Tensor(tensor) => array(py, tensor),
        Item::Sequence(list) => {
            let list = list.into_iter().map(|one| object(py, one)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, list)?.into_any())
        }
        Item::Maps(keys, rows) => maps(py, keys, rows),
        Item::Absent => Ok(py.None().into_bound(py)),
    }
}

/// Returns the rows of a matrix as dictionaries, whose keys are a list.
fn maps<'py>(py: Python<'py>, keys: Tensor, rows: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let keys: Vec<Bound<'py, PyAny>> = array(py, keys)?.call_method0("tolist")?.extract()?;
    let width = keys.len();
    let count = rows.ty().shape.count() / width.max(1);
    let rows = array(py, rows.reshaped(Shape::from([count, width])))?.call_method0("tolist")?;
    let list = PyList::empty(py);
    for row in rows.try_iter()? {
        let values: Vec<Bound<'py, PyAny>> = row?.extract()?;
        let map = PyDict::new(py);
        keys.iter().zip(values).try_for_each(|(key, value)| map.set_item(key, value))?;
        list.append(map)?;
    }
    Ok(list.into_any())
}

/// Returns a tensor as an array that has its bytes.
pub fn array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let types = Types::get(py)?;
    let tensor = if tensor.ty().layout.is_plain() { tensor } else { tensor.to_layout(&Layout::PLAIN) };
    let dims = PyTuple::new(py, tensor.ty().shape.iter())?;
    if let Some(texts) = tensor.to_texts() {
        let list = PyList::new(py, texts.iter().map(|text| PyString::new(py, text)))?;
        return arrays(py)?.call_method1("of_texts", (list, dims));
    }
    let dtype = types.numpy(py, tensor.ty().dtype)?;
    types.array.bind(py).call1((dims, dtype, Lent::new(tensor)))
}

/// Returns the positions of the outputs that are asked for; all of them if none is named.
pub fn positions<'n>(
    asked: Option<&Bound<'_, PyAny>>,
    known: impl Fn() -> Vec<&'n str>,
) -> PyResult<Option<Vec<usize>>> {
    let Some(asked) = asked.filter(|asked| !asked.is_none()) else { return Ok(None) };
    let asked: Vec<String> =
        asked.extract().map_err(|_| invalid("the names of outputs are a list of texts, or None"))?;
    if asked.is_empty() {
        return Ok(None);
    }
    let known = known();
    let find = |name: &String| {
        known.iter().position(|known| known == name).ok_or_else(|| {
            invalid(format!("the model has no output `{name}`: its outputs are {}", known.join(", ")))
        })
    };
    asked.iter().map(find).collect::<PyResult<_>>().map(Some)
}
