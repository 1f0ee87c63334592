//! An ONNX model whose bytes are kept, and versions of it with some layers in QDQ form.

use super::error::QuantizeError;
use super::layer::{Layer, layers};
use super::range::{Range, Ranges};
use super::weight::{levels_of_bias, levels_of_weights};
use super::wire::{self, Field};
use ovolo::ValueType;
use ovolo::onnx::decode_value;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, GraphProto, ModelProto, NodeProto, TensorProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use ovolo::{DType, Value};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The numbers of fields in `onnx.proto`.
mod number {
    /// `ModelProto.graph`.
    pub const GRAPH: u32 = 7;
    /// `GraphProto.node`.
    pub const NODE: u32 = 1;
    /// `GraphProto.initializer`.
    pub const INITIALIZER: u32 = 5;
    /// `GraphProto.input`.
    pub const INPUT: u32 = 11;
    /// `GraphProto.output`.
    pub const OUTPUT: u32 = 12;
    /// `NodeProto.input`.
    pub const OPERAND: u32 = 1;
}

/// The first opset in which `DequantizeLinear` takes scales of channels.
const OPSET: i64 = 13;
/// The numbers of ONNX's types of elements.
const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT8: i32 = 3;
const INT32: i32 = 6;

/// An ONNX model of one file.
pub struct Document {
    name: String,
    bytes: Vec<u8>,
    graph: GraphProto,
    layers: Vec<Layer>,
}

