//! Losses, from a table.

use super::apply::build;
use super::builder::Builder;
use super::error::TrainError;
use super::form::{self, LOSS};
use ovolo::error::suggestion;
use ovolo::graph::NodeId;
use ovolo::registry::Registry;
use ovolo::rule::{Pattern, Rule, RuleSet};
use std::sync::Arc;

/// The name of the table in messages.
const NAME: &str = "train/ops/losses.ron";
/// The text of the table.
const TEXT: &str = include_str!("../ops/losses.ron");

/// Losses that take scores, with the op that makes probabilities of scores. A model that ends with that op would have its
/// probabilities taken for scores.
const OF_SCORES: &[(&str, &str)] = &[("cross-entropy", "softmax"), ("binary-cross-entropy", "sigmoid")];

/// A number that training makes small.
#[derive(Clone, Debug)]
pub struct Loss(Arc<Rule>);

impl Loss {
    /// Returns the losses of the table, in order.
    ///
    /// # Errors
    /// The table has mistakes.
    pub fn all(registry: &Registry) -> Result<Vec<Self>, TrainError> {
        let mut registry = registry.clone();
        form::add_to(&mut registry)?;
        let set = RuleSet::read(registry.vocabulary(), &[(NAME, TEXT)]).map_err(TrainError::Table)?;
        let is_loss = |rule: &&Arc<Rule>| matches!(&rule.from[..], [Pattern::Op { op, .. }] if *op == LOSS);
        Ok(set.rules().iter().filter(is_loss).map(|rule| Self(Arc::clone(rule))).collect())
    }

    /// Returns the loss of this name.
    ///
    /// # Errors
    /// There is no such loss.
    pub fn find(registry: &Registry, name: &str) -> Result<Self, TrainError> {
        let all = Self::all(registry)?;
        let names = || all.iter().map(Self::name);
        let help = || match suggestion(name, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        let found = all.iter().find(|loss| loss.name() == name).cloned();
        found.ok_or_else(|| TrainError::Unknown { kind: "loss", name: name.to_owned(), help: help() })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds the loss of an output to a graph, with an input `labels`.
    ///
    /// # Errors
    /// The output does not fit the loss.
    pub(crate) fn apply(&self, builder: &mut Builder<'_>, output: NodeId) -> Result<NodeId, TrainError> {
        let node = &builder.graph()[output];
        let name = node.name.to_string();
        if OF_SCORES.iter().any(|(loss, op)| *loss == self.name() && node.op == *op) {
            let scores = &builder.graph()[node.inputs[0]].name;
            return Err(TrainError::Unfit {
                loss: self.name().to_owned(),
                why: format!(
                    "it takes scores, and this is a {} of the scores `{scores}`: give --of {scores}",
                    node.op
                ),
                output: name,
            });
        }
        let unfit = |why| TrainError::Unfit { loss: self.name().to_owned(), output: name, why };
        build(&self.0, builder, &[output], "loss", unfit)
    }
}
