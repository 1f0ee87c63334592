//! Tests plans in the runtime, on a device or on the stand-in for one: values, and the calls that the runtime
//! makes. On the stand-in, each plan runs in several orders of the work that may be reordered.

#[path = "device/message.rs"]
pub mod message;
#[path = "device/mixed.rs"]
pub mod mixed;
#[path = "device/model.rs"]
pub mod model;
#[path = "device/order.rs"]
pub mod order;
#[path = "device/stored.rs"]
pub mod stored;

use super::case::{self, Case};
use super::standin::{self, ORDERS, Standin};
use super::{agrees, common, plan};
use libtest_mimic::Failed;
use ovolo::backend::{Artifacts, Call, Unkept};
use ovolo::graph::{Graph, Node, text};
use ovolo::memory::{Limit, execution_orders, planners};
use ovolo::plan::schedule::Schedule;
use ovolo::plan::{Plan, Settings};
use ovolo::session::Session;
use ovolo::tensor::{Device, Tensor, TensorType};
use ovolo_cuda::Module;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The runs of a session: the first queues each step, the second records them, and the others replay the
/// recording.
const RUNS: usize = 4;

/// Graphs that use different parts of the runtime: the name, the text, and the fewest streams that the plan
/// uses.
pub const GRAPHS: &[(&str, &str, usize)] = &[
    (
        "two_steps",
        "x: f32[4,64] = input\ny = softmax(x) {axis: 1}\nz = transpose(y) {perm: [1,0]}\nreturn z",
        1,
    ),
    (
        "branches",
        "x: f32[48,40] = input\ny: f32[48,40] = input\na = softmax(x) {axis: 1}\nb = reduce-sum(y) {axes: [1]}\n\
        c = transpose(y) {perm: [1,0]}\nd = softmax(c) {axis: 0}\ne = transpose(d) {perm: [1,0]}\n\
        f = layer-norm(a, g, h) {axis: 1}\ng: f32[40] = const ~1\nh: f32[40] = const ~2\n\
        i = mul(f, b)\nj = concat(i, e) {axis: 0}\nreturn j\nreturn b",
        2,
    ),
    (
        "places_are_used_again",
        "x: f32[32,64] = input\na = softmax(x) {axis: 1}\nb = transpose(a) {perm: [1,0]}\nc = softmax(b) {axis: 1}\n\
        d = transpose(c) {perm: [1,0]}\ne = softmax(d) {axis: 0}\nf = transpose(e) {perm: [1,0]}\n\
        g = softmax(f) {axis: 0}\nreturn g",
        1,
    ),
    ("scratch", "x: f32[70000] = input\ny = reduce-sum(x) {axes: [0]}\nreturn y", 1),
    (
        "inputs_and_constants_are_outputs",
        "x: f32[3,5] = input\nw: f32[2,2] = const ~3\ny = softmax(x) {axis: 1}\nreturn y\nreturn x\nreturn w",
        1,
    ),
    (
        "several_types",
        "x: f32[6,8] = input\ni: i64[3] = input\nc: bool[8] = input\ny = gather(x, i) {axis: 0}\n\
        z = where(c, y, x0)\nx0: f32[1,8] = const ~4\nk = arg-max(z) {axis: 1}\nreturn z\nreturn k",
        2,
    ),
    ("nothing_is_copied_of_nothing", "x: f32[0,4] = input\ny = exp(x)\nreturn y", 1),
];

/// Machine code that is compiled once for all sessions of a test.
#[derive(Default)]
pub struct Kept(Mutex<HashMap<String, Vec<u8>>>);

impl Artifacts for Kept {
    fn load(&self, key: &[&str]) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(&key.join("\0")).cloned()
    }

    fn store(&self, key: &[&str], bytes: &[u8]) {
        self.0.lock().unwrap().insert(key.join("\0"), bytes.to_vec());
    }
}

/// Parses a graph in which constants and inputs may be declared late.
pub fn parsed(source: &str) -> Result<Graph, String> {
    let (leaves, ops): (Vec<&str>, Vec<&str>) =
        source.lines().map(str::trim).partition(|line| line.contains("= input") || line.contains("= const"));
    let lines: Vec<&str> = leaves.into_iter().chain(ops).collect();
    text::parse(common::ops(), &format!("graph {{\n{}\n}}", lines.join("\n")))
        .map_err(|error| error.to_string())
}

