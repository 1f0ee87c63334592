//! Where each e-node came from: the imported graph, or a rule at a match.

use super::{EGraph, Term};
use crate::rule::Rule;
use egg::Id;
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
    /// Nodes by their class of today, the class's nodes from `start[class]` on, the oldest first.
    nodes: Vec<Id>,
    start: Vec<u32>,
}

impl<'a> OriginIndex<'a> {
    pub fn new(egraph: &'a EGraph) -> Self {
        let count = egraph.egg.nodes().len();
        let classes: Vec<usize> =
            (0..count).map(|index| usize::from(egraph.egg.find(Id::from(index)))).collect();
        let mut start = vec![0; count + 1];
        classes.iter().for_each(|class| start[class + 1] += 1);
        for class in 0..count {
            start[class + 1] += start[class];
        }
        let mut next = start.clone();
        let mut nodes = vec![Id::from(0); count];
        for (index, class) in classes.into_iter().enumerate() {
            nodes[next[class] as usize] = Id::from(index);
            next[class] += 1;
        }
        Self { egraph, nodes, start }
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
        let egg = &self.egraph.egg;
        let class = usize::from(egg.find(egg.lookup(term.clone())?));
        let same = |id: &&Id| {
            let node = egg.id_to_node(**id);
            node.op == term.op
                && node.attrs == term.attrs
                && node.children.len() == term.children.len()
                && node.children.iter().zip(&term.children).all(|(a, b)| egg.find(*a) == egg.find(*b))
        };
        self.nodes[self.start[class] as usize..self.start[class + 1] as usize].iter().find(same).copied()
    }
}
