//! The graphs of the rules' examples as models.

use ovolo::graph::{Graph, text};
use ovolo::registry::Registry;
use ovolo::rule::Example;
use std::collections::BTreeSet;

/// The most elements of a value in an example.
const LARGEST: usize = 1 << 22;

/// Returns the graphs on which shipped rules fire, each once, with the name of the first rule that has it and the position of
/// the example there.
pub(super) fn graphs(registry: &Registry) -> Result<Vec<(String, Graph)>, String> {
    let rules = registry.rule_set().map_err(|mistakes| mistakes.to_string())?;
    let mut seen = BTreeSet::new();
    let mut graphs = Vec::new();
    for rule in rules.rules() {
        for (at, example) in rule.examples.iter().enumerate() {
            let written = example.graph();
            if !matches!(example, Example::Fires { .. }) || !seen.insert(written.clone()) {
                continue;
            }
            if let Ok(graph) = text::parse_small(registry.ops(), &written, LARGEST) {
                graphs.push((format!("{} #{}", rule.name, at + 1), graph));
            }
        }
    }
    Ok(graphs)
}