/// Checks that a graph through a pipeline gives the reference's values.
pub fn graph(name: &str, pipeline: &str, graph: Graph, streams: usize) -> Result<(), Failed> {
    let inputs = |run: usize| -> Vec<Tensor> {
        let one = |node: &Node| common::random(&format!("{}{run}", node.name), node.ty.dtype, &node.ty.shape);
        graph.inputs().map(|(_, node)| one(node)).collect()
    };
    let runs: Vec<Vec<Tensor>> = (0..RUNS).map(inputs).collect();
    let references: Vec<Vec<Tensor>> = runs.iter().map(|inputs| common::reference(&graph, inputs)).collect();
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
        .map_err(|error| error.to_string())?;
    let schedule = Schedule::new(&compilation.plan);
    let taken = schedule.segments.iter().flatten().map(|launch| launch.stream + 1).max().unwrap_or(0);
    if taken < streams {
        return Err(format!("{taken} streams, not {streams}:\n{}", compilation.plan).into());
    }
    let near = |run: usize, outputs: &[Tensor]| {
        for (output, reference) in outputs.iter().zip(&references[run]) {
            let error = common::relative_error(output, reference);
            if !small(error) {
                return Err(format!("run {run}: relative error {error:e}"));
            }
        }
        Ok(())
    };
    played(name, &compilation.program, &compilation.plan, &runs, &near)
}

/// Checks one of the graphs.
pub fn named(name: &str, source: &str, streams: usize) -> Result<(), Failed> {
    graph(name, "cuda", parsed(source)?, streams)
}

/// Whether a relative error can come from rounding; NaN cannot.
pub fn small(error: f64) -> bool {
    error <= 1e-4
}

pub type Near<'a> = &'a dyn Fn(usize, &[Tensor]) -> Result<(), String>;

/// Checks that a plan runs in all orders on the stand-in, and leaves nothing allocated.
fn played(
    name: &str,
    program: &Graph,
    plan: &Plan,
    runs: &[Vec<Tensor>],
    near: Near<'_>,
) -> Result<(), Failed> {
    ordered(name, program, plan, runs, near, &ORDERS)
}

/// Does the same in some orders.
pub fn ordered(
    name: &str,
    program: &Graph,
    plan: &Plan,
    runs: &[Vec<Tensor>],
    near: Near<'_>,
    orders: &[i32],
) -> Result<(), Failed> {
    // Compiled before the turn of the plan, so that others run meanwhile.
    let library = match standin::get() {
        Some(standin) => standin.translate(name, &module(plan)?),
        None => None,
    };
    with_kernels(library.as_deref(), program, plan, runs, near, orders)
}

/// Does the same with compiled kernels.
fn with_kernels(
    library: Option<&Path>,
    program: &Graph,
    plan: &Plan,
    runs: &[Vec<Tensor>],
    near: Near<'_>,
    orders: &[i32],
) -> Result<(), Failed> {
    let _turn = standin::turn();
    let Some(standin) = standin::get() else {
        run(None, program, plan, runs, near, &Unkept)?;
        return Ok(());
    };
    library.into_iter().for_each(|library| standin.open(library));
    let kept = Kept::default();
    for &order in orders {
        standin.order(order);
        let outcome = run(Some(standin), program, plan, runs, near, &kept);
        let outcome = outcome.and(standin.faults()).and(standin.nothing_left());
        outcome.map_err(|why| format!("order {order}: {why}\n{plan}"))?;
    }
    Ok(())
}

/// The generated kernels of a plan.
fn module(plan: &Plan) -> Result<Module, String> {
    Ok(Module::new(&plan::generated(plan)?.0))
}

/// Calls that no run may make, because they belong to the creation of a session.
const NEVER: &[&str] = &[
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuStreamCreate",
    "cuEventCreate",
    "cuModuleLoadData",
    "cudnnCreate",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendFinalize",
];

