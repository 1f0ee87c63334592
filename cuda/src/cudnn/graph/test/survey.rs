//! Asks the library about every graph of the ten networks, for described devices.
//!
//! For each pipeline and batch, all candidates of rules that are graphs of the library are collected from the e-graphs
//! of the networks. For each different graph the library lists its engines for each device, and each engine that a
//! rule can choose is finalised. A line of CSV tells how that ended, and a table adds up.

use super::device::{self, A100, Description, H100, RTX_4090};
use super::in_subprocess;
use crate::cudnn::graph::descriptor::Library;
use crate::cudnn::graph::engine::{Engines, Target};
use crate::cudnn::graph::operation::Graph;
use crate::cudnn::graph::plan::Plan;
use crate::cudnn::graph::{graph, max_scratch, number};
use ovolo::compile::Options;
use ovolo::cost::{Machine, PriceModel};
use ovolo::egraph::KernelCall;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::op::Call;
use ovolo::op::attention::AxisOrder;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::tensor::{Shape, TensorType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Chooses among the devices, pipelines and batches: names with spaces between them; all if it is not set.
const CHOICE: &str = "OVOLO_SURVEY";

const DEVICES: [&Description; 3] = [&H100, &A100, &RTX_4090];
const PIPELINES: [&str; 4] = ["cuda", "cuda-tf32", "cuda-f16", "cuda-bf16"];
const BATCHES: [usize; 3] = [1, 8, 32];

#[test]
#[ignore = "it takes hours, and needs cuDNN with NVRTC and cuBLASLt (`cargo xtask cuda-libraries`), and a C++ compiler"]
fn every_graph_of_the_networks_has_plans() {
    in_subprocess("cudnn::graph::test::survey::every_graph_of_the_networks_has_plans", survey);
}

/// A graph, the call that it computes, and how many engines rules can choose.
struct Asked {
    graph: Graph,
    call: KernelCall,
    candidates: usize,
}

/// What became of the candidates of all graphs of a device, pipeline and batch.
#[derive(Default)]
struct Tally {
    graphs: usize,
    without_engine: usize,
    engines: usize,
    finalised: usize,
    refused: usize,
    too_large: usize,
    scratch: usize,
    slowest: u128,
}

fn survey() {
    let with = device::library();
    let version = crate::cudnn::opened().expect("the library is open").calls.version();
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let chosen = |name: &str, all: &[&str]| {
        let words: Vec<&str> = choice.split_whitespace().filter(|word| all.contains(word)).collect();
        words.is_empty() || words.contains(&name)
    };
    let (devices, batches) =
        (DEVICES.map(|one| one.name.replace(' ', "-")), BATCHES.map(|one| one.to_string()));
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let batches: Vec<&str> = batches.iter().map(String::as_str).collect();
    let mut registry = Registry::new();
    crate::register(&mut registry).expect("the names of the backends are free");
    let registry = Arc::new(registry);
    let mut table = Vec::new();
    println!("device,cudnn,pipeline,batch,op,graph,engine,outcome,scratch,reported,ms");
    for pipeline in PIPELINES.into_iter().filter(|one| chosen(one, &PIPELINES)) {
        let calls = calls(&registry, pipeline);
        for batch in BATCHES.into_iter().filter(|one| chosen(&one.to_string(), &batches)) {
            let asked = asked(&calls, batch, version);
            for (device, name) in DEVICES.iter().zip(&devices).filter(|(_, name)| chosen(name, &devices)) {
                let described = device.descriptor(with).map_err(|failure| failure.text);
                let described = described.expect("the library accepts the description");
                let head = format!("{name},{version},{pipeline},{batch}");
                let mut tally = Tally::default();
                for (text, one) in &asked {
                    let target = Target::Described(&described);
                    tally.ask(with, target, &format!("{head},{},{}", one.call.op.name, quoted(text)), one);
                }
                table.push(tally.line(device.name, pipeline, batch));
            }
        }
    }
    println!(
        "\n| Device | Pipeline | Batch | Graphs | Without an engine | Engines | Finalised | Refused | Beyond the plan's scratch | Largest scratch, MiB | Slowest, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    println!("{}", table.join("\n"));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'").replace('\n', "; "))
}

/// Returns the ten networks of the repository.
fn networks() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let entries = std::fs::read_dir(&folder).expect("the models are in the repository");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "onnx"));
    files.sort();
    files
}

