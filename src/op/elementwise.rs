//! Elementwise ops: unary, binary with NumPy's broadcasting, `where`, `cast`, and chains (`map`).

use super::post;
use super::{Arity, AttrDef, Flags, Op, OpDef, OpError, count};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorType};
use std::sync::LazyLock;

/// Walks an operand along a result that it broadcasts to.
pub(crate) struct Broadcast {
    shape: Shape,
    steps: Vec<usize>,
    same: bool,
}

impl Broadcast {
    pub(crate) fn new(operand: &Shape, result: &Shape) -> Self {
        let skip = result.rank() - operand.rank();
        let strides = operand.strides();
        let steps = (0..result.rank())
            .map(|axis| if axis < skip || operand[axis - skip] == 1 { 0 } else { strides[axis - skip] })
            .collect();
        Self { shape: result.clone(), steps, same: operand == result }
    }

    /// What one step along each axis of the result adds to the operand's position.
    pub(crate) fn steps(&self) -> Vec<isize> {
        self.steps.iter().map(|step| step.cast_signed()).collect()
    }

    /// The operand's position for a row-major position of the result.
    pub(crate) fn at(&self, position: usize) -> usize {
        if self.same {
            return position;
        }
        let (mut rest, mut at) = (position, 0);
        for axis in (0..self.shape.rank()).rev() {
            at += rest % self.shape[axis] * self.steps[axis];
            rest /= self.shape[axis];
        }
        at
    }
}

const FLAGS: Flags = Flags {
    elementwise: true,
    layout_agnostic: true,
    commutative: false,
    injective: false,
    transfer: None,
    inexact: false,
};

/// A function of one number, which is an op and a step of post chains.
pub(super) struct Unary {
    /// Its name.
    pub name: &'static str,
    doc: &'static str,
    /// Its parameters, in order.
    pub parameters: &'static [Parameter],
    eval: Eval,
}

/// A parameter of a function: an attribute of its op.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its value where none is written.
    pub default: f64,
    doc: &'static str,
}

const fn parameter(name: &'static str, default: f64, doc: &'static str) -> Parameter {
    Parameter { name, default, doc }
}

type Eval = fn(&Attrs, &[&Tensor], &TensorType) -> Tensor;

macro_rules! unary {
    ($($name:literal, $doc:literal, [$($parameter:expr),*];)*) => {
        /// Every function of one number. [`OpDef::eval`] is a plain function, so each has one that knows its name.
        pub(super) const UNARY: &[Unary] = &[$(Unary {
            name: $name,
            doc: $doc,
            parameters: &[$($parameter),*],
            eval: |attrs, operands, ty| eval_unary($name, attrs, operands[0], ty),
        }),*];
    };
}
unary!(
    "relu", "max(x, 0)", [];
    "sigmoid", "1 / (1 + exp(-x))", [];
    "tanh", "hyperbolic tangent", [];
    "erf", "error function", [];
    "exp", "e to the power x", [];
    "log", "natural logarithm", [];
    "sqrt", "square root", [];
    "neg", "-x", [];
    "abs", "absolute value", [];
    "reciprocal", "1 / x", [];
    "floor", "largest integer not above x", [];
    "ceil", "smallest integer not below x", [];
    "round", "nearest integer, halves to even", [];
    "sign", "-1, 0 or 1", [];
    "softplus", "log(1 + exp(x))", [];
    "softsign", "x / (1 + |x|)", [];
    "sin", "sine", [];
    "cos", "cosine", [];
    "silu", "x * sigmoid(x)", [];
    "gelu", "x * P(X <= x), X standard normal", [];
    "gelu-tanh", "gelu by its tanh approximation", [];
    "hard-swish", "x * max(0, min(1, x / 6 + 1 / 2))", [];
    "mish", "x * tanh(softplus(x))", [];
    "leaky-relu", "x, or alpha * x where x is negative", [parameter("alpha", 0.01, "slope below zero")];
    "elu", "x, or alpha * (exp(x) - 1) where x is negative", [parameter("alpha", 1.0, "depth below zero")];
    "hard-sigmoid", "max(0, min(1, alpha * x + beta))", [parameter("alpha", 0.2, "slope"), parameter("beta", 0.5, "value at zero")];
    "clip", "min(max(x, min), max)", [parameter("min", f64::NEG_INFINITY, "lower bound"), parameter("max", f64::INFINITY, "upper bound")];
);

