//! Operators with graphs inside.

use crate::draft::{Draft, graph, int, list};
use crate::model::declaration;
use ovolo::onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use ovolo::tensor::{DType, Tensor};

fn inner(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.to_owned(),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn body(
    name: &str,
    node: Vec<NodeProto>,
    input: Vec<ValueInfoProto>,
    output: Vec<ValueInfoProto>,
) -> GraphProto {
    GraphProto { name: name.to_owned(), node, input, output, ..GraphProto::default() }
}

/// An `If` whose branches read a value outside.
pub(super) fn branch(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let x = draft.any(&[DType::F32], 1..=3);
    let (truth, constant) = (draft.rng.percent(50), draft.rng.percent(50));
    let condition = Tensor::from_f64(DType::Bool, [0_usize; 0], &[f64::from(u8::from(truth))]);
    let condition = draft.add(condition, constant).name;
    draft.pool.pop();
    let number = draft.model.nodes.len();
    let (left, right) =
        (draft.rng.pick(&["Relu", "Neg", "Exp"]), draft.rng.pick(&["Tanh", "Abs", "Identity"]));
    let one = |op: &str, name: &str| {
        let result = format!("{name}{number}");
        body(
            name,
            vec![inner(op, &[&x.name], &result)],
            Vec::new(),
            vec![declaration(&result, DType::F32, None)],
        )
    };
    let attributes = vec![graph("then_branch", one(left, "then")), graph("else_branch", one(right, "else"))];
    draft.node("If", &[&condition], attributes, &[DType::F32])
}

/// A `Scan` that carries a value over the rows of another one.
pub(super) fn scan(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let (steps, width) = (1 + draft.rng.below(3), 1 + draft.rng.below(4));
    let (state, rows) = (draft.leaf(DType::F32, &[width]).name, draft.leaf(DType::F32, &[steps, width]).name);
    let number = draft.model.nodes.len();
    let name = |what: &str| format!("{what}{number}");
    let (op, more) = (draft.rng.pick(&["Add", "Mul", "Sub"]), draft.rng.pick(&["Tanh", "Abs", "Neg"]));
    let nodes = vec![
        inner(op, &[&name("state"), &name("row")], &name("next")),
        inner(more, &[&name("next")], &name("scanned")),
    ];
    let one = |what: &str| declaration(&name(what), DType::F32, Some(&[width]));
    let inputs = vec![one("state"), one("row")];
    let outputs = vec![one("next"), one("scanned")];
    let mut attributes = vec![graph("body", body("body", nodes, inputs, outputs)), int("num_scan_inputs", 1)];
    for way in ["scan_input_directions", "scan_output_directions"] {
        if draft.rng.percent(40) {
            attributes.push(list(way, &[draft.rng.between(0, 1)]));
        }
    }
    draft.node("Scan", &[&state, &rows], attributes, &[DType::F32, DType::F32])
}

/// A `Loop` that carries a value and stacks another one.
pub(super) fn repeat(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 13 {
        return None;
    }
    let x = draft.any(&[DType::F32], 1..=3);
    if x.count() == 0 {
        return None;
    }
    let (trips, constant) = (draft.rng.between(1, 3), draft.rng.percent(60));
    let trips = draft.add(Tensor::from_elements([0_usize; 0], &[trips]), constant).name;
    draft.pool.pop();
    let number = draft.model.nodes.len();
    let name = |what: &str| format!("{what}{number}");
    let shape = Some(&x.dims[..]);
    let scalar: Option<&[usize]> = Some(&[]);
    let (op, more) = (draft.rng.pick(&["Add", "Mul", "Sub", "Max"]), draft.rng.pick(&["Tanh", "Abs", "Neg"]));
    let nodes = vec![
        inner("Identity", &[&name("on")], &name("still")),
        inner(op, &[&name("state"), &x.name], &name("next")),
        inner(more, &[&name("next")], &name("scanned")),
    ];
    let inputs = vec![
        declaration(&name("turn"), DType::I64, scalar),
        declaration(&name("on"), DType::Bool, scalar),
        declaration(&name("state"), DType::F32, shape),
    ];
    let outputs = vec![
        declaration(&name("still"), DType::Bool, scalar),
        declaration(&name("next"), DType::F32, shape),
        declaration(&name("scanned"), DType::F32, shape),
    ];
    let attributes = vec![graph("body", body("body", nodes, inputs, outputs))];
    draft.node("Loop", &[&trips, "", &x.name], attributes, &[DType::F32, DType::F32])
}
