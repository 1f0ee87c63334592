//! Operators that work on each element.

use crate::draft::{Draft, FLOATS, Known, NUMBERS, float, int, text};
use crate::model::number;
use ovolo::tensor::{DType, Tensor};

/// Functions of one float, with the first opset that has them.
const UNARY: &[(&str, i64)] = &[
    ("Relu", 1),
    ("Sigmoid", 1),
    ("Tanh", 1),
    ("Exp", 1),
    ("Log", 1),
    ("Sqrt", 1),
    ("Neg", 1),
    ("Abs", 1),
    ("Reciprocal", 1),
    ("Floor", 1),
    ("Ceil", 1),
    ("Erf", 9),
    ("Sign", 9),
    ("Softplus", 1),
    ("Softsign", 1),
    ("Elu", 1),
    ("Selu", 1),
    ("LeakyRelu", 1),
    ("HardSigmoid", 1),
    ("ThresholdedRelu", 10),
    ("Celu", 12),
    ("HardSwish", 14),
    ("Swish", 24),
    ("Mish", 18),
    ("Gelu", 20),
    ("Round", 11),
    ("Sin", 7),
    ("Cos", 7),
    ("Tan", 7),
    ("Atan", 7),
    ("Asinh", 9),
    ("Sinh", 9),
    ("Cosh", 9),
    ("Shrink", 9),
    ("Identity", 1),
    ("Asin", 7),
    ("Acos", 7),
    ("Acosh", 9),
    ("Atanh", 9),
];

pub(super) fn unary(draft: &mut Draft<'_>) -> Option<()> {
    let (op, since) = draft.rng.pick(UNARY);
    if draft.opset() < since {
        return None;
    }
    let x = draft.any(FLOATS, 0..=4);
    if op == "Sign" && x.dtype == DType::F16 && !x.finite {
        return None; // ONNX Runtime gives 0 for NaN there, and NaN for other types.
    }
    let attributes = match op {
        "Elu" | "LeakyRelu" | "ThresholdedRelu" | "Celu" if draft.rng.percent(60) => {
            vec![float("alpha", draft.rng.pick(&[0.5, 0.1, 1.0, 2.0]))]
        }
        "HardSigmoid" if draft.rng.percent(60) => vec![float("alpha", 0.25), float("beta", 0.4)],
        "Shrink" => vec![float("lambd", 0.4), float("bias", draft.rng.pick(&[0.0, 0.3]))],
        _ => Vec::new(),
    };
    draft.node(op, &[&x.name], attributes, &[x.dtype])
}

pub(super) fn binary(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Add", "Mul"]);
    let floats = matches!(op, "PRelu" | "Pow") || draft.opset() < 7;
    let x = draft.any(if floats { FLOATS } else { NUMBERS }, 0..=4);
    if x.dtype.is_integer() && op == "Div" {
        return None; // A divisor may be zero; `modulo` draws one that is not.
    }
    let y = if op == "PRelu" {
        let dims: Vec<usize> =
            x.dims.iter().map(|&dim| if draft.rng.percent(40) { 1 } else { dim }).collect();
        draft.leaf(x.dtype, &dims)
    } else {
        draft.partner(x.dtype, &x.dims)
    };
    if draft.opset() < 7 {
        return aligned(draft, op, &x, &[x.dtype]);
    }
    let both = if op != "PRelu" && draft.rng.percent(40) { [&y.name, &x.name] } else { [&x.name, &y.name] };
    draft.node(op, &both.map(String::as_str), Vec::new(), &[x.dtype])
}

