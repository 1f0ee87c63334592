//! A model with the values of its inputs, and how it is written.

use ovolo::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use ovolo::onnx::{Item, encode_value};
use ovolo::tensor::{DType, Tensor};
use ovolo::value::Value;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// An input or a constant.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its name.
    pub name: String,
    /// Its value.
    pub tensor: Tensor,
    /// Whether the model has it as an initializer, or gets it as an input.
    pub constant: bool,
}

/// A model of ONNX's own operators, with values for its inputs.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The version of the operators.
    pub opset: i64,
    /// The inputs and constants.
    pub leaves: Vec<Leaf>,
    /// The nodes, in an order in which they can run.
    pub nodes: Vec<NodeProto>,
    /// The outputs with their element types.
    pub outputs: Vec<(String, DType)>,
}

/// Returns the number that ONNX has for an element type.
pub(crate) fn number(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
        DType::Text => 8,
        DType::I4 => 22,
        DType::U4 => 21,
        _ => 0,
    }
}

/// Returns a version of the file format that may have an opset; ONNX Runtime reads it where it has the opset.
fn ir(opset: i64) -> i64 {
    match opset {
        ..9 => 4,
        9..21 => 8,
        21..23 => 10,
        _ => 11,
    }
}

/// Returns a tensor as ONNX's message.
pub(crate) fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let bytes = encode_value(name, &Value::Tensor(tensor.clone()), None).unwrap_or_default();
    TensorProto::decode(bytes.as_slice()).unwrap_or_default()
}

/// Returns a declaration of a value; without a shape if there is none.
pub(crate) fn declaration(name: &str, dtype: DType, shape: Option<&[usize]>) -> ValueInfoProto {
    let dimension =
        |dim: &usize| DimensionProto { dim_value: i64::try_from(*dim).ok(), ..DimensionProto::default() };
    let shape = shape.map(|shape| TensorShapeProto { dim: shape.iter().map(dimension).collect() });
    let tensor = TensorTypeProto { elem_type: number(dtype), shape };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { tensor_type: Some(tensor), ..TypeProto::default() }),
    }
}

impl Model {
    /// Returns the message of the model.
    pub fn proto(&self) -> ModelProto {
        let declared =
            |leaf: &Leaf| declaration(&leaf.name, leaf.tensor.ty().dtype, Some(&leaf.tensor.ty().shape));
        let (constants, inputs): (Vec<&Leaf>, Vec<&Leaf>) =
            self.leaves.iter().partition(|leaf| leaf.constant);
        let graph = GraphProto {
            name: "random".to_owned(),
            node: self.nodes.clone(),
            initializer: constants.iter().map(|leaf| tensor_proto(&leaf.name, &leaf.tensor)).collect(),
            input: inputs.iter().map(|leaf| declared(leaf)).collect(),
            output: self.outputs.iter().map(|(name, dtype)| declaration(name, *dtype, None)).collect(),
            ..GraphProto::default()
        };
        let mut domains: Vec<&str> = self.nodes.iter().map(|node| node.domain.as_str()).collect();
        domains.push("");
        domains.sort_unstable();
        domains.dedup();
        let import =
            |domain: &str| OperatorSetId { domain: domain.to_owned(), version: self.version(domain) };
        ModelProto {
            ir_version: ir(self.opset),
            producer_name: "ovolo-random".to_owned(),
            graph: Some(graph),
            opset_import: domains.into_iter().map(import).collect(),
            ..ModelProto::default()
        }
    }

    /// Returns the version of a domain's operators that came out with the opset of ONNX's own ones.
    pub(crate) fn version(&self, domain: &str) -> i64 {
        match domain {
            "" => self.opset,
            "ai.onnx.ml" if self.opset >= 22 => 5,
            "ai.onnx.ml" if self.opset >= 21 => 4,
            "ai.onnx.ml" if self.opset >= 14 => 3,
            "ai.onnx.ml" if self.opset >= 10 => 2,
            _ => 1,
        }
    }

    /// Returns the names of the operators, those of inner graphs among them, each with its domain if it is not ONNX's own.
    pub fn operators(&self) -> BTreeSet<String> {
        fn add(node: &NodeProto, found: &mut BTreeSet<String>) {
            let dot = if node.domain.is_empty() { "" } else { "." };
            found.insert(format!("{}{dot}{}", node.domain, node.op_type));
            let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
            graphs.flat_map(|graph| &graph.node).for_each(|node| add(node, found));
        }
        let mut found = BTreeSet::new();
        self.nodes.iter().for_each(|node| add(node, &mut found));
        found
    }

    /// Returns the bytes of the model's file.
    pub fn bytes(&self) -> Vec<u8> {
        self.proto().encode_to_vec()
    }

