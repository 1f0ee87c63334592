//! Where each e-node came from: the imported graph, or a rule at a match.

use super::matcher::Match;
use super::{EGraph, Term};
use crate::rule::Rule;
use egg::Id;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// The rule that made a node, and the match that it was made for.
#[derive(Clone, Debug)]
struct Origin {
    rule: Arc<Rule>,
    found: Rc<Match>,
}

/// How a node came about.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The rules that led to it, the last one first, along the roots of what they matched.
    pub rules: Vec<Arc<Rule>>,
    /// The rules that made what else the left sides of these stood in, and so on.
    pub others: Vec<Arc<Rule>>,
    /// The imported nodes that it came from, in the model's order: all in which left sides of any of these
    /// rules stood. Names and ops.
    pub imported: Vec<(Arc<str>, &'static str)>,
}

/// The origin of each node ever added, by egg's own numbering; imported nodes have none.
pub(super) struct Origins(Vec<Option<Origin>>);

impl Origins {
    pub fn new(imported: usize) -> Self {
        Self(vec![None; imported])
    }

    /// Says that the nodes added since the last call came from this rule.
    pub fn record(&mut self, total: usize, rule: &Arc<Rule>, found: &Rc<Match>) {
        while self.0.len() < total {
            self.0.push(Some(Origin { rule: Arc::clone(rule), found: Rc::clone(found) }));
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

    /// The rules that led to a node, and the imported nodes that they began with.
    pub fn chain(&self, term: &Term) -> Chain {
        let mut rules: Vec<Arc<Rule>> = Vec::new();
        let Some(first) = self.find(term) else { return Chain::default() };
        let mut at = Some(first);
        while let Some((id, origin)) = at.and_then(|id| Some((id, self.egraph.origins.of(id)?))) {
            rules.push(Arc::clone(&origin.rule));
            at = origin.found.head.as_ref().and_then(|head| self.before(id, head));
        }
        let mut seen = FxHashSet::default();
        let mut imported = BTreeSet::new();
        let mut others: Vec<Arc<Rule>> = Vec::new();
        let mut open = vec![first];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some(Origin { rule, found }) = self.egraph.origins.of(id) else {
                imported.insert(id);
                continue;
            };
            if !rules.iter().chain(&others).any(|known| Arc::ptr_eq(known, rule)) {
                others.push(Arc::clone(rule));
            }
            let support = self.egraph.support(rule, found);
            open.extend(support.iter().rev().filter_map(|term| self.before(id, term)));
        }
        let named = self.egraph.named.iter().filter(|(_, id)| imported.contains(id));
        let imported = named.map(|(name, id)| (Arc::clone(name), self.egraph.egg.id_to_node(*id).op));
        Chain { rules, others, imported: imported.collect() }
    }

    /// A node that another came from. It is the older one, unless it came again later.
    fn before(&self, id: Id, term: &Term) -> Option<Id> {
        self.find(term).filter(|one| *one < id)
    }

    /// The first node that is this term as the e-graph stands now.
    fn find(&self, term: &Term) -> Option<Id> {
        let egg = &self.egraph.egg;
        let class = usize::from(egg.find(egg.lookup(term.clone())?));
        let nodes = &self.nodes[self.start[class] as usize..self.start[class + 1] as usize];
        nodes.iter().find(|id| self.egraph.same(egg.id_to_node(**id), term)).copied()
    }
}
