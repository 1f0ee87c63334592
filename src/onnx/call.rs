//! One operator of the model while it is imported: its operands and attributes, and the nodes that it becomes. The
//! importer of an [`Operator`](super::Operator) works with it.

use super::builder::{Builder, ImportedValue};
use super::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};
use super::structure::full_name;
use super::{Refusal, sparse};
use crate::attr::Attrs;
use crate::graph::{Graph, NodeId};
use crate::op::Ops;
use crate::tensor::{DType, Tensor};
use prost::bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeSet;

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

    /// Returns the graph that is imported so far. Values that are known while importing have a node in it only once a node
    /// reads them.
    pub fn graph(&self) -> &Graph {
        &self.builder.graph
    }

    /// Returns the node that computes the value of this name in the model, if there is one so far.
    pub fn named(&self, name: &str) -> Option<NodeId> {
        self.builder.graph.find(&format!("{}{name}", self.builder.prefix))
    }

    /// Returns the node of a value, which is made if the value is known and has none.
    pub fn node_of(&mut self, value: &ImportedValue) -> NodeId {
        self.builder.node(value)
    }

    /// Returns the value of a node of the graph.
    pub fn value_of(&self, node: NodeId) -> ImportedValue {
        ImportedValue::node(&self.builder.graph, node)
    }

    /// Returns the operand at a position. It is an error if the operand is absent.
    pub fn input(&self, at: usize) -> Result<ImportedValue, Refusal> {
        self.optional(at).ok_or_else(|| Refusal::Operand(at))
    }

    /// Returns the operand at a position; `None` if it is absent.
    pub fn optional(&self, at: usize) -> Option<ImportedValue> {
        self.inputs.get(at).cloned().flatten()
    }

    /// Resolves an axis of a value, which may count from the end.
    ///
    /// # Errors
    /// If the value has no such axis.
    pub fn axis(&self, value: &ImportedValue, axis: i64) -> Result<usize, Refusal> {
        self::axis(axis, value.rank())
    }

    /// Returns the number of operands, including trailing absent ones.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the elements of a value, on which the import depends, such as a number that decides a shape. It is an
    /// error if they are only known when the model runs.
    pub fn demand(&self, value: &ImportedValue, what: &str) -> Result<Tensor, Refusal> {
        self.builder.demand(value, what)
    }

    /// Returns the integers of an operand, which must be known while importing; `None` if it is absent.
    pub fn known_ints(&self, at: usize, what: &str) -> Result<Option<Vec<i64>>, Refusal> {
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
    pub fn known_scalar(&self, at: usize, what: &str) -> Result<Option<Tensor>, Refusal> {
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
    pub fn has(&self, name: &str) -> bool {
        self.node.attribute.iter().any(|attribute| attribute.name == name)
    }

    /// Returns an integer attribute.
    pub fn int(&self, name: &'static str, default: i64) -> Result<i64, Refusal> {
        Ok(self.attribute(name, AttributeType::Int)?.map_or(default, |a| a.i))
    }

    /// Returns an attribute that is 0 or 1.
    pub fn flag(&self, name: &'static str, default: bool) -> Result<bool, Refusal> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Refusal::attribute(name, format!("is {other}, not 0 or 1"))),
        }
    }

    /// Returns a float attribute, if it is given.
    pub fn float_if(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        Ok(self.attribute(name, AttributeType::Float)?.map(|a| f64::from(a.f)))
    }

    /// Returns a float attribute. The default is a binary32 number, as in ONNX.
    pub fn float(&self, name: &'static str, default: f32) -> Result<f64, Refusal> {
        Ok(self.float_if(name)?.unwrap_or(f64::from(default)))
    }

    /// Returns an attribute that is a list of integers, if it is given.
    pub fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Ints)?.map(|a| a.ints.as_slice()))
    }

    /// Returns an attribute that is a list of floats, if it is given.
    pub fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, Refusal> {
        Ok(self.attribute(name, AttributeType::Floats)?.map(|a| a.floats.as_slice()))
    }

    /// Returns an attribute that is a list of strings, if it is given.
    pub fn texts(&self, name: &'static str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::Strings)? else {
            return Ok(None);
        };
        let text = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).map(ToOwned::to_owned);
            text.map_err(|_| Refusal::attribute(name, "is not UTF-8"))
        };
        attribute.strings.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Returns a string attribute.
    pub fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::String)? else {
            return Ok(default);
        };
        std::str::from_utf8(&attribute.s).map_err(|_| Refusal::attribute(name, "is not UTF-8"))
    }

    /// Returns a tensor attribute, if it is given.
    pub fn tensor(&mut self, name: &'static str) -> Result<Option<Tensor>, Refusal> {
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

    /// Returns a tensor that is given by its elements that are not zero.
    pub fn sparse_tensor(&mut self, name: &'static str) -> Result<Option<Tensor>, Refusal> {
        let Some(attribute) = self.attribute(name, AttributeType::SparseTensor)? else {
            return Ok(None);
        };
        let proto =
            attribute.sparse_tensor.as_ref().ok_or_else(|| Refusal::attribute(name, "lacks its tensor"))?;
        sparse::read(&mut self.builder.weights(), proto, &format!("attribute `{name}`"))
            .map(Some)
            .map_err(|error| Refusal::Tensor(Box::new(error)))
    }

    /// Marks attributes that do not affect the result as read.
    pub fn ignore(&self, names: &[&'static str]) {
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
    pub fn output_name(&mut self, at: usize) -> String {
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

    /// Makes the call of another operator, inside the definition of this one.
    pub(super) fn inner<'b>(
        &'b mut self,
        node: &'b NodeProto,
        opset: i64,
        inputs: &'b [Option<ImportedValue>],
    ) -> Call<'b> {
        Call::new(node, opset, inputs, self.builder)
    }

    /// Makes a constant that the model does not name.
    pub fn constant(&mut self, suffix: &str, tensor: Tensor) -> ImportedValue {
        let owner = self.owner();
        ImportedValue::constant(self.builder.helper_name(&owner, suffix), tensor)
    }

    /// Makes a scalar of an element type.
    pub fn scalar(&mut self, suffix: &str, dtype: DType, value: f64) -> ImportedValue {
        self.constant(suffix, Tensor::from_f64(dtype, [0_usize; 0], &[value]))
    }

    /// Applies an op for an intermediate value, which the model does not name.
    pub fn helper(
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
    pub fn result_at(
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
    pub fn constant_result(&mut self, tensor: Tensor) -> ImportedValue {
        ImportedValue::constant(self.output_name(0), tensor)
    }

    /// Reshapes a value. With a suffix this is an intermediate value, without one it is the result.
    pub fn reshape(
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
