//! Ops that slide a window over two spatial dimensions: convolution and pooling.

use super::independence::{aligned, images, none};
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, plain, post, rank, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};
use std::ops::Range;

pub(super) fn ops() -> Vec<OpDef> {
    vec![conv(), widen_groups(), max_pool(), avg_pool()]
}

fn ints(name: &'static str, default: &[i64], doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Ints, Some(Attr::Ints(default.to_vec())), doc)
}

fn strides() -> AttrDef {
    ints("strides", &[1, 1], "rows and columns between windows")
}

fn pads() -> AttrDef {
    ints("pads", &[0, 0, 0, 0], "padding at the top, left, bottom and right")
}

fn dilations() -> AttrDef {
    ints("dilations", &[1, 1], "rows and columns between the elements of a window")
}

fn kernel() -> AttrDef {
    AttrDef::new("kernel", AttrKind::Ints, None, "rows and columns of the window")
}

fn conv() -> OpDef {
    OpDef {
        name: "conv",
        doc: "convolution of x[N,C,H,W] with w[O,C/groups,h,w], plus a bias[O], then a post chain",
        arity: Arity::Post(3),
        attrs: vec![
            strides(),
            pads(),
            dilations(),
            AttrDef::new(
                "groups",
                AttrKind::Int,
                Some(Attr::Int(1)),
                "the number of groups of channels, each with its own weights",
            ),
            AttrDef::post(),
        ],
        flags: Flags::independent(convolution),
        infer: |attrs, types| {
            plain(types)?;
            infer_conv(attrs, types)
        },
        eval: eval_conv,
        flops: flops_conv,
        sample: None,
        lowered: None,
    }
}

/// Images are kept, and rows and columns whose windows have one element and neither stride nor padding. With one group, so
/// do the outputs, to which weights and the bias belong. Operands of the chain are broadcast.
pub(super) fn convolution(
    attrs: &Attrs,
    types: &[&TensorType],
    result: &TensorType,
) -> Vec<Vec<Option<usize>>> {
    let (strides, pads) = (attrs.expect_ints("strides"), attrs.expect_ints("pads"));
    let pointwise = |at: usize| {
        types[1].shape.get(at + 2) == Some(&1)
            && strides.get(at) == Some(&1)
            && [at, at + pads.len() / 2].iter().all(|side| pads.get(*side) == Some(&0))
    };
    let one_group = attrs.get("groups") == Some(&Attr::Int(1));
    let own = |(operand, ty): (usize, &&TensorType)| match operand {
        0 => (0..ty.shape.rank())
            .map(|axis| match axis {
                0 => Some(0),
                1 => None,
                _ => pointwise(axis - 2).then_some(axis),
            })
            .collect(),
        1 => (0..ty.shape.rank()).map(|axis| (axis == 0 && one_group).then_some(1)).collect(),
        _ if attrs.get("post").is_some() && operand > 2 => aligned(ty, result),
        _ if ty.shape.count() == types[1].shape[0] && one_group => vec![Some(1); ty.shape.rank()],
        _ => none(ty),
    };
    types.iter().enumerate().map(own).collect()
}

fn widen_groups() -> OpDef {
    OpDef {
        name: "widen-groups",
        doc: "weights of a convolution with `groups` groups, rewritten for a convolution with fewer groups, `into`: zeros lie between channels of different original groups, or the elements of a second operand of one element or one for each output",
        arity: Arity::Between(1, 2),
        attrs: vec![
            AttrDef::new("groups", AttrKind::Int, None, "the number of groups of the weights"),
            AttrDef::new(
                "into",
                AttrKind::Int,
                None,
                "the number of groups of the result, which divides `groups`",
            ),
        ],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            rank(types, 0, 4)?;
            let (groups, into) = (attrs.expect_int("groups"), attrs.expect_int("into"));
            let outputs = i64::try_from(types[0].shape[0]).unwrap_or(0);
            let wrong = || OpError::operands(format!("{groups} groups of {} do not become {into}", types[0]));
            if into < 1 || groups < 1 || groups % into != 0 || outputs % groups != 0 {
                return Err(wrong());
            }
            if let Some(fill) = types.get(1)
                && (fill.dtype != types[0].dtype || ![1, types[0].shape[0]].contains(&fill.shape.count()))
            {
                return Err(OpError::operand(
                    1,
                    fill,
                    ", which is not one weight, or one for each output".to_owned(),
                ));
            }
            let mut dims = types[0].shape.to_vec();
            let times = usize::try_from(groups / into).map_err(|_| wrong())?;
            dims[1] = dims[1].checked_mul(times).ok_or_else(wrong)?;
            Ok(TensorType::plain(types[0].dtype, dims))
        },
        eval: eval_widen,
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }
}

