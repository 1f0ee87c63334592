//! Tests of `src/onnx/element.rs`.

use ovolo::graph::text::random;
use ovolo::onnx::proto::TensorProto;
use ovolo::onnx::{decode_value, encode_value};
use ovolo::tensor::{DType, Tensor, TensorType};
use ovolo::value::{Value, ValueType};
use prost::Message;

/// Returns a tensor as a file has it.
fn stored(tensor: &Tensor) -> TensorProto {
    let bytes = encode_value("x", &Value::Tensor(tensor.clone()), None).unwrap();
    TensorProto::decode(bytes.as_slice()).unwrap()
}

#[test]
fn elements_of_every_type_are_stored_and_read_back() {
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Text) {
        let tensor = random(&TensorType::plain(dtype, [3, 7]), 1);
        let file = stored(&tensor);
        assert!(!file.raw_data.is_empty(), "{dtype}");
        let Value::Tensor(read) = decode_value(&file.encode_to_vec(), &ValueType::Tensor(dtype)).unwrap()
        else {
            panic!("{dtype}: it is no tensor");
        };
        assert_eq!(read.bytes(), tensor.bytes(), "{dtype}");
        assert_eq!(read.ty(), tensor.ty());
    }
}

#[test]
fn narrow_elements_are_packed_from_the_low_bits() {
    let four = Tensor::from_i128(DType::I4, [3], &[1, -2, 7]);
    assert_eq!(&stored(&four).raw_data[..], [0xe1, 0x07]);
    let two = Tensor::from_i128(DType::U2, [5], &[1, 2, 3, 0, 2]);
    assert_eq!(&stored(&two).raw_data[..], [0b0011_1001, 0b10]);
}
