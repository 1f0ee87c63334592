//! The steps of an import: versions, operators, structure, dimensions, constants, nodes, outputs.

use super::call::{Builder, Call, ImportedValue};
use super::error::{Reasons, Unsupported, suggestion};
use super::function::{inline, opset_of};
use super::proto::{GraphProto, ModelProto, NodeProto};
use super::signature::{declared, input_types};
use super::stand_in::StandIns;
use super::structure::{Operation, describe, full_name, is_own, label, order};
use super::weight::Weights;
use super::{
    ImportOptions, Imported, NEWEST_IR, NEWEST_OPSET, OLDEST_OPSET, OnnxError, Operator, Operators, Refusal,
    Tables,
};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use memmap2::Mmap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Imports a decoded model. External data is read from `folder`.
pub(super) fn import(
    tables: Tables<'_>,
    mut proto: ModelProto,
    model: &str,
    folder: Option<PathBuf>,
    map: Option<Arc<Mmap>>,
    options: &ImportOptions,
) -> Result<Imported, OnnxError> {
    let opset = version(&proto, model)?;
    let mut graph = proto.graph.take().unwrap_or_default();
    let nodes = std::mem::take(&mut graph.node);
    let operations = inline(nodes, &proto.functions, &proto.opset_import)?;
    let mut reasons = Reasons::default();
    reasons.hear(supported(&operations, tables.operators));
    if graph.output.is_empty() {
        let why =
            format!("`{model}` has a graph without outputs, so there is nothing to compute; export it again");
        reasons.add(OnnxError::Graph(why));
    }
    for sparse in &graph.sparse_initializer {
        let name = sparse.values.as_ref().map_or("", |values| &values.name);
        let why = Refusal::other("it is sparse; ovolo reads dense initializers only");
        reasons.add(OnnxError::Weight { tensor: format!("initializer `{name}`"), why });
    }
    let sequence = reasons.hear(order(&graph, &operations));
    let inputs = reasons.hear(input_types(&graph, &options.dims));
    let (Some(sequence), Some(inputs)) = (sequence, inputs) else { return Err(reasons.into_error()) };

    let taken = names(&graph, &operations);
    let mut builder =
        Builder::new(tables.ops.clone(), Weights::new(folder, map, options.missing_weights), taken);
    let mut values: FxHashMap<&str, ImportedValue> = FxHashMap::default();
    for (name, ty) in inputs {
        let id = builder.graph.add_input(name, ty);
        values.insert(name, ImportedValue::node(&builder.graph, id));
    }
    // Values that depend on a weight that cannot be read. Only the weight is reported, not these values.
    let mut lost: FxHashSet<&str> = FxHashSet::default();
    for initializer in &graph.initializer {
        let missing = builder.weights.missing.len();
        let tensor = builder.weights.read(initializer, &format!("initializer `{}`", initializer.name));
        match reasons.hear(tensor).filter(|_| builder.weights.missing.len() == missing) {
            Some(tensor) => {
                values.insert(&initializer.name, ImportedValue::constant(initializer.name.as_str(), tensor));
            }
            None => {
                lost.insert(&initializer.name);
            }
        }
    }
    if !builder.weights.missing.is_empty() {
        reasons.add(OnnxError::MissingWeights { names: std::mem::take(&mut builder.weights.missing) });
    }
    let read: FxHashSet<&str> = reads(&graph, &operations).collect();
    let stand_ins = StandIns::new(&graph, &options.dims);
    for index in sequence {
        let operation = &operations[index];
        match run(operation, tables.operators, &mut builder, &values, &read) {
            Ok(results) => values.extend(results),
            Err(why) => {
                why.into_iter().for_each(|why| reasons.add(why));
                let unknown: Vec<&str> = unknown(operation, &values).collect();
                if !unknown.is_empty() && unknown.iter().all(|name| lost.contains(name)) {
                    lost.extend(operation.node.output.iter().map(String::as_str));
                    continue;
                }
                let known = supporting(operation, tables.operators).is_some();
                reasons.unread += usize::from(known && !unknown.is_empty());
                values.extend(stand_ins.make(operation, &mut builder));
            }
        }
    }

    let mut notes = Vec::new();
    for output in &graph.output {
        // An output without a value was already refused above.
        let Some(value) = values.get(output.name.as_str()) else { continue };
        if reasons.hear(declared(output, &value.ty, &mut notes)).is_some() {
            let id = builder.node(value);
            builder.graph.add_output(&output.name, id);
        }
    }
    reasons.into_result()?;
    let producer = format!("{} {}", proto.producer_name, proto.producer_version).trim().to_owned();
    Ok(Imported { graph: swept(&builder.graph), opset, producer, seeded: builder.weights.seeded, notes })
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

/// Refuses all operators that have no importer in one error, sorted by name.
fn supported(operations: &[Operation], operators: &Operators) -> Result<(), OnnxError> {
    let mut unknown: BTreeMap<(&str, &str), Unsupported> = BTreeMap::new();
    for operation in operations {
        let Operation { node, opset } = operation;
        if supporting(operation, operators).is_some() {
            continue;
        }
        let own = is_own(&node.domain);
        let known = operators.get(&full_name(node)).is_some();
        let domain = if own { "" } else { node.domain.as_str() };
        unknown
            .entry((domain, &node.op_type))
            .or_insert_with(|| Unsupported {
                op: full_name(node),
                opset: *opset,
                nodes: Vec::new(),
                hint: hint(domain, &node.op_type, known, operators),
            })
            .nodes
            .push(label(node));
    }
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(OnnxError::Unsupported { operators: unknown.into_values().collect() })
    }
}

