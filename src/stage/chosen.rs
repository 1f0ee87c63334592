//! A program that was chosen among all programs of an e-graph.

use super::objective::Objective;
use super::target::Target;
use crate::cost::CostModel;
use crate::egraph::{Chain, Pick, Program};
use crate::extract::Extraction;
use crate::graph::Graph;
use crate::memory::Limit;
use crate::plan::{Source, SourceNode};
use crate::rule::Rule;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The fourth stage: a program of lowered ops, with its cost.
#[derive(Clone)]
pub struct Chosen {
    /// The extraction. Its cost includes the copies that the plan adds.
    pub extraction: Extraction,
    /// The sum of time and memory, if the choice weighed memory.
    pub objective: Option<Objective>,
    /// The program.
    pub program: Graph,
    /// The origin of each node of the program.
    pub sources: Vec<Source>,
    /// The lowered ops that had no kernel: op, reason, number of nodes.
    pub missing: Vec<(String, String, usize)>,
    pub(super) model: Arc<dyn CostModel>,
    pub(super) target: Target,
    /// The limits of arenas that the program was chosen to be planned for; `None` for what the limits of the planning
    /// leave beside the constants.
    pub(super) within: Option<Limit>,
}

impl Chosen {
    /// Returns the names of the rules that led to the program's nodes.
    pub fn rules(&self) -> BTreeSet<&str> {
        let rules = self.sources.iter().flat_map(|source| source.rules.iter().chain(&source.others));
        rules.map(|rule| rule.split(' ').next().unwrap_or(rule)).collect()
    }

    /// Returns the cost model by which the program was chosen.
    pub fn model(&self) -> &dyn CostModel {
        &*self.model
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("extraction", &self.extraction)
            .field("model", &self.model.name())
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Returns a description of the origin of each node of a program.
pub(super) fn sources(pick: &Pick<'_>, program: &Program) -> Vec<Source> {
    let rule = |rule: &Arc<Rule>| format!("{} ({}:{})", rule.name, rule.file, rule.line);
    let source = |chain: Chain| Source {
        rules: chain.rules.iter().map(rule).collect(),
        others: chain.others.iter().map(rule).collect(),
        imported: chain
            .imported
            .into_iter()
            .map(|(name, op)| SourceNode { name, op: op.to_string() })
            .collect(),
        again: false,
    };
    let mut sources: Vec<Source> = pick.provenance(program).into_iter().map(source).collect();
    sources.iter_mut().zip(&program.again).for_each(|(source, again)| source.again = *again);
    sources
}
