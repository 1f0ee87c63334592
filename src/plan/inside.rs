//! What kernels do inside of a step that the e-graph did not choose.

use super::{Plan, Step};
use crate::op::{Call, Choice, REFERENCE, WIDENED};
use crate::tensor::TensorType;
use std::collections::BTreeSet;

/// Steps whose backend has no code for their types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfit<'a> {
    /// How many are run by their op's reference evaluation, which allocates and has one thread, and their ops.
    pub reference: (usize, BTreeSet<&'a str>),
    /// How many convert their operands and results to another element type inside, and their ops.
    pub converting: (usize, BTreeSet<&'a str>),
}

impl Step {
    /// What the kernel decides for itself in a plan for so many threads. Empty where its backend is absent.
    pub fn choices(&self, threads: usize) -> Vec<Choice> {
        let inputs: Vec<&TensorType> = self.input_types.iter().collect();
        Call { op: self.op, attrs: &self.attrs, inputs: &inputs, output: &self.output_type, threads }
            .choices()
    }
}

impl Plan {
    /// The steps that run although no kernel has code for their types; none where each has its own.
    pub fn unfit(&self) -> Option<Unfit<'_>> {
        let mut unfit = Unfit::default();
        for step in &self.steps {
            let (count, ops) = match step.implementation.as_str() {
                REFERENCE => &mut unfit.reference,
                name if name.starts_with(WIDENED) => &mut unfit.converting,
                _ => continue,
            };
            *count += 1;
            ops.insert(step.op.name);
        }
        (unfit != Unfit::default()).then_some(unfit)
    }
}
