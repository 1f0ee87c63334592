//! The plan: ordered steps, places in memory, and the account of both. Plain data.
//!
//! Takes an extracted graph and the contracts of the implementations that were chosen, gives steps
//! whose operands and results have fixed offsets in one arena. Views cost nothing, a result takes
//! its operand's buffer where the contract allows it and nobody reads the operand later, and
//! scratch lives for one step. What is computed from constants alone is no step: it is evaluated
//! once, when the plan is loaded.

mod check;
mod stored;

pub use check::MOST_THREADS;

use crate::attr::Attrs;
use crate::contract::{ALIGN, Call, Contract};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::memory::{self, Buffer};
use crate::op;
use crate::tensor::TensorType;
use draft::{Draft, Slot};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

mod draft;

/// Whose bytes a value's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// The caller's, for the input with this index.
    Input(usize),
    /// Those of a constant of the program: a node that depends on no input.
    Constant(NodeId),
    /// The arena's.
    Arena,
}

/// Where the bytes of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Whose bytes they are.
    pub base: Base,
    /// Where in them the value begins, in bytes.
    pub offset: usize,
}

/// One kernel and its buffers.
///
/// Where a plan is stored, ops and attributes stand by their names in the registry; one that is not
/// there is refused when the plan is read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "stored::Step")]
pub struct Step {
    /// The node in the program.
    pub node: NodeId,
    /// The name of the value it computes.
    pub name: Arc<str>,
    /// The lowered op.
    pub op: &'static str,
    /// Its attributes.
    pub attrs: Arc<Attrs>,
    /// Types of the operands.
    pub input_types: Vec<TensorType>,
    /// Where the operands are.
    pub inputs: Vec<Place>,
    /// Type of the result.
    pub output_type: TensorType,
    /// Where the result goes.
    pub output: Place,
    /// The operand whose buffer the result takes.
    pub in_place: Option<usize>,
    /// An operand that is copied into the result's buffer first: the kernel works on it where it
    /// lies, and its own buffer is still needed, or is not the arena's.
    pub copied: Option<usize>,
    /// Operands that were computed where they belong in the result: the kernel leaves them alone.
    pub joined: Vec<usize>,
    /// Scratch bytes.
    pub scratch: usize,
    /// Where in the arena the scratch is.
    pub scratch_offset: usize,
    /// The implementation.
    pub implementation: String,
    /// What the cost model says one run takes.
    pub seconds: f64,
    /// Of them those that memory planning adds: copies that a better place for an operand would save.
    pub copies: f64,
    /// Where the op came from.
    pub source: Source,
}

/// Where a node of a program came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The rules that led to it, the last first: `name (file:line)`.
    pub rules: Vec<String>,
    /// The rules that made what else the left sides of these stood in, and so on.
    pub others: Vec<String>,
    /// The imported nodes that all of them began with, in the model's order.
    pub imported: Vec<Imported>,
}

/// A node of the model as it was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The name of its value.
    pub name: Arc<str>,
    /// Its op.
    pub op: String,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.op)
    }
}

/// A range of the arena, and the steps during which it is taken: by values or by a step's scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Where in the arena it begins.
    pub offset: usize,
    /// Bytes, padded to the alignment.
    pub size: usize,
    /// The first step at which it is taken.
    pub lower: usize,
    /// The first step at which it is no longer. One more than there are steps where it holds an output
    /// of the model, which is copied to the caller after the last step.
    pub upper: usize,
}

/// A program ready to be loaded and run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The steps in order.
    pub steps: Vec<Step>,
    /// Inputs: names and types, in the model's order.
    pub inputs: Vec<(Arc<str>, TensorType)>,
    /// Outputs: names, types and places, in the model's order.
    pub outputs: Vec<(Arc<str>, TensorType, Place)>,
    /// What the arena holds when.
    pub buffers: Vec<Placed>,
    /// Bytes of the arena.
    pub arena: usize,
    /// The most bytes live at one step in the chosen order: no arena can be smaller.
    pub lower_bound: usize,
    /// Whether no arena can be smaller in the chosen order.
    pub proven: bool,
    /// Threads the plan was made for.
    pub threads: usize,
}

/// Why a graph cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No kernel.
    #[error("`{name}`: no kernel for `{op}`: {why}")]
    NoKernel {
        /// The value.
        name: String,
        /// Its op.
        op: String,
        /// The backend's reason.
        why: String,
    },
    /// The plan's settings are off.
    #[error("{0}")]
    Setting(String),
}

impl From<PlanError> for crate::error::Error {
    fn from(error: PlanError) -> Self {
        Self::Plan(error.to_string())
    }
}

/// Answers about the kernel of a call: its contract and what one run costs, in seconds.
pub type Asked<'a> = &'a dyn Fn(&Call<'_>, &[bool]) -> Result<(Contract, f64), String>;

/// Whether each node, by position, depends on no input.
pub fn constants(graph: &Graph) -> Vec<bool> {
    let mut constant: Vec<bool> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let from = node.inputs.iter().all(|input| constant[input.index()]);
        constant.push(node.op == CONST || (node.op != INPUT && from));
    }
    constant
}

