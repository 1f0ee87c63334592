//! Ops that go along one axis in order: positions of the largest elements, and running sums and products.

use super::independence::except_axis;
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, axis, count, plain};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};
use std::cmp::Ordering;

pub(super) fn ops() -> Vec<OpDef> {
    let flag = |name, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(0)), doc);
    let running = |name, doc, eval| OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: vec![
            AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative"),
            flag("exclusive", "1: the element itself is left out"),
            flag("reverse", "1: from the last element to the first"),
        ],
        flags: Flags::independent(except_axis),
        infer: |attrs, types| {
            plain(types)?;
            axis(attrs, "axis", types[0].shape.rank())?;
            match types[0].dtype {
                DType::Bool => Err(OpError::operand(0, types[0], ", not a number")),
                _ => Ok(types[0].clone()),
            }
        },
        eval,
        flops: |_, types, _| count(types[0]),
        sample: Some(draw_running),
        lowered: None,
    };
    vec![
        OpDef {
            name: "top-k-index",
            doc: "the positions of the k largest or smallest elements along an axis, the best first; of equal elements, \
                  the one with the lower position comes first",
            arity: Arity::Exactly(1),
            attrs: vec![
                AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative"),
                AttrDef::new("k", AttrKind::Int, None, "the number of elements"),
                AttrDef::new("largest", AttrKind::Int, Some(Attr::Int(1)), "1: the largest, 0: the smallest"),
            ],
            flags: Flags::independent(except_axis),
            infer: infer_top,
            eval: eval_top,
            flops: |_, types, _| count(types[0]) * 8.0,
            sample: Some(draw_top),
            lowered: None,
        },
        running("cum-sum", "the sums of the elements up to each one along an axis", |attrs, operands, ty| {
            run(attrs, operands[0], ty, (0.0, |a, b| a + b), (0, i128::wrapping_add))
        }),
        running(
            "cum-prod",
            "the products of the elements up to each one along an axis",
            |attrs, operands, ty| run(attrs, operands[0], ty, (1.0, |a, b| a * b), (1, i128::wrapping_mul)),
        ),
    ]
}

fn infer_top(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let k = attrs.expect_int("k");
    let size = types[0].shape[axis];
    let kept = usize::try_from(k).ok().filter(|kept| *kept <= size).ok_or_else(|| {
        OpError::attribute("k", format!("is {k}, and axis {axis} of {} has {size} elements", types[0]))
    })?;
    let mut dims = types[0].shape.to_vec();
    dims[axis] = kept;
    Ok(TensorType::plain(DType::I64, dims))
}

fn eval_top(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
    let largest = attrs.expect_int("largest") != 0;
    let shape = &operands[0].ty().shape;
    let (size, kept) = (shape[axis], ty.shape[axis]);
    let inner: usize = shape[axis + 1..].iter().product();
    let mut result = vec![0_i64; ty.shape.count()];
    let mut pick = |order: &dyn Fn(usize, usize) -> Ordering| {
        let outer: usize = shape[..axis].iter().product();
        let mut positions: Vec<usize> = Vec::with_capacity(size);
        for line in 0..outer * inner {
            let (from, to) =
                (line / inner * size * inner + line % inner, line / inner * kept * inner + line % inner);
            positions.clear();
            positions.extend(0..size);
            positions.sort_by(|a, b| {
                let order = order(from + a * inner, from + b * inner);
                if largest { order.reverse() } else { order }
            });
            for (at, position) in positions.iter().take(kept).enumerate() {
                result[to + at * inner] = i64::try_from(*position).unwrap_or(i64::MAX);
            }
        }
    };
    match operands[0].to_i128() {
        Some(values) => pick(&|a, b| values[a].cmp(&values[b])),
        None => {
            let values = operands[0].to_f64();
            // NaN counts as larger than every number, as in NumPy.
            pick(&|a, b| {
                let (a, b) = (values[a], values[b]);
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            });
        }
    }
    Tensor::from_elements(ty.shape.clone(), &result)
}

/// Evaluates a running op by its neutral element and its function, for floats and for integers.
fn run(
    attrs: &Attrs,
    operand: &Tensor,
    ty: &TensorType,
    float: (f64, fn(f64, f64) -> f64),
    int: (i128, fn(i128, i128) -> i128),
) -> Tensor {
    match operand.to_i128() {
        Some(values) => Tensor::from_i128(ty.dtype, ty.shape.clone(), &along(attrs, &values, ty, int)),
        None => {
            let values = along(attrs, &operand.to_f64(), ty, float);
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        }
    }
}

fn along<T: Copy>(
    attrs: &Attrs,
    values: &[T],
    ty: &TensorType,
    (neutral, join): (T, fn(T, T) -> T),
) -> Vec<T> {
    let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
    let (exclusive, reverse) = (attrs.expect_int("exclusive") != 0, attrs.expect_int("reverse") != 0);
    let size = ty.shape[axis];
    let inner: usize = ty.shape[axis + 1..].iter().product();
    let mut result = values.to_vec();
    for line in 0..values.len().checked_div(size).unwrap_or(0) {
        let start = line / inner * size * inner + line % inner;
        let mut so_far = neutral;
        for step in 0..size {
            let at = start + if reverse { size - 1 - step } else { step } * inner;
            let next = join(so_far, values[at]);
            result[at] = if exclusive { so_far } else { next };
            so_far = next;
        }
    }
    result
}

/// Draws the best elements along an axis.
fn draw_top(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(3);
    let (x, axis, dtype) = (draw.shape(rank), draw.below(rank), draw.floats());
    let k = 1 + draw.below(x[axis]);
    let attrs = Attrs::new().size("axis", axis).size("k", k).size("largest", draw.below(2));
    Some(Sample::new(attrs, vec![TensorType::plain(dtype, x)]))
}

/// Draws sums or products of the elements before.
fn draw_running(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(3);
    let (x, axis, dtype) = (draw.shape(rank), draw.below(rank), draw.floats());
    let attrs = Attrs::new().size("axis", axis).size("exclusive", draw.below(2));
    Some(Sample::new(attrs.size("reverse", draw.below(2)), vec![TensorType::plain(dtype, x)]))
}
