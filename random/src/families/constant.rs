//! Constants, and operators that need the shape of a value alone.

use crate::draft::{Draft, float, floats, int, list, tensor};
use crate::model::number;
use ovolo::tensor::{DType, Tensor};

pub(super) fn constant(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() >= 12 && draft.rng.percent(60) {
        let numbers = [0.5, -2.0, 3.0];
        return match draft.rng.below(4) {
            0 => draft.node("Constant", &[], vec![float("value_float", 0.25)], &[DType::F32]),
            1 => draft.node("Constant", &[], vec![floats("value_floats", &numbers)], &[DType::F32]),
            2 => draft.node("Constant", &[], vec![int("value_int", -3)], &[DType::I64]),
            _ => draft.node("Constant", &[], vec![list("value_ints", &[2, 0, -1])], &[DType::I64]),
        };
    }
    let rank = draft.rng.below(4);
    let dims = draft.dims(rank);
    let values: Vec<f64> = (0..dims.iter().product()).map(|_| draft.rng.unit()).collect();
    let value = tensor("value", &Tensor::from_f64(DType::F32, dims, &values));
    draft.node("Constant", &[], vec![value], &[DType::F32])
}

pub(super) fn of_shape(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let sizes: Vec<i64> = (0..draft.rng.below(4)).map(|_| draft.rng.between(0, 4)).collect();
    let shape = draft.ints(&sizes);
    if draft.rng.percent(25) {
        return draft.node("ConstantOfShape", &[&shape], Vec::new(), &[DType::F32]);
    }
    let dtype = draft.rng.pick(&[DType::F32, DType::I64, DType::I32, DType::Bool, DType::F16, DType::U8]);
    let value = tensor("value", &Tensor::from_f64(dtype, [1], &[1.0]));
    draft.node("ConstantOfShape", &[&shape], vec![value], &[dtype])
}

pub(super) fn eye(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64, DType::I32], 2..=2);
    let mut attributes = vec![int("k", draft.rng.between(-3, 3))];
    let mut dtype = x.dtype;
    if draft.rng.percent(50) {
        dtype = draft.rng.pick(&[DType::F32, DType::F64, DType::I32]);
        attributes.push(int("dtype", i64::from(number(dtype))));
    }
    draft.node("EyeLike", &[&x.name], attributes, &[dtype])
}

pub(super) fn range(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let dtype = draft.rng.pick(&[DType::F32, DType::I64, DType::I32, DType::F64]);
    let step = draft.rng.pick(&[1.0, 2.0, -1.0, -3.0]);
    let step = if dtype.is_float() { step * 0.5 } else { step };
    let values = [draft.rng.between(-3, 3), draft.rng.between(-8, 8)];
    #[allow(clippy::cast_precision_loss)] // They are below ten.
    let [start, limit] = values.map(|value| draft.scalar(dtype, value as f64));
    let step = draft.scalar(dtype, step);
    draft.node("Range", &[&start, &limit, &step], Vec::new(), &[dtype])
}

pub(super) fn shape(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32, DType::I64, DType::Bool], 0..=4);
    if draft.rng.percent(30) {
        return draft.node("Size", &[&x.name], Vec::new(), &[DType::I64]);
    }
    let mut attributes = Vec::new();
    if draft.opset() >= 15 {
        for name in ["start", "end"] {
            if draft.rng.percent(50) {
                attributes.push(int(name, draft.rng.between(-5, 5)));
            }
        }
    }
    draft.node("Shape", &[&x.name], attributes, &[DType::I64])
}

/// Dropout as it is after training: the identity.
pub(super) fn dropout(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=4);
    if draft.opset() >= 12 {
        let ratio = draft.scalar(DType::F32, 0.4);
        let results: &[DType] =
            if draft.rng.percent(50) { &[DType::F32] } else { &[DType::F32, DType::Bool] };
        return draft.node("Dropout", &[&x.name, &ratio], Vec::new(), results);
    }
    let mut attributes = vec![float("ratio", 0.4)];
    if draft.opset() < 7 {
        attributes.push(int("is_test", 1));
    }
    draft.node("Dropout", &[&x.name], attributes, &[DType::F32])
}

pub(super) fn cast_like(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 15 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I32, DType::I64, DType::Bool], 0..=4);
    let to = draft.rng.pick(&[DType::F32, DType::F64]);
    let like = draft.leaf(to, &[2]);
    draft.node("CastLike", &[&x.name, &like.name], Vec::new(), &[to])
}
