//! Shows what one rule does to a graph, without saturation.

use super::matcher::Match;
use super::{EGraph, Term};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::scalar;
use crate::rule::{No, Rule};
use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What a rule does to a graph.
#[derive(Clone, Debug)]
pub enum Probe {
    /// It fires. The graph has the right side at the first match.
    Fires(Graph),
    /// It matches, but a guard or a type refuses every match.
    Refuses {
        /// The guard as it is written; empty if the right side has no type.
        guard: String,
        /// The reason.
        reason: String,
    },
    /// Its left side matches nowhere.
    NoMatch,
    /// The right side is already there.
    NoEffect,
    /// The two sides have different types: those of the left and of the right side.
    Mistyped(String, String),
}

impl EGraph {
    /// Applies a rule to this e-graph without uniting anything. The nodes of the right side stay in the e-graph, so
    /// it must not be used for anything else afterwards.
    pub fn probe(&mut self, rule: &Rule) -> Probe {
        let mut refusal = None;
        let mut effect = true;
        for mut found in self.matches(rule, None) {
            if let Err((guard, reason)) = self.ask(rule, &mut found) {
                refusal.get_or_insert(Probe::Refuses { guard, reason });
                continue;
            }
            let made: Result<Vec<Id>, String> =
                rule.to.iter().map(|template| self.instantiate(template, &found)).collect();
            self.egg.rebuild();
            let made = match made {
                Ok(made) => made,
                Err(reason) => {
                    refusal.get_or_insert(Probe::Refuses { guard: String::new(), reason });
                    continue;
                }
            };
            for (root, made) in found.roots.iter().zip(&made) {
                let (left, right) = (self.ty(*root), self.ty(*made));
                if left != right {
                    return Probe::Mistyped(left.to_string(), right.to_string());
                }
            }
            let changes = |(root, made): (&Id, &Id)| self.egg.find(*root) != self.egg.find(*made);
            if found.roots.iter().zip(&made).any(changes) {
                return Probe::Fires(self.replaced(&found, &made));
            }
            effect = false;
        }
        match (refusal, effect) {
            (Some(refusal), _) => refusal,
            (None, false) => Probe::NoEffect,
            (None, true) => Probe::NoMatch,
        }
    }

    /// Does the same as [`EGraph::admit`], with the guard separate from the reason.
    fn ask(&self, rule: &Rule, found: &mut Match) -> Result<(), (String, String)> {
        self.admit(rule, found, true).map_err(|no| match no {
            No::Guard { guard, why } => (guard, why.to_string()),
            other => (String::new(), other.to_string()),
        })
    }

    /// Returns the graph in which the right sides replace the left sides. Within and below a right side nothing is
    /// replaced.
    fn replaced(&self, found: &Match, made: &[Id]) -> Graph {
        let instead: FxHashMap<Id, Id> = found
            .roots
            .iter()
            .zip(made)
            .map(|(root, made)| (self.egg.find(*root), self.egg.find(*made)))
            .collect();
        let mut names: FxHashMap<Id, Arc<str>> = FxHashMap::default();
        for (name, id) in &self.named {
            names.entry(self.egg.find(*id)).or_insert_with(|| Arc::clone(name));
        }
        let mut builder = Replacer {
            egraph: self,
            instead,
            names,
            taken: FxHashSet::default(),
            done: FxHashMap::default(),
            graph: Graph::new(),
        };
        for (name, _) in &self.inputs {
            if let Some(class) = self.egg.lookup(Term::leaf(INPUT, name)) {
                builder.node(class, false);
            }
        }
        for (name, id) in &self.outputs {
            let node = builder.node(self.egg.find(*id), true);
            builder.graph.add_output(name, node);
        }
        builder.graph
    }
}

struct Replacer<'a> {
    egraph: &'a EGraph,
    /// For the root of each left side, the class of the right side.
    instead: FxHashMap<Id, Id>,
    names: FxHashMap<Id, Arc<str>>,
    taken: FxHashSet<Arc<str>>,
    done: FxHashMap<(Id, bool), NodeId>,
    graph: Graph,
}

impl Replacer<'_> {
    /// Adds the oldest node of a class, after its operands. If `above` is true, the roots of left sides are replaced.
    /// It is recursive, because it is used on small examples only.
    fn node(&mut self, class: Id, above: bool) -> NodeId {
        let class = self.egraph.egg.find(class);
        if let Some(done) = self.done.get(&(class, above)) {
            return *done;
        }
        let made = self.instead.get(&class).copied().filter(|_| above);
        let name = self.names.get(&class).cloned();
        let id = match made {
            Some(made) => match self.named(made) {
                // The right side is a value that already has a name.
                Some(_) => self.node(made, false),
                None => self.add(made, name, false),
            },
            None => {
                let plain = above.then(|| self.done.get(&(class, false)).copied()).flatten();
                let same = plain.filter(|_| !self.reaches(class));
                same.unwrap_or_else(|| self.add(class, name, above))
            }
        };
        self.done.insert((class, above), id);
        id
    }

    fn named(&self, class: Id) -> Option<&Arc<str>> {
        self.names.get(&self.egraph.egg.find(class))
    }

    /// Returns whether a value is computed from a root that is replaced.
    fn reaches(&self, class: Id) -> bool {
        let class = self.egraph.egg.find(class);
        self.instead.contains_key(&class)
            || self.egraph.egg[class].nodes[0].children.iter().any(|child| self.reaches(*child))
    }

    fn add(&mut self, class: Id, name: Option<Arc<str>>, above: bool) -> NodeId {
        let egg = &self.egraph.egg;
        let term = egg[class].nodes[0].clone();
        if let Some(leaf) = term.leaf_name() {
            if let Some(done) = self.graph.find(leaf) {
                return done;
            }
            return match self.egraph.constant(leaf) {
                Some(value) if term.op == CONST => self.graph.add_constant(leaf, value.clone()),
                _ => self.graph.add_input(leaf, self.egraph.ty(class).clone()),
            };
        }
        let below = above && self.reaches(class);
        let inputs: Vec<NodeId> = term.children.iter().map(|child| self.node(*child, below)).collect();
        let first = inputs.first().map_or("", |input| &self.graph[*input].name);
        let mut name = name.unwrap_or_else(|| match term.op == scalar() {
            true => format!("scalar{}", self.taken.len()).into(),
            false => format!("{first}.{}", term.op.own_name()).into(),
        });
        while !self.taken.insert(Arc::clone(&name)) {
            name = format!("{name}'").into();
        }
        let ty = self.egraph.ty(class).clone();
        self.graph.add_node(Node { op: term.op, attrs: Arc::clone(term.attrs.arc()), inputs, name, ty })
    }
}
