//! Element types, as the C API names them.

use crate::status::Failure;
use ort_sys::ONNXTensorElementDataType as Element;
use ovolo::DType;

/// Each element type of the C API with ovolo's.
const TYPES: [(Element, DType); 26] = [
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, DType::F32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, DType::U8),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, DType::I8),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, DType::U16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, DType::I16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, DType::I32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, DType::I64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, DType::Text),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, DType::Bool),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, DType::F16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, DType::F64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, DType::U32),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, DType::U64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64, DType::C64),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128, DType::C128),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, DType::BF16),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, DType::F8E4M3FN),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ, DType::F8E4M3FNUZ),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2, DType::F8E5M2),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ, DType::F8E5M2FNUZ),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4, DType::U4),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4, DType::I4),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1, DType::F4E2M1),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2, DType::U2),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2, DType::I2),
    (Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0, DType::F8E8M0),
];

/// Returns the C API's name of an element type.
pub fn element(dtype: DType) -> Element {
    let found = TYPES.iter().find(|(_, known)| *known == dtype);
    found.map_or(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, |(element, _)| *element)
}

/// Returns ovolo's element type for that of a tensor whose memory the caller sees.
pub fn dtype(element: Element) -> Result<DType, Failure> {
    let found = TYPES.iter().find(|(known, _)| *known == element);
    let dtype = found.map(|(_, dtype)| *dtype).ok_or_else(|| {
        Failure::invalid(format!("a tensor needs a type for its elements, and {element:?} is none"))
    })?;
    visible(dtype)?;
    Ok(dtype)
}

/// Refuses types of which ONNX Runtime packs several elements into a byte: ovolo has a byte for each.
pub fn visible(dtype: DType) -> Result<(), Failure> {
    if dtype.bits() >= 8 {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "a tensor of {dtype} cannot be passed to ovolo or back, since its elements are smaller than a byte: let \
         the model convert it to a larger type"
    )))
}

/// Returns the element type with a number of ONNX, which the C API uses too; `None` if there is none.
pub fn numbered(number: i32) -> Option<Element> {
    TYPES.iter().map(|(element, _)| *element).find(|element| *element as i32 == number)
}
