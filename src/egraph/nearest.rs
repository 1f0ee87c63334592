//! Why a rule does not fire: how far its left sides stand, and what stops them.

use super::EGraph;
use super::matcher::size;
use crate::rule::print::Names;
use crate::rule::{Pattern, Rule};
use egg::Id;
use std::sync::Arc;

/// Where a search got furthest.
#[derive(Default)]
pub(super) struct Nearest {
    /// Only this class may be the root of the first left side.
    only: Option<Id>,
    miss: Option<(usize, Pattern, Option<Id>, String)>,
}

impl Nearest {
    /// Whether a class may be the root of the left side in this position.
    pub fn looks_at(&self, position: usize, class: Id) -> bool {
        position > 0 || self.only.is_none_or(|only| only == class)
    }

    /// A part that does not stand at a class, or anywhere, when so many do. The first that got
    /// furthest is kept.
    pub fn note(&mut self, depth: usize, pattern: &Pattern, class: Option<Id>, why: impl FnOnce() -> String) {
        if self.miss.as_ref().is_none_or(|(best, ..)| depth > *best) {
            self.miss = Some((depth, pattern.clone(), class, why()));
        }
    }
}

/// What keeps a rule from firing, or that it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It fires so often, at these values.
    Fires(Vec<String>),
    /// It matches, and a guard or a type says no: where, what, and why.
    Refused {
        /// The values at the roots of the left sides.
        at: String,
        /// How many matches were refused.
        times: usize,
        /// The guard with its reason.
        reason: String,
    },
    /// The nearest miss.
    Miss {
        /// Parts of the left sides that stand.
        stands: usize,
        /// Parts that the left sides have.
        of: usize,
        /// The part that does not stand.
        part: String,
        /// The value where it should, or `some value`.
        at: String,
        /// What is there.
        why: String,
    },
    /// There is nothing to begin with: the op at the root of a left side is nowhere.
    Nowhere(String),
}

impl EGraph {
    /// Why a rule does not fire on the e-graph as it stands, at one value or anywhere.
    ///
    /// # Errors
    /// If no value has that name.
    pub fn why_not(&self, rule: &Arc<Rule>, node: Option<&str>) -> Result<WhyNot, String> {
        let only = match node {
            None => None,
            Some(name) => {
                let known = || self.named.iter().map(|(name, _)| &**name);
                let found = self.named.iter().find(|(known, _)| **known == *name);
                let hint = || {
                    crate::error::suggestion(name, known()).map(|close| format!(": did you mean `{close}`?"))
                };
                let (_, id) = found
                    .ok_or_else(|| format!("no value is called `{name}`{}", hint().unwrap_or_default()))?;
                Some(self.egg.find(*id))
            }
        };
        let mut nearest = Nearest { only, miss: None };
        let matches = self.search(rule, None, Some(&mut nearest));
        let mut fires = Vec::new();
        let mut refused: Vec<(String, String)> = Vec::new();
        for mut found in matches {
            let at: Vec<String> = found.roots.iter().map(|root| self.label(*root)).collect();
            match self.admit(rule, &mut found) {
                Ok(()) => fires.push(at.join(" and ")),
                Err(why) => refused.push((at.join(" and "), why)),
            }
        }
        if !fires.is_empty() {
            return Ok(WhyNot::Fires(fires));
        }
        if let Some((at, reason)) = refused.first().cloned() {
            return Ok(WhyNot::Refused { at, times: refused.len(), reason });
        }
        let names = Names::of(rule);
        Ok(match nearest.miss {
            Some((stands, part, class, why)) => WhyNot::Miss {
                stands,
                of: rule.from.iter().map(size).sum(),
                part: names.pattern(&part),
                at: class.map_or_else(|| "some value".into(), |class| self.label(class)),
                why,
            },
            None => WhyNot::Nowhere(names.pattern(&rule.from[0])),
        })
    }

    /// A class in words: its name in the model, if it has one, and its type.
    pub(super) fn label(&self, class: Id) -> String {
        let class = self.egg.find(class);
        let name = self.named.iter().find(|(_, id)| self.egg.find(*id) == class);
        let ty = self.ty(class);
        name.map_or_else(|| format!("a value of type {ty}"), |(name, _)| format!("`{name}` ({ty})"))
    }

    /// The ops that compute a class.
    pub(super) fn ops(&self, class: Id) -> String {
        let mut ops: Vec<&str> = self.egg[class].iter().map(|term| term.op).collect();
        ops.sort_unstable();
        ops.dedup();
        ops.iter().map(|op| format!("`{op}`")).collect::<Vec<_>>().join(", ")
    }
}
