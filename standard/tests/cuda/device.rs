//! Tests plans in the runtime, on a device or on the stand-in for one: values, and the calls that the runtime
//! makes. On the stand-in, each plan runs in several orders of the work that may be reordered.

use super::case::{Case, FAMILIES, Random};
use super::standin::{self, ORDERS, Standin};
use super::{agrees, common, nvrtc, plan};
use libtest_mimic::Failed;
use ovolo::backend::Call;
use ovolo::backend::{Artifacts, Unkept};
use ovolo::cache::{self, Cache};
use ovolo::graph::{Graph, Node, text};
use ovolo::memory::{Limit, execution_orders, planners};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass::pricing::pricings;
use ovolo::plan::schedule::Schedule;
use ovolo::plan::{Base, Plan, Settings};
use ovolo::session::Session;
use ovolo::tensor::{Device, Tensor, TensorType};
use ovolo_cuda::Module;
use ovolo_cuda::nvrtc::{Architecture, machine_code};
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
    let _turn = standin::turn();
    let Some(standin) = standin::get() else {
        run(None, program, plan, runs, near, &Unkept)?;
        return Ok(());
    };
    standin.register(name, &module(plan)?);
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

/// Steps on the host between steps on the device, in this order: the host reads results of the device and
/// sends new values back, and memory on the host is reused.
const MIXED: &str = "x: f32[24,40] = input\ny: f32[24,40] = input\na = cuda.upload(x)\n\
    b = cuda.softmax(a) {axis: 1}\nc = cuda.download(b)\nd = native.exp(y)\ne = native.add(c, d)\nf = cuda.upload(e)\n\
    g = cuda.transpose(f) {perm: [1,0]}\nh = cuda.download(g)\ni = native.transpose(d) {perm: [1,0]}\n\
    j = native.mul(h, i)\nk = cuda.upload(j)\nl = cuda.softmax(k) {axis: 0}\nm = cuda.download(l)\n\
    n = native.add(m, h)\nreturn n\nreturn c";

/// A plan that uses both the host and the device.
pub fn mixed() -> Result<(), Failed> {
    let graph = parsed(MIXED)?;
    let plan = planned(&graph)?;
    let schedule = Schedule::new(&plan);
    if schedule.segments.len() < 3 {
        return Err(format!("{} segments:\n{plan}", schedule.segments.len()).into());
    }
    let inputs = |run: usize| -> Vec<Tensor> {
        let one = |node: &Node| common::random(&format!("{}{run}", node.name), node.ty.dtype, &node.ty.shape);
        graph.inputs().map(|(_, node)| one(node)).collect()
    };
    let runs: Vec<Vec<Tensor>> = (0..RUNS).map(inputs).collect();
    let references: Vec<Vec<Tensor>> = runs.iter().map(|inputs| common::reference(&graph, inputs)).collect();
    let near = |run: usize, outputs: &[Tensor]| {
        let far = |(output, reference)| !small(common::relative_error(output, reference));
        match outputs.iter().zip(&references[run]).position(far) {
            Some(at) => Err(format!("run {run}: output {at} is wrong")),
            None => Ok(()),
        }
    };
    played("mixed", &graph, &plan, &runs, &near)
}

/// The pipeline `mixed` runs work on the device if it is worth a copy, and other work on the host.
pub fn the_pipeline_mixes() -> Result<(), Failed> {
    let chosen = |source: &str| -> Result<Vec<&'static str>, String> {
        let mut options = common::pipeline("mixed", 2);
        options.pipeline.extract_mut().unwrap().price_by("roofline", pricings()).unwrap();
        let compilation =
            ovolo::compile::compile(parsed(source)?, &options).map_err(|error| error.to_string())?;
        Ok(compilation.plan.steps.iter().map(|step| step.op.name).collect())
    };
    let source = |size: usize| {
        format!("x: f32[{size},{size}] = input\nw: f32[{size},{size}] = const ~1\ny = matmul(x, w)\nreturn y")
    };
    let (large, small) = (chosen(&source(1024))?, chosen(&source(16))?);
    let library =
        common::registry().backends().get("cublaslt").is_some_and(|library| library.found().is_ok());
    let product = if library { "cublaslt.matmul" } else { "cuda.matmul" };
    if large != ["cuda.upload", product, "cuda.download"] {
        return Err(format!("a large product is {large:?}").into());
    }
    if small.iter().any(|op| !op.starts_with("native.") && !op.starts_with("onednn.")) {
        return Err(format!("a small product is {small:?}").into());
    }
    Ok(())
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

