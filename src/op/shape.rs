//! Ops that move elements and compute none.

use super::elementwise::Broadcast;
use super::{Arity, Flags, OpDef, attr, axis, plain, sizes};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Shape, Tensor, TensorType};

const fn nothing(_: &Attrs, _: &[&TensorType], _: &TensorType) -> f64 {
    0.0
}

macro_rules! def {
    ($name:literal, $doc:literal, $arity:expr, [$($attr:expr),*], $infer:expr, $eval:expr) => {
        OpDef {
            name: $name, doc: $doc, arity: $arity, attrs: vec![$($attr),*], flags: Flags::default(),
            infer: |attrs, types| { plain(types)?; let infer: super::Infer = $infer; infer(attrs, types) },
            eval: $eval, flops: nothing, logical: None,
        }
    };
}

pub(super) fn ops() -> Vec<OpDef> {
    let ints = |name, doc| attr(name, AttrKind::Ints, None, doc);
    let int = |name, doc| attr(name, AttrKind::Int, None, doc);
    vec![
        def!(
            "reshape",
            "the same elements in row-major order under another shape",
            Arity::Exactly(1),
            [ints("shape", "the shape, resolved")],
            infer_reshape,
            |_, operands, ty| operands[0].reshaped(ty.shape.clone())
        ),
        def!(
            "transpose",
            "axes in another order: axis i of the result is axis perm[i]",
            Arity::Exactly(1),
            [ints("perm", "the order")],
            infer_transpose,
            eval_transpose
        ),
        def!(
            "slice",
            "element i of an axis is starts + i * steps",
            Arity::Exactly(1),
            [
                ints("starts", "the first element, an axis each"),
                ints("sizes", "the result's shape"),
                ints("steps", "between elements; may be negative")
            ],
            infer_slice,
            eval_slice
        ),
        def!(
            "concat",
            "operands side by side along an axis",
            Arity::AtLeast(1),
            [int("axis", "the axis")],
            infer_concat,
            eval_concat
        ),
        def!(
            "gather",
            "slices of x along an axis at the positions given; negative ones count from the end",
            Arity::Exactly(2),
            [int("axis", "the axis")],
            infer_gather,
            eval_gather
        ),
        def!(
            "gather-elements",
            "elements of x along an axis at the positions given",
            Arity::Exactly(2),
            [int("axis", "the axis")],
            infer_gather_elements,
            eval_gather_elements
        ),
        def!(
            "expand",
            "x broadcast to a shape",
            Arity::Exactly(1),
            [ints("shape", "the shape of the result")],
            |attrs, types| {
                let shape = Shape::new(sizes(attrs, "shape")?);
                if types[0].shape.broadcast(&shape).as_ref() != Some(&shape) {
                    return Err(format!("{} does not broadcast to {shape}", types[0]));
                }
                Ok(TensorType::plain(types[0].dtype, shape))
            },
            |_, operands, ty| {
                let index = Broadcast::new(&operands[0].ty().shape, &ty.shape);
                pick(operands[0], ty, |at| Some(index.at(at)))
            }
        ),
        def!(
            "pad",
            "x with elements of a constant value around it",
            Arity::Exactly(2),
            [ints("pads", "elements before each axis, then after each")],
            infer_pad,
            eval_pad
        ),
    ]
}

/// A result each of whose elements is one of the operand's, or zero.
fn pick(operand: &Tensor, ty: &TensorType, from: impl Fn(usize) -> Option<usize>) -> Tensor {
    let size = ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let source = operand.bytes();
    for (at, target) in result.bytes_mut().chunks_exact_mut(size).enumerate() {
        if let Some(from) = from(at) {
            target.copy_from_slice(&source[from * size..(from + 1) * size]);
        }
    }
    result
}

fn infer_reshape(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let shape = Shape::new(sizes(attrs, "shape")?);
    if shape.count() != types[0].shape.count() {
        return Err(format!(
            "{} has {} elements, the shape {shape} {}",
            types[0],
            types[0].shape.count(),
            shape.count()
        ));
    }
    Ok(TensorType::plain(types[0].dtype, shape))
}

