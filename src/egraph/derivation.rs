//! Why a program equals the model: the e-nodes as they were added, and the equalities that rules made between them.
//!
//! An e-node has a number, its age: nodes are added one after the other, and a node's operands are older than it is. So
//! a node has a value of its own, which follows from its operands by their numbers and does not depend on what rules
//! equated later. A rule whose equality does not hold equates two nodes with different values. This is how a wrong rule
//! is found on given inputs, by whoever can evaluate nodes.

use super::provenance::{Origin, OriginIndex};
use super::shared::Shared;
use super::{EGraph, Operands, Term};
use crate::attr::Attrs;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::rule::Rule;
use crate::tensor::{Tensor, TensorType};
use egg::Id;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The history of an e-graph, as far as it concerns one of its programs.
pub struct Derivation<'a> {
    egraph: &'a EGraph,
    index: OriginIndex<'a>,
    /// For each node of the program, the first e-node that equals it.
    made: Vec<Option<Id>>,
}

/// An e-node as it was added.
#[derive(Clone, Debug)]
pub struct ENode<'a> {
    /// The op.
    pub op: Op,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// The numbers of the operands.
    pub operands: Vec<usize>,
    /// The type of the value.
    pub ty: &'a TensorType,
    /// The value, if the node is a constant leaf.
    pub constant: Option<&'a Tensor>,
}

/// Two e-nodes that a rule equated.
#[derive(Clone, Debug)]
pub struct Equality<'a> {
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// The node at the root of the left side.
    pub left: ENode<'a>,
    /// The number of the node at the root of the right side.
    pub right: usize,
}

impl<'a> Derivation<'a> {
    /// Looks up the nodes of a program that was extracted from the e-graph.
    pub fn new(egraph: &'a EGraph, program: &Graph) -> Self {
        let index = OriginIndex::new(egraph);
        let mut classes: Vec<Option<Id>> = Vec::with_capacity(program.len());
        let mut made = Vec::with_capacity(program.len());
        for (_, node) in program.nodes() {
            let operands = node.inputs.iter().map(|input| classes[input.index()]);
            let term = if node.op.is_leaf() {
                Some(Term::leaf(node.op, &node.name))
            } else {
                let attrs = Shared::new((*node.attrs).clone());
                operands.collect::<Option<Operands>>().map(|children| Term { op: node.op, attrs, children })
            };
            classes.push(term.as_ref().and_then(|term| egraph.egg.lookup(term.clone())));
            made.push(term.and_then(|term| index.find(&term)));
        }
        Self { egraph, index, made }
    }

    /// Returns the numbers of the nodes of the model, by their positions in the imported graph.
    pub fn imported(&self) -> impl Iterator<Item = usize> {
        self.egraph.named.iter().map(|(_, id)| usize::from(*id))
    }

    /// Returns the number of a node of the program; `None` for an input that is not read.
    pub fn made(&self, node: NodeId) -> Option<usize> {
        self.made.get(node.index()).copied().flatten().map(usize::from)
    }

    /// Returns the number of the oldest node that is said to equal a node. If a node of the model is among them, it is
    /// this one.
    pub fn oldest(&self, number: usize) -> usize {
        let members = self.index.members(self.egraph.egg.find(Id::from(number)));
        members.first().map_or(number, |first| usize::from(*first))
    }

    /// Returns the value of which a node is another form, by the number of the oldest node that is said to equal it:
    /// for a packed value, what was packed.
    pub fn plain(&self, number: usize) -> Option<usize> {
        let egg = &self.egraph.egg;
        let class = egg.find(Id::from(number));
        let packed = |term: &&Term| matches!(term.op.meaning(), "pack" | "reorder");
        let unpacked = |parent: &Id| egg.id_to_node(*parent).op.meaning() == "unpack";
        let from = egg[class].iter().find(packed).map(|term| term.children[0]);
        let from = from.or_else(|| egg[class].parents().find(unpacked));
        from.map(|id| self.oldest(usize::from(id)))
    }

    /// Returns a node by its number.
    pub fn node(&self, number: usize) -> ENode<'a> {
        let id = Id::from(number);
        self.described(self.egraph.egg.id_to_node(id), id)
    }

    fn described(&self, term: &'a Term, class: Id) -> ENode<'a> {
        ENode {
            op: term.op,
            attrs: &term.attrs,
            operands: term.children.iter().map(|child| usize::from(*child)).collect(),
            ty: self.egraph.ty(self.egraph.egg.find(class)),
            constant: term.leaf_name().and_then(|name| self.egraph.constant(name)),
        }
    }

    /// Returns the equalities, in the order in which rules made them, of these nodes, of the nodes that the left sides
    /// of the rules that made them matched, and so on, and of the operands of all of these.
    pub fn equalities(&self, from: &[usize]) -> Vec<usize> {
        let egg = &self.egraph.egg;
        let mut seen: FxHashSet<Id> = FxHashSet::default();
        let mut open: Vec<Id> = from.iter().map(|number| Id::from(*number)).collect();
        while let Some(id) = open.pop() {
            if seen.insert(id)
                && let Some(Origin { rule, found }) = self.egraph.origins.origin(id)
            {
                let support = self.egraph.support(rule, found);
                open.extend(support.iter().filter_map(|term| self.index.before(id, term)));
            }
        }
        let children = seen.iter().flat_map(|id| &egg.nodes()[usize::from(*id)].children);
        let mut classes: FxHashSet<Id> = seen.iter().chain(children).map(|id| egg.find(*id)).collect();
        // Operands of injective ops are equal because the results are.
        let injective: Vec<Id> = classes
            .iter()
            .flat_map(|class| egg[*class].parents())
            .filter(|parent| egg.id_to_node(*parent).op.flags.injective)
            .map(|parent| egg.find(parent))
            .collect();
        classes.extend(injective);
        let found: BTreeSet<usize> =
            classes.iter().flat_map(|class| self.index.unions_of(*class)).copied().collect();
        found.into_iter().collect()
    }

    /// Returns an equality by its number.
    pub fn equality(&self, number: usize) -> Equality<'a> {
        let union = &self.egraph.origins.unions[number];
        let (position, root) = union.root;
        let head = union.origin.found.head.as_ref().filter(|_| position == 0);
        Equality {
            rule: &union.origin.rule,
            left: match head {
                Some(head) => self.described(head, root),
                None => self.described(self.egraph.egg.id_to_node(root), root),
            },
            right: usize::from(union.made),
        }
    }

    /// Returns the nodes that the left side of an equality's rule matched.
    pub fn support(&self, number: usize) -> Vec<usize> {
        let Origin { rule, found } = &self.egraph.origins.unions[number].origin;
        let support = self.egraph.support(rule, found);
        support.iter().filter_map(|term| self.index.find(term)).map(usize::from).collect()
    }
}