    /// Returns the inputs with their names.
    pub fn inputs(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves.iter().filter(|leaf| !leaf.constant)
    }

    /// Returns the inputs by their names.
    pub fn given(&self) -> BTreeMap<String, Item<Tensor>> {
        self.inputs().map(|leaf| (leaf.name.clone(), Item::Tensor(leaf.tensor.clone()))).collect()
    }

    /// Makes every value that no node reads an output, if it is not one already; drops outputs that no longer exist.
    pub fn expose(&mut self, types: &BTreeMap<String, DType>) {
        let read: Vec<&String> = self.nodes.iter().flat_map(reads).collect();
        let loose = self.nodes.iter().flat_map(|node| &node.output).filter(|name| !read.contains(name));
        self.outputs = loose.filter_map(|name| Some((name.clone(), *types.get(name.as_str())?))).collect();
    }

    /// Drops nodes and leaves that no output needs.
    pub fn sweep(&mut self) {
        let mut needed: Vec<String> = self.outputs.iter().map(|(name, _)| name.clone()).collect();
        let mut kept = Vec::new();
        for node in self.nodes.drain(..).rev() {
            if node.output.iter().any(|name| needed.contains(name)) {
                needed.extend(reads(&node).into_iter().cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        self.leaves.retain(|leaf| needed.contains(&leaf.name));
    }

    /// Returns the model as lines of text, with the elements of small leaves.
    pub fn text(&self) -> String {
        let mut text = format!("opset {}\n", self.opset);
        for leaf in &self.leaves {
            let kind = if leaf.constant { "const" } else { "input" };
            let all: Vec<String> = match leaf.tensor.to_texts() {
                Some(texts) => texts.iter().map(|text| format!("{text:?}")).collect(),
                None => leaf.tensor.to_f64().iter().map(ToString::to_string).collect(),
            };
            let shown: Vec<String> = all.iter().take(24).cloned().collect();
            let more = if all.len() > shown.len() { ", …" } else { "" };
            let _ =
                writeln!(text, "{}: {} = {kind} [{}{more}]", leaf.name, leaf.tensor.ty(), shown.join(", "));
        }
        self.nodes.iter().for_each(|node| line(&mut text, node, ""));
        let outputs: Vec<&str> = self.outputs.iter().map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(text, "return {}", outputs.join(", "));
        text
    }
}

/// Returns the values that a node reads, those of its inner graphs among them.
pub(crate) fn reads(node: &NodeProto) -> Vec<&String> {
    let inner = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()).flat_map(|graph| {
        let outputs = graph.output.iter().map(|output| &output.name);
        graph.node.iter().flat_map(reads).chain(outputs)
    });
    node.input.iter().filter(|name| !name.is_empty()).chain(inner).collect()
}

fn line(text: &mut String, node: &NodeProto, indent: &str) {
    let attributes: Vec<String> =
        node.attribute.iter().filter(|attribute| attribute.g.is_none()).map(attribute_text).collect();
    let attributes =
        if attributes.is_empty() { String::new() } else { format!(" {{{}}}", attributes.join(", ")) };
    let (outputs, inputs) = (node.output.join(", "), node.input.join(", "));
    let domain = if node.domain.is_empty() { String::new() } else { format!("{}.", node.domain) };
    let _ = writeln!(text, "{indent}{outputs} = {domain}{}({inputs}){attributes}", node.op_type);
    for attribute in &node.attribute {
        let Some(graph) = &attribute.g else { continue };
        let names = |list: &[ValueInfoProto]| {
            list.iter().map(|value| value.name.clone()).collect::<Vec<_>>().join(", ")
        };
        let _ = writeln!(text, "{indent}  {}({}):", attribute.name, names(&graph.input));
        graph.node.iter().for_each(|node| line(text, node, &format!("{indent}    ")));
        let _ = writeln!(text, "{indent}    return {}", names(&graph.output));
    }
}

fn attribute_text(attribute: &AttributeProto) -> String {
    let value = match attribute.r#type() {
        AttributeType::Float => attribute.f.to_string(),
        AttributeType::Int => attribute.i.to_string(),
        AttributeType::String => String::from_utf8_lossy(&attribute.s).into_owned(),
        AttributeType::Ints => format!("{:?}", attribute.ints),
        AttributeType::Floats => format!("{:?}", attribute.floats),
        AttributeType::Strings => {
            let texts: Vec<_> = attribute.strings.iter().map(|text| String::from_utf8_lossy(text)).collect();
            format!("{texts:?}")
        }
        other => format!("({other:?})"),
    };
    format!("{}: {value}", attribute.name)
}