impl Document {
    /// Reads a model from its file.
    ///
    /// # Errors
    /// As [`Document::new`]; also if the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, QuantizeError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|why| QuantizeError::Data { file: name.clone(), why: why.to_string() })?;
        Self::new(&name, bytes)
    }

    /// Takes the bytes of a model. `name` is its name in messages.
    ///
    /// # Errors
    /// The bytes are no model, the model is older than opset 13, has constants in other files, or has no layer that can
    /// be quantised.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, QuantizeError> {
        let damaged = |why: &str| QuantizeError::Damaged { model: name.to_owned(), why: why.to_owned() };
        let proto = ModelProto::decode(bytes.as_slice()).map_err(|why| damaged(&why.to_string()))?;
        let graph = proto.graph.ok_or_else(|| damaged("it has no graph"))?;
        let own = |domain: &str| matches!(domain, "" | "ai.onnx");
        let opset = proto.opset_import.iter().find(|import| own(&import.domain)).map_or(1, |own| own.version);
        if opset < OPSET {
            return Err(QuantizeError::Opset { model: name.to_owned(), opset });
        }
        if let Some(tensor) = graph.initializer.iter().find(|tensor| tensor.data_location != 0) {
            return Err(QuantizeError::External { model: name.to_owned(), tensor: tensor.name.clone() });
        }
        let layers = layers(&graph);
        if layers.is_empty() {
            return Err(QuantizeError::NoLayers { model: name.to_owned() });
        }
        Ok(Self { name: name.to_owned(), bytes, graph, layers })
    }

    /// Returns the name of the model in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes of the model.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the layers that can be quantised, in the order of the model's nodes.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the names of the model's inputs that have no default, in order.
    pub fn inputs(&self) -> Vec<&str> {
        let names = self.graph.input.iter().map(|input| input.name.as_str());
        names.filter(|name| self.constant(name).is_none()).collect()
    }

    /// Returns the names of the model's outputs, in order.
    pub fn outputs(&self) -> Vec<&str> {
        self.graph.output.iter().map(|output| output.name.as_str()).collect()
    }

    /// Returns the name that the levels of a value have in a version in which the layers that read it are quantised.
    pub(crate) fn levels_of(&self, value: &str) -> String {
        let mut writer = Writer::new(self);
        writer.free(&levels_name(value))
    }

    /// Returns the bytes of the same model with these values of binary32 as further outputs. Inputs and outputs of the
    /// model are left out.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn observed(&self, values: &BTreeSet<&str>) -> Result<Vec<u8>, QuantizeError> {
        let known: BTreeSet<&str> = self.inputs().into_iter().chain(self.outputs()).collect();
        let mut graph = Vec::new();
        self.graph_fields()?.iter().for_each(|field| graph.extend_from_slice(field.whole));
        for name in values.difference(&known) {
            let tensor_type = Some(TensorTypeProto { elem_type: FLOAT, shape: None });
            let ty = TypeProto { tensor_type, ..TypeProto::default() };
            let info = ValueInfoProto { name: (*name).to_owned(), r#type: Some(ty) };
            wire::push(&mut graph, number::OUTPUT, &info.encode_to_vec());
        }
        self.with_graph(&graph)
    }

    /// Returns the bytes of the model with some layers in QDQ form: those for which `chosen` is true. The input of each
    /// is quantised to `u8` and back before it, as are both inputs of a sum; its weights become `i8` initializers, which
    /// are made floats before it, and its bias becomes one of `i32`. All other fields of the model are kept as they are.
    /// Float weights that no node reads any more are left out.
    ///
    /// # Errors
    /// A constant of a layer cannot be read.
    ///
    /// # Panics
    /// If a chosen layer's input has no range.
    pub fn quantised(&self, chosen: &[bool], ranges: &Ranges) -> Result<Vec<u8>, QuantizeError> {
        let mut writer = Writer::new(self);
        let layers: BTreeMap<usize, &Layer> = self.layers.iter().zip(chosen).filter_map(in_use).collect();
        let fields = self.graph_fields()?;
        let mut nodes: Vec<Vec<u8>> = Vec::new();
        let mut replaced = BTreeMap::new();
        let of_nodes = fields.iter().filter(|field| field.number == number::NODE);
        for (position, field) in of_nodes.enumerate() {
            let content = self.content(field)?;
            match layers.get(&position) {
                Some(layer) => {
                    let operands = writer.layer(layer, ranges)?;
                    nodes.append(&mut writer.nodes);
                    nodes.push(self.with_operands(content, &operands)?);
                    replaced.insert(position, operands);
                }
                None => nodes.push(content.to_vec()),
            }
        }
        let unread = self.unread(&layers, &replaced);
        let mut graph = Vec::new();
        let mut nodes = Some(nodes);
        for field in &fields {
            match field.number {
                number::NODE => {
                    for node in nodes.take().into_iter().flatten() {
                        wire::push(&mut graph, number::NODE, &node);
                    }
                }
                number::INITIALIZER | number::INPUT if self.is_named(field, &unread)? => {}
                _ => graph.extend_from_slice(field.whole),
            }
        }
        for tensor in &writer.constants {
            wire::push(&mut graph, number::INITIALIZER, &tensor.encode_to_vec());
        }
        self.with_graph(&graph)
    }

    /// Returns the weights and biases of layers that nothing reads once these layers have other operands.
    fn unread<'a>(
        &'a self,
        layers: &BTreeMap<usize, &'a Layer>,
        operands: &BTreeMap<usize, Vec<String>>,
    ) -> BTreeSet<&'a str> {
        let weights = layers.values().filter_map(|layer| layer.weights.as_ref());
        let replaced = weights.flat_map(|weights| [Some(&weights.name), weights.bias.as_ref()]);
        let mut unread: BTreeSet<&str> = replaced.flatten().map(String::as_str).collect();
        let mut read: BTreeSet<&str> = self.outputs().into_iter().collect();
        for (at, node) in self.graph.node.iter().enumerate() {
            let operands = operands.get(&at).map_or(&[][..], Vec::as_slice);
            read.extend(operands.iter().chain(node.input.iter().skip(operands.len())).map(String::as_str));
            names_in_subgraphs(node, &mut read);
        }
        unread.retain(|name| !read.contains(name));
        unread
    }

    /// Returns whether an initializer or an input has one of these names.
    fn is_named(&self, field: &Field<'_>, names: &BTreeSet<&str>) -> Result<bool, QuantizeError> {
        let content = self.content(field)?;
        let name = if field.number == number::INITIALIZER {
            TensorProto::decode(content).map(|tensor| tensor.name)
        } else {
            ValueInfoProto::decode(content).map(|info| info.name)
        };
        Ok(names.contains(name.map_err(|why| self.damaged(&why.to_string()))?.as_str()))
    }

    /// Returns a node whose first operands are replaced.
    fn with_operands(&self, node: &[u8], operands: &[String]) -> Result<Vec<u8>, QuantizeError> {
        let fields = wire::fields(node).ok_or_else(|| self.damaged("a node is damaged"))?;
        let mut operands = operands.iter();
        let mut result = Vec::new();
        for field in fields {
            match if field.number == number::OPERAND { operands.next() } else { None } {
                Some(name) => wire::push(&mut result, number::OPERAND, name.as_bytes()),
                None => result.extend_from_slice(field.whole),
            }
        }
        Ok(result)
    }

    /// Returns the fields of the graph.
    fn graph_fields(&self) -> Result<Vec<Field<'_>>, QuantizeError> {
        let model = wire::fields(&self.bytes).ok_or_else(|| self.damaged("its fields are damaged"))?;
        let mut graphs = model.iter().filter(|field| field.number == number::GRAPH);
        let (Some(graph), None) = (graphs.next(), graphs.next()) else {
            return Err(self.damaged("it has not one graph"));
        };
        wire::fields(graph.content.unwrap_or_default()).ok_or_else(|| self.damaged("its graph is damaged"))
    }

    /// Returns the model with another graph.
    fn with_graph(&self, graph: &[u8]) -> Result<Vec<u8>, QuantizeError> {
        let model = wire::fields(&self.bytes).ok_or_else(|| self.damaged("its fields are damaged"))?;
        let mut result = Vec::new();
        for field in model {
            match field.number {
                number::GRAPH => wire::push(&mut result, number::GRAPH, graph),
                _ => result.extend_from_slice(field.whole),
            }
        }
        Ok(result)
    }

    fn content<'a>(&self, field: &Field<'a>) -> Result<&'a [u8], QuantizeError> {
        field.content.ok_or_else(|| self.damaged("a field of its graph has no length"))
    }

    fn damaged(&self, why: &str) -> QuantizeError {
        QuantizeError::Damaged { model: self.name.clone(), why: why.to_owned() }
    }

    fn constant(&self, name: &str) -> Option<&TensorProto> {
        self.graph.initializer.iter().find(|tensor| tensor.name == name)
    }

    /// Returns the shape and the values of an initializer of binary32.
    fn values(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), QuantizeError> {
        let wrong =
            |why: String| QuantizeError::Constant { model: self.name.clone(), tensor: name.to_owned(), why };
        let proto = self.constant(name).ok_or_else(|| wrong("it is no initializer".to_owned()))?;
        let value = decode_value(&proto.encode_to_vec(), &ValueType::Tensor(DType::F32))
            .map_err(|why| wrong(why.to_string()))?;
        match value {
            Value::Tensor(tensor) if tensor.ty().dtype == DType::F32 => {
                let values = tensor.elements::<f32>().to_vec();
                match values.iter().find(|value| !value.is_finite()) {
                    Some(value) => Err(wrong(format!("it holds {value}"))),
                    None => Ok((tensor.ty().shape.to_vec(), values)),
                }
            }
            other => Err(wrong(format!("it is {}", other.kind()))),
        }
    }
}

