//! Tests that `compare` blames the right rule or kernel: shipped rules are made wrong in one place, and kernels disturb
//! their results.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/common/mod.rs"]
mod common;
mod kernel;
#[allow(dead_code)]
#[path = "../proof/mutants/make.rs"]
mod make;
mod network;
mod rule;
mod single;

use ovolo::compile::Options;
use ovolo::graph::Graph;
use ovolo::tensor::Tensor;
use ovolo_proof::compare::{self, Comparison, Part, Settings};
use std::collections::BTreeMap;

/// Compares a graph with its reference evaluation, and leaves out the suspect if it departs.
fn compared(graph: &Graph, options: &mut Options) -> Result<Comparison, compare::CompareError> {
    let inputs: Vec<Tensor> = common::inputs(graph);
    let tolerance = Settings::tolerance(graph, options, false);
    compare::compare(graph, options, &inputs, &BTreeMap::new(), Settings { tolerance, bisect: true })
}

/// Faults that made a model depart.
#[derive(Default)]
struct Tally {
    faults: usize,
    right: usize,
    /// Of those that are blamed right, the ones whose absence was seen to mend the network. Without the others there is
    /// no plan.
    mended: usize,
    wrong: Vec<String>,
}

impl Tally {
    /// Counts a fault by what was blamed for it.
    fn count(&mut self, what: &str, fault: &Part, comparison: &Comparison) {
        self.faults += 1;
        let departure = comparison.departure.as_ref();
        let found = departure.and_then(|one| one.bisection.as_ref()).and_then(|one| one.found.as_ref());
        if found == Some(fault) {
            self.right += 1;
            let tried = departure.and_then(|one| one.bisection.as_ref()).map_or(&[][..], |one| &one.tried);
            self.mended += usize::from(tried.iter().any(|one| one.mended));
        } else {
            let cause = departure.and_then(|one| one.cause.blamed());
            let tried = departure.and_then(|one| one.bisection.as_ref()).map(|one| &one.tried);
            self.wrong
                .push(format!("{what}: {fault} is at fault, but {found:?} was blamed; {cause:?}; {tried:?}"));
        }
    }
}

/// At least this many faults, and of each kind.
const FAULTS: (usize, usize) = (40, 15);

#[test]
fn wrong_rules_and_kernels_are_blamed_by_name() {
    let mut tally = Tally::default();
    rule::faults(&mut tally);
    let rules = tally.faults;
    kernel::faults(&mut tally);
    let Tally { faults, right, mended, wrong } = &tally;
    println!("{faults} faults ({rules} rules, {} kernels) made a network depart", faults - rules);
    println!("{right} are blamed right; the absence of {mended} of them was seen to mend the network");
    wrong.iter().for_each(|one| println!("blamed wrong: {one}"));
    let fewest = rules.min(faults - rules);
    assert!(*faults >= FAULTS.0 && fewest >= FAULTS.1, "{faults} faults, {rules} of them rules");
    assert!(right * 100 >= faults * 95, "{right} of {faults} are blamed right");
}
