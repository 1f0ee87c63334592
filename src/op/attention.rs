//! Scaled dot-product attention as one op.

use super::broadcast::Broadcast;
use super::{Arity, AttrDef, Flags, OpDef, OpError, plain, rank};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "attention",
        doc: "softmax(q k^T * scale + mask) v, for q[B,H,M,D], k[B,H,N,D], v[B,H,N,E] and a mask that broadcasts to [B,H,M,N]",
        arity: Arity::Between(3, 4),
        attrs: vec![AttrDef::new(
            "scale",
            AttrKind::Float,
            None,
            "the factor by which the scores are multiplied",
        )],
        flags: Flags::default(),
        infer,
        eval,
        #[allow(clippy::cast_precision_loss)]
        flops: |_, types, output| {
            let scores = output.shape.count() / output.shape[3].max(1) * types[1].shape[2];
            scores as f64 * (2.0 * types[0].shape[3] as f64 + 2.0 * types[2].shape[3] as f64 + 5.0)
        },
        lowered: None,
    }]
}

pub(super) fn infer(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    for operand in 0..3 {
        rank(types, operand, 4)?;
        if types[operand].dtype != types[0].dtype || !types[0].dtype.is_float() {
            return Err(OpError::operand(operand, types[operand], ""));
        }
    }
    let (q, k, v) = (&types[0].shape, &types[1].shape, &types[2].shape);
    if k[..2] != q[..2] || v[..2] != q[..2] || k[3] != q[3] || v[2] != k[2] {
        return Err(OpError::operands(format!(
            "the operands {}, {} and {} do not fit",
            types[0], types[1], types[2]
        )));
    }
    if let Some(mask) = types.get(3) {
        let scores = [q[0], q[1], q[2], k[2]].into();
        if mask.dtype != types[0].dtype || mask.shape.broadcast(&scores).as_ref() != Some(&scores) {
            return Err(OpError::operands(format!("the mask is {mask}, and the scores are {scores}")));
        }
    }
    Ok(TensorType::plain(types[0].dtype, [q[0], q[1], q[2], v[3]]))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (q, k, v) = (&operands[0].ty().shape, &operands[1].ty().shape, &operands[2].ty().shape);
    let (m, d, n, e) = (q[2], q[3], k[2], v[3]);
    let [qs, ks, vs] = [0, 1, 2].map(|operand| operands[operand].to_f64());
    let scores_shape = [q[0], q[1], m, n].into();
    let mask = operands.get(3).map(|mask| (mask.to_f64(), Broadcast::new(&mask.ty().shape, &scores_shape)));
    let scale = attrs.expect_float("scale");
    let mut result = vec![0.0; ty.shape.count()];
    let mut scores = vec![0.0; n];
    for (row, out) in result.chunks_exact_mut(e.max(1)).enumerate() {
        let head = row / m;
        for (key, score) in scores.iter_mut().enumerate() {
            let product: f64 =
                qs[row * d..][..d].iter().zip(&ks[(head * n + key) * d..][..d]).map(|(a, b)| a * b).sum();
            *score =
                product * scale + mask.as_ref().map_or(0.0, |(mask, index)| mask[index.at(row * n + key)]);
        }
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - most).exp() / sum;
            for (out, value) in out.iter_mut().zip(&vs[(head * n + key) * e..][..e]) {
                *out += weight * value;
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}
