//! Mutation test of `rules verify`: rules that are made wrong in one small place must be caught.
#![allow(clippy::unwrap_used)]

#[path = "mutants/equivalent.rs"]
mod equivalent;
#[path = "mutants/make.rs"]
mod make;

use equivalent::{EQUIVALENT, MISSED, Reason};
use make::Mutant;
use ovolo::rule::Rule;
use ovolo_proof::verify::{self, Settings, Verdict, Verification};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The number of threads of the verification.
const THREADS: usize = 2;

/// What the trials of all files found together.
static FOUND: Mutex<Found> = Mutex::new(Found { files: 0, mutants: 0, caught: 0 });

struct Found {
    files: usize,
    mutants: usize,
    caught: usize,
}

/// The rule files with rules to mutate, by name without extension.
pub fn files() -> Vec<String> {
    let files: BTreeSet<String> = subjects().iter().map(|rule| rule.stem().to_owned()).collect();
    files.into_iter().collect()
}

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
fn screened(file: &str, settings: Settings) -> (Vec<Mutant>, usize) {
    let made: Vec<(Arc<Rule>, Mutant)> = subjects()
        .into_iter()
        .filter(|rule| rule.stem() == file)
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

/// Every mutant of the rules of a file must be caught, except those that are listed. Of the rules of all files 95 % must be
/// caught, the equivalent ones included, and 95 % of the wrong ones of the rules about integers.
pub fn unsound_mutants_are_caught_and_survivors_are_equivalent(file: &str) {
    // As many instances as the command draws, because some mistakes show in only one of fifty instances.
    let settings = Settings { instances: 200, tries: 100, seed: 0, shrink: false };
    let (mutants, unchanged) = screened(file, Settings { instances: 60, ..settings });
    // The mutant's name becomes its rule's name, so that each mutant draws its own instances.
    let rules: Vec<Arc<Rule>> = mutants
        .iter()
        .map(|mutant| {
            // Generated instances must catch it, so it keeps no examples.
            Arc::new(Rule { name: mutant.name.clone(), examples: Vec::new(), ..mutant.rule.clone() })
        })
        .collect();
    let subjects = subjects();
    let of_file = |name: &&str| {
        let rule = name.split(": ").next();
        subjects.iter().any(|one| rule == Some(one.name.as_str()) && one.stem() == file)
    };
    let of = |reasons: &'static [Reason]| reasons.iter().flat_map(|(_, names)| names.iter().copied());
    let all_listed = of(EQUIVALENT).chain(of(MISSED));
    let listed: BTreeSet<&str> = all_listed.clone().filter(of_file).collect();
    let known = |name: &&str| subjects.iter().any(|one| name.split(": ").next() == Some(one.name.as_str()));
    let unknown: Vec<&str> = all_listed.filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "are listed, but no rule is mutated so: {unknown:?}");
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
    let missed = of(MISSED).filter(|name| survivors.contains(name)).count();
    let wrong = caught + missed;
    #[allow(clippy::cast_precision_loss)]
    let share = caught as f64 / wrong.max(1) as f64 * 100.0;
    println!(
        "{file}: {} mutants ({unchanged} others are the same rule by typing): {caught} of {wrong} wrong ones caught \
         ({share:.1} %), {by_value} by a counterexample and {by_coverage} by a lack of instances; {} equivalent",
        all.len(),
        survivors.len() - missed
    );
    let mut unexpected = String::new();
    for survivor in &survivors {
        if !listed.contains(survivor) {
            let _ = writeln!(unexpected, "survives but is not listed: {survivor}");
        }
    }
    for name in &listed {
        if !survivors.contains(name) {
            let _ = writeln!(unexpected, "is listed but does not survive: {name}");
        }
    }
    assert!(unexpected.is_empty(), "{unexpected}");
    if file == "integer" {
        assert!(caught * 100 >= wrong * 95, "{caught} of {wrong} are caught");
    }
    let mut found = FOUND.lock().unwrap();
    found.files += 1;
    found.mutants += all.len();
    found.caught += caught;
    if found.files == files().len() {
        assert!(found.mutants >= 60, "{} mutants", found.mutants);
        assert!(found.caught * 100 >= found.mutants * 95, "{} of {} are caught", found.caught, found.mutants);
    }
}
