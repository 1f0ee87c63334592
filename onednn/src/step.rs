//! Conversion of post chains to oneDNN's attributes.

use super::desc;
use super::work::ArgPlace;
use onednn_sys::{Algorithm, Arg, Attr, Library};
use ovolo::attr::Step;
use ovolo::op::{OpError, post};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// Returns the library's function for a unary step, with its parameters.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn function(step: &Step) -> Result<(Algorithm, f32, f32), OpError> {
    let parameter = |at: usize| step.parameters.get(at).map_or(0.0, |value| value.0 as f32);
    Ok(match step.op.name() {
        "relu" => (Algorithm::RELU, 0.0, 0.0),
        "leaky-relu" => (Algorithm::RELU, parameter(0), 0.0),
        "sigmoid" => (Algorithm::LOGISTIC, 0.0, 0.0),
        "tanh" => (Algorithm::TANH, 0.0, 0.0),
        "exp" => (Algorithm::EXP, 0.0, 0.0),
        "log" => (Algorithm::LOG, 0.0, 0.0),
        "sqrt" => (Algorithm::SQRT, 0.0, 0.0),
        "neg" => (Algorithm::LINEAR, -1.0, 0.0),
        "abs" => (Algorithm::ABS, 0.0, 0.0),
        "reciprocal" => (Algorithm::POW, 1.0, -1.0),
        "round" => (Algorithm::ROUND, 0.0, 0.0),
        "silu" => (Algorithm::SWISH, 1.0, 0.0),
        // The library's `gelu_erf` has errors above 1e-4 on some processors.
        "gelu-tanh" => (Algorithm::GELU_TANH, 0.0, 0.0),
        "hard-swish" => (Algorithm::HARD_SWISH, 1.0 / 6.0, 0.5),
        "hard-sigmoid" => (Algorithm::HARD_SIGMOID, parameter(0), parameter(1)),
        "mish" => (Algorithm::MISH, 0.0, 0.0),
        "elu" => (Algorithm::ELU, parameter(0), 0.0),
        "clip" => (Algorithm::CLIP, parameter(0), parameter(1)),
        other => return Err(OpError::kernel(format!("oneDNN does not support step `{other}`"))),
    })
}

/// Returns the library's function for a binary step, and whether the value of the chain must be negated before it.
pub(super) fn binary(step: &Step) -> Result<(Algorithm, bool), OpError> {
    Ok(match step.op.name() {
        "add" => (Algorithm::BINARY_ADD, false),
        "sub" => (Algorithm::BINARY_SUB, false),
        "rsub" => (Algorithm::BINARY_ADD, true),
        "mul" => (Algorithm::BINARY_MUL, false),
        "div" => (Algorithm::BINARY_DIV, false),
        "min" => (Algorithm::BINARY_MIN, false),
        "max" => (Algorithm::BINARY_MAX, false),
        other => return Err(OpError::kernel(format!("oneDNN does not support step `{other}`"))),
    })
}

/// The part of a result: a range of indices for each dimension.
pub(super) type Ranges = Vec<Range<usize>>;

/// Returns the ranges of a whole value.
pub(super) fn whole(ty: &TensorType) -> Ranges {
    ty.shape.iter().map(|size| 0..*size).collect()
}

/// Returns the bytes from the start of a value to the first element of the ranges.
pub(super) fn offset(ty: &TensorType, ranges: &[Range<usize>]) -> usize {
    let index: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    ty.layout.offset(&ty.shape, &index) * ty.dtype.size()
}

/// A post chain on a part of a result.
pub(super) struct Chain<'a> {
    /// The steps of the chain.
    pub steps: &'a [Step],
    /// The types of the call's operands.
    pub inputs: &'a [&'a TensorType],
    /// The number of the operand of the first binary step.
    pub first: usize,
    /// The binary step, counted from 1, that adds the previous content of the result's buffer; 0 for none.
    pub sum: usize,
}

impl Chain<'_> {
    /// Returns the operand whose buffer must be the result's buffer.
    pub(super) fn alias(&self) -> Option<usize> {
        self.sum.checked_sub(1).map(|extra| self.first + extra)
    }

    /// Creates the attributes for a part of a result, and appends the arguments and places of the binary steps.
    pub(super) fn attr(
        &self,
        library: &'static Library,
        ranges: &[Range<usize>],
        args: &mut Vec<Arg>,
        places: &mut Vec<ArgPlace>,
    ) -> Result<Attr, OpError> {
        let mut attr = Attr::new(library).map_err(OpError::backend)?;
        let mut operand = self.first;
        let mut index = 0;
        for step in self.steps {
            if !post::is_binary(step) {
                let (algorithm, alpha, beta) = function(step)?;
                attr.eltwise(algorithm, alpha, beta).map_err(OpError::backend)?;
                index += 1;
                continue;
            }
            if self.alias() == Some(operand) {
                attr.sum(desc::data_type(self.inputs[operand].dtype)?).map_err(OpError::backend)?;
            } else {
                let (algorithm, negated) = binary(step)?;
                if negated {
                    attr.eltwise(Algorithm::LINEAR, -1.0, 0.0).map_err(OpError::backend)?;
                    index += 1;
                }
                let ty = self.inputs[operand];
                let (shape, at) = view(ty, ranges)?;
                let layout =
                    if ty.shape.rank() == ranges.len() { ty.layout.clone() } else { Default::default() };
                let desc = desc::shaped(library, &shape, &layout, desc::data_type(ty.dtype)?)?;
                attr.binary(algorithm, &desc).map_err(OpError::backend)?;
                args.push(Arg::step(index));
                places.push(ArgPlace::Input(operand, at));
            }
            operand += 1;
            index += 1;
        }
        Ok(attr)
    }
}

/// Returns the part of an operand that a part of the result uses: its shape with the rank of the result, and the
/// bytes to its first element.
pub(super) fn view(ty: &TensorType, ranges: &[Range<usize>]) -> Result<(Vec<usize>, usize), OpError> {
    let missing = ranges
        .len()
        .checked_sub(ty.shape.rank())
        .ok_or_else(|| OpError::kernel("an operand of a step has more dimensions than the result"))?;
    let own: Ranges = ty
        .shape
        .iter()
        .zip(&ranges[missing..])
        .map(|(size, range)| if *size == 1 { 0..1 } else { range.clone() })
        .collect();
    let mut shape = vec![1; missing];
    shape.extend(own.iter().map(ExactSizeIterator::len));
    if !dense(ty, &own) {
        return Err(OpError::kernel(format!(
            "the operand {ty} cannot be divided between threads like the result"
        )));
    }
    Ok((shape, offset(ty, &own)))
}

/// Returns whether a part of a value is contiguous, as a value of that shape would be.
pub(super) fn dense(ty: &TensorType, ranges: &[Range<usize>]) -> bool {
    let order = ty.layout.order(ty.shape.rank());
    // That holds if all dimensions inside the innermost divided one are whole, and those outside it have one index.
    match order.iter().rposition(|dim| ranges[*dim].len() != ty.shape[*dim]) {
        None => true,
        Some(cut) => order[..cut].iter().all(|dim| ranges[*dim].len() == 1),
    }
}
