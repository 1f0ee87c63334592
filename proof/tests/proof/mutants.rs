//! Mutation test of `rules verify`: rules that are made wrong in one small place must be caught.
#![allow(clippy::unwrap_used)]

#[path = "mutants/equivalent.rs"]
mod equivalent;
#[path = "mutants/make.rs"]
mod make;

use equivalent::EQUIVALENT;
use make::Mutant;
use ovolo::rule::Rule;
use ovolo_proof::verify::{self, Settings, Verdict, Verification};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The number of threads of the verification.
const THREADS: usize = 2;

/// The rules to mutate. Of a rule with several rows, the last row is taken if its ops are not commutative,
/// and the first if the rows differ in ops rather than layouts.
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

/// The mutants that are different rules, and the number of the others. A mutant is the same rule if typing
/// refuses everything that the change lets through.
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

/// Every mutant must be caught, except those listed as equivalent.
pub fn unsound_mutants_are_caught_and_survivors_are_equivalent() {
    // As many instances as the command draws, because some mistakes show in only one of fifty instances.
    let settings = Settings { instances: 200, tries: 100, seed: 0, shrink: false };
    let (mutants, unchanged) = screened(Settings { instances: 60, ..settings });
    assert!(mutants.len() >= 60, "{} mutants", mutants.len());
    // The mutant's name becomes its rule's name, so that each mutant draws its own instances.
    let rules: Vec<Arc<Rule>> = mutants
        .iter()
        .map(|mutant| {
            // Generated instances must catch it, so it keeps no examples.
            Arc::new(Rule { name: mutant.name.clone(), examples: Vec::new(), ..mutant.rule.clone() })
        })
        .collect();
    let listed: BTreeSet<&str> = EQUIVALENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (rare, mut all): (Vec<Verification>, Vec<Verification>) =
        verify::rules(&rules, crate::common::ops(), settings, THREADS, &|_| {}).into_iter().partition(
            |one| matches!(one.verdict, Verdict::Uncovered { .. }) && listed.contains(one.rule.as_str()),
        );
    // The guards of these hold so rarely that more tries are needed until all instances are drawn.
    let rare: BTreeSet<String> = rare.into_iter().map(|one| one.rule).collect();
    let rare: Vec<Arc<Rule>> = rules.iter().filter(|rule| rare.contains(&rule.name)).cloned().collect();
    let patient = Settings { tries: 300, ..settings };
    all.extend(verify::rules(&rare, crate::common::ops(), patient, THREADS, &|_| {}));
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
        "{} mutants ({unchanged} others are the same rule by typing): {caught} caught ({share:.1} %), {by_value} \
         by a counterexample and {by_coverage} by a lack of instances; {} equivalent",
        all.len(),
        survivors.len()
    );
    let mut wrong = String::new();
    for survivor in &survivors {
        if !listed.contains(survivor) {
            let _ = writeln!(wrong, "survives but is not listed as equivalent: {survivor}");
        }
    }
    for name in &listed {
        if !survivors.contains(name) {
            let _ = writeln!(wrong, "is listed as equivalent but does not survive: {name}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(caught * 100 >= all.len() * 95, "{caught} of {} are caught", all.len());
}
