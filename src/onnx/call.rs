//! One operator of the model while it is imported: its operands and attributes, and the nodes
//! that it becomes. This is what an importer of an [`Operator`](super::Operator) works with.

use super::Refusal;
use super::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};
use super::structure::full_name;
use super::weight::{Weights, checked_type};
use crate::attr::Attrs;
use crate::graph::{Graph, Node, NodeId};
use crate::op::{self, Ops};
use crate::tensor::{DType, Tensor, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Constants up to so many elements are computed with while importing; integers of any number.
const FOLDED: usize = 4096;
/// The most elements that computing with constants may give.
const FOLDED_RESULT: usize = 1 << 20;

/// A value while importing: a constant that may never be needed, or a node of the graph.
#[derive(Clone, Debug)]
pub struct Value {
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
}

impl Value {
    /// A constant.
    pub(crate) fn constant(name: impl Into<Arc<str>>, tensor: Tensor) -> Self {
        Self { name: name.into(), ty: tensor.ty().clone(), kind: Kind::Constant(tensor) }
    }

    /// The value of a node.
    pub(super) fn node(graph: &Graph, id: NodeId) -> Self {
        Self { name: Arc::clone(&graph[id].name), ty: graph[id].ty.clone(), kind: Kind::Node(id) }
    }

    /// The value, where it is known.
    pub(crate) fn known(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Constant(tensor) => Some(tensor),
            Kind::Node(_) => None,
        }
    }

    /// The number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        self.ty.shape.rank()
    }

    /// The dimensions.
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
    pub weights: Weights,
    /// Names that are given away: all of the model's, and those of helpers.
    pub taken: FxHashSet<String>,
    constants: FxHashMap<Arc<str>, NodeId>,
}

impl Builder {
    /// An empty graph.
    pub(crate) fn new(ops: Ops, weights: Weights, taken: FxHashSet<String>) -> Self {
        Self { graph: Graph::new(), ops, weights, taken, constants: FxHashMap::default() }
    }

