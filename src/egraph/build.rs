//! Builds an extraction problem from the e-graph, and a graph from a choice.

use super::provenance::{Chain, OriginIndex};
use super::shared::Shared;
use super::{EGraph, Stop, Term};
use crate::cost::{CostModel, Query};
use crate::extract::{Candidate, Class, ClassId, Extraction, Problem};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::{Call, Contract, Lowered, Op, OpError};
use crate::tensor::TensorType;
use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

/// Returns the contract of the kernel of a lowered op, or the reason why there is none.
pub type Contracts<'a> = &'a dyn Fn(&Call<'_>) -> Result<Contract, OpError>;

/// The reason why no graph can be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Ops of the model have no kernel in the backends of the pipeline.
    #[error("{}", told(values, lowered, refused, infinite, limited))]
    NoKernel {
        /// The values that cannot be computed although their operands can: name, op and type.
        values: Vec<(String, Op, TensorType)>,
        /// The names of those among them that rules have lowered, to nodes that cannot run.
        lowered: Vec<String>,
        /// The reasons why lowered nodes have no kernel: op, reason, and number of nodes.
        refused: Vec<(String, String, usize)>,
        /// The kernels whose price is infinite.
        infinite: Vec<String>,
        /// The phases that ended at a limit, so that rules may not have had their turn.
        limited: Vec<(String, Stop)>,
    },
}

/// The most kernels that the message lists.
const LISTED: usize = 8;

fn told(
    values: &[(String, Op, TensorType)],
    lowered: &[String],
    refused: &[(String, String, usize)],
    infinite: &[String],
    limited: &[(String, Stop)],
) -> String {
    let mut text = format!("{} value(s) cannot be computed:", values.len());
    for (name, op, ty) in values {
        let what = match !infinite.is_empty() && lowered.contains(name) {
            true => "kernel with a finite price",
            false => "backend of this compilation",
        };
        let _ = write!(text, "\n  `{name}`: no {what} runs `{op}` for {ty}");
    }
    for (op, why, count) in refused {
        let _ = write!(text, "\n  refused {count} time(s): `{op}`: {why}");
    }
    for kernel in infinite.iter().take(LISTED) {
        let _ = write!(text, "\n  its price is infinite: {kernel}");
    }
    if infinite.len() > LISTED {
        let _ = write!(text, "\n  and those of {} others", infinite.len() - LISTED);
    }
    for (phase, stop) in limited {
        let _ = write!(text, "\n  phase `{phase}` {stop}");
    }
    if !infinite.is_empty() {
        text.push_str(
            "\nNo plan takes a kernel of an infinite price: the cost model gives it, or tuning found the kernel's \
             results wrong.",
        );
    }
    if !limited.is_empty() {
        text.push_str(
            "\nRaise the limit of that phase in the pipeline (`rounds`; `nodes` and `nodes_per_op`): rules that \
             lower the op may not have had their turn. If that does not help:",
        );
    }
    if lowered.len() < values.len() || refused.is_empty() && infinite.is_empty() {
        text.push_str(
            "\nAdd a rule that lowers the op, or name it in a phase of the pipeline if there is one; or add a backend \
             that has a kernel for it.",
        );
    }
    text
}

/// The extraction problem of an e-graph, with the data that turns a choice back into a graph.
pub struct Pick<'a> {
    pub(super) egraph: &'a EGraph,
    pub(super) classes: Vec<Id>,
    pub(super) terms: Vec<Vec<&'a Term>>,
    index: FxHashMap<Id, usize>,
    /// The problem for an extractor.
    pub problem: Problem,
    /// The reasons why lowered nodes have no kernel: op, reason, and number of nodes.
    pub missing: Vec<(String, String, usize)>,
    /// The kernels for which the cost model has no price, sorted, each once.
    pub unpriced: Vec<String>,
    /// The kernels whose price is infinite, sorted, each once.
    infinite: Vec<String>,
}