/// Runs a stripped model with seeded weights.
pub fn model(name: &str, path: &Path, pipeline: &str) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let loaded =
        onnx::load(common::registry().onnx(), path, &options).map_err(|error| error.to_string())?.graph;
    let inputs = common::inputs(&loaded);
    let native = common::compile(loaded.clone(), 2);
    let mut reference = Session::new(&native.program, native.plan, common::registry().backends())
        .map_err(|error| error.to_string())?;
    let reference =
        reference.run(&inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?.to_vec();
    let compilation =
        ovolo::compile::compile(loaded, &common::pipeline(pipeline, 2)).map_err(|error| error.to_string())?;
    let most = match pipeline {
        "cuda" => 1e-4,
        "cuda-bf16" => 2e-2,
        _ => 3e-3,
    };
    let near = |_: usize, outputs: &[Tensor]| {
        for (output, reference) in outputs.iter().zip(&reference) {
            let error = common::relative_error(output, reference);
            if error.is_nan() || error > most {
                return Err(format!("relative error {error:e}"));
            }
        }
        Ok(())
    };
    let runs = vec![inputs; if standin::on_device() { RUNS } else { 2 }];
    let orders = if standin::on_device() { &ORDERS[..] } else { &ORDERS[2..3] };
    ordered(&format!("{name}_{pipeline}"), &compilation.program, &compilation.plan, &runs, &near, orders)
}

/// The models that run on the stand-in.
const SMALL: &[&str] = &["nasrnn"];

/// Whether a model runs on the stand-in, which takes minutes for a large one.
pub fn is_small(name: &str) -> bool {
    SMALL.contains(&name)
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
    let (name, cases) = FAMILIES[number];
    let cases: Vec<Case> = cases(&mut Random::new(number as u64 + 1)).into_iter().flatten().collect();
    // Views have no kernels, and some conversions can only be tested alone. The stand-in is slow, and the
    // kernels' values are tested without it, so some of them are enough here.
    let there = |case: &Case| case.op != "reshape" && common::ops().get(&case.lowered()).is_some();
    let share = if standin::on_device() { 1 } else { 4 };
    let cases: Vec<Case> = cases.into_iter().filter(there).step_by(share).collect();
    let graph = lowered(&cases)?;
    let plan = planned(&graph)?;
    let inputs: Vec<Tensor> = cases.iter().flat_map(|case| case.operands.clone()).collect();
    let near = |_: usize, outputs: &[Tensor]| {
        for (case, output) in cases.iter().zip(outputs) {
            agrees(case, &output.on(Device::Host), &case.reference())
                .map_err(|why| format!("{}: {why}", case.name()))?;
        }
        Ok(())
    };
    let runs = [inputs.clone(), inputs.clone(), inputs];
    ordered(name, &graph, &plan, &runs, &near, &ORDERS[..2])
}

