//! Elementwise ops of two operands, with NumPy's broadcasting.

use super::broadcast::{Broadcast, FLAGS, from_i64, relayout};
use super::elementwise::{infer_comparison, infer_logical, infer_number};
use super::{Arity, AttrDef, Flags, OpDef, count};
use crate::attr::{Attr, AttrKind};
use crate::tensor::{Layout, Tensor, TensorType};

#[derive(Clone, Copy)]
struct Binary {
    float: fn(f64, f64) -> f64,
    int: fn(i64, i64) -> i64,
}

fn eval_binary(kind: Binary, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let operands: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    let [a, b] = &operands[..] else { unreachable!("a binary op has two operands") };
    let (left, right) = (Broadcast::new(&a.ty().shape, &ty.shape), Broadcast::new(&b.ty().shape, &ty.shape));
    let positions = 0..ty.shape.count();
    let result = if let (Some(a), Some(b)) = (a.to_i64(), b.to_i64()) {
        let values: Vec<i64> = positions.map(|at| (kind.int)(a[left.at(at)], b[right.at(at)])).collect();
        from_i64(ty.dtype, &ty.shape, &values)
    } else {
        let (a, b) = (a.to_f64(), b.to_f64());
        let values: Vec<f64> = positions.map(|at| (kind.float)(a[left.at(at)], b[right.at(at)])).collect();
        Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
    };
    relayout(result, ty)
}

const MUL: Binary = Binary { float: |a, b| a * b, int: i64::wrapping_mul };

/// Evaluates `mul`.
pub(super) fn eval_mul(left: &Tensor, right: &Tensor, ty: &TensorType) -> Tensor {
    eval_binary(MUL, &[left, right], ty)
}

fn integer_power(base: i64, exponent: i64) -> i64 {
    u32::try_from(exponent).map_or(i64::from(base == 1), |exponent| base.wrapping_pow(exponent))
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
        binary!("add", "a + b", infer_number, true, |a, b| a + b, i64::wrapping_add),
        binary!("sub", "a - b", infer_number, false, |a, b| a - b, i64::wrapping_sub),
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
        binary!("min", "the smaller of a and b", infer_number, true, f64::min, |a, b| a.min(b)),
        binary!("max", "the larger of a and b", infer_number, true, f64::max, |a, b| a.max(b)),
        binary!("equal", "a = b", infer_comparison, true, |a, b| truth(a == b), |a, b| i64::from(a == b)),
        binary!("greater", "a > b", infer_comparison, false, |a, b| truth(a > b), |a, b| i64::from(a > b)),
        binary!("less", "a < b", infer_comparison, false, |a, b| truth(a < b), |a, b| i64::from(a < b)),
        binary!("greater-equal", "a >= b", infer_comparison, false, |a, b| truth(a >= b), |a, b| i64::from(
            a >= b
        )),
        binary!("less-equal", "a <= b", infer_comparison, false, |a, b| truth(a <= b), |a, b| i64::from(
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
