//! The ops of functions of one number.

use super::broadcast::{FLAGS, relayout};
use super::{Arity, AttrDef, Flags, OpDef, OpError, count};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::scalar::{self, Formula, Function};
use crate::tensor::{Layout, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    scalar::built_in().iter().map(|function| op(*function)).collect()
}

/// Returns the op of a function. It takes numbers of any type in any layout.
pub(super) fn op(function: Function) -> OpDef {
    let attrs = function
        .parameters()
        .iter()
        .map(|one| AttrDef::new(one.name, AttrKind::Float, Some(Attr::Float(Float(one.default))), one.doc));
    OpDef {
        name: function.name(),
        doc: function.doc(),
        arity: Arity::Exactly(1),
        attrs: attrs.collect(),
        flags: Flags { function: Some(function), ..FLAGS },
        infer: |_, types| match types[0].dtype.is_number() {
            true => Ok(types[0].clone()),
            false => Err(OpError::operand(0, types[0], ", not a number")),
        },
        eval: |_, _, _| unreachable!("a function is evaluated by its formula"),
        flops: |_, _, output| count(output),
        lowered: None,
    }
}

/// Evaluates a function for reference. Integers are computed as integers if the formula allows it, since `f64`
/// cannot represent all integers beyond 2^53.
pub(super) fn eval(function: Function, attrs: &Attrs, operand: &Tensor, ty: &TensorType) -> Tensor {
    let parameters: Vec<f64> = function.parameters().iter().map(|one| attrs.expect_float(one.name)).collect();
    let plain = operand.to_layout(&Layout::PLAIN);
    let result = match plain.to_i128() {
        Some(values) => integers(function.formula(), &parameters, &values, ty),
        None => {
            let value = |x: f64| function.evaluate(&parameters, x);
            Tensor::from_f64(
                ty.dtype,
                ty.shape.clone(),
                &plain.to_f64().into_iter().map(value).collect::<Vec<_>>(),
            )
        }
    };
    relayout(result, ty)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn integers(formula: &Formula, parameters: &[f64], values: &[i128], ty: &TensorType) -> Tensor {
    if let Some(values) = values.iter().map(|x| formula.evaluate_integer(*x)).collect::<Option<Vec<i128>>>() {
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &values);
    }
    let value = |x: i128| formula.evaluate(parameters, x as f64);
    if formula.chooses() {
        // Integers that the function does not change stay exact, even if `f64` cannot represent them.
        let (least, most) = ty.dtype.integer_range().unwrap_or((i128::MIN, i128::MAX));
        let kept = |x: i128| if value(x) == x as f64 { x } else { (value(x) as i128).clamp(least, most) };
        let values: Vec<i128> = values.iter().map(|x| kept(*x)).collect();
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &values);
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &values.iter().map(|x| value(*x)).collect::<Vec<_>>())
}
