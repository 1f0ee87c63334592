//! Shipped rules that are made wrong in one small place.

use super::make;
use super::{Tally, common, compared, network};
use ovolo::rule::{Rule, Template};
use ovolo_proof::compare::Part;
use std::collections::BTreeSet;

/// The most faults of one rule and of one network, so that no rule dominates the count.
const OF_RULE: usize = 2;
const OF_NETWORK: usize = 8;
/// The most mutants of one rule that are tried on a network.
const TRIED: usize = 6;

/// Makes each rule that a network's plan uses wrong, and counts those that make it depart.
pub fn faults(tally: &mut Tally) {
    let slow = std::env::var_os("OVOLO_SLOW_TESTS").is_some();
    let shipped = common::rules();
    for (name, graph) in network::all(common::ops()) {
        let mut options = common::options(1);
        let saturated = options.saturate(&graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        let planned = options.plan(&saturated).unwrap_or_else(|error| panic!("{name}: {error}"));
        let used: BTreeSet<String> = planned.chosen.rules().into_iter().map(str::to_owned).collect();
        let mut of_network = 0;
        for rule in shipped.rules().iter().filter(|rule| used.contains(&rule.name)) {
            let mut of_rule = 0;
            let readable = make::mutants(rule).into_iter().filter(|mutant| is_readable(&mutant.rule));
            for mutant in readable.take(if slow { usize::MAX } else { TRIED }) {
                if !slow && (of_rule == OF_RULE || of_network == OF_NETWORK) {
                    break;
                }
                options.rules = shipped.with(mutant.rule.clone());
                // Some mutants equate values of different types, or leave a value without a kernel.
                let Ok(comparison) = compared(&graph, &mut options) else { continue };
                if comparison.departs() {
                    let what = format!("{name}, {}", mutant.name);
                    tally.count(&what, &Part::Rule(rule.name.clone()), &comparison);
                    of_rule += 1;
                    of_network += 1;
                }
            }
        }
    }
}

/// Returns whether a rule file can say a mutant: an attribute that must be written is never absent.
fn is_readable(rule: &Rule) -> bool {
    fn whole(template: &Template) -> bool {
        let Template::Op { op, children, attrs, rest_attrs } = template else { return true };
        let has = |name: &str| attrs.iter().any(|(known, _)| *known == name);
        let written = op.attrs.iter().all(|attr| attr.default.is_some() || has(attr.name));
        (written || rest_attrs.is_some()) && children.iter().all(whole)
    }
    rule.to.iter().all(whole)
}
