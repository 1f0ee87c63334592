//! Reductions over axes.

use super::independence::{none, reduction};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, axis, count, plain, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::scalar::{larger, smaller};
use crate::tensor::{DType, Tensor, TensorType};
use std::cmp::Ordering;

macro_rules! reduction {
    ($name:literal, $doc:literal, $float:expr, $int:expr) => {
        OpDef {
            name: $name,
            doc: $doc,
            arity: Arity::Exactly(1),
            attrs: reduction_attrs(),
            flags: Flags::independent(reduction),
            infer: |attrs, types| {
                plain(types)?;
                infer(attrs, types)
            },
            eval: |attrs, operands, ty| eval(attrs, operands[0], ty, $float, $int),
            flops: |_, types, _| count(types[0]),
            sample: None,
            lowered: None,
        }
    };
}

fn reduction_attrs() -> Vec<AttrDef> {
    vec![
        AttrDef::new("axes", AttrKind::Ints, None, "the axes in ascending order, none negative"),
        AttrDef::new("keepdims", AttrKind::Int, Some(Attr::Int(1)), "1: the axes are kept, with size 1"),
    ]
}

pub(super) fn ops() -> Vec<OpDef> {
    let mut ops = vec![
        reduction!(
            "reduce-sum",
            "the sum along the axes; for integers, it wraps around",
            // A sum of no elements is 0; Rust's own is -0.
            |line| line.iter().copied().reduce(|sum, element| sum + element).unwrap_or(0.0),
            |line, _| line.iter().copied().fold(0, i128::wrapping_add)
        ),
        reduction!("reduce-mean", "the mean along the axes", float_mean, integer_mean),
        reduction!(
            "reduce-max",
            "the largest element along the axes; NaN if there is one",
            |line| line.iter().copied().fold(f64::NEG_INFINITY, larger),
            |line, (least, _)| { line.iter().copied().max().unwrap_or(least) }
        ),
        reduction!(
            "reduce-min",
            "the smallest element along the axes; NaN if there is one",
            |line| line.iter().copied().fold(f64::INFINITY, smaller),
            |line, (_, most)| { line.iter().copied().min().unwrap_or(most) }
        ),
        reduction!(
            "reduce-prod",
            "the product along the axes; for integers, it wraps around",
            |line| line.iter().product(),
            |line, _| { line.iter().copied().fold(1, i128::wrapping_mul) }
        ),
    ];
    ops.push(sum_integer());
    ops.push(arg("arg-max", "the position of the largest element along an axis", |attrs, operands, ty| {
        eval_arg(attrs, operands[0], ty, Ordering::Greater)
    }));
    ops.push(arg("arg-min", "the position of the smallest element along an axis", |attrs, operands, ty| {
        eval_arg(attrs, operands[0], ty, Ordering::Less)
    }));
    ops
}

/// Infers the result of a reduction. It has the layout of the operand if the axes stay.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let x = types[0];
    let axes = sizes(attrs, "axes")?;
    if let Some(bad) = axes.iter().find(|axis| **axis >= x.shape.rank()) {
        return Err(OpError::attribute("axes", format!("holds {bad}, and operand 0 is {x}")));
    }
    if axes.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(OpError::attribute("axes", "is not sorted, or names an axis twice"));
    }
    if !x.dtype.is_number() {
        return Err(OpError::operand(0, x, ", not a number"));
    }
    let keep = attrs.expect_int("keepdims") != 0;
    let dims: Vec<usize> = x
        .shape
        .iter()
        .enumerate()
        .filter_map(|(axis, size)| {
            if !axes.contains(&axis) {
                Some(*size)
            } else if keep {
                Some(1)
            } else {
                None
            }
        })
        .collect();
    Ok(TensorType { shape: dims.as_slice().into(), ..x.clone() })
}

#[allow(clippy::cast_precision_loss)]
fn float_mean(line: &[f64]) -> f64 {
    line.iter().sum::<f64>() / line.len() as f64
}

