//! Products of 8-bit integers, summed in 32 bits, and the levels that such integers are of floats.

use super::broadcast::{Broadcast, relayout};
use super::independence::broadcast;
use super::window::{convolution, eval_conv, flops_conv, infer_conv};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, matmul, plain};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "matmul-integer",
            doc: "(a - p) (b - q) in i32, for a[..,M,K] and b[..,K,N] of 8-bit integers; the zero points p and q broadcast to a and b, and are the same along K",
            arity: Arity::Exactly(4),
            attrs: Vec::new(),
            flags: Flags::independent(matmul::factors),
            infer: infer_matmul,
            eval: |attrs, operands, ty| {
                let [a, b] = [0, 1].map(|at| centred(operands[at], operands[at + 2]));
                matmul::eval(&attrs.clone().with("post", Attr::Post(Vec::new())), &[&a, &b], ty)
            },
            flops: matmul::flops,
            sample: Some(draw_matmul),
            lowered: None,
        },
        OpDef {
            name: "conv-integer",
            doc: "convolution in i32 of x[N,C,H,W] - p with w[O,C/groups,h,w] - q, for 8-bit integers, a zero point p of one element and zero points q of one element or [O]; padding is zero after p is subtracted",
            arity: Arity::Exactly(4),
            attrs: convolution_attrs(),
            flags: Flags::independent(convolution),
            infer: infer_convolution,
            eval: eval_convolution,
            flops: flops_conv,
            sample: Some(draw_conv),
            lowered: None,
        },
        level(
            "quantize",
            "round(x / s) + z within the bounds of z's type, which is that of the result; halves go to the even integer, and NaN to the lower bound. x and s are f32, z are integers of 4, 8 or 16 bits; s and z broadcast to x",
            |_, types| {
                levels(types, 2)?;
                if types[0].dtype == DType::F32 {
                    return Ok(TensorType { dtype: types[2].dtype, ..types[0].clone() });
                }
                Err(OpError::operand(0, types[0], ", not f32"))
            },
            eval_quantize,
            |draw| draw_levels(draw, true),
        ),
        level(
            "dequantize",
            "(x - z) s in f32, for integers x of 4, 8, 16 or 32 bits, z of the same type, and s of f32; s and z broadcast to x",
            |_, types| {
                levels(types, 0)?;
                if types[0].dtype == types[2].dtype {
                    return Ok(TensorType { dtype: DType::F32, ..types[0].clone() });
                }
                Err(OpError::operand(2, types[2], format!(", and the levels are {}", types[0])))
            },
            eval_dequantize,
            |draw| draw_levels(draw, false),
        ),
    ]
}

/// Returns the attributes of a convolution of integers.
pub(super) fn convolution_attrs() -> Vec<AttrDef> {
    vec![
        window("strides", &[1, 1], "rows and columns between windows"),
        window("pads", &[0, 0, 0, 0], "padding at the top, left, bottom and right"),
        window("dilations", &[1, 1], "rows and columns between the elements of a window"),
        AttrDef::new(
            "groups",
            AttrKind::Int,
            Some(Attr::Int(1)),
            "the number of groups of channels, each with its own weights",
        ),
    ]
}

fn level(
    name: &'static str,
    doc: &'static str,
    infer: super::Infer,
    eval: super::Eval,
    sample: super::SampleOf,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(3),
        attrs: Vec::new(),
        flags: Flags::independent(broadcast),
        infer,
        eval,
        #[allow(clippy::cast_precision_loss)]
        flops: |_, types, _| 4.0 * types[0].shape.count() as f64,
        sample: Some(sample),
        lowered: None,
    }
}

/// Checks scales and zero points, and the type of levels.
pub(super) fn levels(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    let one = types[1..].iter().all(|ty| ty.layout.is_plain() && ty.shape.count() == 1);
    // In a layout with blocks, padding would have to stay zero, which is no level of zero in general.
    if !(one && types[0].layout.blocks().is_empty()) {
        plain(types)?;
    }
    let narrow = matches!(
        types[operand].dtype,
        DType::I4 | DType::U4 | DType::I8 | DType::U8 | DType::I16 | DType::U16
    );
    if !(narrow || operand == 0 && types[0].dtype == DType::I32) {
        return Err(OpError::operand(operand, types[operand], ", which are no levels"));
    }
    if types[1].dtype != DType::F32 {
        return Err(OpError::operand(1, types[1], ", not f32"));
    }
    let shape = &types[0].shape;
    for at in [1, 2] {
        if types[at].shape.broadcast(shape).as_ref() != Some(shape) {
            return Err(OpError::operand(at, types[at], format!(", which does not broadcast to {shape}")));
        }
    }
    Ok(())
}

