//! Ops that move elements without computing new ones.

use super::broadcast::Broadcast;
use super::independence::{broadcast, except_axis, none};
use super::scatter::along_axis;
use super::{Arity, AttrDef, Flags, Independence, OpDef, OpError, axis, plain, sizes};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Shape, Tensor, TensorType};
use std::cmp::Ordering;

const fn nothing(_: &Attrs, _: &[&TensorType], _: &TensorType) -> f64 {
    0.0
}

macro_rules! def {
    ($name:literal, $doc:literal, $arity:expr, [$($attr:expr),*], $independence:expr, $infer:expr, $eval:expr) => {
        def!($name, $doc, $arity, [$($attr),*], $independence, None, $infer, $eval)
    };
    ($name:literal, $doc:literal, $arity:expr, [$($attr:expr),*], $independence:expr, $demands:expr, $infer:expr,
     $eval:expr) => {
        OpDef {
            name: $name, doc: $doc, arity: $arity, attrs: vec![$($attr),*],
            flags: Flags { independence: $independence, demands: $demands, ..Flags::default() },
            infer: |attrs, types| { plain(types)?; let infer: super::Infer = $infer; infer(attrs, types) },
            eval: $eval, flops: nothing, sample: None, lowered: None,
        }
    };
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![reshape(), transpose(), slice(), concat(), gather(), gather_elements(), expand(), pad()]
}

fn ints(name: &'static str, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Ints, None, doc)
}

fn int(name: &'static str, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Int, None, doc)
}

/// Axis `perm[i]` of the operand is axis i of the result.
fn permuted(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let perm = sizes(attrs, "perm").unwrap_or_default();
    vec![(0..types[0].shape.rank()).map(|own| perm.iter().position(|from| *from == own)).collect()]
}

/// An axis is kept that is read from its first element on, in steps of one.
fn sliced(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let (starts, steps) = (attrs.expect_ints("starts"), attrs.expect_ints("steps"));
    let stays = |axis: &usize| starts[*axis] == 0 && steps[*axis] == 1;
    vec![(0..types[0].shape.rank()).map(|axis| Some(axis).filter(stays)).collect()]
}

/// The axes of slices are kept, and those of the positions take the place of the axis along which they are read.
fn gathered(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let rank = types[0].shape.rank();
    let (axis, places) = (axis(attrs, "axis", rank).unwrap_or(0), types[1].shape.rank());
    let x = (0..rank).map(|own| match own.cmp(&axis) {
        Ordering::Less => Some(own),
        Ordering::Equal => None,
        Ordering::Greater => Some(own + places - 1),
    });
    vec![x.collect(), (0..places).map(|own| Some(axis + own)).collect()]
}

/// Each position is one of the result, and the other axes are kept.
fn gathered_elements(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let rank = types[0].shape.rank();
    let axis = axis(attrs, "axis", rank).unwrap_or(0);
    let x = (0..rank).map(|own| (own != axis).then_some(own)).collect();
    vec![x, (0..rank).map(Some).collect()]
}

/// An axis is kept to which nothing is added.
fn padded(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let (pads, rank) = (attrs.expect_ints("pads"), types[0].shape.rank());
    let stays = |axis: &usize| pads[*axis] == 0 && pads[rank + *axis] == 0;
    vec![(0..rank).map(|axis| Some(axis).filter(stays)).collect(), none(types[1])]
}

fn reshape() -> OpDef {
    def!(
        "reshape",
        "the same elements, in row-major order, in another shape",
        Arity::Exactly(1),
        [ints("shape", "the shape, resolved")],
        Independence::RowMajor,
        infer_reshape,
        |_, operands, ty| operands[0].reshaped(ty.shape.clone())
    )
}

fn transpose() -> OpDef {
    def!(
        "transpose",
        "x with its axes in another order: axis i of the result is axis perm[i] of x",
        Arity::Exactly(1),
        [ints("perm", "the order")],
        Independence::Along(permuted),
        infer_transpose,
        eval_transpose
    )
}