impl Plan {
    /// Plans a program. `sources` say where each node came from, `copy` prices a copy of so many bytes.
    ///
    /// # Errors
    /// If a kernel is refused or `planner` is not a planner.
    pub fn new(
        graph: &Graph,
        sources: &[Source],
        threads: usize,
        ask: Asked<'_>,
        copy: &dyn Fn(usize) -> f64,
        order: &str,
        planner: &str,
    ) -> Result<Self, PlanError> {
        let constant = constants(graph);
        let mut contracts: Vec<Option<(Contract, f64)>> = vec![None; graph.len()];
        for (id, node) in graph.nodes() {
            if node.op == INPUT || constant[id.index()] {
                continue;
            }
            let inputs: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
            let flags: Vec<bool> = node.inputs.iter().map(|input| constant[input.index()]).collect();
            let call = Call { op: node.op, attrs: &node.attrs, inputs: &inputs, output: &node.ty, threads };
            let answer = ask(&call, &flags).map_err(|why| PlanError::NoKernel {
                name: node.name.to_string(),
                op: node.op.to_owned(),
                why,
            })?;
            contracts[id.index()] = Some(answer);
        }
        let sequence = sequence(graph, &constant, &contracts, order)?;
        let mut draft = Draft::new(graph, &constant, &sequence);
        let mut plan = Self { threads, ..Self::default() };
        plan.inputs = graph.inputs().map(|(_, node)| (Arc::clone(&node.name), node.ty.clone())).collect();
        let mut scratches = Vec::new();
        let mut pending = Vec::new();
        // For each position, how many steps come before it: views take a position and are no steps.
        let mut steps_before = Vec::with_capacity(sequence.len() + 2);
        for (position, &id) in sequence.iter().enumerate() {
            steps_before.push(plan.steps.len());
            let Some((contract, seconds)) = &contracts[id.index()] else { continue };
            let node = &graph[id];
            if let Some(operand) = contract.view_of {
                draft.view(node.inputs[operand], id, contract.view_offset);
                continue;
            }
            let in_place = draft.result(graph, id, contract, position);
            let copied = contract.alias.filter(|operand| in_place != Some(*operand));
            let joined = draft.join(graph, id, contract);
            if !joined.is_empty() && joined.len() == node.inputs.len() {
                continue;
            }
            let share = share_copied(graph, node, contract, &joined);
            let copies = match copied {
                Some(operand) => copy(graph[node.inputs[operand]].ty.bytes()),
                None if contract.parts.is_empty() => 0.0,
                None => seconds * (share - share_apart(graph, node, contract, &constant)),
            };
            let seconds = seconds * share + copied.map_or(0.0, |_| copies);
            if contract.scratch > 0 {
                scratches.push((plan.steps.len(), position, contract.scratch));
            }
            pending.push(id);
            plan.steps.push(Step {
                node: id,
                name: Arc::clone(&node.name),
                op: node.op,
                attrs: Arc::clone(&node.attrs),
                input_types: node.inputs.iter().map(|input| graph[*input].ty.clone()).collect(),
                inputs: Vec::new(),
                output_type: node.ty.clone(),
                output: Place { base: Base::Arena, offset: 0 },
                in_place,
                copied,
                joined,
                scratch: contract.scratch,
                scratch_offset: 0,
                implementation: contract.implementation.clone(),
                seconds,
                copies,
                source: sources.get(id.index()).cloned().unwrap_or_default(),
            });
        }
        let planner = memory::find(planner)
            .ok_or_else(|| PlanError::Setting(format!("`{planner}` is no memory planner")))?;
        let (mut buffers, buffer_of) = draft.buffers();
        let first_scratch = buffers.len();
        buffers.extend(scratches.iter().map(|(_, position, size)| Buffer {
            lower: *position,
            upper: position + 1,
            size: size.next_multiple_of(ALIGN),
            align: ALIGN,
        }));
        let packing = planner.plan(&buffers);
        steps_before.extend([plan.steps.len(), plan.steps.len() + 1]);
        let placed = buffers.iter().zip(&packing.offsets).map(|(buffer, offset)| Placed {
            offset: *offset,
            size: buffer.size,
            lower: steps_before[buffer.lower],
            upper: steps_before[buffer.upper],
        });
        plan.buffers = placed.collect();
        plan.arena = packing.peak;
        plan.lower_bound = packing.lower_bound;
        plan.proven = packing.proven;
        let place = |id: NodeId| match draft.slot(id) {
            Some(Slot::Fixed(place)) => place,
            Some(Slot::Storage(storage, offset)) => {
                Place { base: Base::Arena, offset: packing.offsets[buffer_of[storage]] + offset }
            }
            None => unreachable!("every value of a program has a place before it is read"),
        };
        for (step, id) in plan.steps.iter_mut().zip(&pending) {
            step.inputs = graph[*id].inputs.iter().map(|input| place(*input)).collect();
            step.output = place(*id);
        }
        for (scratch, (step, _, _)) in scratches.iter().enumerate() {
            plan.steps[*step].scratch_offset = packing.offsets[first_scratch + scratch];
        }
        plan.outputs =
            graph.outputs().map(|(name, id)| (Arc::clone(name), graph[id].ty.clone(), place(id))).collect();
        Ok(plan)
    }

