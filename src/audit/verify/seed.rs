//! The examples of a rule that fire, as instances: the matcher and the e-graph's own right side,
//! where generated instances have the verifier's.

use super::member::{TOLERANCE, distance, evaluate};
use crate::egraph::{EGraph, Probe};
use crate::graph::{Graph, text};
use crate::rule::{Example, Rule};
use crate::tensor::Tensor;
use crate::verify;

/// Evaluates every example that fires, before and after, on some seeded inputs; how many there are.
/// Examples that do not fire are for `rules test` to tell.
///
/// # Errors
/// What differs, and the graphs.
pub(super) fn check(rule: &Rule, seed: u64) -> Result<usize, (String, String)> {
    let mut count = 0;
    for example in rule.examples.iter().filter(|example| matches!(example, Example::Fires { .. })) {
        let Some(before) = text::parse(&example.graph()).ok().and_then(|graph| verify::verify(graph).ok())
        else {
            continue;
        };
        let before = before.into_inner();
        let Probe::Fires(after) = EGraph::new(&before).probe(rule) else { continue };
        count += 1;
        for round in 0..4 {
            let [left, right] = [&before, &after].map(|graph| evaluate(graph, &inputs(graph, seed ^ round)));
            let error =
                left.iter().zip(&right).map(|(left, right)| distance(right, left)).fold(0.0, f64::max);
            if error > TOLERANCE {
                let what = format!("an example becomes what is not equal to it: relative error {error:.1e}");
                return Err((what, format!("// before\n{before}// after\n{after}")));
            }
        }
    }
    Ok(count)
}

/// Values for the inputs, by their names: the graphs may have them in different orders.
fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let named = |name: &str| name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
    graph.inputs().map(|(_, node)| text::random(&node.ty, named(&node.name))).collect()
}
