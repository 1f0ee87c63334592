//! Ops that write elements to positions that an operand holds, or read from such positions along several axes.

use super::independence::{except_axis, none};
use super::{
    Arity, AttrDef, Draw, Elements, Flags, Independence, OpDef, OpError, Sample, Values, axis, count, plain,
};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType, advance};

/// How an element is combined with the one at its position.
const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "scatter-elements",
            doc: "x (operand 0) with the elements of updates (operand 2) at the positions (operand 1) along an axis; \
                  negative positions count from the end",
            arity: Arity::Exactly(3),
            attrs: vec![AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative"), reduction()],
            flags: Flags { demands: Some(along_axis), ..Flags::independent(except_axis) },
            infer: infer_elements,
            eval: |attrs, operands, ty| {
                let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
                let positions = operands[1].to_i64().unwrap_or_default();
                let (strides, dims) = (ty.shape.strides(), operands[1].ty().shape.to_vec());
                let mut index = vec![0; dims.len()];
                let mut targets = Vec::with_capacity(positions.len());
                for position in positions {
                    let at = |(dim, stride): (usize, &usize)| {
                        stride * if dim == axis { wrap(position, ty.shape[axis]) } else { index[dim] }
                    };
                    targets.push(strides.iter().enumerate().map(at).sum());
                    advance(&mut index, &dims);
                }
                scatter(attrs, operands, ty, &targets, 1)
            },
            flops: |_, types, _| count(types[2]),
            sample: Some(draw_elements),
            lowered: None,
        },
        OpDef {
            name: "scatter-nd",
            doc: "x (operand 0) with slices of updates (operand 2) at the positions (operand 1), whose last axis holds \
                  one position for each of the first axes of x",
            arity: Arity::Exactly(3),
            attrs: vec![reduction()],
            flags: Flags {
                demands: Some(|_, types| Some((1, Elements::along_axes(Some(0), types[0], types[1])?))),
                ..Flags::independent(slices)
            },
            infer: infer_nd,
            eval: |attrs, operands, ty| {
                let depth = operands[1].ty().shape.last().copied().unwrap_or(0);
                let line: usize = ty.shape[depth..].iter().product();
                let targets = places(&operands[1].to_i64().unwrap_or_default(), depth, &ty.shape, &[]);
                scatter(attrs, operands, ty, &targets, line)
            },
            flops: |_, types, _| count(types[2]),
            sample: Some(draw_scatter),
            lowered: None,
        },
        OpDef {
            name: "sum-equal-rows",
            doc: "for each row of x (operand 1), the sum of all rows of x with its position (operand 0[n,1]); negative \
                  positions count from the end",
            arity: Arity::Exactly(2),
            attrs: vec![AttrDef::new("size", AttrKind::Int, None, "the number of positions that there are")],
            flags: Flags {
                demands: Some(|attrs, _| {
                    let sizes = vec![size(attrs, "size")?];
                    Some((0, Elements::Axes { first: 0, sizes }))
                }),
                ..Flags::independent(columns)
            },
            infer: infer_equal,
            eval: eval_equal,
            flops: |_, types, _| count(types[1]),
            sample: Some(draw_equal),
            lowered: None,
        },
        OpDef {
            name: "gather-nd",
            doc: "slices of x (operand 0) at the positions (operand 1), whose last axis holds one position for each of \
                  the first axes of x after the batch",
            arity: Arity::Exactly(2),
            attrs: vec![AttrDef::new(
                "batch-dims",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "the number of first axes that both operands share",
            )],
            flags: Flags {
                independence: Independence::Selecting(gathered),
                demands: Some(|attrs, types| {
                    let first = size(attrs, "batch-dims");
                    Some((1, Elements::along_axes(first, types[0], types[1])?))
                }),
                ..Flags::default()
            },
            infer: infer_gather_nd,
            eval: eval_gather_nd,
            flops: |_, _, _| 0.0,
            sample: Some(draw_gather),
            lowered: None,
        },
    ]
}

/// The elements of the second operand are positions along the axis.
pub(super) fn along_axis(attrs: &Attrs, types: &[&TensorType]) -> Option<(usize, Elements)> {
    Some((1, Elements::along_axis(size(attrs, "axis"), types[0])?))
}