/// Calls a function on each element with its scale and its zero point, as numbers of binary32.
#[allow(clippy::cast_possible_truncation)]
fn with_levels(operands: &[&Tensor], each: impl Fn(f32, f32, f32) -> f32) -> Vec<f64> {
    let shape = &operands[0].ty().shape;
    let places = [1, 2].map(|at| Broadcast::new(&operands[at].ty().shape, shape));
    let [values, scales, zeros] = [0, 1, 2].map(|at| operands[at].to_layout(&Layout::PLAIN).to_f64());
    // Along the last axis, scales and zero points follow each other or stay the same.
    let length = shape.last().copied().unwrap_or(1).max(1);
    let steps = places.each_ref().map(|place| place.steps().last().map_or(0, |step| step.unsigned_abs()));
    let mut result = Vec::with_capacity(values.len());
    for (row, values) in values.chunks(length).enumerate() {
        let [scale, zero] = places.each_ref().map(|place| place.at(row * length));
        result.extend(values.iter().enumerate().map(|(at, value)| {
            let (scale, zero) = (scales[scale + at * steps[0]], zeros[zero + at * steps[1]]);
            f64::from(each(*value as f32, scale as f32, zero as f32))
        }));
    }
    result
}

pub(super) fn eval_quantize(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    // What is no number has the lowest level, as `clip` gives it.
    let values = with_levels(operands, |value, scale, zero| {
        let level = (value / scale).round_ties_even() + zero;
        if level.is_nan() { f32::MIN } else { level }
    });
    relayout(Tensor::from_f64(ty.dtype, ty.shape.clone(), &values), ty)
}

pub(super) fn eval_dequantize(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let values = with_levels(operands, |value, scale, zero| (value - zero) * scale);
    relayout(Tensor::from_f64(ty.dtype, ty.shape.clone(), &values), ty)
}

fn window(name: &'static str, default: &[i64], doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Ints, Some(Attr::Ints(default.to_vec())), doc)
}

/// Checks that both factors have 8 bits, and each zero point has the type of its factor.
fn bytes(types: &[&TensorType]) -> Result<(), OpError> {
    plain(types)?;
    for operand in 0..4 {
        let wanted = types[operand % 2].dtype;
        if !matches!(wanted, DType::I8 | DType::U8) || types[operand].dtype != wanted {
            return Err(OpError::operand(operand, types[operand], ", not 8-bit integers"));
        }
    }
    Ok(())
}

/// Returns the type that an operand has as a 32-bit integer.
fn wide(ty: &TensorType) -> TensorType {
    TensorType::plain(DType::I32, ty.shape.clone())
}

fn infer_matmul(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    bytes(types)?;
    for (operand, from_end) in [(2, 1), (3, 2)] {
        let (point, factor) = (&types[operand].shape, &types[operand - 2].shape);
        let along = point.rank().checked_sub(from_end).map_or(1, |axis| point[axis]);
        if along != 1 || point.broadcast(factor).as_ref() != Some(factor) {
            return Err(OpError::operand(operand, types[operand], format!(", and its factor is {factor}")));
        }
    }
    let attrs = attrs.clone().with("post", Attr::Post(Vec::new()));
    matmul::infer(&attrs, &[&wide(types[0]), &wide(types[1])])
}

/// Returns a factor minus its zero point.
fn centred(factor: &Tensor, point: &Tensor) -> Tensor {
    let shape = &factor.ty().shape;
    let index = Broadcast::new(&point.ty().shape, shape);
    let point = point.to_i128().unwrap_or_default();
    let values = factor.to_i128().unwrap_or_default();
    let values: Vec<i128> =
        values.iter().enumerate().map(|(at, value)| value - point[index.at(at)]).collect();
    Tensor::from_i128(DType::I32, shape.clone(), &values)
}

pub(super) fn infer_convolution(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    bytes(types)?;
    let outputs = types[1].shape.first().copied().unwrap_or(0);
    for (operand, most) in [(2, 1), (3, outputs)] {
        let point = types[operand];
        if point.shape.rank() > 1 || (point.shape.count() != 1 && point.shape.count() != most) {
            return Err(OpError::operand(operand, point, ", which is no zero point"));
        }
    }
    let attrs = attrs.clone().with("post", Attr::Post(Vec::new()));
    let [x, w] = [0, 1].map(|at| TensorType { dtype: DType::F64, ..types[at].clone() });
    let result = infer_conv(&attrs, &[&x, &w, &TensorType::plain(DType::F64, [outputs])])?;
    Ok(TensorType { dtype: DType::I32, ..result })
}

