//! Gradients of functions of one and two numbers, written in the ops of their formulas' derivatives.

use super::builder::Builder;
use super::error::TrainError;
use ovolo::attr::{Attr, Attrs};
use ovolo::graph::NodeId;
use ovolo::scalar::{Instruction, Operand, Program, Unary};

/// Adds the value of an op `grad` with these attributes and operands: the slope of its function, times the gradient of
/// the result, summed over the axes along which the operand was repeated.
///
/// # Errors
/// The op has no function, or a primitive of its derivative has no op.
pub(crate) fn expand(
    builder: &mut Builder<'_>,
    name: &str,
    attrs: &Attrs,
    inputs: &[NodeId],
) -> Result<NodeId, TrainError> {
    let refused = |why: &str| TrainError::Op { what: name.to_owned(), op: "grad", why: why.to_owned() };
    let [step] = attrs.steps("of") else { return Err(refused("`of` is not one step")) };
    let binary = || step.op.binary().filter(|(_, reversed)| !reversed).map(|(function, _)| function);
    let function = step.op.function().or_else(binary).ok_or_else(|| refused("the step is no function"))?;
    let which = usize::try_from(attrs.expect_int("operand")).unwrap_or(0);
    let parameters: Vec<f64> = step.parameters.iter().map(|parameter| parameter.0).collect();
    let program = Program::new(function.derivative(which), &parameters);
    let (operands, above) = inputs.split_at(inputs.len() - 1);
    let mut results: Vec<NodeId> = Vec::with_capacity(program.instructions.len());
    for instruction in &program.instructions {
        let values: Vec<NodeId> = instruction
            .operands()
            .iter()
            .map(|operand| value(builder, *operand, operands, &results))
            .collect();
        results.push(primitive(builder, name, instruction, values)?);
    }
    let slope = value(builder, program.result, operands, &results);
    let product = match program.result {
        Operand::Number(1.0) => above[0],
        _ => builder.named(name, "mul", Attrs::new(), vec![above[0], slope])?,
    };
    let (small, large) =
        (builder.graph()[operands[which]].ty.shape.clone(), &builder.graph()[product].ty.shape);
    let missing = large.rank() - small.rank();
    let spread = |axis: &usize| *axis < missing || small[axis - missing] == 1 && large[*axis] != 1;
    let axes: Vec<usize> = (0..large.rank()).filter(spread).collect();
    let sum = builder.named(name, "reduce-sum", Attrs::new().sizes("axes", &axes), vec![product])?;
    builder.named(name, "reshape", Attrs::new().sizes("shape", &small), vec![sum])
}

fn value(builder: &mut Builder<'_>, operand: Operand, operands: &[NodeId], results: &[NodeId]) -> NodeId {
    match operand {
        Operand::X => operands[0],
        Operand::Y => operands[1],
        Operand::Number(number) => builder.number(number),
        Operand::Result(at) => results[at],
    }
}

/// Adds the value of one primitive. Those without an op of their own are written in two.
fn primitive(
    builder: &mut Builder<'_>,
    name: &str,
    instruction: &Instruction,
    mut values: Vec<NodeId>,
) -> Result<NodeId, TrainError> {
    let plain = Attrs::new;
    match instruction {
        Instruction::Unary(Unary::Expm1, _) => {
            let power = builder.named(name, "exp", plain(), values)?;
            let one = builder.number(1.0);
            builder.named(name, "sub", plain(), vec![power, one])
        }
        Instruction::Unary(Unary::Log1p, _) => {
            values.push(builder.number(1.0));
            let more = builder.named(name, "add", plain(), values)?;
            builder.named(name, "log", plain(), vec![more])
        }
        Instruction::Unary(kind, _) => {
            let op = if *kind == Unary::Neg { "neg" } else { kind.name() };
            builder.named(name, op, plain(), values)
        }
        Instruction::Binary(kind, _) => {
            let (op, attrs) = match kind.name() {
                "modulo" => ("mod", plain()),
                "remainder" => ("mod", plain().with("fmod", Attr::Int(1))),
                other => (other, plain()),
            };
            builder.named(name, op, attrs, values)
        }
        Instruction::If(compare, _) => {
            let otherwise = values.split_off(2);
            let condition = builder.named(name, compare.name(), plain(), values)?;
            let operands = [condition].into_iter().chain(otherwise).collect();
            builder.named(name, "where", plain(), operands)
        }
    }
}
