//! The steps of an import: versions, operators, structure, dimensions, constants, nodes, outputs.

use super::builder::{Builder, ImportedValue};
use super::document::{Body, Operation};
use super::error::Reasons;
use super::function::{inline, opset_of};
use super::initializer::Initializer;
use super::node::{supported, supporting};
use super::proto::{GraphProto, ModelProto, ValueInfoProto};
use super::signature::{declared, input_types};
use super::stand_in::StandIns;
use super::structure::{is_own, order};
use super::walk::{self, Binding, Importer, Scope, Stop, Walk};
use super::weight::Weights;
use super::{
    ImportOptions, ImportedModel, MissingWeights, NEWEST_IR, NEWEST_OPSET, OLDEST_OPSET, OnnxError, Tables,
};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use memmap2::Mmap;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A model that was decoded and checked, ready to be walked.
pub(super) struct Opened {
    /// The graph of the model.
    pub main: Arc<Body>,
    /// The values of its constants.
    pub constants: Scope,
    /// The names that the model gives to values.
    pub taken: FxHashSet<String>,
    /// Reads the constants of subgraphs and attributes.
    pub weights: Arc<Mutex<Weights>>,
    /// The version of ONNX's own operators.
    pub opset: i64,
    /// The program that wrote the model.
    pub producer: String,
    /// The types that the graph declares for intermediate values.
    value_info: Vec<ValueInfoProto>,
    /// Values that depend on a weight that cannot be read. Only the weight is reported, not these values.
    lost: FxHashSet<String>,
}

impl Opened {
    /// Returns the types that the graph declares for intermediate values.
    pub fn value_info(&self) -> &[ValueInfoProto] {
        &self.value_info
    }
}

/// Checks a decoded model and reads its constants. External data is read from `folder`. Reasons to refuse the model
/// that do not prevent further checks are added to `reasons`; the result is `None` if others are among them.
pub(super) fn open(
    tables: Tables<'_>,
    mut proto: ModelProto,
    model: &str,
    folder: Option<PathBuf>,
    map: Option<Arc<Mmap>>,
    policy: MissingWeights,
    reasons: &mut Reasons,
) -> Result<Option<Opened>, OnnxError> {
    let opset = version(&proto, model)?;
    let mut graph = proto.graph.take().unwrap_or_default();
    let nodes = std::mem::take(&mut graph.node);
    let operations = inline(nodes, &proto.functions, &proto.opset_import)?;
    let imported = operations.iter().filter(|operation| !walk::is_structural(&operation.node));
    reasons.hear(supported(imported, tables.operators));
    if graph.output.is_empty() {
        reasons.add(OnnxError::NoOutputs { model: model.to_owned() });
    }
    let Some((sequence, _)) = reasons.hear(order(&graph, &operations, false)) else { return Ok(None) };
    let taken = names(&graph, &operations);
    let mut weights = Weights::new(folder, map, policy);
    let mut constants = Scope::default();
    let mut lost = FxHashSet::default();
    for initializer in Initializer::all(&graph) {
        let (missing, name) = (weights.missing.len(), initializer.name());
        let tensor = initializer.read(&mut weights);
        match reasons.hear(tensor).filter(|_| weights.missing.len() == missing) {
            Some(tensor) => {
                let value = ImportedValue::constant(name, tensor);
                constants.insert(name.into(), Binding::Tensor(value));
            }
            None => {
                lost.insert(name.to_owned());
            }
        }
    }
    if !weights.missing.is_empty() {
        reasons.add(OnnxError::MissingWeights { names: std::mem::take(&mut weights.missing) });
    }
    let value_info = std::mem::take(&mut graph.value_info);
    let main = Arc::new(Body::new(graph, operations, sequence));
    let producer = format!("{} {}", proto.producer_name, proto.producer_version).trim().to_owned();
    let weights = Arc::new(Mutex::new(weights));
    Ok(Some(Opened { main, constants, taken, weights, opset, producer, value_info, lost }))
}