fn size(attrs: &Attrs, name: &str) -> Option<usize> {
    usize::try_from(attrs.expect_int(name)).ok()
}

/// The axes of slices are kept.
fn slices(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let depth = types[1].shape.last().copied().unwrap_or(0);
    let x = (0..result.shape.rank()).map(|axis| (axis >= depth).then_some(axis)).collect();
    let places = types[1].shape.rank() - 1;
    let updates = (0..types[2].shape.rank()).map(|axis| axis.checked_sub(places).map(|own| own + depth));
    vec![x, none(types[1]), updates.collect()]
}

/// The axes of the batch and of slices are kept, and each position is one of the result.
fn gathered(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let batch = usize::try_from(attrs.expect_int("batch-dims")).unwrap_or(0);
    let depth = types[1].shape.last().copied().unwrap_or(0);
    let places = types[1].shape.rank() - 1;
    let x = (0..types[0].shape.rank()).map(|axis| match axis {
        _ if axis < batch => Some(axis),
        _ => axis.checked_sub(batch + depth).map(|own| own + places),
    });
    vec![x.collect(), (0..=places).map(|axis| (axis < places).then_some(axis)).collect()]
}

fn reduction() -> AttrDef {
    let default = Some(Attr::Str("none".into()));
    AttrDef::new("reduction", AttrKind::Str, default, "none, add, mul, max or min: how elements are combined")
}

fn integers(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    match types[operand].dtype {
        DType::I32 | DType::I64 => Ok(()),
        _ => Err(OpError::operand(operand, types[operand], ", not i32 or i64")),
    }
}

fn common(attrs: &Attrs, types: &[&TensorType]) -> Result<(), OpError> {
    plain(types)?;
    integers(types, 1)?;
    if types[0].dtype != types[2].dtype {
        return Err(OpError::operand(2, types[2], format!(", and operand 0 is {}", types[0])));
    }
    let reduction = attrs.expect_str("reduction");
    if !REDUCTIONS.contains(&reduction) {
        let known = REDUCTIONS.join(", ");
        return Err(OpError::attribute("reduction", format!("is `{reduction}`, not one of {known}")));
    }
    if types[0].dtype == DType::Bool && !matches!(reduction, "none" | "max" | "min") {
        return Err(OpError::operand(0, types[0], format!(", which has no `{reduction}`")));
    }
    Ok(())
}

fn infer_elements(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    common(attrs, types)?;
    let at = axis(attrs, "axis", types[0].shape.rank())?;
    let (x, positions) = (&types[0].shape, &types[1].shape);
    let fits = positions.rank() == x.rank()
        && types[2].shape == *positions
        && (0..x.rank()).all(|dim| dim == at || positions[dim] <= x[dim]);
    if !fits {
        let why = format!(
            "positions {} and updates {} do not fit {} along axis {at}",
            types[1], types[2], types[0]
        );
        return Err(OpError::operands(why));
    }
    Ok(types[0].clone())
}

fn infer_nd(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    common(attrs, types)?;
    let (x, positions, updates) = (&types[0].shape, &types[1].shape, &types[2].shape);
    let fits = positions.split_last().is_some_and(|(depth, batch)| {
        *depth <= x.rank() && updates.to_vec() == [batch, &x[*depth..]].concat()
    });
    if !fits {
        let why = format!("positions {} and updates {} do not fit {}", types[1], types[2], types[0]);
        return Err(OpError::operands(why));
    }
    Ok(types[0].clone())
}

fn infer_gather_nd(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    integers(types, 1)?;
    let batch = usize::try_from(attrs.expect_int("batch-dims")).unwrap_or(usize::MAX);
    let (x, positions) = (&types[0].shape, &types[1].shape);
    let dims = positions.split_last().and_then(|(depth, outer)| {
        let shared = x.get(..batch)? == positions.get(..batch)? && batch < positions.rank();
        let rest = x.get(batch.checked_add(*depth)?..).filter(|_| shared)?;
        Some([outer, rest].concat())
    });
    let dims = dims.ok_or_else(|| {
        OpError::operands(format!("positions {} do not fit {} with {batch} batch axes", types[1], types[0]))
    })?;
    Ok(TensorType::plain(types[0].dtype, dims))
}

