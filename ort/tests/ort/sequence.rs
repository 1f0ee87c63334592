//! Sequences, maps and optional values.

use crate::onnx::{BOOL, FLOAT, INT64, int, node, of_domain, value};
use crate::{environment, model, open};
use ort::value::{DynTensorValueType, DynValue, Map, Sequence, Tensor, TensorElementType, ValueType};
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, ElementTypeProto, MapTypeProto, ModelProto, OperatorSetId, TypeProto,
    ValueInfoProto,
};
use std::collections::HashMap;

fn sequence(name: &str, inner: TypeProto) -> ValueInfoProto {
    let sequence_type = Some(Box::new(ElementTypeProto { elem_type: Some(Box::new(inner)) }));
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { sequence_type, ..TypeProto::default() }),
    }
}

fn tensors(name: &str) -> ValueInfoProto {
    sequence(name, value("", FLOAT, &["N"]).r#type.unwrap())
}

#[test]
fn a_sequence_comes_out_of_a_model() {
    let split = int("axis", 0, node("SplitToSequence", &["x"], &["y"]));
    let mut session = open(&model::of(vec![split], vec![value("x", FLOAT, &["N"])], vec![tensors("y")]));
    assert!(matches!(session.outputs()[0].dtype(), ValueType::Sequence(inner) if inner.is_tensor()));
    let x = Tensor::from_array(([3_usize], vec![1.0_f32, 2.0, 3.0])).unwrap();
    let mut outputs = session.run(ort::inputs![x]).unwrap();
    let parts = outputs.remove("y").unwrap();
    let found: Vec<f32> = parts
        .downcast::<ort::value::DynSequenceValueType>()
        .unwrap()
        .try_extract_sequence::<DynTensorValueType>()
        .unwrap()
        .iter()
        .map(|part| part.try_extract_tensor::<f32>().unwrap().1[0])
        .collect();
    assert_eq!(found, [1.0, 2.0, 3.0]);
}

#[test]
fn a_sequence_goes_into_a_model() {
    let join = int("axis", 0, node("ConcatFromSequence", &["x"], &["y"]));
    let mut session = open(&model::of(vec![join], vec![tensors("x")], vec![value("y", FLOAT, &["M"])]));
    let part = |data: Vec<f32>| Tensor::from_array(([data.len()], data)).unwrap();
    let x = Sequence::new([part(vec![1.0, 2.0]), part(vec![3.0])]).unwrap();
    assert_eq!(x.len(), 2);
    let outputs = session.run(ort::inputs![x]).unwrap();
    assert_eq!(outputs["y"].try_extract_tensor::<f32>().unwrap().1, [1.0, 2.0, 3.0]);
}

#[test]
fn maps_come_out_of_a_model() {
    let mut zip = of_domain("ai.onnx.ml", node("ZipMap", &["x"], &["y"]));
    zip.attribute.push(AttributeProto {
        name: "classlabels_int64s".to_owned(),
        ints: vec![7, 9],
        r#type: AttributeType::Ints as i32,
        ..AttributeProto::default()
    });
    let value_type = value("", FLOAT, &[]).r#type.map(Box::new);
    let map_type = Some(Box::new(MapTypeProto { key_type: INT64, value_type }));
    let maps = sequence("y", TypeProto { map_type, ..TypeProto::default() });
    let made = model::of(vec![zip], vec![value("x", FLOAT, &["N", "2"])], vec![maps]);
    let learning = OperatorSetId { domain: "ai.onnx.ml".to_owned(), version: 3 };
    let opset_import = made.opset_import.iter().cloned().chain([learning]).collect();
    let mut session = open(&ModelProto { opset_import, ..made });
    let wanted = ValueType::Map { key: TensorElementType::Int64, value: TensorElementType::Float32 };
    assert_eq!(session.outputs()[0].dtype(), &ValueType::Sequence(Box::new(wanted)));
    let x = Tensor::from_array(([2_usize, 2], vec![1.0_f32, 2.0, 3.0, 4.0])).unwrap();
    let mut outputs = session.run(ort::inputs![x]).unwrap();
    let maps = outputs.remove("y").unwrap().downcast::<ort::value::DynSequenceValueType>().unwrap();
    let maps = maps.try_extract_sequence::<ort::value::MapValueType<i64, f32>>().unwrap();
    let found: Vec<Vec<(i64, f32)>> = maps.iter().map(|map| map.extract_key_values()).collect();
    assert_eq!(found, [[(7, 1.0), (9, 2.0)], [(7, 3.0), (9, 4.0)]]);
}

/// An optional tensor.
fn optional(name: &str) -> ValueInfoProto {
    let inner = value("", FLOAT, &["N"]).r#type.map(Box::new);
    let optional_type = Some(Box::new(ElementTypeProto { elem_type: inner }));
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { optional_type, ..TypeProto::default() }),
    }
}

#[test]
fn optional_values_go_through_a_model() {
    let there = node("OptionalHasElement", &["x"], &["there"]);
    let nodes = vec![there, node("OptionalGetElement", &["x"], &["y"]), node("Identity", &["x"], &["z"])];
    let outputs = vec![value("there", BOOL, &[]), value("y", FLOAT, &["N"]), optional("z")];
    let mut session = open(&model::of(nodes, vec![optional("x")], outputs));
    for port in [&session.inputs()[0], &session.outputs()[2]] {
        assert!(matches!(port.dtype(), ValueType::Optional(inner) if inner.is_tensor()), "{port:?}");
    }
    let x = Tensor::from_array(([2_usize], vec![1.0_f32, 2.0])).unwrap();
    let outputs = session.run(ort::inputs![x]).unwrap();
    assert!(outputs["there"].try_extract_scalar::<bool>().unwrap());
    assert_eq!(outputs["y"].try_extract_tensor::<f32>().unwrap().1, [1.0, 2.0]);
    assert_eq!(outputs["z"].try_extract_tensor::<f32>().unwrap().1, [1.0, 2.0]);
}

#[test]
fn an_optional_value_may_be_absent() {
    let mut session = open(&model::of(vec![node("Optional", &[], &["y"])], vec![], vec![optional("y")]));
    let outputs = session.run(HashMap::<String, DynValue>::new()).unwrap();
    assert!(matches!(outputs["y"].dtype(), ValueType::Optional(inner) if inner.is_tensor()));
    assert!(!outputs["y"].is_tensor());
    assert!(outputs["y"].try_extract_tensor::<f32>().is_err());
}

#[test]
fn maps_can_be_made_but_are_no_inputs() {
    environment();
    let map = Map::<String, f32>::new([("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]).unwrap();
    assert_eq!(map.extract_key_values(), [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
    let mut session = open(&model::arithmetic());
    let why = session.run(ort::inputs!["a" => map]).map(|_| ()).unwrap_err();
    assert!(why.message().contains("input `a` is a map"), "{why}");
}
