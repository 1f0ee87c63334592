//! The plan: ordered steps, the places of their values in memory, and the sizes of the arenas. It is plain data.
//!
//! A plan is made of an extracted graph and the contracts of the chosen implementations. The operands and results of
//! its steps have fixed offsets in the arena of the device on which they lie. Devices share no memory, so each has an
//! arena of its own, with its own lower bound, which holds for the chosen order of execution. Fields that name no
//! device refer to the host. Views cost nothing. A result takes the buffer of an operand if the contract allows it
//! and nothing reads the operand later. Scratch lives for one step. Nodes that depend only on constants are not
//! steps: they are evaluated once, when the plan is loaded.

mod arrange;
mod check;
mod draft;
mod error;
mod inside;
mod kept;
mod occupant;
mod order;
pub(crate) mod output;
mod overlap;
mod price;
pub mod schedule;
mod source;
mod stored;
mod subject;
mod task;
mod update;
mod view;
mod work;

pub use check::{MOST_THREADS, Unsound};
pub(crate) use error::NoKernel;
pub use error::PlanError;
pub use inside::Unfit;
pub use kept::KeptConstants;
pub(crate) use kept::constant_bytes;
pub use source::Source;
pub(crate) use source::SourceNode;
pub use stored::StoredError;
pub(crate) use stored::StoredPlan;
pub(crate) use work::Work;

use crate::attr::Attrs;
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::memory::{Limit, Order, Planner};
use crate::op::{ALIGN, Call, Contract, Op, OpDef, OpError};
use crate::tensor::{Device, TensorType};
use arrange::{Arranged, Arrangement, Packed};
use draft::Slot;
use schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use subject::Subject;

/// The owner of the bytes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// The caller, for the input with this index.
    Input(usize),
    /// A constant of the program: a node that depends on no input.
    Constant(NodeId),
    /// The arena of a device.
    Arena(Device),
}

/// The place of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The owner of the bytes.
    pub base: Base,
    /// The offset of the value in them, in bytes.
    pub offset: usize,
}

/// A kernel and its buffers.
///
/// A stored plan contains ops and attributes by their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "stored::Step")]
pub struct Step {
    /// The node of the program.
    pub node: NodeId,
    /// The name of the value that it computes.
    pub name: Arc<str>,
    /// The lowered op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Arc<Attrs>,
    /// The types of the operands.
    pub input_types: Vec<TensorType>,
    /// The places of the operands.
    pub inputs: Vec<Place>,
    /// The type of the result.
    pub output_type: TensorType,
    /// The place of the result.
    pub output: Place,
    /// The operand whose buffer the result takes.
    pub in_place: Option<usize>,
    /// The operand that is copied into the result's buffer first. The kernel works in place, but the operand's own
    /// buffer is still needed or is not in the arena.
    pub copied: Option<usize>,
    /// The operands that were computed at their places in the result. The kernel does not copy them.
    pub joined: Vec<usize>,
    /// The bytes of scratch.
    pub scratch: usize,
    /// The offset of the scratch in the arena of the result's device, in bytes.
    pub scratch_offset: usize,
    /// The name of the implementation.
    pub implementation: String,
    /// The price of one run by the cost model, in seconds.
    pub seconds: f64,
    /// The part of these seconds for copies that memory planning adds, because operands are not computed at their
    /// places.
    pub copies: f64,
    /// The origin of the op, and of the views that it reads.
    pub source: Source,
}

/// The memory that a plan takes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// The device.
    pub device: Device,
    /// The size in bytes.
    pub bytes: usize,
    /// The most bytes that are live at one step in the chosen order of execution. No arena can be smaller in this
    /// order; in another order fewer bytes may be live.
    pub lower_bound: usize,
    /// At least as many bytes are live at one step in every order of execution of the same kernels. If the arena has
    /// this size, it is proven that it cannot be smaller in any order.
    pub lower_bound_any_order: usize,
    /// Whether no arena can be smaller in the chosen order.
    pub proven: bool,
}