/// The sum wraps at 64 bits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn integer_mean(line: &[i128], (_, most): (i128, i128)) -> i128 {
    let sum = line.iter().copied().fold(0, i128::wrapping_add);
    let sum = if most > i128::from(i64::MAX) { i128::from(sum as u64) } else { i128::from(sum as i64) };
    sum / i128::try_from(line.len().max(1)).unwrap_or(1)
}

/// Evaluates `reduce-mean`.
pub(super) fn eval_mean(attrs: &Attrs, operand: &Tensor, ty: &TensorType) -> Tensor {
    eval(attrs, operand, ty, float_mean, integer_mean)
}

/// Reduces integers; the second argument is the range of their type. The result is cut to the width of the type.
type Integers = fn(&[i128], (i128, i128)) -> i128;

fn eval(attrs: &Attrs, operand: &Tensor, ty: &TensorType, float: fn(&[f64]) -> f64, int: Integers) -> Tensor {
    let axes = sizes(attrs, "axes").expect("infer accepted");
    if let Some(values) = operand.to_i128() {
        let range = ty.dtype.integer_range().unwrap_or_default();
        let result = reduced(&values, operand.ty(), &axes, |line| int(line, range));
        Tensor::from_i128(ty.dtype, ty.shape.clone(), &result)
    } else {
        let values = operand.to_f64();
        let result = reduced(&values, operand.ty(), &axes, float);
        Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
    }
}

/// Calls a function on the elements that each element of the result reduces.
fn reduced<T: Copy, R>(values: &[T], ty: &TensorType, axes: &[usize], each: impl Fn(&[T]) -> R) -> Vec<R> {
    let adjacent = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let (Some(&first), Some(&last), true) = (axes.first(), axes.last(), adjacent) else {
        return gather(values, ty, axes).iter().map(|line| each(line)).collect();
    };
    // The lines of adjacent axes are gathered one after the other.
    let size = |axes: std::ops::Range<usize>| ty.shape[axes].iter().product::<usize>();
    let (outer, length, inner) = (size(0..first), size(first..last + 1), size(last + 1..ty.shape.rank()));
    let mut line = Vec::with_capacity(length);
    let starts = (0..outer).flat_map(|outer| (0..inner).map(move |at| outer * length * inner + at));
    let one = |start: usize| {
        line.clear();
        line.extend((0..length).map(|at| values[start + at * inner]));
        each(&line)
    };
    starts.map(one).collect()
}

/// Returns, for each element of the result, the elements that it reduces.
fn gather<T: Copy>(values: &[T], ty: &TensorType, axes: &[usize]) -> Vec<Vec<T>> {
    let shape = &ty.shape;
    let results: usize =
        shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| size).product();
    let mut lines = vec![Vec::new(); results];
    for (position, value) in values.iter().enumerate() {
        let (mut rest, mut at, mut step) = (position, 0, 1);
        for axis in (0..shape.rank()).rev() {
            if !axes.contains(&axis) {
                at += rest % shape[axis] * step;
                step *= shape[axis];
            }
            rest /= shape[axis];
        }
        lines[at].push(*value);
    }
    lines
}

