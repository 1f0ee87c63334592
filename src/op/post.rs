//! Post chains: elementwise steps on a result, and the scalar functions they are made of.

use super::elementwise::{self, Parameter, UNARY};
use super::{OpError, tree};
use crate::attr::{Float, Step};
use crate::tensor::{Layout, Tensor, TensorType};

/// The elementwise function of this name on one value, with its float attributes in the order of
/// the op's declaration; `None` where there is none.
#[must_use]
pub fn unary(op: &str, p: &[f64], x: f64) -> Option<f64> {
    let at = |index: usize| p.get(index).copied().unwrap_or(f64::NAN);
    Some(match op {
        "relu" => x.max(0.0),
        "sigmoid" => sigmoid(x),
        "tanh" => x.tanh(),
        "erf" => erf(x),
        "exp" => x.exp(),
        "log" => x.ln(),
        "sqrt" => x.sqrt(),
        "neg" => -x,
        "abs" => x.abs(),
        "reciprocal" => 1.0 / x,
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round_ties_even(),
        "sign" => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        "softplus" => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        "softsign" => x / (1.0 + x.abs()),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "silu" => x * sigmoid(x),
        "gelu" => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        "gelu-tanh" => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
        }
        "hard-swish" => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        "mish" => x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh(),
        "leaky-relu" => {
            if x < 0.0 {
                at(0) * x
            } else {
                x
            }
        }
        "elu" => {
            if x < 0.0 {
                at(0) * x.exp_m1()
            } else {
                x
            }
        }
        "hard-sigmoid" => (at(0) * x + at(1)).clamp(0.0, 1.0),
        "clip" => x.max(at(0)).min(at(1)),
        _ => return None,
    })
}

/// The binary step of this name: `acc` is the chain's value, `extra` the operand.
#[must_use]
pub fn binary(op: &str, acc: f64, extra: f64) -> Option<f64> {
    Some(match op {
        "add" => acc + extra,
        "sub" => acc - extra,
        "rsub" => extra - acc,
        "mul" => acc * extra,
        "div" => acc / extra,
        "rdiv" => extra / acc,
        "min" => acc.min(extra),
        "max" => acc.max(extra),
        "pow" => acc.powf(extra),
        "rpow" => extra.powf(acc),
        _ => return None,
    })
}

/// Whether a step takes an extra operand.
#[must_use]
pub fn is_binary(step: &Step) -> bool {
    binary(step.op, 1.0, 1.0).is_some()
}

/// Whether a step takes an operand: a binary one, and in a tree one that begins another value.
#[must_use]
pub fn takes_operand(step: &Step) -> bool {
    is_binary(step) || step.op == tree::PUSH
}

/// The number of extra operands of a chain or a tree.
#[must_use]
pub fn extras(steps: &[Step]) -> usize {
    steps.iter().filter(|step| takes_operand(step)).count()
}

/// The steps that take an extra operand.
const BINARY: [&str; 10] = ["add", "sub", "rsub", "mul", "div", "rdiv", "min", "max", "pow", "rpow"];

/// Every step by its canonical name.
pub fn step_names() -> Vec<&'static str> {
    let mut unary: Vec<&str> = UNARY.iter().map(|unary| unary.name).collect();
    unary.sort_unstable();
    BINARY.into_iter().chain(unary).collect()
}

/// The canonical name of a step's op, if it may be a step of a chain or a tree.
#[must_use]
pub fn step_name(name: &str) -> Option<&'static str> {
    let unary = || UNARY.iter().map(|unary| unary.name).find(|known| *known == name);
    BINARY.into_iter().find(|known| *known == name).or_else(|| tree::step_name(name)).or_else(unary)
}

/// The canonical name of a step of a post chain, and the defaults of its parameters; `None` where
/// the name is not that of a step.
pub fn step(name: &str) -> Option<(&'static str, Vec<Float>)> {
    let name = step_name(name)?;
    Some((name, parameters(name).iter().map(|parameter| Float(parameter.default)).collect()))
}

