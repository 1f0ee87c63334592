//! What kernels decide for themselves, and where the book says so.

use super::{backend_of, common, fired};
use libtest_mimic::Failed;
use ovolo::backend::Call;
use ovolo::rule::RuleSet;
use ovolo::tensor::TensorType;
use std::collections::BTreeSet;

/// The prefix of the ops whose kernels are listed one by one.
const PREFIX: &str = "native.";

/// Checks that the table of `docs/DECISIONS.md` names exactly those native ops whose kernels say, for some example of a
/// rule, what they decide for themselves. `explain` prints the same.
pub fn are_listed(rules: &RuleSet) -> Result<(), Failed> {
    let book = std::fs::read_to_string(common::root().join("docs/DECISIONS.md"))?;
    let rows = book.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let names = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed: BTreeSet<&str> = names.filter(|name| name.starts_with(PREFIX)).collect();
    let mut deciding = BTreeSet::new();
    for (_, graph) in rules.rules().iter().flat_map(|rule| fired(rule).collect::<Vec<_>>()) {
        for (_, node) in graph.nodes().filter(|(_, node)| backend_of(node.op).is_some()) {
            let types: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
            let call = Call { op: node.op, attrs: &node.attrs, inputs: &types, output: &node.ty, threads: 2 };
            if node.op.name.starts_with(PREFIX) && !call.choices().is_empty() {
                deciding.insert(node.op.name);
            }
        }
    }
    let missing: Vec<_> = deciding.difference(&listed).collect();
    let silent: Vec<_> = listed.difference(&deciding).collect();
    if missing.is_empty() && silent.is_empty() {
        return Ok(());
    }
    Err(format!(
        "docs/DECISIONS.md does not name {missing:?}, whose kernels decide something; it names {silent:?}, whose \
         kernels decide nothing in any example of a rule"
    )
    .into())
}