/// A range of an arena and the steps during which it is in use, for values or for the scratch of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The device of the arena.
    pub device: Device,
    /// The offset in the arena, in bytes.
    pub offset: usize,
    /// The size in bytes, padded to the alignment.
    pub size: usize,
    /// The first step at which it is in use.
    pub lower: usize,
    /// The first step at which it is no longer in use. For an output of the model this is the number of steps plus
    /// one, because outputs are copied to the caller after the last step.
    pub upper: usize,
}

/// A program that is ready to be loaded and run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The steps, in the order of execution.
    pub steps: Vec<Step>,
    /// The names and types of the inputs, in the model's order.
    pub inputs: Vec<(Arc<str>, TensorType)>,
    /// The names, types and places of the outputs, in the model's order.
    pub outputs: Vec<(Arc<str>, TensorType, Place)>,
    /// The ranges of the arenas that are in use, and when.
    pub buffers: Vec<Placed>,
    /// The size of the host's arena, in bytes.
    pub arena: usize,
    /// The most bytes of the host's arena that are live at one step in the chosen order of execution. In this order
    /// the arena cannot be smaller.
    pub lower_bound: usize,
    /// At least as many bytes of the host's arena are live at one step in every order of execution of the same
    /// kernels.
    pub lower_bound_any_order: usize,
    /// Whether the host's arena cannot be smaller in the chosen order.
    pub proven: bool,
    /// The arenas of all other devices on which values lie, in the order of the devices.
    pub devices: Vec<Arena>,
    /// The number of threads for which the plan was made.
    pub threads: usize,
    /// The seconds for copying outputs to the caller after the last step ([`Plan::copied_outputs`]).
    pub copying: f64,
}

/// Returns the contract of the kernel of a call and the price of one run in seconds. The second argument says which
/// operands are constants.
pub(crate) type Asked<'a> = &'a dyn Fn(&Call<'_>, &[bool]) -> Result<(Contract, f64), OpError>;

/// Returns for each node, by position, whether it depends on no input.
pub fn constants(graph: &Graph) -> Vec<bool> {
    let mut constant: Vec<bool> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let from = node.inputs.iter().all(|input| constant[input.index()]);
        constant.push(node.op == CONST || (node.op != INPUT && from));
    }
    constant
}

/// The settings of memory planning.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The order of execution.
    pub order: &'a dyn Order,
    /// The memory planner.
    pub planner: &'a dyn Planner,
    /// The limits of memory, for which copies may be added.
    pub limit: &'a Limit,
}