pub(super) fn several(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["Max", "Min", "Sum", "Mean"]);
    let extreme = matches!(op, "Max" | "Min");
    let x = draft.any(if extreme && draft.opset() >= 12 { NUMBERS } else { FLOATS }, 0..=4);
    let mut names = vec![x.name.clone()];
    for _ in 0..draft.rng.below(3) {
        let y =
            if draft.opset() < 8 { draft.leaf(x.dtype, &x.dims) } else { draft.partner(x.dtype, &x.dims) };
        let larger = y.rank() > x.rank() || y.count() > x.count();
        names.push(y.name);
        if larger {
            break; // The next operand would have to fit both.
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    draft.node(op, &names, Vec::new(), &[x.dtype])
}

pub(super) fn compare(draft: &mut Draft<'_>) -> Option<()> {
    let (op, since) = draft.rng.pick(&[
        ("Equal", 1),
        ("Greater", 1),
        ("Less", 1),
        ("GreaterOrEqual", 12),
        ("LessOrEqual", 12),
        ("IsNaN", 9),
        ("And", 1),
        ("Or", 1),
        ("Xor", 1),
        ("Not", 1),
    ]);
    if draft.opset() < since {
        return None;
    }
    let types: &[DType] = match op {
        "And" | "Or" | "Xor" | "Not" => &[DType::Bool],
        "IsNaN" => &[DType::F32],
        "Equal" if draft.opset() < 11 => &[DType::I32, DType::I64],
        _ if draft.opset() < 9 => &[DType::F32, DType::F64],
        _ => NUMBERS,
    };
    let x = draft.any(types, 0..=4);
    if matches!(op, "IsNaN" | "Not") {
        return draft.node(op, &[&x.name], Vec::new(), &[DType::Bool]);
    }
    if draft.opset() < 7 {
        return aligned(draft, op, &x, &[DType::Bool]);
    }
    let y = draft.partner(x.dtype, &x.dims);
    draft.node(op, &[&x.name, &y.name], Vec::new(), &[DType::Bool])
}

/// Adds an operator of two operands as it was before opset 7, where attributes said how the second one is broadcast.
fn aligned(draft: &mut Draft<'_>, op: &str, x: &Known, results: &[DType]) -> Option<()> {
    if op == "PRelu" {
        if x.rank() == 0 {
            return None;
        }
        let slope = draft.weights(x.dtype, &[1]);
        return draft.node(op, &[&x.name, &slope.name], Vec::new(), results);
    }
    let from = draft.rng.below(x.rank() + 1);
    let to = from + draft.rng.below(x.rank() - from + 1);
    if draft.rng.percent(40) || from == to {
        let y = draft.leaf(x.dtype, &x.dims);
        return draft.node(op, &[&x.name, &y.name], Vec::new(), results);
    }
    let y = draft.leaf(x.dtype, &x.dims[from..to]);
    let mut attributes = vec![int("broadcast", 1)];
    if to < x.rank() || draft.rng.percent(50) {
        attributes.push(int("axis", i64::try_from(from).unwrap_or(0)));
    }
    draft.node(op, &[&x.name, &y.name], attributes, results)
}

pub(super) fn select(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64, DType::F16], 0..=4);
    let condition = draft.partner(DType::Bool, &x.dims);
    if condition.rank() > x.rank() || condition.count() > x.count() {
        return None;
    }
    let y = draft.partner(x.dtype, &x.dims);
    draft.node("Where", &[&condition.name, &x.name, &y.name], Vec::new(), &[x.dtype])
}

/// Casts that stay in range, since ONNX leaves the others open.
pub(super) fn cast(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32, DType::I32, DType::I64, DType::Bool, DType::U8, DType::F16], 0..=4);
    let targets: &[DType] = match x.dtype {
        DType::Bool | DType::U8 => &[DType::F32, DType::I32, DType::I64, DType::F64, DType::F16],
        _ => &[DType::F32, DType::F64, DType::Bool, DType::F32],
    };
    let to = draft.rng.pick(targets);
    if draft.opset() < 6 {
        let name = match to {
            DType::F32 => "FLOAT",
            DType::F64 => "DOUBLE",
            DType::F16 => "FLOAT16",
            DType::I32 => "INT32",
            DType::I64 => "INT64",
            _ => "BOOL",
        };
        return draft.node("Cast", &[&x.name], vec![text("to", name)], &[to]);
    }
    draft.node("Cast", &[&x.name], vec![int("to", i64::from(number(to)))], &[to])
}

pub(super) fn clip(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 0..=4);
    if !x.finite {
        return None; // A bound that is left out is the largest finite number in ONNX Runtime.
    }
    if draft.opset() < 11 {
        return draft.node("Clip", &[&x.name], vec![float("min", -0.5), float("max", 1.25)], &[x.dtype]);
    }
    let bound = |draft: &mut Draft<'_>, value: f64| {
        let constant = draft.rng.percent(60);
        draft.add(Tensor::from_f64(DType::F32, [0_usize; 0], &[value]), constant).name
    };
    let low = if draft.rng.percent(80) { bound(draft, -0.5) } else { String::new() };
    let high = if draft.rng.percent(80) { bound(draft, 1.25) } else { String::new() };
    draft.node("Clip", &[&x.name, &low, &high], Vec::new(), &[x.dtype])
}

/// Division and remainder of integers by numbers that are not zero.
pub(super) fn modulo(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["Mod", "Div"]);
    if draft.opset() < if op == "Mod" { 10 } else { 7 } {
        return None;
    }
    let x = draft.any(&[DType::I32, DType::I64], 0..=3);
    let values: Vec<f64> =
        (0..x.count()).map(|_| draft.rng.pick(&[1.0, 2.0, 3.0, -2.0, 7.0, -1.0, -5.0])).collect();
    let constant = draft.rng.percent(50);
    let y = draft.add(Tensor::from_f64(x.dtype, x.dims.clone(), &values), constant);
    let attributes = if op == "Mod" && draft.rng.percent(50) { vec![int("fmod", 1)] } else { Vec::new() };
    draft.node(op, &[&x.name, &y.name], attributes, &[x.dtype])
}
