//! Types of values, as the C API describes them.

use crate::argument::{Argument, Handle, List, Out, Room, api, release};
use crate::dtype::element;
use crate::status::Failure;
use ort_sys::{
    ONNXTensorElementDataType as Element, ONNXType, OrtApi, OrtMapTypeInfo, OrtOptionalTypeInfo,
    OrtSequenceTypeInfo, OrtTensorTypeAndShapeInfo, OrtTypeInfo,
};
use ovolo::onnx::Size;
use ovolo::{DType, ValueType};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;

/// The type of a value.
#[derive(Clone)]
pub enum TypeInfo {
    /// A tensor.
    Tensor(TensorInfo),
    /// A sequence of values of this type.
    Sequence(Box<TypeInfo>),
    /// A map from keys of this type to values of this type.
    Map(Element, Box<TypeInfo>),
    /// A value of this type that may be absent.
    Optional(Box<TypeInfo>),
}

/// The type and the shape of a tensor.
#[derive(Clone)]
pub struct TensorInfo {
    element: Element,
    /// A size that is not known is -1.
    dims: Vec<i64>,
    /// The names of sizes that are not known; empty for one without a name.
    names: Vec<CString>,
}

impl Handle for TypeInfo {
    type Sys = OrtTypeInfo;
}

impl Handle for TensorInfo {
    type Sys = OrtTensorTypeAndShapeInfo;
}

impl TensorInfo {
    /// Describes a tensor of which all sizes are known, or that has no shape.
    pub fn new(element: Element, dims: Vec<i64>) -> Self {
        let names = vec![CString::default(); dims.len()];
        Self { element, dims, names }
    }

    /// Describes a tensor of a model. `sizes` has sizes of dimensions that were set by their names.
    pub fn declared(dtype: DType, shape: &[Size], sizes: &BTreeMap<String, usize>) -> Self {
        let mut info = Self::new(element(dtype), Vec::new());
        for size in shape {
            let known = match size {
                Size::Fixed(size) => Some(*size),
                Size::Named(name) => sizes.get(name).copied(),
                Size::Unknown => None,
            };
            let name = match (known, size) {
                (None, Size::Named(name)) => CString::new(name.as_str()).unwrap_or_default(),
                _ => CString::default(),
            };
            info.dims.push(known.map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX)));
            info.names.push(name);
        }
        info
    }
}

impl TypeInfo {
    /// Describes a value of a model; `tensor` describes the value if it is a tensor.
    pub fn of(ty: &ValueType, tensor: &dyn Fn(DType) -> TensorInfo) -> Self {
        let unshaped = |dtype| TensorInfo::new(element(dtype), Vec::new());
        match ty {
            ValueType::Tensor(dtype) => Self::Tensor(tensor(*dtype)),
            ValueType::Sequence(inner) => Self::Sequence(Box::new(Self::of(inner, &unshaped))),
            ValueType::Optional(inner) => Self::Optional(Box::new(Self::of(inner, &unshaped))),
            ValueType::Map(key, value) => {
                let key = key.map_or(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, element);
                Self::Map(key, Box::new(Self::of(value, &unshaped)))
            }
        }
    }

    /// Returns which kind of value it is.
    pub fn kind(&self) -> ONNXType {
        match self {
            Self::Tensor(_) => ONNXType::ONNX_TYPE_TENSOR,
            Self::Sequence(_) => ONNXType::ONNX_TYPE_SEQUENCE,
            Self::Map(..) => ONNXType::ONNX_TYPE_MAP,
            Self::Optional(_) => ONNXType::ONNX_TYPE_OPTIONAL,
        }
    }
}

/// A pointer to a part of a type, which lives as long as the type. The parts of sequences, maps and optional values are
/// read off the whole type.
macro_rules! part {
    ($($sys:ty),*) => {$(
        impl Argument<*const $sys> for &TypeInfo {
            unsafe fn take(raw: *const $sys, name: &str) -> Result<Self, Failure> {
                // SAFETY: `CastTypeInfoTo…` has made the pointer from one to a type.
                unsafe { <&TypeInfo as Argument<*const OrtTypeInfo>>::take(raw.cast(), name) }
            }
        }
    )*};
}
part!(OrtSequenceTypeInfo, OrtMapTypeInfo, OrtOptionalTypeInfo);

