//! Asks the library about every graph of the ten networks, for described devices.
//!
//! The networks are those of `cargo xtask gpu` in its batches, and two more. For each pipeline and batch, all candidates
//! of rules that are graphs of the library are collected from the e-graphs of the networks. For each different graph the
//! library lists its engines for each device, and each engine that a rule can choose is finalised. The answers are
//! [kept](store) in the build folder, and [counted](summary) in the repository.

mod store;
mod summary;

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
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use store::{Answer, Store};
use summary::{ALL, Line, Place, Summary};

/// Chooses among the devices, pipelines and batches: names with spaces between them; all if it is not set.
const CHOICE: &str = "OVOLO_SURVEY";
/// Names the folder of the survey, in which `cargo xtask cuda-survey` makes networks, `networks/NAME-BATCH.onnx`, and
/// the answers are kept.
const FOLDER: &str = "OVOLO_SURVEY_FOLDER";

const DEVICES: [&Description; 3] = [&H100, &A100, &RTX_4090];
const PIPELINES: [&str; 4] = ["cuda", "cuda-tf32", "cuda-f16", "cuda-bf16"];
/// The batches, and the networks of which there is a file for each batch. `cargo xtask cuda-survey` makes these files.
const SURVEYED: &str = include_str!("../../../../surveyed.txt");
/// The network of which there is none: it has neither convolutions nor attention, which batch 1 shows.
const OTHER: &str = "nasrnn";
/// The network of the repository whose counts are checked again, with its pipeline.
const AGAIN: (&str, &str) = ("squeezenet1_1", "cuda-f16");

#[test]
#[ignore = "it takes hours, and needs cuDNN with NVRTC and cuBLASLt (`cargo xtask cuda-libraries`), networks that \
            `cargo xtask cuda-survey` makes, and a C++ compiler"]
fn every_graph_of_the_networks_has_plans() {
    in_subprocess("cudnn::graph::test::survey::every_graph_of_the_networks_has_plans", survey);
}

#[test]
#[ignore = "it needs cuDNN with NVRTC and cuBLASLt (`cargo xtask cuda-libraries`), and a C++ compiler"]
fn the_library_answers_as_counted() {
    in_subprocess("cudnn::graph::test::survey::the_library_answers_as_counted", ask_again);
}

/// A graph, the call that it computes, and how many engines rules can choose.
struct Asked {
    graph: Graph,
    call: KernelCall,
    candidates: usize,
}

/// Returns the words of a line of [`SURVEYED`].
fn surveyed(what: &str) -> impl Iterator<Item = &'static str> {
    let line = SURVEYED.lines().find_map(|line| line.strip_prefix(what));
    line.expect("the file has the line").split_whitespace()
}

/// Returns the names of the networks of which there is a file for each batch.
fn names() -> Vec<&'static str> {
    surveyed("networks").collect()
}

fn batches() -> Vec<usize> {
    surveyed("batches").map(|batch| batch.parse().expect("a batch is a number")).collect()
}

/// Returns the name of a device in the choice and in the names of files.
fn device_name(device: &Description) -> String {
    device.name.replace(' ', "-")
}

/// Returns the registry with this backend.
fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    crate::register(&mut registry).expect("the names of the backends are free");
    Arc::new(registry)
}

