//! One operator of the model while it is imported: its operands and attributes, and the nodes that it becomes. The
//! importer of an [`Operator`](super::Operator) works with it.

use super::element::checked_type;
use super::importer::execute;
use super::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};
use super::structure::full_name;
use super::weight::Weights;
use super::{Operators, Refusal, Results};
use crate::attr::Attrs;
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::{self, Ops};
use crate::tensor::{DType, Tensor, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeSet;
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
    pub(crate) fn known(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Constant(tensor) => Some(tensor),
            Kind::Node(_) | Kind::Live(_) => None,
        }
    }

    /// Returns the number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        self.ty.shape.rank()
    }

    /// Returns the dimensions.
    pub(crate) fn dims(&self) -> &[usize] {
        &self.ty.shape
    }
}

/// The graph under construction.
pub(super) struct Builder {
    /// The graph.
    pub graph: Graph,
    /// The ops that nodes may have.
    ops: Ops,
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
    /// The live values whose elements decide what the region is.
    asked: RefCell<BTreeSet<usize>>,
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

    /// Returns the live values whose elements were asked for.
    pub fn asked(&self) -> Vec<usize> {
        self.asked.borrow().iter().copied().collect()
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
                self.asked.borrow_mut().insert(*slot);
                Ok(self.live[*slot].clone())
            }
            Kind::Node(node) => {
                let mut asked = BTreeSet::new();
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
        asked: &mut BTreeSet<usize>,
        known: &mut FxHashMap<NodeId, Tensor>,
    ) -> Option<Tensor> {
        if let Some(tensor) = known.get(&node) {
            return Some(tensor.clone());
        }
        let Node { op, attrs, inputs, ty, .. } = &*self.graph[node];
        if ty.shape.count() > FOLDED {
            return None;
        }
        let value = if *op == INPUT {
            let slot = self.slot(node).filter(|_| !ty.dtype.is_float() && ty.shape.count() <= DECIDING)?;
            asked.insert(slot);
            self.live[slot].clone()
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

    fn helper_name(&mut self, owner: &str, suffix: &str) -> String {
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
        let attrs = op::complete(def, attrs);
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
            if types.iter().all(|ty| small(ty)) && ty.shape.count() <= FOLDED_RESULT {
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

/// One operator of the model.
pub struct Call<'a> {
    /// The model's node.
    pub(super) node: &'a NodeProto,
    /// The version of the operator set.
    pub opset: i64,
    inputs: &'a [Option<ImportedValue>],
    builder: &'a mut Builder,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Call<'a> {
    /// Makes the call of an operator.
    pub(super) fn new(
        node: &'a NodeProto,
        opset: i64,
        inputs: &'a [Option<ImportedValue>],
        builder: &'a mut Builder,
    ) -> Self {
        Self { node, opset, inputs, builder, asked: RefCell::default() }
    }

    /// Returns the operator's name, preceded by its domain unless that is ONNX's own.
    pub fn operator(&self) -> String {
        full_name(self.node)
    }

    /// Returns the ops of which nodes can be made.
    pub fn ops(&self) -> &Ops {
        &self.builder.ops
    }

    /// Returns the operand at a position. It is an error if the operand is absent.
    pub fn input(&self, at: usize) -> Result<ImportedValue, Refusal> {
        self.optional(at).ok_or_else(|| Refusal::Operand(at))
    }

    /// Returns the operand at a position; `None` if it is absent.
    pub(crate) fn optional(&self, at: usize) -> Option<ImportedValue> {
        self.inputs.get(at).cloned().flatten()
    }

    /// Returns the number of operands, including trailing absent ones.
    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the elements of a value, on which the import depends, such as a number that decides a shape. It is an
    /// error if they are only known when the model runs.
    pub(crate) fn demand(&self, value: &ImportedValue, what: &str) -> Result<Tensor, Refusal> {
        self.builder.demand(value, what)
    }

    /// Returns the integers of an operand, which must be known while importing; `None` if it is absent.
    pub(crate) fn known_ints(&self, at: usize, what: &str) -> Result<Option<Vec<i64>>, Refusal> {
        let Some(value) = self.optional(at) else {
            return Ok(None);
        };
        let tensor = self.demand(&value, what)?;
        let ints = tensor.to_i64().filter(|_| value.ty.dtype != DType::Bool);
        ints.map(Some).ok_or_else(|| {
            Refusal::other(format!("its {what} `{}` is {}, not a list of integers", value.name, value.ty))
        })
    }

    /// Returns an operand that must have one element and be known while importing; `None` if it is absent.
    pub(crate) fn known_scalar(&self, at: usize, what: &str) -> Result<Option<Tensor>, Refusal> {
        let Some(value) = self.optional(at) else {
            return Ok(None);
        };
        let tensor = self.demand(&value, what)?;
        if tensor.ty().shape.count() != 1 {
            return Err(Refusal::other(format!(
                "its {what} `{}` is {}, not one number",
                value.name, value.ty
            )));
        }
        Ok(Some(tensor))
    }

    fn attribute(
        &self,
        name: &'static str,
        kind: AttributeType,
    ) -> Result<Option<&'a AttributeProto>, Refusal> {
        self.asked.borrow_mut().insert(name);
        let Some(attribute) = self.node.attribute.iter().find(|a| a.name == name) else {
            return Ok(None);
        };
        match AttributeType::try_from(attribute.r#type) {
            Ok(given) if given == kind || given == AttributeType::Undefined => Ok(Some(attribute)),
            Ok(given) => Err(Refusal::attribute(name, format!("is of the kind {given:?}, not {kind:?}"))),
            Err(_) => {
                Err(Refusal::attribute(name, format!("is of an unknown kind (number {})", attribute.r#type)))
            }
        }
    }

    /// Returns whether an attribute is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.node.attribute.iter().any(|attribute| attribute.name == name)
    }

    /// Returns an integer attribute.
    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64, Refusal> {
        Ok(self.attribute(name, AttributeType::Int)?.map_or(default, |a| a.i))
    }

    /// Returns an attribute that is 0 or 1.
    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool, Refusal> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Refusal::attribute(name, format!("is {other}, not 0 or 1"))),
        }
    }

    /// Returns a float attribute, if it is given.
    pub(crate) fn float_if(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        Ok(self.attribute(name, AttributeType::Float)?.map(|a| f64::from(a.f)))
    }

    /// Returns a float attribute. The default is a binary32 number, as in ONNX.
    pub fn float(&self, name: &'static str, default: f32) -> Result<f64, Refusal> {
        Ok(self.float_if(name)?.unwrap_or(f64::from(default)))
    }

    /// Returns an attribute that is a list of integers, if it is given.
    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Ints)?.map(|a| a.ints.as_slice()))
    }