impl EGraph {
    /// Returns the extraction problem: a class for each e-class, and a candidate for each node that can run. A class
    /// that depends only on constants has one free candidate without children, because it is computed when the plan
    /// is loaded.
    pub fn problem(&self, cost: &dyn CostModel, threads: usize, contracts: Contracts<'_>) -> Pick<'_> {
        let mut classes: Vec<Id> = self.egg.classes().map(|class| class.id).collect();
        classes.sort_unstable();
        let index: FxHashMap<Id, usize> = classes.iter().enumerate().map(|(n, id)| (*id, n)).collect();
        let mut prices = Prices {
            egraph: self,
            cost,
            threads,
            contracts,
            known: FxHashMap::default(),
            missing: FxHashMap::default(),
            unpriced: BTreeSet::new(),
            infinite: BTreeSet::new(),
        };
        let mut terms = Vec::with_capacity(classes.len());
        let mut problem = Problem { classes: Vec::with_capacity(classes.len()), roots: Vec::new() };
        for id in &classes {
            let class = &self.egg[*id];
            let mut kept: Vec<&Term> = Vec::new();
            let mut nodes = Vec::new();
            if class.data.constant {
                nodes.push(Candidate { cost: 0.0, children: Vec::new(), rank: 0 });
                kept.extend(class.iter().next());
            } else {
                for term in class.iter() {
                    let seconds = prices.price(term, &class.data.ty);
                    if seconds.is_finite() {
                        let children = term.children.iter().map(|c| self.class_id(&index, *c)).collect();
                        let rank = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                        nodes.push(Candidate { cost: seconds, children, rank });
                        kept.push(term);
                    }
                }
            }
            terms.push(kept);
            problem.classes.push(Class { nodes });
        }
        problem.roots = self.outputs.iter().map(|(_, id)| self.class_id(&index, *id)).collect();
        let mut missing: Vec<_> =
            prices.missing.into_iter().map(|((op, why), count)| (op.to_string(), why, count)).collect();
        missing.sort();
        let (unpriced, infinite) =
            (prices.unpriced.into_iter().collect(), prices.infinite.into_iter().collect());
        Pick { egraph: self, classes, terms, index, problem, missing, unpriced, infinite }
    }

    fn class_id(&self, index: &FxHashMap<Id, usize>, id: Id) -> ClassId {
        ClassId(u32::try_from(index[&self.egg.find(id)]).unwrap_or(u32::MAX))
    }
}

type CallKey = (Op, Shared, SmallVec<[(TensorType, bool); 4]>);

struct Prices<'a> {
    egraph: &'a EGraph,
    cost: &'a dyn CostModel,
    threads: usize,
    contracts: Contracts<'a>,
    /// The price of each call, and its contract if operands can be computed at their places within the result.
    known: FxHashMap<CallKey, (f64, Option<Contract>)>,
    missing: FxHashMap<(Op, String), usize>,
    unpriced: BTreeSet<String>,
    infinite: BTreeSet<String>,
}

impl Prices<'_> {
    /// Returns the seconds of a node. They are infinite if no kernel runs it.
    fn price(&mut self, term: &Term, output: &TensorType) -> f64 {
        if term.is_leaf() {
            return 0.0;
        }
        if !term.op.is_lowered() {
            return f64::INFINITY;
        }
        let operands: SmallVec<[_; 4]> = term
            .children
            .iter()
            .map(|child| {
                let data = &self.egraph.egg[*child].data;
                (data.ty.clone(), data.constant)
            })
            .collect();
        let key = (term.op, term.attrs.clone(), operands);
        if let Some((seconds, joins)) = self.known.get(&key) {
            let joins = joins.as_ref().filter(|_| seconds.is_finite());
            return seconds * joins.map_or(1.0, |joins| self.share_copied(term, output, joins));
        }
        let inputs: Vec<&TensorType> = key.2.iter().map(|(ty, _)| ty).collect();
        let constant: Vec<bool> = key.2.iter().map(|(_, constant)| *constant).collect();
        let call = Call { op: term.op, attrs: &term.attrs, inputs: &inputs, output, threads: self.threads };
        let (seconds, joins) = match (self.contracts)(&call) {
            Ok(contract) => {
                let query = Query { call, constant: &constant, contract: &contract };
                let weight = self.cost.weight(&query);
                match weight {
                    None => _ = self.unpriced.insert(crate::cost::key(&query)),
                    Some(seconds) if seconds == f64::INFINITY => {
                        self.infinite.insert(crate::cost::key(&query));
                    }
                    Some(_) => {}
                }
                let seconds = weight.unwrap_or(f64::INFINITY);
                (seconds, (!contract.parts.is_empty()).then_some(contract))
            }
            Err(why) => {
                *self.missing.entry((term.op, why.to_string())).or_default() += 1;
                (f64::INFINITY, None)
            }
        };
        // Infinite seconds must stay infinite: times a share of zero they would not be a number.
        let joined = joins.as_ref().filter(|_| seconds.is_finite());
        let share = joined.map_or(1.0, |joins| self.share_copied(term, output, joins));
        self.known.insert(key, (seconds, joins));
        seconds * share
    }

    /// Returns the share of the result's bytes that is copied in every memory plan: from operands that are constants
    /// or inputs of the model, that occur twice, or that are not aligned.
    #[allow(clippy::cast_precision_loss)]
    fn share_copied(&self, term: &Term, output: &TensorType, contract: &Contract) -> f64 {
        let class = |child: &Id| &self.egraph.egg[*child];
        let same = |a: &Id, b: &Id| self.egraph.egg.find(*a) == self.egraph.egg.find(*b);
        let copied = |(at, child): &(usize, &Id)| {
            class(child).data.constant
                || class(child).iter().any(|term| term.op == INPUT)
                || term.children[..*at].iter().any(|one| same(one, child))
                || !contract.joins(*at, class(child).data.ty.bytes())
        };
        let copied = term.children.iter().enumerate().filter(copied);
        let bytes: usize = copied.map(|(_, child)| class(child).data.ty.bytes()).sum();
        bytes as f64 / output.bytes().max(1) as f64
    }
}