impl Argument<Element> for Element {
    unsafe fn take(raw: Element, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

fn not_a(what: &str) -> Failure {
    Failure::invalid(format!("the type is not that of {what}"))
}

/// Returns a pointer to a type as one to its part, or null if the type is of another kind.
fn cast<T>(info: &TypeInfo, wanted: ONNXType) -> *const T {
    if info.kind() == wanted { ptr::from_ref(info).cast() } else { ptr::null() }
}

api! {
    fn GetOnnxTypeFromTypeInfo(
        type_info: *const OrtTypeInfo as &TypeInfo,
        out: *mut ONNXType as Out<ONNXType>,
    ) {
        out.set(type_info.kind());
        Ok(())
    }

    fn CastTypeInfoToTensorInfo(
        type_info: *const OrtTypeInfo as &TypeInfo,
        out: *mut *const OrtTensorTypeAndShapeInfo as Out<*const OrtTensorTypeAndShapeInfo>,
    ) {
        out.set(match type_info {
            TypeInfo::Tensor(info) => ptr::from_ref(info).cast(),
            _ => ptr::null(),
        });
        Ok(())
    }

    fn CastTypeInfoToSequenceTypeInfo(
        type_info: *const OrtTypeInfo as &TypeInfo,
        out: *mut *const OrtSequenceTypeInfo as Out<*const OrtSequenceTypeInfo>,
    ) {
        out.set(cast(type_info, ONNXType::ONNX_TYPE_SEQUENCE));
        Ok(())
    }

    fn CastTypeInfoToMapTypeInfo(
        type_info: *const OrtTypeInfo as &TypeInfo,
        out: *mut *const OrtMapTypeInfo as Out<*const OrtMapTypeInfo>,
    ) {
        out.set(cast(type_info, ONNXType::ONNX_TYPE_MAP));
        Ok(())
    }

    fn CastTypeInfoToOptionalTypeInfo(
        type_info: *const OrtTypeInfo as &TypeInfo,
        out: *mut *const OrtOptionalTypeInfo as Out<*const OrtOptionalTypeInfo>,
    ) {
        out.set(cast(type_info, ONNXType::ONNX_TYPE_OPTIONAL));
        Ok(())
    }

    fn GetSequenceElementType(
        sequence_type_info: *const OrtSequenceTypeInfo as &TypeInfo,
        type_info: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>,
    ) {
        let TypeInfo::Sequence(inner) = sequence_type_info else { return Err(not_a("a sequence")) };
        type_info.set((**inner).clone().lend());
        Ok(())
    }

    fn GetOptionalContainedTypeInfo(
        optional_type_info: *const OrtOptionalTypeInfo as &TypeInfo,
        out: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>,
    ) {
        let TypeInfo::Optional(inner) = optional_type_info else { return Err(not_a("an optional value")) };
        out.set((**inner).clone().lend());
        Ok(())
    }

    fn GetMapKeyType(map_type_info: *const OrtMapTypeInfo as &TypeInfo, out: *mut Element as Out<Element>) {
        let TypeInfo::Map(key, _) = map_type_info else { return Err(not_a("a map")) };
        out.set(*key);
        Ok(())
    }

    fn GetMapValueType(
        map_type_info: *const OrtMapTypeInfo as &TypeInfo,
        type_info: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>,
    ) {
        let TypeInfo::Map(_, value) = map_type_info else { return Err(not_a("a map")) };
        type_info.set((**value).clone().lend());
        Ok(())
    }

    fn CreateTensorTypeAndShapeInfo(
        out: *mut *mut OrtTensorTypeAndShapeInfo as Out<*mut OrtTensorTypeAndShapeInfo>,
    ) {
        out.set(TensorInfo::new(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, Vec::new()).lend());
        Ok(())
    }

    fn SetTensorElementType(
        info: *mut OrtTensorTypeAndShapeInfo as &mut TensorInfo,
        type_: Element as Element,
    ) {
        info.element = type_;
        Ok(())
    }

    fn SetDimensions(
        info: *mut OrtTensorTypeAndShapeInfo as &mut TensorInfo,
        dim_values: *const i64 as List<i64>,
        dim_count: usize as usize,
    ) {
        // SAFETY: the caller of the C API has as many sizes.
        let dims = unsafe { dim_values.of(dim_count, "dim_values") }?;
        *info = TensorInfo::new(info.element, dims.to_vec());
        Ok(())
    }

    fn SetSymbolicDimensions(
        info: *mut OrtTensorTypeAndShapeInfo as &mut TensorInfo,
        dim_params: *mut *const c_char as Room<*const c_char>,
        dim_params_length: usize as usize,
    ) {
        // SAFETY: the caller of the C API has as many names.
        let names = unsafe { dim_params.values(dim_params_length, "dim_params") }?;
        if names.len() != info.dims.len() {
            let (names, dims) = (names.len(), info.dims.len());
            let given = format!("{names} names were given for {dims} dimensions");
            return Err(Failure::invalid(format!("{given}: give one for each")));
        }
        for (name, own) in names.iter().zip(&mut info.names) {
            // SAFETY: each of them is a text.
            let name = unsafe { <&CStr as Argument<*const c_char>>::take(*name, "dim_params") }?;
            *own = name.to_owned();
        }
        Ok(())
    }

    fn GetTensorElementType(
        info: *const OrtTensorTypeAndShapeInfo as &TensorInfo,
        out: *mut Element as Out<Element>,
    ) {
        out.set(info.element);
        Ok(())
    }

    fn GetDimensionsCount(
        info: *const OrtTensorTypeAndShapeInfo as &TensorInfo,
        out: *mut usize as Out<usize>,
    ) {
        out.set(info.dims.len());
        Ok(())
    }

    fn GetDimensions(
        info: *const OrtTensorTypeAndShapeInfo as &TensorInfo,
        dim_values: *mut i64 as Room<i64>,
        dim_values_length: usize as usize,
    ) {
        // SAFETY: the caller of the C API has room for as many sizes.
        unsafe { dim_values.fill(dim_values_length, &info.dims) }
    }

    fn GetSymbolicDimensions(
        info: *const OrtTensorTypeAndShapeInfo as &TensorInfo,
        dim_params: *mut *const c_char as Room<*const c_char>,
        dim_params_length: usize as usize,
    ) {
        let names: Vec<*const c_char> = info.names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the caller of the C API has room for as many names.
        unsafe { dim_params.fill(dim_params_length, &names) }
    }

    fn GetTensorShapeElementCount(
        info: *const OrtTensorTypeAndShapeInfo as &TensorInfo,
        out: *mut usize as Out<usize>,
    ) {
        let mut sizes = info.dims.iter().map(|size| usize::try_from(*size).ok());
        let count = sizes.try_fold(1_usize, |count, size| count.checked_mul(size?));
        out.set(count.ok_or_else(|| Failure::invalid("the tensor has a dimension whose size is not known"))?);
        Ok(())
    }
}

release!(ReleaseTypeInfo: TypeInfo, ReleaseTensorTypeAndShapeInfo: TensorInfo);

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        GetOnnxTypeFromTypeInfo,
        CastTypeInfoToTensorInfo,
        CastTypeInfoToSequenceTypeInfo,
        CastTypeInfoToMapTypeInfo,
        CastTypeInfoToOptionalTypeInfo,
        GetSequenceElementType,
        GetOptionalContainedTypeInfo,
        GetMapKeyType,
        GetMapValueType,
        CreateTensorTypeAndShapeInfo,
        SetTensorElementType,
        SetDimensions,
        SetSymbolicDimensions,
        GetTensorElementType,
        GetDimensionsCount,
        GetDimensions,
        GetSymbolicDimensions,
        GetTensorShapeElementCount,
        ReleaseTypeInfo,
        ReleaseTensorTypeAndShapeInfo,
        ..api
    }
}
