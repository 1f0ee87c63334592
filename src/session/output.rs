//! How outputs reach the caller.
//!
//! An output that has a buffer of the arena to itself is written where the caller reads it: all steps that use this buffer
//! are given the memory of the output instead. So is the next value of an input: before the first step the output's memory
//! has the bytes of the input, which steps find there. The others are copied after the last step: outputs that are inputs or
//! constants, parts of a larger buffer, and values that are returned twice.

use crate::plan::{Base, Place, Placed, Plan};
use crate::team::Team;
use crate::tensor::{Device, TensorType};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Copies of at least this many bytes are divided between the threads. A thread alone is limited by the misses that it
/// can have at one time.
const SHARED: usize = 1 << 20;

/// An output that steps write where the caller reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Direct {
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

/// Returns the outputs of a plan that are written directly. The plan is sound: at each step, every place lies in
/// exactly one buffer.
pub(super) fn direct(plan: &Plan) -> Vec<Direct> {
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
pub(super) fn next_values(plan: &Plan) -> Vec<(usize, usize)> {
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

/// Copies bytes, by all threads if there are many.
///
/// # Safety
/// `length` bytes can be read at `source` and written at `target`, and the two are apart.
pub(super) unsafe fn copy(team: &Team, source: *const u8, target: *mut u8, length: usize) {
    let part = if length < SHARED { length.max(1) } else { length.div_ceil(team.threads()) };
    let ends = Ends { source, target };
    team.run(length.div_ceil(part), |at| {
        let start = at * part;
        // SAFETY: the caller's promise, and the tasks copy different parts of it.
        unsafe { ends.copy(start, part.min(length - start)) };
    });
}

/// Where bytes come from and where they go.
struct Ends {
    source: *const u8,
    target: *mut u8,
}

// SAFETY: threads only use them for parts that are apart.
unsafe impl Sync for Ends {}

impl Ends {
    /// # Safety
    /// The bytes lie within what can be read and written, and no other thread writes them.
    unsafe fn copy(&self, start: usize, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.source.add(start), self.target.add(start), length) }
    }
}
