//! A model with all equal programs that rules have found.

use super::priced::{self, Priced};
use super::recorder::{PricedKernel, Recorder};
use super::target::Target;
use crate::cost::CostModel;
use crate::egraph::{Clock, EGraph, Limits, SaturateError, Saturation, UnknownValue, WhyNot};
use crate::error::Error;
use crate::op::Call;
use crate::rule::Rule;
use crate::verify::Verified;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of one phase of rewriting.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The phase's name in its pipeline.
    pub name: String,
    /// What the rules of the phase did, and why it ended.
    pub saturation: Saturation,
}

/// The second stage: the e-graph, to which phases of rewriting have added nodes, each within its limits.
pub struct Saturated {
    graph: Verified,
    egraph: EGraph,
    phases: Vec<Phase>,
}

impl Saturated {
    /// Returns the e-graph of a graph, which no rule has changed yet.
    pub(super) fn new(graph: Verified) -> Self {
        let egraph = EGraph::new(&graph);
        Self { graph, egraph, phases: Vec::new() }
    }

    /// Returns the graph from which the e-graph was made.
    pub fn graph(&self) -> &Verified {
        &self.graph
    }

    /// Returns the e-graph.
    pub fn egraph(&self) -> &EGraph {
        &self.egraph
    }

    /// Runs a phase of rewriting on the e-graph. `clock` is only used to report the time of each rule.
    ///
    /// # Errors
    /// If a rule equates values of different types.
    pub fn grow(
        &mut self,
        name: &str,
        rules: &[Arc<Rule>],
        limits: Limits,
        clock: Clock<'_>,
    ) -> Result<&Saturation, SaturateError> {
        let saturation = self.egraph.saturate(rules, limits, clock)?;
        self.egraph.ended(name, &saturation.stop);
        let at = self.phases.len();
        self.phases.push(Phase { name: name.to_owned(), saturation });
        Ok(&self.phases[at].saturation)
    }

    /// Returns the results of the phases, in order.
    pub fn growth(&self) -> &[Phase] {
        &self.phases
    }

    /// Returns the names of the rules that changed the e-graph, in alphabetical order. Without all other rules the
    /// e-graph would be the same.
    pub fn applied(&self) -> BTreeSet<&str> {
        let rules = self.phases.iter().flat_map(|phase| &phase.saturation.growth);
        rules.filter(|rule| rule.applied > 0).map(|rule| rule.rule.as_str()).collect()
    }

    /// Returns why a rule does not change the e-graph, at the value of this name or anywhere. The search may build
    /// right sides and leave them in the e-graph; no program contains them.
    ///
    /// # Errors
    /// If no value has the name.
    pub fn why_not(&mut self, rule: &Arc<Rule>, node: Option<&str>) -> Result<WhyNot, UnknownValue> {
        self.egraph.why_not(rule, node)
    }

    /// Returns the features of each distinct kernel that may be chosen, with its price if the model has one.
    ///
    /// # Errors
    /// If the cost model fails.
    pub fn features(&self, model: &dyn CostModel, target: &Target) -> Result<Vec<PricedKernel>, Error> {
        priced::announce(&self.egraph, model, target);
        let recorder = Recorder::new(model);
        let contracts = |call: &Call<'_>| target.contract(call);
        let _ = self.egraph.problem(&recorder, target.threads, &contracts);
        priced::sound(model)?;
        Ok(recorder.kernels())
    }

    /// Prices every kernel that the target can run.
    ///
    /// # Errors
    /// If kernels have no price, if no kernel of the target computes a value, or if the cost model fails.
    pub fn price(&self, model: Box<dyn CostModel>, target: &Target) -> Result<Priced<'_>, Error> {
        Priced::new(&self.egraph, model, target)
    }
}
