//! Verifies rules numerically: evaluates both sides of every rule on generated instances.
//!
//! Left sides are generated from the root down: each op proposes operand types and attributes for a wanted
//! result (`sampler`), taking into account what the guards demand (`hint`). They are then typed from the
//! leaves up and tested against the guards. If the guards accept an instance, the right side is built as the
//! e-graph builds it, and both sides are evaluated and compared (`check`): types, values, zero in padding,
//! and independence of padding. `coverage` counts what the instances contained, and a rule without instances
//! fails. Every instance is compared once more with infinities and NaN among the operands that a run gives
//! (`Draft::spoiled`). If the rule assumes that all are finite, only masks of attention get negative infinities
//! (`Draft::masked`). Instances with integers are compared once more with floats of few bits, so that nothing is
//! rounded and the comparison needs no tolerance (`exact`). For a counterexample, smaller ones are searched for in
//! narrow palettes and then reduced step by step until nothing can be removed (`shrink`). Derivatives of ops are
//! compared with differences (`gradient`).
//!
//! All randomness is seeded by the rule's name and the number of the attempt, so the results depend neither
//! on the number of threads nor on which other rules are verified.

pub(crate) mod accept;
mod build;
mod case;
mod check;
mod coverage;
mod draft;
mod edge;
mod exact;
mod generate;
mod gradient;
mod hint;
mod independence;
mod level;
mod member;
mod palette;
mod refusal;
mod rng;
mod sampler;
mod seed;
mod shrink;
mod typing;
mod untyped;

pub use case::{NoCase, compare as compare_case};
pub use coverage::{COARSE, Coverage, EXACT, OVERFLOW};
pub use gradient::{Derivative, derivative};
pub use independence::{Dependent, Independent, independence};
pub use member::{Member, MemberError, Members, members};
pub(crate) use member::{distance, tolerance};
pub use refusal::Reason;
pub use sampler::has_sampler;
pub use typing::{Clash, Typing, typings};
pub use untyped::Untyped;

use check::{Compared, Difference, Fault};
use coverage::Seen;
use draft::{Draft, Exactness};
use generate::Generator;
use ovolo::op::Ops;
use ovolo::rule::Rule;
use palette::Palette;
use refusal::{Reasons, Refusal};
use rng::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Attempts in each palette when a small counterexample is searched for.
const SMALL_TRIES: usize = 300;
/// The most work for one rule, in elements drawn plus operations evaluated; a rule that needs more counts as
/// having too little coverage. It takes about half a minute. Shipped rules need a thousandth of it.
const WORK: f64 = 1e10;

/// Settings of a verification.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Instances of each rule.
    pub instances: usize,
    /// Attempts for each wanted instance, before the rule counts as having too little coverage.
    pub tries: usize,
    /// The seed.
    pub seed: u64,
    /// Whether counterexamples are reduced, so that they are easy to read.
    pub shrink: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { instances: 200, tries: 1500, seed: 0, shrink: true }
    }
}

/// The verdict on one rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The sides agree on every instance.
    Holds,
    /// The sides differ.
    Wrong {
        /// What differs, in one line.
        what: String,
        /// A small instance that shows it, as a case file.
        case: String,
    },
    /// Too few instances were found to decide.
    Uncovered {
        /// Why attempts were refused, the most frequent reasons first.
        reasons: Vec<Reason>,
        /// Whether the limit on work ended the search rather than the limit on attempts.
        worked_out: bool,
    },
}

/// The result of verifying one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The rule.
    pub rule: String,
    /// Its file.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// The number of instances that were compared.
    pub instances: usize,
    /// The number of instances that were generated.
    pub tries: usize,
    /// The number of examples beside the rule that fire; they were evaluated before and after.
    pub examples: usize,
    /// What the instances contained.
    pub coverage: Coverage,
}

impl Verification {
    /// Whether the rule holds, with enough coverage.
    pub fn holds(&self) -> bool {
        self.verdict == Verdict::Holds
    }