    /// Returns an attribute that is a list of floats, if it is given.
    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Floats)?.map(|a| a.floats.as_slice()))
    }

    /// Returns a string attribute.
    pub(crate) fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::String)? else {
            return Ok(default);
        };
        std::str::from_utf8(&attribute.s).map_err(|_| Refusal::attribute(name, "is not UTF-8"))
    }

    /// Returns a tensor attribute, if it is given.
    pub(crate) fn tensor(&mut self, name: &'static str) -> Result<Option<Tensor>, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::Tensor)? else {
            return Ok(None);
        };
        let proto: &TensorProto =
            attribute.t.as_ref().ok_or_else(|| Refusal::attribute(name, "lacks its tensor"))?;
        self.builder
            .weights()
            .read(proto, &format!("attribute `{name}`"))
            .map(Some)
            .map_err(|error| Refusal::Tensor(Box::new(error)))
    }

    /// Marks attributes that do not affect the result as read.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend(names);
    }

    /// Returns the attributes that the importer never read. They are unknown and might matter, so the node is
    /// refused.
    pub(super) fn strangers(&self) -> Vec<&'a str> {
        let asked = self.asked.borrow();
        // Before opset 7, operators could name operands that they overwrite, which never changed a result.
        let old = |name: &str| name == "consumed_inputs" && self.opset < 7;
        let strange = |name: &&str| !asked.contains(name) && !old(name);
        self.node.attribute.iter().map(|a| a.name.as_str()).filter(strange).collect()
    }

    /// Returns the name of a result. If the model leaves it out, a name is derived.
    pub(crate) fn output_name(&mut self, at: usize) -> String {
        match self.node.output.get(at).filter(|name| !name.is_empty()) {
            Some(name) => format!("{}{name}", self.builder.prefix),
            None => {
                let owner = self.owner();
                self.builder.helper_name(&owner, &format!("output-{at}"))
            }
        }
    }

    fn owner(&self) -> String {
        let first = self.node.output.iter().find(|name| !name.is_empty());
        format!("{}{}", self.builder.prefix, first.unwrap_or(&self.node.name))
    }

    /// Returns the name of a value inside the operator's definition, as a node of the model would have it.
    pub(super) fn inner_name(&mut self, suffix: &str) -> String {
        let owner = self.owner();
        let name = self.builder.helper_name(&owner, suffix);
        name[self.builder.prefix.len()..].to_owned()
    }

    /// Applies another operator to values, for an operator that is said in others.
    pub(super) fn apply(
        &mut self,
        operators: &Operators,
        node: &NodeProto,
        opset: i64,
        inputs: &[Option<ImportedValue>],
    ) -> Results {
        let name = full_name(node);
        let operator = operators.get(&name);
        let operator = operator.ok_or_else(|| Refusal::other(format!("ovolo has no operator `{name}`")))?;
        execute(operator, node, opset, inputs, self.builder)
    }

    /// Makes a constant that the model does not name.
    pub(crate) fn constant(&mut self, suffix: &str, tensor: Tensor) -> ImportedValue {
        let owner = self.owner();
        ImportedValue::constant(self.builder.helper_name(&owner, suffix), tensor)
    }

    /// Makes a scalar of an element type.
    pub(crate) fn scalar(&mut self, suffix: &str, dtype: DType, value: f64) -> ImportedValue {
        self.constant(suffix, Tensor::from_f64(dtype, [0_usize; 0], &[value]))
    }

    /// Applies an op for an intermediate value, which the model does not name.
    pub(crate) fn helper(
        &mut self,
        suffix: &str,
        op: &str,
        attrs: Attrs,
        inputs: &[&ImportedValue],
    ) -> Result<ImportedValue, Refusal> {
        let owner = self.owner();
        let name = self.builder.helper_name(&owner, suffix);
        self.builder.emit(op, attrs, inputs, &name)
    }

    /// Applies the op that computes the operator's result.
    pub fn result(
        &mut self,
        op: &str,
        attrs: Attrs,
        inputs: &[&ImportedValue],
    ) -> Result<ImportedValue, Refusal> {
        self.result_at(0, op, attrs, inputs)
    }

    /// Applies the op that computes one of several results.
    pub(crate) fn result_at(
        &mut self,
        at: usize,
        op: &str,
        attrs: Attrs,
        inputs: &[&ImportedValue],
    ) -> Result<ImportedValue, Refusal> {
        let name = self.output_name(at);
        self.builder.emit(op, attrs, inputs, &name)
    }

    /// Makes a constant that is the result.
    pub(crate) fn constant_result(&mut self, tensor: Tensor) -> ImportedValue {
        ImportedValue::constant(self.output_name(0), tensor)
    }

    /// Reshapes a value. With a suffix this is an intermediate value, without one it is the result.
    pub(crate) fn reshape(
        &mut self,
        suffix: Option<&str>,
        value: &ImportedValue,
        dims: &[usize],
    ) -> Result<ImportedValue, Refusal> {
        if value.dims() == dims {
            return Ok(value.clone());
        }
        if let (true, Some(tensor)) = (dims.contains(&0), value.known()) {
            let empty = tensor.reshaped(dims.into());
            return Ok(match suffix {
                Some(suffix) => self.constant(suffix, empty),
                None => self.constant_result(empty),
            });
        }
        let attrs = Attrs::new().ints("shape", &signed(dims));
        match suffix {
            Some(suffix) => self.helper(suffix, "reshape", attrs, &[value]),
            None => self.result("reshape", attrs, &[value]),
        }
    }
}

fn unknown(what: &str, value: &ImportedValue) -> Refusal {
    let node = match value.origin() {
        Origin::Node(node) => Some(node),
        Origin::Constant | Origin::Live(_) => None,
    };
    Refusal::Dynamic { what: what.to_owned(), value: value.name.to_string(), node }
}

/// Returns dimensions in the form of attributes.
pub fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect()
}

/// Resolves an axis that may count from the end.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let wrapped = if axis < 0 { axis + signed } else { axis };
    usize::try_from(wrapped).ok().filter(|&axis| axis < rank).ok_or_else(|| {
        Refusal::other(format!("its axis {axis} is out of range for a value of {rank} dimensions"))
    })
}

/// Resolves axes that may count from the end, and sorts them. It is an error if one is given twice.
pub fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, Refusal> {
    let set = list.iter().map(|&at| axis(at, rank)).collect::<Result<BTreeSet<_>, _>>()?;
    if set.len() != list.len() {
        return Err(Refusal::other(format!("its axes {list:?} name a dimension twice")));
    }
    Ok(set.into_iter().collect())
}