fn infer_equal(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    integers(types, 0)?;
    let (positions, x) = (types[0], types[1]);
    if usize::try_from(attrs.expect_int("size")).is_err() {
        return Err(OpError::attribute("size", "is not negative"));
    }
    if x.dtype == DType::Bool {
        return Err(OpError::operand(1, x, ", which has no sums"));
    }
    match x.shape.first() {
        Some(rows) if positions.shape.to_vec() == [*rows, 1] => Ok(x.clone()),
        _ => Err(OpError::operands(format!("positions {positions} do not fit the rows of {x}"))),
    }
}

/// Adds the rows of each position to zeros in the order of the operand, and takes them from there.
fn eval_equal(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let size = usize::try_from(attrs.expect_int("size")).unwrap_or(0);
    let positions = operands[0].to_i64().unwrap_or_default();
    let positions: Vec<usize> = positions.into_iter().map(|position| wrap(position, size)).collect();
    let mut firsts = std::collections::BTreeMap::new();
    for (row, position) in positions.iter().enumerate() {
        firsts.entry(*position).or_insert(row);
    }
    let line: usize = ty.shape[1..].iter().product();
    let targets: Vec<usize> = positions.iter().map(|position| firsts[position] * line).collect();
    let sums = scatter(
        &Attrs::new().text("reduction", "add"),
        &[&Tensor::zeros(ty.clone()), operands[0], operands[1]],
        ty,
        &targets,
        line,
    );
    let mut result = Tensor::zeros(ty.clone());
    let size = line * ty.dtype.size();
    if size > 0 {
        for (row, target) in result.bytes_mut().chunks_exact_mut(size).zip(&targets) {
            row.copy_from_slice(&sums.bytes()[target * ty.dtype.size()..][..size]);
        }
    }
    result
}

/// The columns of rows stay apart.
fn columns(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let own = (0..types[1].shape.rank()).map(|axis| (axis > 0).then_some(axis));
    vec![none(types[0]), own.collect()]
}

/// Resolves a position that may count from the end. It is clamped to the axis, as a reference evaluation cannot
/// fail.
fn wrap(index: i64, size: usize) -> usize {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let index = if index < 0 { index + size } else { index };
    usize::try_from(index.clamp(0, (size - 1).max(0))).unwrap_or(0)
}

/// Returns the first element, in a value of this shape, of the slice that each group of positions names. The first
/// axes are those of the batch, which the positions share.
fn places(positions: &[i64], depth: usize, shape: &[usize], batch: &[usize]) -> Vec<usize> {
    let strides = crate::tensor::Shape::from(shape).strides();
    let groups = positions.len().checked_div(depth).unwrap_or(1);
    let each = groups / batch.iter().product::<usize>().max(1);
    let outer: usize = shape.get(batch.len()..).unwrap_or_default().iter().product();
    (0..groups)
        .map(|group| {
            let inner: usize = (0..depth)
                .map(|at| {
                    let dim = batch.len() + at;
                    wrap(positions[group * depth + at], shape[dim]) * strides[dim]
                })
                .sum();
            group / each.max(1) * outer * usize::from(!batch.is_empty()) + inner
        })
        .collect()
}

fn eval_gather_nd(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let batch = usize::try_from(attrs.expect_int("batch-dims")).unwrap_or(0);
    let (x, positions) = (operands[0].ty(), operands[1].ty());
    let depth = positions.shape.last().copied().unwrap_or(0);
    let starts = places(&operands[1].to_i64().unwrap_or_default(), depth, &x.shape, &x.shape[..batch]);
    let line = x.shape[batch + depth..].iter().product::<usize>() * ty.dtype.size();
    let mut result = Tensor::zeros(ty.clone());
    let source = operands[0].bytes();
    if line > 0 && ty.shape.count() > 0 && !source.is_empty() {
        for (target, start) in result.bytes_mut().chunks_exact_mut(line).zip(starts.iter().cycle()) {
            let from = start * ty.dtype.size();
            target.copy_from_slice(&source[from..from + line]);
        }
    }
    result
}

