//! Elementwise ops of two operands, with NumPy's broadcasting.

use super::broadcast::{Broadcast, FLAGS, relayout};
use super::elementwise::{infer_comparison, infer_equal, infer_logical, infer_number};
use super::{Arity, AttrDef, Flags, OpDef, count};
use crate::attr::{Attr, AttrKind};
use crate::scalar::{larger, smaller};
use crate::tensor::{DType, Layout, Tensor, TensorType, Text};

#[derive(Clone, Copy)]
struct Binary {
    float: fn(f64, f64) -> f64,
    /// The same for integers. The result is cut to the width of its type, so that it wraps.
    int: fn(i128, i128) -> i128,
}

fn eval_binary(kind: Binary, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let operands: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    let [a, b] = &operands[..] else { unreachable!("a binary op has two operands") };
    let (left, right) = (Broadcast::new(&a.ty().shape, &ty.shape), Broadcast::new(&b.ty().shape, &ty.shape));
    let positions = 0..ty.shape.count();
    let result = if let (Some(a), Some(b)) = (integers(a), integers(b)) {
        let values: Vec<i128> = positions.map(|at| (kind.int)(a[left.at(at)], b[right.at(at)])).collect();
        Tensor::from_i128(ty.dtype, ty.shape.clone(), &values)
    } else {
        let (a, b) = (a.to_f64(), b.to_f64());
        let values: Vec<f64> = positions.map(|at| (kind.float)(a[left.at(at)], b[right.at(at)])).collect();
        Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
    };
    relayout(result, ty)
}

/// Returns elements that are integers, and for strings integers that are equal if the strings are.
fn integers(tensor: &Tensor) -> Option<Vec<i128>> {
    match tensor.ty().dtype {
        DType::Text => {
            let handles = bytemuck::cast_slice::<Text, u64>(tensor.elements());
            Some(handles.iter().copied().map(i128::from).collect())
        }
        _ => tensor.to_i128(),
    }
}

const MUL: Binary = Binary { float: |a, b| a * b, int: i128::wrapping_mul };

/// Evaluates `mul`.
pub(super) fn eval_mul(left: &Tensor, right: &Tensor, ty: &TensorType) -> Tensor {
    eval_binary(MUL, &[left, right], ty)
}

/// A negative power is rounded towards zero, as a division is; that of zero is zero.
fn integer_power(base: i128, exponent: i128) -> i128 {
    match (u64::try_from(exponent), base) {
        (Ok(exponent), _) => wrapping_power(base, exponent),
        (Err(_), 1) => 1,
        (Err(_), -1) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (Err(_), _) => 0,
    }
}

fn wrapping_power(mut base: i128, mut exponent: u64) -> i128 {
    let mut power = 1_i128;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent /= 2;
    }
    power
}

macro_rules! binary {
    ($name:literal, $doc:literal, $infer:expr, $commutative:literal, $float:expr, $int:expr) => {
        OpDef {
            name: $name,
            doc: $doc,
            arity: Arity::Exactly(2),
            attrs: Vec::new(),
            flags: Flags { commutative: $commutative, ..FLAGS },
            infer: $infer,
            eval: |_, operands, ty| eval_binary(Binary { float: $float, int: $int }, operands, ty),
            flops: |_, _, output| count(output),
            lowered: None,
        }
    };
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        binary!("add", "a + b", infer_number, true, |a, b| a + b, i128::wrapping_add),
        binary!("sub", "a - b", infer_number, false, |a, b| a - b, i128::wrapping_sub),
        binary!("mul", "a * b", infer_number, true, MUL.float, MUL.int),
        binary!(
            "div",
            "a / b; for integers, truncated towards zero, and 0 where b is 0",
            infer_number,
            false,
            |a, b| a / b,
            |a, b| a.checked_div(b).unwrap_or(0)
        ),
        binary!("pow", "a to the power b", infer_number, false, f64::powf, integer_power),
        binary!("min", "the smaller of a and b; NaN if either is", infer_number, true, smaller, |a, b| a
            .min(b)),
        binary!("max", "the larger of a and b; NaN if either is", infer_number, true, larger, |a, b| a
            .max(b)),
        binary!("equal", "a = b", infer_equal, true, |a, b| truth(a == b), |a, b| i128::from(a == b)),
        binary!("greater", "a > b", infer_comparison, false, |a, b| truth(a > b), |a, b| i128::from(a > b)),
        binary!("less", "a < b", infer_comparison, false, |a, b| truth(a < b), |a, b| i128::from(a < b)),
        binary!("greater-equal", "a >= b", infer_comparison, false, |a, b| truth(a >= b), |a, b| i128::from(
            a >= b
        )),
        binary!("less-equal", "a <= b", infer_comparison, false, |a, b| truth(a <= b), |a, b| i128::from(
            a <= b
        )),
        binary!("and", "whether both are true", infer_logical, true, |a, b| a * b, |a, b| a & b),
        binary!("or", "whether at least one is true", infer_logical, true, f64::max, |a, b| a | b),
        binary!("xor", "whether exactly one is true", infer_logical, true, |a, b| truth(a != b), |a, b| a
            ^ b),
        modulo(),
    ]
}

fn modulo() -> OpDef {
    OpDef {
        name: "mod",
        doc: "remainder of a / b, with the sign of b, or with the sign of a if fmod is 1",
        arity: Arity::Exactly(2),
        attrs: vec![AttrDef::new(
            "fmod",
            AttrKind::Int,
            Some(Attr::Int(0)),
            "1: the result has the sign of the dividend, as in C",
        )],
        flags: FLAGS,
        infer: infer_number,
        eval: |attrs, operands, ty| {
            let kind = if attrs.expect_int("fmod") == 1 {
                Binary { float: |a, b| a % b, int: |a, b| a.checked_rem(b).unwrap_or(0) }
            } else {
                Binary {
                    float: |a, b| a - b * (a / b).floor(),
                    int: |a, b| {
                        a.checked_rem(b).map_or(0, |r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                    },
                }
            };
            eval_binary(kind, operands, ty)
        },
        flops: |_, _, output| count(output),
        lowered: None,
    }
}
