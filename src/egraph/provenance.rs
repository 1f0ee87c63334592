//! The origin of each e-node: the imported graph, or a rule at a match.

use super::matcher::Match;
use super::{EGraph, Term};
use crate::op::Op;
use crate::rule::Rule;
use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// The rule that made a node, and the match for which it was made.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub rule: Arc<Rule>,
    pub found: Rc<Match>,
}

/// How a node was derived.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The rules that led to it along the roots of their matches, the last one first.
    pub rules: Vec<Arc<Rule>>,
    /// The rules that made the other nodes that the left sides of these rules matched, and so on; also the rules that
    /// removed imported nodes which this node would otherwise read.
    pub others: Vec<Arc<Rule>>,
    /// The names and ops of the imported nodes that it came from, in the model's order: all that the left sides of
    /// any of these rules matched, and those that were removed between them.
    pub imported: Vec<(Arc<str>, Op)>,
}

/// A union that a rule made: the root of a left side, and the class that it equals. A rule may unite classes without
/// making nodes.
pub(super) struct Union {
    /// The position of the left side, and its root.
    pub root: (usize, Id),
    pub made: Id,
    pub origin: Origin,
}

/// The origin of each node that was ever added, by egg's numbers, and of each union. Imported nodes have no origin.
pub(super) struct Origins {
    nodes: Vec<Option<Origin>>,
    pub unions: Vec<Union>,
}

impl Origins {
    pub(crate) fn new(imported: usize) -> Self {
        Self { nodes: vec![None; imported], unions: Vec::new() }
    }

    /// Records that the nodes that were added since the last call came from this rule.
    pub(crate) fn record(&mut self, total: usize, rule: &Arc<Rule>, found: &Rc<Match>) {
        while self.nodes.len() < total {
            self.nodes.push(Some(Origin { rule: Arc::clone(rule), found: Rc::clone(found) }));
        }
    }

    /// Records that this rule united the root of a left side with the class that it made or found.
    pub(crate) fn unite(&mut self, root: (usize, Id), made: Id, rule: &Arc<Rule>, found: &Rc<Match>) {
        let origin = Origin { rule: Arc::clone(rule), found: Rc::clone(found) };
        self.unions.push(Union { root, made, origin });
    }

    pub(crate) fn origin(&self, id: Id) -> Option<&Origin> {
        self.nodes.get(usize::from(id)).and_then(Option::as_ref)
    }
}

/// The rules and imported nodes that a node came from, by egg's numbers.
#[derive(Default)]
struct Trace {
    rules: Vec<Arc<Rule>>,
    others: Vec<Arc<Rule>>,
    imported: BTreeSet<Id>,
    /// The nodes that were already followed.
    seen: FxHashSet<Id>,
}

impl Trace {
    fn other(&mut self, rule: &Arc<Rule>) {
        if !self.rules.iter().chain(&self.others).any(|known| Arc::ptr_eq(known, rule)) {
            self.others.push(Arc::clone(rule));
        }
    }
}

/// Finds the first origin of nodes of the current e-graph.
pub(super) struct OriginIndex<'a> {
    egraph: &'a EGraph,
    /// The nodes sorted by their current class. Those of a class begin at `start[class]`, the oldest first.
    nodes: Vec<Id>,
    start: Vec<u32>,
    /// The unions by their current class.
    unions: FxHashMap<Id, Vec<usize>>,
}

/// The reason why two nodes of a class are equal.
#[derive(Clone, Copy)]
enum Step {
    /// A rule made the union with this index.
    Rule(usize),
    /// The nodes became the same, because their operands became equal.
    Same(Id, Id),
}

impl<'a> OriginIndex<'a> {
    pub(crate) fn new(egraph: &'a EGraph) -> Self {
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
        let mut unions: FxHashMap<Id, Vec<usize>> = FxHashMap::default();
        for (at, union) in egraph.origins.unions.iter().enumerate() {
            unions.entry(egraph.egg.find(union.made)).or_default().push(at);
        }
        Self { egraph, nodes, start, unions }
    }

    /// Returns how each of these nodes of one graph was derived. An imported node from which no node was derived was
    /// removed: a rule found it equal to another value. It is reported at the node that would have read it or, if it
    /// was an output, at the node that computes the output now, with the rules that removed it.
    pub(crate) fn chains(&self, terms: &[Option<Term>]) -> Vec<Chain> {
        let mut traces: Vec<Trace> = terms.iter().map(|term| self.trace(term.as_ref())).collect();
        let mut known: FxHashSet<Id> =
            traces.iter().flat_map(|trace| trace.imported.iter().copied()).collect();
        // These are not removed: nodes from which something was derived, and nodes that compute a class now.
        known.extend(terms.iter().flatten().filter_map(|term| self.find(term)));
        for (_, output) in &self.egraph.outputs {
            let class = self.egraph.egg.find(*output);
            let here = |term: &Option<Term>| {
                let id = term.as_ref().and_then(|term| self.egraph.egg.lookup(term.clone()));
                id.is_some_and(|id| self.egraph.egg.find(id) == class)
            };
            if let (Some(at), false) = (terms.iter().position(here), known.contains(output)) {
                self.removed(*output, &known, &mut traces[at]);
            }
        }
        for trace in &mut traces {
            let mut told: FxHashSet<Id> = FxHashSet::default();
            while let Some(reader) = trace.imported.iter().find(|id| !told.contains(id)).copied() {
                told.insert(reader);
                for operand in &self.egraph.egg.nodes()[usize::from(reader)].children {
                    let leaf = self.egraph.egg.id_to_node(*operand).is_leaf();
                    if !leaf && !known.contains(operand) && !trace.imported.contains(operand) {
                        self.removed(*operand, &known, trace);
                    }
                }
            }
        }
        traces.into_iter().map(|trace| self.named(trace)).collect()
    }

