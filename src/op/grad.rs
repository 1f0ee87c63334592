//! Gradients of elementwise ops, for one operand at a time.

use super::broadcast::Broadcast;
use super::post::parameters;
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, plain};
use crate::attr::{Attr, AttrKind, Attrs, Step};
use crate::scalar::Function;
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "grad",
        doc: "the gradient of an elementwise op with respect to one of its operands, computed from the op's operands and the gradient of its result, and summed over the axes along which that operand was broadcast",
        arity: Arity::Between(2, 3),
        attrs: vec![
            AttrDef::new("of", AttrKind::Post, None, "the elementwise op, written as a chain of one step"),
            AttrDef::new("operand", AttrKind::Int, Some(Attr::Int(0)), "the index of the operand"),
        ],
        flags: Flags::default(),
        infer,
        eval,
        flops: |_, types, _| 4.0 * count(types[types.len() - 1]),
        sample: None,
        lowered: None,
    }]
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let [step] = attrs.steps("of") else { return Err(OpError::attribute("of", "is not one step")) };
    let operands = types.len() - 1;
    if function(step).is_none_or(|function| function.operands() != operands) {
        return Err(OpError::operands(format!("`{}` of {operands} operand(s) has no gradient", step.op)));
    }
    let parameters = parameters(step.op).len();
    if step.parameters.len() != parameters {
        return Err(OpError::operands(format!("`{}` takes {parameters} parameter(s)", step.op)));
    }
    let operand = usize::try_from(attrs.expect_int("operand")).ok().filter(|operand| *operand < operands);
    let operand = operand.ok_or_else(|| OpError::operands(format!("`{}` has no such operand", step.op)))?;
    if let Some(ty) = types.iter().find(|ty| ty.dtype != types[0].dtype || !ty.dtype.is_float()) {
        return Err(OpError::operands(format!("an operand is {ty}: all must be of one floating-point type")));
    }
    let mut shape = types[0].shape.clone();
    if operands == 2 {
        shape = shape
            .broadcast(&types[1].shape)
            .ok_or_else(|| OpError::operands("the operands do not broadcast"))?;
    }
    if types[operands].shape != shape {
        return Err(OpError::operands(format!(
            "the gradient is {}, and the op's result has the shape {shape}",
            types[operands]
        )));
    }
    Ok(types[operand].clone())
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [step] = attrs.steps("of") else { unreachable!("infer accepted one step") };
    let parameters: Vec<f64> = step.parameters.iter().map(|p| p.0).collect();
    let function = function(step).expect("infer accepted a function");
    let which = usize::try_from(attrs.expect_int("operand")).unwrap_or(0);
    let (inputs, above) = operands.split_at(operands.len() - 1);
    let shape = &above[0].ty().shape;
    let values: Vec<Vec<f64>> = inputs.iter().map(|input| input.to_f64()).collect();
    let index: Vec<Broadcast> = inputs.iter().map(|input| Broadcast::new(&input.ty().shape, shape)).collect();
    let mut result = vec![0.0; ty.shape.count()];
    for (at, dy) in above[0].to_f64().iter().enumerate() {
        let x: Vec<f64> = values.iter().zip(&index).map(|(values, index)| values[index.at(at)]).collect();
        result[index[which].at(at)] += function.slope(&parameters, which, &x) * dy;
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the function of an op that has a gradient, with its operands in their own order.
fn function(step: &Step) -> Option<Function> {
    step.op
        .function()
        .or_else(|| step.op.binary().filter(|(_, reversed)| !reversed).map(|(function, _)| function))
}
