//! How outputs reach the caller.
//!
//! An output that has a buffer of the arena to itself is written where the caller reads it: all steps that use this buffer
//! are given the memory of the output instead. So is the next value of an input: before the first step the output's memory
//! has the bytes of the input, which steps find there. The others are copied after the last step: outputs that are inputs or
//! constants, parts of a larger buffer, and values that are returned twice.

use super::{Base, Place, Placed, Plan, schedule};
use crate::tensor::{Device, TensorType};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// An output that steps write where the caller reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// The position of the output.
    pub output: usize,
    /// The owner of the bytes in whose place its memory is used: the host's arena, or an input.
    pub base: Base,
    /// The range of these bytes.
    pub bytes: Range<usize>,
    /// The steps that use it.
    pub steps: Range<usize>,
}

impl Direct {
    /// Returns the input whose next value it is, if it is one.
    pub fn input(&self) -> Option<usize> {
        match self.base {
            Base::Input(input) => Some(input),
            Base::Arena(_) | Base::Constant(_) => None,
        }
    }

    /// Returns the offset in the output of a place that a step uses, if it is there.
    pub fn offset(&self, step: usize, place: Place) -> Option<usize> {
        let here =
            place.base == self.base && self.steps.contains(&step) && self.bytes.contains(&place.offset);
        here.then(|| place.offset - self.bytes.start)
    }
}

/// Returns the outputs of a plan that are written directly; none if it has steps of a device, whose values are copied from
/// its own arena. The plan is sound: at each step, every place lies in exactly one buffer.
pub(crate) fn direct(plan: &Plan) -> Vec<Direct> {
    if plan.steps.iter().any(|step| schedule::device(step).is_some()) {
        return Vec::new();
    }
    let alone = |output: usize| {
        let (_, ty, place) = &plan.outputs[output];
        if place.base != Base::Arena(Device::Host) {
            return None;
        }
        let holds = |buffer: &&Placed| {
            buffer.device == Device::Host
                && buffer.upper > plan.steps.len()
                && (buffer.offset..buffer.offset + buffer.size).contains(&place.offset)
        };
        let buffer = plan.buffers.iter().find(holds)?;
        let direct = Direct {
            output,
            base: place.base,
            bytes: place.offset..place.offset + ty.bytes(),
            steps: buffer.lower..buffer.upper.min(plan.steps.len()),
        };
        // Other values that lie there at other times must not be larger.
        let fits = |place: Place, ty: &TensorType| place.offset + ty.bytes() <= direct.bytes.end;
        let within = |place: Place| {
            place.base == Base::Arena(Device::Host)
                && (buffer.offset..buffer.offset + buffer.size).contains(&place.offset)
        };
        let all = plan.steps[direct.steps.clone()].iter().all(|step| {
            let operands = step.inputs.iter().copied().zip(&step.input_types);
            let mut places = operands.chain([(step.output, &step.output_type)]);
            places.all(|(place, ty)| !within(place) || fits(place, ty))
        });
        let others = plan.outputs.iter().enumerate().any(|(at, (.., place))| at != output && within(*place));
        (all && !others && place.offset == buffer.offset && !direct.bytes.is_empty()).then_some(direct)
    };
    (0..plan.outputs.len()).filter_map(|output| alone(output).or_else(|| next_value(plan, output))).collect()
}

/// Returns the outputs that are next values of inputs, with these inputs, by their positions: an output with the name and
/// the type of an input, such as a parameter in a step of training.
pub(crate) fn next_values(plan: &Plan) -> Vec<(usize, usize)> {
    let inputs = plan.inputs.iter().enumerate().map(|(at, (name, ty))| (&**name, (at, ty)));
    let inputs: FxHashMap<&str, (usize, &TensorType)> = inputs.collect();
    let of = |(output, (name, ty, _)): (usize, &(Arc<str>, TensorType, Place))| {
        let (input, wanted) = inputs.get(&**name)?;
        (*wanted == ty).then_some((output, *input))
    };
    plan.outputs.iter().enumerate().filter_map(of).collect()
}

/// Returns how an output is written that steps write in the place of an input.
fn next_value(plan: &Plan, output: usize) -> Option<Direct> {
    let (name, ty, place) = &plan.outputs[output];
    let Base::Input(input) = place.base else { return None };
    let written = plan.steps.iter().any(|step| step.output.base == place.base);
    (written && plan.inputs[input].0 == *name).then(|| Direct {
        output,
        base: place.base,
        bytes: 0..ty.bytes(),
        steps: 0..plan.steps.len(),
    })
}

impl Plan {
    /// Returns the positions of the outputs that are copied to the caller on the host after the last step.
    pub fn copied_outputs(&self) -> Vec<usize> {
        let direct: Vec<usize> = direct(self).into_iter().map(|direct| direct.output).collect();
        let copied = |at: &usize| {
            let (_, ty, place) = &self.outputs[*at];
            let here = ty.device == Device::Host || matches!(place.base, Base::Constant(_));
            here && !direct.contains(at)
        };
        (0..self.outputs.len()).filter(copied).collect()
    }
}
