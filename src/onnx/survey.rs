//! What a model needs, and what of it ovolo does not have, before any run.
//!
//! The model is imported as for a compilation, and whatever the importer refuses is noted down. A graph inside an
//! operator such as `Loop` is imported on its own if only a run knows whether it runs. A value that a refused operator
//! would compute is replaced by one of the type that the model declares for it, if it declares one.

use super::builder::{Builder, ImportedValue};
use super::document::{Body, Operation};
use super::error::Reasons;
use super::importer::{Opened, open};
use super::node::{supported, supporting};
use super::proto::{DimensionProto, GraphProto, ValueInfoProto};
use super::signature::{self, declared_type, fixed, input_types, symbol, symbols_of, whole_type};
use super::stand_in::StandIns;
use super::structure::{full_name, is_own, label};
use super::walk::{Binding, Importer, Scope, Stop, Walk, is_structural};
use super::{MissingWeights, OnnxError, Refusal, Tables};
use crate::graph::CONST;
use crate::tensor::{Tensor, TensorType};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What a model needs.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The program that wrote the model, with its version; may be empty.
    pub producer: String,
    /// The version of ONNX's own operators.
    pub opset: i64,
    /// The number of nodes, those of functions and of graphs inside operators included.
    pub nodes: usize,
    /// The inputs that must be given, with the types that the model declares for them.
    pub inputs: Vec<(String, String)>,
    /// The dimensions without a size, by name: the size that the survey takes for each, and whether it was given.
    pub dims: BTreeMap<String, (usize, bool)>,
    /// The operators, sorted by domain and name.
    pub operators: Vec<Used>,
    /// The number of values of each element type, weights included, as far as types are known.
    pub types: BTreeMap<String, usize>,
    /// The nodes that contain graphs, with their operators: control flow.
    pub control: Vec<Remark>,
    /// Where the model is cut into regions, since elements that only a run knows decide what comes next.
    pub cuts: Vec<Remark>,
    /// What is absent: all nodes that are refused.
    pub absent: Vec<Remark>,
    /// What is absent that belongs to no node, such as weights that cannot be read.
    pub others: Vec<String>,
    /// Outputs whose shape, for the sizes that the survey takes, is not the one that the model declares. That does not
    /// prevent a run.
    pub shapes: Vec<String>,
    /// The number of nodes of which only the operator was looked at, since the types of their operands are not known
    /// before a run.
    pub unread: usize,
    /// Floating-point operations of all nodes whose types are known.
    pub flops: f64,
    /// At least so many operations of absent nodes: one for each element of the largest of their operands and results.
    pub absent_flops: f64,
    /// The number of absent nodes for which no type is known, so that their work is not known.
    pub absent_unknown: usize,
}

/// An operator of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The name, preceded by the domain unless that is ONNX's own.
    pub op: String,
    /// The version that the model imports of its domain.
    pub opset: Option<i64>,
    /// The number of nodes.
    pub count: usize,
    /// Whether ovolo has it.
    pub known: bool,
}

/// A remark on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How messages name the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// The remark.
    pub why: String,
}

impl Survey {
    /// Returns whether ovolo has everything that the model needs, as far as that is known before a run.
    pub fn is_complete(&self) -> bool {
        self.absent.is_empty() && self.others.is_empty()
    }
}

