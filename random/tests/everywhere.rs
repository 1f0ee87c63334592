//! Every elementwise operator has a way to run in every pipeline of the host, whatever the types, shapes and constants.
#![allow(clippy::unwrap_used)]

use ovolo::onnx::proto::NodeProto;
use ovolo::tensor::{DType, Tensor};
use ovolo_random::{Bench, Kind, Leaf, Model};

const TYPES: [DType; 13] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];
const SHAPES: [(&[usize], &[usize]); 9] = [
    (&[2, 3], &[2, 3]),
    (&[], &[2, 3]),
    (&[1], &[2, 3]),
    (&[3], &[2, 3]),
    (&[2, 1], &[1, 3]),
    (&[17, 7, 3], &[2, 17, 7, 3]),
    (&[1, 1], &[3]),
    (&[0, 3], &[3]),
    (&[], &[]),
];
const BINARY: [(&str, bool); 14] = [
    ("Add", false),
    ("Sub", false),
    ("Mul", false),
    ("Div", false),
    ("Pow", false),
    ("Max", false),
    ("Min", false),
    ("Mod", false),
    ("Equal", true),
    ("Greater", true),
    ("LessOrEqual", true),
    ("And", true),
    ("Or", true),
    ("Xor", true),
];
const UNARY: [&str; 22] = [
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Log",
    "Sqrt",
    "Neg",
    "Abs",
    "Reciprocal",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Softplus",
    "Elu",
    "HardSwish",
    "Sin",
    "Tan",
    "Identity",
    "Not",
    "IsNaN",
];

fn leaf(name: &str, dtype: DType, dims: &[usize], constant: bool) -> Leaf {
    let values = vec![1.0; dims.iter().product()];
    Leaf { name: name.into(), tensor: Tensor::from_f64(dtype, dims, &values), constant }
}

fn model(op: &str, leaves: Vec<Leaf>, output: DType) -> Model {
    let input = leaves.iter().map(|leaf| leaf.name.clone()).collect();
    let node = NodeProto { op_type: op.into(), input, output: vec!["y".into()], ..NodeProto::default() };
    Model { opset: 21, leaves, nodes: vec![node], outputs: vec![("y".into(), output)] }
}

/// Runs a model; returns whether ovolo imports it.
fn runs(bench: &Bench, model: &Model, wrong: &mut Vec<String>) -> bool {
    match bench.outputs(model) {
        Ok(_) => true,
        Err(failure) if failure.kind == Kind::Refused => false,
        Err(failure) => {
            wrong.push(format!("{failure:?}\n{}", model.text()));
            true
        }
    }
}

#[test]
fn every_elementwise_operator_runs_for_all_types_broadcasts_and_constants() {
    // Without oneDNN, `cpu` has the same candidates as `native`.
    let bench = Bench::new(&["cpu"]).unwrap();
    let pairs = SHAPES.iter().flat_map(|(one, other)| {
        let orders = [[one, other], [other, one]];
        orders.into_iter().take(if one == other { 1 } else { 2 })
    });
    let operands: Vec<_> = pairs
        .flat_map(|shapes| [[false, false], [true, false], [false, true]].map(|constant| (shapes, constant)))
        .collect();
    // Each operator and each type meet every third pair of operands, and all operators together every pair, unless all
    // combinations are asked for.
    let step = if std::env::var_os("OVOLO_SLOW_TESTS").is_some() { 1 } else { 3 };
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for (at, (op, logical)) in BINARY.into_iter().enumerate() {
        for (also, dtype) in TYPES.into_iter().enumerate() {
            for ([left, right], [a, b]) in operands.iter().skip((at + also) % step).step_by(step) {
                let leaves = vec![leaf("a", dtype, left, *a), leaf("b", dtype, right, *b)];
                let output = if logical { DType::Bool } else { dtype };
                ran += usize::from(runs(&bench, &model(op, leaves, output), &mut wrong));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(ran > BINARY.len() * TYPES.len() * operands.len() / step / 2, "only {ran} models are imported");
}

#[test]
fn every_function_of_one_number_runs_for_all_types() {
    let bench = Bench::new(&["native", "cpu"]).unwrap();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for op in UNARY {
        for dtype in TYPES {
            for dims in [&[][..], &[5], &[2, 3, 4, 5], &[0]] {
                for constant in [false, true] {
                    let output = if matches!(op, "Not" | "IsNaN") { DType::Bool } else { dtype };
                    let leaves = vec![leaf("x", dtype, dims, constant)];
                    ran += usize::from(runs(&bench, &model(op, leaves, output), &mut wrong));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(ran > UNARY.len() * 30, "only {ran} models are imported");
}