impl Plan {
    /// Plans a program. `sources` are the origins of its nodes, and `copy` returns the seconds for copying a number
    /// of bytes.
    ///
    /// The plan keeps a limit of memory if some order and copies do. If none do, the plan is larger than the limit.
    ///
    /// # Errors
    /// A kernel is refused, or the order of execution gives no valid order.
    pub fn new(
        graph: &Graph,
        sources: &[Source],
        threads: usize,
        ask: Asked<'_>,
        copy: &dyn Fn(usize) -> f64,
        settings: &Settings<'_>,
    ) -> Result<Self, PlanError> {
        let constant = constants(graph);
        let contracts = contracts(graph, &constant, threads, ask)?;
        let updates = update::updates(graph, &constant, &contracts);
        let subject = Subject { graph, constant: &constant, contracts: &contracts, updates: &updates, copy };
        let Settings { order, planner, limit } = settings;
        let orders = order::orders(&subject, *order)?;
        let Some((arrangement, Packed { offsets, arenas })) = subject.arrange(&orders, *planner, limit)
        else {
            return Err(PlanError::Order { order: order.name().to_owned(), why: "no order at all" });
        };
        let (host, others) = arenas.split_first().expect("the first is the host's, of every program");
        let Arrangement { draft, steps, buffers, devices, buffer_of, steps_before, .. } = arrangement;
        let place = |id: NodeId| match draft.slot(id) {
            Some(Slot::Fixed(place)) => place,
            Some(Slot::Storage(storage, offset)) => {
                let buffer = buffer_of[storage];
                Place { base: Base::Arena(devices[buffer]), offset: offsets[buffer] + offset }
            }
            None => unreachable!("every value of a program has a place before it is read"),
        };
        let step = |step: Arranged| {
            let node = &graph[step.node];
            let contract = contracts[step.node.index()].as_ref().map(|(contract, _)| contract);
            Step {
                node: step.node,
                name: Arc::clone(&node.name),
                op: node.op,
                attrs: Arc::clone(&node.attrs),
                input_types: node.inputs.iter().map(|input| graph[*input].ty.clone()).collect(),
                inputs: node.inputs.iter().map(|input| place(*input)).collect(),
                output_type: node.ty.clone(),
                output: place(step.node),
                in_place: step.in_place,
                copied: step.copied,
                joined: step.joined,
                scratch: step.scratch,
                scratch_offset: step.scratch_buffer.map_or(0, |buffer| offsets[buffer]),
                implementation: contract.map(|contract| contract.implementation.clone()).unwrap_or_default(),
                seconds: step.seconds,
                copies: step.copies,
                source: Source::default(),
            }
        };
        let places = devices.iter().zip(&offsets);
        let placed = buffers.iter().zip(places).map(|(buffer, (device, offset))| Placed {
            device: *device,
            offset: *offset,
            size: buffer.size,
            lower: steps_before[buffer.lower],
            upper: steps_before[buffer.upper],
        });
        let mut plan = Self {
            steps: steps.into_iter().map(step).collect(),
            inputs: graph.inputs().map(|(_, node)| (Arc::clone(&node.name), node.ty.clone())).collect(),
            outputs: graph
                .outputs()
                .map(|(name, id)| (Arc::clone(name), graph[id].ty.clone(), place(id)))
                .collect(),
            buffers: placed.collect(),
            arena: host.bytes,
            lower_bound: host.lower_bound,
            lower_bound_any_order: host.lower_bound_any_order,
            proven: host.proven,
            devices: others.to_vec(),
            threads,
            copying: 0.0,
        };
        let bytes = |at: usize| plan.outputs[at].1.bytes();
        let copied = plan.copied_outputs().into_iter().map(bytes).filter(|bytes| *bytes > 0);
        plan.copying = copied.fold(0.0, |sum, bytes| sum + copy(bytes));
        plan.come_from(graph, sources);
        Ok(plan)
    }

    /// Sets the origin of each step from the origins of the nodes of the program.
    pub(crate) fn come_from(&mut self, graph: &Graph, sources: &[Source]) {
        // Most plans are made for comparison and need no origins.
        if sources.is_empty() {
            return;
        }
        let mut runs = vec![false; graph.len()];
        self.steps.iter().for_each(|step| runs[step.node.index()] = true);
        let told = view::sources(graph, sources, &constants(graph), &runs);
        for step in &mut self.steps {
            step.source = told.get(step.node.index()).cloned().unwrap_or_default();
        }
    }

    /// Returns the names and types of the inputs as a caller gives them, on the host, in the model's order.
    pub fn given_inputs(&self) -> Vec<(Arc<str>, TensorType)> {
        let host = |ty: &TensorType| TensorType { device: Device::Host, ..ty.clone() };
        self.inputs.iter().map(|(name, ty)| (Arc::clone(name), host(ty))).collect()
    }

