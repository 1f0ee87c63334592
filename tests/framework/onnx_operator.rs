//! Tests importers of operators that other crates add.
#![allow(clippy::unwrap_used)]

use crate::proto::{FLOAT, int, node, of_domain, untyped, value};
use ovolo::attr::Attrs;
use ovolo::onnx::proto::{GraphProto, ModelProto, NodeProto, OperatorSetId};
use ovolo::onnx::{
    Call, ImportOptions, ImportedModel, ImportedValue, OnnxError, Operator, Refusal, from_bytes,
};
use ovolo::registry::Registry;
use prost::Message;

type Importer = fn(&mut Call<'_>) -> Result<Vec<ImportedValue>, Refusal>;

/// Imports a model of one node `com.example.Mine` by an importer.
fn load(import: Importer, node: NodeProto) -> Result<ImportedModel, OnnxError> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    registry.add_operator(Operator { name: "com.example.Mine", operands: (1, 1), import }).unwrap();
    let opset = |domain: &str, version| OperatorSetId { domain: domain.to_owned(), version };
    let graph = GraphProto {
        node: vec![of_domain("com.example", node)],
        input: vec![value("x", FLOAT, &["2", "3"])],
        output: vec![untyped("y")],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 17), opset("com.example", 1)],
        graph: Some(graph),
        ..ModelProto::default()
    };
    from_bytes(registry.onnx(), model.encode_to_vec(), "model.onnx", &ImportOptions::default())
}

/// The sum along the axis that an attribute names.
fn sum(call: &mut Call<'_>) -> Result<Vec<ImportedValue>, Refusal> {
    let x = call.input(0)?;
    let axis = call.axis(&x, call.int("axis", -1)?)?;
    call.ignore(&["comment"]);
    let attrs = Attrs::new().sizes("axes", &[axis]);
    if call.flag("keepdims", true)? {
        return Ok(vec![call.result("reduce-sum", attrs, &[&x])?]);
    }
    let sum = call.helper("sum", "reduce-sum", attrs, &[&x])?;
    let dims: Vec<usize> = (0..x.rank()).filter(|at| *at != axis).map(|at| x.dims()[at]).collect();
    Ok(vec![call.reshape(None, &sum, &dims)?])
}

fn mine() -> NodeProto {
    node("Mine", &["x"], &["y"])
}

#[test]
fn an_importer_reads_attributes_and_dimensions() {
    let ty = |node| {
        let model = load(sum, node).unwrap();
        let (_, output) = model.graph.outputs().next().unwrap();
        model.graph[output].ty.to_string()
    };
    assert_eq!(ty(mine()), "f32[2,1]");
    assert_eq!(ty(int("axis", 0, int("keepdims", 0, mine()))), "f32[3]");
    let refused = |node| load(sum, node).unwrap_err().to_string();
    let range = refused(int("axis", 2, mine()));
    assert!(range.contains("axis 2 is out of range for a value of 2 dimensions"), "{range}");
    let stranger = refused(int("other", 2, mine()));
    assert!(stranger.contains("`other`"), "{stranger}");
}

#[test]
fn an_importer_that_applies_an_op_wrongly_is_refused() {
    let refused = |import| load(import, mine()).unwrap_err().to_string();
    for (import, why) in [
        (
            (|call| Ok(vec![call.result("mul", Attrs::new(), &[&call.input(0)?])?])) as Importer,
            "`mul` takes 2 operands",
        ),
        (|call| Ok(vec![call.result("reduce-sum", Attrs::new(), &[&call.input(0)?])?]), "`axes`"),
        (|call| Ok(vec![call.result("relu", Attrs::new().int("axis", 0), &[&call.input(0)?])?]), "`axis`"),
        (
            |call| Ok(vec![call.result("native.relu", Attrs::new(), &[&call.input(0)?])?]),
            "lowered op `native.relu`",
        ),
        (|call| Ok(vec![call.result("rellu", Attrs::new(), &[&call.input(0)?])?]), "`rellu`"),
    ] {
        let said = refused(import);
        assert!(said.contains("Mine") && said.contains(why), "{said}");
    }
}