fn sum_integer() -> OpDef {
    OpDef {
        name: "reduce-sum-integer",
        doc: "the sum of x - p along the axes in i32, for 8-bit integers x and their zero point p, which has one element; it wraps around",
        arity: Arity::Exactly(2),
        attrs: reduction_attrs(),
        flags: Flags::independent(reduced_levels),
        infer: |attrs, types| {
            plain(types)?;
            if !matches!(types[0].dtype, DType::I8 | DType::U8) {
                return Err(OpError::operand(0, types[0], ", neither i8 nor u8"));
            }
            if types[1].dtype != types[0].dtype || types[1].shape.count() != 1 {
                return Err(OpError::operand(
                    1,
                    types[1],
                    format!(", which is no zero point of {}", types[0]),
                ));
            }
            Ok(TensorType { dtype: DType::I32, ..infer(attrs, types)? })
        },
        eval: |attrs, operands, ty| {
            let [values, points] = [0, 1].map(|at| operands[at].to_i128().unwrap_or_default());
            let point = points.first().copied().unwrap_or(0);
            let lines = gather(&values, operands[0].ty(), &sizes(attrs, "axes").expect("infer accepted"));
            let sums: Vec<i128> =
                lines.iter().map(|line| line.iter().map(|value| value - point).sum()).collect();
            Tensor::from_i128(ty.dtype, ty.shape.clone(), &sums)
        },
        flops: |_, types, _| count(types[0]),
        sample: Some(draw_sum_integer),
        lowered: None,
    }
}

/// The axes of the levels that are kept.
fn reduced_levels(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    reduction(attrs, &types[..1], result).into_iter().chain([none(types[1])]).collect()
}

/// Draws sums of bytes over one or two axes.
fn draw_sum_integer(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.pick(&[DType::U8, DType::I8]);
    let rank = draw.small();
    let shape = draw.shape(rank);
    let mut axes: Vec<i64> =
        (0..rank).filter(|_| draw.percent(50)).filter_map(|axis| i64::try_from(axis).ok()).collect();
    if axes.is_empty() {
        axes.push(0);
    }
    let keep = i64::from(draw.percent(50));
    let attrs = Attrs::new().with("axes", Attr::Ints(axes)).with("keepdims", Attr::Int(keep));
    Some(Sample::new(attrs, [TensorType::plain(dtype, shape), TensorType::plain(dtype, vec![])]))
}

fn arg(name: &'static str, doc: &'static str, eval: fn(&Attrs, &[&Tensor], &TensorType) -> Tensor) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: vec![
            AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative"),
            AttrDef::new("keepdims", AttrKind::Int, Some(Attr::Int(1)), "1: the axis is kept, with size 1"),
            AttrDef::new(
                "select-last",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "1: the last of several equal elements, else the first",
            ),
        ],
        flags: Flags::independent(reduction),
        infer: |attrs, types| {
            plain(types)?;
            if !types[0].dtype.is_number() {
                return Err(OpError::operand(0, types[0], ", not a number"));
            }
            let axis = axis(attrs, "axis", types[0].shape.rank())?;
            let mut dims = types[0].shape.to_vec();
            if attrs.expect_int("keepdims") != 0 {
                dims[axis] = 1;
            } else {
                dims.remove(axis);
            }
            Ok(TensorType::plain(DType::I64, dims))
        },
        eval,
        flops: |_, types, _| count(types[0]),
        sample: None,
        lowered: None,
    }
}

fn eval_arg(attrs: &Attrs, operand: &Tensor, ty: &TensorType, better: Ordering) -> Tensor {
    let axis = axis(attrs, "axis", operand.ty().shape.rank()).expect("infer accepted");
    let last = attrs.expect_int("select-last") != 0;
    let positions = match operand.to_i128() {
        Some(values) => best(&gather(&values, operand.ty(), &[axis]), better, last),
        None => best(&gather(&operand.to_f64(), operand.ty(), &[axis]), better, last),
    };
    Tensor::from_elements(ty.shape.clone(), &positions)
}

/// Returns the position of the best element of each line, the first or the last of equal ones.
fn best<T: PartialOrd>(lines: &[Vec<T>], better: Ordering, last: bool) -> Vec<i64> {
    let position = |line: &Vec<T>| {
        let mut best = 0;
        for (index, value) in line.iter().enumerate() {
            let order = value.partial_cmp(&line[best]);
            if order == Some(better) || last && order == Some(Ordering::Equal) {
                best = index;
            }
        }
        i64::try_from(best).unwrap_or(0)
    };
    lines.iter().map(position).collect()
}
