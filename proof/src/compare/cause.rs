//! Why a value departs.

use super::audit::{Values, WrongRule};
use super::distance::{Distance, TIMES, noise, plain, rounding};
use super::local::Local;
use super::truth::Truth;
use super::{Area, Subject};
use ovolo::tensor::Tensor;
use std::collections::BTreeSet;

/// Why a value departs.
#[derive(Clone, Debug)]
pub enum Cause {
    /// A kernel does not compute what its op says, on the operands that it read.
    Kernel {
        /// The position of the step in the plan.
        step: usize,
        /// The op.
        op: String,
        /// The implementation.
        implementation: String,
    },
    /// The two sides of a rule differ on the values of this run.
    Rule(Box<WrongRule>),
    /// The op that the import made of an operator does not compute what the other runtime computes, on the operands
    /// that the other runtime gave.
    Import {
        /// The value in the model.
        value: String,
        /// The op.
        op: String,
        /// How far the reference evaluation is from the other runtime.
        distance: Distance,
    },
    /// Every step is right within rounding, and every rule holds: small errors have added up or grown.
    Rounding {
        /// The step whose own error is the largest, with that error.
        largest: Option<(usize, f64)>,
    },
}

impl Cause {
    /// Returns the name of the rule or kernel at fault.
    pub fn blamed(&self) -> Option<&str> {
        match self {
            Self::Kernel { op, .. } => Some(op),
            Self::Rule(wrong) => Some(&wrong.rule.name),
            Self::Import { .. } | Self::Rounding { .. } => None,
        }
    }
}

/// The share of the tolerance that a single kernel or rule may take before it counts as wrong.
const SHARE: f64 = 0.25;

/// Finds out why a value departs.
pub(super) fn find(
    subject: &Subject<'_>,
    area: &Area,
    locals: &[Local],
    values: &mut Values<'_, '_>,
    truth: &mut Truth<'_>,
    tolerance: f64,
) -> Cause {
    let limit = SHARE * tolerance;
    let kernel = |local: &Local| {
        let step = &subject.plan.steps[local.step];
        let implementation = step.implementation.clone();
        Cause::Kernel { step: local.step, op: step.op.to_string(), implementation }
    };
    let wrong =
        locals.iter().find(|local| local.is_wrong() && (!local.padded || local.distance.relative > limit));
    if let Some(local) = wrong {
        return kernel(local);
    }
    if let Some(cause) = import(subject, area, truth, limit) {
        return cause;
    }
    let numbers: Vec<usize> = area.nodes.iter().filter_map(|id| subject.derivation.made(*id)).collect();
    if let Some(wrong) = values.audit(&numbers, limit, truth) {
        return Cause::Rule(Box::new(wrong));
    }
    if let Some(local) = locals.iter().find(|local| local.is_wrong()) {
        return kernel(local);
    }
    let largest = locals.iter().max_by(|a, b| a.distance.relative.total_cmp(&b.distance.relative));
    Cause::Rounding { largest: largest.map(|local| (local.step, local.distance.relative)) }
}

/// Finds the first node of the model, among those that steps came from, whose reference evaluation differs from what
/// another runtime gave.
fn import(subject: &Subject<'_>, area: &Area, truth: &mut Truth<'_>, limit: f64) -> Option<Cause> {
    let graph = truth.graph();
    let sources = area.steps.iter().flat_map(|step| &subject.plan.steps[*step].source.imported);
    let positions: BTreeSet<usize> =
        sources.filter_map(|imported| graph.find(&imported.name)).map(|id| id.index()).collect();
    for position in positions.into_iter().filter(|position| truth.is_given(*position)).collect::<Vec<_>>() {
        let (_, node) = graph.nodes().nth(position)?;
        let operands: Vec<Tensor> =
            node.inputs.iter().map(|input| truth.value(input.index()).clone()).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let own = node.op.evaluate(&node.attrs, &operands, &node.ty);
        let distance = Distance::between(&own, truth.value(position));
        if distance.relative <= limit.max(rounding(node.ty.dtype)) {
            continue;
        }
        let explained = TIMES * noise(node.op, &node.attrs, &operands, &node.ty, &plain(&own));
        if distance.relative > explained {
            return Some(Cause::Import { value: node.name.to_string(), op: node.op.to_string(), distance });
        }
    }
    None
}