/// Returns the importer of a node's operator in the node's opset.
fn supporting<'a>(operation: &Operation, operators: &'a Operators) -> Option<&'a Operator> {
    let Operation { node, opset } = operation;
    let known =
        opset.is_some_and(|opset| !is_own(&node.domain) || (OLDEST_OPSET..=NEWEST_OPSET).contains(&opset));
    operators.get(&full_name(node)).filter(|_| known)
}

fn hint(domain: &str, op: &str, known: bool, operators: &Operators) -> String {
    const QUANTISED: [&str; 7] = [
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    ];
    if known && !domain.is_empty() {
        format!("the model does not import the domain `{domain}`; export it again")
    } else if known {
        format!(
            "a function of the model uses it with an opset that is not among {OLDEST_OPSET} to {NEWEST_OPSET}"
        )
    } else if matches!(op, "If" | "Loop" | "Scan" | "SequenceMap") {
        "nodes that contain graphs are not supported; export the model without control flow (traced, not scripted)"
            .to_owned()
    } else if QUANTISED.contains(&op) || op.starts_with("QLinear") {
        "quantised models are not supported; use the model in floating point".to_owned()
    } else if domain == "com.microsoft" {
        "this operator is specific to ONNX Runtime; use the model as it was before ONNX Runtime optimised it"
            .to_owned()
    } else if domain.is_empty() {
        suggestion(op, operators.names()).trim_start_matches("; ").to_owned()
    } else {
        String::new()
    }
}

/// Returns every name that the model gives to a value.
fn names(graph: &GraphProto, operations: &[Operation]) -> FxHashSet<String> {
    let leaves = graph.input.iter().map(|input| &input.name).chain(graph.initializer.iter().map(|i| &i.name));
    leaves.chain(operations.iter().flat_map(|operation| &operation.node.output)).cloned().collect()
}

/// Iterates over every name that a node reads or that is an output of the graph.
fn reads<'a>(graph: &'a GraphProto, operations: &'a [Operation]) -> impl Iterator<Item = &'a str> {
    let inputs = operations.iter().flat_map(|operation| &operation.node.input);
    inputs.chain(graph.output.iter().map(|output| &output.name)).map(String::as_str)
}

/// Iterates over the operands of a node that have no value.
fn unknown<'a>(
    operation: &'a Operation,
    values: &FxHashMap<&str, ImportedValue>,
) -> impl Iterator<Item = &'a str> {
    let names = operation.node.input.iter().map(String::as_str);
    names.filter(|name| !name.is_empty() && !values.contains_key(name))
}

/// Returns the results of a node by name. The error is `None` if the reason was already reported: the operator has
/// no importer, or an operand is the result of a refused node.
fn run<'a>(
    operation: &'a Operation,
    operators: &Operators,
    builder: &mut Builder,
    values: &FxHashMap<&'a str, ImportedValue>,
    read: &FxHashSet<&str>,
) -> Result<Vec<(&'a str, ImportedValue)>, Option<OnnxError>> {
    let node = &operation.node;
    if unknown(operation, values).next().is_some() {
        return Err(None);
    }
    let (Some(operator), Some(opset)) = (supporting(operation, operators), operation.opset) else {
        return Err(None);
    };
    let inputs: Vec<Option<ImportedValue>> =
        node.input.iter().map(|name| values.get(name.as_str()).cloned()).collect();
    let results = execute(operator, node, opset, &inputs, builder);
    let results = results.and_then(|results| {
        let lost = node
            .output
            .iter()
            .skip(results.len())
            .position(|name| read.contains(name.as_str()) && !name.is_empty());
        match lost {
            None => Ok(results),
            Some(at) => Err(Refusal::other(format!(
                "its result {} (`{}`) is read, but ovolo computes only {} of this operator",
                at + results.len(),
                node.output[at + results.len()],
                if results.len() == 1 {
                    "the first".to_owned()
                } else {
                    format!("the first {}", results.len())
                }
            ))),
        }
    });
    let results = results.map_err(|why| {
        let operands = inputs
            .iter()
            .map(|input| input.as_ref().map_or_else(|| "none".to_owned(), |v| v.ty.to_string()))
            .collect();
        OnnxError::Node { node: format!("{} (opset {opset})", describe(node)), why: Box::new(why), operands }
    })?;
    let named = node.output.iter().map(String::as_str).zip(results);
    Ok(named.filter(|(name, _)| !name.is_empty()).collect())
}

fn execute(
    operator: &Operator,
    node: &NodeProto,
    opset: i64,
    inputs: &[Option<ImportedValue>],
    builder: &mut Builder,
) -> Result<Vec<ImportedValue>, Refusal> {
    let (least, most) = operator.operands;
    if !(least..=most).contains(&inputs.len()) {
        let wanted = match (least, most) {
            (least, most) if least == most => least.to_string(),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        return Err(Refusal::other(format!("it has {} operands, and needs {wanted}", inputs.len())));
    }
    if let Some(at) = inputs.iter().take(least).position(Option::is_none) {
        return Err(Refusal::Operand(at));
    }
    let mut call = Call::new(node, opset, inputs, builder);
    let results = (operator.import)(&mut call)?;
    match call.strangers() {
        strangers if strangers.is_empty() => Ok(results),
        strangers => Err(Refusal::Strangers(strangers.into_iter().map(ToOwned::to_owned).collect())),
    }
}

/// Returns the graph without nodes that no output needs. Inputs stay.
fn swept(graph: &Graph) -> Graph {
    let mut needed = vec![false; graph.len()];
    for (_, id) in graph.outputs() {
        needed[id.index()] = true;
    }
    for (id, node) in graph.nodes().rev() {
        if needed[id.index()] || node.op == INPUT {
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