/// Errors of the driver name the step, and contain the driver's own words and advice.
pub fn errors_say_what_to_do() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[0].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("errors", &module(&compilation.plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let reference = common::reference(&graph, &common::inputs(&graph));
    let load = || {
        Session::with(&compilation.program, compilation.plan.clone(), common::registry().backends(), &kept)
    };
    let says = |error: String, words: &[&str]| match words.iter().find(|word| !error.contains(**word)) {
        Some(word) => Err(format!("`{error}` does not say `{word}`")),
        None => Ok(()),
    };
    for (entry, after, code, words) in [
        (
            "cuMemAlloc_v2",
            0,
            2,
            &["bytes for the plan", "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", "smaller"][..],
        ),
        ("cuMemHostAlloc", 0, 2, &["pinned", "CUDA_ERROR_OUT_OF_MEMORY"]),
        ("cuModuleLoadData", 0, 200, &["CUDA_ERROR_INVALID_IMAGE", "ovolo cache clear"]),
        ("cuModuleGetFunction", 1, 500, &["CUDA_ERROR_NOT_FOUND (500): named symbol not found", "transpose"]),
        ("cuStreamCreate", 0, 2, &["cuStreamCreate", "CUDA_ERROR_OUT_OF_MEMORY"]),
        // An error code that no driver documents.
        (
            "cuEventCreate",
            0,
            31999,
            &["cuEventCreate: code 31999, which is unknown to the library", "doctor"],
        ),
    ] {
        standin.fail(entry, after, code);
        match load() {
            Ok(_) => return Err(format!("`{entry}` fails, and there is a session").into()),
            Err(error) => says(error.to_string(), words)?,
        }
        if standin.live() != 0 {
            return Err(format!("handles are left where `{entry}` fails").into());
        }
    }
    let upload = compilation.plan.steps.first().map(|step| step.name.to_string()).unwrap_or_default();
    for (entry, runs, words) in [
        (
            "cuLaunchKernel",
            0,
            &["softmax`", "cuda.softmax", "CUDA_ERROR_ILLEGAL_ADDRESS", "compute-sanitizer"][..],
        ),
        ("cuMemcpyHtoDAsync_v2", 0, &[upload.as_str(), "cuda.upload", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuLaunchKernel", 1, &["softmax", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuGraphInstantiateWithFlags", 1, &["cuGraphInstantiate", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuGraphLaunch", 1, &["cuGraphLaunch", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (
            "cuEventSynchronize",
            0,
            &["one of the", "cuda.upload", "cuda.download", "CUDA_ERROR_ILLEGAL_ADDRESS"],
        ),
    ] {
        let mut session = load().map_err(|error| error.to_string())?;
        for _ in 0..runs {
            session.run(&inputs).map_err(|error| error.to_string())?;
        }
        standin.fail(entry, 0, 700);
        match session.run(&inputs) {
            Ok(_) => return Err(format!("`{entry}` fails, and the run does not").into()),
            Err(error) => says(error.to_string(), words)?,
        }
        // After a single failure, the session runs again.
        let outputs = session.run(&inputs).map_err(|error| format!("after `{entry}`: {error}"))?;
        if !small(common::relative_error(&outputs[0], &reference[0])) {
            return Err(format!("after `{entry}` the values are wrong").into());
        }
    }
    standin.faults()?;
    Ok(())
}

/// Machine code is compiled once for all sessions that keep it. A stored plan runs as before, and one whose
/// values are in the wrong memory is refused.
pub fn machine_code_and_plans_are_kept() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let folder = common::temporary().join("device_cache");
    let _ = std::fs::remove_dir_all(&folder);
    let cache = Cache::new(&folder, Cache::LIMIT, common::registry());
    let cubins = cache::KeptArtifacts::new(cache.folder());
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let plan = compilation.plan;
    let module = module(&plan)?;
    let _turn = standin::turn();
    standin.register("kept", &module);
    let inputs = common::inputs(&graph);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut first = Session::with(&compilation.program, plan.clone(), common::registry().backends(), &cubins)
        .map_err(|error| error.to_string())?;
    let outputs = first.run(&inputs).map_err(|error| error.to_string())?.to_vec();
    let compiler = nvrtc::compiler()?;
    if machine_code(&cubins, compiler, &module.source(), Architecture(9, 0))?.fresh {
        return Err("the machine code was not kept".into());
    }
    let constants = || first.constants().into_iter().map(|(node, value)| (node, value.clone())).collect();
    let mut again = Session::stored(plan.clone(), constants(), common::registry().backends(), &cubins)
        .map_err(|error| error.to_string())?;
    let repeated = again.run(&inputs).map_err(|error| error.to_string())?;
    if outputs.iter().zip(repeated).any(|(a, b)| a.bytes() != b.bytes()) {
        return Err("the stored plan gives other values".into());
    }
    for bytes in [0, plan.devices[0].bytes - 64, usize::MAX] {
        let mut wrong = plan.clone();
        wrong.devices[0].bytes = bytes;
        if Session::stored(wrong, constants(), common::registry().backends(), &cubins).is_ok() {
            return Err(format!("a plan with {bytes} bytes on the device is taken").into());
        }
    }
    for (at, step) in plan.steps.iter().enumerate() {
        let mut wrong = plan.clone();
        wrong.steps[at].output.base = match step.output.base {
            Base::Arena(Device::Host) => Base::Arena(Device::Accelerator(ovolo_cuda::FAMILY, 0)),
            _ => Base::Arena(Device::Host),
        };
        if Session::stored(wrong, constants(), common::registry().backends(), &cubins).is_ok() {
            return Err(format!("a plan whose step {at} writes to the other memory is taken").into());
        }
    }
    Ok(())
}

/// A model in `f16` fuses like one in `f32`: the gate is one kernel on the device, and on the processor its
/// ops are steps of chains. The values equal the reference's within the rounding of the type.
pub fn models_in_f16_fuse() -> Result<(), Failed> {
    let graph = parsed(
        "x: f16[24,40] = input\nc: f16[24,32] = input\nw: f16[40,32] = const ~1\nb: f16[32] = const ~2\n\
         m = matmul(x, w)\na = add(m, b)\ns = sigmoid(a)\nt = tanh(c)\ny = mul(s, t)\nreturn y",
    )?;
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let near = |_: usize, outputs: &[Tensor]| {
        let error = common::relative_error(&outputs[0], &reference[0]);
        if error <= 2e-3 { Ok(()) } else { Err(format!("relative error {error:e}")) }
    };
    for (pipeline, kernels) in [
        ("cuda", &["cuda.matmul-tensor", "cublaslt.matmul", "cuda.tree", "cuda.map"][..]),
        ("native", &["native.matmul", "native.map"]),
    ] {
        let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
            .map_err(|error| error.to_string())?;
        let plan = &compilation.plan;
        let copies = ["cuda.upload", "cuda.download"];
        if let Some(step) =
            plan.steps.iter().find(|step| ![kernels, &copies[..]].concat().contains(&step.op.name))
        {
            return Err(format!("{pipeline}: `{}` is not fused\n{plan}", step.op).into());
        }
        let computed = plan.steps.iter().filter(|step| !copies.contains(&step.op.name)).count();
        if computed != 2 {
            return Err(
                format!("{pipeline}: {computed} kernels instead of a product and a chain\n{plan}").into()
            );
        }
        if pipeline != "cuda" {
            let mut session =
                Session::with(&compilation.program, plan.clone(), common::registry().backends(), &Unkept)
                    .map_err(|error| error.to_string())?;
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            near(0, session.run(&inputs).map_err(|error| error.to_string())?)?;
        } else {
            played("f16", &compilation.program, plan, &vec![inputs.clone(); RUNS], &near)?;
        }
    }
    Ok(())
}

/// Copies have their own streams, and run at the same time as kernels with which they share no bytes.
pub fn copies_run_beside_kernels() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    // The second input is copied while the first one is used, and the first result is copied back while the
    // second input is used. They share no bytes, because the first result is read only at the end.
    let graph = parsed(
        "x: f32[40,40] = input\ny: f32[40,40] = input\na = softmax(x) {axis: 1}\nb = transpose(a) {perm: [1,0]}\n         c = softmax(y) {axis: 1}\nd = concat(b, c) {axis: 0}\ne = softmax(d) {axis: 0}\nreturn a\nreturn e",
    )?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let plan = &compilation.plan;
    let schedule = Schedule::new(plan);
    let copies = |op: &str| -> Vec<usize> {
        let launches = schedule.segments.iter().flatten();
        let mut streams: Vec<usize> =
            launches.filter(|one| plan.steps[one.step].op == op).map(|one| one.stream).collect();
        streams.dedup();
        streams
    };
    let (up, down) = (copies("cuda.upload"), copies("cuda.download"));
    let kernels = copies("cuda.softmax");
    if up.len() != 1
        || down.len() != 1
        || up == down
        || kernels.contains(&up[0])
        || kernels.contains(&down[0])
    {
        return Err(format!("uploads on {up:?}, downloads on {down:?}, kernels on {kernels:?}").into());
    }
    let _turn = standin::turn();
    standin.register("beside", &module(plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    standin.beside();
    let mut beside = [0; RUNS];
    for order in ORDERS {
        standin.order(order);
        let mut session =
            Session::with(&compilation.program, plan.clone(), common::registry().backends(), &kept)
                .map_err(|error| error.to_string())?;
        for (run, beside) in beside.iter_mut().enumerate() {
            let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
            let far = |(output, reference)| !small(common::relative_error(output, reference));
            if outputs.iter().zip(&reference).any(far) {
                return Err(format!("order {order}, run {run}: the values are wrong").into());
            }
            *beside += standin.beside();
        }
    }
    // The first runs queue each step; later ones replay.
    if beside.contains(&0) {
        return Err(format!("in some run no copy is beside a kernel in any order: {beside:?}\n{plan}").into());
    }
    standin.faults()?;
    Ok(())
}

/// While a session captures its work, another thread may load, run and drop sessions.
pub fn other_threads_may_work_during_a_capture() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let compiled = |source: &str| -> Result<_, Failed> {
        let graph = parsed(source)?;
        let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
            .map_err(|error| error.to_string())?;
        let inputs = common::inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        Ok((compilation, inputs, reference))
    };
    let (first, other) = (compiled(GRAPHS[0].1)?, compiled(GRAPHS[1].1)?);
    let _turn = standin::turn();
    standin.register("captured", &module(&first.0.plan)?);
    standin.register("meanwhile", &module(&other.0.plan)?);
    standin.order(0);
    let kept = Kept::default();
    let load = |compilation: &ovolo::compile::Compilation| {
        let (program, plan) = (&compilation.program, compilation.plan.clone());
        Session::with(program, plan, common::registry().backends(), &kept).map_err(|error| error.to_string())
    };
    let run = |session: &mut Session, (_, inputs, reference): &(_, Vec<Tensor>, Vec<Tensor>)| {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        let far = |(output, reference)| !small(common::relative_error(output, reference));
        if outputs.iter().zip(reference).any(far) { Err("the values are wrong".to_owned()) } else { Ok(()) }
    };
    let mut session = load(&first.0)?;
    run(&mut session, &first)?;
    let ready = std::sync::Barrier::new(2);
    let meanwhile = || {
        let before = load(&other.0).and_then(|mut session| {
            run(&mut session, &other)?;
            Ok(session)
        });
        ready.wait();
        let met = standin.met();
        let work = || {
            met?;
            drop(before?);
            let mut after = load(&other.0)?;
            (0..3).try_for_each(|_| run(&mut after, &other))
        };
        let done = work();
        standin.leave();
        done
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(meanwhile);
        ready.wait();
        // The second run captures.
        standin.meet("cuStreamEndCapture");
        let captured = run(&mut session, &first).map_err(|why| format!("during the capture: {why}"));
        let done = thread.join().map_err(|_| "the other thread panics".to_owned())?;
        done.map_err(|why| format!("meanwhile: {why}"))?;
        captured
    })?;
    run(&mut session, &first)?;
    Ok(standin.faults()?)
}

/// The stand-in can detect a copy to the device that nothing waits for: a constant is then not there yet.
pub fn a_late_copy_shows() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("late", &module(&compilation.plan)?);
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    standin.ignore("cuStreamSynchronize of the default stream");
    let session = Session::with(
        &compilation.program,
        compilation.plan.clone(),
        common::registry().backends(),
        &Kept::default(),
    );
    let outputs = session.map_err(|error| error.to_string()).and_then(|mut session| {
        session.run(&inputs).map(<[Tensor]>::to_vec).map_err(|error| error.to_string())
    });
    standin.ignore("");
    let far = |(output, reference)| !small(common::relative_error(output, reference));
    if !outputs?.iter().zip(&reference).any(far) {
        return Err("without the wait all values are right".into());
    }
    Ok(standin.faults()?)
}

/// The stand-in can detect missing waits: leaving one out gives a wrong value in some order.
pub fn a_missing_wait_shows() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("missing", &module(&compilation.plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    for entry in ["cuStreamWaitEvent", "cuEventSynchronize"] {
        let mut wrong = false;
        for order in ORDERS {
            standin.order(order);
            let mut session = Session::with(
                &compilation.program,
                compilation.plan.clone(),
                common::registry().backends(),
                &kept,
            )
            .map_err(|error| error.to_string())?;
            standin.ignore(entry);
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            let outputs = session.run(&inputs).map_err(|error| error.to_string())?.to_vec();
            standin.ignore("");
            let far = |(output, reference)| !small(common::relative_error(output, reference));
            wrong |= outputs.iter().zip(&reference).any(far);
        }
        let _ = standin.faults();
        if !wrong {
            return Err(format!("without `{entry}` all values are right").into());
        }
    }
    Ok(())
}
