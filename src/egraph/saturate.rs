//! Saturation: grows the e-graph by a phase's rules within limits, and counts what each rule did.
//!
//! A round finds all matches of all rules, applies them in that order, and then restores congruence. No rule is
//! skipped and no clock is read, so the same graph and rules give the same e-graph on every machine.

use super::EGraph;
use super::change::{Changes, Reach};
use super::cycle::Below;
use super::matcher::Match;
use crate::rule::Rule;
use core::time::Duration;
use rustc_hash::FxHashSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What was done with the matches of one rule.
#[derive(Default)]
pub(super) struct Tried {
    /// All matches that were applied or refused.
    all: FxHashSet<Rc<Match>>,
    /// Those that were refused. A guard may accept a match later, when facts are more precise.
    refused: Vec<Rc<Match>>,
}

/// What was done with one match.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// It was applied, whether or not it changed the e-graph.
    Applied,
    /// A guard, a type or a cycle refused it.
    Refused,
    /// It was not tried, because a limit stopped the phase before.
    Nothing,
}

/// What was done with the matches of one rule, by the current class ids.
pub(super) struct Record {
    all: FxHashSet<Match>,
    refused: FxHashSet<Match>,
}

impl Record {
    /// Returns what was done with a match.
    pub(crate) fn done(&self, one: &Match) -> Done {
        match (self.all.contains(one), self.refused.contains(one)) {
            (_, true) => Done::Refused,
            (true, false) => Done::Applied,
            (false, false) => Done::Nothing,
        }
    }
}

/// The reason for refusing a match of a multi-output rule that no program could use.
pub(super) const KNOTS: &str = "an operand is computed from one of the outputs";

/// A phase may exceed its limit of nodes by this part of it, and by what one match adds.
const ALLOWANCE: usize = 64;

/// In one round, a phase may find as many matches as this multiple of its limit of nodes, and at least [`FEWEST`]. Rules of
/// which each match adds nothing, such as one that says that a value is equal to a function of itself, can find millions.
/// Networks are far below the limit: the largest of 44 finds half as many matches in a round as it may have nodes.
const MATCHES: usize = 4;
/// The limit on the matches of a round where the limit of nodes is low.
const FEWEST: usize = 100_000;

/// The limits of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of rounds.
    pub rounds: usize,
    /// The largest number of e-nodes. The last matches may exceed it by a little.
    pub nodes: usize,
}

impl Limits {
    /// The largest number of matches that one round finds, including those that were known before.
    fn matches(self) -> usize {
        self.nodes.saturating_mul(MATCHES).max(FEWEST)
    }
}

/// The reason why a phase ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is left to add: the e-graph has every program that the rules can reach.
    Saturated,
    /// The limit on rounds was reached. The named rule added the largest share of the nodes of the last round.
    Rounds {
        /// The rule that added the most nodes.
        rule: String,
        /// Its share of the nodes added in the last round, in percent.
        percent: usize,
    },
    /// The limit on nodes was reached. The named rule added the largest share of them.
    Nodes {
        /// The rule that added the most nodes.
        rule: String,
        /// Its share of the nodes added in the phase, in percent.
        percent: usize,
    },
    /// The limit on the matches of a round was reached: [`Limits::nodes`] sets it. The named rule found the largest share of
    /// them.
    Matches {
        /// The rule that found the most matches.
        rule: String,
        /// Its share of the matches of the last round, in percent.
        percent: usize,
    },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saturated => f.write_str("saturated"),
            Self::Rounds { percent: 0, .. } => f.write_str("stopped at the limit on rounds"),
            Self::Rounds { rule, percent } => {
                write!(
                    f,
                    "stopped at the limit on rounds; `{rule}` added {percent} % of the nodes of the last round"
                )
            }
            // No rule added a node: the imported graph already exceeds the limit.
            Self::Nodes { percent: 0, .. } => f.write_str("stopped at the limit on nodes"),
            Self::Nodes { rule, percent } => {
                write!(f, "stopped at the limit on nodes; `{rule}` added {percent} % of them")
            }
            Self::Matches { rule, percent } => {
                write!(
                    f,
                    "stopped at the limit on matches, which follows from the one on nodes; `{rule}` found {percent} % \
                     of those of the last round"
                )
            }
        }
    }
}

/// What one rule did in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The rule.
    pub rule: String,
    /// The matches that searches found, including those that were already known.
    pub tried: usize,
    /// The different matches of the left side.
    pub matched: usize,
    /// Those of them in which a commutative op is matched with its operands exchanged: the search tries both orders,
    /// and no rule adds the other one.
    pub turned: usize,
    /// Matches that changed the e-graph.
    pub applied: usize,
    /// Matches that a guard or a type refused.
    pub refused: usize,
    /// The reason of the first refusal.
    pub reason: Option<String>,
    /// The nodes that were added. Each has a class of its own at first.
    pub nodes: usize,
    /// The classes that were united with another one.
    pub united: usize,
    /// The number of e-classes that were added, minus those that were united with others. It is negative if a rule
    /// unites more than it adds.
    pub classes: i64,
    /// The time of its searches and applications, by the clock of the phase.
    pub time: Duration,
}