/// Returns a layer with its position, if it is chosen.
fn in_use<'a>((layer, chosen): (&'a Layer, &bool)) -> Option<(usize, &'a Layer)> {
    chosen.then_some((layer.node, layer))
}

/// Collects all names that nodes in the subgraphs of a node read, and those that the subgraphs give.
fn names_in_subgraphs<'a>(node: &'a NodeProto, names: &mut BTreeSet<&'a str>) {
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()) {
        names.extend(graph.output.iter().map(|output| output.name.as_str()));
        for inner in &graph.node {
            names.extend(inner.input.iter().map(String::as_str));
            names_in_subgraphs(inner, names);
        }
    }
}

/// Returns the name that the levels of a value have unless another value has it.
fn levels_name(value: &str) -> String {
    format!("{value}_quantized")
}

/// What stands for a value in QDQ form.
#[derive(Clone)]
struct Dequantised {
    name: String,
    /// The scale of the value, or those of the channels of weights.
    scales: Vec<f32>,
}

/// Makes the nodes and initializers of layers in QDQ form.
struct Writer<'a> {
    document: &'a Document,
    /// The names that are taken.
    taken: BTreeSet<String>,
    /// What stands for a value, or for weights with channels along an axis.
    made: BTreeMap<(&'a str, Option<usize>), Dequantised>,
    /// The encoded nodes that must come before the next layer.
    nodes: Vec<Vec<u8>>,
    constants: Vec<TensorProto>,
}

impl<'a> Writer<'a> {
    fn new(document: &'a Document) -> Self {
        let graph = &document.graph;
        let mut taken = BTreeSet::new();
        for node in &graph.node {
            taken.extend(node.input.iter().chain(&node.output).chain([&node.name]).cloned());
            let mut inner = BTreeSet::new();
            names_in_subgraphs(node, &mut inner);
            taken.extend(inner.into_iter().map(str::to_owned));
        }
        taken.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
        taken.extend(graph.input.iter().map(|input| input.name.clone()));
        Self { document, taken, made: BTreeMap::new(), nodes: Vec::new(), constants: Vec::new() }
    }