/// The graph of an extraction.
#[derive(Clone)]
pub struct Program {
    /// The chosen nodes. Nodes that depend only on constants are not folded yet.
    pub graph: Graph,
    /// For each node by position, the index of its class in the problem; `None` for an input that is not read.
    pub classes: Vec<Option<usize>>,
    /// The node of each class that the graph computes.
    nodes: FxHashMap<Id, NodeId>,
    /// For each node by position, its term in the e-graph; `None` for an input that is not read.
    terms: Vec<Option<Term>>,
    /// For each node by position, whether one before it computes the same. Empty if there are none.
    pub again: Vec<bool>,
}

impl Program {
    /// Returns a program that computes these nodes in this order, some of them again.
    pub fn repeated(&self, runs: &[NodeId]) -> Self {
        let (graph, of) = self.graph.repeated(runs);
        let mut first: Vec<Option<NodeId>> = vec![None; self.graph.len()];
        let mut again = Vec::new();
        for ((id, _), of) in graph.nodes().zip(&of) {
            again.push(first[of.index()].is_some());
            first[of.index()].get_or_insert(id);
        }
        let nodes = self.nodes.iter().filter_map(|(class, node)| Some((*class, first[node.index()]?)));
        Self {
            classes: of.iter().map(|id| self.classes[id.index()]).collect(),
            terms: of.iter().map(|id| self.terms[id.index()].clone()).collect(),
            nodes: nodes.collect(),
            again,
            graph,
        }
    }

    /// Returns the node that computes a class.
    pub(super) fn node(&self, class: Id) -> Option<NodeId> {
        self.nodes.get(&class).copied()
    }
}

