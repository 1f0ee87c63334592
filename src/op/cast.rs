//! Ops that convert elements to another type: `cast`, `cast-narrow`, and `bitcast`, which keeps the bits.

use super::broadcast::{FLAGS, relayout};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::text::{number, shown};
use crate::tensor::{DType, Overflow, Rounding, Tensor, TensorType};

const UNARY: Flags = Flags { elementwise: false, ..FLAGS };

pub(super) fn ops() -> Vec<OpDef> {
    vec![cast(), cast_narrow(), bitcast()]
}

fn to() -> AttrDef {
    AttrDef::new("to", AttrKind::DType, None, "the element type")
}

fn cast() -> OpDef {
    OpDef {
        name: "cast",
        doc: "the same values in another element type; integers wrap, and floats saturate to narrow floats and to integers of 8 bits and more; a string that says no number becomes NaN or 0",
        arity: Arity::Exactly(1),
        attrs: vec![to()],
        flags: UNARY,
        infer: |attrs, types| {
            let to = attrs.expect_dtype("to");
            if to != types[0].dtype && (to.is_complex() || types[0].dtype.is_complex()) {
                return Err(OpError::operand(0, types[0], format!(", which is not converted to {to}")));
            }
            Ok(TensorType { dtype: to, ..types[0].clone() })
        },
        eval: |_, operands, ty| {
            if operands[0].ty().dtype == ty.dtype {
                return operands[0].clone();
            }
            let result = match operands[0].to_i128() {
                _ if ty.dtype == DType::Text => Tensor::from_texts(ty.shape.clone(), &texts(operands[0])),
                Some(values) => Tensor::from_i128(ty.dtype, ty.shape.clone(), &values),
                None => match operands[0].to_texts() {
                    Some(texts) if ty.dtype.is_integer() => {
                        let values: Vec<i128> = texts.iter().map(|text| integer(text)).collect();
                        let (least, most) = ty.dtype.integer_range().unwrap_or_default();
                        let values: Vec<i128> =
                            values.iter().map(|value| *value.clamp(&least, &most)).collect();
                        Tensor::from_i128(ty.dtype, ty.shape.clone(), &values)
                    }
                    _ => Tensor::from_f64(ty.dtype, ty.shape.clone(), &operands[0].to_f64()),
                },
            };
            relayout(result, ty)
        },
        flops: |_, _, output| count(output),
        sample: None,
        lowered: None,
    }
}

/// Returns the integer that a text says; decimals are cut.
#[allow(clippy::cast_possible_truncation)]
fn integer(text: &str) -> i128 {
    text.trim().parse().unwrap_or_else(|_| number(text) as i128)
}

/// Returns the texts of numbers.
fn texts(tensor: &Tensor) -> Vec<String> {
    match tensor.to_i128() {
        Some(values) => values.iter().map(ToString::to_string).collect(),
        None => tensor.to_f64().into_iter().map(|value| shown(tensor.ty().dtype, value)).collect(),
    }
}

fn cast_narrow() -> OpDef {
    let int = |name, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(1)), doc);
    let text =
        |name, default: &str, doc| AttrDef::new(name, AttrKind::Str, Some(Attr::Str(default.into())), doc);
    OpDef {
        name: "cast-narrow",
        doc: "the same values as floats of 4 or 8 bits, by rules that are given",
        arity: Arity::Exactly(1),
        attrs: vec![
            to(),
            int("saturate", "1: numbers out of range become the largest of their sign, else infinite or NaN"),
            text("round", "up", "how numbers are rounded to powers of two: up, down or nearest"),
        ],
        flags: UNARY,
        infer: |attrs, types| {
            let to = attrs.expect_dtype("to");
            if !to.is_narrow_float() || types[0].dtype.is_complex() || types[0].dtype == DType::Text {
                return Err(OpError::operand(0, types[0], format!(", which is not narrowed to {to}")));
            }
            rounding(attrs)?;
            Ok(TensorType { dtype: to, ..types[0].clone() })
        },
        eval: |attrs, operands, ty| {
            let saturate = attrs.expect_int("saturate") != 0;
            let overflow = if saturate { Overflow::Saturate } else { Overflow::Infinite };
            let rounding = rounding(attrs).expect("infer accepted");
            let values = operands[0].to_f64();
            relayout(Tensor::narrowed(ty.dtype, ty.shape.clone(), &values, overflow, rounding), ty)
        },
        flops: |_, _, output| count(output),
        sample: Some(draw_narrow),
        lowered: None,
    }
}

fn rounding(attrs: &Attrs) -> Result<Rounding, OpError> {
    match attrs.expect_str("round") {
        "up" => Ok(Rounding::Up),
        "down" => Ok(Rounding::Down),
        "nearest" => Ok(Rounding::Nearest),
        other => Err(OpError::attribute("round", format!("is `{other}`, not `up`, `down` or `nearest`"))),
    }
}

fn bitcast() -> OpDef {
    OpDef {
        name: "bitcast",
        doc: "the same bits read as another element type of the same width",
        arity: Arity::Exactly(1),
        attrs: vec![to()],
        flags: UNARY,
        infer: |attrs, types| {
            let to = attrs.expect_dtype("to");
            if to.bits() != types[0].dtype.bits() || (to == DType::Text) != (types[0].dtype == DType::Text) {
                return Err(OpError::operand(
                    0,
                    types[0],
                    format!(", whose elements are not as wide as {to}"),
                ));
            }
            Ok(TensorType { dtype: to, ..types[0].clone() })
        },
        eval: |_, operands, ty| operands[0].reinterpreted(ty.dtype),
        flops: |_, _, _| 0.0,
        sample: Some(draw_bitcast),
        lowered: None,
    }
}

/// Draws a number that becomes a narrow float.
fn draw_narrow(draw: &mut dyn Draw) -> Option<Sample> {
    let narrow = [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0];
    let (rank, to) = (draw.below(4), draw.pick(&narrow));
    let shape = draw.shape(rank);
    let attrs = Attrs::new().with("to", Attr::DType(to)).size("saturate", draw.below(2));
    let attrs = match to {
        DType::F8E8M0 => attrs.text("round", draw.pick(&["up", "down", "nearest"])),
        _ => attrs,
    };
    Some(Sample::new(attrs, vec![TensorType::plain(DType::F32, shape)]))
}

/// Draws the bits of one type read as another one.
fn draw_bitcast(draw: &mut dyn Draw) -> Option<Sample> {
    let (from, to) = draw.pick(&[
        (DType::F32, DType::I32),
        (DType::I32, DType::U32),
        (DType::F64, DType::I64),
        (DType::F16, DType::U16),
        (DType::U8, DType::I8),
    ]);
    let rank = draw.below(4);
    let shape = draw.shape(rank);
    Some(Sample::new(Attrs::new().with("to", Attr::DType(to)), vec![TensorType::plain(from, shape)]))
}