fn run(
    standin: Option<&Standin>,
    program: &Graph,
    plan: &Plan,
    runs: &[Vec<Tensor>],
    near: Near<'_>,
    code: &dyn Artifacts,
) -> Result<(), String> {
    let mut session = Session::with(program, plan.clone(), common::registry().backends(), code)
        .map_err(|error| error.to_string())?;
    let calls = |entry: &str| standin.map_or(0, |standin| standin.calls(entry));
    let made: Vec<_> = NEVER.iter().map(|entry| calls(entry)).collect();
    for (number, inputs) in runs.iter().enumerate() {
        let before = ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuGraphInstantiateWithFlags"].map(calls);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        near(number, session.run(&inputs).map_err(|error| error.to_string())?)?;
        let after = ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuGraphInstantiateWithFlags"].map(calls);
        if number > 1 && before != after {
            return Err(format!("run {number} does not replay: {before:?}, then {after:?}"));
        }
    }
    for (entry, before) in NEVER.iter().zip(made) {
        if calls(entry) != before {
            return Err(format!("`{entry}` was called while the plan ran"));
        }
    }
    let inputs: Vec<&Tensor> = runs[0].iter().collect();
    let times = session.profile(&inputs).map_err(|error| error.to_string())?;
    if times.len() != plan.steps.len() {
        return Err("a step has no time".to_owned());
    }
    near(0, session.run(&inputs).map_err(|error| error.to_string())?)
}

/// Returns the plan of a graph of lowered ops, in their order.
pub fn planned(graph: &Graph) -> Result<Plan, String> {
    let ask = |call: &Call<'_>, _: &[bool]| call.contract().map(|contract| (contract, 0.0));
    let (orders, planners) = (execution_orders(), planners());
    let settings = Settings {
        order: &**orders.get("given").ok_or("there is no order `given`")?,
        planner: &**planners.get("best").ok_or("there is no planner `best`")?,
        limit: &Limit::default(),
    };
    Plan::new(graph, &[], 1, &ask, &|_| 0.0, &settings).map_err(|error| error.to_string())
}

/// Returns the cases of a family as one graph: each operand is copied to the device, and the result back.
fn lowered(cases: &[Case]) -> Result<Graph, String> {
    let mut graph = Graph::new();
    let add = |graph: &mut Graph, op: &str, attrs: &ovolo::attr::Attrs, inputs: Vec<_>, name: &str| {
        let def = common::ops().get(op).ok_or_else(|| format!("there is no op `{op}`"))?;
        let types: Vec<TensorType> =
            inputs.iter().map(|input: &ovolo::graph::NodeId| graph[*input].ty.clone()).collect();
        let ty = def.result(attrs, &types.iter().collect::<Vec<_>>()).map_err(|why| why.to_string())?;
        let attrs = Arc::new(attrs.clone());
        Ok::<_, String>(graph.add_node(Node { op: def, attrs, inputs, name: name.into(), ty }))
    };
    let none = ovolo::attr::Attrs::new();
    for (number, case) in cases.iter().enumerate() {
        let mut operands = Vec::new();
        for (at, operand) in case.operands.iter().enumerate() {
            let name = format!("c{number}.x{at}");
            let input = graph.add_input(&name, operand.ty().clone());
            operands.push(add(&mut graph, "cuda.upload", &none, vec![input], &format!("{name}.upload"))?);
        }
        let op = case.lowered();
        let result = add(&mut graph, &op, &case.attrs, operands, &format!("c{number}.result"))?;
        let output = add(&mut graph, "cuda.download", &none, vec![result], &format!("c{number}"))?;
        graph.add_output(&format!("c{number}"), output);
    }
    Ok(graph)
}

/// Checks the values of a family's kernels, all in one plan.
pub fn family(number: usize) -> Result<(), Failed> {
    // Views have no kernels, and some conversions can only be tested alone. The stand-in is slow, and the
    // kernels' values are tested without it, so some of them are enough here.
    let there = |case: &Case| case.op != "reshape" && common::ops().get(&case.lowered()).is_some();
    let share = if standin::on_device() { 1 } else { 4 };
    let cases: Vec<Case> = case::family(number).into_iter().filter(there).step_by(share).collect();
    let graph = lowered(&cases)?;
    let plan = planned(&graph)?;
    let inputs: Vec<Tensor> = cases.iter().flat_map(|case| case.operands.clone()).collect();
    let references: Vec<Tensor> = cases.iter().map(Case::reference).collect();
    let near = |_: usize, outputs: &[Tensor]| {
        for ((case, output), reference) in cases.iter().zip(outputs).zip(&references) {
            agrees(case, &output.on(Device::Host), reference)
                .map_err(|why| format!("{}: {why}", case.name()))?;
        }
        Ok(())
    };
    let runs = [inputs.clone(), inputs.clone(), inputs];
    let library = standin::get().map(|standin| standin.translate_family(number));
    with_kernels(library, &graph, &plan, &runs, &near, &ORDERS[..2])
}