/// Imports a decoded model whose inputs have the sizes that the options bind. External data is read from `folder`.
pub(super) fn import(
    tables: Tables<'_>,
    proto: ModelProto,
    model: &str,
    folder: Option<PathBuf>,
    map: Option<Arc<Mmap>>,
    options: &ImportOptions,
) -> Result<ImportedModel, OnnxError> {
    let mut reasons = Reasons::default();
    let inputs = input_types(proto.graph.as_ref().unwrap_or(&GraphProto::default()), &options.dims)
        .map(|list| list.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect::<Vec<_>>());
    let opened = open(tables, proto, model, folder, map, options.missing_weights, &mut reasons)?;
    let inputs = reasons.hear(inputs);
    let (Some(opened), Some(inputs)) = (opened, inputs) else { return Err(reasons.into_error()) };
    let taken = opened.taken.clone();
    let mut builder = Builder::new(tables.ops.clone(), Arc::clone(&opened.weights), taken, Vec::new());
    let mut scope = opened.constants.clone();
    for (name, ty) in inputs {
        let id = builder.graph.add_input(&name, ty);
        scope.insert(name.into(), Binding::Tensor(ImportedValue::node(&builder.graph, id)));
    }
    let mut lost = opened.lost.clone();
    let stand_ins = StandIns::new(&opened.value_info, &opened.main.outputs, &options.dims);
    let mut importer = Importer { tables, builder, running: false, unroll: Some(options.unroll) };
    let mut walk = Walk::new(Arc::clone(&opened.main), scope);
    let mut refused = |operation: &Operation, why: OnnxError, builder: &mut Builder| {
        match why {
            OnnxError::Unread { names } if names.iter().all(|name| lost.contains(name)) => {
                lost.extend(operation.node.output.iter().cloned());
                return Ok(Vec::new());
            }
            OnnxError::Unread { .. } => {
                reasons.unread += usize::from(supporting(operation, tables.operators).is_some());
            }
            // It was reported together with all other operators that are not supported.
            OnnxError::Unsupported { .. }
                if supporting(operation, tables.operators).is_none() && operation.bodies.is_empty() => {}
            why => reasons.add(why),
        }
        Ok(stand_ins.make(operation, builder))
    };
    let Stop::Finished(outputs) = walk.advance(&mut importer, &mut refused)? else {
        return Err(OnnxError::Unfinished);
    };
    let mut builder = importer.builder;
    let mut notes = Vec::new();
    for (output, binding) in opened.main.outputs.iter().zip(outputs) {
        // An output without a value was already refused above.
        let Some(binding) = binding else { continue };
        let Binding::Tensor(value) = binding else {
            let why = "is a sequence or an optional value";
            reasons.add(OnnxError::OnlyByRun { port: "output", name: output.name.clone(), why });
            continue;
        };
        if reasons.hear(declared(output, &value.ty, &mut notes)).is_some() {
            let id = builder.node(&value);
            builder.graph.add_output(&output.name, id);
        }
    }
    reasons.into_result()?;
    let seeded = builder.weights().seeded.clone();
    let graph = swept(&builder.graph, true);
    Ok(ImportedModel { graph, opset: opened.opset, producer: opened.producer, seeded, notes })
}

fn version(proto: &ModelProto, model: &str) -> Result<i64, OnnxError> {
    let refuse = |why: String| Err(OnnxError::Version { model: model.to_owned(), why });
    match proto.ir_version {
        1..=NEWEST_IR => {}
        0 => {
            return refuse(
                "does not say its IR version, so it is damaged or not an ONNX model; export it again"
                    .to_owned(),
            );
        }
        other => {
            return refuse(format!(
                "has the IR version {other}, and ovolo knows 1 to {NEWEST_IR}; export it for an older version of ONNX"
            ));
        }
    }
    let mut seen = BTreeMap::new();
    for import in &proto.opset_import {
        let domain = if is_own(&import.domain) { "" } else { &import.domain };
        if let Some(other) = seen.insert(domain, import.version).filter(|&other| other != import.version) {
            return refuse(format!(
                "imports the opsets {other} and {} of {} at once; export it again",
                import.version,
                if domain.is_empty() {
                    "ONNX's own operators".to_owned()
                } else {
                    format!("the domain `{domain}`")
                }
            ));
        }
    }
    match opset_of(&proto.opset_import, "") {
        Some(opset @ OLDEST_OPSET..=NEWEST_OPSET) => Ok(opset),
        Some(opset) if opset < OLDEST_OPSET => refuse(format!(
            "uses opset {opset}, and ovolo knows {OLDEST_OPSET} to {NEWEST_OPSET}; convert it with \
             onnx.version_converter, or export it again with a newer opset"
        )),
        Some(opset) => refuse(format!(
            "uses opset {opset}, and ovolo knows {OLDEST_OPSET} to {NEWEST_OPSET}; export it again with an older opset"
        )),
        None if proto.graph.as_ref().is_some_and(|graph| {
            !graph.node.is_empty() && graph.node.iter().all(|node| !is_own(&node.domain))
        }) =>
        {
            Ok(NEWEST_OPSET) // The model uses no operator of ONNX's own.
        }
        None => refuse(format!(
            "imports no opset of ONNX's own operators, so their meaning is unknown; export it again with an opset of \
             {OLDEST_OPSET} to {NEWEST_OPSET}"
        )),
    }
}

/// Returns every name that the model gives to a value.
fn names(graph: &GraphProto, operations: &[Operation]) -> FxHashSet<String> {
    let leaves = graph.input.iter().map(|input| &input.name).chain(graph.initializer.iter().map(|i| &i.name));
    leaves.chain(operations.iter().flat_map(|operation| &operation.node.output)).cloned().collect()
}

/// Returns the graph without nodes that no output needs. Inputs that no output needs are kept on request.
pub(super) fn swept(graph: &Graph, inputs: bool) -> Graph {
    let mut needed = vec![false; graph.len()];
    for (_, id) in graph.outputs() {
        needed[id.index()] = true;
    }
    for (id, node) in graph.nodes().rev() {
        if needed[id.index()] || (inputs && node.op == INPUT) {
            needed[id.index()] = true;
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    let mut kept = Graph::new();
    let mut renumbered: Vec<Option<NodeId>> = vec![None; graph.len()];
    for (id, node) in graph.nodes().filter(|(id, _)| needed[id.index()]) {
        let new = match graph.constant(id) {
            Some(value) if node.op == CONST => kept.add_constant(&node.name, value.clone()),
            _ => {
                let inputs = node.inputs.iter().filter_map(|input| renumbered[input.index()]).collect();
                kept.add_node(Node { inputs, ..Node::clone(node) })
            }
        };
        renumbered[id.index()] = Some(new);
    }
    for (name, id) in graph.outputs() {
        if let Some(new) = renumbered[id.index()] {
            kept.add_output(name, new);
        }
    }
    kept
}