/// Returns all candidates that are graphs of the library, of all networks with a pipeline.
fn calls(registry: &Arc<Registry>, name: &str) -> Vec<KernelCall> {
    let (file, text) = registry.pipeline(name).expect("the pipeline ships");
    let pipeline =
        Pipeline::read(&registry.scope(), file, text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let rules = registry.rule_set().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let options = Options::from_parts(registry, rules, pipeline);
    let mut found = Vec::new();
    for network in networks() {
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let graph = onnx::load(registry.onnx(), &network, &import).expect("the model can be imported").graph;
        let saturated = options.saturate(&graph).unwrap_or_else(|error| panic!("{error}"));
        let target = options.context(&graph).target();
        let model = PriceModel::shipped("roofline", Machine::NOMINAL);
        let contracts = |call: &Call<'_>| target.contract(call);
        let pick = saturated.egraph().problem(&model, 1, &contracts);
        let graphs = ["cudnn.conv-graph", "cudnn.attention"];
        found.extend(pick.kernels().into_iter().filter(|kernel| graphs.contains(&kernel.op.name)));
    }
    found
}

/// Returns the different graphs of calls for a batch, by their texts.
fn asked(calls: &[KernelCall], batch: usize, version: usize) -> BTreeMap<String, Asked> {
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    for call in calls {
        let call = batched(call, batch);
        let (graph, number) = call.call(1, |call| (graph(call, version), number(call)));
        let Ok(graph) = graph else { continue };
        let one = asked.entry(graph.to_string()).or_insert(Asked { graph, call, candidates: 0 });
        one.candidates = one.candidates.max(number + 1);
    }
    asked
}

/// Returns the call for another batch: all that follows an image or a sequence has its size as a factor.
fn batched(call: &KernelCall, batch: usize) -> KernelCall {
    let attention = call.op.name == "cudnn.attention";
    let order = attention.then(|| AxisOrder::new(&call.attrs).expect("the op has checked it"));
    let axis = order.map_or(0, |order| order.axes[0]);
    let times = |ty: &TensorType| {
        let mut sizes: Vec<usize> = ty.shape.iter().copied().collect();
        sizes[axis] *= batch;
        TensorType { shape: Shape::from(sizes), ..ty.clone() }
    };
    // The weights and the bias of a convolution, and the mask of attention, serve the whole batch.
    let shared = |operand: usize| if attention { operand == 3 } else { operand == 1 || operand == 2 };
    let inputs = call.inputs.iter().enumerate();
    let inputs = inputs.map(|(at, ty)| if shared(at) { ty.clone() } else { times(ty) }).collect();
    KernelCall { inputs, output: times(&call.output), ..call.clone() }
}

impl Tally {
    fn ask(&mut self, with: Library, target: Target<'_>, head: &str, one: &Asked) {
        self.graphs += 1;
        let engines = match Engines::new(target, with, &one.graph) {
            Ok(engines) => engines,
            Err(failure) => {
                self.without_engine += 1;
                println!("{head},,{},,,", quoted(&failure.text));
                return;
            }
        };
        self.without_engine += usize::from(engines.list.is_empty());
        self.engines += engines.list.len();
        if engines.list.is_empty() {
            println!("{head},,no engine,,,");
        }
        let most = one.call.call(1, max_scratch);
        for number in 0..engines.list.len().min(one.candidates) {
            let start = Instant::now();
            let plan = Plan::of_engine(target, with, &engines, number);
            let took = start.elapsed().as_millis();
            self.slowest = self.slowest.max(took);
            let reported = engines.list[number].workspace.map(|bytes| bytes.to_string()).unwrap_or_default();
            let (outcome, scratch) = match &plan {
                Ok(plan) if plan.workspace > most => {
                    self.too_large += 1;
                    ("too much scratch".to_owned(), plan.workspace)
                }
                Ok(plan) => {
                    self.finalised += 1;
                    self.scratch = self.scratch.max(plan.workspace);
                    ("finalised".to_owned(), plan.workspace)
                }
                Err(failure) => {
                    self.refused += 1;
                    (quoted(&failure.text), 0)
                }
            };
            println!("{head},{number},{outcome},{scratch},{reported},{took}");
        }
    }

    fn line(&self, device: &str, pipeline: &str, batch: usize) -> String {
        let Self { graphs, without_engine, engines, finalised, refused, too_large, scratch, slowest } = self;
        let scratch = scratch.div_ceil(1 << 20);
        format!(
            "| {device} | {pipeline} | {batch} | {graphs} | {without_engine} | {engines} | {finalised} | {refused} | \
             {too_large} | {scratch} | {slowest} |"
        )
    }
}
