//! Runs a plan and compares every value that it computes with what the value should be.

use super::audit::Values;
use super::distance::{Distance, plain};
use super::truth::Truth;
use super::{CompareError, Subject};
use ovolo::egraph::Derivation;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use rustc_hash::FxHashMap;

/// What a run of a plan showed.
pub(super) struct Watched {
    /// The steps whose value is one of the model's, in any layout, in the order of execution.
    pub steps: Vec<Standing>,
    /// The distance of each output of the model, in order.
    pub outputs: Vec<Distance>,
}

/// A step that computes a value of the model.
pub(super) struct Standing {
    /// The step's position in the plan.
    pub step: usize,
    /// The value's position in the imported graph.
    pub position: usize,
    /// How far it is from what it should be.
    pub distance: Distance,
}

/// Returns the position of the value of the imported graph that a node of the program stands for.
pub(super) fn stands_for(
    derivation: &Derivation<'_>,
    values: &Values<'_, '_>,
    node: ovolo::graph::NodeId,
) -> Option<usize> {
    let number = derivation.made(node)?;
    let plain = || derivation.plain(number).and_then(|number| values.position(number));
    values.position(derivation.oldest(number)).or_else(plain)
}

/// Runs a plan on inputs.
pub(super) fn watch(
    subject: &Subject<'_>,
    session: &mut Session,
    inputs: &[&Tensor],
    values: &Values<'_, '_>,
    truth: &mut Truth<'_>,
) -> Result<Watched, CompareError> {
    let mut standing: FxHashMap<usize, usize> = FxHashMap::default();
    for (at, step) in subject.plan.steps.iter().enumerate() {
        if let Some(position) = stands_for(subject.derivation, values, step.node) {
            standing.insert(at, position);
        }
    }
    let mut steps = Vec::new();
    let outputs: Vec<Tensor> = session
        .observe(inputs, &|step| standing.contains_key(&step), &mut |seen| {
            let position = standing[&seen.step];
            let distance = Distance::between(&seen.result, truth.value(position));
            steps.push(Standing { step: seen.step, position, distance });
        })?
        .to_vec();
    let graph = truth.graph();
    let ends: Vec<usize> = graph.outputs().map(|(_, id)| id.index()).collect();
    let outputs = outputs.iter().zip(ends);
    let outputs = outputs.map(|(output, at)| Distance::between(output, &plain(truth.value(at)))).collect();
    Ok(Watched { steps, outputs })
}