/// The parameters of a function of one number; `None` where no function has the name.
pub(crate) fn parameters(name: &str) -> Option<&'static [Parameter]> {
    UNARY.iter().find(|unary| unary.name == name).map(|unary| unary.parameters)
}

impl Unary {
    fn op(&self) -> OpDef {
        let attrs = self.parameters.iter().map(|one| {
            AttrDef::new(one.name, AttrKind::Float, Some(Attr::Float(Float(one.default))), one.doc)
        });
        OpDef {
            name: self.name,
            doc: self.doc,
            arity: Arity::Exactly(1),
            attrs: attrs.collect(),
            flags: FLAGS,
            infer: |_, types| match types[0].dtype {
                DType::Bool => Err(OpError::operand(0, types[0], ", not a number")),
                _ => Ok(types[0].clone()),
            },
            eval: self.eval,
            flops: |_, _, output| count(output),
            lowered: None,
        }
    }
}

/// Keeps the padding of a blocked operand out: evaluates in the default layout and packs again.
pub(super) fn relayout(result: Tensor, ty: &TensorType) -> Tensor {
    result.to_layout(&ty.layout)
}

fn eval_unary(name: &str, attrs: &Attrs, operand: &Tensor, ty: &TensorType) -> Tensor {
    let declared = parameters(name).unwrap_or_default();
    let parameters: Vec<f64> = declared.iter().map(|one| attrs.expect_float(one.name)).collect();
    let plain = operand.to_layout(&Layout::PLAIN);
    let result = match plain.to_i64() {
        // Integers beyond 2^53 would not survive `f64`.
        Some(values) if matches!(name, "neg" | "abs" | "relu" | "sign") => {
            let result: Vec<i64> = values
                .iter()
                .map(|&v| match name {
                    "neg" => v.wrapping_neg(),
                    "abs" => v.wrapping_abs(),
                    "sign" => v.signum(),
                    _ => v.max(0),
                })
                .collect();
            from_i64(ty.dtype, &ty.shape, &result)
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        Some(values) if matches!(name, "clip" | "floor" | "ceil" | "round") => {
            // Only what the op changes goes through `f64`.
            let apply = |v: i64| {
                let changed = post::unary(name, &parameters, v as f64).unwrap_or(f64::NAN);
                if changed == v as f64 { v } else { changed as i64 }
            };
            from_i64(ty.dtype, &ty.shape, &values.into_iter().map(apply).collect::<Vec<_>>())
        }
        _ => {
            let apply = |v: f64| post::unary(name, &parameters, v).unwrap_or(f64::NAN);
            let values: Vec<f64> = plain.to_f64().into_iter().map(apply).collect();
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        }
    };
    relayout(result, ty)
}

/// An integer or boolean tensor from `i64` values; wraps as the hardware does.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn from_i64(dtype: DType, shape: &Shape, values: &[i64]) -> Tensor {
    let shape = shape.clone();
    match dtype {
        DType::I64 => Tensor::from_elements(shape, values),
        DType::I32 => Tensor::from_elements(shape, &values.iter().map(|&v| v as i32).collect::<Vec<_>>()),
        DType::I8 => Tensor::from_elements(shape, &values.iter().map(|&v| v as i8).collect::<Vec<_>>()),
        DType::U8 => Tensor::from_elements(shape, &values.iter().map(|&v| v as u8).collect::<Vec<_>>()),
        DType::Bool => Tensor::from_bools(shape, &values.iter().map(|&v| v != 0).collect::<Vec<_>>()),
        #[allow(clippy::cast_precision_loss)]
        _ => Tensor::from_f64(dtype, shape, &values.iter().map(|&v| v as f64).collect::<Vec<_>>()),
    }
}

