//! Operators on bits.

use crate::draft::{Draft, int, text};
use crate::model::number;
use ovolo::tensor::{DType, Tensor};

pub(super) fn shift(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let x = draft.any(&[DType::U8, DType::U32, DType::U64], 0..=3);
    let values: Vec<f64> = (0..x.count()).map(|_| draft.rng.pick(&[0.0, 1.0, 2.0, 5.0, 7.0])).collect();
    let constant = draft.rng.percent(50);
    let by = draft.add(Tensor::from_f64(x.dtype, x.dims.clone(), &values), constant);
    let direction = text("direction", draft.rng.pick(&["LEFT", "RIGHT"]));
    draft.node("BitShift", &[&x.name, &by.name], vec![direction], &[x.dtype])
}

pub(super) fn wise(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 18 {
        return None;
    }
    let types =
        [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];
    let x = draft.any(&types, 0..=4);
    if draft.rng.percent(25) {
        return draft.node("BitwiseNot", &[&x.name], Vec::new(), &[x.dtype]);
    }
    let y = draft.partner(x.dtype, &x.dims);
    let op = draft.rng.pick(&["BitwiseAnd", "BitwiseOr", "BitwiseXor"]);
    draft.node(op, &[&x.name, &y.name], Vec::new(), &[x.dtype])
}

pub(super) fn cast(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 26 {
        return None;
    }
    let (from, to) = draft.rng.pick(&[
        (DType::F32, DType::I32),
        (DType::F32, DType::U32),
        (DType::F64, DType::I64),
        (DType::I32, DType::U32),
        (DType::U8, DType::I8),
    ]);
    let x = draft.any(&[from], 0..=3);
    if !x.finite {
        return None; // The bits of a NaN are not compared.
    }
    draft.node("BitCast", &[&x.name], vec![int("to", i64::from(number(to)))], &[to])
}

pub(super) fn infinite(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let types: &[DType] =
        if draft.opset() >= 20 { &[DType::F32, DType::F64, DType::F16] } else { &[DType::F32, DType::F64] };
    let x = draft.any(types, 0..=4);
    let mut attributes = Vec::new();
    for name in ["detect_negative", "detect_positive"] {
        if draft.rng.percent(40) {
            attributes.push(int(name, draft.rng.between(0, 1)));
        }
    }
    draft.node("IsInf", &[&x.name], attributes, &[DType::Bool])
}
