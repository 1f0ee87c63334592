//! What gradients of convolutions are made of: `conv-weight-gradient` and `turn-filters`.

use super::window::{Axis, infer_conv};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain, rank, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![conv_weight_gradient(), turn_filters()]
}

fn ints(name: &'static str, default: Option<&[i64]>, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Ints, default.map(|list| Attr::Ints(list.to_vec())), doc)
}

fn groups() -> AttrDef {
    AttrDef::new("groups", AttrKind::Int, Some(Attr::Int(1)), "the groups of channels of the convolution")
}

fn conv_weight_gradient() -> OpDef {
    OpDef {
        name: "conv-weight-gradient",
        doc: "the gradient with respect to the weights w[O,C/groups,h,w] of a convolution of x[N,C,H,W] (operand 0), \
              from that with respect to its result (operand 1)",
        arity: Arity::Exactly(2),
        attrs: vec![
            ints("kernel", None, "rows and columns of the window"),
            ints("strides", Some(&[1, 1]), "rows and columns between windows"),
            ints("pads", Some(&[0, 0, 0, 0]), "padding at the top, left, bottom and right"),
            ints("dilations", Some(&[1, 1]), "rows and columns between the elements of a window"),
            groups(),
        ],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            infer(attrs, types)
        },
        eval,
        flops,
        sample: Some(draw),
        lowered: None,
    }
}