fn slice() -> OpDef {
    def!(
        "slice",
        "part of x: element i along an axis is element starts + i * steps of x",
        Arity::Exactly(1),
        [
            ints("starts", "the first element, an axis each"),
            ints("sizes", "the result's shape"),
            ints("steps", "between elements; may be negative")
        ],
        Independence::Selecting(sliced),
        infer_slice,
        eval_slice
    )
}

fn concat() -> OpDef {
    def!(
        "concat",
        "the operands joined along an axis",
        Arity::AtLeast(1),
        [int("axis", "the axis")],
        Independence::Along(except_axis),
        infer_concat,
        eval_concat
    )
}

fn gather() -> OpDef {
    def!(
        "gather",
        "slices of x along an axis at the given positions; negative positions count from the end",
        Arity::Exactly(2),
        [int("axis", "the axis")],
        Independence::Selecting(gathered),
        Some(along_axis),
        infer_gather,
        eval_gather
    )
}

fn gather_elements() -> OpDef {
    def!(
        "gather-elements",
        "elements of x along an axis at the given positions",
        Arity::Exactly(2),
        [int("axis", "the axis")],
        Independence::Selecting(gathered_elements),
        Some(along_axis),
        infer_gather_elements,
        eval_gather_elements
    )
}

fn expand() -> OpDef {
    def!(
        "expand",
        "x broadcast to a shape",
        Arity::Exactly(1),
        [ints("shape", "the shape of the result")],
        Independence::Along(broadcast),
        |attrs, types| {
            let shape = Shape::new(sizes(attrs, "shape")?);
            if types[0].shape.broadcast(&shape).as_ref() != Some(&shape) {
                return Err(OpError::operands(format!("{} does not broadcast to {shape}", types[0])));
            }
            Ok(TensorType::plain(types[0].dtype, shape))
        },
        |_, operands, ty| {
            let steps = Broadcast::new(&operands[0].ty().shape, &ty.shape).steps();
            copy_strided(operands[0], ty, 0, &steps)
        }
    )
}

fn pad() -> OpDef {
    def!(
        "pad",
        "x with elements of one constant value added around it",
        Arity::Exactly(2),
        [ints("pads", "elements before each axis, then after each")],
        Independence::Along(padded),
        infer_pad,
        eval_pad
    )
}

/// Makes a result each of whose elements is an element of the operand.
fn pick(operand: &Tensor, ty: &TensorType, from: impl Fn(usize) -> usize) -> Tensor {
    let size = ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let source = operand.bytes();
    for (at, target) in result.bytes_mut().chunks_exact_mut(size).enumerate() {
        let from = from(at) * size;
        target.copy_from_slice(&source[from..from + size]);
    }
    result
}

fn infer_reshape(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let shape = Shape::new(sizes(attrs, "shape")?);
    // Zeros are multiplied first, so that `[0, huge, huge]`, which has no elements, does not overflow.
    let mut dims = shape.to_vec();
    dims.sort_unstable();
    let elements = dims.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    if elements != Some(types[0].shape.count()) {
        let has = elements.map_or_else(|| "more than any memory holds".to_owned(), |n| n.to_string());
        return Err(OpError::operands(format!(
            "{} has {} elements, the shape {shape} {has}",
            types[0],
            types[0].shape.count()
        )));
    }
    Ok(TensorType::plain(types[0].dtype, shape))
}

fn infer_transpose(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let perm = sizes(attrs, "perm")?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.len() != types[0].shape.rank() || sorted.iter().enumerate().any(|(at, axis)| at != *axis) {
        return Err(OpError::attribute(
            "perm",
            format!("is {perm:?}, which is not an order of the axes of {}", types[0]),
        ));
    }
    let dims: Vec<usize> = perm.iter().map(|axis| types[0].shape[*axis]).collect();
    Ok(TensorType::plain(types[0].dtype, dims))
}

fn eval_transpose(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let perm = sizes(attrs, "perm").expect("infer accepted");
    let strides = operands[0].ty().shape.strides();
    let steps: Vec<isize> = perm.iter().map(|axis| strides[*axis].cast_signed()).collect();
    copy_strided(operands[0], ty, 0, &steps)
}

