//! A model with everything that rules have found equal to it.

use super::priced::{self, Priced};
use super::recorder::{Kernel, Recorder};
use super::target::Target;
use crate::cost::CostModel;
use crate::egraph::{Clock, EGraph, Limits, SaturateError, Saturation, UnknownValue, WhyNot};
use crate::error::Error;
use crate::op::Call;
use crate::rule::Rule;
use crate::verify::Verified;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What one phase of rewriting did.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The phase's name in its pipeline.
    pub name: String,
    /// What its rules did, and why it ended.
    pub saturation: Saturation,
}

/// The second stage: the e-graph, grown by phases of rewriting, each within its limits.
pub struct Saturated {
    graph: Verified,
    egraph: EGraph,
    phases: Vec<Phase>,
}

impl Saturated {
    /// The e-graph of a graph, which no rule has changed yet.
    pub(super) fn new(graph: Verified) -> Self {
        let egraph = EGraph::new(&graph);
        Self { graph, egraph, phases: Vec::new() }
    }

    /// The graph that the e-graph began with.
    pub fn graph(&self) -> &Verified {
        &self.graph
    }

    /// The e-graph.
    pub fn egraph(&self) -> &EGraph {
        &self.egraph
    }

    /// Grows the e-graph by a phase of rewriting. `clock` tells the time for the report of what each rule took;
    /// nothing else depends on it.
    ///
    /// # Errors
    /// A rule that equates values of different types.
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

    /// What each phase did, in order.
    pub fn growth(&self) -> &[Phase] {
        &self.phases
    }

    /// The names of the rules that changed the e-graph, each once, in alphabetical order. Without any other rule the
    /// e-graph would be the same.
    pub fn applied(&self) -> BTreeSet<&str> {
        let rules = self.phases.iter().flat_map(|phase| &phase.saturation.growth);
        rules.filter(|rule| rule.applied > 0).map(|rule| rule.rule.as_str()).collect()
    }

    /// Why a rule does not change the e-graph, at the value of this name or anywhere. The e-graph may keep right
    /// sides that were built to find that out; no program contains them.
    ///
    /// # Errors
    /// No value has the name.
    pub fn why_not(&mut self, rule: &Arc<Rule>, node: Option<&str>) -> Result<WhyNot, UnknownValue> {
        self.egraph.why_not(rule, node)
    }

    /// The features of each distinct kernel that may be chosen, with its price where the model has one.
    ///
    /// # Errors
    /// What went wrong while the model was asked.
    pub fn features(&self, model: &dyn CostModel, target: &Target) -> Result<Vec<Kernel>, Error> {
        let recorder = Recorder::new(model);
        let contracts = |call: &Call<'_>| target.contract(call);
        let _ = self.egraph.problem(&recorder, target.threads, &contracts);
        priced::sound(model)?;
        Ok(recorder.kernels())
    }

    /// Prices every kernel that the target runs.
    ///
    /// # Errors
    /// Kernels without a price; values that no kernel of the target computes; what went wrong while the model was
    /// asked.
    pub fn price(&self, model: Box<dyn CostModel>, target: &Target) -> Result<Priced<'_>, Error> {
        Priced::new(&self.egraph, model, target)
    }
}
