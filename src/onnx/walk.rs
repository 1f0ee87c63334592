//! A walk over a model makes the nodes of graphs from the model's operators.
//!
//! Where the next node needs elements that only a run knows, such as the number of iterations of a loop, the walk
//! stops at a *cut*. If it takes place during a run, the nodes up to there are a *region*: they are compiled and run,
//! and the walk continues with the tensors that they computed ([`region`](super::region)).
//!
//! Operators that contain graphs, and those on sequences and optional values, leave no node behind: branches and the
//! iterations of loops are walked like any other graph, and sequences are lists of values while a model is walked.

mod attend;
mod control;
mod repeat;
mod sequence;

use super::builder::{Builder, ImportedValue};
use super::document::{Body, Operation};
use super::error::Undefined;
use super::proto::NodeProto;
use super::structure::{describe, is_own};
use super::{OnnxError, Refusal, Tables, node};
use crate::attr::Attrs;
use crate::tensor::Tensor;
pub(super) use repeat::INDEX;
use repeat::Repeat;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a name of the model stands for while the model is walked.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // Nearly all are tensors.
pub(super) enum Binding {
    /// A tensor.
    Tensor(ImportedValue),
    /// A list of values.
    Sequence(Arc<Vec<Binding>>),
    /// A sequence of maps with these keys: a matrix with a row for each map.
    Maps(Tensor, ImportedValue),
    /// An optional value that is absent. One that is present is bound like any other value.
    Absent,
}

impl Binding {
    /// Returns the tensor.
    fn tensor(&self) -> Result<&ImportedValue, Refusal> {
        match self {
            Self::Tensor(value) => Ok(value),
            Self::Sequence(_) => Err(Refusal::other("one of its operands is a sequence, not a tensor")),
            Self::Maps(..) => Err(Refusal::other("one of its operands is a sequence of maps, not a tensor")),
            Self::Absent => Err(Refusal::other("one of its operands is an optional value that is absent")),
        }
    }

    /// Returns the elements of a sequence.
    fn sequence(&self) -> Result<&Arc<Vec<Self>>, Refusal> {
        match self {
            Self::Sequence(list) => Ok(list),
            Self::Tensor(value) => {
                Err(Refusal::other(format!("its operand `{}` is {}, not a sequence", value.name, value.ty)))
            }
            Self::Maps(..) => Err(Refusal::other("one of its operands is a sequence of maps")),
            Self::Absent => Err(Refusal::other("one of its operands is an optional value that is absent")),
        }
    }
}

/// The values of a graph by their names.
pub(super) type Scope = FxHashMap<Arc<str>, Binding>;

/// A graph that is being walked.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub body: Arc<Body>,
    /// The position of the node that comes next.
    pub at: usize,
    /// The values that the graph defines.
    pub scope: Arc<Scope>,
    /// Comes before the names of the graph's nodes.
    prefix: Arc<str>,
    kind: Kind,
    /// Whether the walk stops before the first node, so that an iteration is a region of its own.
    pub cut: bool,
    /// Whether the first node of an iteration comes next, and what the iteration takes of its operands is not bound.
    fresh: bool,
}

impl Frame {
    /// Returns the name of the value that holds the number of an iteration, if each iteration is a region.
    pub fn counter(&self) -> Option<&str> {
        match &self.kind {
            Kind::Iteration(repeat) if repeat.rolled => Some(repeat.counter(&self.body.inputs)),
            Kind::Iteration(_) | Kind::Main | Kind::Branch | Kind::Change(_) => None,
        }
    }

    /// Returns the values that the frame holds in addition to those in scope.
    pub fn bindings(&mut self) -> Vec<&mut Binding> {
        match &mut self.kind {
            Kind::Iteration(repeat) => repeat.bindings().collect(),
            Kind::Main | Kind::Branch | Kind::Change(_) => Vec::new(),
        }
    }
}

/// The reason for which a graph is walked.
#[derive(Clone, Debug)]
enum Kind {
    /// It is the model itself.
    Main,
    /// It is a branch of an `If`.
    Branch,
    /// It changes the scores or the weights of an attention.
    Change(attend::Change),
    /// It is an iteration.
    Iteration(Repeat),
}