    fn named(&self, trace: Trace) -> Chain {
        let Trace { rules, others, imported, .. } = trace;
        let named = self.egraph.named.iter().filter(|(_, id)| imported.contains(id));
        let imported = named.map(|(name, id)| (Arc::clone(name), self.egraph.egg.id_to_node(*id).op));
        Chain { rules, others, imported: imported.collect() }
    }

    fn trace(&self, term: Option<&Term>) -> Trace {
        let mut trace = Trace::default();
        let Some(first) = term.and_then(|term| self.find(term)) else { return trace };
        let mut at = Some(first);
        while let Some((id, origin)) = at.and_then(|id| Some((id, self.egraph.origins.origin(id)?))) {
            trace.rules.push(Arc::clone(&origin.rule));
            at = origin.found.head.as_ref().and_then(|head| self.before(id, head));
        }
        self.follow(first, &mut trace);
        trace
    }

    /// Follows a node back to imported nodes.
    fn follow(&self, first: Id, trace: &mut Trace) {
        let mut open = vec![first];
        while let Some(id) = open.pop() {
            if !trace.seen.insert(id) {
                continue;
            }
            let Some(Origin { rule, found }) = self.egraph.origins.origin(id) else {
                trace.imported.insert(id);
                continue;
            };
            trace.other(rule);
            let support = self.egraph.support(rule, found);
            open.extend(support.iter().rev().filter_map(|term| self.before(id, term)));
        }
    }

    /// Adds an imported node that was removed, and the rules that allowed this.
    fn removed(&self, id: Id, known: &FxHashSet<Id>, trace: &mut Trace) {
        trace.imported.insert(id);
        let there = |one: Id| known.contains(&one) || self.egraph.egg.id_to_node(one).is_leaf();
        let mut open = self.way(id, &there);
        let mut asked: FxHashSet<(Id, Id)> = FxHashSet::default();
        while let Some(step) = open.pop() {
            match step {
                Step::Rule(at) => {
                    let Origin { rule, found } = &self.egraph.origins.unions[at].origin;
                    trace.other(rule);
                    for term in self.egraph.support(rule, found) {
                        if let Some(id) = self.find(&term) {
                            self.follow(id, trace);
                        }
                    }
                }
                // Two nodes are the same because their operands are equal.
                Step::Same(one, other) => {
                    let operands = |id: Id| self.egraph.egg.nodes()[usize::from(id)].children.clone();
                    for (one, other) in operands(one).into_iter().zip(operands(other)) {
                        if one != other && asked.insert((one, other)) {
                            open.extend(self.way(one, &|id| id == other));
                        }
                    }
                }
            }
        }
    }

    /// Finds the shortest path within a class from a node to one that `to` accepts, along unions and along nodes that
    /// became the same.
    fn way(&self, from: Id, to: &dyn Fn(Id) -> bool) -> Vec<Step> {
        let class = self.egraph.egg.find(from);
        let unions = self.unions_of(class);
        let edges: Vec<(usize, Id, Id)> = unions.iter().map(|at| self.ends(*at)).collect();
        let mut came: FxHashMap<Id, Option<(Id, Step)>> = FxHashMap::default();
        came.insert(from, None);
        let mut open = VecDeque::from([from]);
        while let Some(id) = open.pop_front() {
            if to(id) {
                let mut way = Vec::new();
                let mut at = id;
                while let Some(Some((before, step))) = came.get(&at) {
                    way.push(*step);
                    at = *before;
                }
                return way;
            }
            let node = self.egraph.egg.id_to_node(id);
            let alike =
                |other: &Id| *other != id && self.egraph.same(self.egraph.egg.id_to_node(*other), node);
            let same = self
                .members(class)
                .iter()
                .filter(|other| alike(other))
                .map(|other| (*other, Step::Same(id, *other)));
            let united = edges.iter().filter_map(|(at, one, other)| match id {
                _ if id == *one => Some((*other, Step::Rule(*at))),
                _ if id == *other => Some((*one, Step::Rule(*at))),
                _ => None,
            });
            for (next, step) in united.chain(same).collect::<Vec<_>>() {
                came.entry(next).or_insert_with(|| {
                    open.push_back(next);
                    Some((id, step))
                });
            }
        }
        Vec::new()
    }

    /// Returns the two nodes that a union joined. The first is the node that the rule matched, if it is known.
    fn ends(&self, at: usize) -> (usize, Id, Id) {
        let Union { root: (position, root), made, origin } = &self.egraph.origins.unions[at];
        let head = origin.found.head.as_ref().filter(|_| *position == 0);
        (at, head.and_then(|head| self.find(head)).unwrap_or(*root), *made)
    }

    /// The unions of a class, by their indices.
    pub(crate) fn unions_of(&self, class: Id) -> &[usize] {
        self.unions.get(&class).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes of a class, the oldest first.
    pub(crate) fn members(&self, class: Id) -> &[Id] {
        let class = usize::from(class);
        &self.nodes[self.start[class] as usize..self.start[class + 1] as usize]
    }

    /// Finds the node from which another came. It must be older: a younger one was added again later.
    pub(crate) fn before(&self, id: Id, term: &Term) -> Option<Id> {
        self.find(term).filter(|one| *one < id)
    }

    /// Finds the first node that equals this term in the current e-graph.
    pub(crate) fn find(&self, term: &Term) -> Option<Id> {
        let egg = &self.egraph.egg;
        let class = egg.find(egg.lookup(term.clone())?);
        self.members(class).iter().find(|id| self.egraph.same(egg.id_to_node(**id), term)).copied()
    }
}
