//! Explains why a rule does not fire: how much of its left sides matches, and what fails.

use super::EGraph;
use super::cycle::Below;
use super::matcher::{Match, size};
use super::miss::Nearest;
use super::saturate::{Done, KNOTS};
use crate::op::Op;
use crate::rule::Rule;
use crate::rule::print::Names;
use egg::Id;
use std::fmt;
use std::sync::Arc;

/// The reason why a rule does not fire, or the places where it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It fires at these values.
    Fires(Vec<String>),
    /// It fires at some values, and is refused at others.
    FiresAndRefused {
        /// Where it fires.
        fires: Vec<String>,
        /// Where it is refused, with the reasons.
        refused: Vec<(String, String)>,
    },
    /// It matches at these values, but a limit stopped the phase before the rule was applied.
    Waits(Vec<String>),
    /// It matches, but a guard, a type or a cycle refuses all matches.
    Refused {
        /// The values at the roots of the first match.
        at: String,
        /// How many matches were refused.
        times: usize,
        /// The guard with its reason, or the reason why the right side cannot be made.
        reason: String,
    },
    /// It does not match: the failed match that came furthest.
    Miss {
        /// The number of parts of the left sides that match.
        stands: usize,
        /// The number of parts of the left sides.
        of: usize,
        /// The part that does not match.
        part: String,
        /// The value that this part should match, or `some value`.
        at: String,
        /// What that value is instead.
        why: String,
    },
    /// The nearest miss of each left side at the value in question.
    Misses(Vec<(String, Self)>),
    /// No op of the e-graph matches the root of this left side.
    Nowhere(String),
}

/// The most refusals that are shown of a rule that fires elsewhere.
const SHOWN: usize = 3;

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |places: &[String]| {
            let more = places.len().saturating_sub(3);
            let some = places[..places.len() - more].join("; ");
            if more > 0 { format!("{some} and {more} more") } else { some }
        };
        match self {
            Self::Fires(places) => write!(f, "it fires: at {}", listed(places)),
            Self::FiresAndRefused { fires, refused } => {
                write!(f, "it fires: at {}", listed(fires))?;
                for (at, why) in refused.iter().take(SHOWN) {
                    write!(f, "\n  it is refused: at {at}: {why}")?;
                }
                match refused.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Self::Waits(places) => write!(
                f,
                "it does not fire: the left side matches at {}, but a limit stopped the phase before the rule was applied",
                listed(places)
            ),
            Self::Refused { at, times, reason } => write!(
                f,
                "it does not fire, although the left side matches (matches: {times}); the first one is refused, at {at}: {reason}"
            ),
            Self::Miss { stands, of, part, at, why } => write!(
                f,
                "the nearest miss: {stands} of {of} parts of the left side match; then {at} should be `{part}`, and {why}"
            ),
            Self::Misses(sides) => {
                f.write_str("none of its left sides matches there together with the others:")?;
                sides.iter().try_for_each(|(side, why)| write!(f, "\n    as `{side}`, {why}"))
            }
            Self::Nowhere(pattern) => {
                write!(f, "nothing in the e-graph matches even the root of `{pattern}`")
            }
        }
    }
}

/// No value has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no value is called `{name}`{}",
    .nearest.as_ref().map_or_else(String::new, |nearest| format!(": did you mean `{nearest}`?"))
)]
pub struct UnknownValue {
    /// The requested name.
    pub name: String,
    /// A similar name of a value, if there is one.
    pub nearest: Option<String>,
}

/// The places of a rule's matches, by what came of them.
#[derive(Default)]
struct Told {
    /// Where the rule fires.
    fires: Vec<String>,
    /// Where it would fire if no limit had stopped its phase.
    waits: Vec<String>,
    /// Where it is refused, with the reasons.
    refused: Vec<(String, String)>,
}

