//! Quantisation by its definition.

use crate::draft::Draft;
use ovolo::tensor::{DType, Tensor};

pub(super) fn round_trip(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    // ONNX leaves open what NaN becomes, so the operand is a value of finite numbers.
    let dims = draft.dims(3);
    let x = draft.weights(DType::F32, &dims);
    let dtype = draft.rng.pick(&[DType::U8, DType::I8]);
    let scale = draft.rng.pick(&[0.05, 0.1, 0.0371]);
    let scale = draft.hidden(Tensor::from_f64(DType::F32, [0_usize; 0], &[scale]));
    let zero = draft.rng.pick(&[0.0, 3.0, 100.0]);
    let zero = draft.hidden(Tensor::from_f64(dtype, [0_usize; 0], &[zero]));
    draft.node("QuantizeLinear", &[&x.name, &scale, &zero], Vec::new(), &[dtype])?;
    if draft.closed {
        return Some(());
    }
    let whole = draft.pool.last()?.name.clone();
    draft.node("DequantizeLinear", &[&whole, &scale, &zero], Vec::new(), &[DType::F32])
}

pub(super) fn dynamic(draft: &mut Draft<'_>) -> Option<()> {
    let dims = draft.dims(2);
    let x = draft.weights(DType::F32, &dims);
    if draft.opset() < 11 || x.count() == 0 {
        return None;
    }
    draft.node("DynamicQuantizeLinear", &[&x.name], Vec::new(), &[DType::U8, DType::F32, DType::U8])
}

pub(super) fn product(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let (m, k, n) = (draft.size().max(1), draft.size().max(1), draft.size().max(1));
    let a = draft.leaf(DType::U8, &[m, k]);
    let right = draft.rng.pick(&[DType::U8, DType::I8]);
    let b = draft.leaf(right, &[k, n]);
    let zero =
        |draft: &mut Draft<'_>, dtype: DType| draft.hidden(Tensor::from_f64(dtype, [0_usize; 0], &[3.0]));
    let (left_zero, right_zero) = (zero(draft, DType::U8), zero(draft, right));
    draft.node("MatMulInteger", &[&a.name, &b.name, &left_zero, &right_zero], Vec::new(), &[DType::I32])
}