/// A position in a model, with everything that was computed on the way to it.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub frames: Vec<Frame>,
    /// Intermediate values of the next operator that a previous region has computed.
    pub resolved: Vec<(Arc<str>, ImportedValue)>,
}

/// Why a walk stopped.
pub(super) enum Stop {
    /// All nodes were walked. These are the model's outputs; one that a refused node should have computed is absent.
    Finished(Vec<Option<Binding>>),
    /// The next node needs elements that only a run knows; the reason.
    Cut(String),
}

/// What one operator leads to.
enum Step {
    /// Its results.
    Results(Vec<Binding>),
    /// One of its graphs is walked first.
    Enter(Box<Frame>),
}

/// Makes nodes while a model is walked.
pub(super) struct Importer<'a> {
    /// The tables of ops and operators.
    pub tables: Tables<'a>,
    /// The graph of the region.
    pub builder: Builder,
    /// Whether the walk takes place during a run.
    pub running: bool,
    /// The most nodes that the iterations of a loop may have together to become part of the graph around it; `None` if there
    /// is no limit.
    pub unroll: Option<usize>,
}

/// Called for a node of the model that was refused; returns values that replace its results.
pub(super) type Refused<'a> = &'a mut dyn FnMut(
    &Operation,
    OnnxError,
    &mut Builder,
) -> Result<Vec<(Arc<str>, ImportedValue)>, OnnxError>;

impl Walk {
    /// Starts at the beginning of a model.
    pub fn new(main: Arc<Body>, scope: Scope) -> Self {
        let frame = Frame {
            body: main,
            at: 0,
            scope: Arc::new(scope),
            prefix: "".into(),
            kind: Kind::Main,
            cut: false,
            fresh: false,
        };
        Self { frames: vec![frame], resolved: Vec::new() }
    }

    /// Makes the nodes up to the end of the model or the next cut.
    pub fn advance(&mut self, importer: &mut Importer<'_>, refused: Refused<'_>) -> Result<Stop, OnnxError> {
        importer.builder.resolved = self.resolved.drain(..).collect();
        loop {
            let Some(frame) = self.frames.last_mut() else { return Ok(Stop::Finished(Vec::new())) };
            if std::mem::take(&mut frame.cut) {
                return Ok(Stop::Cut("the next iteration is run by the same plan".to_owned()));
            }
            importer.builder.prefix = Arc::clone(&frame.prefix);
            if std::mem::take(&mut frame.fresh) {
                self.open(importer)?;
                continue;
            }
            let body = Arc::clone(&frame.body);
            let (operation, result) = match body.operations.get(frame.at) {
                Some(operation) => (Some(operation), self.step(operation, importer)),
                None => match self.finish(importer) {
                    Ok(Some(outputs)) => return Ok(Stop::Finished(outputs)),
                    Ok(None) => continue,
                    Err(why) => (None, Err(why)),
                },
            };
            match result {
                Ok(Step::Results(results)) => {
                    self.bind(operation.map_or(&[], |operation| &operation.node.output), results);
                    importer.builder.made.clear();
                    importer.builder.resolved.clear();
                }
                Ok(Step::Enter(frame)) => self.frames.push(*frame),
                Err(why) => {
                    if importer.running
                        && let Some(reason) = cut(&why)
                    {
                        let made = std::mem::take(&mut importer.builder.made);
                        self.resolved =
                            made.into_iter().map(|value| (Arc::clone(&value.name), value)).collect();
                        return Ok(Stop::Cut(reason));
                    }
                    self.frames.truncate(1);
                    let main = Arc::clone(&self.frames[0].body);
                    let Some(operation) = main.operations.get(self.frames[0].at) else { return Err(why) };
                    let replaced = refused(operation, why, &mut importer.builder)?;
                    let scope = Arc::make_mut(&mut self.frames[0].scope);
                    scope.extend(replaced.into_iter().map(|(name, value)| (name, Binding::Tensor(value))));
                    self.frames[0].at += 1;
                }
            }
        }
    }

    /// Returns what a name stands for.
    pub fn find(&self, name: &str) -> Option<&Binding> {
        self.frames.iter().rev().find_map(|frame| frame.scope.get(name))
    }

