//! The table of derivatives: for each op, the gradient with respect to each operand as a rule.

use super::error::TrainError;
use super::form::{self, GRADIENT};
use ovolo::registry::Registry;
use ovolo::rule::{Pattern, Rule, RuleSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of ovolo's own table in messages.
const NAME: &str = "train/ops/gradients.ron";
/// The text of ovolo's own table.
pub(crate) const TEXT: &str = include_str!("../ops/gradients.ron");

/// The derivatives of ops.
#[derive(Clone, Debug)]
pub struct Table {
    registry: Registry,
    rules: Vec<Arc<Rule>>,
    by_op: BTreeMap<&'static str, Vec<Entry>>,
}

/// One rule of the table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Where the operand stands among the op's patterns.
    pub place: usize,
}

impl Entry {
    /// Takes a rule of the form `(gradient ?x (op … ?x …) ?d)`, whose operands are variables.
    fn new(rule: &Arc<Rule>) -> Option<(&'static str, Self)> {
        let [Pattern::Op { op, children, .. }] = &rule.from[..] else { return None };
        let [
            Pattern::Operand(by),
            Pattern::Op { op: inner, children: operands, .. },
            Pattern::Operand(above),
        ] = &children[..]
        else {
            return None;
        };
        let place = operands.iter().position(|operand| *operand == Pattern::Operand(*by))?;
        let variables = operands.iter().enumerate().all(|(at, operand)| match operand {
            Pattern::Operand(var) => var != above && (at == place || var != by),
            Pattern::Rest(_) | Pattern::Optional(_) => true,
            Pattern::Number(..) | Pattern::Op { .. } => false,
        });
        let spreads = |part: &[Pattern]| part.iter().filter(|operand| operand.spread().is_some()).count();
        let few = spreads(&operands[..place]) <= 1 && spreads(&operands[place..]) <= 1;
        let fits = *op == GRADIENT && *inner != GRADIENT && by != above && variables && few;
        fits.then(|| (inner.name, Self { rule: Arc::clone(rule), place }))
    }

    /// The op whose derivative it is, as the rule matches it.
    pub fn pattern(&self) -> &Pattern {
        match &self.rule.from[..] {
            [Pattern::Op { children, .. }] => &children[1],
            _ => unreachable!("a table holds rules of one form"),
        }
    }
}

impl Table {
    /// Returns ovolo's own table for the ops and functions of a registry.
    ///
    /// # Errors
    /// The registry has an op or a word with a name that the table uses for its own.
    pub fn new(registry: &Registry) -> Result<Self, TrainError> {
        Self::with(registry, &[])
    }

    /// Returns the table of a registry with rules of other files before its own.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn with(registry: &Registry, files: &[(&str, &str)]) -> Result<Self, TrainError> {
        Self::read(registry, &[files, &[(NAME, TEXT)]].concat())
    }

    /// Reads a table from files, given as names and texts. Of several rules for one operand, the first one whose guards
    /// accept it is taken.
    ///
    /// # Errors
    /// All mistakes of all files, or a rule that is not of the form of the table.
    pub fn read(registry: &Registry, files: &[(&str, &str)]) -> Result<Self, TrainError> {
        let mut registry = registry.clone();
        form::add_to(&mut registry)?;
        let set = RuleSet::read(registry.vocabulary(), files).map_err(TrainError::Table)?;
        Self::of_rules(registry, set.rules().to_vec())
    }

    fn of_rules(registry: Registry, rules: Vec<Arc<Rule>>) -> Result<Self, TrainError> {
        let mut by_op: BTreeMap<&'static str, Vec<Entry>> = BTreeMap::new();
        for rule in &rules {
            let (op, entry) = Entry::new(rule).ok_or_else(|| TrainError::Form {
                rule: rule.name.clone(),
                file: rule.file.clone(),
                line: rule.line,
            })?;
            by_op.entry(op).or_default().push(entry);
        }
        Ok(Self { registry, rules, by_op })
    }

    /// Returns the rules, in order.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Returns the registry by which the table was read: the caller's, with the op and the computed attributes of the table.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the names of the ops that have a derivative.
    pub fn ops(&self) -> impl Iterator<Item = &'static str> {
        self.by_op.keys().copied()
    }

    /// Returns the entries of an op, in order.
    pub(crate) fn entries(&self, op: &str) -> &[Entry] {
        self.by_op.get(op).map_or(&[], Vec::as_slice)
    }
}