fn max_pool() -> OpDef {
    OpDef {
        name: "max-pool",
        doc: "the largest value of each window; padding is never chosen",
        arity: Arity::Exactly(1),
        attrs: vec![kernel(), strides(), pads(), dilations()],
        flags: Flags::independent(images),
        infer: |attrs, types| {
            plain(types)?;
            infer_max_pool(attrs, types)
        },
        eval: |attrs, operands, ty| {
            eval_pool(attrs, operands[0], ty, &|values, _| {
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            })
        },
        flops: flops_pool,
        sample: None,
        lowered: None,
    }
}

fn avg_pool() -> OpDef {
    OpDef {
        name: "avg-pool",
        doc: "the mean of each window",
        arity: Arity::Exactly(1),
        attrs: vec![
            kernel(),
            strides(),
            pads(),
            AttrDef::new(
                "count-include-pad",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "1: the divisor also counts padding",
            ),
            ints(
                "ceil-extra",
                &[0, 0],
                "rows and columns past the padding that enlarge the result and never count",
            ),
        ],
        flags: Flags::independent(images),
        infer: |attrs, types| {
            plain(types)?;
            infer_pool(attrs, types)
        },
        #[allow(clippy::cast_precision_loss)]
        eval: |attrs, operands, ty| {
            let padded = attrs.expect_int("count-include-pad") == 1;
            eval_pool(attrs, operands[0], ty, &|values, window| {
                let divisor = if padded { window } else { values.len() };
                values.iter().sum::<f64>() / divisor.max(1) as f64
            })
        },
        flops: flops_pool,
        sample: None,
        lowered: None,
    }
}

/// The most elements of an axis with its padding. No image has so many, and sizes below it do not overflow.
const LONGEST: usize = 1 << 31;

/// The sizes of a sliding window along rows (0) or columns (1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    extra: usize,
}

impl Axis {
    pub(super) fn new(attrs: &Attrs, axis: usize, size: usize, kernel: usize) -> Result<Self, OpError> {
        let pair = |name: &str, otherwise: usize| -> Result<usize, OpError> {
            if attrs.get(name).is_none() {
                return Ok(otherwise);
            }
            let values = sizes(attrs, name)?;
            if values.len() == 2 {
                Ok(values[axis])
            } else {
                Err(OpError::attribute(name, format!("has {} values, not 2", values.len())))
            }
        };
        let pads = sizes(attrs, "pads")?;
        if pads.len() != 4 {
            return Err(OpError::attribute("pads", format!("has {} values, not 4", pads.len())));
        }
        let (stride, dilation) = (pair("strides", 1)?, pair("dilations", 1)?);
        if stride == 0 || dilation == 0 || kernel == 0 {
            return Err(OpError::operands("strides, dilations and kernel sizes are at least 1"));
        }
        Ok(Self {
            size,
            kernel,
            stride,
            dilation,
            before: pads[axis],
            after: pads[axis + 2],
            extra: pair("ceil-extra", 0)?,
        })
    }

    fn outputs(&self) -> Result<usize, OpError> {
        let parts = [self.size, self.before, self.after, self.extra];
        let padded = parts.iter().try_fold(0, |sum: usize, part| sum.checked_add(*part));
        let reach = (self.kernel - 1).checked_mul(self.dilation).and_then(|reach| reach.checked_add(1));
        let (Some(padded), Some(reach)) = (padded.filter(|n| *n <= LONGEST), reach) else {
            return Err(OpError::operands(format!(
                "an axis of {} with this window and padding is too long",
                self.size
            )));
        };
        if padded < reach {
            return Err(OpError::operands(format!(
                "a window of {reach} does not fit into {padded} (padding included)"
            )));
        }
        Ok((padded - reach) / self.stride + 1)
    }

    /// Returns the position in the input of a window's element; `None` for padding.
    pub(super) fn at(&self, output: usize, element: usize) -> Option<usize> {
        (output * self.stride + element * self.dilation).checked_sub(self.before).filter(|at| *at < self.size)
    }

    /// Returns the windows, of this many, whose element lies in the input.
    pub(super) fn inside(&self, outputs: usize, element: usize) -> Range<usize> {
        let reach = element * self.dilation;
        let first = self.before.saturating_sub(reach).div_ceil(self.stride);
        let end = (self.size + self.before).saturating_sub(reach).div_ceil(self.stride).min(outputs);
        first.min(end)..end
    }