/// Infers the type of the weights. The caller handles layouts.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    rank(types, 0, 4)?;
    rank(types, 1, 4)?;
    let kernel = sizes(attrs, "kernel")?;
    let [height, width] = kernel[..] else {
        return Err(OpError::attribute("kernel", format!("has {} values, not 2", kernel.len())));
    };
    let groups = usize::try_from(attrs.expect_int("groups")).ok().filter(|groups| *groups > 0);
    let groups = groups.ok_or_else(|| OpError::attribute("groups", "is at least 1"))?;
    let (x, d) = (types[0], types[1]);
    let weights = TensorType::plain(x.dtype, [d.shape[1], x.shape[1] / groups, height, width]);
    let image = TensorType::plain(x.dtype, x.shape.clone());
    let bias = TensorType::plain(x.dtype, [d.shape[1]]);
    let result = infer_conv(attrs, &[&image, &weights, &bias])?;
    if result.shape != d.shape || result.dtype != d.dtype {
        return Err(OpError::operand(1, d, format!(", but the convolution gives {result}")));
    }
    Ok(weights)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, d) = (&operands[0].ty().shape, &operands[1].ty().shape);
    let axis =
        |index: usize| Axis::new(attrs, index, x[2 + index], ty.shape[2 + index]).expect("infer accepted");
    let (rows, columns) = (axis(0), axis(1));
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
    let (inputs, outputs) = (ty.shape[1], ty.shape[0] / groups);
    let (xs, ds) = (operands[0].to_f64(), operands[1].to_f64());
    let window = ty.shape[2] * ty.shape[3];
    let mut result = vec![0.0; ty.shape.count()];
    for (at, sum) in result.iter_mut().enumerate() {
        let (filter, tap) = (at / window, at % window);
        let (output, channel) = (filter / inputs, filter / inputs / outputs * inputs + filter % inputs);
        let (r, s) = (tap / ty.shape[3], tap % ty.shape[3]);
        for n in 0..x[0] {
            let image = &xs[(n * x[1] + channel) * x[2] * x[3]..];
            let above = &ds[(n * d[1] + output) * d[2] * d[3]..];
            for y in 0..d[2] {
                let Some(row) = rows.at(y, r) else { continue };
                for z in columns.inside(d[3], s) {
                    let Some(column) = columns.at(z, s) else { continue };
                    *sum += image[row * x[3] + column] * above[y * d[3] + z];
                }
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

#[allow(clippy::cast_precision_loss)]
fn flops(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    2.0 * count(types[1]) * output.shape[1..].iter().product::<usize>() as f64
}

/// Draws images, and a window that fits them; often one pixel, and often without groups.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.floats();
    let groups = if draw.percent(60) { 1 } else { 1 + draw.small() };
    let kernel = if draw.percent(40) { vec![1, 1] } else { draw.shape(2) };
    let list = |draw: &mut dyn Draw, length: usize, often: usize, least: usize| -> Vec<usize> {
        let usual = draw.percent(often);
        (0..length).map(|_| if usual { least } else { least + draw.below(3) }).collect()
    };
    let (strides, dilations) = (list(draw, 2, 50, 1), list(draw, 2, 70, 1));
    let pads = list(draw, 4, 60, 0);
    let (result, rest) = (draw.shape(2), draw.shape(2));
    let (batch, [channels, outputs]) = (draw.small(), [draw.small(), draw.small()]);
    let size = |at: usize| {
        let window = (kernel[at] - 1) * dilations[at] + 1 + (result[at] - 1) * strides[at];
        (window + rest[at] % strides[at]).saturating_sub(pads[at] + pads[at + 2]).max(1)
    };
    let x = [batch, groups * channels, size(0), size(1)];
    let outer = |at: usize| {
        let padded = x[2 + at] + pads[at] + pads[at + 2];
        padded.checked_sub((kernel[at] - 1) * dilations[at] + 1).map(|room| room / strides[at] + 1)
    };
    let d = [batch, groups * outputs, outer(0)?, outer(1)?];
    let attrs = Attrs::new().sizes("kernel", &kernel).sizes("strides", &strides).sizes("pads", &pads);
    let attrs = attrs.sizes("dilations", &dilations).size("groups", groups);
    Some(Sample::new(attrs, [TensorType::plain(dtype, x), TensorType::plain(dtype, d)]))
}

fn turn_filters() -> OpDef {
    OpDef {
        name: "turn-filters",
        doc: "weights w[O,C/groups,h,w] of a convolution, for one that goes back to its image, [C,O/groups,h,w]: the \
              channels of a group change places, and rows and columns are reversed",
        arity: Arity::Exactly(1),
        attrs: vec![groups()],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            rank(types, 0, 4)?;
            let shape = &types[0].shape;
            let groups = usize::try_from(attrs.expect_int("groups")).ok().filter(|groups| *groups > 0);
            let groups = groups.filter(|groups| shape[0].is_multiple_of(*groups));
            let channels = groups.and_then(|groups| Some((groups, shape[1].checked_mul(groups)?)));
            let (groups, channels) = channels.ok_or_else(|| {
                OpError::attribute("groups", format!("does not divide the outputs of {}", types[0]))
            })?;
            Ok(TensorType::plain(types[0].dtype, [channels, shape[0] / groups, shape[2], shape[3]]))
        },
        eval: |attrs, operands, ty| {
            let from = &operands[0].ty().shape;
            let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
            let (inputs, outputs, window) = (from[1], from[0] / groups, from[2] * from[3]);
            let size = ty.dtype.size();
            let mut result = Tensor::zeros(ty.clone());
            for (at, target) in result.bytes_mut().chunks_exact_mut(size).enumerate() {
                let (filter, tap) = (at / window, at % window);
                let (channel, output) = (filter / outputs, filter % outputs);
                let (group, input) = (channel / inputs, channel % inputs);
                let filter = (group * outputs + output) * inputs + input;
                let source = (filter * window + window - 1 - tap) * size;
                target.copy_from_slice(&operands[0].bytes()[source..source + size]);
            }
            result
        },
        flops: |_, _, _| 0.0,
        sample: Some(|draw| {
            let dtype = draw.floats();
            let groups = draw.pick(&[1, 1, 2, 3]);
            let mut shape = draw.shape(4);
            shape[0] *= groups;
            Some(Sample::new(Attrs::new().size("groups", groups), [TensorType::plain(dtype, shape)]))
        }),
        lowered: None,
    }
}