    /// The node of a value; a constant becomes one when it is first needed.
    pub(crate) fn node(&mut self, value: &Value) -> NodeId {
        match &value.kind {
            Kind::Node(id) => *id,
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

    /// One op of the registry on some values; computed at once where the values are known and small.
    fn emit(&mut self, op: &str, attrs: Attrs, inputs: &[&Value], name: &str) -> Result<Value, Refusal> {
        let def = self.ops.find(op)?;
        let attrs = op::complete(def, attrs);
        let types: Vec<&TensorType> = inputs.iter().map(|input| &input.ty).collect();
        let ty = def.result(&attrs, &types)?;
        checked_type(ty.dtype, ty.shape.to_vec())?;
        if ty.shape.count() == 0 {
            return Ok(Value::constant(name, Tensor::zeros(ty))); // Nothing is known about nothing.
        }
        if let Some(tensors) = inputs.iter().map(|input| input.known()).collect::<Option<Vec<_>>>() {
            if op == "reshape" {
                return Ok(Value::constant(name, tensors[0].reshaped(ty.shape)));
            }
            let small = |ty: &TensorType| ty.shape.count() <= FOLDED || !ty.dtype.is_float();
            if types.iter().all(|ty| small(ty)) && ty.shape.count() <= FOLDED_RESULT {
                return Ok(Value::constant(name, def.evaluate(&attrs, &tensors, &ty)));
            }
        }
        let inputs = inputs.iter().map(|input| self.node(input)).collect();
        let id = self.graph.add_node(Node { op: def, attrs: Arc::new(attrs), inputs, name: name.into(), ty });
        Ok(Value::node(&self.graph, id))
    }
}

/// One operator of the model.
pub struct Call<'a> {
    /// The model's node.
    pub(super) node: &'a NodeProto,
    /// The version of the operator set.
    pub opset: i64,
    inputs: &'a [Option<Value>],
    builder: &'a mut Builder,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Call<'a> {
    /// An operator with its operands.
    pub(super) fn new(
        node: &'a NodeProto,
        opset: i64,
        inputs: &'a [Option<Value>],
        builder: &'a mut Builder,
    ) -> Self {
        Self { node, opset, inputs, builder, asked: RefCell::default() }
    }

    /// The operator's name, with its domain in front where that is not ONNX's own.
    pub fn operator(&self) -> String {
        full_name(self.node)
    }

    /// The ops that results may have.
    pub fn ops(&self) -> &Ops {
        &self.builder.ops
    }

    /// The operand at a position; absent ones are refused.
    pub fn input(&self, at: usize) -> Result<Value, Refusal> {
        self.optional(at).ok_or_else(|| Refusal::Operand(at))
    }

    /// The operand at a position, if it is given.
    pub(crate) fn optional(&self, at: usize) -> Option<Value> {
        self.inputs.get(at).cloned().flatten()
    }

    /// The number of operands, trailing absent ones included.
    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The integers of an operand that must be known, if it is given.
    pub(crate) fn known_ints(&self, at: usize, what: &str) -> Result<Option<Vec<i64>>, Refusal> {
        let Some(value) = self.optional(at) else {
            return Ok(None);
        };
        let tensor = value.known().ok_or_else(|| unknown(what, &value))?;
        let ints = tensor.to_i64().filter(|_| value.ty.dtype != DType::Bool);
        ints.map(Some).ok_or_else(|| {
            Refusal::other(format!("its {what} `{}` is {}, not a list of integers", value.name, value.ty))
        })
    }

    /// An operand that must be known and have one element, if it is given.
    pub(crate) fn known_scalar(&self, at: usize, what: &str) -> Result<Option<Tensor>, Refusal> {
        let Some(value) = self.optional(at) else {
            return Ok(None);
        };
        let tensor = value.known().ok_or_else(|| unknown(what, &value))?;
        if tensor.ty().shape.count() != 1 {
            return Err(Refusal::other(format!(
                "its {what} `{}` is {}, not one number",
                value.name, value.ty
            )));
        }
        Ok(Some(tensor.clone()))
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

    /// Whether an attribute is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.node.attribute.iter().any(|attribute| attribute.name == name)
    }

    /// An integer attribute.
    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64, Refusal> {
        Ok(self.attribute(name, AttributeType::Int)?.map_or(default, |a| a.i))
    }

    /// An attribute that is 0 or 1.
    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool, Refusal> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Refusal::attribute(name, format!("is {other}, not 0 or 1"))),
        }
    }

    /// A float attribute, if it is given.
    pub(crate) fn float_if(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        Ok(self.attribute(name, AttributeType::Float)?.map(|a| f64::from(a.f)))
    }

    /// A float attribute. The default is taken as binary32, as ONNX does.
    pub fn float(&self, name: &'static str, default: f32) -> Result<f64, Refusal> {
        Ok(self.float_if(name)?.unwrap_or(f64::from(default)))
    }

    /// A list of integers, if it is given.
    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Ints)?.map(|a| a.ints.as_slice()))
    }

    /// A list of floats, if it is given.
    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Floats)?.map(|a| a.floats.as_slice()))
    }

    /// A string attribute.
    pub(crate) fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::String)? else {
            return Ok(default);
        };
        std::str::from_utf8(&attribute.s).map_err(|_| Refusal::attribute(name, "is not UTF-8"))
    }

    /// A tensor attribute, if it is given.
    pub(crate) fn tensor(&mut self, name: &'static str) -> Result<Option<Tensor>, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::Tensor)? else {
            return Ok(None);
        };
        let proto: &TensorProto =
            attribute.t.as_ref().ok_or_else(|| Refusal::attribute(name, "lacks its tensor"))?;
        self.builder
            .weights
            .read(proto, &format!("attribute `{name}`"))
            .map(Some)
            .map_err(|error| Refusal::Tensor(Box::new(error)))
    }

    /// Attributes that have no bearing on the result.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend(names);
    }

    /// Attributes that the import never asked for: they are unknown, and might matter.
    pub(super) fn strangers(&self) -> Vec<&'a str> {
        let asked = self.asked.borrow();
        self.node.attribute.iter().map(|a| a.name.as_str()).filter(|name| !asked.contains(name)).collect()
    }

    /// The name of a result; one that the model leaves out gets a derived name.
    pub(crate) fn output_name(&mut self, at: usize) -> String {
        match self.node.output.get(at).filter(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None => {
                let owner = self.owner();
                self.builder.helper_name(&owner, &format!("output-{at}"))
            }
        }
    }

    fn owner(&self) -> String {
        let first = self.node.output.iter().find(|name| !name.is_empty());
        first.cloned().unwrap_or_else(|| self.node.name.clone())
    }

    /// A constant that the model does not name.
    pub(crate) fn constant(&mut self, suffix: &str, tensor: Tensor) -> Value {
        let owner = self.owner();
        Value::constant(self.builder.helper_name(&owner, suffix), tensor)
    }

    /// A scalar of an element type.
    pub(crate) fn scalar(&mut self, suffix: &str, dtype: DType, value: f64) -> Value {
        self.constant(suffix, Tensor::from_f64(dtype, [0_usize; 0], &[value]))
    }

    /// An op whose value the model does not name.
    pub(crate) fn helper(
        &mut self,
        suffix: &str,
        op: &str,
        attrs: Attrs,
        inputs: &[&Value],
    ) -> Result<Value, Refusal> {
        let owner = self.owner();
        let name = self.builder.helper_name(&owner, suffix);
        self.builder.emit(op, attrs, inputs, &name)
    }

    /// The op that makes the result.
    pub fn result(&mut self, op: &str, attrs: Attrs, inputs: &[&Value]) -> Result<Value, Refusal> {
        self.result_at(0, op, attrs, inputs)
    }

    /// The op that makes one of several results.
    pub(crate) fn result_at(
        &mut self,
        at: usize,
        op: &str,
        attrs: Attrs,
        inputs: &[&Value],
    ) -> Result<Value, Refusal> {
        let name = self.output_name(at);
        self.builder.emit(op, attrs, inputs, &name)
    }

    /// A constant that is the result.
    pub(crate) fn constant_result(&mut self, tensor: Tensor) -> Value {
        Value::constant(self.output_name(0), tensor)
    }

    /// A value under another shape; with a suffix for a helper, without for the result.
    pub(crate) fn reshape(
        &mut self,
        suffix: Option<&str>,
        value: &Value,
        dims: &[usize],
    ) -> Result<Value, Refusal> {
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

fn unknown(what: &str, value: &Value) -> Refusal {
    Refusal::Dynamic { what: what.to_owned(), value: value.name.to_string() }
}

/// Dimensions as attributes hold them.
pub fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect()
}

/// An axis that may count from the end.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let wrapped = if axis < 0 { axis + signed } else { axis };
    usize::try_from(wrapped).ok().filter(|&axis| axis < rank).ok_or_else(|| {
        Refusal::other(format!("its axis {axis} is out of range for a value of {rank} dimensions"))
    })
}

/// Axes that may count from the end, sorted; one that stands twice is refused.
pub fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, Refusal> {
    let set = list.iter().map(|&at| axis(at, rank)).collect::<Result<BTreeSet<_>, _>>()?;
    if set.len() != list.len() {
        return Err(Refusal::other(format!("its axes {list:?} name a dimension twice")));
    }
    Ok(set.into_iter().collect())
}
