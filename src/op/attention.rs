//! Scaled dot-product attention as one op, for operands in any order of axes that leaves the last one in place.

use super::broadcast::Broadcast;
use super::{Arity, AttrDef, Flags, OpDef, OpError, plain, rank};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Shape, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "attention",
        doc: "softmax(q k^T * scale + mask) v, for q[B,H,M,D], k[B,H,N,D], v[B,H,N,E] and a mask that broadcasts to [B,H,M,N]; `order` transposes stored operands and results to these axes, and `nan_as_zero` makes rows of zeros where softmax has no value",
        arity: Arity::Between(3, 4),
        attrs: vec![
            AttrDef::new("scale", AttrKind::Float, None, "the factor by which the scores are multiplied"),
            AttrDef::new(
                "order",
                AttrKind::Ints,
                Some(Attr::Ints(vec![0, 1, 2, 3])),
                "the order of axes: axis i of the queries [B,H,M,D] is axis order[i] of the operand, and the same for \
                 keys, values and the result, but not for the mask; the last axis stays",
            ),
            AttrDef::new(
                "nan_as_zero",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "1: a row whose weights are NaN, as those of a row of scores that are all -infinity, has weights of 0",
            ),
        ],
        flags: Flags::independent(heads),
        infer,
        eval,
        #[allow(clippy::cast_precision_loss)]
        flops: |attrs, types, output| {
            let keys = AxisOrder::new(attrs).map_or(0, |order| types[1].shape[order.axes[2]]);
            let scores = output.shape.count() / output.shape[3].max(1) * keys;
            scores as f64 * (2.0 * types[0].shape[3] as f64 + 2.0 * types[2].shape[3] as f64 + 5.0)
        },
        sample: None,
        lowered: None,
    }]
}

/// The axes of batches and heads are kept, and so are the rows of the queries and the columns of the values.
fn heads(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let Ok(order) = AxisOrder::new(attrs) else { return Vec::new() };
    let [batch, head, row, column] = order.axes;
    let stored = |kept: &[usize]| (0..4).map(|axis| kept.contains(&axis).then_some(axis)).collect();
    let operand = |(operand, ty): (usize, &&TensorType)| match operand {
        0 => stored(&[batch, head, row]),
        1 => stored(&[batch, head]),
        2 => stored(&[batch, head, column]),
        // A mask is not stored in this order.
        _ => {
            let scores = [Some(batch), Some(head), Some(row), None];
            scores[4_usize.saturating_sub(ty.shape.rank())..].to_vec()
        }
    };
    types.iter().enumerate().map(operand).collect()
}

/// The order in which the axes `[B,H,M,D]` of attention's operands and of its result are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisOrder {
    /// For each of the axes batch, head, row and column, the axis of the stored operand.
    pub axes: [usize; 4],
}

impl AxisOrder {
    /// Reads the attribute `order`.
    ///
    /// # Errors
    /// If it is no order of four axes, or if it moves the last one.
    pub fn new(attrs: &Attrs) -> Result<Self, OpError> {
        let order = attrs.expect_ints("order");
        let mut axes = [0; 4];
        let valid = order.len() == 4 && order[3] == 3 && (0..3).all(|axis| order.contains(&axis));
        if !valid {
            return Err(OpError::attribute(
                "order",
                format!("is {order:?}: it must be an order of 4 axes of which the last one stays"),
            ));
        }
        for (axis, stored) in axes.iter_mut().zip(order) {
            *axis = usize::try_from(*stored).unwrap_or(0);
        }
        Ok(Self { axes })
    }

    /// Returns the sizes `[B,H,M,D]` of a stored operand.
    pub fn sizes(self, stored: &Shape) -> [usize; 4] {
        self.axes.map(|axis| stored[axis])
    }

    /// Returns the strides, in elements, of the axes `[B,H,M,D]` of a stored operand.
    pub fn strides(self, stored: &Shape) -> [usize; 4] {
        let strides = stored.strides();
        self.axes.map(|axis| strides[axis])
    }

    /// Returns the shape in which sizes `[B,H,M,D]` are stored.
    pub fn stored(self, sizes: [usize; 4]) -> [usize; 4] {
        let mut stored = [0; 4];
        for (axis, size) in self.axes.into_iter().zip(sizes) {
            stored[axis] = size;
        }
        stored
    }

    /// Whether operands are stored as `[B,H,M,D]`.
    pub fn is_usual(self) -> bool {
        self.axes == [0, 1, 2, 3]
    }
}

pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let order = AxisOrder::new(attrs)?;
    let zero = attrs.expect_int("nan_as_zero");
    if !(0..=1).contains(&zero) {
        return Err(OpError::attribute("nan_as_zero", format!("is {zero}: it must be 0 or 1")));
    }
    for operand in 0..3 {
        rank(types, operand, 4)?;
        if types[operand].dtype != types[0].dtype || !types[0].dtype.is_float() {
            return Err(OpError::operand(operand, types[operand], ""));
        }
    }
    let [q, k, v] = [0, 1, 2].map(|operand| order.sizes(&types[operand].shape));
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
    Ok(TensorType::plain(types[0].dtype, order.stored([q[0], q[1], q[2], v[3]])))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let order = AxisOrder::new(attrs).expect("infer accepted");
    let [q, k, v] = [0, 1, 2].map(|operand| order.sizes(&operands[operand].ty().shape));
    let strides = [0, 1, 2].map(|operand| order.strides(&operands[operand].ty().shape));
    let results = order.strides(&ty.shape);
    let (m, d, n, e) = (q[2], q[3], k[2], v[3]);
    let [qs, ks, vs] = [0, 1, 2].map(|operand| operands[operand].to_f64());
    let scores_shape = [q[0], q[1], m, n].into();
    let mask = operands.get(3).map(|mask| (mask.to_f64(), Broadcast::new(&mask.ty().shape, &scores_shape)));
    let scale = attrs.expect_float("scale");
    let zero = attrs.expect_int("nan_as_zero") == 1;
    let mut result = vec![0.0; ty.shape.count()];
    let mut scores = vec![0.0; n];
    let rows = ty.shape.count().checked_div(e).unwrap_or(0);
    for row in 0..rows {
        // The first element of a row of an operand.
        let at = |strides: &[usize; 4], line: usize| {
            row / m / q[1] * strides[0] + row / m % q[1] * strides[1] + line * strides[2]
        };
        let query = &qs[at(&strides[0], row % m)..][..d];
        for (key, score) in scores.iter_mut().enumerate() {
            let product: f64 = query.iter().zip(&ks[at(&strides[1], key)..][..d]).map(|(a, b)| a * b).sum();
            *score =
                product * scale + mask.as_ref().map_or(0.0, |(mask, index)| mask[index.at(row * n + key)]);
        }
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        // All weights of a row are NaN if one of its scores is NaN or infinity, or if all of them are -infinity.
        let undefined = zero && sum.is_nan();
        let out = at(&results, row % m);
        for (key, score) in scores.iter().enumerate() {
            let weight = if undefined { 0.0 } else { (score - most).exp() / sum };
            for (out, value) in result[out..][..e].iter_mut().zip(&vs[at(&strides[2], key)..][..e]) {
                *out += weight * value;
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}