    /// Returns the arena of each device, the host's first.
    pub fn arenas(&self) -> impl Iterator<Item = Arena> + '_ {
        let Self { arena: bytes, lower_bound, lower_bound_any_order, proven, .. } = *self;
        let host = Arena { device: Device::Host, bytes, lower_bound, lower_bound_any_order, proven };
        std::iter::once(host).chain(self.devices.iter().copied())
    }

    /// Returns the bytes of the arena of a device; zero if nothing lies on it.
    pub fn arena_of(&self, device: Device) -> usize {
        self.arenas().find(|arena| arena.device == device).map_or(0, |arena| arena.bytes)
    }

    /// Returns the number of steps that compute a value again which was not kept, and their seconds.
    pub fn again(&self) -> (usize, f64) {
        let again = self.steps.iter().filter(|step| step.source.again);
        again.fold((0, 0.0), |(count, seconds), step| (count + 1, seconds + step.seconds))
    }

    /// Returns the number of inputs that steps replace by their next values in place, and their bytes.
    pub fn replaced(&self) -> (usize, usize) {
        let replaced = self.steps.iter().filter(|step| matches!(step.output.base, Base::Input(_)));
        replaced.fold((0, 0), |(count, bytes), step| (count + 1, bytes + step.output_type.bytes()))
    }

    /// Returns the sum of the steps' prices and of the price of copying outputs, in seconds.
    pub fn seconds(&self) -> f64 {
        // An empty sum of floats is `-0`, so start at `0`.
        self.steps.iter().fold(0.0, |sum, step| sum + step.seconds) + self.copying
    }
}

/// Returns the contract and the price of every node that runs.
fn contracts(
    graph: &Graph,
    constant: &[bool],
    threads: usize,
    ask: Asked<'_>,
) -> Result<Vec<Option<(Contract, f64)>>, PlanError> {
    let mut refused = Vec::new();
    let mut one = |(id, node): (NodeId, &Arc<Node>)| {
        if node.op == INPUT || constant[id.index()] {
            return None;
        }
        let inputs: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
        let flags: Vec<bool> = node.inputs.iter().map(|input| constant[input.index()]).collect();
        let call = Call { op: node.op, attrs: &node.attrs, inputs: &inputs, output: &node.ty, threads };
        let refuse =
            |why| refused.push(NoKernel { name: node.name.to_string(), op: node.op.to_string(), why });
        ask(&call, &flags).map_err(refuse).ok()
    };
    let contracts = graph.nodes().map(&mut one).collect();
    if refused.is_empty() { Ok(contracts) } else { Err(PlanError::NoKernel(refused)) }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, ty) in &self.inputs {
            writeln!(f, "input {name}: {ty}")?;
        }
        let schedule = if self.devices.is_empty() { Schedule::default() } else { Schedule::new(self) };
        let name = |launch: &schedule::DeviceStep| format!("`{}`", self.steps[launch.step].name);
        for (at, step) in self.steps.iter().enumerate() {
            let operands: Vec<String> = step.inputs.iter().map(ToString::to_string).collect();
            write!(f, "{}: {} = {}({})", step.name, step.output_type, step.op, operands.join(", "))?;
            let shown = shown(&step.op, &step.attrs);
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
            if let Some((segment, launch)) = schedule.launch(at) {
                write!(f, "  segment {segment}, stream {}", launch.stream)?;
                let after = launch.after.iter().map(|before| name(&schedule.segments[segment][*before]));
                let after = after.collect::<Vec<_>>().join(", ");
                writeln!(f, "{}{after}", if after.is_empty() { "" } else { ", after " })?;
            }
        }
        for (name, ty, place) in &self.outputs {
            writeln!(f, "output {name}: {ty} = {place}")?;
        }
        if self.devices.is_empty() {
            let Self { arena, lower_bound: this, lower_bound_any_order: any, .. } = self;
            return writeln!(f, "arena {arena} bytes, lower bound {this} in this order, {any} in any order");
        }
        self.arenas().try_for_each(|arena| {
            let Arena { device, bytes, lower_bound: this, lower_bound_any_order: any, .. } = arena;
            writeln!(
                f,
                "arena of {device} {bytes} bytes, lower bound {this} in this order, {any} in any order"
            )
        })
    }
}

/// Returns the attributes that differ from their defaults.
fn shown(def: &OpDef, attrs: &Attrs) -> String {
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
            Base::Arena(Device::Host) => return write!(f, "@{}", self.offset),
            Base::Arena(device) => return write!(f, "@{}#{device}", self.offset),
        }
        if self.offset > 0 {
            write!(f, "+{}", self.offset)?;
        }
        Ok(())
    }
}