/// The parameters of a step: those of a function of one number, none of any other.
pub fn parameters(name: &str) -> &'static [Parameter] {
    elementwise::parameters(name).unwrap_or_default()
}

/// Checks a chain on a result of type `result` against the types of its extra operands.
///
/// # Errors
/// A step that is none, a wrong number of parameters, or an operand that does not broadcast.
pub fn check(steps: &[Step], extras: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    let mut rest = extras.iter();
    for step in steps {
        if is_binary(step) {
            let Some(ty) = rest.next() else {
                return Err(OpError::steps(format!("post step `{}` lacks its operand", step.op)));
            };
            check_operand(step.op, ty, result)?;
        } else {
            let declared = elementwise::parameters(step.op)
                .ok_or_else(|| OpError::steps(format!("`{}` cannot be a post step", step.op)))?;
            if declared.len() != step.parameters.len() {
                return Err(OpError::steps(format!(
                    "post step `{}` takes {} parameter(s), not {}",
                    step.op,
                    declared.len(),
                    step.parameters.len()
                )));
            }
        }
    }
    match rest.count() {
        0 => Ok(()),
        more => Err(OpError::steps(format!("{more} operand(s) more than the post chain has binary steps"))),
    }
}

pub(super) fn check_operand(step: &str, ty: &TensorType, result: &TensorType) -> Result<(), OpError> {
    if ty.dtype != result.dtype {
        return Err(OpError::steps(format!(
            "the operand of post step `{step}` is {ty}, the result {result}"
        )));
    }
    let wrong = || {
        Err(OpError::steps(format!(
            "the operand of post step `{step}` is {ty}, which does not broadcast to {result}"
        )))
    };
    if ty.shape.broadcast(&result.shape).as_ref() != Some(&result.shape) {
        return wrong();
    }
    if ty.layout == result.layout {
        let rank_ok = result.layout.is_plain() || ty.shape.rank() == result.shape.rank();
        // A blocked dimension of size 1 would broadcast over lanes that hold padding.
        let lanes =
            (0..ty.shape.rank()).all(|d| result.layout.block(d) == 1 || ty.shape[d] == result.shape[d]);
        return if rank_ok && lanes { Ok(()) } else { wrong() };
    }
    if ty.layout.is_plain() && ty.shape.count() == 1 { Ok(()) } else { wrong() }
}

/// Applies a chain to a tensor in the default layout; extras in any layout.
#[must_use]
pub fn apply(steps: &[Step], extras: &[&Tensor], value: Tensor) -> Tensor {
    if steps.is_empty() {
        return value;
    }
    let shape = value.ty().shape.clone();
    let dtype = value.ty().dtype;
    let mut values = value.to_f64();
    let mut rest = extras.iter();
    for step in steps {
        let parameters: Vec<f64> = step.parameters.iter().map(|p| p.0).collect();
        if is_binary(step) {
            let extra = rest.next().expect("a checked chain has its operands").to_layout(&Layout::PLAIN);
            let operand = extra.to_f64();
            let index = elementwise::Broadcast::new(&extra.ty().shape, &shape);
            for (position, value) in values.iter_mut().enumerate() {
                *value = binary(step.op, *value, operand[index.at(position)]).unwrap_or(f64::NAN);
            }
        } else {
            for value in &mut values {
                *value = unary(step.op, &parameters, *value).unwrap_or(f64::NAN);
            }
        }
    }
    Tensor::from_f64(dtype, shape, &values)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function: a Taylor series near zero, a continued fraction of its complement beyond
/// (Abramowitz and Stegun 7.1.6 and 7.1.14); absolute error below 1e-14.
#[must_use]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 6.0 {
        return x.signum();
    }
    if a < 2.5 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > 1e-17 * sum && n < 200.0 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        return x.signum() * sum * std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp();
    }
    let mut fraction = 0.0;
    for k in (1..=60).rev() {
        fraction = f64::from(k) / 2.0 / (a + fraction);
    }
    x.signum() * (1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt()))
}