/// Surveys a model. Symbolic dimensions that `dims` does not bind have the size `default`.
///
/// # Errors
/// If the file cannot be read, or is not a model.
pub fn survey(
    tables: Tables<'_>,
    path: &Path,
    dims: &BTreeMap<String, usize>,
    default: usize,
    policy: MissingWeights,
) -> Result<Survey, OnnxError> {
    let (proto, folder, map) = super::read(path)?;
    let graph = GraphProto { node: Vec::new(), ..proto.graph.clone().unwrap_or_default() };
    let mut found = Survey::default();
    let symbols = symbols_of(&graph);
    let mut bound = dims.clone();
    for name in &symbols {
        let given = dims.get(name).copied();
        found.dims.insert(name.clone(), (given.unwrap_or(default), given.is_some()));
        bound.entry(name.clone()).or_insert(default);
    }
    let mut reasons = Reasons::default();
    let types = input_types(&graph, &bound);
    if let Err(why @ OnnxError::UnknownDims { .. }) = types {
        return Err(why);
    }
    let Some(opened) = open(tables, proto, &path.display().to_string(), folder, map, policy, &mut reasons)?
    else {
        return Err(reasons.into_error());
    };
    found.producer.clone_from(&opened.producer);
    found.opset = opened.opset;
    let inputs = opened.main.inputs.iter();
    found.inputs = inputs.map(|input| (input.name.clone(), declared(input))).collect();
    let mut listed = BTreeMap::new();
    let mut all = Vec::new();
    list(&opened.main, &mut all);
    found.nodes = all.len();
    for operation in &all {
        used(operation, tables, &mut listed);
        if !operation.bodies.is_empty() {
            let names: Vec<&str> = operation.bodies.iter().map(|(name, _)| name.as_str()).collect();
            found.control.push(place(operation, format!("contains {}", names.join(" and "))));
        }
    }
    found.operators = listed.into_values().collect();
    for reason in reasons.found.drain(..).filter(|reason| !matches!(reason, OnnxError::Unsupported { .. })) {
        found.others.push(reason.to_string());
    }
    Surveyor { tables, bound: &bound, found, seen: BTreeSet::new() }.walk(&opened, types)
}

/// Lists the nodes of a graph, and of those inside its operators.
fn list<'a>(body: &'a Body, all: &mut Vec<&'a Operation>) {
    for operation in &body.operations {
        all.push(operation);
        operation.bodies.iter().for_each(|(_, body)| list(body, all));
    }
}

fn is_known(operation: &Operation, tables: Tables<'_>) -> bool {
    is_structural(&operation.node) || supporting(operation, tables.operators).is_some()
}

fn used(operation: &Operation, tables: Tables<'_>, listed: &mut BTreeMap<(String, String), Used>) {
    let node = &operation.node;
    let domain = if is_own(&node.domain) { String::new() } else { node.domain.clone() };
    let entry = listed.entry((domain, node.op_type.clone())).or_insert_with(|| Used {
        op: full_name(node),
        opset: operation.opset,
        count: 0,
        known: is_known(operation, tables),
    });
    entry.count += 1;
}

fn place(operation: &Operation, why: String) -> Remark {
    Remark { node: label(&operation.node), op: full_name(&operation.node), why }
}

/// Returns the type that the model declares for a value, with the names of dimensions.
fn declared(info: &ValueInfoProto) -> String {
    let Ok((dtype, dims)) = declared_type(info) else { return "a sequence or an optional value".to_owned() };
    let Some(dims) = dims else { return format!("{dtype} of any shape") };
    let size = |(axis, dim): (usize, &DimensionProto)| {
        fixed(dim).map_or_else(|| symbol(info, axis, dim), |size| size.to_string())
    };
    let dims: Vec<String> = dims.iter().enumerate().map(size).collect();
    format!("{dtype}[{}]", dims.join(","))
}

/// Imports a model, and goes on after everything that is refused.
struct Surveyor<'a> {
    tables: Tables<'a>,
    bound: &'a BTreeMap<String, usize>,
    found: Survey,
    /// The nodes that were refused, so that none is listed twice.
    seen: BTreeSet<(String, String)>,
}

/// Graphs that are still to be imported, each with the values in scope.
type Waiting = Vec<(Arc<Body>, Scope)>;

