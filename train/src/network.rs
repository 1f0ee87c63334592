//! A model whose parameters are known: it is imported with some of them as inputs, and written with other values.

use super::error::TrainError;
use super::initializer::value;
use super::mark;
use super::wire;
use ovolo::attr::Attrs;
use ovolo::error::Source;
use ovolo::graph::{CONST, Graph, Node, NodeId, text};
use ovolo::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use ovolo::onnx::{self, ImportOptions};
use ovolo::registry::Registry;
use ovolo::{DType, Tensor};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The number of `ModelProto.graph`.
const GRAPH: u32 = 7;
/// The number of `GraphProto.initializer`.
const INITIALIZER: u32 = 5;
/// The number of ONNX's type of binary32.
const FLOAT: i32 = 1;

/// Operands of ONNX operators that are floats, and no parameters: they say how an operator works. The statistics of a batch
/// norm are no parameters either, since they are no result of its gradients.
const STRUCTURAL: &[(&str, &[usize])] = &[
    ("BatchNormalization", &[3, 4]),
    ("Clip", &[1, 2]),
    ("DequantizeLinear", &[1, 2]),
    ("Dropout", &[1, 2]),
    ("OneHot", &[2]),
    ("Pad", &[2]),
    ("QuantizeLinear", &[1, 2]),
    ("Range", &[0, 1, 2]),
    ("Resize", &[1, 2]),
    ("Upsample", &[1]),
];

/// A model for inference, with the values of its parameters.
pub struct Network {
    name: String,
    form: Form,
    parameters: Vec<(String, Tensor)>,
    statistics: Vec<(String, Tensor, f64)>,
}

/// What a model was read from.
enum Form {
    Onnx { bytes: Vec<u8>, proto: Box<ModelProto> },
    Text(Graph),
}