impl Growth {
    fn zero(rules: &[Arc<Rule>]) -> Vec<Self> {
        rules.iter().map(|rule| Self { rule: rule.name.clone(), ..Self::default() }).collect()
    }

    fn add(&mut self, other: &Self) {
        self.tried += other.tried;
        self.matched += other.matched;
        self.turned += other.turned;
        self.applied += other.applied;
        self.refused += other.refused;
        self.nodes += other.nodes;
        self.united += other.united;
        self.classes += other.classes;
        self.time += other.time;
        if self.reason.is_none() {
            self.reason.clone_from(&other.reason);
        }
    }
}

/// A clock that starts at any time. The e-graph has no clock of its own, because its results must not depend on time.
pub type Clock<'a> = &'a dyn Fn() -> Duration;

/// The result of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saturation {
    /// Why it ended.
    pub stop: Stop,
    /// The number of rounds that were begun.
    pub rounds: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// E-classes at the end.
    pub classes: usize,
    /// The unions that no rule made, but the closure of injective ops.
    pub closed: usize,
    /// The growth by each rule, in the order of the rules.
    pub growth: Vec<Growth>,
    /// The same for each round.
    pub by_round: Vec<Vec<Growth>>,
}

/// A rule equates values of different types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rule `{rule}` ({file}:{line}) equates a value of type {left} with one of type {right}: \
     its two sides must have the same type for every match; add a guard or correct the right side"
)]
pub struct SaturateError {
    /// The rule's name.
    pub rule: String,
    /// Its file.
    pub file: String,
    /// Its line in that file.
    pub line: usize,
    /// The type of the left side.
    pub left: String,
    /// The type of the right side.
    pub right: String,
}

impl EGraph {
    /// Grows the e-graph by `rules` until nothing changes or a limit is reached.
    ///
    /// # Errors
    /// A rule equates values of different types. The e-graph must not be used afterwards.
    pub fn saturate(
        &mut self,
        rules: &[Arc<Rule>],
        limits: Limits,
        clock: Clock<'_>,
    ) -> Result<Saturation, SaturateError> {
        let mut by_round: Vec<Vec<Growth>> = Vec::new();
        let closed_before = self.closed;
        // The rules of this phase have not seen any part of the e-graph yet.
        let mut changes = None;
        let stop = loop {
            if by_round.len() == limits.rounds {
                break None;
            }
            let mut growth = Growth::zero(rules);
            let round = self.round(rules, changes.as_ref(), limits, clock, &mut growth)?;
            by_round.push(growth);
            match round {
                Round::Changed => changes = Some(self.egg.analysis.take_changes()),
                end => break Some(end),
            }
        };
        let mut growth = Growth::zero(rules);
        for round in &by_round {
            growth.iter_mut().zip(round).for_each(|(sum, one)| sum.add(one));
        }
        let stop = match stop {
            None => {
                let last = by_round.last().map(|round| largest(round, |rule| rule.nodes));
                let (rule, percent) = last.unwrap_or_default();
                Stop::Rounds { rule, percent }
            }
            Some(Round::Full) => {
                let (rule, percent) = largest(&growth, |rule| rule.nodes);
                Stop::Nodes { rule, percent }
            }
            Some(Round::Crowded) => {
                let last = by_round.last().map(|round| largest(round, |rule| rule.tried));
                let (rule, percent) = last.unwrap_or_default();
                Stop::Matches { rule, percent }
            }
            Some(_) => Stop::Saturated,
        };
        let (nodes, classes) = (self.nodes(), self.classes());
        let closed = self.closed - closed_before;
        Ok(Saturation { stop, rounds: by_round.len(), nodes, classes, closed, growth, by_round })
    }

    /// Returns what was done with a rule's matches; `None` if no phase had the rule.
    pub(super) fn record(&self, rule: &str) -> Option<Record> {
        let tried = self.tried.get(rule)?;
        let refused: FxHashSet<Match> = tried.refused.iter().map(|one| one.canonical(self)).collect();
        let all = tried.all.iter().map(|one| one.canonical(self)).collect();
        Some(Record { all, refused })
    }

