//! Mutation test of `rules verify`: rules made wrong in one small place must be caught.
#![allow(clippy::unwrap_used)]

#[path = "mutants/equivalent.rs"]
mod equivalent;
#[path = "mutants/make.rs"]
mod make;

use equivalent::EQUIVALENT;
use make::Mutant;
use ovolo::rule::Rule;
use ovolo_proof::verify::{self, Settings, Verdict};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Threads of the verification.
const THREADS: usize = 2;

/// Of each rule that is written out for several rows, the last, where the ops are not commutative;
/// and the first where rows are of different ops, and not of different layouts.
fn subjects() -> Vec<Arc<Rule>> {
    let set = crate::common::rules();
    let rules = set.rules();
    let place = |rule: &Rule| (rule.file.clone(), rule.line);
    let last = |at: usize| at + 1 == rules.len() || place(&rules[at + 1]) != place(&rules[at]);
    let first = |at: usize| at == 0 || place(&rules[at - 1]) != place(&rules[at]);
    let written_out = ["fuse", "half", "native", "taso", "taso-multi"];
    let wanted = |at: &usize| last(*at) || first(*at) && written_out.contains(&rules[*at].stem());
    (0..rules.len()).filter(wanted).map(|at| Arc::clone(&rules[at])).collect()
}

/// The mutants that are another rule, and how many are not: where typing refuses all that the change lets
/// through, it is the same rule.
fn screened(settings: Settings) -> (Vec<Mutant>, usize) {
    let made: Vec<(Arc<Rule>, Mutant)> = subjects()
        .into_iter()
        .flat_map(|rule| make::mutants(&rule).into_iter().map(move |mutant| (Arc::clone(&rule), mutant)))
        .collect();
    let next = AtomicUsize::new(0);
    let same = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((rule, mutant)) = made.get(at) else { break };
                    if mutant.left_is_kept && verify::change(rule, &mutant.rule, settings).is_none() {
                        same.lock().unwrap().insert(at);
                    }
                }
            });
        }
    });
    let same = same.into_inner().unwrap();
    let others = made.into_iter().enumerate().filter(|(at, _)| !same.contains(at));
    (others.map(|(_, (_, mutant))| mutant).collect(), same.len())
}

/// Every mutant is caught, but those that are listed as equivalent.
pub fn unsound_mutants_are_caught_and_survivors_are_equivalent() {
    // As many as the command draws: some mistakes show in one instance of fifty.
    let settings = Settings { instances: 200, tries: 300, seed: 0, shrink: false };
    let (mutants, unchanged) = screened(Settings { instances: 60, ..settings });
    assert!(mutants.len() >= 60, "{} mutants", mutants.len());
    // A mutant's name is its rule's, so that each draws instances of its own.
    let rules: Vec<Arc<Rule>> = mutants
        .iter()
        .map(|mutant| {
            // Generated instances must catch it, not the examples that the rule has.
            Arc::new(Rule { name: mutant.name.clone(), examples: Vec::new(), ..mutant.rule.clone() })
        })
        .collect();
    let all = verify::rules(&rules, crate::common::ops(), settings, THREADS, &|_| ());
    let (mut by_value, mut by_coverage) = (0, 0);
    let mut survivors = BTreeSet::new();
    for one in &all {
        match &one.verdict {
            Verdict::Holds => drop(survivors.insert(one.rule.as_str())),
            Verdict::Wrong { .. } => by_value += 1,
            Verdict::Uncovered { .. } => by_coverage += 1,
        }
    }
    let caught = by_value + by_coverage;
    #[allow(clippy::cast_precision_loss)]
    let share = caught as f64 / all.len() as f64 * 100.0;
    println!(
        "{} mutants ({unchanged} more are the same rule by typing): {caught} caught ({share:.1} %), {by_value} \
         by a counter-example and {by_coverage} by lack of instances; {} equivalent",
        all.len(),
        survivors.len()
    );
    let listed: BTreeSet<&str> = EQUIVALENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let mut wrong = String::new();
    for survivor in &survivors {
        if !listed.contains(survivor) {
            let _ = writeln!(wrong, "survives, and is not listed: {survivor}");
        }
    }
    for name in &listed {
        if !survivors.contains(name) {
            let _ = writeln!(wrong, "is listed, and does not survive: {name}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(caught * 100 >= all.len() * 95, "{caught} of {} are caught", all.len());
}