/// The type of a broadcasting op's result, but for the element type.
fn broadcast(types: &[&TensorType]) -> Result<TensorType, OpError> {
    let mut result: Option<TensorType> = None;
    for (operand, ty) in types.iter().enumerate() {
        let Some(so_far) = &result else {
            result = Some((*ty).clone());
            continue;
        };
        let shape = so_far.shape.broadcast(&ty.shape).ok_or_else(|| {
            OpError::operand(operand, ty, format!(", which does not broadcast with {}", so_far.shape))
        })?;
        let scalar = |ty: &TensorType| ty.layout.is_plain() && ty.shape.count() == 1;
        let layout = match (&so_far.layout, &ty.layout) {
            (a, b) if a == b => a.clone(),
            (a, _) if scalar(ty) => a.clone(),
            (_, b) if scalar(so_far) => b.clone(),
            (a, b) => {
                return Err(OpError::operands(format!("operand {operand} has layout {b}, another has {a}")));
            }
        };
        if !layout.is_plain() {
            let lanes = |ty: &TensorType| {
                scalar(ty)
                    || ty.shape.rank() == shape.rank()
                        && (0..shape.rank()).all(|d| layout.block(d) == 1 || ty.shape[d] == shape[d])
            };
            if !lanes(ty) || !lanes(so_far) {
                return Err(OpError::operand(
                    operand,
                    ty,
                    format!(", which would broadcast over the padding of {layout}"),
                ));
            }
        }
        result = Some(TensorType { shape, layout, ..so_far.clone() });
    }
    result.ok_or_else(|| OpError::operands("there is no operand"))
}

fn same_dtype(types: &[&TensorType]) -> Result<(), OpError> {
    match types.iter().position(|ty| ty.dtype != types[0].dtype) {
        None => Ok(()),
        Some(operand) => {
            Err(OpError::operand(operand, types[operand], format!(", operand 0 is {}", types[0])))
        }
    }
}

fn infer_number(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    same_dtype(types)?;
    if types[0].dtype == DType::Bool {
        return Err(OpError::operands("the operands are bool, not numbers"));
    }
    broadcast(types)
}

fn infer_comparison(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    same_dtype(types)?;
    Ok(TensorType { dtype: DType::Bool, ..broadcast(types)? })
}

fn infer_logical(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types.iter().position(|ty| ty.dtype != DType::Bool) {
        None => broadcast(types),
        Some(operand) => Err(OpError::operand(operand, types[operand], ", not bool")),
    }
}

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

/// The evaluation of `mul`.
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

/// The op of a constant of one `f32` element without dimensions, by which right sides of rules write numbers.
pub fn scalar() -> Op {
    static SCALAR: LazyLock<Op> = LazyLock::new(|| {
        Op::define(OpDef {
            name: "scalar",
            doc: "a constant of one f32 element and no dimensions",
            arity: Arity::Exactly(0),
            attrs: vec![AttrDef::new("value", AttrKind::Float, None, "the value")],
            flags: Flags::default(),
            infer: |_, _| Ok(TensorType::plain(DType::F32, [0_usize; 0])),
            eval: |attrs, _, ty| {
                Tensor::from_f64(DType::F32, ty.shape.clone(), &[attrs.expect_float("value")])
            },
            flops: |_, _, _| 0.0,
            lowered: None,
        })
    });
    *SCALAR
}