/// Copies the elements at `start` plus the index times `steps`. There is one step for each axis of the result.
pub(super) fn copy_strided(operand: &Tensor, ty: &TensorType, start: isize, steps: &[isize]) -> Tensor {
    let mut result = Tensor::zeros(ty.clone());
    if ty.shape.count() > 0 {
        let (from, to) = (operand.bytes(), result.bytes_mut());
        match ty.dtype.size() {
            1 => copy_lines::<1>(from, to, &ty.shape, start, steps),
            2 => copy_lines::<2>(from, to, &ty.shape, start, steps),
            4 => copy_lines::<4>(from, to, &ty.shape, start, steps),
            8 => copy_lines::<8>(from, to, &ty.shape, start, steps),
            _ => copy_lines::<16>(from, to, &ty.shape, start, steps),
        }
    }
    result
}

fn copy_lines<const SIZE: usize>(from: &[u8], to: &mut [u8], shape: &[usize], start: isize, steps: &[isize]) {
    let (from, _) = from.as_chunks::<SIZE>();
    let (to, _) = to.as_chunks_mut::<SIZE>();
    let Some((&inner, outer)) = shape.split_last() else {
        to[0] = from[start.cast_unsigned()];
        return;
    };
    let step = steps[outer.len()];
    if step != 1
        && let Some(axis) = (0..outer.len()).find(|axis| steps[*axis] == 1 && shape[*axis] > 1)
    {
        copy_tiles(from, to, shape, start, steps, axis);
        return;
    }
    let mut index = vec![0; outer.len()];
    for line in to.chunks_exact_mut(inner) {
        let moved: isize = index.iter().zip(steps).map(|(i, s): (&usize, _)| i.cast_signed() * s).sum();
        let base = start + moved;
        if step == 1 {
            line.copy_from_slice(&from[base.cast_unsigned()..][..inner]);
        } else {
            let mut at = base;
            for target in line {
                *target = from[at.cast_unsigned()];
                at += step;
            }
        }
        crate::tensor::advance(&mut index, outer);
    }
}

/// Copies as [`copy_lines`] does, where neighbours along `axis`, not along the last one, are adjacent in the source, as
/// in a transposition. It goes through tiles of both axes, so that each line of the cache is read and written as a
/// whole.
fn copy_tiles<const SIZE: usize>(
    from: &[[u8; SIZE]],
    to: &mut [[u8; SIZE]],
    shape: &[usize],
    start: isize,
    steps: &[isize],
    axis: usize,
) {
    // The bytes of a line of the cache.
    const LINE: usize = 64;
    let (last, side) = (shape.len() - 1, LINE / SIZE);
    let stride: usize = shape[axis + 1..].iter().product();
    // The two axes are gone through inside.
    let mut others = shape.to_vec();
    (others[axis], others[last]) = (1, 1);
    let mut index = vec![0_usize; shape.len()];
    for _ in 0..others.iter().product::<usize>() {
        let read = start + index.iter().zip(steps).map(|(i, s)| i.cast_signed() * s).sum::<isize>();
        let write = index.iter().zip(shape).fold(0, |at, (i, size)| at * size + i);
        for row in (0..shape[axis]).step_by(side) {
            let rows = row..shape[axis].min(row + side);
            for column in (0..shape[last]).step_by(side) {
                let columns = column..shape[last].min(column + side);
                for row in rows.clone() {
                    let target = &mut to[write + row * stride..][columns.clone()];
                    let mut at = read + row.cast_signed() + column.cast_signed() * steps[last];
                    for target in target {
                        *target = from[at.cast_unsigned()];
                        at += steps[last];
                    }
                }
            }
        }
        crate::tensor::advance(&mut index, &others);
    }
}