/// Asks about what is chosen and is not counted yet.
fn survey() {
    let with = device::library();
    let version = crate::cudnn::opened().expect("the library is open").calls.version();
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let chosen = |name: &str, all: &[String]| {
        let words: Vec<&str> =
            choice.split_whitespace().filter(|word| all.iter().any(|one| one == word)).collect();
        words.is_empty() || words.contains(&name)
    };
    let devices = DEVICES.map(device_name);
    let all_batches: Vec<String> = surveyed("batches").map(str::to_owned).collect();
    let pipelines = PIPELINES.map(str::to_owned);
    let folder =
        PathBuf::from(std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder")));
    let answers = folder.join("answers");
    std::fs::create_dir_all(&answers).expect("the folder of the answers can be made");
    let registry = registry();
    let mut wrong = Vec::new();
    for batch in batches().into_iter().filter(|one| chosen(&one.to_string(), &all_batches)) {
        for pipeline in PIPELINES.into_iter().filter(|one| chosen(one, &pipelines)) {
            let place = |device: &Description| Place {
                version,
                device: device_name(device),
                pipeline: pipeline.to_owned(),
                batch,
            };
            let counted = Summary::open();
            let open: Vec<&Description> = DEVICES
                .into_iter()
                .filter(|device| chosen(&device_name(device), &devices) && !counted.has(&place(device)))
                .collect();
            if open.is_empty() {
                continue;
            }
            println!("{pipeline}, batch {batch}: collecting graphs");
            let collected = Collected::new(&registry, pipeline, &networks(&folder, batch), version);
            for device in open {
                println!("{}, {pipeline}, batch {batch}: {} graphs", device.name, collected.graphs.len());
                let mut store = Store::open(&Store::file(&answers, &device_name(device), version));
                let mistakes = collected.ask(with, device, &mut store);
                if mistakes.is_empty() {
                    // Other processes may have counted other combinations meanwhile.
                    Summary::open().add(collected.count(&place(device), |digest| store.known(digest)));
                }
                wrong.extend(mistakes);
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Asks again about the graphs of one network, and compares the counts with those in the repository.
fn ask_again() {
    let with = device::library();
    let version = crate::cudnn::opened().expect("the library is open").calls.version();
    let (network, pipeline) = AGAIN;
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let files = [(network.to_owned(), models.join(format!("{network}.onnx")))];
    let collected = Collected::new(&registry(), pipeline, &files, version);
    let summary = Summary::open();
    let mut compared = 0;
    for device in DEVICES {
        let place = Place { version, device: device_name(device), pipeline: pipeline.to_owned(), batch: 1 };
        let Some(expected) = summary.line(&place, network) else { continue };
        let described = device.descriptor(with).map_err(|failure| failure.text);
        let described = described.expect("the library accepts the description");
        let answers: BTreeMap<&str, Answer> = collected
            .graphs
            .iter()
            .map(|(digest, one)| (digest.as_str(), ask(with, Target::Described(&described), one)))
            .collect();
        let lines = collected.count(&place, |digest| answers.get(digest));
        let line = lines.iter().find(|line| line.network == network).expect("the network is counted");
        assert_eq!(line.but_slowest(), expected.but_slowest());
        println!("{}, cuDNN {version}: the answers about {} graphs are the same", device.name, line.graphs);
        compared += 1;
    }
    assert!(compared > 0, "nothing is counted for cuDNN {version}");
}

/// The different graphs of networks, by the digests of their texts, and which network has which.
struct Collected {
    graphs: BTreeMap<String, Asked>,
    networks: Vec<(String, BTreeSet<String>)>,
}

impl Collected {
    /// Collects the graphs of networks with a pipeline.
    fn new(registry: &Arc<Registry>, pipeline: &str, networks: &[(String, PathBuf)], version: usize) -> Self {
        let (mut graphs, mut of): (BTreeMap<String, Asked>, _) = (BTreeMap::new(), Vec::new());
        for (name, file) in networks {
            let found = asked(&calls(registry, pipeline, file), version);
            of.push((name.clone(), found.keys().cloned().collect()));
            for (digest, one) in found {
                let candidates = one.candidates;
                let there = graphs.entry(digest).or_insert(one);
                there.candidates = there.candidates.max(candidates);
            }
        }
        Self { graphs, networks: of }
    }

    /// Asks about the graphs that have no answer yet, and keeps the answers. Returns what is wrong.
    fn ask(&self, with: Library, device: &Description, store: &mut Store) -> Vec<String> {
        let described = device.descriptor(with).map_err(|failure| failure.text);
        let described = described.expect("the library accepts the description");
        let mut wrong = Vec::new();
        for (digest, one) in &self.graphs {
            if store.known(digest).is_some() {
                continue;
            }
            let answer = ask(with, Target::Described(&described), one);
            match answer.mistake() {
                Some(mistake) => wrong.push(format!("{}: {mistake} for\n{}", device.name, one.graph)),
                None => store.keep(digest, &answer),
            }
        }
        wrong
    }

    /// Counts the answers of each network, and of all together.
    fn count<'a>(&self, place: &Place, answer: impl Fn(&str) -> Option<&'a Answer>) -> Vec<Line> {
        let all: BTreeSet<String> = self.graphs.keys().cloned().collect();
        let networks = self.networks.iter().map(|(name, graphs)| (name.as_str(), graphs));
        let line = |(name, graphs): (&str, &BTreeSet<String>)| {
            let of = |digest: &String| answer(digest).expect("each graph has an answer");
            Line::new(place, name, graphs.iter().map(of))
        };
        networks.chain([(ALL, &all)]).map(line).collect()
    }
}

/// Returns the networks for a batch, with their files.
fn networks(folder: &Path, batch: usize) -> Vec<(String, PathBuf)> {
    let folder = folder.join("networks");
    let file = |name: &str| (name.to_owned(), folder.join(format!("{name}-{batch}.onnx")));
    let mut files: Vec<(String, PathBuf)> = surveyed("networks").map(file).collect();
    if batch == 1 {
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{OTHER}.onnx"));
        files.push((OTHER.to_owned(), other));
    }
    files
}

/// Returns all candidates of a network with a pipeline that are graphs of the library.
fn calls(registry: &Arc<Registry>, name: &str, network: &Path) -> Vec<KernelCall> {
    let (file, text) = registry.pipeline(name).expect("the pipeline ships");
    let pipeline =
        Pipeline::read(&registry.scope(), file, text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let rules = registry.rule_set().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let options = Options::from_parts(registry, rules, pipeline);
    let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph = onnx::load(registry.onnx(), network, &import);
    let graph = graph.unwrap_or_else(|why| panic!("{}: {why}", network.display())).graph;
    let saturated = options.saturate(&graph).unwrap_or_else(|error| panic!("{error}"));
    let target = options.context(&graph).target();
    let model = PriceModel::shipped("roofline", Machine::NOMINAL);
    let contracts = |call: &Call<'_>| target.contract(call);
    let pick = saturated.egraph().problem(&model, 1, &contracts);
    let graphs = ["cudnn.conv-graph", "cudnn.attention"];
    pick.kernels().into_iter().filter(|kernel| graphs.contains(&kernel.op.name)).collect()
}

/// Returns the different graphs of calls, by the digests of their texts.
fn asked(calls: &[KernelCall], version: usize) -> BTreeMap<String, Asked> {
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    for call in calls {
        let (graph, number) = call.call(1, |call| (graph(call, version), number(call)));
        let Ok(graph) = graph else { continue };
        let digest = blake3::hash(graph.to_string().as_bytes()).to_hex()[..16].to_owned();
        let one = asked.entry(digest).or_insert_with(|| Asked { graph, call: call.clone(), candidates: 0 });
        one.candidates = one.candidates.max(number + 1);
    }
    asked
}

/// Asks for the engines of a graph, and finalises each that a rule can choose.
fn ask(with: Library, target: Target<'_>, one: &Asked) -> Answer {
    let mut answer = Answer { op: one.call.op.name.to_owned(), ..Answer::default() };
    let engines = match Engines::new(target, with, &one.graph) {
        Ok(engines) if engines.list.is_empty() => {
            answer.add_reason(true, "the library names no engine");
            return answer;
        }
        Ok(engines) => engines,
        Err(failure) => {
            answer.add_reason(failure.unsupported, &failure.text);
            return answer;
        }
    };
    answer.engines = engines.list.len();
    answer.offered = engines.list.len().min(one.candidates);
    let most = one.call.call(1, max_scratch);
    for number in 0..answer.offered {
        let start = Instant::now();
        let plan = Plan::of_engine(target, with, &engines, number);
        answer.slowest = answer.slowest.max(start.elapsed().as_millis());
        match plan {
            Ok(plan) if plan.workspace > most => {
                let text = format!("engine {number} needs {} bytes, a plan reserves {most}", plan.workspace);
                answer.add_reason(false, &text);
            }
            Ok(plan) => {
                answer.finalised += 1;
                answer.scratch = answer.scratch.max(plan.workspace);
            }
            Err(failure) => answer.add_reason(failure.unsupported, &failure.text),
        }
    }
    answer
}
