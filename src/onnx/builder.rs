//! The graph under construction while a model is imported, and the values of which its nodes are made.

use super::Refusal;
use super::element::checked_type;
use super::weight::Weights;
use crate::attr::Attrs;
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::{Demand, Ops};
use crate::tensor::{Tensor, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most elements of a constant that is used in computations while importing. For integers there is no such
/// limit.
const FOLDED: usize = 4096;
/// The most elements of a result that is computed from constants while importing.
const FOLDED_RESULT: usize = 1 << 20;

/// The most elements of an integer value that was computed before a region and is used in computations while the
/// region is imported.
const DECIDING: usize = 64;

/// A value while importing: a node of the graph, or a constant, which becomes a node only if a node needs it.
#[derive(Clone, Debug)]
pub struct ImportedValue {
    /// The name: the model's own, or derived from it.
    pub name: Arc<str>,
    /// The type.
    pub ty: TensorType,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Constant(Tensor),
    Node(NodeId),
    /// A value that was computed before the region that is being imported. Its tensor has this index among those of
    /// the region's start.
    Live(usize),
}

/// What a value is while a region of a model is imported.
pub(super) enum Origin {
    /// It is known, whatever the inputs of the model are.
    Constant,
    /// The region computes it.
    Node(NodeId),
    /// It was computed before the region, and has this index among the tensors of the region's start.
    Live(usize),
}

impl ImportedValue {
    /// Makes a constant.
    pub(crate) fn constant(name: impl Into<Arc<str>>, tensor: Tensor) -> Self {
        Self { name: name.into(), ty: tensor.ty().clone(), kind: Kind::Constant(tensor) }
    }

    /// Returns the value of a node.
    pub(super) fn node(graph: &Graph, id: NodeId) -> Self {
        Self { name: Arc::clone(&graph[id].name), ty: graph[id].ty.clone(), kind: Kind::Node(id) }
    }

    /// Makes a value that is computed before the region that is being imported.
    pub(super) fn live(name: impl Into<Arc<str>>, ty: TensorType, slot: usize) -> Self {
        Self { name: name.into(), ty, kind: Kind::Live(slot) }
    }

    /// Returns where the value comes from.
    pub(super) fn origin(&self) -> Origin {
        match &self.kind {
            Kind::Constant(_) => Origin::Constant,
            Kind::Node(id) => Origin::Node(*id),
            Kind::Live(slot) => Origin::Live(*slot),
        }
    }

    /// Returns the tensor if the value is the same for all inputs of the model.
    pub fn known(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Constant(tensor) => Some(tensor),
            Kind::Node(_) | Kind::Live(_) => None,
        }
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.ty.shape.rank()
    }

    /// Returns the dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.ty.shape
    }
}

/// The graph under construction.
pub(super) struct Builder {
    /// The graph.
    pub graph: Graph,
    /// The ops that nodes may have.
    pub ops: Ops,
    /// Reads constants.
    pub weights: Arc<Mutex<Weights>>,
    /// The names that are in use: all of the model's, and those of helper nodes.
    pub taken: FxHashSet<String>,
    /// Comes before the names of results, inside of loops and branches.
    pub prefix: Arc<str>,
    /// The tensors that were computed before the region, if the import takes place during a run.
    live: Vec<Tensor>,
    /// The nodes of live values.
    inputs: FxHashMap<usize, NodeId>,
    /// The live values whose elements decide what the region is, with their names.
    asked: RefCell<BTreeMap<usize, Arc<str>>>,
    /// Intermediate values of the current operator that a previous region has computed.
    pub resolved: FxHashMap<Arc<str>, ImportedValue>,
    /// The nodes that the current operator has made.
    pub made: Vec<ImportedValue>,
    constants: FxHashMap<Arc<str>, NodeId>,
}

impl Builder {
    /// Makes a builder with an empty graph. `live` are the tensors that were computed before.
    pub(crate) fn new(
        ops: Ops,
        weights: Arc<Mutex<Weights>>,
        taken: FxHashSet<String>,
        live: Vec<Tensor>,
    ) -> Self {
        Self {
            graph: Graph::new(),
            ops,
            weights,
            taken,
            prefix: "".into(),
            live,
            inputs: FxHashMap::default(),
            asked: RefCell::default(),
            resolved: FxHashMap::default(),
            made: Vec::new(),
            constants: FxHashMap::default(),
        }
    }

    /// Returns the reader of constants.
    pub fn weights(&self) -> MutexGuard<'_, Weights> {
        self.weights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the live values whose elements were asked for, with their names.
    pub fn asked(&self) -> Vec<(usize, Arc<str>)> {
        self.asked.borrow().iter().map(|(slot, name)| (*slot, Arc::clone(name))).collect()
    }

    /// Returns the slot of a node that is a live value.
    pub fn slot(&self, node: NodeId) -> Option<usize> {
        self.inputs.iter().find(|(_, id)| **id == node).map(|(slot, _)| *slot)
    }

    /// Returns the elements of a value, on which the import depends.
    pub fn demand(&self, value: &ImportedValue, what: &str) -> Result<Tensor, Refusal> {
        match &value.kind {
            Kind::Constant(tensor) => Ok(tensor.clone()),
            Kind::Live(slot) => {
                self.asked.borrow_mut().insert(*slot, Arc::clone(&value.name));
                // The import keeps these elements, and a caller may change those that it keeps itself.
                Ok(self.live[*slot].owned())
            }
            Kind::Node(node) => {
                let mut asked = BTreeMap::new();
                let known = self.evaluate(*node, &mut asked, &mut FxHashMap::default());
                if known.is_some() {
                    self.asked.borrow_mut().extend(asked);
                }
                known.ok_or_else(|| unknown(what, value))
            }
        }
    }