impl Pick<'_> {
    /// Describes the values that no backend of the pipeline can compute; `None` if all outputs can be computed.
    pub fn obstacle(&self) -> Option<BuildError> {
        let mut can = vec![false; self.classes.len()];
        self.spread(&mut can);
        if self.problem.roots.iter().all(|root| can[root.index()]) {
            return None;
        }
        // After a value that cannot be computed, go on as if it could: a node that reads it may have no kernel
        // either, and all such nodes are reported at once.
        let mut causes: FxHashMap<usize, &Term> = FxHashMap::default();
        loop {
            let known = causes.len();
            for (_, id) in &self.egraph.named {
                let class = self.egraph.egg.find(*id);
                let at = self.index[&class];
                let ready = |term: &&Term| {
                    term.children.iter().all(|child| can[self.index[&self.egraph.egg.find(*child)]])
                };
                if let Some(term) = self.egraph.egg[class].iter().find(ready).filter(|_| !can[at]) {
                    causes.insert(at, term);
                }
            }
            if causes.len() == known {
                break;
            }
            causes.keys().for_each(|at| can[*at] = true);
            self.spread(&mut can);
        }
        let named = self.egraph.named.iter().map(|(name, id)| (name, self.egraph.egg.find(*id)));
        let (mut values, mut lowered) = (Vec::new(), Vec::new());
        for (name, class) in named {
            let Some(term) = causes.get(&self.index[&class]) else { continue };
            // The model's own op is named, where the value also has nodes that rules have lowered.
            let terms = &self.egraph.egg[class];
            let own = terms.iter().find(|term| !term.op.is_lowered()).unwrap_or(term);
            values.push((name.to_string(), own.op, self.egraph.ty(class).clone()));
            if terms.iter().any(|term| term.op.is_lowered()) {
                lowered.push(name.to_string());
            }
        }
        (!values.is_empty()).then(|| BuildError::NoKernel {
            values,
            lowered,
            refused: self.missing.clone(),
            infinite: self.infinite.clone(),
            limited: self.egraph.limited.clone(),
        })
    }

    /// Marks all classes that can be computed from marked ones.
    fn spread(&self, can: &mut [bool]) {
        loop {
            let mut changed = false;
            for (at, class) in self.problem.classes.iter().enumerate() {
                let runs = |node: &Candidate| node.children.iter().all(|child| can[child.index()]);
                if !can[at] && class.nodes.iter().any(runs) {
                    can[at] = true;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Returns the graph of a choice.
    pub fn build(&self, extraction: &Extraction) -> Program {
        let mut builder = self.builder(&extraction.choice);
        for (name, ty) in &self.egraph.inputs {
            let id = builder.program.graph.add_input(name, ty.clone());
            let class = self.egraph.egg.lookup(Term::leaf(INPUT, name));
            builder.program.classes.push(class.map(|class| self.index[&class]));
            builder.program.terms.push(class.map(|_| Term::leaf(INPUT, name)));
            if let Some(class) = class {
                builder.program.nodes.insert(class, id);
            }
        }
        for (name, id) in &self.egraph.outputs {
            let node = builder.class(self.egraph.egg.find(*id));
            builder.program.graph.add_output(name, node);
        }
        builder.program
    }

    fn builder<'b>(&'b self, choice: &'b [Option<u32>]) -> Builder<'b> {
        Builder {
            pick: self,
            choice,
            names: self.names(),
            constants: self.constants(),
            program: Program {
                graph: Graph::new(),
                classes: Vec::new(),
                nodes: FxHashMap::default(),
                terms: Vec::new(),
                again: Vec::new(),
            },
        }
    }

    /// Returns the graph of all classes that depend only on constants, each computed as [`Pick::build`] does. It has no
    /// outputs.
    pub fn constants_alone(&self) -> Program {
        let mut builder = self.builder(&[]);
        for id in self.classes.iter().filter(|id| self.egraph.egg[**id].data.constant) {
            builder.class(*id);
        }
        builder.program
    }

    /// Returns the rules that led to each node of a graph, by position.
    pub fn provenance(&self, program: &Program) -> Vec<Chain> {
        OriginIndex::new(self.egraph).chains(&program.terms)
    }

    /// Returns the model's names by class. A value in another layout is called `NAME@LAYOUT`.
    pub(super) fn names(&self) -> FxHashMap<Id, Arc<str>> {
        let mut names: FxHashMap<Id, Arc<str>> = FxHashMap::default();
        for (name, id) in &self.egraph.named {
            names.entry(self.egraph.egg.find(*id)).or_insert_with(|| Arc::clone(name));
        }
        let mut forms = Vec::new();
        for class in &self.classes {
            for term in self.egraph.egg[*class].iter() {
                let child = term.children.first().map(|child| self.egraph.egg.find(*child));
                match (term.op.meaning(), child) {
                    ("unpack", Some(child)) => forms.push((*class, child)),
                    ("pack" | "reorder", Some(child)) => forms.push((child, *class)),
                    _ => {}
                }
            }
        }
        for (value, form) in forms {
            if let (Some(name), false) = (names.get(&value).cloned(), names.contains_key(&form)) {
                let ty = self.egraph.ty(form);
                if !ty.layout.is_plain() {
                    names.insert(form, format!("{name}@{}", ty.layout).into());
                }
            }
        }
        names
    }

    /// Returns the node that computes each constant class: of least depth among those that need no algorithm other than
    /// the definitions of ops, or of least depth if there are none. Such nodes form no cycle, and tend to be the
    /// cheapest way to compute the constant once.
    fn constants(&self) -> FxHashMap<Id, (Way, &Term)> {
        let mut ways: FxHashMap<Id, (Way, &Term)> = FxHashMap::default();
        let constants: Vec<Id> =
            self.classes.iter().copied().filter(|id| self.egraph.egg[*id].data.constant).collect();
        loop {
            let mut changed = false;
            for id in &constants {
                for term in self.egraph.egg[*id].iter() {
                    let below = term
                        .children
                        .iter()
                        .map(|c| ways.get(&self.egraph.egg.find(*c)).map(|way| way.0))
                        .collect::<Option<Vec<_>>>();
                    let Some(below) = below else { continue };
                    let own = term.op.lowered.as_ref().is_some_and(Lowered::has_own_reference);
                    let here = Way {
                        by_algorithm: own || below.iter().any(|way| way.by_algorithm),
                        depth: below.iter().map(|way| way.depth + 1).max().unwrap_or(0),
                    };
                    if ways.get(id).is_none_or(|known| here < known.0) {
                        ways.insert(*id, (here, term));
                        changed = true;
                    }
                }
            }
            if !changed {
                return ways;
            }
        }
    }
}

/// How a constant is computed; the lesser way is taken. No operand's way is greater than that of its reader, and where
/// both are alike in the first field its depth is less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// Whether a lowered op takes part that computes in another way than its logical op, such as a convolution by
    /// Winograd's algorithm. What is not finite in one element may then be so in others.
    by_algorithm: bool,
    /// The most ops between the constant and a leaf.
    depth: usize,
}

struct Builder<'a> {
    pick: &'a Pick<'a>,
    /// For each class, the index of the chosen candidate. Constants need none.
    choice: &'a [Option<u32>],
    names: FxHashMap<Id, Arc<str>>,
    constants: FxHashMap<Id, (Way, &'a Term)>,
    program: Program,
}

impl<'a> Builder<'a> {
    /// Adds the node that is chosen for a class, after its operands. It keeps its own stack, because deep networks
    /// would overflow the call stack.
    fn class(&mut self, root: Id) -> NodeId {
        let egg = &self.pick.egraph.egg;
        let mut stack = vec![root];
        let mut open: FxHashSet<Id> = FxHashSet::default();
        while let Some(&class) = stack.last() {
            if self.program.nodes.contains_key(&class) {
                stack.pop();
                continue;
            }
            let term = self.chosen(class);
            let pending: Vec<Id> = term
                .children
                .iter()
                .map(|c| egg.find(*c))
                .filter(|c| !self.program.nodes.contains_key(c))
                .collect();
            if pending.is_empty() {
                let id = self.add(class, term);
                self.program.nodes.insert(class, id);
                stack.pop();
            } else {
                assert!(open.insert(class), "an extraction is acyclic");
                stack.extend(pending.into_iter().rev());
            }
        }
        self.program.nodes[&root]
    }

    fn chosen(&self, class: Id) -> &'a Term {
        if let Some((_, term)) = self.constants.get(&class) {
            return term;
        }
        let at = self.pick.index[&class];
        let choice = self.choice[at].expect("an extraction chooses for every class it reaches");
        self.pick.terms[at][choice as usize]
    }

    fn add(&mut self, class: Id, term: &Term) -> NodeId {
        let egraph = self.pick.egraph;
        self.program.terms.push(Some(term.clone()));
        self.program.classes.push(Some(self.pick.index[&class]));
        if term.op == CONST {
            let name = term.leaf_name().expect("leaves have names");
            let value = egraph.constant(name).expect("constants have values").clone();
            return self.program.graph.add_constant(name, value);
        }
        let inputs: Vec<NodeId> =
            term.children.iter().map(|c| self.program.nodes[&egraph.egg.find(*c)]).collect();
        let name = self.names.get(&class).cloned().unwrap_or_else(|| {
            let first = inputs.first().map_or("", |input| &self.program.graph[*input].name);
            format!("{first}.{}", term.op.own_name()).into()
        });
        let ty = egraph.ty(class).clone();
        self.program.graph.add_node(Node {
            op: term.op,
            attrs: Arc::clone(term.attrs.arc()),
            inputs,
            name,
            ty,
        })
    }
}