    /// Whether every instance was compared within the rounding of its types, so that a small error may be
    /// hidden.
    pub fn is_coarse(&self) -> bool {
        let count = |feature: &str| self.coverage.features.get(feature).copied().unwrap_or(0);
        self.instances > 0 && count(COARSE) == self.instances && count(EXACT) == 0
    }

    /// Whether every instance was compared without a tolerance.
    pub fn is_exact(&self) -> bool {
        self.instances > 0 && self.coverage.features.get(EXACT) == Some(&self.instances)
    }
}

/// Verifies rules on `threads` threads and returns the results in the order of the rules. `done` is called
/// with each result. `ops` are the ops that the graphs of examples may use.
pub fn rules(
    rules: &[Arc<Rule>],
    ops: &Ops,
    settings: Settings,
    threads: usize,
    done: &(dyn Fn(&Verification) + Sync),
) -> Vec<Verification> {
    rules_until(rules, ops, settings, threads, &AtomicBool::new(false), done)
}

/// Verifies rules as [`rules`] does, until `stop` is set. Rules that were not verified by then have no result; those that
/// had begun end after the instance that they are at.
pub fn rules_until(
    rules: &[Arc<Rule>],
    ops: &Ops,
    settings: Settings,
    threads: usize,
    stop: &AtomicBool,
    done: &(dyn Fn(&Verification) + Sync),
) -> Vec<Verification> {
    each(rules, threads, &|rule| {
        let verification = until(rule, ops, settings, stop)?;
        done(&verification);
        Some(verification)
    })
}

/// Calls `make` for each rule on some threads, and returns the results in the order of the rules.
fn each<T: Send>(rules: &[Arc<Rule>], threads: usize, make: &(dyn Fn(&Rule) -> Option<T> + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, T>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, rules.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, rule)) = take(&next, rules) {
                    if let Some(made) = make(rule) {
                        results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, made);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn take<'a>(next: &AtomicUsize, rules: &'a [Arc<Rule>]) -> Option<(usize, &'a Arc<Rule>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    rules.get(at).map(|rule| (at, rule))
}

/// Verifies one rule. `ops` are the ops that the graphs of its examples may use.
pub fn rule(rule: &Rule, ops: &Ops, settings: Settings) -> Verification {
    until(rule, ops, settings, &AtomicBool::new(false)).expect("nothing stops it")
}