    /// Evaluates a node that follows from constants and a few integers that were computed before the region, such as
    /// sizes; `None` if it depends on anything else.
    fn evaluate(
        &self,
        node: NodeId,
        asked: &mut BTreeMap<usize, Arc<str>>,
        known: &mut FxHashMap<NodeId, Tensor>,
    ) -> Option<Tensor> {
        if let Some(tensor) = known.get(&node) {
            return Some(tensor.clone());
        }
        let Node { op, attrs, inputs, ty, name } = &*self.graph[node];
        if ty.shape.count() > FOLDED {
            return None;
        }
        let value = if *op == INPUT {
            let slot = self.slot(node).filter(|_| !ty.dtype.is_float() && ty.shape.count() <= DECIDING)?;
            asked.insert(slot, Arc::clone(name));
            self.live[slot].owned()
        } else if *op == CONST {
            self.graph.constant(node)?.clone()
        } else {
            let operands: Vec<Tensor> =
                inputs.iter().map(|input| self.evaluate(*input, asked, known)).collect::<Option<_>>()?;
            op.evaluate(attrs, &operands.iter().collect::<Vec<_>>(), ty)
        };
        known.insert(node, value.clone());
        Some(value)
    }

    /// Returns the node of a value. A constant becomes a node here, when it is first needed.
    pub(crate) fn node(&mut self, value: &ImportedValue) -> NodeId {
        match &value.kind {
            Kind::Node(id) => *id,
            Kind::Live(slot) => {
                let graph = &mut self.graph;
                *self.inputs.entry(*slot).or_insert_with(|| graph.add_input(&value.name, value.ty.clone()))
            }
            Kind::Constant(tensor) => {
                let graph = &mut self.graph;
                *self
                    .constants
                    .entry(Arc::clone(&value.name))
                    .or_insert_with(|| graph.add_constant(&value.name, tensor.clone()))
            }
        }
    }

    /// Returns a name that no value has, for a value beside that of an owner.
    pub(super) fn helper_name(&mut self, owner: &str, suffix: &str) -> String {
        let mut name = format!("{owner}.{suffix}");
        while !self.taken.insert(name.clone()) {
            name.push('\'');
        }
        name
    }

    /// Applies an op of the registry to values. If the values are known and small, the result is computed at once.
    pub(super) fn emit(
        &mut self,
        op: &str,
        attrs: Attrs,
        inputs: &[&ImportedValue],
        name: &str,
    ) -> Result<ImportedValue, Refusal> {
        let def = self.ops.find(op)?;
        if def.is_lowered() {
            let logical = def.meaning();
            return Err(Refusal::other(format!(
                "its importer applies the lowered op `{op}`: models are imported to logical ops, such as `{logical}`"
            )));
        }
        let attrs = def.complete(attrs);
        if let Some(why) = def.attr_errors(&attrs).into_iter().next() {
            return Err(Refusal::other(format!(
                "its importer applies the op `{op}` to wrong attributes: {why}"
            )));
        }
        def.check_count(&attrs, inputs.len())?;
        let types: Vec<&TensorType> = inputs.iter().map(|input| &input.ty).collect();
        let ty = def.result(&attrs, &types)?;
        checked_type(ty.dtype, ty.shape.to_vec())?;
        if let Some(value) = self.resolved.get(name) {
            return Ok(value.clone());
        }
        if ty.shape.count() == 0 {
            return Ok(ImportedValue::constant(name, Tensor::zeros(ty))); // A value without elements is always known.
        }
        if let Some(tensors) = inputs.iter().map(|input| input.known()).collect::<Option<Vec<_>>>() {
            if op == "reshape" {
                return Ok(ImportedValue::constant(name, tensors[0].reshaped(ty.shape)));
            }
            let small = |ty: &TensorType| ty.shape.count() <= FOLDED || !ty.dtype.is_float();
            // Rules may use weights as the integers that they are stored as.
            let large = !small(&ty) && types.iter().any(|ty| ty.shape.count() > FOLDED);
            let weights = large || op == "dequantize" && ty.shape.rank() > 1;
            if types.iter().all(|ty| small(ty)) && ty.shape.count() <= FOLDED_RESULT && !weights {
                if let Some(demand) = Demand::new(def, &attrs, &types) {
                    demand
                        .check(tensors[demand.operand].bytes())
                        .map_err(|why| Refusal::other(why.to_string()))?;
                }
                return Ok(ImportedValue::constant(name, def.evaluate(&attrs, &tensors, &ty)));
            }
        }
        let inputs = inputs.iter().map(|input| self.node(input)).collect();
        let id = self.graph.add_node(Node { op: def, attrs: Arc::new(attrs), inputs, name: name.into(), ty });
        let mut value = ImportedValue::node(&self.graph, id);
        value.name = name.into();
        self.made.push(value.clone());
        Ok(value)
    }
}

fn unknown(what: &str, value: &ImportedValue) -> Refusal {
    let node = match value.origin() {
        Origin::Node(node) => Some(node),
        Origin::Constant | Origin::Live(_) => None,
    };
    Refusal::Dynamic { what: what.to_owned(), value: value.name.to_string(), node }
}
