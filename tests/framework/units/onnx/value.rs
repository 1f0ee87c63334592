//! Tests of `src/onnx/value.rs`.

use ovolo::onnx::{decode_value, encode_value};
use ovolo::tensor::{DType, Tensor};
use ovolo::value::{Keys, Map, Value, ValueType};

#[test]
fn values_of_every_kind_are_written_and_read_back() {
    let number = || Value::Tensor(Tensor::from_elements([2], &[1.5_f32, -2.0]));
    let word = Value::Tensor(Tensor::from_texts([1], &["é"]));
    let of = |ty: ValueType| Box::new(ty);
    let tensor = ValueType::Tensor(DType::F32);
    let keys = Keys::Strings(vec!["a".to_owned(), "b".to_owned()]);
    for (value, ty) in [
        (number(), tensor.clone()),
        (word, ValueType::Tensor(DType::Text)),
        (Value::Sequence(vec![number(), number()]), ValueType::Sequence(of(tensor.clone()))),
        (Value::Sequence(Vec::new()), ValueType::Sequence(of(tensor.clone()))),
        (Value::Optional(None), ValueType::Optional(of(tensor.clone()))),
        (Value::Optional(Some(Box::new(number()))), ValueType::Optional(of(tensor.clone()))),
        (Value::Map(Map { keys, values: vec![number(), number()] }), ValueType::Map(None, of(tensor))),
    ] {
        let bytes = encode_value("x", &value, Some(&ty)).unwrap();
        let read = decode_value(&bytes, &ty).unwrap();
        assert_eq!(encode_value("x", &read, Some(&ty)).unwrap(), bytes, "{ty}");
        assert_eq!(read.kind(), value.kind());
    }
    let why = encode_value("x", &number(), Some(&ValueType::Map(None, of(ValueType::Tensor(DType::Text)))));
    assert_eq!(why.unwrap_err().to_string(), "it is declared as map(string,tensor(string)), but is a tensor");
}
