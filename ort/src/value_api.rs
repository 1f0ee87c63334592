//! The functions of the C API that make values and read them.

use crate::argument::{Argument, Handle, List, Out, api, release};
use crate::dtype::dtype;
use crate::memory::{Allocator, MemoryInfo, PROCESSOR};
use crate::status::Failure;
use crate::tensor::{Numbers, shape};
use crate::texts::Texts;
use crate::type_info::TypeInfo;
use crate::value::Value;
use ort_sys::{
    ONNXTensorElementDataType as Element, ONNXType, OrtAllocator, OrtApi, OrtMemoryInfo,
    OrtTensorTypeAndShapeInfo, OrtTypeInfo, OrtValue,
};
use ovolo::{DType, TensorType};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

fn numbers(value: &Value) -> Result<&Arc<Numbers>, Failure> {
    match value {
        Value::Numbers(numbers) => Ok(numbers),
        Value::Texts(_) => {
            Err(Failure::invalid("a tensor of strings has no memory that a caller can read or write"))
        }
        _ => Err(no_tensor()),
    }
}

fn no_tensor() -> Failure {
    Failure::invalid("the value is no tensor")
}

fn texts(value: &Value) -> Result<&Texts, Failure> {
    match value {
        Value::Texts(texts) => Ok(texts),
        _ => Err(Failure::invalid("the value is no tensor of strings")),
    }
}

fn tensor_type(element: Element, dims: &[i64]) -> Result<TensorType, Failure> {
    Ok(TensorType::plain(dtype(element)?, shape(dims)?))
}

/// Returns an element of a tensor of strings.
fn text_at(value: &Value, index: usize) -> Result<Arc<str>, Failure> {
    let texts = texts(value)?.texts();
    let count = texts.len();
    texts.get(index).cloned().ok_or_else(|| {
        Failure::invalid(format!(
            "the tensor has {count} strings, and the one with the number {index} was asked for"
        ))
    })
}

/// Writes bytes to memory of the caller.
fn write(target: *mut c_void, room: usize, bytes: &[u8]) -> Result<(), Failure> {
    // SAFETY: the caller of the C API has room for as many bytes.
    unsafe { <crate::argument::Room<u8> as Argument<*mut u8>>::take(target.cast(), "s")?.fill(room, bytes) }
}