    /// Binds the results of the current node, and goes on to the next one.
    fn bind(&mut self, names: &[String], results: Vec<Binding>) {
        let Some(frame) = self.frames.last_mut() else { return };
        let scope = Arc::make_mut(&mut frame.scope);
        for (name, result) in names.iter().zip(results).filter(|(name, _)| !name.is_empty()) {
            scope.insert(name.as_str().into(), result);
        }
        frame.at += 1;
    }

    /// Returns the outputs of the innermost graph.
    fn outputs(&self) -> Result<Vec<Binding>, OnnxError> {
        let outputs = self.frames.last().map_or(&[][..], |frame| &frame.body.outputs);
        let find = |output: &super::proto::ValueInfoProto| {
            self.find(&output.name).cloned().ok_or_else(|| OnnxError::Undefined {
                values: vec![Undefined {
                    name: output.name.clone(),
                    reader: "a subgraph as its output".to_owned(),
                    close: None,
                }],
            })
        };
        outputs.iter().map(find).collect()
    }

    /// Handles the end of the innermost graph. Returns the outputs of the model if that was its end.
    fn finish(&mut self, importer: &mut Importer<'_>) -> Result<Option<Vec<Option<Binding>>>, OnnxError> {
        let Some(frame) = self.frames.last() else { return Ok(None) };
        match &frame.kind {
            Kind::Main => {
                let outputs = frame.body.outputs.iter().map(|output| self.find(&output.name).cloned());
                return Ok(Some(outputs.collect()));
            }
            Kind::Branch => {
                let outputs = self.outputs()?;
                self.frames.pop();
                self.leave(outputs);
            }
            &Kind::Change(change) => attend::leave(self, change, importer)?,
            Kind::Iteration(_) => self.iterated(importer)?,
        }
        Ok(None)
    }

    /// Binds the results of an operator whose last graph was left.
    fn leave(&mut self, results: Vec<Binding>) {
        let Some(frame) = self.frames.last() else { return };
        let body = Arc::clone(&frame.body);
        self.bind(&body.operations[frame.at].node.output, results);
    }

    /// Makes what the next node leads to.
    fn step(&self, operation: &Operation, importer: &mut Importer<'_>) -> Result<Step, OnnxError> {
        let node = &operation.node;
        let mut inputs: Vec<Option<Binding>> = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(self.find(name).filter(|_| !name.is_empty()).cloned());
        }
        let unread = operation.reads.iter().filter(|name| self.find(name).is_none());
        let unread: Vec<String> = unread.cloned().collect();
        if !unread.is_empty() {
            return Err(OnnxError::Unread { names: unread });
        }
        let own = is_own(&node.domain);
        let step = match (own, node.op_type.as_str()) {
            (true, "If") => control::branch(self, operation, &inputs, importer),
            (true, "Loop") => repeat::start_loop(self, operation, &inputs, importer),
            (true, "Scan") => repeat::start_scan(self, operation, &inputs, importer),
            (true, "SequenceMap") => repeat::start_map(self, operation, &inputs, importer),
            _ if is_flex(node) => attend::start(self, operation, &inputs, importer),
            _ if is_zip_map(node) => sequence::zip_map(operation, &inputs).map(Step::Results),
            _ => match sequence::operator(&node.op_type).filter(|_| own) {
                Some(operator) => operator(operation, &inputs, importer).map(Step::Results),
                None => return self.import(operation, &inputs, importer),
            },
        };
        step.map_err(|why| {
            let operands = inputs.iter().map(|input| say(input.as_ref())).collect();
            OnnxError::Node { node: describe(node), why: Box::new(why), operands }
        })
    }

    /// Imports an operator on tensors.
    fn import(
        &self,
        operation: &Operation,
        inputs: &[Option<Binding>],
        importer: &mut Importer<'_>,
    ) -> Result<Step, OnnxError> {
        let tensors = inputs.iter().map(|input| input.as_ref().map(Binding::tensor).transpose());
        let tensors = tensors.map(|tensor| Ok(tensor?.cloned())).collect::<Result<Vec<_>, Refusal>>();
        let tensors = match (tensors, operation.node.op_type.as_str()) {
            (Ok(tensors), _) => tensors,
            (Err(_), "Identity") => return Ok(Step::Results(inputs.iter().flatten().cloned().collect())),
            (Err(why), _) => {
                let operands = inputs.iter().map(|input| say(input.as_ref())).collect();
                return Err(OnnxError::Node {
                    node: describe(&operation.node),
                    why: Box::new(why),
                    operands,
                });
            }
        };
        let frame = self.frames.last();
        let read = |name: &str| frame.is_some_and(|frame| frame.body.reads_from(0, name));
        let results =
            node::run(operation, importer.tables.operators, &mut importer.builder, &tensors, &read)?;
        Ok(Step::Results(results.into_iter().map(Binding::Tensor).collect()))
    }

    /// Returns what comes before the names of nodes in a graph of the current node.
    fn prefix(&self, operation: &Operation, suffix: &str) -> Arc<str> {
        let outer = self.frames.last().map_or("", |frame| &frame.prefix);
        let owner = operation.node.output.iter().find(|name| !name.is_empty());
        format!("{outer}{}/{suffix}", owner.unwrap_or(&operation.node.name)).into()
    }
}

