//! Operators along axes.

use crate::draft::{Draft, int, list};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

pub(super) fn reduce(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&[
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ]);
    let types: &[DType] = match op {
        "ReduceSum" | "ReduceMax" | "ReduceMin" => &[DType::F32, DType::F32, DType::I32, DType::I64],
        _ => &[DType::F32],
    };
    let x = draft.any(types, 1..=4);
    if !x.finite && matches!(op, "ReduceMax" | "ReduceMin" | "ReduceLogSumExp") {
        return None; // In ONNX Runtime a NaN counts or does not by its place in the line.
    }
    let axes: Vec<i64> = (0..x.rank()).filter(|_| draft.rng.percent(50)).map(signed).collect();
    if x.count() == 0 {
        return None; // Whether a reduction of nothing is allowed differs from operator to operator.
    }
    let negative = draft.opset() >= 11 && draft.rng.percent(30);
    let axes: Vec<i64> = axes.iter().map(|&at| if negative { at - signed(x.rank()) } else { at }).collect();
    let mut attributes = vec![int("keepdims", draft.rng.between(0, 1))];
    if draft.opset() >= if op == "ReduceSum" { 13 } else { 18 } {
        let axes = if axes.is_empty() { String::new() } else { draft.ints(&axes) };
        return draft.node(op, &[&x.name, &axes], attributes, &[x.dtype]);
    }
    if !axes.is_empty() {
        attributes.push(list("axes", &axes));
    }
    draft.node(op, &[&x.name], attributes, &[x.dtype])
}

pub(super) fn position(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["ArgMax", "ArgMin"]);
    let x = draft.any(&[DType::F32, DType::I32], 1..=4);
    let at = draft.rng.below(x.rank());
    if x.dims[at] == 0 || !x.finite {
        return None; // No order has NaN.
    }
    let mut attributes = vec![int("axis", signed(at)), int("keepdims", draft.rng.between(0, 1))];
    if draft.opset() >= 12 && draft.rng.percent(40) {
        attributes.push(int("select_last_index", 1));
    }
    draft.node(op, &[&x.name], attributes, &[DType::I64])
}

pub(super) fn softmax(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["Softmax", "LogSoftmax", "Softmax", "Hardmax"]);
    let x = draft.any(&[DType::F32, DType::F32, DType::F16], 1..=4);
    if x.count() == 0
        || op == "Hardmax" && x.dtype != DType::F32
        || !x.finite && (op == "Hardmax" || x.dtype == DType::F16)
    {
        return None;
    }
    let at = draft.rng.below(x.rank());
    draft.node(op, &[&x.name], vec![int("axis", signed(at))], &[x.dtype])
}

pub(super) fn cumulate(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64], 1..=4);
    let at = signed(draft.rng.below(x.rank()));
    let axis = draft.hidden(Tensor::from_elements([0_usize; 0], &[at]));
    let attributes = vec![int("exclusive", draft.rng.between(0, 1)), int("reverse", draft.rng.between(0, 1))];
    let op = if draft.opset() >= 26 && draft.rng.percent(50) { "CumProd" } else { "CumSum" };
    draft.node(op, &[&x.name, &axis], attributes, &[x.dtype])
}

pub(super) fn top(draft: &mut Draft<'_>) -> Option<()> {
    let whole = draft.opset() >= 11;
    let x = draft.any(if whole { &[DType::F32, DType::I64] } else { &[DType::F32] }, 1..=4);
    let at = draft.rng.below(x.rank());
    if x.dims[at] == 0 || !x.finite {
        return None; // No order has NaN.
    }
    let k = draft.rng.between(1, signed(x.dims[at]));
    if draft.opset() < 10 {
        let attributes = vec![int("axis", signed(at)), int("k", k)];
        return draft.node("TopK", &[&x.name], attributes, &[x.dtype, DType::I64]);
    }
    let k = draft.ints(&[k]);
    let mut attributes = vec![int("axis", signed(at))];
    if whole {
        attributes.push(int("largest", draft.rng.between(0, 1)));
    }
    draft.node("TopK", &[&x.name, &k], attributes, &[x.dtype, DType::I64])
}