impl Network {
    /// Reads a model: a graph in text form if its name says so, else an ONNX file. Its parameters are the constants of
    /// binary32 with at least one dimension; in ONNX, the initializers of the main graph, without those that say how an
    /// operator works, such as the scales of `Resize`, and without the statistics of batch norms.
    ///
    /// # Errors
    /// The file is no model, or has constants in other files.
    pub fn read(registry: &Registry, path: &Path) -> Result<Self, TrainError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|why| TrainError::Data { file: name.clone(), why: why.to_string() })?;
        if text::is_named(path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let source = Source::new(name.clone(), text);
            let graph = text::parse_source(registry.ops(), &source, &text::Constants::none());
            return Ok(Self::of_graph(name, graph.map_err(TrainError::Table)?));
        }
        Self::of_bytes(name, bytes)
    }

    fn of_graph(name: String, graph: Graph) -> Self {
        let norms = graph.nodes().filter(|(_, node)| node.op == "batch-norm");
        let begin: BTreeMap<NodeId, f64> =
            norms.flat_map(|(_, node)| [(node.inputs[3], 0.0), (node.inputs[4], 1.0)]).collect();
        let (mut parameters, mut statistics) = (Vec::new(), Vec::new());
        for (id, node) in graph.nodes().filter(|(_, node)| trains(node.ty.dtype, node.ty.shape.rank())) {
            let Some(value) = graph.constant(id).cloned() else { continue };
            match begin.get(&id) {
                Some(begin) => statistics.push((node.name.to_string(), value, *begin)),
                None => parameters.push((node.name.to_string(), value)),
            }
        }
        Self { name, form: Form::Text(graph), parameters, statistics }
    }

    fn of_bytes(name: String, bytes: Vec<u8>) -> Result<Self, TrainError> {
        let wrong = |why: &str| TrainError::Model { model: name.clone(), why: why.to_owned() };
        let proto = ModelProto::decode(bytes.as_slice())
            .map_err(|why| wrong(&format!("it is no ONNX model: {why}")))?;
        let graph = proto.graph.as_ref().ok_or_else(|| wrong("it has no graph"))?;
        if let Some(tensor) = graph.initializer.iter().find(|tensor| tensor.data_location != 0) {
            let tensor = &tensor.name;
            return Err(wrong(&format!(
                "`{tensor}` is in another file, and only models of one file can be trained: save it as one file with \
                 `onnx.save_model`"
            )));
        }
        let (structural, statistics) = (structural(graph), statistics(graph));
        let (mut parameters, mut kept) = (Vec::new(), Vec::new());
        for tensor in &graph.initializer {
            let begin = statistics.get(tensor.name.as_str());
            let float = tensor.data_type == FLOAT && trains(DType::F32, tensor.dims.len());
            if !float || begin.is_none() && structural.contains(tensor.name.as_str()) {
                continue;
            }
            let value =
                value(tensor).map_err(|why| wrong(&format!("initializer `{}`: {why}", tensor.name)))?;
            match begin {
                Some(begin) => kept.push((tensor.name.clone(), value, *begin)),
                None => parameters.push((tensor.name.clone(), value)),
            }
        }
        let form = Form::Onnx { bytes, proto: Box::new(proto) };
        Ok(Self { name, form, parameters, statistics: kept })
    }

    /// Returns the name of the model in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters with their values, in the model's order.
    pub fn parameters(&self) -> &[(String, Tensor)] {
        &self.parameters
    }

    /// Returns the means and variances of batch norms, with the number that each has in a network that is not trained: 0
    /// or 1.
    pub fn statistics(&self) -> &[(String, Tensor, f64)] {
        &self.statistics
    }

    /// Returns the values of parameters and statistics, by name.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let statistics = self.statistics.iter().map(|(name, value, _)| (name.as_str(), value));
        self.parameters.iter().map(|(name, value)| (name.as_str(), value)).chain(statistics)
    }

    /// Returns the names of the parameters that none of these patterns matches. In a pattern, `*` stands for any
    /// characters.
    ///
    /// # Errors
    /// A pattern matches no parameter, or none is left.
    pub fn unfrozen(&self, frozen: &[String]) -> Result<Vec<String>, TrainError> {
        let names = || self.parameters.iter().map(|(name, _)| name);
        if let Some(pattern) = frozen.iter().find(|pattern| !names().any(|name| matches(pattern, name))) {
            let some: Vec<&str> = names().take(8).map(String::as_str).collect();
            let help = match some.is_empty() {
                true => "it has none".to_owned(),
                false => format!("there are {}", some.join(", ")),
            };
            return Err(TrainError::Freeze { pattern: pattern.clone(), help });
        }
        let left: Vec<String> =
            names().filter(|name| !frozen.iter().any(|pattern| matches(pattern, name))).cloned().collect();
        if left.is_empty() {
            let why = match self.parameters.is_empty() {
                true => "no constant of float32 has a dimension",
                false => "all of them are frozen",
            };
            return Err(TrainError::NoParameter { model: self.name.clone(), why: why.to_owned() });
        }
        Ok(left)
    }

    /// Returns the graph of the model, with some parameters as inputs after the model's own.
    ///
    /// # Errors
    /// The model cannot be imported so.
    pub fn graph(
        &self,
        registry: &Registry,
        import: &ImportOptions,
        inputs: &[String],
    ) -> Result<Graph, TrainError> {
        Ok(self.marked(registry, import, inputs, false)?.0)
    }

    /// Returns the graph as [`Network::graph`] does, and on demand the marks of its dropouts: inputs of a truth value, each
    /// with the ratio of the dropout that chooses by it between its operand and itself.
    ///
    /// # Errors
    /// As [`Network::graph`]; also if a ratio is not known.
    pub(crate) fn marked(
        &self,
        registry: &Registry,
        import: &ImportOptions,
        inputs: &[String],
        dropouts: bool,
    ) -> Result<(Graph, Vec<(String, f64)>), TrainError> {
        let chosen: BTreeSet<&str> = inputs.iter().map(String::as_str).collect();
        let proto = match &self.form {
            Form::Text(graph) => return Ok((with_inputs(graph, &chosen), Vec::new())),
            Form::Onnx { proto, .. } => proto,
        };
        let (mut proto, mut marks) = ((**proto).clone(), Vec::new());
        if let Some(graph) = &mut proto.graph {
            let wrong = |why| TrainError::Model { model: self.name.clone(), why };
            if dropouts {
                marks = mark::dropouts(graph).map_err(wrong)?;
            }
            let (taken, kept) = std::mem::take(&mut graph.initializer)
                .into_iter()
                .partition(|tensor| chosen.contains(tensor.name.as_str()));
            graph.initializer = kept;
            graph.input.retain(|input| !chosen.contains(input.name.as_str()));
            graph.input.extend(Vec::<TensorProto>::into_iter(taken).map(|tensor| declared(&tensor)));
        }
        let bytes = proto.encode_to_vec();
        Ok((onnx::from_bytes(registry.onnx(), bytes, &self.name, import)?.graph, marks))
    }

    /// Returns the file of the same model with other values of some constants. An ONNX model keeps all of its other fields.
    ///
    /// # Errors
    /// The model is a graph in text form, with a constant that this form cannot list.
    pub fn with_values(&self, values: &BTreeMap<&str, &Tensor>) -> Result<Vec<u8>, TrainError> {
        let wrong = |why: &str| TrainError::Model { model: self.name.clone(), why: why.to_owned() };
        match &self.form {
            Form::Text(graph) => {
                let graph = with_constants(graph, values);
                let text = text::print_in_full(&graph, &|_| None);
                Ok(text.ok_or_else(|| wrong("a constant cannot be written as text"))?.into_bytes())
            }
            Form::Onnx { bytes, .. } => {
                let change = |graph: &[u8]| {
                    wire::replaced(graph, INITIALIZER, |content| {
                        let tensor = TensorProto::decode(content).ok()?;
                        let value = values.get(tensor.name.as_str())?;
                        let raw_data = value.bytes().to_vec().into();
                        Some(TensorProto { float_data: Vec::new(), raw_data, ..tensor }.encode_to_vec())
                    })
                };
                let replaced = wire::replaced(bytes, GRAPH, change);
                replaced.ok_or_else(|| wrong("its fields are damaged"))
            }
        }
    }
}

