//! Compares models of several regions: each region on the values that ovolo itself gave it.

use super::{CompareError, Comparison, Settings, compare_plan};
use ovolo::compile::Options;
use ovolo::dynamic::RegionRequest;
use ovolo::graph::Graph;
use ovolo::onnx::{Dynamic, Item, LiveFrom, Region, Then};
use ovolo::plan::Plan;
use ovolo::stage::Saturated;
use ovolo::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The comparison of one region.
#[derive(Clone, Debug)]
pub struct RegionComparison {
    /// The number of the region in the run, from 0 on.
    pub number: usize,
    /// Why the model is cut after it; `None` at its end.
    pub why: Option<String>,
    /// What was found; `None` if the region computes nothing.
    pub comparison: Option<Comparison>,
}

/// The regions that were compiled, by their digests.
type Compiled = FxHashMap<String, (Saturated, Graph, Plan)>;

/// Runs a model region by region, and compares each region. Its inputs are the values that ovolo's own plans computed
/// before it, so an error of one region is not judged again in the next. Calls `passed` after each region; it returns
/// whether to go on.
///
/// # Errors
/// If a region cannot be imported or compiled, or its plan does not run.
pub fn regions(
    model: &Dynamic,
    options: &mut Options,
    inputs: &BTreeMap<String, Item<Tensor>>,
    given: &BTreeMap<String, Tensor>,
    settings: &dyn Fn(&Graph, &Options) -> Settings,
    passed: &mut dyn FnMut(RegionComparison) -> bool,
) -> Result<(), CompareError> {
    let (mut position, mut live) = model.start(inputs)?;
    let mut compiled = Compiled::default();
    for number in 0.. {
        let registry = std::sync::Arc::clone(&options.registry);
        let Region { graph, inputs, live: after, then, .. } =
            model.region(registry.onnx(), &position, &live)?;
        let mut outputs = Vec::new();
        let mut comparison = None;
        if graph.outputs().len() > 0 {
            let key = RegionRequest::digest_of(&graph, model).to_string();
            if !compiled.contains_key(&key) {
                let saturated = options.saturate(&graph)?;
                let planned = options.plan(&saturated)?;
                compiled.insert(key.clone(), (saturated, planned.chosen.program, planned.plan));
            }
            let (saturated, program, plan) = &compiled[&key];
            let operands: Vec<Tensor> = inputs.iter().map(|slot| live[*slot].clone()).collect();
            let own = settings(&graph, options);
            // A region that is equal to an earlier one has the plan of that one, whose values have other names.
            let nothing = BTreeMap::new();
            let named = names(&graph).eq(names(saturated.graph()));
            let given = if named { given } else { &nothing };
            let (found, results) = compare_plan(saturated, program, plan, options, &operands, given, own)?;
            outputs = results;
            comparison = Some(found);
        }
        live = after
            .iter()
            .map(|from| match from {
                LiveFrom::Output(output) => outputs[*output].clone(),
                LiveFrom::Before(slot) => live[*slot].clone(),
                LiveFrom::Constant(tensor) => tensor.clone(),
            })
            .collect();
        let (next, why) = match then {
            Then::Cut { position, why } => (Some(position), Some(why)),
            Then::Finished(_) => (None, None),
        };
        let go_on = passed(RegionComparison { number, why, comparison });
        match next.filter(|_| go_on) {
            Some(next) => position = next,
            None => break,
        }
    }
    Ok(())
}

/// Returns the names of a graph's values.
fn names(graph: &Graph) -> impl Iterator<Item = &str> {
    graph.nodes().map(|(_, node)| &*node.name)
}