impl EGraph {
    /// Explains why a rule does not fire on the current e-graph, at one value or anywhere. If a phase had the rule,
    /// the explanation follows what that phase did with each match. If not, the right sides are made, to see whether
    /// they can be; they stay in the e-graph, where nothing reads them.
    ///
    /// # Errors
    /// No value has that name.
    pub fn why_not(&mut self, rule: &Arc<Rule>, node: Option<&str>) -> Result<WhyNot, UnknownValue> {
        let only = node.map(|name| self.value(name)).transpose()?;
        // The value may be the root of any left side. If the order of two left sides does not matter, one search
        // finds both cases.
        let mut nearest: Vec<Nearest> = Vec::new();
        let mut matches: Vec<Match> = Vec::new();
        for position in 0..if only.is_some() { rule.from.len() } else { 1 } {
            if nearest.is_empty() || !rule.symmetric {
                nearest.push(Nearest::default());
            }
            let Some(nearest) = nearest.last_mut() else { continue };
            (nearest.first, nearest.only) = (position, only);
            for found in self.search(rule, None, Some(nearest), None) {
                if !matches.contains(&found) {
                    matches.push(found);
                }
            }
        }
        // There is no match: look for the nearest miss from every left side.
        if let ([nearest], None, true) = (&mut nearest[..], only, matches.is_empty() && !rule.symmetric) {
            for position in 1..rule.from.len() {
                nearest.first = position;
                self.search(rule, None, Some(nearest), None);
            }
        }
        let Told { fires, waits, refused } = self.told(rule, matches);
        if !fires.is_empty() && !refused.is_empty() {
            return Ok(WhyNot::FiresAndRefused { fires, refused });
        }
        if !fires.is_empty() {
            return Ok(WhyNot::Fires(fires));
        }
        if !waits.is_empty() {
            return Ok(WhyNot::Waits(waits));
        }
        if let Some((at, reason)) = refused.first().cloned() {
            return Ok(WhyNot::Refused { at, times: refused.len(), reason });
        }
        let names = Names::new(rule);
        let sides = nearest.into_iter().zip(&rule.from).map(|(nearest, side)| {
            let why = match nearest.miss {
                Some((stands, part, class, why)) => WhyNot::Miss {
                    stands,
                    of: rule.from.iter().map(size).sum(),
                    part: names.pattern(&part),
                    at: class.map_or_else(|| "some value".into(), |class| self.label(class)),
                    why,
                },
                None => WhyNot::Nowhere(names.pattern(side)),
            };
            (names.pattern(side), why)
        });
        let sides: Vec<(String, WhyNot)> = sides.collect();
        Ok(match <[(String, WhyNot); 1]>::try_from(sides) {
            Ok([(_, why)]) => why,
            Err(sides) => WhyNot::Misses(sides),
        })
    }

    /// Returns the class of the value with this name.
    fn value(&self, name: &str) -> Result<Id, UnknownValue> {
        let known = || self.named.iter().map(|(name, _)| &**name);
        let found = self.named.iter().find(|(known, _)| **known == *name);
        // Names in models are long paths, so a part of one is accepted as a hint.
        let lower = name.to_lowercase();
        let holds = |known: &&str| known.to_lowercase().contains(&lower);
        let part = || known().filter(holds).min_by_key(|known| known.len());
        let nearest = || crate::diagnostic::nearest(name, known().collect::<Vec<_>>()).or_else(part);
        let (_, id) = found.ok_or_else(|| UnknownValue {
            name: name.to_owned(),
            nearest: nearest().map(ToOwned::to_owned),
        })?;
        Ok(self.egg.find(*id))
    }

    /// Sorts the matches of a rule by what was done with each, or would be done.
    fn told(&mut self, rule: &Arc<Rule>, matches: Vec<Match>) -> Told {
        let record = self.record(&rule.name);
        let mut told = Told::default();
        for found in matches {
            let at: Vec<String> = found.roots.iter().map(|root| self.label(*root)).collect();
            let at = at.join(" and ");
            let found = found.canonical(self);
            let done = record.as_ref().map(|record| record.done(&found));
            let places = match done {
                Some(Done::Applied) => &mut told.fires,
                Some(Done::Nothing) => match self.guarded(rule, found) {
                    Ok(_) => &mut told.waits,
                    Err(why) => {
                        told.refused.push((at, why));
                        continue;
                    }
                },
                None | Some(Done::Refused) => match self.makes(rule, found) {
                    // A fact became more precise after it was refused.
                    Ok(()) if done.is_some() => &mut told.waits,
                    Ok(()) => &mut told.fires,
                    Err(why) => {
                        told.refused.push((at, why));
                        continue;
                    }
                },
            };
            // Several matches may have one place.
            if !places.contains(&at) {
                places.push(at);
            }
        }
        told
    }

    /// Returns a match with its computed attributes, or the refusal of a cycle or a guard.
    fn guarded(&self, rule: &Rule, mut found: Match) -> Result<Match, String> {
        if rule.from.len() > 1 && Below::default().knots(self, &found) {
            return Err(KNOTS.to_owned());
        }
        self.admit(rule, &mut found, true).map_err(|no| no.to_string())?;
        Ok(found)
    }

    /// Makes the right sides of a match, or returns the first refusal.
    fn makes(&mut self, rule: &Rule, found: Match) -> Result<(), String> {
        let found = self.guarded(rule, found)?;
        for template in &rule.to {
            self.instantiate(template, &found)?;
        }
        Ok(())
    }

    /// Describes a class: its name in the model, if it has one, and its type.
    pub(super) fn label(&self, class: Id) -> String {
        let class = self.egg.find(class);
        let name = self.named.iter().find(|(_, id)| self.egg.find(*id) == class);
        let ty = self.ty(class);
        name.map_or_else(|| format!("a value of type {ty}"), |(name, _)| format!("`{name}` ({ty})"))
    }

    /// Lists the ops that compute a class.
    pub(super) fn ops(&self, class: Id) -> String {
        let mut ops: Vec<Op> = self.egg[class].iter().map(|term| term.op).collect();
        ops.sort_unstable();
        ops.dedup();
        ops.iter().map(|op| format!("`{op}`")).collect::<Vec<_>>().join(", ")
    }
}