/// Returns whether constants of this type are parameters.
fn trains(dtype: DType, rank: usize) -> bool {
    dtype == DType::F32 && rank > 0
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| matches(rest, &name[at..]))
        }),
    }
}

/// Returns the values that nodes read as operands that are no parameters.
fn structural(graph: &GraphProto) -> BTreeSet<&str> {
    let operands = |node: &NodeProto| {
        STRUCTURAL
            .iter()
            .filter(|(op, _)| *op == node.op_type)
            .flat_map(|(_, operands)| *operands)
            .copied()
            .collect()
    };
    let named = |node: &'_ NodeProto, operands: Vec<usize>| -> Vec<String> {
        operands.into_iter().filter_map(|at| node.input.get(at).cloned()).collect()
    };
    let names: BTreeSet<String> = graph.node.iter().flat_map(|node| named(node, operands(node))).collect();
    graph.initializer.iter().map(|tensor| tensor.name.as_str()).filter(|name| names.contains(*name)).collect()
}

/// Returns the names of the means and variances of batch norms, with their first values.
fn statistics(graph: &GraphProto) -> BTreeMap<&str, f64> {
    let norms = graph.node.iter().filter(|node| node.op_type == "BatchNormalization");
    norms
        .flat_map(|node| [(3, 0.0), (4, 1.0)].map(|(at, begin)| Some((node.input.get(at)?.as_str(), begin))))
        .flatten()
        .collect()
}

/// Returns the declaration of an input of the type of a constant.
fn declared(tensor: &TensorProto) -> ValueInfoProto {
    let size = |size: &i64| DimensionProto { dim_value: Some(*size), dim_param: None };
    let shape = TensorShapeProto { dim: tensor.dims.iter().map(size).collect() };
    let tensor_type = Some(TensorTypeProto { elem_type: tensor.data_type, shape: Some(shape) });
    ValueInfoProto {
        name: tensor.name.clone(),
        r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }),
    }
}

/// Returns a graph with inputs in place of some constants, after the other inputs.
fn with_inputs(graph: &Graph, chosen: &BTreeSet<&str>) -> Graph {
    let is_chosen = |node: &Node| node.op == CONST && chosen.contains(&*node.name);
    let (inputs, others): (Vec<_>, Vec<_>) =
        graph.nodes().filter(|(_, node)| node.op.is_leaf()).partition(|(_, node)| node.op != CONST);
    let (chosen, constants): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, node)| is_chosen(node));
    let leaves = inputs.into_iter().chain(chosen).chain(constants).map(|(id, _)| id).collect::<Vec<_>>();
    rebuilt(graph, &leaves, &|node| {
        if is_chosen(node) { None } else { graph.constant(graph.find(&node.name)?).cloned() }
    })
}

/// Returns a graph with other values of some constants.
fn with_constants(graph: &Graph, values: &BTreeMap<&str, &Tensor>) -> Graph {
    let leaves: Vec<NodeId> = graph.nodes().filter(|(_, node)| node.op.is_leaf()).map(|(id, _)| id).collect();
    rebuilt(graph, &leaves, &|node| {
        let own = || graph.constant(graph.find(&node.name)?).cloned();
        values.get(&*node.name).map(|value| (*value).clone()).or_else(own)
    })
}

/// Builds a graph anew, with its leaves in this order. A leaf without a value becomes an input.
fn rebuilt(graph: &Graph, leaves: &[NodeId], value: &dyn Fn(&Node) -> Option<Tensor>) -> Graph {
    let mut result = Graph::new();
    let mut ids: Vec<Option<NodeId>> = vec![None; graph.len()];
    for leaf in leaves {
        let node = &graph[*leaf];
        let constant = value(node).filter(|_| node.op == CONST);
        ids[leaf.index()] = Some(match constant {
            Some(value) => result.add_constant(&node.name, value),
            None => result.add_input(&node.name, node.ty.clone()),
        });
    }
    for (id, node) in graph.nodes().filter(|(_, node)| !node.op.is_leaf()) {
        let inputs = node.inputs.iter().filter_map(|input| ids[input.index()]).collect();
        let attrs: Arc<Attrs> = Arc::clone(&node.attrs);
        let node = Node { op: node.op, attrs, inputs, name: Arc::clone(&node.name), ty: node.ty.clone() };
        ids[id.index()] = Some(result.add_node(node));
    }
    for (name, id) in graph.outputs() {
        if let Some(id) = ids[id.index()] {
            result.add_output(name, id);
        }
    }
    result
}
