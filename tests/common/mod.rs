//! Functions that the test programs share.
#![allow(dead_code, clippy::unwrap_used)]

pub mod seeded;
pub mod tasks;

use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::pricing::ByFlops;
use ovolo::graph::Graph;
use ovolo::op::Ops;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo::tensor::{DType, Tensor};
use ovolo_native::Isa;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::ThreadId;

/// The registry with the backends of this repository.
pub fn registry() -> &'static Arc<Registry> {
    static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| {
        isa();
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).unwrap();
        ovolo_onednn::register(&mut registry).unwrap();
        ovolo_cuda::register(&mut registry).unwrap();
        Arc::new(registry)
    });
    &REGISTRY
}

/// The ops of the registry.
pub fn ops() -> &'static Ops {
    registry().ops()
}

/// The shipped rules.
pub fn rules() -> RuleSet {
    registry().rule_set().unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Options with the shipped native pipeline under the nominal cost model, whose plans are the same on every
/// machine.
pub fn options(threads: usize) -> Options {
    pipeline("native", threads)
}

/// Options with a shipped pipeline under the nominal cost model.
pub fn pipeline(name: &str, threads: usize) -> Options {
    let (name, text) = registry().pipeline(name).unwrap();
    let mut pipeline = Pipeline::read(&registry().scope(), name, text).unwrap();
    if let Some(extract) = pipeline.extract_mut() {
        extract.cost = Arc::new(ByFlops);
    }
    Options { threads, ..Options::from_parts(registry(), rules(), pipeline) }
}

pub fn compile(graph: Graph, threads: usize) -> Compilation {
    compile::compile(graph, &options(threads)).unwrap_or_else(|error| panic!("{error}"))
}

/// The variable that names the instruction set for which the tests plan.
pub const ISA: &str = "OVOLO_ISA";

/// The instruction set that plans are made for: what [`ISA`] names, or the best of the processor.
pub fn isa() -> Isa {
    static TOLD: LazyLock<()> = LazyLock::new(|| {
        if let Some(name) = std::env::var_os(ISA) {
            let isa: Isa = name.to_str().unwrap().parse().unwrap();
            isa.plan_for().unwrap();
        }
    });
    LazyLock::force(&TOLD);
    Isa::planned()
}

/// On a processor without AVX-512, runs this test program again with plans for AVX-512, unless an instruction
/// set was asked for. Returns whether that run passed.
pub fn again_for_avx512() -> Option<bool> {
    if isa() == Isa::Avx512 || std::env::var_os(ISA).is_some() {
        return None;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(std::env::args_os().skip(1)).env(ISA, Isa::Avx512.name());
    println!("with plans for avx512:");
    Some(again.status().unwrap().success())
}

/// Relative L2 error, computed in `f64`.
pub fn relative_error(value: &Tensor, reference: &Tensor) -> f64 {
    assert_eq!(value.ty().shape, reference.ty().shape);
    let (value, reference) = (value.to_f64(), reference.to_f64());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut value.iter().zip(&reference).map(|(a, b)| a - b));
    let scale = square(&mut reference.iter().copied());
    (difference / scale.max(1e-60)).sqrt()
}

/// Returns the graph's outputs by the reference evaluation.
pub fn reference(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let values = values(graph, inputs);
    graph.outputs().map(|(_, id)| values[id.index()].clone()).collect()
}

/// Returns every value of a graph by the reference evaluation.
pub fn values(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    let mut inputs = inputs.iter();
    for (id, node) in graph.nodes() {
        let value = match node.op.name {
            "input" => inputs.next().unwrap().clone(),
            "const" => graph.constant(id).unwrap().clone(),
            _ => {
                let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
                node.op.evaluate(&node.attrs, &operands, &node.ty)
            }
        };
        values.push(value);
    }
    values
}

/// Returns seeded values for a graph's inputs, in their layouts.
pub fn inputs(graph: &Graph) -> Vec<Tensor> {
    let one = |node: &ovolo::graph::Node| {
        random(&node.name, node.ty.dtype, &node.ty.shape).to_layout(&node.ty.layout)
    };
    graph.inputs().map(|(_, node)| one(node)).collect()
}

/// Returns the graph after a rule, from the text of an example's graph and the text of what it becomes.
pub fn after(graph: &str, after: &str) -> Result<Graph, String> {
    let graph = ovolo::ron::lines(graph);
    let lines = || graph.iter().map(String::as_str);
    let leaves = lines().filter(|line| line.contains("= input") || line.contains("= const"));
    // A line without an op gives a value another name.
    let (values, names): (Vec<&str>, Vec<&str>) = after.lines().partition(|line| line.contains('('));
    let names: Vec<(&str, &str)> = names.iter().filter_map(|line| line.split_once(" = ")).collect();
    let returns = lines().filter_map(|line| line.strip_prefix("return ")).map(|name| {
        let value = names.iter().find(|(other, _)| *other == name).map_or(name, |(_, value)| value);
        format!("return {name} = {value}")
    });
    let lines: Vec<String> = leaves.chain(values).map(str::to_owned).chain(returns).collect();
    ovolo::graph::text::parse(ops(), &format!("graph {{\n{}\n}}", lines.join("\n")))
        .map_err(|error| error.to_string())
}

/// Returns seeded values: floats around zero, or small integers.
pub fn random(name: &str, dtype: DType, shape: &[usize]) -> Tensor {
    let mut state = name.bytes().fold(0x9E37_79B9_7F4A_7C15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let values: Vec<f64> = (0..shape.iter().product::<usize>())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 31);
            if dtype.is_float() { unit * 4.0 - 2.0 } else { (unit * 4.0).floor() }
        })
        .collect();
    Tensor::from_f64(dtype, shape, &values)
}

/// The root folder of the repository, whichever crate is tested. Programs of tests also run elsewhere, with a copy of
/// the files: the variable, which Cargo sets when it runs them, says where.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.expect("a crate of the workspace lies in its folder").to_owned()
}

/// The folder for temporary files: Cargo's, or the one that `OVOLO_TEST_FOLDER` names.
pub fn temporary() -> PathBuf {
    std::env::var_os("OVOLO_TEST_FOLDER").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// Returns how many random instances a test draws: `quick`, or `all` where `OVOLO_SLOW_TESTS` is set.
pub fn draws(all: usize, quick: usize) -> usize {
    if std::env::var_os("OVOLO_SLOW_TESTS").is_some() { all } else { quick }
}

/// Returns a new folder for one test, which may ask for it again. Tests run side by side, each on a thread of its own, so
/// two of them may not use the same name.
pub fn folder(name: &str) -> PathBuf {
    static THREADS: Mutex<BTreeMap<String, ThreadId>> = Mutex::new(BTreeMap::new());
    let own = std::thread::current().id();
    let owner = *THREADS.lock().unwrap().entry(name.to_owned()).or_insert(own);
    assert_eq!(owner, own, "two tests use the folder `{name}`");
    let folder = temporary().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
