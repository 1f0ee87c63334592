//! Where each e-node came from: the imported graph, or a rule at a match.

use super::{EGraph, Term};
use crate::rule::Rule;
use egg::Id;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The rule that made a node, and the node at the root of what it matched.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The rule.
    pub rule: Arc<Rule>,
    head: Term,
}

/// The origin of each node ever added, by egg's own numbering; imported nodes have none.
pub(super) struct Origins(Vec<Option<Origin>>);

impl Origins {
    pub fn new(imported: usize) -> Self {
        Self(vec![None; imported])
    }

    /// Says that the nodes added since the last call came from this rule.
    pub fn record(&mut self, total: usize, rule: &Arc<Rule>, head: &Term) {
        while self.0.len() < total {
            self.0.push(Some(Origin { rule: Arc::clone(rule), head: head.clone() }));
        }
    }

    fn of(&self, id: Id) -> Option<&Origin> {
        self.0.get(usize::from(id)).and_then(Option::as_ref)
    }
}

/// Finds the first origin of nodes as they stand in the e-graph now.
pub(super) struct OriginIndex<'a> {
    egraph: &'a EGraph,
    first: FxHashMap<Term, Id>,
}

impl<'a> OriginIndex<'a> {
    pub fn new(egraph: &'a EGraph) -> Self {
        let mut first = FxHashMap::default();
        for (index, node) in egraph.egg.nodes().iter().enumerate() {
            let mut node = node.clone();
            node.children.iter_mut().for_each(|child| *child = egraph.egg.find(*child));
            first.entry(node).or_insert_with(|| Id::from(index));
        }
        Self { egraph, first }
    }

    /// The rules that led to a node, the last one first, back to an imported node.
    pub fn chain(&self, term: &Term) -> Vec<Arc<Rule>> {
        let mut chain: Vec<Arc<Rule>> = Vec::new();
        let mut at = self.find(term);
        while let Some(origin) = at.and_then(|id| self.egraph.origins.of(id)) {
            chain.push(Arc::clone(&origin.rule));
            // A node is younger than the one it came from, unless that one came again later.
            at = self.find(&origin.head).filter(|head| Some(*head) < at);
        }
        chain
    }

    /// The first node that is this term as the e-graph stands now.
    fn find(&self, term: &Term) -> Option<Id> {
        let mut canonical = term.clone();
        canonical.children.iter_mut().for_each(|child| *child = self.egraph.egg.find(*child));
        self.first.get(&canonical).copied()
    }
}
