//! Tests commands on models whose shapes are not fixed.
#![allow(clippy::unwrap_used)]

use crate::common::{self, folder, ovolo};
use crate::proto::node;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, GraphProto, ModelProto, OperatorSetId, TensorProto, ValueInfoProto,
};
use ovolo::tensor::Tensor;
use prost::Message;
use serde_json::Value;
use std::path::Path;

/// Returns what a command prints, which must succeed.
fn said(at: &Path, arguments: &[&str]) -> String {
    let output = ovolo(at, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn digits() -> String {
    common::root().join("examples/digits/digits.onnx").display().to_string()
}

/// Returns where the plan of each size came from.
fn sizes(at: &Path, sizes: &str) -> Vec<String> {
    sizes_by(at, sizes, "cpu")
}

/// As [`sizes`], with plans of a pipeline.
fn sizes_by(at: &Path, sizes: &str, pipeline: &str) -> Vec<String> {
    let list = [
        "bench",
        &digits(),
        "--sizes",
        sizes,
        "--seconds",
        "0.001",
        "--pipeline",
        pipeline,
        "--cost",
        "flops",
        "--threads",
        "1",
        "--json",
    ];
    let json: Value = serde_json::from_str(&said(at, &list)).unwrap();
    let found = |one: &Value| one["region"]["found"].as_str().unwrap().to_owned();
    json["sizes"].as_array().unwrap().iter().map(found).collect()
}

#[test]
fn a_second_process_compiles_no_region_of_the_same_sizes() {
    let at = folder("regions-again");
    assert_eq!(sizes(&at, "N=1,3,1"), ["compiled", "compiled", "known"]);
    assert_eq!(sizes(&at, "N=3,1,2"), ["cached", "cached", "compiled"]);
    let list = said(&at, &["cache", "list"]);
    assert!(list.contains("region image f32[3,1,8,8]"), "{list}");
    let json: Value = serde_json::from_str(&said(&at, &["cache", "list", "--json"])).unwrap();
    let inputs: Vec<&str> = json["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["region"]["inputs"][0].as_str())
        .collect();
    assert_eq!(inputs.len(), 3, "{json}");
    let entry = json["entries"][0]["entry"].as_str().unwrap().to_owned();
    assert!(said(&at, &["cache", "show", &entry]).contains("region: inputs image f32["));
}

#[test]
fn a_plan_that_depends_on_other_plans_is_cached_for_these() {
    let at = folder("regions-held");
    let text = std::fs::read_to_string(common::root().join("passes/native.ron")).unwrap();
    let own =
        text.replace("Extract(extractor: \"exact\"", "Extract(further_forms: 0.05, extractor: \"exact\"");
    assert_ne!(own, text);
    std::fs::write(at.join("own.ron"), own).unwrap();
    let run = |list: &str| sizes_by(&at, list, "own.ron");
    assert_eq!(run("N=1,360"), ["compiled", "compiled"]);
    assert_eq!(run("N=1,360"), ["cached", "cached"]);
    // Alone, the plan for 360 has nothing beside it, and the one for 1 has that plan beside it.
    assert_eq!(run("N=360,1"), ["compiled", "compiled"]);
    assert_eq!(run("N=360,1"), ["cached", "cached"]);
}

fn value(name: &str, elem_type: i32) -> ValueInfoProto {
    crate::proto::value(name, elem_type, &["N"])
}

/// Writes a model with a branch whose condition only a run knows.
fn branching(at: &Path) {
    let branch = |op: &str, result: &str| GraphProto {
        node: vec![node(op, &["x"], &[result])],
        output: vec![ValueInfoProto { name: result.to_owned(), r#type: None }],
        ..GraphProto::default()
    };
    let mut chosen = node("If", &["c"], &["y"]);
    chosen.attribute.push(body("then_branch", branch("Neg", "a")));
    chosen.attribute.push(body("else_branch", branch("Abs", "b")));
    let mut sum = node("ReduceSum", &["x"], &["s"]);
    let r#type = AttributeType::Int as i32;
    sum.attribute.push(AttributeProto { name: "keepdims".to_owned(), i: 0, r#type, ..Default::default() });
    let zero = TensorProto {
        name: "zero".to_owned(),
        data_type: 1,
        float_data: vec![0.0],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![sum, node("Less", &["s", "zero"], &["c"]), chosen],
        initializer: vec![zero],
        input: vec![value("x", 1)],
        output: vec![value("y", 1)],
        ..GraphProto::default()
    };
    write(at, "branching.onnx", graph);
}

fn write(at: &Path, file: &str, graph: GraphProto) {
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    std::fs::write(at.join(file), model.encode_to_vec()).unwrap();
}

fn body(name: &str, graph: GraphProto) -> AttributeProto {
    let r#type = AttributeType::Graph as i32;
    AttributeProto { name: name.to_owned(), g: Some(Box::new(graph)), r#type, ..Default::default() }
}

/// Writes a model with a loop that adds its input up so many times.
fn adding(at: &Path, times: i64) {
    let [count, truth, zero] = [("count", 7), ("yes", 9), ("zero", 1)].map(|(name, data_type)| TensorProto {
        name: name.to_owned(),
        data_type,
        ..TensorProto::default()
    });
    let inner = GraphProto {
        node: vec![node("Identity", &["go"], &["goes"]), node("Add", &["sum", "x"], &["more"])],
        input: vec![value("i", 7), value("go", 9), value("sum", 1)],
        output: vec![value("goes", 9), value("more", 1)],
        ..GraphProto::default()
    };
    let mut adds = node("Loop", &["count", "yes", "zero"], &["y"]);
    adds.attribute.push(body("body", inner));
    let graph = GraphProto {
        node: vec![adds],
        initializer: vec![
            TensorProto { int64_data: vec![times], ..count },
            TensorProto { int32_data: vec![1], ..truth },
            TensorProto { float_data: vec![0.0], ..zero },
        ],
        input: vec![value("x", 1)],
        output: vec![value("y", 1)],
        ..GraphProto::default()
    };
    write(at, "adding.onnx", graph);
}

#[test]
fn a_long_loop_is_compiled_while_it_runs_whether_sizes_are_fixed_or_not() {
    let at = folder("regions-loop");
    adding(&at, 5000);
    let settings = ["--cost", "flops", "--threads", "1"];
    let listed = said(&at, &[&["compile", "adding.onnx", "--dim", "N=2"], &settings[..]].concat());
    assert!(listed.contains("regions 4 to 5000: 1 steps, same plan as before"), "{listed}");
    assert!(listed.lines().count() < 8, "{listed}");
    ovolo::npy::write(at.join("x.npy"), &Tensor::from_elements([2], &[1.0_f32, -0.5])).unwrap();
    let run = ["run", "adding.onnx", "--input", "x=x.npy", "--output-dir", "out"];
    said(&at, &[&run, &settings[..]].concat());
    let sums = ovolo::npy::read(at.join("out/y.npy")).unwrap();
    assert_eq!(sums.elements::<f32>(), [5000.0, -2500.0]);

    adding(&at, 100);
    let listed = said(&at, &[&["compile", "adding.onnx", "--dim", "N=2"], &settings[..]].concat());
    assert!(!listed.contains("region"), "{listed}");
}

#[test]
fn explain_shows_the_first_region_and_with_inputs_all() {
    let at = folder("regions-explain");
    branching(&at);
    let settings = ["explain", "branching.onnx", "--cost", "flops", "--threads", "1"];
    let first = said(&at, &[&settings[..], &["--dim", "N=2"]].concat());
    assert!(first.contains("region 1: inputs x f32[2]") && !first.contains("region 2"), "{first}");
    assert!(first.contains("region 1 ends there: ") && first.contains("give --input NAME=FILE"), "{first}");

    ovolo::npy::write(at.join("x.npy"), &Tensor::from_elements([3], &[-1.0_f32, 0.0, 0.5])).unwrap();
    let given = [&settings[..], &["--input", "x=x.npy"]].concat();
    let all = said(&at, &given);
    assert!(all.contains("region 2: inputs x f32[3]; for c = 1"), "{all}");
    assert!(all.contains("2 region(s), 2 plan(s)"), "{all}");
    let json: Value = serde_json::from_str(&said(&at, &[&given[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["regions"][1]["asked"][0], "c = 1");
    assert!(
        json["regions"][1]["explained"].is_object() || json["regions"][1]["explained"].is_array(),
        "{json}"
    );

    said(&at, &[&given[..], &["--html", "page.html"]].concat());
    let pages = ["page.html", "page-2.html"].map(|page| std::fs::read_to_string(at.join(page)).unwrap());
    assert!(pages.iter().all(|page| page.contains("<html")));
    let refused = ovolo(&at, &[&given[..], &["--runner-up"]].concat());
    assert!(!refused.status.success());
}

#[test]
fn buckets_need_a_proof() {
    let at = folder("regions-buckets");
    let images = common::root().join("examples/digits/images.npy").display().to_string();
    let input = format!("image={images}");
    let settings = ["run", &digits(), "--input", &input, "--cost", "flops", "--threads", "1", "--output-dir"];
    said(&at, &[&settings[..], &["exact"]].concat());
    said(&at, &[&settings[..], &["filled", "--bucket", "N=64,512"]].concat());
    let [exact, filled] =
        ["exact", "filled"].map(|name| ovolo::npy::read(at.join(name).join("scores.npy")).unwrap());
    assert_eq!(exact.ty(), filled.ty());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4;
    assert!(exact.elements::<f32>().iter().zip(filled.elements::<f32>()).all(close));

    branching(&at);
    ovolo::npy::write(at.join("x.npy"), &Tensor::from_elements([3], &[-1.0_f32, 0.0, 0.5])).unwrap();
    let refused = ovolo(&at, &["run", "branching.onnx", "--input", "x=x.npy", "--bucket", "N=8"]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && why.contains("cannot be rounded up to 8"), "{why}");
}
