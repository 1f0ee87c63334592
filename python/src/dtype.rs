//! Element types, as NumPy and ml_dtypes name them.

use crate::error::error;
use ovolo::DType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// The element types of NumPy and, if it is installed, of ml_dtypes.
pub struct Types {
    /// `numpy.ndarray`.
    pub array: Py<PyType>,
    /// For each of NumPy's types, the index in [`DType::ALL`].
    by_type: Py<PyDict>,
    /// In the order of [`DType::ALL`].
    types: Vec<Option<Py<PyAny>>>,
}

/// Returns the name of a type in NumPy or ml_dtypes.
fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U2 => "uint2",
        DType::U4 => "uint4",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::I2 => "int2",
        DType::I4 => "int4",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F4E2M1 => "float4_e2m1fn",
        DType::F8E4M3FN => "float8_e4m3fn",
        DType::F8E4M3FNUZ => "float8_e4m3fnuz",
        DType::F8E5M2 => "float8_e5m2",
        DType::F8E5M2FNUZ => "float8_e5m2fnuz",
        DType::F8E8M0 => "float8_e8m0fnu",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        DType::Text => "object",
    }
}

/// Returns the name of a type in ONNX Runtime, such as `float` in `tensor(float)`.
pub fn onnx_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F4E2M1 => "float4e2m1",
        DType::F8E4M3FN => "float8e4m3fn",
        DType::F8E4M3FNUZ => "float8e4m3fnuz",
        DType::F8E5M2 => "float8e5m2",
        DType::F8E5M2FNUZ => "float8e5m2fnuz",
        DType::F8E8M0 => "float8e8m0",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::Text => "string",
        other => name(other),
    }
}

/// Returns all element types: the name in NumPy or ml_dtypes, ONNX's number, and the name in ONNX Runtime.
#[pyfunction]
pub fn elements() -> Vec<(&'static str, i32, &'static str)> {
    let one = |dtype: DType| (name(dtype), dtype.onnx_number(), onnx_name(dtype));
    DType::ALL.into_iter().map(one).collect()
}

/// Whether the type is one of ml_dtypes.
fn is_foreign(dtype: DType) -> bool {
    dtype.is_narrow() || dtype == DType::BF16
}

/// Returns the bits of a byte that a type uses, if it does not use all.
pub fn mask(dtype: DType) -> Option<u8> {
    (dtype.bits() < 8).then(|| (1 << dtype.bits()) - 1)
}

impl Types {
    /// Returns the types. NumPy is imported when they are first needed.
    pub fn get(py: Python<'_>) -> PyResult<&Self> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || Self::new(py))
    }

    fn new(py: Python<'_>) -> PyResult<Self> {
        let numpy = py.import("numpy")?;
        // Without this package, only its element types are missing.
        let foreign = py.import("ml_dtypes").ok();
        let by_type = PyDict::new(py);
        let mut types = Vec::with_capacity(DType::ALL.len());
        for (at, dtype) in DType::ALL.into_iter().enumerate() {
            let found = match (is_foreign(dtype), &foreign) {
                (false, _) => Some(numpy.getattr("dtype")?.call1((name(dtype),))?),
                (true, None) => None,
                // Older versions of the package lack some types.
                (true, Some(foreign)) => match foreign.getattr_opt(name(dtype))? {
                    Some(ty) => Some(numpy.getattr("dtype")?.call1((ty,))?),
                    None => None,
                },
            };
            if let Some(found) = &found {
                by_type.set_item(found, at)?;
            }
            types.push(found.map(Bound::unbind));
        }
        let array = numpy.getattr("ndarray")?.cast_into::<PyType>()?.unbind();
        Ok(Self { array, by_type: by_type.unbind(), types })
    }

    /// Returns the element type of one of NumPy's types; `None` if ovolo has no such type.
    pub fn of(&self, ty: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
        let found = self.by_type.bind(ty.py()).get_item(ty)?;
        found.map(|at| Ok(DType::ALL[at.extract::<usize>()?])).transpose()
    }

    /// Returns NumPy's type of an element type.
    pub fn numpy<'py>(&self, py: Python<'py>, dtype: DType) -> PyResult<&Bound<'py, PyAny>> {
        let at = DType::ALL.iter().position(|known| *known == dtype).unwrap_or_default();
        let found = self.types[at].as_ref().map(|ty| ty.bind(py));
        found.ok_or_else(|| {
            error(format!(
                "arrays of {dtype} need the package ml_dtypes with its type `{}`: pip install -U ml_dtypes",
                name(dtype)
            ))
        })
    }
}