    /// The sum of the steps' estimates, in seconds.
    pub fn seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.seconds).sum()
    }
}

/// The share of its time that a kernel takes that need not copy what was computed where it belongs.
#[allow(clippy::cast_precision_loss)]
fn share_copied(graph: &Graph, node: &Node, contract: &Contract, joined: &[usize]) -> f64 {
    if contract.parts.is_empty() {
        return 1.0;
    }
    let bytes = |operand: usize| graph[node.inputs[operand]].ty.bytes() as f64;
    let copied: f64 = (0..node.inputs.len()).filter(|operand| !joined.contains(operand)).map(bytes).sum();
    copied / (node.ty.bytes().max(1) as f64)
}

/// The share of a result made of its operands that is copied however memory is planned: constants, the
/// caller's inputs, operands that come twice, and those off the alignment.
#[allow(clippy::cast_precision_loss)]
fn share_apart(graph: &Graph, node: &Node, contract: &Contract, constant: &[bool]) -> f64 {
    let apart = |(at, input): &(usize, &NodeId)| {
        constant[input.index()]
            || graph[**input].op == INPUT
            || node.inputs[..*at].contains(input)
            || !contract.joins(*at, graph[**input].ty.bytes())
    };
    let operands = node.inputs.iter().enumerate().filter(apart);
    let bytes: usize = operands.map(|(_, input)| graph[*input].ty.bytes()).sum();
    bytes as f64 / node.ty.bytes().max(1) as f64
}

/// The order of execution.
fn sequence(
    graph: &Graph,
    constant: &[bool],
    contracts: &[Option<(Contract, f64)>],
    order: &str,
) -> Result<Vec<NodeId>, PlanError> {
    let runs: Vec<NodeId> = graph
        .nodes()
        .filter(|(id, node)| node.op != INPUT && !constant[id.index()])
        .map(|(id, _)| id)
        .collect();
    match order {
        "given" => Ok(runs),
        "peak" => {
            let mut task_of = vec![usize::MAX; graph.len()];
            for (task, id) in runs.iter().enumerate() {
                task_of[id.index()] = task;
            }
            let tasks: Vec<memory::Task> = runs
                .iter()
                .map(|id| {
                    let node = &graph[*id];
                    let contract = contracts[id.index()].as_ref().map(|(contract, _)| contract);
                    let view = contract.and_then(|contract| contract.view_of);
                    let inputs =
                        node.inputs.iter().map(|input| task_of[input.index()]).filter(|t| *t != usize::MAX);
                    memory::Task {
                        size: if view.is_some() { 0 } else { node.ty.bytes().next_multiple_of(ALIGN) },
                        scratch: contract.map_or(0, |contract| contract.scratch),
                        inputs: inputs.collect(),
                        alias_of: view.map(|v| task_of[node.inputs[v].index()]).filter(|t| *t != usize::MAX),
                        output: graph.outputs().any(|(_, output)| output == *id),
                    }
                })
                .collect();
            Ok(memory::order(&tasks).into_iter().map(|task| runs[task]).collect())
        }
        other => {
            Err(PlanError::Setting(format!("`{other}` is no order of execution: it is `peak` or `given`")))
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, ty) in &self.inputs {
            writeln!(f, "input {name}: {ty}")?;
        }
        for step in &self.steps {
            let operands: Vec<String> = step.inputs.iter().map(ToString::to_string).collect();
            write!(f, "{}: {} = {}({})", step.name, step.output_type, step.op, operands.join(", "))?;
            let shown = op::find(step.op).map(|def| shown(def, &step.attrs)).unwrap_or_default();
            writeln!(f, "{shown} -> {} [{}]", step.output, step.implementation)?;
            if let Some(operand) = step.copied {
                writeln!(f, "  copies operand {operand} into its result first")?;
            }
            for operand in &step.joined {
                writeln!(f, "  operand {operand} lies in its result already")?;
            }
            if step.scratch > 0 {
                writeln!(f, "  scratch {} at {}", step.scratch, step.scratch_offset)?;
            }
        }
        for (name, ty, place) in &self.outputs {
            writeln!(f, "output {name}: {ty} = {place}")?;
        }
        writeln!(f, "arena {} bytes, lower bound {}", self.arena, self.lower_bound)
    }
}

/// Attributes that are not at their default.
fn shown(def: &op::OpDef, attrs: &Attrs) -> String {
    let mut kept = Attrs::new();
    for (name, value) in attrs.iter() {
        if def.attr(name).and_then(|def| def.default.as_ref()) != Some(value) {
            kept.set(name, value.clone());
        }
    }
    if kept.is_empty() { String::new() } else { format!(" {kept}") }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Input(index) => write!(f, "input {index}")?,
            Base::Constant(node) => write!(f, "constant {node}")?,
            Base::Arena => return write!(f, "@{}", self.offset),
        }
        if self.offset > 0 {
            write!(f, "+{}", self.offset)?;
        }
        Ok(())
    }
}