    /// Returns the number of a window's elements that lie in the input or its declared padding.
    fn counted(&self, output: usize) -> usize {
        (0..self.kernel)
            .filter(|element| {
                output * self.stride + element * self.dilation < self.size + self.before + self.after
            })
            .count()
    }
}

/// Returns the number of groups of a convolution or a transposed one, after a check that image, weights and bias
/// have one floating-point type.
pub(super) fn grouped(attrs: &Attrs, types: &[&TensorType]) -> Result<usize, OpError> {
    rank(types, 0, 4)?;
    rank(types, 1, 4)?;
    rank(types, 2, 1)?;
    let (x, w, bias) = (types[0], types[1], types[2]);
    if x.dtype != w.dtype || x.dtype != bias.dtype || !x.dtype.is_float() {
        return Err(OpError::operands(format!(
            "the operands are {x}, {w} and {bias}: they must be of one floating-point type"
        )));
    }
    let groups = usize::try_from(attrs.expect_int("groups")).ok().filter(|groups| *groups > 0);
    groups.ok_or_else(|| OpError::attribute("groups", "is at least 1"))
}

/// Returns how far a window can move along an axis with this padding on both sides; `None` if it does not fit at all,
/// or if the axis is too long.
pub(super) fn room(size: usize, pads: [usize; 2], window: usize, dilation: usize) -> Option<usize> {
    let reach = window.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let padded = size.checked_add(pads[0])?.checked_add(pads[1])?;
    padded.checked_sub(reach).filter(|_| padded <= LONGEST)
}

/// Infers the shape and the element type of a convolution. The caller handles layouts.
pub(super) fn infer_conv(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let groups = grouped(attrs, types)?;
    let (x, w, bias) = (types[0], types[1], types[2]);
    if w.shape[1].checked_mul(groups) != Some(x.shape[1]) || w.shape[0] % groups != 0 {
        return Err(OpError::operands(format!(
            "weights {w} with {groups} group(s) do not fit the input {x}"
        )));
    }
    if bias.shape[0] != w.shape[0] {
        return Err(OpError::operands(format!("the bias {bias} does not fit the weights {w}")));
    }
    let rows = Axis::new(attrs, 0, x.shape[2], w.shape[2])?.outputs()?;
    let columns = Axis::new(attrs, 1, x.shape[3], w.shape[3])?.outputs()?;
    let result = TensorType::plain(x.dtype, [x.shape[0], w.shape[0], rows, columns]);
    if types.iter().all(|ty| ty.layout.is_plain()) {
        post::check(attrs.post(), &types[3..], &result)?;
    }
    Ok(result)
}

pub(super) fn eval_conv(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, w) = (operands[0].ty(), operands[1].ty());
    let axis = |index: usize| {
        Axis::new(attrs, index, x.shape[2 + index], w.shape[2 + index]).expect("infer accepted")
    };
    let (rows, columns) = (axis(0), axis(1));
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
    let (inputs, outputs) = (w.shape[1], w.shape[0] / groups);
    let (xs, ws, bias) = (operands[0].to_f64(), operands[1].to_f64(), operands[2].to_f64());
    let (oh, ow) = (ty.shape[2], ty.shape[3]);
    let mut result = vec![0.0; ty.shape.count()];
    for (plane, out) in result.chunks_exact_mut((oh * ow).max(1)).enumerate() {
        let (n, o) = (plane / ty.shape[1], plane % ty.shape[1]);
        out.fill(bias[o]);
        for c in 0..inputs {
            let image = &xs[(n * x.shape[1] + o / outputs * inputs + c) * rows.size * columns.size..];
            for r in 0..rows.kernel {
                for s in 0..columns.kernel {
                    let factor = ws[((o * inputs + c) * rows.kernel + r) * columns.kernel + s];
                    let inside = columns.inside(ow, s);
                    if inside.is_empty() {
                        continue;
                    }
                    let first = inside.start * columns.stride + s * columns.dilation - columns.before;
                    for y in rows.inside(oh, r) {
                        let row = y * rows.stride + r * rows.dilation - rows.before;
                        let line = image[row * columns.size..][first..columns.size].iter();
                        let targets = &mut out[y * ow..][inside.clone()];
                        for (target, value) in targets.iter_mut().zip(line.step_by(columns.stride)) {
                            *target += factor * value;
                        }
                    }
                }
            }
        }
    }
    post::apply(attrs.post(), &operands[3..], Tensor::from_f64(ty.dtype, ty.shape.clone(), &result))
}