api! {
    fn CreateTensorAsOrtValue(
        allocator: *mut OrtAllocator as Allocator,
        dims: *const i64 as List<i64>,
        rank: usize as usize,
        type_: Element as Element,
        out: *mut *mut OrtValue as Out<*mut OrtValue>,
    ) {
        // Ovolo's tensors are aligned for vector instructions, so it allocates them itself.
        let _ = allocator;
        // SAFETY: the caller of the C API has as many sizes.
        let ty = tensor_type(type_, unsafe { dims.of(rank, "shape") }?)?;
        let value = match ty.dtype {
            DType::Text => Value::Texts(Arc::new(Texts::empty(ty.shape))),
            _ => Value::numbers(Numbers::zeros(ty)?),
        };
        out.set(value.lend());
        Ok(())
    }

    fn CreateTensorWithDataAsOrtValue(
        info: *const OrtMemoryInfo as &MemoryInfo,
        p_data: *mut c_void as *mut c_void,
        p_data_len: usize as usize,
        dims: *const i64 as List<i64>,
        rank: usize as usize,
        type_: Element as Element,
        out: *mut *mut OrtValue as Out<*mut OrtValue>,
    ) {
        // All places of memory that can be described are the processor's.
        let _ = info;
        // SAFETY: the caller of the C API has as many sizes.
        let ty = tensor_type(type_, unsafe { dims.of(rank, "shape") }?)?;
        if ty.dtype == DType::Text {
            return Err(Failure::invalid(
                "a tensor of strings cannot be made of memory: make it by an allocator, and fill it",
            ));
        }
        // SAFETY: the caller of the C API keeps the memory as long as the value.
        let numbers = unsafe { Numbers::lent(ty, p_data.cast(), p_data_len) }?;
        out.set(Value::numbers(numbers).lend());
        Ok(())
    }

    fn IsTensor(value: *const OrtValue as &Value, out: *mut c_int as Out<c_int>) {
        out.set(c_int::from(value.element().is_some()));
        Ok(())
    }

    fn HasValue(value: *const OrtValue as &Value, out: *mut c_int as Out<c_int>) {
        out.set(c_int::from(!matches!(value, Value::Absent(_))));
        Ok(())
    }

    fn GetTensorMutableData(value: *mut OrtValue as &Value, out: *mut *mut c_void as Out<*mut c_void>) {
        out.set(numbers(value)?.start().cast());
        Ok(())
    }

    fn GetTensorData(value: *const OrtValue as &Value, out: *mut *const c_void as Out<*const c_void>) {
        out.set(numbers(value)?.start().cast_const().cast());
        Ok(())
    }

    fn GetTensorSizeInBytes(value: *const OrtValue as &Value, size: *mut usize as Out<usize>) {
        size.set(numbers(value)?.length());
        Ok(())
    }

    fn TensorAt(
        value: *mut OrtValue as &Value,
        location_values: *const i64 as List<i64>,
        location_values_count: usize as usize,
        out: *mut *mut c_void as Out<*mut c_void>,
    ) {
        let numbers = numbers(value)?;
        // SAFETY: the caller of the C API has as many indices.
        let location = unsafe { location_values.of(location_values_count, "location_values") }?;
        let dims = numbers.dims();
        let within = location.len() == dims.len()
            && location.iter().zip(dims).all(|(index, size)| (0..*size).contains(index));
        if !within {
            let shape = format!("the tensor of the shape {dims:?}");
            return Err(Failure::invalid(format!("{shape} has no element {location:?}")));
        }
        let flat = location.iter().zip(dims).fold(0, |flat, (index, size)| flat * size + index);
        let offset = usize::try_from(flat).unwrap_or_default() * numbers.ty().dtype.size();
        // SAFETY: the element is one of the tensor's.
        out.set(unsafe { numbers.start().add(offset) }.cast());
        Ok(())
    }

    fn FillStringTensor(
        value: *mut OrtValue as &Value,
        s: *const *const c_char as List<*const c_char>,
        s_len: usize as usize,
    ) {
        // SAFETY: the caller of the C API has as many texts.
        let pointers = unsafe { s.of(s_len, "s") }?;
        let text = |text: &*const c_char| {
            // SAFETY: each of them is a text.
            unsafe { <&str as Argument<*const c_char>>::take(*text, "s") }.map(Arc::from)
        };
        texts(value)?.fill(pointers.iter().map(text).collect::<Result<_, _>>()?)
    }

    fn FillStringTensorElement(
        value: *mut OrtValue as &Value,
        s: *const c_char as &str,
        index: usize as usize,
    ) {
        text_at(value, index)?;
        texts(value)?.texts()[index] = Arc::from(s);
        Ok(())
    }

    fn GetStringTensorDataLength(value: *const OrtValue as &Value, len: *mut usize as Out<usize>) {
        len.set(texts(value)?.texts().iter().map(|text| text.len()).sum());
        Ok(())
    }

    fn GetStringTensorContent(
        value: *const OrtValue as &Value,
        s: *mut c_void as *mut c_void,
        s_len: usize as usize,
        offsets: *mut usize as crate::argument::Room<usize>,
        offsets_len: usize as usize,
    ) {
        let texts = texts(value)?.texts();
        let mut places = Vec::with_capacity(texts.len());
        let mut bytes = Vec::new();
        for text in texts.iter() {
            places.push(bytes.len());
            bytes.extend_from_slice(text.as_bytes());
        }
        write(s, s_len, &bytes)?;
        // SAFETY: the caller of the C API has room for as many numbers.
        unsafe { offsets.fill(offsets_len, &places) }
    }

    fn GetStringTensorElementLength(
        value: *const OrtValue as &Value,
        index: usize as usize,
        out: *mut usize as Out<usize>,
    ) {
        out.set(text_at(value, index)?.len());
        Ok(())
    }

    fn GetStringTensorElement(
        value: *const OrtValue as &Value,
        s_len: usize as usize,
        index: usize as usize,
        s: *mut c_void as *mut c_void,
    ) {
        write(s, s_len, text_at(value, index)?.as_bytes())
    }

    fn GetTensorTypeAndShape(
        value: *const OrtValue as &Value,
        out: *mut *mut OrtTensorTypeAndShapeInfo as Out<*mut OrtTensorTypeAndShapeInfo>,
    ) {
        let TypeInfo::Tensor(info) = value.info() else { return Err(no_tensor()) };
        out.set(info.lend());
        Ok(())
    }

    fn GetTensorElementTypeAndShapeDataReference(
        value: *const OrtValue as &Value,
        elem_type: *mut Element as Out<Element>,
        shape_data: *mut *const i64 as Out<*const i64>,
        shape_data_count: *mut usize as Out<usize>,
    ) {
        let (Some(element), Some(dims)) = (value.element(), value.dims()) else {
            return Err(no_tensor());
        };
        elem_type.set(element);
        shape_data.set(dims.as_ptr());
        shape_data_count.set(dims.len());
        Ok(())
    }

    fn GetTypeInfo(value: *const OrtValue as &Value, out: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>) {
        out.set(value.info().lend());
        Ok(())
    }

    fn GetValueType(value: *const OrtValue as &Value, out: *mut ONNXType as Out<ONNXType>) {
        out.set(value.info().kind());
        Ok(())
    }

    fn GetTensorMemoryInfo(
        value: *const OrtValue as &Value,
        mem_info: *mut *const OrtMemoryInfo as Out<*const OrtMemoryInfo>,
    ) {
        let _ = value;
        mem_info.set(PROCESSOR.pointer());
        Ok(())
    }

    fn GetValueCount(value: *const OrtValue as &Value, out: *mut usize as Out<usize>) {
        out.set(match value {
            Value::Sequence(_, values) => values.len(),
            Value::Map(..) => 2,
            _ => return Err(Failure::invalid("only a sequence or a map has parts")),
        });
        Ok(())
    }

    fn GetValue(
        value: *const OrtValue as &Value,
        index: c_int as c_int,
        allocator: *mut OrtAllocator as Allocator,
        out: *mut *mut OrtValue as Out<*mut OrtValue>,
    ) {
        let _ = allocator;
        let at = usize::try_from(index).ok();
        let part = match (value, at) {
            (Value::Sequence(_, values), Some(at)) => values.get(at),
            (Value::Map(keys, _), Some(0)) => Some(&**keys),
            (Value::Map(_, values), Some(1)) => Some(&**values),
            _ => None,
        };
        let absent = || Failure::invalid(format!("the value has no part with the number {index}"));
        // The caller may write to a part without the value to change, as with ONNX Runtime.
        out.set(part.ok_or_else(absent)?.copied().lend());
        Ok(())
    }

    fn CreateValue(
        in_: *const *const OrtValue as List<*const OrtValue>,
        num_values: usize as usize,
        value_type: ONNXType as ONNXType,
        out: *mut *mut OrtValue as Out<*mut OrtValue>,
    ) {
        // SAFETY: the caller of the C API has as many values.
        let pointers = unsafe { in_.of(num_values, "in") }?;
        let take = |value: &*const OrtValue| {
            // SAFETY: each of them is a value.
            unsafe { <&Value as Argument<*const OrtValue>>::take(*value, "in") }
        };
        let values: Vec<Value> = pointers.iter().map(|value| take(value).cloned()).collect::<Result<_, _>>()?;
        out.set(joined(values, value_type)?.lend());
        Ok(())
    }
}