/// Verifies one rule, or returns nothing if `stop` is set before all instances are compared.
fn until(rule: &Rule, ops: &Ops, settings: Settings, stop: &AtomicBool) -> Option<Verification> {
    let generator = Generator::new(rule, &Palette::WIDE);
    let mut seen = Seen::default();
    let mut reasons = Reasons::default();
    let (mut instances, mut tries, mut work, mut wrong) = (0, 0, 0.0, None);
    while instances < settings.instances && !hopeless(instances, tries, settings) && work < WORK {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut rng = Rng::new(settings.seed, &rule.name, tries as u64);
        tries += 1;
        let left = match generator.left(&mut rng) {
            Ok(left) => left,
            Err(why) => {
                reasons.add(why.into());
                continue;
            }
        };
        let left_work = left.work();
        let left_count = left.values.len();
        match judge(rule, left) {
            Tried::Refused(refusal) => {
                work += if refusal.evaluated { left_work } else { 0.0 };
                reasons.add(refusal);
            }
            Tried::Agrees(mut draft) => {
                instances += 1;
                work += draft.work();
                if let Some(simple) =
                    draft.simple(&mut Rng::new(settings.seed, &rule.name, tries as u64), left_count)
                {
                    work += draft.work();
                    match judge(rule, simple) {
                        // What rounds with simple floats rounds with any.
                        Tried::Agrees(simple) if draft.exactness != Exactness::Exact => {
                            draft.exactness = simple.exactness;
                        }
                        Tried::Agrees(_) | Tried::Refused(_) => {}
                        Tried::Wrong(draft, difference) => {
                            seen.add(rule, &draft);
                            wrong = Some((draft, difference));
                            break;
                        }
                    }
                }
                seen.add(rule, &draft);
                let spoiled = if rule.assumes.contains(&Rule::FINITE) {
                    draft.masked(&mut rng, left_count)
                } else {
                    draft.spoiled(&mut rng, left_count)
                };
                if let Some(spoiled) = spoiled {
                    work += draft.work();
                    if let Tried::Wrong(draft, difference) = judge(rule, spoiled) {
                        seen.add(rule, &draft);
                        wrong = Some((draft, difference));
                        break;
                    }
                }
            }
            Tried::Wrong(draft, difference) => {
                instances += 1;
                seen.add(rule, &draft);
                wrong = Some((draft, difference));
                break;
            }
        }
    }
    let examples = seed::check(rule, ops, settings.seed);
    let verdict = match wrong {
        None if examples.is_err() => {
            let (what, case) = examples.clone().err().unwrap_or_default();
            Verdict::Wrong { what, case }
        }
        Some((draft, difference)) => {
            let (draft, difference) = if settings.shrink {
                small(rule, settings.seed, (draft, difference), judge)
            } else {
                (draft, difference)
            };
            Verdict::Wrong {
                what: difference.to_string(),
                case: case::print(rule, &draft, Some(&difference)),
            }
        }
        None if instances < settings.instances => {
            Verdict::Uncovered { reasons: reasons.most(5), worked_out: work >= WORK }
        }
        None => Verdict::Holds,
    };
    Some(Verification {
        rule: rule.name.clone(),
        file: rule.file.clone(),
        line: rule.line,
        verdict,
        instances,
        tries,
        examples: examples.unwrap_or(0),
        coverage: seen.coverage(),
    })
}

/// Returns whether the tries are used up, or so few of them gave an instance that the others would not give enough. If the
/// chance of each try were just large enough, a tenth of the tries would give none once in 10^8 times, and a quarter of
/// them less than a quarter of what they should about once in 10^9 times (200 instances, Chernoff's bound).
fn hopeless(instances: usize, tries: usize, settings: Settings) -> bool {
    let all = settings.instances * settings.tries;
    let none = instances == 0 && tries >= all.div_ceil(10);
    let few = tries >= all.div_ceil(4) && 4 * instances * all < settings.instances * tries;
    tries >= all || settings.instances >= ENOUGH && (none || few)
}

/// The fewest instances for which the share of tries that gave one tells of those to come.
const ENOUGH: usize = 200;

/// How a variant of a rule with the same left side differs from the rule, in numbers of generated left sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Both build the same.
    pub same: usize,
    /// They build different right sides.
    pub other: usize,
    /// Only the variant builds a right side.
    pub more: usize,
    /// Only the rule builds a right side, because the variant's is ill-typed.
    pub less: usize,
    /// The rule's guards refuse and the variant's accept, but the variant's right side is ill-typed.
    pub untyped: usize,
}

impl Change {
    /// Whether the variant is the same rule, or one that fires less: whatever the change lets through or
    /// changes is ill-typed every time.
    pub fn is_none(&self) -> bool {
        self.other + self.more == 0 && self.same > 0 && self.less + self.untyped > 0
    }
}

/// Compares a rule with a variant of it on left sides of the variant.
pub fn change(rule: &Rule, variant: &Rule, settings: Settings) -> Change {
    let generator = Generator::new(variant, &Palette::WIDE);
    let mut change = Change::default();
    let mut drawn = 0;
    for number in 0..settings.instances * settings.tries {
        let mut rng = Rng::new(settings.seed, &variant.name, number as u64);
        let Ok(draft) = generator.left(&mut rng) else { continue };
        let build = |rule: &Rule| {
            let mut draft = draft.clone();
            build::admit(rule, &draft).ok()?;
            Some(build::right(rule, &mut draft).ok().map(|()| draft.shown()))
        };
        match (build(rule), build(variant)) {
            (Some(Some(one)), Some(Some(other))) if one == other => change.same += 1,
            (Some(Some(_)), Some(Some(_))) => change.other += 1,
            (_, Some(Some(_))) => change.more += 1,
            (Some(Some(_)), _) => change.less += 1,
            (None, Some(None)) => change.untyped += 1,
            _ => continue,
        }
        drawn += 1;
        if drawn == settings.instances * 4 || change.other + change.more > 0 {
            break;
        }
    }
    change
}