fn infer_transpose(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let perm = sizes(attrs, "perm")?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.len() != types[0].shape.rank() || sorted.iter().enumerate().any(|(at, axis)| at != *axis) {
        return Err(format!("attribute `perm` is {perm:?}, which is no order of the axes of {}", types[0]));
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

/// Copies elements at `start` plus the index times `steps`, one step an axis of the result.
fn copy_strided(operand: &Tensor, ty: &TensorType, start: isize, steps: &[isize]) -> Tensor {
    let size = ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let shape = &ty.shape;
    let Some((&inner, outer)) = shape.split_last() else {
        result.bytes_mut().copy_from_slice(&operand.bytes()[start.cast_unsigned() * size..][..size]);
        return result;
    };
    if shape.count() == 0 {
        return result;
    }
    let step = steps[outer.len()];
    let source = operand.bytes();
    let mut index = vec![0; outer.len()];
    for line in result.bytes_mut().chunks_exact_mut(inner * size) {
        let base = start
            + index.iter().zip(steps).map(|(i, s): (&usize, &isize)| i.cast_signed() * s).sum::<isize>();
        if step == 1 {
            let from = base.cast_unsigned() * size;
            line.copy_from_slice(&source[from..from + inner * size]);
        } else {
            for (at, target) in line.chunks_exact_mut(size).enumerate() {
                let from = (base + at.cast_signed() * step).cast_unsigned() * size;
                target.copy_from_slice(&source[from..from + size]);
            }
        }
        crate::tensor::advance(&mut index, outer);
    }
    result
}

fn infer_slice(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let x = types[0];
    let (starts, counts, steps) =
        (sizes(attrs, "starts")?, sizes(attrs, "sizes")?, attrs.expect_ints("steps"));
    let rank = x.shape.rank();
    if starts.len() != rank || counts.len() != rank || steps.len() != rank {
        return Err(format!(
            "starts, sizes and steps have {}, {} and {} values, and operand 0 is {x}",
            starts.len(),
            counts.len(),
            steps.len()
        ));
    }
    for axis in 0..rank {
        let size = i64::try_from(x.shape[axis]).unwrap_or(i64::MAX);
        let first = i64::try_from(starts[axis]).unwrap_or(i64::MAX);
        let last = first + steps[axis] * (i64::try_from(counts[axis]).unwrap_or(i64::MAX) - 1);
        if counts[axis] > 0 && (first >= size || last < 0 || last >= size) {
            return Err(format!("axis {axis} of {x} has no elements {first} to {last}"));
        }
    }
    Ok(TensorType::plain(x.dtype, counts))
}

fn eval_slice(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let starts = sizes(attrs, "starts").expect("infer accepted");
    let strides = operands[0].ty().shape.strides();
    let start: usize = starts.iter().zip(&strides).map(|(start, stride)| start * stride).sum();
    let steps: Vec<isize> = attrs
        .expect_ints("steps")
        .iter()
        .zip(&strides)
        .map(|(step, stride)| isize::try_from(*step).unwrap_or(0) * stride.cast_signed())
        .collect();
    copy_strided(operands[0], ty, start.cast_signed(), &steps)
}

/// The logical result of a concatenation: layouts are the caller's.
pub(super) fn infer_concat(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let mut dims = types[0].shape.to_vec();
    for (operand, ty) in types.iter().enumerate().skip(1) {
        let fits = ty.dtype == types[0].dtype
            && ty.shape.rank() == dims.len()
            && (0..dims.len()).all(|other| other == axis || ty.shape[other] == dims[other]);
        if !fits {
            return Err(format!(
                "operand {operand} is {ty}, which does not fit operand 0, {}, along axis {axis}",
                types[0]
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

fn integer(types: &[&TensorType], operand: usize) -> Result<(), String> {
    match types[operand].dtype {
        DType::I32 | DType::I64 => Ok(()),
        _ => Err(format!("operand {operand} is {}, not i32 or i64", types[operand])),
    }
}

fn infer_gather(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    integer(types, 1)?;
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let mut dims = types[0].shape[..axis].to_vec();
    dims.extend_from_slice(&types[1].shape);
    dims.extend_from_slice(&types[0].shape[axis + 1..]);
    Ok(TensorType::plain(types[0].dtype, dims))
}

/// A position that may count from the end, kept inside: a reference evaluation does not fail.
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

fn infer_gather_elements(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    integer(types, 1)?;
    let axis = axis(attrs, "axis", types[0].shape.rank())?;
    let fits = types[0].shape.rank() == types[1].shape.rank()
        && (0..types[0].shape.rank())
            .all(|other| other == axis || types[1].shape[other] <= types[0].shape[other]);
    if !fits {
        return Err(format!("positions {} do not fit {} along axis {axis}", types[1], types[0]));
    }
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
        Some(from)
    })
}

fn infer_pad(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let pads = sizes(attrs, "pads")?;
    let rank = types[0].shape.rank();
    if pads.len() != 2 * rank {
        return Err(format!("attribute `pads` has {} values, and operand 0 is {}", pads.len(), types[0]));
    }
    if types[1].shape.count() != 1 || types[1].dtype != types[0].dtype {
        return Err(format!("the value is {}, not one {}", types[1], types[0].dtype));
    }
    let dims: Vec<usize> =
        (0..rank).map(|axis| types[0].shape[axis] + pads[axis] + pads[rank + axis]).collect();
    Ok(TensorType::plain(types[0].dtype, dims))
}

fn eval_pad(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let pads = sizes(attrs, "pads").expect("infer accepted");
    let x = &operands[0].ty().shape;
    let strides = x.strides();
    let size = ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let mut index = vec![0; x.rank()];
    for target in result.bytes_mut().chunks_exact_mut(size) {
        let inside = index
            .iter()
            .zip(x.iter())
            .zip(&pads)
            .map(|((i, size), pad): ((&usize, _), _)| i.checked_sub(*pad).filter(|i| i < size))
            .collect::<Option<Vec<_>>>();
        match inside {
            Some(inside) => {
                let from: usize = inside.iter().zip(&strides).map(|(i, s)| i * s).sum::<usize>() * size;
                target.copy_from_slice(&operands[0].bytes()[from..from + size]);
            }
            None => target.copy_from_slice(&operands[1].bytes()[..size]),
        }
        crate::tensor::advance(&mut index, &ty.shape);
    }
    result
}
