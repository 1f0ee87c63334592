//! The ops of elementwise functions.

use super::bits::{draw_pair, infer_pair};
use super::broadcast::{Broadcast, FLAGS, relayout};
use super::elementwise::{infer_comparison, infer_equal, infer_logical, infer_number};
use super::independence::broadcast;
use super::{Arity, AttrDef, DemandOf, Elements, Flags, Infer, OpDef, OpError, count};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::scalar::{self, Binary, Domain, Formula, Function};
use crate::tensor::{DType, Layout, Tensor, TensorType, Text};

pub(super) fn ops() -> Vec<OpDef> {
    scalar::built_in().iter().chain(scalar::built_in_of_two()).map(|function| op(*function)).collect()
}

/// Returns the op of a function. It takes operands in any layout, except for ops on bits.
pub(crate) fn op(function: Function) -> OpDef {
    #[allow(clippy::cast_possible_truncation)]
    let attr = |one: &scalar::Parameter| {
        let (kind, default) = match one.whole {
            true => (AttrKind::Int, Attr::Int(one.default as i64)),
            false => (AttrKind::Float, Attr::Float(Float(one.default))),
        };
        AttrDef::new(one.name, kind, Some(default), one.doc)
    };
    let bits = function.domain() == Domain::Bits;
    let demands: Option<DemandOf> = function.formula().divides().then_some(divisor);
    let flags = if bits { Flags::independent(broadcast) } else { FLAGS };
    OpDef {
        name: function.name(),
        doc: function.doc(),
        arity: Arity::Exactly(function.operands()),
        attrs: function.parameters().iter().map(attr).collect(),
        flags: Flags { commutative: function.commutative(), function: Some(function), demands, ..flags },
        infer: match function.operands() {
            1 => infer_one,
            _ => infer_two(function.domain()),
        },
        eval: |_, _, _| unreachable!("a function is evaluated by its formula"),
        flops: |_, _, output| count(output),
        sample: bits.then_some(draw_pair),
        lowered: None,
    }
}

/// Integers are not divided by zero.
fn divisor(_: &Attrs, types: &[&TensorType]) -> Option<(usize, Elements)> {
    types[1].dtype.is_integer().then_some((1, Elements::Divisor))
}

fn infer_one(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types[0].dtype.is_number() {
        true => Ok(types[0].clone()),
        false => Err(OpError::operand(0, types[0], ", not a number")),
    }
}

fn infer_two(domain: Domain) -> Infer {
    match domain {
        Domain::Numbers => infer_number,
        Domain::Comparison => infer_comparison,
        Domain::Equality => infer_equal,
        Domain::Logic => infer_logical,
        Domain::Bits => infer_pair,
    }
}

/// Evaluates a function for reference. Integers are computed as integers if the formula allows it, since `f64`
/// cannot represent all integers beyond 2^53.
pub(super) fn eval(function: Function, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let parameters = attrs.parameters(function);
    let plain: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    relayout(value(function, &parameters, &plain, ty), ty)
}

/// Evaluates `mul`.
pub(super) fn eval_mul(left: &Tensor, right: &Tensor, ty: &TensorType) -> Tensor {
    let plain = [left, right].map(|operand| operand.to_layout(&Layout::PLAIN));
    relayout(primitive(Binary::Mul, &plain, ty), ty)
}

fn value(function: Function, parameters: &[f64], operands: &[Tensor], ty: &TensorType) -> Tensor {
    if let Some(kind) = function.primitive(parameters) {
        return primitive(kind, operands, ty);
    }
    let formula = function.formula();
    match operands.iter().map(Tensor::to_i128).collect::<Option<Vec<Vec<i128>>>>() {
        Some(values) => integers(formula, parameters, &spread(values, operands, ty), ty),
        None => {
            let values: Vec<Vec<f64>> = operands.iter().map(Tensor::to_f64).collect();
            let index = places(operands, ty);
            // Weights have millions of elements, so no list is made for each of them.
            let mut given = Vec::with_capacity(operands.len());
            let element = |at: usize| {
                given.clear();
                given.extend(values.iter().zip(&index).map(|(values, index)| values[index.at(at)]));
                formula.evaluate(parameters, &given)
            };
            let values: Vec<f64> = (0..ty.shape.count()).map(element).collect();
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        }
    }
}

/// Returns where each operand has the elements for those of the result.
fn places(operands: &[Tensor], ty: &TensorType) -> Vec<Broadcast> {
    operands.iter().map(|operand| Broadcast::new(&operand.ty().shape, &ty.shape)).collect()
}

/// Returns the operands of each element of the result.
fn spread<T: Copy>(values: Vec<Vec<T>>, operands: &[Tensor], ty: &TensorType) -> Vec<Vec<T>> {
    let index = places(operands, ty);
    let element = |at: usize| values.iter().zip(&index).map(|(values, index)| values[index.at(at)]).collect();
    (0..ty.shape.count()).map(element).collect()
}

/// Evaluates a primitive of two operands for their element type.
fn primitive(kind: Binary, operands: &[Tensor], ty: &TensorType) -> Tensor {
    let [a, b] = operands else { unreachable!("a primitive has two operands") };
    let (left, right) = (Broadcast::new(&a.ty().shape, &ty.shape), Broadcast::new(&b.ty().shape, &ty.shape));
    let positions = 0..ty.shape.count();
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        let value = |at: usize| kind.evaluate_integer(a[left.at(at)], b[right.at(at)]);
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &positions.map(value).collect::<Vec<i128>>());
    }
    let (a, b) = (a.to_f64(), b.to_f64());
    let value = |at: usize| kind.evaluate(a[left.at(at)], b[right.at(at)]);
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &positions.map(value).collect::<Vec<f64>>())
}

/// Returns elements that are integers, and for strings integers that are equal if the strings are.
fn whole(tensor: &Tensor) -> Option<Vec<i128>> {
    match tensor.ty().dtype {
        DType::Text => {
            let handles = bytemuck::cast_slice::<Text, u64>(tensor.elements());
            Some(handles.iter().copied().map(i128::from).collect())
        }
        _ => tensor.to_i128(),
    }
}

/// Evaluates a formula for the operands of each element, which are integers.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn integers(formula: &Formula, parameters: &[f64], elements: &[Vec<i128>], ty: &TensorType) -> Tensor {
    let exact = elements.iter().map(|operands| formula.evaluate_integer(operands));
    if let Some(values) = exact.collect::<Option<Vec<i128>>>() {
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &values);
    }
    let value = |operands: &[i128]| {
        let operands: Vec<f64> = operands.iter().map(|one| *one as f64).collect();
        formula.evaluate(parameters, &operands)
    };
    if formula.chooses() {
        // Integers that the function does not change stay exact, even if `f64` cannot represent them.
        let (least, most) = ty.dtype.integer_range().unwrap_or((i128::MIN, i128::MAX));
        let kept = |operands: &Vec<i128>| {
            let (x, value) = (operands[0], value(operands));
            if value == x as f64 { x } else { (value as i128).clamp(least, most) }
        };
        let values: Vec<i128> = elements.iter().map(kept).collect();
        return Tensor::from_i128(ty.dtype, ty.shape.clone(), &values);
    }
    let values: Vec<f64> = elements.iter().map(|operands| value(operands)).collect();
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
}
