//! Reads initializers of ONNX models.

use ovolo::onnx;
use ovolo::onnx::proto::TensorProto;
use ovolo::{DType, Tensor, Value, ValueType};
use prost::Message;

/// Returns the value of an initializer.
pub(crate) fn value(tensor: &TensorProto) -> Result<Tensor, String> {
    let dtype =
        DType::ALL.into_iter().find(|dtype| dtype.onnx_number() == tensor.data_type).unwrap_or(DType::F32);
    let value = onnx::decode_value(&tensor.encode_to_vec(), &ValueType::Tensor(dtype));
    match value.map_err(|why| why.to_string())? {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(format!("it is {}", other.kind())),
    }
}
