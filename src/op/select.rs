//! Ops whose results have as many elements as a run finds. Their results are as long as they may get; an op beside
//! each of them gives the number of elements that count, and the rest is zero.

use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};
use std::cmp::Ordering;

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "nonzero",
            doc: "the positions of the elements that are not zero: a row for each axis, a column for each element, in \
                  row-major order",
            arity: Arity::Exactly(1),
            attrs: Vec::new(),
            flags: Flags::default(),
            infer: |_, types| {
                plain(types)?;
                if types[0].dtype == DType::Text {
                    return Err(OpError::operand(0, types[0], ", of which no element is zero"));
                }
                let shape = &types[0].shape;
                Ok(TensorType::plain(DType::I64, [shape.rank(), shape.count()]))
            },
            eval: eval_nonzero,
            flops: |_, types, _| count(types[0]),
            sample: Some(|draw| draw.one()),
            lowered: None,
        },
        OpDef {
            name: "unique-position",
            doc: "for the distinct slices along the first axis, in order: the position of the first slice that is \
                  equal (row 0) and how many are equal (row 1)",
            arity: Arity::Exactly(1),
            attrs: vec![sorted()],
            flags: Flags::default(),
            infer: |_, types| {
                let rows = slices(types)?;
                Ok(TensorType::plain(DType::I64, [2, rows]))
            },
            eval: |attrs, operands, ty| {
                let (firsts, of) = distinct(attrs, operands[0]);
                let mut counts = vec![0_i64; firsts.len()];
                of.iter().for_each(|group| counts[*group] += 1);
                let columns = ty.shape[1];
                let mut values = vec![0; 2 * columns];
                for (at, first) in firsts.iter().enumerate() {
                    values[at] = i64::try_from(*first).unwrap_or(i64::MAX);
                    values[columns + at] = counts[at];
                }
                Tensor::from_elements(ty.shape.clone(), &values)
            },
            flops: |_, types, _| count(types[0]) * 8.0,
            sample: Some(draw_unique),
            lowered: None,
        },
        OpDef {
            name: "unique-inverse",
            doc: "for each slice along the first axis: its number among the distinct slices, in their order",
            arity: Arity::Exactly(1),
            attrs: vec![sorted()],
            flags: Flags::default(),
            infer: |_, types| Ok(TensorType::plain(DType::I64, [slices(types)?])),
            eval: |attrs, operands, ty| {
                let (_, of) = distinct(attrs, operands[0]);
                let of: Vec<i64> = of.iter().map(|group| i64::try_from(*group).unwrap_or(i64::MAX)).collect();
                Tensor::from_elements(ty.shape.clone(), &of)
            },
            flops: |_, types, _| count(types[0]) * 8.0,
            sample: Some(draw_unique),
            lowered: None,
        },
    ]
}

fn sorted() -> AttrDef {
    AttrDef::new(
        "sorted",
        AttrKind::Int,
        None,
        "1: in ascending order, 0: in the order of their first positions",
    )
}

fn slices(types: &[&TensorType]) -> Result<usize, OpError> {
    plain(types)?;
    types[0].shape.first().copied().ok_or_else(|| OpError::operand(0, types[0], ", which has no first axis"))
}

fn eval_nonzero(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let shape = &operands[0].ty().shape;
    let columns = ty.shape[1];
    let mut values = vec![0_i64; ty.shape.count()];
    let found = operands[0].to_f64().into_iter().enumerate().filter(|(_, value)| *value != 0.0);
    for (column, (position, _)) in found.enumerate() {
        let mut rest = position;
        for axis in (0..shape.rank()).rev() {
            values[axis * columns + column] = i64::try_from(rest % shape[axis]).unwrap_or(i64::MAX);
            rest /= shape[axis];
        }
    }
    Tensor::from_elements(ty.shape.clone(), &values)
}

/// Returns the first position of each distinct slice, and the number of each slice's group.
fn distinct(attrs: &Attrs, operand: &Tensor) -> (Vec<usize>, Vec<usize>) {
    let rows = operand.ty().shape[0];
    let length = operand.ty().shape[1..].iter().product::<usize>();
    let sorted = attrs.expect_int("sorted") != 0;
    if let Some(texts) = operand.to_texts() {
        return groups(&texts, rows, length, sorted, Ord::cmp);
    }
    match operand.to_i128() {
        Some(values) => groups(&values, rows, length, sorted, Ord::cmp),
        None => groups(&operand.to_f64(), rows, length, sorted, |a, b| {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }),
    }
}

fn groups<T>(
    values: &[T],
    rows: usize,
    length: usize,
    sorted: bool,
    order: impl Fn(&T, &T) -> Ordering,
) -> (Vec<usize>, Vec<usize>) {
    let row = |at: usize| &values[at * length..(at + 1) * length];
    let compare = |a: usize, b: usize| {
        let pairs = row(a).iter().zip(row(b));
        pairs.map(|(a, b)| order(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order_of_rows: Vec<usize> = (0..rows).collect();
    order_of_rows.sort_by(|a, b| compare(*a, *b));
    // The sort is stable, so the first of equal rows has the lowest position.
    let mut firsts: Vec<usize> = Vec::new();
    let mut of = vec![0; rows];
    for at in order_of_rows {
        if firsts.last().is_none_or(|first| compare(*first, at).is_ne()) {
            firsts.push(at);
        }
        of[at] = firsts.len() - 1;
    }
    if !sorted {
        let mut by_position: Vec<usize> = (0..firsts.len()).collect();
        by_position.sort_by_key(|group| firsts[*group]);
        let mut number = vec![0; firsts.len()];
        by_position.iter().enumerate().for_each(|(new, old)| number[*old] = new);
        firsts = by_position.iter().map(|group| firsts[*group]).collect();
        of.iter_mut().for_each(|group| *group = number[*group]);
    }
    (firsts, of)
}

/// Draws distinct slices.
fn draw_unique(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(2);
    let (x, dtype) = (draw.shape(rank), draw.floats());
    Some(Sample::new(Attrs::new().size("sorted", draw.below(2)), vec![TensorType::plain(dtype, x)]))
}
