//! Verifies the examples of a rule that fire. They use the matcher and the e-graph's own way to build the
//! right side, whereas generated instances use the verifier's.

use super::member::{distance, evaluate, operations, tolerance};
use crate::example::{LARGEST, mistakes};
use ovolo::egraph::{EGraph, Probe};
use ovolo::graph::{Graph, Node, text};
use ovolo::op::Ops;
use ovolo::rule::{Example, Rule};
use ovolo::tensor::Tensor;
use ovolo::verify;

/// Evaluates every example that fires, before and after, on some seeded inputs, and returns their number.
/// Examples that do not fire as they should are reported by `rules test`.
///
/// # Errors
/// The difference, and the text of both graphs.
pub(super) fn check(rule: &Rule, ops: &Ops, seed: u64) -> Result<usize, (String, String)> {
    let mut count = 0;
    for example in rule.examples.iter().filter(|example| matches!(example, Example::Fires { .. })) {
        let read = text::parse_small(ops, &example.graph(), LARGEST).map_err(|found| mistakes(&found));
        let read = read.and_then(|graph| verify::verify(graph).map_err(|why| why.to_string()));
        let before = match read {
            Ok(graph) => graph.into_inner(),
            Err(why) => return Err((format!("an example cannot be parsed: {why}"), example.graph())),
        };
        let Probe::Fires(after) = EGraph::new(&before).probe(rule) else { continue };
        if let Some(why) = [&before, &after].into_iter().find_map(too_large) {
            return Err((format!("an example is too large to be evaluated: {why}"), example.graph()));
        }
        count += 1;
        for round in 0..4 {
            let [left, right] = [&before, &after].map(|graph| evaluate(graph, &inputs(graph, seed ^ round)));
            let error =
                left.iter().zip(&right).map(|(left, right)| distance(right, left)).fold(0.0, f64::max);
            if error > tolerance(rule.precision) {
                let what = format!("an example changes its values: relative error {error:.1e}");
                return Err((what, format!("// before\n{before}// after\n{after}")));
            }
        }
    }
    Ok(count)
}

/// The most operations of a graph that is evaluated; the reference does about 1e9 a second.
const OPERATIONS: f64 = 2e9;

/// Returns why a graph is too large to evaluate.
fn too_large(graph: &Graph) -> Option<String> {
    let large = |node: &Node| {
        ovolo::tensor::size_error(&node.ty).is_some() || node.ty.layout.padded_count(&node.ty.shape) > LARGEST
    };
    if let Some((_, node)) = graph.nodes().find(|(_, node)| large(node)) {
        return Some(format!("`{}` is of type {}, of more than {LARGEST} elements", node.name, node.ty));
    }
    let operations = operations(graph);
    (operations > OPERATIONS)
        .then(|| format!("it has {operations:.1e} operations, more than {OPERATIONS:.0e}"))
}

/// Values for the inputs, seeded by name, because the two graphs may have them in different orders.
fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let named = |name: &str| name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
    graph.inputs().map(|(_, node)| text::random(&node.ty, named(&node.name))).collect()
}
