//! Decisions that kernels make inside a step, without the e-graph.

use super::{Plan, Step};
use crate::op::{Call, KernelChoice, REFERENCE, WIDENED};
use crate::tensor::TensorType;
use std::collections::BTreeSet;

/// The steps whose backend has no code for their types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfit<'a> {
    /// The number of steps that their op's reference evaluation runs, and their ops. It allocates memory and uses one
    /// thread.
    pub reference: (usize, BTreeSet<&'a str>),
    /// The number of steps that convert their operands and results to another element type inside, and their ops.
    pub converting: (usize, BTreeSet<&'a str>),
}

impl Step {
    /// Returns the decisions that the kernel makes itself in a plan for this number of threads. The list is empty if
    /// the backend is absent.
    pub fn choices(&self, threads: usize) -> Vec<KernelChoice> {
        let inputs: Vec<&TensorType> = self.input_types.iter().collect();
        Call { op: self.op, attrs: &self.attrs, inputs: &inputs, output: &self.output_type, threads }
            .choices()
    }
}

impl Plan {
    /// Returns the steps that run although no kernel has code for their types; `None` if there is no such step.
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
