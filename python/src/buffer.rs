//! Memory that Python and ovolo share.

use ovolo::tensor::{Tensor, TensorType};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Memory of a Python object, which stays where it is as long as this lives.
struct Borrowed {
    view: Box<ffi::Py_buffer>,
}

impl Borrowed {
    /// Borrows the memory of an object. Refuses arrays whose elements do not follow one another.
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // The simplest kind of view does not ask for the type of elements, which ml_dtypes could not tell.
        // SAFETY: the object lives during the call, and the view is one to fill.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE) } {
            0 => Ok(Self { view }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }
}

// SAFETY: the bytes stay where they are until the view is released, which any thread may do while it is attached.
unsafe impl Send for Borrowed {}
// SAFETY: shared access is read-only.
unsafe impl Sync for Borrowed {}
// The bytes are plain data, which no panic leaves half done.
impl UnwindSafe for Borrowed {}
impl RefUnwindSafe for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        let length = usize::try_from(self.view.len).unwrap_or_default();
        if length == 0 {
            return &[];
        }
        // SAFETY: the view has this many bytes at this place as long as it is not released. As with every runtime that
        // takes arrays without copies, the caller must not write to an array that a run reads.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast_const().cast(), length) }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: `new` has filled the view, and nothing else releases it.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.view) });
    }
}

/// Smaller arrays are copied: to keep one costs more.
const KEPT: usize = 1 << 12;

/// Returns a tensor with the bytes of a contiguous array. They are not copied if the array begins at a multiple of 64
/// and has at least 4 KiB. `mask` is applied to each byte, and then they are always copied.
pub fn borrow(array: &Bound<'_, PyAny>, ty: TensorType, mask: Option<u8>) -> PyResult<Tensor> {
    let bytes = Borrowed::new(array)?;
    let length = bytes.as_ref().len();
    if length != ty.bytes() {
        let wanted = ty.bytes();
        return Err(PyBufferError::new_err(format!(
            "an array of {length} bytes cannot be {ty}, which has {wanted}"
        )));
    }
    if mask.is_some() || length < KEPT {
        return Ok(copied(ty, bytes.as_ref(), mask));
    }
    let bytes = Arc::new(bytes);
    let keeper: Arc<ovolo::tensor::Keeper> = bytes.clone();
    Ok(Tensor::kept(ty.clone(), keeper).unwrap_or_else(|| copied(ty, (*bytes).as_ref(), None)))
}

fn copied(ty: TensorType, bytes: &[u8], mask: Option<u8>) -> Tensor {
    let mut tensor = Tensor::zeros(ty);
    let target = tensor.bytes_mut();
    target.copy_from_slice(bytes);
    if let Some(mask) = mask {
        target.iter_mut().for_each(|byte| *byte &= mask);
    }
    tensor
}

/// The memory of a tensor, which Python's arrays use.
#[pyclass(module = "ovolo._ovolo", frozen)]
pub struct Lent {
    start: *mut u8,
    length: usize,
    /// Owns the bytes.
    _tensor: Tensor,
}

// SAFETY: the tensor owns the bytes, and only Python's arrays use them.
unsafe impl Send for Lent {}
// SAFETY: nothing here reads or writes the bytes.
unsafe impl Sync for Lent {}

impl Lent {
    /// Lends the bytes of a tensor. They are copied if something else has them too.
    pub fn new(mut tensor: Tensor) -> Self {
        let bytes = tensor.bytes_mut();
        Self { start: bytes.as_mut_ptr(), length: bytes.len(), _tensor: tensor }
    }
}

#[pymethods]
impl Lent {
    /// # Safety
    /// Python calls this with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let lent = slf.get();
        let length = ffi::Py_ssize_t::try_from(lent.length)?;
        // SAFETY: the object owns these bytes, and the view keeps it alive.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), lent.start.cast(), length, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
