//! The e-graph: all known ways to compute a model.
//!
//! It is built from a verified graph and grows by the rules of a phase ([`EGraph::saturate`]). From it come an
//! extraction problem and, for a choice among its nodes, the graph of that choice. The set of operators is open: a
//! term is any op of the registry with its attributes. Each class has facts: its type, whether it is constant,
//! and its value if that is small. A fact can only become more precise. If a rule equates two values of different
//! types, the e-graph refuses to merge them and names the rule.

mod apply;
mod build;
mod change;
mod cycle;
mod derivation;
mod exchange;
mod fact;
mod injective;
mod kernel;
mod matcher;
mod miss;
mod nearest;
mod need;
mod probe;
mod provenance;
mod runner_up;
mod saturate;
mod shared;
mod term;
mod what_if;

pub use build::BuildError;
pub(crate) use build::Contracts;
pub(crate) use build::Pick;
pub(crate) use build::Program;
pub use derivation::{Derivation, ENode};
pub(crate) use fact::Facts;
pub use kernel::KernelCall;
pub use nearest::UnknownValue;
pub use nearest::WhyNot;
pub(crate) use need::Need;
pub use probe::Probe;
pub(crate) use provenance::Chain;
pub use runner_up::{Change, RunnerUp};
pub(crate) use saturate::Clock;
pub use saturate::SaturateError;
pub use saturate::{Growth, Limits, Saturation, Stop};
pub(crate) use term::Term;
pub use what_if::Flip;

use crate::graph::NodeId;
use crate::rule::Fact;
use crate::tensor::{Tensor, TensorType};
use crate::verify::Verified;
use egg::Id;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The operands of a node. Few nodes have more than four.
pub(crate) type Operands = smallvec::SmallVec<[Id; 4]>;

/// An e-graph over the ops of the registry, with the data that is needed to build graphs from it again.
pub struct EGraph {
    egg: egg::EGraph<Term, Facts>,
    /// The class of each value that the imported graph names, in the order of that graph.
    named: Vec<(Arc<str>, Id)>,
    inputs: Vec<(Arc<str>, TensorType)>,
    outputs: Vec<(Arc<str>, Id)>,
    origins: provenance::Origins,
    /// For each rule, what was done with its matches, so that no match is tried twice.
    tried: FxHashMap<String, saturate::Tried>,
    pool: shared::Pool,
    /// The number of unions of the operands of injective ops: no rule made them.
    closed: usize,
    /// The phases that a limit stopped, each with the limit.
    limited: Vec<(String, Stop)>,
}

impl EGraph {
    /// Returns the e-graph of one graph. Each value has a class of its own, except that equal values share one.
    pub fn new(graph: &Verified) -> Self {
        let mut facts = Facts::default();
        for (id, node) in graph.nodes() {
            if node.op.is_leaf() {
                facts.declare(&node.name, node.ty.clone(), graph.constant(id).cloned());
            }
        }
        let mut egg = egg::EGraph::new(facts);
        let mut pool = shared::Pool::default();
        let mut ids: Vec<Id> = Vec::with_capacity(graph.len());
        let mut named = Vec::with_capacity(graph.len());
        // Exporters write a number once for each layer that uses it. Equal ones are one value, so that what layers compute
        // from them and from the same operands, such as a mask, is computed once.
        let mut small: FxHashMap<(&TensorType, &[u8]), Id> = FxHashMap::default();
        for (id, node) in graph.nodes() {
            let value = graph.constant(id).filter(|value| value.ty().shape.count() <= Fact::SMALL);
            let known = value.and_then(|value| small.get(&(value.ty(), value.bytes())));
            if let Some(&known) = known {
                ids.push(known);
                named.push((Arc::clone(&node.name), known));
                continue;
            }
            let term = if node.op.is_leaf() {
                Term::leaf(node.op, &node.name)
            } else {
                let children = node.inputs.iter().map(|input| ids[input.index()]).collect();
                let attrs = node.op.complete((*node.attrs).clone());
                Term { op: node.op, attrs: pool.share(attrs), children }
            };
            let class = egg.add(term);
            if let Some(value) = value {
                small.insert((value.ty(), value.bytes()), class);
            }
            ids.push(class);
            named.push((Arc::clone(&node.name), class));
        }
        egg.rebuild();
        let outputs =
            graph.outputs().map(|(name, id): (_, NodeId)| (Arc::clone(name), ids[id.index()])).collect();
        let inputs = graph.inputs().map(|(_, node)| (Arc::clone(&node.name), node.ty.clone())).collect();
        let origins = provenance::Origins::new(egg.nodes().len());
        Self {
            egg,
            named,
            inputs,
            outputs,
            origins,
            tried: FxHashMap::default(),
            pool,
            closed: 0,
            limited: Vec::new(),
        }
    }

    /// Notes how a phase ended. If a value cannot be computed, the error reports the limits that stopped phases.
    pub(crate) fn ended(&mut self, phase: &str, stop: &Stop) {
        if *stop != Stop::Saturated {
            self.limited.push((phase.to_owned(), stop.clone()));
        }
    }

    /// The number of e-nodes.
    pub fn nodes(&self) -> usize {
        self.egg.total_number_of_nodes()
    }

    /// The number of e-classes.
    pub(crate) fn classes(&self) -> usize {
        self.egg.number_of_classes()
    }

    /// The type of a class.
    fn ty(&self, id: Id) -> &TensorType {
        &self.egg[id].data.ty
    }

    /// The value of a constant leaf.
    fn constant(&self, name: &str) -> Option<&Tensor> {
        self.egg.analysis.constant(name)
    }

    /// Returns a text with the names, type and nodes of every class, for `dump`.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let mut names: FxHashMap<Id, Vec<&str>> = FxHashMap::default();
        for (name, id) in &self.named {
            names.entry(self.egg.find(*id)).or_default().push(name);
        }
        let mut classes: Vec<_> = self.egg.classes().collect();
        classes.sort_by_key(|class| class.id);
        let number: FxHashMap<Id, usize> =
            classes.iter().enumerate().map(|(n, class)| (class.id, n)).collect();
        let mut text = String::new();
        for class in classes {
            let label = names.get(&class.id).map(|n| format!(" {}", n.join(" "))).unwrap_or_default();
            let constant = if class.data.constant { " constant" } else { "" };
            let _ = writeln!(text, "c{}{label}: {}{constant}", number[&class.id], class.data.ty);
            let mut lines: Vec<String> = class
                .iter()
                .map(|node| {
                    let operands: Vec<String> =
                        node.children.iter().map(|c| format!("c{}", number[&self.egg.find(*c)])).collect();
                    format!("  {}({}) {}", node.op, operands.join(", "), node.attrs)
                })
                .collect();
            lines.sort();
            for line in lines {
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text
    }
}
