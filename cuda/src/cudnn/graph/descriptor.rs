//! Descriptors of graphs: creation, attributes and finalisation, with the library's own error messages.

use crate::calls::Status;
use crate::command;
use crate::cudnn::{Calls, Functions};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};
use ovolo::tensor::DType;
use std::ffi::{CStr, c_void};
use std::ptr;

/// A descriptor of a graph or of a part of it.
pub(super) type Descriptor = command::Descriptor<sys::cudnnBackendDescriptor_t>;

/// The status of an engine whose kernel does not compile for the device.
const COMPILATION_FAILED: u32 = sys::cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED as u32;

/// The functions of the library for descriptors.
#[derive(Clone, Copy)]
pub(super) struct Library {
    pub base: &'static Calls,
    pub graph: &'static super::Calls,
}

/// An error of the library.
pub(super) struct Failure {
    /// Whether the library does not support the request, or cannot compile its kernel for the device.
    pub unsupported: bool,
    /// The library's message, and what the user can do.
    pub text: String,
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.text
    }
}

/// The value of an attribute.
#[derive(Clone, Copy)]
pub(super) enum AttributeValue<'a> {
    Whole(&'a [i64]),
    Single(f32),
    Double(f64),
    Flag(bool),
    /// A value of one of the library's enums.
    Named(Type, u32),
    Descriptors(&'a [&'a Descriptor]),
    Handle(sys::cudnnHandle_t),
    Pointers(&'a [*mut c_void]),
    Text(&'a [u8]),
}

impl Library {
    /// Returns the functions for graphs.
    ///
    /// # Errors
    /// If the library has no graphs.
    pub(crate) fn new(functions: &'static Functions) -> Result<Self, String> {
        let graph =
            functions.graph.as_ref().map_err(|why| format!("cuDNN has no graphs of operations: {why}"))?;
        Ok(Self { base: &functions.base, graph })
    }

    /// Returns an error unless the status is success.
    pub fn check(&self, call: &str, status: Status) -> Result<(), Failure> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        let mut message = [0_u8; 512];
        // SAFETY: the library writes at most this number of bytes, including a terminating zero.
        unsafe { (self.graph.cudnnGetLastErrorString)(message.as_mut_ptr().cast(), message.len()) };
        let message = CStr::from_bytes_until_nul(&message).map(CStr::to_string_lossy).unwrap_or_default();
        let call = if message.is_empty() { call.to_owned() } else { format!("{call} ({})", message.trim()) };
        let text = self.base.check(&call, status).err().unwrap_or_default();
        let unsupported = (3000..4000).contains(&status.0) || status.0 == COMPILATION_FAILED;
        Err(Failure { unsupported, text })
    }

    /// Creates a descriptor.
    pub fn create(&self, kind: Kind) -> Result<Descriptor, Failure> {
        let mut raw = ptr::null_mut();
        // SAFETY: the library is open, and writes a descriptor.
        let status = unsafe { (self.graph.cudnnBackendCreateDescriptor)(kind, &raw mut raw) };
        self.check(&format!("cudnnBackendCreateDescriptor of {kind:?}"), status)?;
        Ok(Descriptor { raw, free: self.graph.cudnnBackendDestroyDescriptor })
    }

    /// Sets an attribute.
    pub fn set(&self, descriptor: &Descriptor, name: Name, value: AttributeValue<'_>) -> Result<(), Failure> {
        let raw: Vec<sys::cudnnBackendDescriptor_t>;
        let flag;
        let (ty, count, at): (Type, usize, *const c_void) = match &value {
            AttributeValue::Whole(values) => (Type::CUDNN_TYPE_INT64, values.len(), values.as_ptr().cast()),
            AttributeValue::Single(value) => (Type::CUDNN_TYPE_FLOAT, 1, ptr::from_ref(value).cast()),
            AttributeValue::Double(value) => (Type::CUDNN_TYPE_DOUBLE, 1, ptr::from_ref(value).cast()),
            AttributeValue::Flag(value) => {
                flag = u8::from(*value);
                (Type::CUDNN_TYPE_BOOLEAN, 1, ptr::from_ref(&flag).cast())
            }
            AttributeValue::Named(ty, value) => (*ty, 1, ptr::from_ref(value).cast()),
            AttributeValue::Descriptors(list) => {
                raw = list.iter().map(|one| one.raw).collect();
                (Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.len(), raw.as_ptr().cast())
            }
            AttributeValue::Handle(handle) => (Type::CUDNN_TYPE_HANDLE, 1, ptr::from_ref(handle).cast()),
            AttributeValue::Text(text) => (Type::CUDNN_TYPE_CHAR, text.len(), text.as_ptr().cast()),
            AttributeValue::Pointers(list) => (Type::CUDNN_TYPE_VOID_PTR, list.len(), list.as_ptr().cast()),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        // SAFETY: the descriptor is valid, and the library copies this number of elements of the type.
        let status = unsafe { (self.graph.cudnnBackendSetAttribute)(descriptor.raw, name, ty, count, at) };
        self.check(&format!("cudnnBackendSetAttribute of {name:?}"), status)
    }

    /// Finalises a descriptor.
    pub fn finish(&self, descriptor: &Descriptor, what: &str) -> Result<(), Failure> {
        // SAFETY: the descriptor is valid.
        let status = unsafe { (self.graph.cudnnBackendFinalize)(descriptor.raw) };
        self.check(&format!("cudnnBackendFinalize of {what}"), status)
    }

    /// Reads up to `most` numbers of an attribute. Values of enums are read as plain numbers.
    pub fn numbers<T: Copy + Default>(
        &self,
        descriptor: &Descriptor,
        name: Name,
        ty: Type,
        most: usize,
    ) -> Result<Vec<T>, Failure> {
        let mut values = vec![T::default(); most];
        let count = self.get(descriptor, name, ty, most, values.as_mut_ptr().cast())?;
        values.truncate(count);
        Ok(values)
    }

    /// Reads descriptors of an attribute into new ones.
    pub fn descriptors(
        &self,
        descriptor: &Descriptor,
        name: Name,
        kind: Kind,
        most: usize,
    ) -> Result<Vec<Descriptor>, Failure> {
        let ty = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let mut there: Vec<Descriptor> = (0..most).map(|_| self.create(kind)).collect::<Result<_, _>>()?;
        let mut raw: Vec<_> = there.iter().map(|one| one.raw).collect();
        let count = self.get(descriptor, name, ty, most, raw.as_mut_ptr().cast())?;
        there.truncate(count);
        Ok(there)
    }

    /// Returns the number of elements of an attribute.
    pub fn count(&self, descriptor: &Descriptor, name: Name, ty: Type) -> Result<usize, Failure> {
        let mut count = 0;
        // SAFETY: the descriptor is valid, and the library writes a number and nothing else.
        let status = unsafe {
            (self.graph.cudnnBackendGetAttribute)(
                descriptor.raw,
                name,
                ty,
                0,
                &raw mut count,
                ptr::null_mut(),
            )
        };
        self.check(&format!("cudnnBackendGetAttribute of {name:?}"), status)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Reads an attribute into memory for some elements of its type. Returns the number of elements written.
    fn get(
        &self,
        descriptor: &Descriptor,
        name: Name,
        ty: Type,
        most: usize,
        at: *mut c_void,
    ) -> Result<usize, Failure> {
        let mut count = 0;
        let room = i64::try_from(most).unwrap_or(i64::MAX);
        // SAFETY: the descriptor is valid, and there is room for the requested number of elements.
        let status = unsafe {
            (self.graph.cudnnBackendGetAttribute)(descriptor.raw, name, ty, room, &raw mut count, at)
        };
        self.check(&format!("cudnnBackendGetAttribute of {name:?}"), status)?;
        // The library may return a larger count than it had room for.
        Ok(usize::try_from(count).unwrap_or(0).min(most))
    }
}

/// Returns the library's number for an element type.
///
/// # Errors
/// If the library's graphs do not support the type.
pub(super) fn data_type(dtype: DType) -> Result<u32, String> {
    use sys::cudnnDataType_t as Data;
    match dtype {
        DType::F32 => Ok(Data::CUDNN_DATA_FLOAT as u32),
        DType::F16 => Ok(Data::CUDNN_DATA_HALF as u32),
        DType::BF16 => Ok(Data::CUDNN_DATA_BFLOAT16 as u32),
        other => Err(format!("the library's graphs do not support {other}")),
    }
}