pub(super) fn ops() -> Vec<OpDef> {
    let mut ops: Vec<OpDef> = UNARY.iter().map(Unary::op).collect();
    ops.extend([
        binary!("add", "a + b", infer_number, true, |a, b| a + b, i64::wrapping_add),
        binary!("sub", "a - b", infer_number, false, |a, b| a - b, i64::wrapping_sub),
        binary!("mul", "a * b", infer_number, true, MUL.float, MUL.int),
        binary!(
            "div",
            "a / b; integers truncate, and by zero give 0",
            infer_number,
            false,
            |a, b| a / b,
            |a, b| a.checked_div(b).unwrap_or(0)
        ),
        binary!("pow", "a to the power b", infer_number, false, f64::powf, integer_power),
        binary!("min", "the smaller", infer_number, true, f64::min, |a, b| a.min(b)),
        binary!("max", "the larger", infer_number, true, f64::max, |a, b| a.max(b)),
        binary!("equal", "a = b", infer_comparison, true, |a, b| truth(a == b), |a, b| i64::from(a == b)),
        binary!("greater", "a > b", infer_comparison, false, |a, b| truth(a > b), |a, b| i64::from(a > b)),
        binary!("less", "a < b", infer_comparison, false, |a, b| truth(a < b), |a, b| i64::from(a < b)),
        binary!("greater-equal", "a >= b", infer_comparison, false, |a, b| truth(a >= b), |a, b| i64::from(
            a >= b
        )),
        binary!("less-equal", "a <= b", infer_comparison, false, |a, b| truth(a <= b), |a, b| i64::from(
            a <= b
        )),
        binary!("and", "both", infer_logical, true, |a, b| a * b, |a, b| a & b),
        binary!("or", "either", infer_logical, true, f64::max, |a, b| a | b),
        binary!("xor", "one and not the other", infer_logical, true, |a, b| truth(a != b), |a, b| a ^ b),
    ]);
    ops.push(OpDef {
        name: "mod",
        doc: "remainder of a / b, with the sign of b, or of a where fmod is 1",
        arity: Arity::Exactly(2),
        attrs: vec![AttrDef::new(
            "fmod",
            AttrKind::Int,
            Some(Attr::Int(0)),
            "1: the sign of the dividend, as in C",
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
    });
    ops.push(OpDef {
        name: "not",
        doc: "the other truth value",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: FLAGS,
        infer: infer_logical,
        eval: |_, operands, ty| {
            let values: Vec<i64> = operands[0].to_i64().unwrap_or_default().iter().map(|v| 1 - v).collect();
            relayout(from_i64(DType::Bool, &ty.shape, &values), ty)
        },
        flops: |_, _, output| count(output),
        lowered: None,
    });
    ops.push(OpDef {
        name: "isnan",
        doc: "whether x is not a number",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: FLAGS,
        infer: |_, types| Ok(TensorType { dtype: DType::Bool, ..types[0].clone() }),
        eval: |_, operands, ty| {
            let values: Vec<bool> = operands[0].to_f64().iter().map(|v| v.is_nan()).collect();
            relayout(Tensor::from_bools(ty.shape.clone(), &values), ty)
        },
        flops: |_, _, output| count(output),
        lowered: None,
    });
    ops.push(OpDef {
        name: "where",
        doc: "a where the condition holds, else b",
        arity: Arity::Exactly(3),
        attrs: Vec::new(),
        flags: Flags { elementwise: false, ..FLAGS },
        infer: |_, types| {
            if types[0].dtype != DType::Bool {
                return Err(OpError::operand(0, types[0], ", not bool"));
            }
            same_dtype(&types[1..])?;
            Ok(TensorType { dtype: types[1].dtype, ..broadcast(types)? })
        },
        eval: |_, operands, ty| {
            let plain: Vec<Tensor> =
                operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
            let size = ty.dtype.size();
            let index: Vec<Broadcast> =
                plain.iter().map(|t| Broadcast::new(&t.ty().shape, &ty.shape)).collect();
            let mut result = Tensor::zeros(TensorType::plain(ty.dtype, ty.shape.clone()));
            for (at, target) in result.bytes_mut().chunks_exact_mut(size).enumerate() {
                let chosen = if plain[0].bytes()[index[0].at(at)] != 0 { 1 } else { 2 };
                let from = index[chosen].at(at) * size;
                target.copy_from_slice(&plain[chosen].bytes()[from..from + size]);
            }
            relayout(result, ty)
        },
        flops: |_, _, output| count(output),
        lowered: None,
    });
    ops.push(OpDef {
        name: "cast",
        doc: "the same values in another element type",
        arity: Arity::Exactly(1),
        attrs: vec![AttrDef::new("to", AttrKind::DType, None, "the element type")],
        flags: Flags { elementwise: false, ..FLAGS },
        infer: |attrs, types| Ok(TensorType { dtype: attrs.expect_dtype("to"), ..types[0].clone() }),
        eval: |_, operands, ty| {
            let result = match operands[0].to_i64() {
                Some(values) => from_i64(ty.dtype, &ty.shape, &values),
                None => Tensor::from_f64(ty.dtype, ty.shape.clone(), &operands[0].to_f64()),
            };
            relayout(result, ty)
        },
        flops: |_, _, output| count(output),
        lowered: None,
    });
    ops.push(OpDef {
        name: "map",
        doc: "a chain of elementwise steps",
        arity: Arity::Post(1),
        attrs: vec![AttrDef::post()],
        flags: Flags { elementwise: false, ..FLAGS },
        infer: |attrs, types| {
            if !matches!(types[0].dtype, DType::F32 | DType::F16 | DType::BF16) {
                return Err(OpError::operand(0, types[0], ", none of f32, f16 and bf16"));
            }
            post::check(attrs.post(), &types[1..], types[0])?;
            Ok(types[0].clone())
        },
        eval: |attrs, operands, ty| {
            relayout(post::apply(attrs.post(), &operands[1..], operands[0].to_layout(&Layout::PLAIN)), ty)
        },
        #[allow(clippy::cast_precision_loss)]
        flops: |attrs, _, output| count(output) * attrs.post().len() as f64,
        lowered: None,
    });
    ops
}
