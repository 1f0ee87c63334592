//! Normalisations: softmax, layer, batch and instance norm, local response.

use super::independence::except_axis;
use super::{Arity, AttrDef, Flags, OpDef, OpError, axis, count, plain, rank};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![softmax(), log_softmax(), layer_norm(), rms_norm(), batch_norm(), instance_norm(), lrn()]
}

pub(super) fn epsilon() -> AttrDef {
    AttrDef::new("epsilon", AttrKind::Float, Some(Attr::Float(Float(1e-5))), "added to the variance")
}

fn axis_attr() -> AttrDef {
    AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative")
}

/// The axes before `axis` are kept; scale and bias have the others.
fn before_axis(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let first = axis(attrs, "axis", result.shape.rank()).unwrap_or(0);
    let own = |(operand, ty): (usize, &&TensorType)| {
        (0..ty.shape.rank()).map(|own| (operand == 0 && own < first).then_some(own)).collect()
    };
    types.iter().enumerate().map(own).collect()
}

/// Every element is normalised alone, by the parameters of its channel.
fn each_element(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    by_channel(types, (0..result.shape.rank()).map(Some).collect())
}

/// Every channel of every image is normalised alone.
fn each_channel(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    by_channel(types, (0..result.shape.rank()).map(|axis| (axis < 2).then_some(axis)).collect())
}

/// Returns the axes of an operand, and those of the operands after it, which have one element for each channel.
fn by_channel(types: &[&TensorType], first: Vec<Option<usize>>) -> Vec<Vec<Option<usize>>> {
    [first].into_iter().chain(types.iter().skip(1).map(|_| vec![Some(1)])).collect()
}

/// All axes but the channels are kept.
fn except_channels(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    vec![(0..types[0].shape.rank()).map(|axis| (axis != 1).then_some(axis)).collect()]
}