/// ONNX's own operators with graphs inside.
const WALKED: [&str; 4] = ["If", "Loop", "Scan", "SequenceMap"];
/// Attention with graphs inside.
const FLEX: &str = "ai.onnx.preview.FlexAttention";
/// The operator that makes maps.
const ZIP_MAP: &str = "ai.onnx.ml.ZipMap";

/// Returns whether a node is one that is walked, instead of imported as ops.
pub(super) fn is_structural(node: &NodeProto) -> bool {
    let walked = WALKED.contains(&node.op_type.as_str());
    is_zip_map(node)
        || is_flex(node)
        || is_own(&node.domain) && (walked || sequence::operator(&node.op_type).is_some())
}

/// Returns the names of operators that are walked, each with its domain if it is not ONNX's own.
pub(super) fn structural() -> impl Iterator<Item = &'static str> {
    WALKED.into_iter().chain(sequence::names()).chain([FLEX, ZIP_MAP])
}

fn is_flex(node: &NodeProto) -> bool {
    super::structure::full_name(node) == FLEX
}

/// Returns the error for a node of which a graph was walked.
fn refused_node(operation: &Operation, why: Refusal) -> OnnxError {
    OnnxError::Node { node: describe(&operation.node), why: Box::new(why), operands: Vec::new() }
}

fn is_zip_map(node: &NodeProto) -> bool {
    super::structure::full_name(node) == ZIP_MAP
}

/// Returns the elements of an operand.
fn demand(importer: &Importer<'_>, value: &Binding, what: &str) -> Result<Tensor, Refusal> {
    importer.builder.demand(value.tensor()?, what)
}

/// Returns an operand of one integer.
fn demand_int(importer: &Importer<'_>, value: &Binding, what: &str) -> Result<i64, Refusal> {
    let tensor = demand(importer, value, what)?;
    let one = tensor.to_i64().filter(|list| list.len() == 1).map(|list| list[0]);
    one.ok_or_else(|| Refusal::other(format!("its {what} is {}, not one integer", tensor.ty())))
}

/// Applies an op for a value with this name.
fn emit(
    importer: &mut Importer<'_>,
    name: &str,
    op: &str,
    attrs: Attrs,
    inputs: &[&ImportedValue],
) -> Result<ImportedValue, Refusal> {
    importer.builder.emit(op, attrs, inputs, name)
}

/// Returns the reason for a cut, if an error means that elements are needed that only a run knows.
fn cut(error: &OnnxError) -> Option<String> {
    match error {
        OnnxError::Node { node, why, .. } => match &**why {
            Refusal::Dynamic { what, value, node: Some(_) } => {
                Some(format!("{node} must know its {what}, `{value}`"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the type of an operand for messages.
fn say(operand: Option<&Binding>) -> String {
    match operand {
        None => "none".to_owned(),
        Some(Binding::Tensor(value)) => value.ty.to_string(),
        Some(Binding::Sequence(list)) => format!("a sequence of {}", list.len()),
        Some(Binding::Maps(_, rows)) => format!("maps of {}", rows.ty),
        Some(Binding::Absent) => "absent".to_owned(),
    }
}
