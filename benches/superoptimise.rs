//! Runs the classic suite of tensor superoptimisers through the pipeline `superoptimise`. It prints the
//! seconds of search (saturation and extraction, best of three, one thread) and the cost of the found graphs
//! compared with two baselines, next to what TENSAT (Yang et al., MLSys 2021) publishes.
//!
//! `unoptimised` is the imported graph with a kernel chosen for each op and no other change, which is what
//! TASO and TENSAT compare with. `fused` is the pipeline `native`. A gain is the baseline's cost divided by
//! the cost of the found graph, minus one. TENSAT measured its gains on a GPU; these come from a cost model.
#![allow(missing_docs, clippy::unwrap_used)]

use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::Machine;
use ovolo::graph::Graph;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass::PassReport;
use ovolo::pass::Rewrite;
use ovolo::pass::pricing::pricings;
use ovolo::ron::Spanned;
use std::fmt::Write;

#[path = "../tests/common/mod.rs"]
mod common;

/// The name, the file, and TENSAT's seconds of search and gain in percent.
const SUITE: [(&str, &str, f64, f64); 7] = [
    ("BERT", "tests/models/bert_base.onnx", 1.4, 9.2),
    ("ResNeXt-50", "tests/models/resnext50_32x4d.onnx", 0.7, 8.8),
    ("NasNet-A", "examples/superoptimise/nasnet_a.onnx", 10.6, 7.3),
    ("NasRNN", "tests/models/nasrnn.onnx", 0.5, 68.9),
    ("Inception-v3", "tests/models/inception_v3.onnx", 5.1, 10.0),
    ("SqueezeNet", "tests/models/squeezenet1_1.onnx", 0.3, 24.5),
    ("VGG-19", "examples/superoptimise/vgg19.onnx", 0.4, 8.9),
];

/// The number of searches, of which the fastest counts.
const RUNS: usize = 3;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("skipped: `cargo bench --bench superoptimise` runs it");
        return;
    }
    let mut rows = Vec::new();
    let calibrated = ovolo_tune::calibrate::machine(common::registry(), 1).machine;
    println!(
        "                 search s         flops: ms                  gain %        roofline: ms               gain %        gain %"
    );
    println!(
        "               ovolo  TENSAT   unopt.   fused    found  unopt.  fused    unopt.   fused    found  unopt.  fused  TENSAT"
    );
    for (name, file, seconds, gain) in SUITE {
        let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
        let path = common::root().join(file);
        let graph = onnx::load(common::registry().onnx(), path, &import).unwrap().graph;
        let search = (0..RUNS)
            .map(|_| searched(&compile(&graph, &options("superoptimise", "flops", Machine::NOMINAL))))
            .fold(f64::INFINITY, f64::min);
        print!("{name:13} {search:6.3} {seconds:7.1}");
        let mut row = format!("| {name} | {search:.2} | {seconds:.1} |");
        for (cost, machine) in [("flops", Machine::NOMINAL), ("roofline", calibrated)] {
            let [unoptimised, fused, found] = [
                unoptimised(options("native", cost, machine)),
                options("native", cost, machine),
                options("superoptimise", cost, machine),
            ]
            .map(|options| price(&compile(&graph, &options)));
            let [over, beyond] = [unoptimised, fused].map(|baseline| (baseline / found - 1.0) * 100.0);
            let _ = write!(row, " {over:.1} % | {beyond:.1} % |");
            print!(
                " {:8.2} {:7.2} {:8.2} {:7.1} {:6.1} ",
                unoptimised * 1e3,
                fused * 1e3,
                found * 1e3,
                over,
                beyond,
            );
        }
        println!(" {gain:6.1}{}", if search <= seconds { "" } else { "  slower than TENSAT" });
        rows.push(format!("{row} {gain:.1} % |"));
    }
    println!(
        "\nFor docs/BENCHMARKS.md:\n\n| | search s | TENSAT | `flops`: over unoptimised | over `native` | `roofline`: over unoptimised | over `native` | TENSAT (GPU) |\n|---|---|---|---|---|---|---|---|"
    );
    rows.iter().for_each(|row| println!("{row}"));
}

fn options(pipeline: &str, cost: &str, machine: Machine) -> Options {
    let mut options = common::pipeline(pipeline, 1);
    options.machine = machine;
    if let Some(extract) = options.pipeline.extract_mut() {
        extract.price_by(cost, pricings()).expect("the cost model ships with ovolo");
    }
    options
}

/// Removes algebra and fusion: of those rules, only the ones that give an elementwise op a kernel stay.
fn unoptimised(mut options: Options) -> Options {
    let kernels: Vec<Spanned<String>> = options
        .rules
        .rules()
        .iter()
        .filter(|rule| rule.stem() == "fuse" && rule.name.starts_with("map-"))
        .map(|rule| rule.name.clone().into())
        .collect();
    for rewrite in options.pipeline.passes_mut::<Rewrite>().filter(|rewrite| rewrite.name == "fuse") {
        rewrite.rules.clone_from(&kernels);
    }
    options
}

fn compile(graph: &Graph, options: &Options) -> Compilation {
    compile::compile(graph.clone(), options).unwrap()
}

/// The seconds of saturation and extraction.
fn searched(compilation: &Compilation) -> f64 {
    let search = |report: &PassReport| matches!(report, PassReport::Rewrite(_) | PassReport::Extract { .. });
    let stages = compilation.stages.iter().filter(|stage| stage.report.as_ref().is_some_and(search));
    stages.map(|stage| stage.time.as_secs_f64()).sum()
}

/// The seconds that the found graph costs.
fn price(compilation: &Compilation) -> f64 {
    match compilation.extraction() {
        Some(PassReport::Extract { extraction, .. }) => extraction.cost,
        _ => unreachable!("every shipped pipeline extracts"),
    }
}
