//! Tests the example through its own command line: a model runs and is explained, and the rules are verified.
#![allow(clippy::unwrap_used)]

use ovolo::npy;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use ovolo::tensor::{DType, Tensor};
use prost::Message;
use std::path::PathBuf;
use std::process::Command;

/// Returns a new folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("extend-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the command line in a folder and returns what it prints.
fn extend(folder: &PathBuf, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extend"));
    command.args(arguments.split(' ')).current_dir(folder).env("OVOLO_CACHE", folder.join("cache"));
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments}: {text}{errors}");
    text
}

/// `y = exp(swirl(swirl(x, turns = 0), turns = 2))`.
fn model() -> ModelProto {
    let swirl = |input: &str, output: &str, turns: f32| NodeProto {
        op_type: "Swirl".into(),
        domain: "com.example".into(),
        input: vec![input.into()],
        output: vec![output.into()],
        attribute: vec![AttributeProto {
            name: "turns".into(),
            f: turns,
            r#type: AttributeType::Float.into(),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let exp = NodeProto {
        op_type: "Exp".into(),
        input: vec!["t".into()],
        output: vec!["y".into()],
        ..NodeProto::default()
    };
    let dim = [2, 3].map(|size| DimensionProto { dim_value: Some(size), dim_param: None }).to_vec();
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) });
    let ty = Some(TypeProto { tensor_type, ..TypeProto::default() });
    let graph = GraphProto {
        node: vec![swirl("x", "s", 0.0), swirl("s", "t", 2.0), exp],
        input: vec![ValueInfoProto { name: "x".into(), r#type: ty }],
        output: vec![ValueInfoProto { name: "y".into(), r#type: None }],
        ..GraphProto::default()
    };
    let domain = |domain: &str, version| OperatorSetId { domain: domain.into(), version };
    let opset_import = vec![domain("", 17), domain("com.example", 1)];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
}

#[test]
fn a_model_runs_and_is_explained() {
    let folder = folder("model");
    std::fs::write(folder.join("swirl.onnx"), model().encode_to_vec()).unwrap();
    let plan = extend(&folder, "explain swirl.onnx --pipeline extend --json");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let ops: Vec<&str> = steps.iter().map(|step| step["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["extend.swirl", "native.map"]);
    let stages = extend(&folder, "compile swirl.onnx --pipeline extend --no-cache");
    assert!(stages.contains("census") && stages.contains(" e-nodes\n"), "{stages}");
    let x = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0];
    npy::write(folder.join("x.npy"), &Tensor::from_f64(DType::F32, [2, 3], &x)).unwrap();
    // Compile once, then load the plan from the cache.
    for _ in 0..2 {
        extend(&folder, "run swirl.onnx --pipeline extend --input x=x.npy --output-dir out");
        let y = npy::read(folder.join("out/y.npy")).unwrap().to_f64();
        for (x, y) in x.iter().zip(y) {
            assert!((y - (x * (2.0 * x).cos()).exp()).abs() < 1e-5, "{x}: {y}");
        }
    }
}

#[test]
fn its_rules_are_verified_and_tested_with_the_shipped_ones() {
    let folder = folder("rules");
    let verified = extend(&folder, "rules verify --rule extend --json");
    for rule in ["drop-still-swirl", "lower-swirl"] {
        let line = verified.lines().find(|line| line.contains(rule));
        assert!(line.is_some_and(|line| line.contains("holds")), "{verified}");
    }
    let listed = extend(&folder, "rules list");
    assert!(
        listed.contains("lower-swirl (rules/extend.ron:") && listed.contains("lower-relu-native"),
        "{listed}"
    );
    let tested = extend(&folder, "rules test");
    assert!(tested.ends_with(" 0 wrong\n"), "{tested}");
}