    fn round(
        &mut self,
        rules: &[Arc<Rule>],
        changes: Option<&Changes>,
        limits: Limits,
        clock: Clock<'_>,
        growth: &mut [Growth],
    ) -> Result<Round, SaturateError> {
        if changes.is_none_or(|changes| !changes.sharpened.is_empty()) {
            for tried in self.tried.values_mut() {
                for one in std::mem::take(&mut tried.refused) {
                    tried.all.remove(&one);
                }
            }
        }
        let reach = changes.map(|changes| Reach::new(self, changes, rules));
        let mut found: Vec<(usize, Rc<Match>)> = Vec::new();
        let mut then = clock();
        let mut lap = || {
            let now = clock();
            now.saturating_sub(std::mem::replace(&mut then, now))
        };
        let mut left = limits.matches();
        for (index, rule) in rules.iter().enumerate() {
            let mut tried = self.tried.remove(&rule.name).unwrap_or_default();
            let (matches, known) = self.unknown_matches(rule, reach.as_ref(), &tried.all, left);
            growth[index].tried += matches.len() + known;
            left -= matches.len() + known;
            for one in matches.into_iter().map(Rc::new) {
                if tried.all.insert(Rc::clone(&one)) {
                    found.push((index, one));
                }
            }
            self.tried.insert(rule.name.clone(), tried);
            growth[index].time += lap();
            if left == 0 {
                break;
            }
        }
        let mut below = Below::default();
        let knots: Vec<bool> =
            found.iter().map(|(index, one)| rules[*index].from.len() > 1 && below.knots(self, one)).collect();
        drop(below);
        self.egg.analysis.take_changes();
        let mut changed = false;
        // Nodes that turned out to be equal are counted until congruence is restored. That is done once there may be too
        // many nodes, and again only after as many have been added as were left then: each time costs as much as all
        // nodes together.
        let mut ask_at = limits.nodes;
        let mut found = found.into_iter().zip(knots).peekable();
        while let Some(((index, one), knots)) = found.next() {
            if self.egg.total_size() >= ask_at {
                self.close();
                let left = limits.nodes.saturating_sub(self.nodes());
                ask_at = self.egg.total_size() + left.max(limits.nodes / ALLOWANCE).max(1);
                if self.nodes() >= limits.nodes {
                    // A later phase may apply the matches that are left.
                    for (index, one) in std::iter::once((index, one)).chain(found.map(|(one, _)| one)) {
                        if let Some(tried) = self.tried.get_mut(&rules[index].name) {
                            tried.all.remove(&one);
                        }
                    }
                    return Ok(Round::Full);
                }
            }
            changed |= self.apply(&rules[index], one, knots, &mut growth[index])?;
            // The matches of one rule are consecutive.
            if found.peek().is_none_or(|((next, _), _)| *next != index) {
                growth[index].time += lap();
            }
        }
        self.close();
        Ok(match (left, changed) {
            (0, _) => Round::Crowded,
            (_, true) => Round::Changed,
            (_, false) => Round::Unchanged,
        })
    }

    fn apply(
        &mut self,
        rule: &Arc<Rule>,
        key: Rc<Match>,
        knots: bool,
        growth: &mut Growth,
    ) -> Result<bool, SaturateError> {
        let mut one = key.canonical(self);
        growth.matched += 1;
        growth.turned += usize::from(key.turned);
        let roots = one.roots.clone();
        let before = self.egg.nodes().len();
        let order = if knots { Err(KNOTS.to_owned()) } else { Ok(()) };
        let made: Result<Vec<_>, String> = order
            .and_then(|()| self.admit(rule, &mut one, growth.reason.is_none()).map_err(|no| no.to_string()))
            .and_then(|()| rule.to.iter().map(|template| self.instantiate(template, &one)).collect());
        let added = self.egg.nodes().len() - before;
        growth.nodes += added;
        growth.classes += i64::try_from(added).unwrap_or(i64::MAX);
        self.origins.record(before + added, rule, &key);
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                growth.refused += 1;
                growth.reason.get_or_insert(why);
                if let Some(tried) = self.tried.get_mut(&rule.name) {
                    tried.refused.push(key);
                }
                return Ok(added > 0);
            }
        };
        let mut changed = added > 0;
        for (position, (root, made)) in roots.into_iter().zip(made).enumerate() {
            let (left, right) = (self.ty(root).clone(), self.ty(made).clone());
            if left != right {
                return Err(SaturateError {
                    rule: rule.name.clone(),
                    file: rule.file.clone(),
                    line: rule.line,
                    left: left.to_string(),
                    right: right.to_string(),
                });
            }
            let united = self.egg.union(root, made);
            if united {
                self.origins.unite((position, root), made, rule, &key);
            }
            growth.united += usize::from(united);
            growth.classes -= i64::from(united);
            changed |= united;
        }
        growth.applied += usize::from(changed);
        Ok(changed)
    }
}

/// How a round ended.
enum Round {
    Changed,
    Unchanged,
    /// There are too many nodes.
    Full,
    /// There are too many matches.
    Crowded,
}

/// Returns the rule with the most nodes or matches, and its share in percent.
fn largest(growth: &[Growth], count: fn(&Growth) -> usize) -> (String, usize) {
    let total: usize = growth.iter().map(count).sum();
    let most = growth.iter().max_by_key(|rule| count(rule));
    most.map(|rule| (rule.rule.clone(), count(rule) * 100 / total.max(1))).unwrap_or_default()
}
