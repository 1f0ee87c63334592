//! Numerical verification: every rule on generated instances of its left side.
//!
//! For a rule, left sides are drawn: types and attributes by wishes from the root down, each op
//! saying which operands give a wished result (`sampler`), with what the guards demand read off
//! them (`hint`); then typed from the leaves up, and put before the guards. Where they agree, the
//! right side is built as the e-graph builds it, and both are evaluated and compared (`check`):
//! types, values, zero in padding, and independence of padding. What was seen is counted
//! (`coverage`), a rule without instances fails, and a counter-example is drawn anew from narrow
//! palettes, and then taken apart until nothing can be taken away (`shrink`).
//!
//! All randomness is seeded by the rule's name and the number of the try, so that results depend
//! neither on the number of threads nor on which other rules are verified.

pub(crate) mod accept;
mod build;
mod case;
mod check;
mod coverage;
mod draft;
mod edge;
mod generate;
mod hint;
mod member;
mod palette;
mod refusal;
mod rng;
mod sampler;
mod seed;
mod shrink;
mod typing;
mod value;

pub use case::{NoCase, compare as compare_case};
pub use coverage::{COARSE, Coverage, OVERFLOW};
pub use member::{Member, MemberError, Members, members};
pub use refusal::Reason;
pub use typing::{Clash, Typing, Untyped, typings};

use check::{Compared, Difference};
use coverage::Seen;
use draft::Draft;
use generate::Generator;
use ovolo::op::Ops;
use ovolo::rule::Rule;
use palette::Palette;
use refusal::{Reasons, Refusal};
use rng::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tries in each palette when a small counter-example is looked for.
const SMALL_TRIES: usize = 300;
/// Elements that are drawn and operations that are evaluated for one rule, before it counts as one without
/// coverage: half a minute. Shipped rules take a thousandth of it.
const WORK: f64 = 1e10;

/// What is asked of a verification.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Instances of each rule.
    pub instances: usize,
    /// Tries for each instance that is asked for, before the rule counts as one without coverage.
    pub tries: usize,
    /// The seed.
    pub seed: u64,
    /// Whether counter-examples are made small, for a reader.
    pub shrink: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { instances: 200, tries: 1500, seed: 0, shrink: true }
    }
}

/// What came of one rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The sides agree on every instance.
    Holds,
    /// They do not.
    Wrong {
        /// What differs, in one line.
        what: String,
        /// A small instance that shows it, as a case file.
        case: String,
    },
    /// Too few instances were found to say.
    Uncovered {
        /// Why tries were refused, the most frequent reasons first.
        reasons: Vec<Reason>,
        /// Whether the limit on work ended it, and not that on tries.
        worked_out: bool,
    },
}

/// The verification of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The rule.
    pub rule: String,
    /// Its file.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// What came of it.
    pub verdict: Verdict,
    /// Instances that were compared.
    pub instances: usize,
    /// Instances that were drawn.
    pub tries: usize,
    /// Examples beside the rule that fire, evaluated before and after.
    pub examples: usize,
    /// What was in the instances.
    pub coverage: Coverage,
}

impl Verification {
    /// Whether the rule holds, with coverage.
    pub fn holds(&self) -> bool {
        self.verdict == Verdict::Holds
    }

    /// Whether every instance was compared with the rounding of its types: a small factor may hide in it.
    pub fn is_coarse(&self) -> bool {
        self.instances > 0 && self.coverage.features.get(COARSE) == Some(&self.instances)
    }
}

/// Verifies rules on some threads; `done` is called with each result. The order of the results is the rules'. The
/// graphs of examples are of these ops.
pub fn rules(
    rules: &[Arc<Rule>],
    ops: &Ops,
    settings: Settings,
    threads: usize,
    done: &(dyn Fn(&Verification) + Sync),
) -> Vec<Verification> {
    each(rules, threads, &|rule| {
        let verification = self::rule(rule, ops, settings);
        done(&verification);
        verification
    })
}

/// What is made of each rule, on some threads, in the order of the rules.
fn each<T: Send>(rules: &[Arc<Rule>], threads: usize, make: &(dyn Fn(&Rule) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, T>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, rules.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, rule)) = take(&next, rules) {
                    let made = make(rule);
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, made);
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