fn infer_slice(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let x = types[0];
    let (starts, counts, steps) =
        (sizes(attrs, "starts")?, sizes(attrs, "sizes")?, attrs.expect_ints("steps"));
    let rank = x.shape.rank();
    if starts.len() != rank || counts.len() != rank || steps.len() != rank {
        return Err(OpError::operands(format!(
            "starts, sizes and steps have {}, {} and {} values, and operand 0 is {x}",
            starts.len(),
            counts.len(),
            steps.len()
        )));
    }
    for axis in 0..rank {
        let size = i64::try_from(x.shape[axis]).unwrap_or(i64::MAX);
        let first = i64::try_from(starts[axis]).unwrap_or(i64::MAX);
        if counts[axis] == 0 {
            continue;
        }
        let more = i64::try_from(counts[axis] - 1).unwrap_or(i64::MAX);
        let last = steps[axis].checked_mul(more).and_then(|reach| reach.checked_add(first));
        if first >= size || last.is_none_or(|last| last < 0 || last >= size) {
            return Err(OpError::operands(format!(
                "axis {axis} of {x} has no {} element(s) from {first} in steps of {}",
                counts[axis], steps[axis]
            )));
        }
    }
    Ok(TensorType::plain(x.dtype, counts))
}

fn eval_slice(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    if ty.shape.contains(&0) {
        return Tensor::zeros(ty.clone()); // Starts and steps are not checked in this case.
    }
    let starts = sizes(attrs, "starts").expect("infer accepted");
    let strides = operands[0].ty().shape.strides();
    let start: usize = starts.iter().zip(&strides).map(|(start, stride)| start * stride).sum();
    let steps: Vec<isize> = attrs
        .expect_ints("steps")
        .iter()
        .zip(strides.iter().zip(ty.shape.iter()))
        // The step of an axis with one element is never used, and may be any number.
        .map(
            |(step, (stride, size))| {
                if *size == 1 { 0 } else { isize::try_from(*step).unwrap_or(0) * stride.cast_signed() }
            },
        )
        .collect();
    copy_strided(operands[0], ty, start.cast_signed(), &steps)
}

/// Infers the shape and the element type of a concatenation. The caller handles layouts.
pub(super) fn infer_concat(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let mut dims = types[0].shape.to_vec();
    for (operand, ty) in types.iter().enumerate().skip(1) {
        let fits = ty.dtype == types[0].dtype
            && ty.shape.rank() == dims.len()
            && (0..dims.len()).all(|other| other == axis || ty.shape[other] == dims[other]);
        if !fits {
            return Err(OpError::operand(
                operand,
                ty,
                format!(", which does not fit operand 0, {}, along axis {axis}", types[0]),
            ));
        }
        dims[axis] += ty.shape[axis];
    }
    Ok(TensorType::plain(types[0].dtype, dims))
}

fn eval_concat(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
    let size = ty.dtype.size();
    let line = |ty: &TensorType| ty.shape[axis..].iter().product::<usize>() * size;
    let mut result = Tensor::zeros(ty.clone());
    let whole = line(ty);
    let mut offset = 0;
    for operand in operands {
        let part = line(operand.ty());
        if part > 0 {
            for (to, from) in
                result.bytes_mut().chunks_exact_mut(whole).zip(operand.bytes().chunks_exact(part))
            {
                to[offset..offset + part].copy_from_slice(from);
            }
        }
        offset += part;
    }
    result
}

fn integer(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    match types[operand].dtype {
        DType::I32 | DType::I64 => Ok(()),
        _ => Err(OpError::operand(operand, types[operand], ", not i32 or i64")),
    }
}

/// Refuses positions along an axis that has no elements.
fn some_to_pick(types: &[&TensorType], axis: usize) -> Result<(), OpError> {
    if types[0].shape[axis] == 0 && types[1].shape.count() > 0 {
        return Err(OpError::operand(0, types[0], format!(": axis {axis} has no elements to pick")));
    }
    Ok(())
}

fn infer_gather(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    integer(types, 1)?;
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    some_to_pick(types, axis)?;
    let mut dims = types[0].shape[..axis].to_vec();
    dims.extend_from_slice(&types[1].shape);
    dims.extend_from_slice(&types[0].shape[axis + 1..]);
    Ok(TensorType::plain(types[0].dtype, dims))
}