/// Combines the updates with x. The update of `line` elements at each index goes to the target at that index.
fn scatter(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType, targets: &[usize], line: usize) -> Tensor {
    let reduction = attrs.expect_str("reduction");
    if ty.shape.count() == 0 {
        return operands[0].clone();
    }
    if reduction == "none" {
        let mut result = operands[0].clone();
        let size = ty.dtype.size();
        let (bytes, updates) = (result.bytes_mut(), operands[2].bytes());
        for (update, target) in updates.chunks_exact((line * size).max(1)).zip(targets) {
            bytes[target * size..(target + line) * size].copy_from_slice(update);
        }
        return result;
    }
    if let (Some(mut values), Some(updates)) = (operands[0].to_i128(), operands[2].to_i128()) {
        let combine = |a: i128, b: i128| match reduction {
            "add" => a.wrapping_add(b),
            "mul" => a.wrapping_mul(b),
            "max" => a.max(b),
            _ => a.min(b),
        };
        for (update, target) in updates.chunks_exact(line.max(1)).zip(targets) {
            for (value, update) in values[*target..].iter_mut().zip(update) {
                *value = combine(*value, *update);
            }
        }
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &values);
    }
    let mut values = operands[0].to_f64();
    let combine = |a: f64, b: f64| match reduction {
        "add" => a + b,
        "mul" => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        "max" => a.max(b),
        _ => a.min(b),
    };
    for (update, target) in operands[2].to_f64().chunks_exact(line.max(1)).zip(targets) {
        for (value, update) in values[*target..].iter_mut().zip(update) {
            *value = combine(*value, *update);
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
}

/// Draws values at positions along an axis.
fn draw_elements(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(3);
    let (x, axis, dtype) = (draw.shape(rank), draw.below(rank), draw.floats());
    let mut moved: Vec<usize> = x.iter().map(|size| 1 + draw.below(*size)).collect();
    moved[axis] = draw.small();
    let (at, size) = (draw.positions(moved.clone()), x[axis]);
    let reduction = draw.pick(&["none", "add", "mul", "min", "max"]);
    let attrs = Attrs::new().size("axis", axis).text("reduction", reduction);
    let types = [TensorType::plain(dtype, x), at, TensorType::plain(dtype, moved)];
    Some(Sample::new(attrs, types).with(1, Values::Below(size)))
}

/// Draws slices at positions.
fn draw_scatter(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(3);
    let (x, count, dtype) = (draw.shape(rank), draw.small(), draw.floats());
    let depth = 1 + draw.below(rank);
    let least = x[..depth].iter().copied().min().unwrap_or(1);
    let at = draw.positions(vec![count, depth]);
    let slices = [&[count], &x[depth..]].concat();
    let reduction = draw.pick(&["none", "add", "mul", "min", "max"]);
    let attrs = Attrs::new().text("reduction", reduction);
    let types = [TensorType::plain(dtype, x), at, TensorType::plain(dtype, slices)];
    Some(Sample::new(attrs, types).with(1, Values::Below(least)))
}

/// Draws rows with positions, of which there are few, so that some are equal.
fn draw_equal(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = draw.small().min(3);
    let (x, size, dtype) = (draw.shape(rank), draw.small(), draw.floats());
    let at = draw.positions(vec![x[0], 1]);
    let attrs = Attrs::new().size("size", size);
    Some(Sample::new(attrs, [at, TensorType::plain(dtype, x)]).with(0, Values::Below(size)))
}

/// Draws slices of an operand at positions.
fn draw_gather(draw: &mut dyn Draw) -> Option<Sample> {
    let rank = 1 + draw.small().min(3);
    let (x, count, dtype) = (draw.shape(rank), draw.small(), draw.floats());
    let batch = draw.below(2);
    let depth = 1 + draw.below(rank - batch);
    let least = x[batch..batch + depth].iter().copied().min().unwrap_or(1);
    let at = draw.positions([&x[..batch], &[count, depth]].concat());
    let attrs = Attrs::new().size("batch-dims", batch);
    Some(Sample::new(attrs, [TensorType::plain(dtype, x), at]).with(1, Values::Below(least)))
}