impl Surveyor<'_> {
    fn walk(
        mut self,
        opened: &Opened,
        types: Result<Vec<(&str, TensorType)>, OnnxError>,
    ) -> Result<Survey, OnnxError> {
        let (weights, taken) = (Arc::clone(&opened.weights), opened.taken.clone());
        let mut builder = Builder::new(self.tables.ops.clone(), weights, taken, Vec::new());
        let mut scope = opened.constants.clone();
        for constant in scope.values() {
            if let Binding::Tensor(value) = constant {
                *self.found.types.entry(value.ty.dtype.to_string()).or_default() += 1;
            }
        }
        match types {
            Ok(types) => {
                for (name, ty) in types {
                    let id = builder.graph.add_input(name, ty);
                    scope.insert(name.into(), Binding::Tensor(ImportedValue::node(&builder.graph, id)));
                }
            }
            Err(OnnxError::OnlyByRun { port, name, why }) => {
                let why = format!("{port} `{name}` {why}");
                let node = "the model's inputs".to_owned();
                self.found.cuts.push(Remark { node, op: "input".to_owned(), why });
            }
            Err(why) => self.found.others.push(why.to_string()),
        }
        let mut importer = Importer { tables: self.tables, builder, running: false, unroll: None };
        let mut waiting: Waiting = vec![(Arc::clone(&opened.main), scope)];
        while let Some((body, scope)) = waiting.pop() {
            let main = Arc::ptr_eq(&body, &opened.main);
            let infos: &[ValueInfoProto] = if main { opened.value_info() } else { &[] };
            let outputs = self.body(&body, scope, infos, &mut importer, &mut waiting)?;
            if main {
                self.outputs(&body, &outputs);
            }
        }
        let graph = &importer.builder.graph;
        for (_, node) in graph.nodes().filter(|(_, node)| node.op != CONST) {
            *self.found.types.entry(node.ty.dtype.to_string()).or_default() += 1;
            let operands: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
            self.found.flops += (node.op.flops)(&node.attrs, &operands, &node.ty);
        }
        Ok(self.found)
    }

    /// Compares the outputs of the model with their declarations.
    fn outputs(&mut self, main: &Body, outputs: &[Option<Binding>]) {
        for (output, binding) in main.outputs.iter().zip(outputs) {
            let Some(Binding::Tensor(value)) = binding else { continue };
            if let Err(why) = signature::declared(output, &value.ty, &mut self.found.shapes) {
                self.found.others.push(why.to_string());
            }
        }
    }

    /// Imports one graph, and returns its outputs if all of it could be read. Adds the graphs inside operators that only a
    /// run can enter to those that wait.
    fn body(
        &mut self,
        body: &Arc<Body>,
        scope: Scope,
        infos: &[ValueInfoProto],
        importer: &mut Importer<'_>,
        waiting: &mut Waiting,
    ) -> Result<Vec<Option<Binding>>, OnnxError> {
        let bound = self.bound;
        let stand_ins = StandIns::new(infos, &body.outputs, bound);
        let mut walk = Walk::new(Arc::clone(body), scope);
        let mut refused: Vec<(String, OnnxError)> = Vec::new();
        let stop = walk.advance(importer, &mut |operation, why, builder| {
            let first = operation.node.output.first().cloned().unwrap_or_default();
            refused.push((first, why));
            Ok(stand_ins.make(operation, builder))
        });
        // A graph without a value for an output ends early; its nodes were looked at.
        let ended = !matches!(stop, Ok(Stop::Finished(_)));
        let scope = walk.frames.first().map(|frame| Scope::clone(&frame.scope)).unwrap_or_default();
        for (first, why) in refused {
            let operation = body
                .operations
                .iter()
                .find(|operation| operation.node.output.first().map_or("", String::as_str) == first);
            if let Some(operation) = operation {
                self.refused(operation, &why, &scope, &stand_ins);
                if !operation.bodies.is_empty() {
                    self.inside(operation, &scope, importer, waiting);
                }
            }
        }
        match stop {
            Err(ref why)
                if ended && !matches!(why, OnnxError::Undefined { .. } | OnnxError::Unread { .. }) =>
            {
                self.found.others.push(why.to_string());
            }
            _ => {}
        }
        Ok(match stop {
            Ok(Stop::Finished(outputs)) => outputs,
            _ => Vec::new(),
        })
    }

    /// Notes that a node was refused.
    fn refused(&mut self, operation: &Operation, why: &OnnxError, scope: &Scope, stand_ins: &StandIns<'_>) {
        let known = is_known(operation, self.tables);
        let (node, text) = match why {
            OnnxError::Node { node, why, .. } => (node.clone(), why.to_string()),
            other => (label(&operation.node), other.to_string()),
        };
        let mut here = place(operation, text);
        if !operation.bodies.is_empty() {
            here.node = node; // It may be a node inside.
        }
        if !self.seen.insert((here.node.clone(), here.why.clone())) {
            return;
        }
        let dynamic = match why {
            OnnxError::Node { why, .. } => match &**why {
                Refusal::Dynamic { what, value, .. } => {
                    Some(format!("must know its {what}, `{value}`, which only a run knows"))
                }
                _ => None,
            },
            _ => None,
        };
        match (why, dynamic) {
            (_, Some(why)) => self.found.cuts.push(Remark { why, ..here }),
            (OnnxError::Unread { .. }, None) if known => self.found.unread += 1,
            (why, None) => {
                if !known {
                    let one = supported(std::iter::once(operation), self.tables.operators);
                    let hint = match one {
                        Err(OnnxError::Unsupported { operators }) => {
                            operators.first().map(|one| one.hint.clone()).unwrap_or_default()
                        }
                        _ => String::new(),
                    };
                    let hint = if hint.is_empty() { hint } else { format!("; {hint}") };
                    here.why = format!("ovolo has no such operator{hint}");
                } else if let OnnxError::Node { operands, .. } = why
                    && !operands.is_empty()
                {
                    here.why = format!("{}; its operands are {}", here.why, operands.join(", "));
                }
                self.found.absent.push(here);
                self.work(operation, scope, stand_ins);
            }
        }
    }

    /// Adds the work of an absent node: at least one operation for each element of its largest value.
    #[allow(clippy::cast_precision_loss)] // Numbers of elements are far below what a float holds.
    fn work(&mut self, operation: &Operation, scope: &Scope, stand_ins: &StandIns<'_>) {
        let operands = operation.node.input.iter().filter_map(|name| match scope.get(name.as_str()) {
            Some(Binding::Tensor(value)) => Some(value.ty.shape.count()),
            _ => None,
        });
        let results = operation.node.output.iter().filter_map(|name| stand_ins.ty(name));
        let results = results.map(|ty| ty.shape.count());
        match operands.chain(results).max() {
            Some(most) => self.found.absent_flops += most as f64,
            None => self.found.absent_unknown += 1,
        }
    }

    /// Adds the graphs inside an operator to those that wait. Their inputs have the types of the operands, or those
    /// that the graphs declare.
    fn inside(
        &mut self,
        operation: &Operation,
        scope: &Scope,
        importer: &mut Importer<'_>,
        waiting: &mut Waiting,
    ) {
        let owner = operation.node.output.first().map_or("", String::as_str);
        for (attribute, body) in &operation.bodies {
            let mut inner = scope.clone();
            let constants = body.constants(&mut importer.builder.weights()).map(<[_]>::to_vec);
            match constants {
                Ok(constants) => {
                    inner.extend(constants.into_iter().map(|(name, tensor): (Arc<str>, Tensor)| {
                        // Graphs that are apart may have constants of one name.
                        let own = format!("{owner}/{attribute}/{name}");
                        (name, Binding::Tensor(ImportedValue::constant(own, tensor)))
                    }))
                }
                Err(why) => self.found.others.push(why.to_string()),
            }
            for (at, input) in body.inputs.iter().enumerate() {
                let operand = operation.node.input.get(at).filter(|_| operation.node.op_type == "Loop");
                let given = operand.filter(|_| at > 1).and_then(|name| scope.get(name.as_str()));
                let ty = match given {
                    Some(Binding::Tensor(value)) => Some(value.ty.clone()),
                    _ => whole_type(input, self.bound),
                };
                if let Some(ty) = ty {
                    let id = importer.builder.graph.add_input(&input.name, ty);
                    let value = ImportedValue::node(&importer.builder.graph, id);
                    inner.insert(input.name.as_str().into(), Binding::Tensor(value));
                } else {
                    inner.remove(input.name.as_str());
                }
            }
            waiting.push((Arc::clone(body), inner));
        }
    }
}