/// Joins values to a sequence or a map.
fn joined(values: Vec<Value>, kind: ONNXType) -> Result<Value, Failure> {
    match kind {
        ONNXType::ONNX_TYPE_SEQUENCE => match values.first().map(Value::info) {
            Some(info) => Ok(Value::Sequence(info, values)),
            None => Err(Failure::invalid("a sequence needs a value, from which its type is known")),
        },
        ONNXType::ONNX_TYPE_MAP => match <[Value; 2]>::try_from(values) {
            Ok([keys, values]) if keys.dims().is_some() && keys.dims() == values.dims() => {
                Ok(Value::Map(Box::new(keys), Box::new(values)))
            }
            _ => Err(Failure::invalid("a map needs a tensor of keys, and a tensor with as many values")),
        },
        _ => Err(Failure::invalid(format!(
            "{kind:?} is no type of which a value can be joined: give that of a sequence or a map"
        ))),
    }
}

impl Argument<ONNXType> for ONNXType {
    unsafe fn take(raw: ONNXType, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

release!(ReleaseValue: Value);

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateTensorAsOrtValue,
        CreateTensorWithDataAsOrtValue,
        IsTensor,
        HasValue,
        GetTensorMutableData,
        GetTensorData,
        GetTensorSizeInBytes,
        TensorAt,
        FillStringTensor,
        FillStringTensorElement,
        GetStringTensorDataLength,
        GetStringTensorContent,
        GetStringTensorElementLength,
        GetStringTensorElement,
        GetTensorTypeAndShape,
        GetTensorElementTypeAndShapeDataReference,
        GetTypeInfo,
        GetValueType,
        GetTensorMemoryInfo,
        GetValueCount,
        GetValue,
        CreateValue,
        ReleaseValue,
        ..api
    }
}