/// Resolves a position that may count from the end. It is clamped to the axis, as a reference evaluation cannot
/// fail.
fn wrap(index: i64, size: usize) -> usize {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let index = if index < 0 { index + size } else { index };
    usize::try_from(index.clamp(0, (size - 1).max(0))).unwrap_or(0)
}

fn eval_gather(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let x = &operands[0].ty().shape;
    let axis = axis(attrs, "axis", x.rank()).expect("infer accepted");
    let indices = operands[1].to_i64().unwrap_or_default();
    let line = x[axis + 1..].iter().product::<usize>() * ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    if line == 0 || indices.is_empty() {
        return result;
    }
    for (at, target) in result.bytes_mut().chunks_exact_mut(line).enumerate() {
        let from = (at / indices.len() * x[axis] + wrap(indices[at % indices.len()], x[axis])) * line;
        target.copy_from_slice(&operands[0].bytes()[from..from + line]);
    }
    result
}

fn infer_gather_elements(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    integer(types, 1)?;
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let fits = types[0].shape.rank() == types[1].shape.rank()
        && (0..types[0].shape.rank())
            .all(|other| other == axis || types[1].shape[other] <= types[0].shape[other]);
    if !fits {
        return Err(OpError::operands(format!(
            "positions {} do not fit {} along axis {axis}",
            types[1], types[0]
        )));
    }
    some_to_pick(types, axis)?;
    Ok(TensorType::plain(types[0].dtype, types[1].shape.clone()))
}

fn eval_gather_elements(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let x = &operands[0].ty().shape;
    let axis = axis(attrs, "axis", x.rank()).expect("infer accepted");
    let indices = operands[1].to_i64().unwrap_or_default();
    let strides = x.strides();
    pick(operands[0], ty, |at| {
        let (mut rest, mut from) = (at, 0);
        for dim in (0..x.rank()).rev() {
            let index = rest % ty.shape[dim];
            rest /= ty.shape[dim];
            from += strides[dim] * if dim == axis { wrap(indices[at], x[axis]) } else { index };
        }
        from
    })
}

fn infer_pad(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let pads = sizes(attrs, "pads")?;
    let rank = types[0].shape.rank();
    if pads.len() != 2 * rank {
        return Err(OpError::attribute(
            "pads",
            format!("has {} values, and operand 0 is {}", pads.len(), types[0]),
        ));
    }
    if types[1].shape.count() != 1 || types[1].dtype != types[0].dtype {
        return Err(OpError::operands(format!("the value is {}, not one {}", types[1], types[0].dtype)));
    }
    let dims: Option<Vec<usize>> = (0..rank)
        .map(|axis| types[0].shape[axis].checked_add(pads[axis])?.checked_add(pads[rank + axis]))
        .collect();
    let dims = dims.ok_or_else(|| OpError::attribute("pads", "makes a value larger than any memory"))?;
    Ok(TensorType::plain(types[0].dtype, dims))
}

fn eval_pad(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let pads = sizes(attrs, "pads").expect("infer accepted");
    let x = &operands[0].ty().shape;
    let size = ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let target = result.bytes_mut();
    target.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&operands[1].bytes()[..size]));
    let Some((&inner, outer)) = x.split_last().filter(|_| x.count() > 0) else {
        if x.rank() == 0 {
            target.copy_from_slice(operands[0].bytes());
        }
        return result;
    };
    let strides = ty.shape.strides();
    let mut index = vec![0; outer.len()];
    for line in operands[0].bytes().chunks_exact(inner * size) {
        let before: usize =
            index.iter().zip(&pads).zip(&strides).map(|((i, p), s): ((&usize, _), _)| (i + p) * s).sum();
        let at = (before + pads[outer.len()]) * size;
        target[at..at + line.len()].copy_from_slice(line);
        crate::tensor::advance(&mut index, outer);
    }
    result
}