/// The result of one attempt.
enum Tried {
    /// Not an instance: it has no types, a guard refuses, or there is nothing to compare.
    Refused(Refusal),
    Agrees(Draft),
    Wrong(Draft, Difference),
}

/// A function that judges a left side.
type Judge = fn(&Rule, Draft) -> Tried;

fn attempt(rule: &Rule, generator: &Generator<'_>, rng: &mut Rng, judge: Judge) -> Tried {
    match generator.left(rng) {
        Ok(draft) => judge(rule, draft),
        Err(why) => Tried::Refused(why.into()),
    }
}

/// Bounds on the values, tried in turn when the results overflow `f64`.
const SMALLER: [f64; 3] = [20.0, 2.0, 0.5];

/// Tests the guards, builds the right sides and compares. An overflow of `f64` on the way says nothing about
/// real numbers, so the comparison is repeated with smaller values.
fn judge(rule: &Rule, draft: Draft) -> Tried {
    let count = draft.values.len();
    let (mut draft, mut seen) = (draft, None);
    let mut sizes = SMALLER.iter();
    loop {
        if let Err(refusal) = build::sides(rule, &mut draft) {
            return Tried::Refused(refusal);
        }
        if let Some((side, fault)) = Fault::of_types(&draft) {
            return Tried::Wrong(draft, Difference { side, fault, at: None });
        }
        let difference = match check::compare(&draft) {
            Compared::Agree(exactness) => {
                return Tried::Agrees(Draft { overflow: seen, exactness, ..draft });
            }
            Compared::Vacuous => {
                return Tried::Refused(Refusal::late("most values of the left side are not finite"));
            }
            Compared::Differ(difference) => return Tried::Wrong(draft, difference),
            Compared::Strained(difference) => difference,
        };
        let told = |at: &(Vec<usize>, String, String)| {
            let (_, left, right) = at;
            let largest = draft.largest_number();
            format!("with values up to {largest:?} the left side is {left}, the right side {right}")
        };
        seen = seen.or_else(|| difference.at.as_ref().map(told));
        let Some(smaller) = sizes.find_map(|most| draft.smaller(count, *most)) else {
            return Tried::Wrong(draft, difference);
        };
        draft = smaller;
    }
}

/// The size of an instance for a reader: elements count most, then ops and their attributes.
fn size(draft: &Draft) -> usize {
    let elements: usize = draft.values.iter().map(|value| value.ty.shape.count()).sum();
    let written: usize = draft.values.iter().map(|value| value.attrs.to_string().len()).sum();
    elements * 4 + draft.values.len() * 8 + written
}

/// Finds a small counterexample: the smallest one of the narrowest palette that has any, then reduced.
fn small(rule: &Rule, seed: u64, found: (Draft, Difference), judge: Judge) -> (Draft, Difference) {
    let mut best = (size(&found.0), found.0, found.1);
    for palette in &Palette::NARROW {
        let generator = Generator::new(rule, palette);
        let before = best.0;
        for number in 0..SMALL_TRIES {
            let mut rng = Rng::new(seed ^ 0x5eed, &rule.name, number as u64);
            if let Tried::Wrong(draft, difference) = attempt(rule, &generator, &mut rng, judge) {
                let size = size(&draft);
                if size < best.0 {
                    best = (size, draft, difference);
                }
            }
        }
        if best.0 < before {
            break;
        }
    }
    shrink::shrink(rule, (best.1, best.2), judge)
}