    /// Returns the operands of a layer in QDQ form, after adding what they need.
    fn layer(&mut self, layer: &'a Layer, ranges: &Ranges) -> Result<Vec<String>, QuantizeError> {
        let inputs: Vec<Dequantised> =
            layer.inputs.iter().map(|input| self.activation(input, ranges[input])).collect();
        let mut operands: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
        let Some(constants) = &layer.weights else { return Ok(operands) };
        let weights = self.weights(&constants.name, constants.axis)?;
        operands.push(weights.name);
        if let Some(name) = &constants.bias {
            let (_, values) = self.document.values(name)?;
            operands.push(match levels_of_bias(&values, inputs[0].scales[0], &weights.scales) {
                Some(bias) => {
                    let bytes = bias.levels.iter().flat_map(|level| level.to_le_bytes()).collect();
                    let base = format!("{}_bias", layer.name);
                    let levels = self.tensor(&format!("{base}_quantized"), INT32, &[values.len()], bytes);
                    let scale = self.scales(&base, &bias.scales);
                    self.node("DequantizeLinear", &format!("{base}_dequantized"), &[&levels, &scale], Some(0))
                }
                // It stays in binary32, as its levels do not fit into 32 bits.
                None => name.clone(),
            });
        }
        Ok(operands)
    }

    /// Returns the name of the value that stands for an activation, and its scale.
    fn activation(&mut self, name: &'a str, range: Range) -> Dequantised {
        if let Some(made) = self.made.get(&(name, None)) {
            return made.clone();
        }
        let scale = self.tensor(&format!("{name}_scale"), FLOAT, &[], range.scale().to_le_bytes().to_vec());
        let zero = self.tensor(&format!("{name}_zero_point"), UINT8, &[], vec![range.zero_point()]);
        let levels = self.node("QuantizeLinear", &levels_name(name), &[name, &scale, &zero], None);
        let value =
            self.node("DequantizeLinear", &format!("{name}_dequantized"), &[&levels, &scale, &zero], None);
        let made = Dequantised { name: value, scales: vec![range.scale()] };
        self.made.insert((name, None), made.clone());
        made
    }

    /// Returns the name of the value that stands for weights, and the scales of their channels.
    fn weights(&mut self, name: &'a str, axis: usize) -> Result<Dequantised, QuantizeError> {
        if let Some(made) = self.made.get(&(name, Some(axis))) {
            return Ok(made.clone());
        }
        let (shape, values) = self.document.values(name)?;
        let made = levels_of_weights(&values, &shape, axis);
        let bytes = made.levels.iter().map(|level| level.cast_unsigned()).collect();
        let levels = self.tensor(&format!("{name}_quantized"), INT8, &shape, bytes);
        let scale = self.scales(name, &made.scales);
        let zeros = vec![0; made.scales.len()];
        let zero = self.tensor(&format!("{name}_zero_point"), INT8, &[made.scales.len()], zeros);
        let operands = [levels.as_str(), &scale, &zero];
        let value = self.node("DequantizeLinear", &format!("{name}_dequantized"), &operands, Some(axis));
        let made = Dequantised { name: value, scales: made.scales };
        self.made.insert((name, Some(axis)), made.clone());
        Ok(made)
    }

    fn scales(&mut self, base: &str, scales: &[f32]) -> String {
        let bytes = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        self.tensor(&format!("{base}_scale"), FLOAT, &[scales.len()], bytes)
    }

    /// Adds an initializer, and returns its name.
    fn tensor(&mut self, name: &str, data_type: i32, shape: &[usize], bytes: Vec<u8>) -> String {
        let name = self.free(name);
        let dims = shape.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
        let raw_data = Bytes::from(bytes);
        self.constants.push(TensorProto {
            name: name.clone(),
            dims,
            data_type,
            raw_data,
            ..TensorProto::default()
        });
        name
    }

    /// Adds a node with one result, and returns the name of the result.
    fn node(&mut self, operator: &str, result: &str, operands: &[&str], axis: Option<usize>) -> String {
        let result = self.free(result);
        let attribute = axis.map(|axis| AttributeProto {
            name: "axis".to_owned(),
            i: i64::try_from(axis).unwrap_or(i64::MAX),
            r#type: AttributeType::Int.into(),
            ..AttributeProto::default()
        });
        let node = NodeProto {
            input: operands.iter().map(|&name| name.to_owned()).collect(),
            output: vec![result.clone()],
            name: self.free(&format!("{result}_{operator}")),
            op_type: operator.to_owned(),
            attribute: attribute.into_iter().collect(),
            ..NodeProto::default()
        };
        self.nodes.push(node.encode_to_vec());
        result
    }

    /// Returns a name that nothing has yet.
    fn free(&mut self, name: &str) -> String {
        let mut name = name.to_owned();
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}