pub(super) fn softmax() -> OpDef {
    OpDef {
        name: "softmax",
        doc: "exp(x) divided by its sum along an axis",
        arity: Arity::Exactly(1),
        attrs: vec![axis_attr()],
        flags: Flags::independent(except_axis),
        infer: infer_axis,
        eval: |attrs, operands, ty| {
            along(attrs, operands[0], ty, |line| {
                let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = line.iter().map(|v| (v - most).exp()).sum();
                line.iter_mut().for_each(|v| *v = (*v - most).exp() / sum);
            })
        },
        flops: |_, _, output| 5.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn log_softmax() -> OpDef {
    OpDef {
        name: "log-softmax",
        doc: "the logarithm of softmax",
        arity: Arity::Exactly(1),
        attrs: vec![axis_attr()],
        flags: Flags::independent(except_axis),
        infer: infer_axis,
        eval: |attrs, operands, ty| {
            along(attrs, operands[0], ty, |line| {
                let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = line.iter().map(|v| (v - most).exp()).sum();
                line.iter_mut().for_each(|v| *v = *v - most - sum.ln());
            })
        },
        flops: |_, _, output| 5.0 * count(output),
        sample: None,
        lowered: None,
    }
}

pub(super) fn layer_norm() -> OpDef {
    OpDef {
        name: "layer-norm",
        doc: "(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` on",
        arity: Arity::Exactly(3),
        attrs: vec![axis_attr(), epsilon()],
        flags: Flags::independent(before_axis),
        infer: |attrs, types| infer_inner(attrs, types, &["scale", "bias"]),
        eval: |attrs, operands, ty| {
            let inner: usize =
                ty.shape[axis(attrs, "axis", ty.shape.rank()).expect("infer accepted")..].iter().product();
            let (scale, bias) = (operands[1].to_f64(), operands[2].to_f64());
            let mut values = operands[0].to_f64();
            for line in values.chunks_exact_mut(inner.max(1)) {
                standardise(line, attrs.expect_float("epsilon"));
                for ((value, scale), bias) in line.iter_mut().zip(&scale).zip(&bias) {
                    *value = *value * scale + bias;
                }
            }
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, output| 8.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn rms_norm() -> OpDef {
    OpDef {
        name: "rms-norm",
        doc: "x / sqrt(mean of the squares + epsilon) * scale over the axes from `axis` on",
        arity: Arity::Exactly(2),
        attrs: vec![
            axis_attr(),
            AttrDef::new(
                "epsilon",
                AttrKind::Float,
                Some(Attr::Float(Float(1e-5))),
                "added to the mean of the squares",
            ),
        ],
        flags: Flags::independent(before_axis),
        infer: |attrs, types| infer_inner(attrs, types, &["scale"]),
        eval: |attrs, operands, ty| {
            let inner: usize =
                ty.shape[axis(attrs, "axis", ty.shape.rank()).expect("infer accepted")..].iter().product();
            let scale = operands[1].to_f64();
            let mut values = operands[0].to_f64();
            for line in values.chunks_exact_mut(inner.max(1)) {
                #[allow(clippy::cast_precision_loss)]
                let mean = line.iter().map(|value| value * value).sum::<f64>() / line.len() as f64;
                let root = (mean + attrs.expect_float("epsilon")).sqrt();
                line.iter_mut().zip(&scale).for_each(|(value, scale)| *value = *value / root * scale);
            }
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, output| 5.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn batch_norm() -> OpDef {
    OpDef {
        name: "batch-norm",
        doc: "(x - mean) / sqrt(variance + epsilon) * scale + bias, with one value of each for every channel",
        arity: Arity::Exactly(5),
        attrs: vec![epsilon()],
        flags: Flags::independent(each_element),
        infer: |_, types| infer_channels(types, &["scale", "bias", "mean", "variance"]),
        eval: |attrs, operands, ty| {
            let [scale, bias, mean, var] = [1, 2, 3, 4].map(|operand| operands[operand].to_f64());
            let mut values = operands[0].to_f64();
            channels(&mut values, ty, |line, c| {
                let factor = scale[c] / (var[c] + attrs.expect_float("epsilon")).sqrt();
                line.iter_mut().for_each(|v| *v = (*v - mean[c]) * factor + bias[c]);
            });
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, output| 4.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn instance_norm() -> OpDef {
    OpDef {
        name: "instance-norm",
        doc: "(x - mean) / sqrt(variance + epsilon) * scale + bias, for each channel of each image",
        arity: Arity::Exactly(3),
        attrs: vec![epsilon()],
        flags: Flags::independent(each_channel),
        infer: |_, types| infer_channels(types, &["scale", "bias"]),
        eval: |attrs, operands, ty| {
            let (scale, bias) = (operands[1].to_f64(), operands[2].to_f64());
            let mut values = operands[0].to_f64();
            channels(&mut values, ty, |line, c| {
                standardise(line, attrs.expect_float("epsilon"));
                line.iter_mut().for_each(|v| *v = *v * scale[c] + bias[c]);
            });
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, output| 8.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn lrn() -> OpDef {
    OpDef {
        name: "lrn",
        doc: "x / (bias + alpha / size * s) ^ beta, where s is the sum of squares over `size` adjacent channels",
        arity: Arity::Exactly(1),
        attrs: vec![
            AttrDef::new(
                "size",
                AttrKind::Int,
                None,
                "the number of adjacent channels whose squares are added",
            ),
            AttrDef::new("alpha", AttrKind::Float, Some(Attr::Float(Float(1e-4))), "the factor of the sum"),
            AttrDef::new("beta", AttrKind::Float, Some(Attr::Float(Float(0.75))), "exponent"),
            AttrDef::new("bias", AttrKind::Float, Some(Attr::Float(Float(1.0))), "added to the sum"),
        ],
        flags: Flags::independent(except_channels),
        infer: |attrs, types| {
            plain(types)?;
            if attrs.expect_int("size") < 1 || types[0].shape.rank() < 2 || !types[0].dtype.is_float() {
                return Err(OpError::operand(0, types[0], format!(" and size {}", attrs.expect_int("size"))));
            }
            Ok(types[0].clone())
        },
        eval: eval_lrn,
        flops: |_, _, output| 8.0 * count(output),
        sample: None,
        lowered: None,
    }
}

fn infer_axis(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    axis(attrs, "axis", types[0].shape.rank())?;
    if !types[0].dtype.is_float() {
        return Err(OpError::operand(0, types[0], ", not a floating-point type"));
    }
    Ok(types[0].clone())
}

/// Infers the type of a normalisation whose other operands have the axes from `axis` on.
fn infer_inner(attrs: &Attrs, types: &[&TensorType], names: &[&str]) -> Result<TensorType, OpError> {
    let ty = infer_axis(attrs, types)?;
    let inner = &ty.shape[axis(attrs, "axis", ty.shape.rank())?..];
    for (name, operand) in names.iter().zip(1..) {
        if *types[operand].shape != *inner || types[operand].dtype != ty.dtype {
            return Err(OpError::operands(format!(
                "the {name} is {}, and the normalised axes are {inner:?}",
                types[operand]
            )));
        }
    }
    Ok(ty)
}

fn infer_channels(types: &[&TensorType], names: &[&str]) -> Result<TensorType, OpError> {
    plain(types)?;
    let x = types[0];
    if x.shape.rank() < 2 || !x.dtype.is_float() {
        return Err(OpError::operand(0, x, ": it needs a floating-point type and channels"));
    }
    for (name, operand) in names.iter().zip(1..) {
        rank(types, operand, 1)?;
        if types[operand].shape[0] != x.shape[1] || types[operand].dtype != x.dtype {
            return Err(OpError::operands(format!("the {name} is {}, and operand 0 {x}", types[operand])));
        }
    }
    Ok(x.clone())
}

pub(super) fn standardise(line: &mut [f64], epsilon: f64) {
    #[allow(clippy::cast_precision_loss)]
    let size = line.len() as f64;
    let mean = line.iter().sum::<f64>() / size;
    let variance = line.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / size;
    let factor = 1.0 / (variance + epsilon).sqrt();
    line.iter_mut().for_each(|v| *v = (*v - mean) * factor);
}

fn channels(values: &mut [f64], ty: &TensorType, mut apply: impl FnMut(&mut [f64], usize)) {
    let inner: usize = ty.shape[2..].iter().product();
    for (plane, line) in values.chunks_exact_mut(inner.max(1)).enumerate() {
        apply(line, plane % ty.shape[1]);
    }
}

fn along(attrs: &Attrs, operand: &Tensor, ty: &TensorType, apply: impl Fn(&mut [f64])) -> Tensor {
    let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
    let (size, inner) = (ty.shape[axis], ty.shape[axis + 1..].iter().product::<usize>());
    let mut values = operand.to_f64();
    let mut line = vec![0.0; size];
    for block in values.chunks_exact_mut((size * inner).max(1)) {
        for at in 0..inner {
            for (index, value) in line.iter_mut().enumerate() {
                *value = block[index * inner + at];
            }
            apply(&mut line);
            for (index, value) in line.iter().enumerate() {
                block[index * inner + at] = *value;
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
}

fn eval_lrn(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let size = usize::try_from(attrs.expect_int("size")).unwrap_or(1);
    let [alpha, beta, bias] = ["alpha", "beta", "bias"].map(|name| attrs.expect_float(name));
    let values = operands[0].to_f64();
    let (c, inner) = (ty.shape[1], ty.shape[2..].iter().product::<usize>());
    let mut result = vec![0.0; values.len()];
    for (position, out) in result.iter_mut().enumerate() {
        let (channel, base) = (position / inner % c, position / inner / c * c * inner + position % inner);
        // ONNX: from channel - floor((size - 1) / 2) to channel + ceil((size - 1) / 2).
        let (first, last) = (channel.saturating_sub((size - 1) / 2), (channel + size / 2).min(c - 1));
        let sum: f64 = (first..=last).map(|k| values[base + k * inner].powi(2)).sum();
        #[allow(clippy::cast_precision_loss)]
        let divisor = (bias + alpha / size as f64 * sum).powf(beta);
        *out = values[position] / divisor;
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}