fn eval_widen(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (groups, into) = (
        attrs.expect_int("groups").cast_unsigned() as usize,
        attrs.expect_int("into").cast_unsigned() as usize,
    );
    let (outputs, narrow, wide) = (ty.shape[0], operands[0].ty().shape[1], ty.shape[1]);
    let (size, line) = (ty.dtype.size(), ty.shape[2] * ty.shape[3] * ty.dtype.size());
    let mut result = Tensor::zeros(ty.clone());
    let target = result.bytes_mut();
    for output in 0..outputs {
        if let Some(fill) = operands.get(1) {
            let at = if fill.ty().shape.count() == 1 { 0 } else { output };
            let own = &mut target[output * wide * line..][..wide * line];
            own.chunks_exact_mut(size)
                .for_each(|one| one.copy_from_slice(&fill.bytes()[at * size..][..size]));
        }
        let group = output / (outputs / groups);
        let first = group % (groups / into) * narrow;
        let (from, to) = (output * narrow * line, (output * wide + first) * line);
        target[to..to + narrow * line].copy_from_slice(&operands[0].bytes()[from..from + narrow * line]);
    }
    result
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn flops_conv(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    2.0 * count(output) * types[1].shape[1..].iter().product::<usize>() as f64
}

/// Infers the result of a pool of maxima, which also takes levels of 8 bits.
fn infer_max_pool(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let levels = matches!(types[0].dtype, DType::U8 | DType::I8);
    let dtype = if levels { DType::F32 } else { types[0].dtype };
    let result = infer_pool(attrs, &[&TensorType { dtype, ..types[0].clone() }])?;
    Ok(TensorType { dtype: types[0].dtype, ..result })
}

/// Infers the result of a pool, which has the layout of the operand.
pub(super) fn infer_pool(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    rank(types, 0, 4)?;
    let x = types[0];
    if !matches!(x.dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
        return Err(OpError::operand(0, x, ", not a floating-point type"));
    }
    let kernel = sizes(attrs, "kernel")?;
    if kernel.len() != 2 {
        return Err(OpError::attribute("kernel", format!("has {} values, not 2", kernel.len())));
    }
    let mut dims = x.shape.to_vec();
    for axis in 0..2 {
        let window = Axis::new(attrs, axis, x.shape[2 + axis], kernel[axis])?;
        dims[2 + axis] = window.outputs()?;
        // A window that contains only padding has no largest value and no mean. Other engines refuse it as well.
        let reach = (window.kernel - 1) * window.dilation + 1;
        if window.before.max(window.after) >= reach {
            return Err(OpError::operands(format!(
                "padding of {} hides a window of {reach}: it must be smaller",
                window.before.max(window.after)
            )));
        }
    }
    Ok(TensorType { shape: dims.into_iter().collect::<Vec<_>>().as_slice().into(), ..x.clone() })
}

/// Evaluates a pool. `reduce` takes the values of a window that are not padding, and the number of its elements
/// including padding.
fn eval_pool(
    attrs: &Attrs,
    operand: &Tensor,
    ty: &TensorType,
    reduce: &dyn Fn(&[f64], usize) -> f64,
) -> Tensor {
    let x = operand.ty();
    let kernel = sizes(attrs, "kernel").expect("infer accepted");
    let axis =
        |index: usize| Axis::new(attrs, index, x.shape[2 + index], kernel[index]).expect("infer accepted");
    let (rows, columns) = (axis(0), axis(1));
    let xs = operand.to_f64();
    let mut result = Vec::with_capacity(ty.shape.count());
    let mut window = Vec::new();
    for plane in 0..ty.shape[0] * ty.shape[1] {
        let image = &xs[plane * rows.size * columns.size..];
        for y in 0..ty.shape[2] {
            for z in 0..ty.shape[3] {
                window.clear();
                for row in (0..rows.kernel).filter_map(|r| rows.at(y, r)) {
                    window.extend(
                        (0..columns.kernel)
                            .filter_map(|s| columns.at(z, s))
                            .map(|c| image[row * columns.size + c]),
                    );
                }
                result.push(reduce(&window, rows.counted(y) * columns.counted(z)));
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn flops_pool(attrs: &Attrs, _: &[&TensorType], output: &TensorType) -> f64 {
    attrs.expect_ints("kernel").iter().fold(count(output), |flops, size| flops * *size as f64)
}