#[allow(clippy::cast_possible_truncation)]
pub(super) fn eval_convolution(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let attrs = attrs.clone().with("post", Attr::Post(Vec::new()));
    let double = |tensor: &Tensor| Tensor::from_f64(DType::F64, tensor.ty().shape.clone(), &tensor.to_f64());
    let outputs = operands[1].ty().shape[0];
    let points = operands[3].ty().shape.count();
    let per_output = operands[3].reshaped(Shape::from(&[points, 1, 1, 1][..]));
    let (x, w) = (double(&centred(operands[0], operands[2])), double(&centred(operands[1], &per_output)));
    let bias = Tensor::zeros(TensorType::plain(DType::F64, [outputs]));
    // The sums are whole numbers that binary64 holds exactly.
    let sums = eval_conv(&attrs, &[&x, &w, &bias], &TensorType { dtype: DType::F64, ..ty.clone() });
    let values: Vec<i128> = sums.to_f64().iter().map(|sum| *sum as i128).collect();
    Tensor::from_i128(DType::I32, ty.shape.clone(), &values)
}

/// Draws products of matrices of bytes.
fn draw_matmul(draw: &mut dyn Draw) -> Option<Sample> {
    let bytes = [DType::U8, DType::I8];
    let (a, b, dims, rank) = (draw.pick(&bytes), draw.pick(&bytes), draw.shape(3), draw.below(2));
    let batch = draw.shape(rank);
    let operands = vec![
        TensorType::plain(a, [&batch[..], &dims[..2]].concat()),
        TensorType::plain(b, [&batch[..], &dims[1..]].concat()),
        TensorType::plain(a, vec![]),
        TensorType::plain(b, if draw.percent(50) { vec![] } else { vec![dims[2]] }),
    ];
    Some(Sample::new(Attrs::new(), operands))
}

/// Draws convolutions of bytes. In some, each channel is a group of its own.
pub(super) fn draw_conv(draw: &mut dyn Draw) -> Option<Sample> {
    let bytes = [DType::U8, DType::I8];
    let (x, w) = (draw.pick(&bytes), draw.pick(&bytes));
    let (batch, mut channels, mut outputs) = (draw.small(), draw.small(), draw.small());
    let (window, result) = (draw.shape(2), draw.shape(2));
    let mut two = |from: usize| [0, 1].map(|_| from + draw.below(2));
    let (strides, dilations, begin, end) = (two(1), two(1), two(0), two(0));
    let image = [0, 1].map(|axis| {
        let spanned = (result[axis] - 1) * strides[axis] + (window[axis] - 1) * dilations[axis] + 1;
        spanned.saturating_sub(begin[axis] + end[axis]).max(1)
    });
    let (mut groups, mut of_group) = (1, channels);
    if draw.fixed("groups").is_none() && draw.percent(50) {
        if draw.percent(50) {
            (groups, of_group, outputs) = (channels, 1, channels);
        } else {
            // Groups of several channels, of which some fill blocks.
            (groups, of_group) = (draw.pick(&[2, 4, 8]), draw.pick(&[2, 3, 4, 8]));
            (channels, outputs) = (groups * of_group, groups * draw.pick(&[1, 3, of_group, 16]));
        }
    }
    let operands = vec![
        TensorType::plain(x, vec![batch, channels, image[0], image[1]]),
        TensorType::plain(w, vec![outputs, of_group, window[0], window[1]]),
        TensorType::plain(x, vec![]),
        TensorType::plain(w, if draw.percent(50) { vec![] } else { vec![outputs] }),
    ];
    let attrs = Attrs::new()
        .sizes("strides", &strides)
        .sizes("dilations", &dilations)
        .sizes("pads", &[begin, end].concat())
        .size("groups", groups);
    Some(Sample::new(attrs, operands))
}

/// Draws levels with scales and zero points, each one for all elements or one for each index of an axis.
fn draw_levels(draw: &mut dyn Draw, quantize: bool) -> Option<Sample> {
    // Levels and their zero point have one type.
    let known = [2, 0].into_iter().find_map(|at| draw.known(at)).map(|ty| ty.dtype);
    let drawn = draw.pick(&[DType::U8, DType::I8, DType::U16, DType::I16, DType::U4, DType::I4]);
    let dtype = known.filter(|dtype| *dtype != DType::F32).unwrap_or(drawn);
    let rank = 1 + draw.below(3);
    let dims = draw.shape(rank);
    let axis = draw.below(rank);
    let mut column = vec![1; rank];
    column[axis] = dims[axis];
    let small = |draw: &mut dyn Draw| if draw.percent(50) { vec![] } else { column.clone() };
    let (scale, zero) = (small(draw), small(draw));
    let x = if quantize { DType::F32 } else { dtype };
    Some(Sample::new(
        Attrs::new(),
        vec![
            TensorType::plain(x, dims),
            TensorType::plain(DType::F32, scale),
            TensorType::plain(dtype, zero),
        ],
    ))
}