/// Verifies one rule. The graphs of its examples are of these ops.
pub fn rule(rule: &Rule, ops: &Ops, settings: Settings) -> Verification {
    let generator = Generator::new(rule, &Palette::WIDE);
    let mut seen = Seen::default();
    let mut reasons = Reasons::default();
    let (mut instances, mut tries, mut work, mut wrong) = (0, 0, 0.0, None);
    while instances < settings.instances && tries < settings.instances * settings.tries && work < WORK {
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
        match judge(rule, left) {
            Tried::Refused(refusal) => {
                work += if refusal.evaluated { left_work } else { 0.0 };
                reasons.add(refusal);
            }
            Tried::Agrees(draft) => {
                instances += 1;
                work += draft.work();
                seen.add(rule, &draft);
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
    Verification {
        rule: rule.name.clone(),
        file: rule.file.clone(),
        line: rule.line,
        verdict,
        instances,
        tries,
        examples: examples.unwrap_or(0),
        coverage: seen.coverage(),
    }
}

/// How a variant of a rule, with the same left side, differs from it on generated left sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Left sides for which both build the same.
    pub same: usize,
    /// For which they build something else.
    pub other: usize,
    /// For which only the variant builds something.
    pub more: usize,
    /// For which only the rule builds something, the variant's right side being ill-typed.
    pub less: usize,
    /// Which the rule's guards refuse, and the variant's do not, but its right side is ill-typed.
    pub untyped: usize,
}

impl Change {
    /// Whether the variant is the same rule, or one that fires less: what its change lets through or
    /// changes was met, and typing refused it every time.
    pub fn is_none(&self) -> bool {
        self.other + self.more == 0 && self.same > 0 && self.less + self.untyped > 0
    }
}

/// Compares a rule with a variant of it, on left sides of the variant.
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

/// What came of one try.
enum Tried {
    /// It is no instance: it cannot be typed, a guard says no, or there is nothing to compare.
    Refused(Refusal),
    Agrees(Draft),
    Wrong(Draft, Difference),
}

/// What judges a left side.
type Judge = fn(&Rule, Draft) -> Tried;

fn attempt(rule: &Rule, generator: &Generator<'_>, rng: &mut Rng, judge: Judge) -> Tried {
    match generator.left(rng) {
        Ok(draft) => judge(rule, draft),
        Err(why) => Tried::Refused(why.into()),
    }
}

/// What numbers are brought down to, in turn, where `f64` has not what comes of them.
const SMALLER: [f64; 3] = [20.0, 2.0, 0.5];

/// Puts left sides before the guards, builds the right sides and compares. Where `f64` is left on the way to
/// one of them, that tells nothing of real numbers: smaller ones are put in the place of those drawn.
fn judge(rule: &Rule, draft: Draft) -> Tried {
    let count = draft.values.len();
    let (mut draft, mut seen) = (draft, None);
    let mut sizes = SMALLER.iter();
    loop {
        if let Err(refusal) = build::sides(rule, &mut draft) {
            return Tried::Refused(refusal);
        }
        if let Some((side, left, right)) = build::types_differ(&draft) {
            let what = format!("the left side is of type {left}, the right side of type {right}");
            return Tried::Wrong(draft, Difference { side, what, at: None });
        }
        let difference = match check::compare(&draft) {
            Compared::Agree => return Tried::Agrees(Draft { overflow: seen, ..draft }),
            Compared::Vacuous => {
                return Tried::Refused(Refusal::late("the left side has hardly a number in it"));
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

/// How large an instance is to a reader: elements first, then ops and what they carry.
fn size(draft: &Draft) -> usize {
    let elements: usize = draft.values.iter().map(|value| value.ty.shape.count()).sum();
    let written: usize = draft.values.iter().map(|value| value.attrs.to_string().len()).sum();
    elements * 4 + draft.values.len() * 8 + written
}

/// A small wrong instance in place of one: the smallest of the narrowest palette that has one, taken
/// apart.
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
