//! Tests the contract of kernels, for every backend in the list: on each lowered op in the rules' examples,
//! and on the plans of the examples, the cases and the models. Every implementation that the native backend
//! has for a candidate in these must have run.
//!
//! All memory that nobody has written is NaN: results, scratch, dead memory, and the surroundings of every
//! buffer. The result must equal the reference evaluation, its padding must be zero, only the result and the
//! scratch may be written, and in place of an operand that the contract allows the result must be the same.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/need.rs"]
mod need;

#[path = "kernels/apart.rs"]
mod apart;
#[path = "kernels/coverage.rs"]
mod coverage;
#[path = "kernels/decisions.rs"]
mod decisions;
#[path = "kernels/guarded.rs"]
mod guarded;
#[path = "kernels/plan.rs"]
mod plan;

use guarded::step;
use libtest_mimic::{Arguments, Failed, Trial};
use need::Need;
use ovolo::backend::{Backend, Call};
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::op::{Op, OpError};
use ovolo::rule::{Example, Rule, RuleSet, Template};
use ovolo::tensor::{Tensor, TensorType};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The backend that is only tested if its library is found.
const LIBRARY: &str = "onednn";
/// Rule sets that lead to kernels of a device, which `standard/tests/cuda.rs` tests.
const DEVICE: &[&str] = &["cuda", "cublaslt", "cudnn", "cudnn-graph", "tf32"];
/// Ops in examples of other rule sets that only kernels of a device compute.
const ON_DEVICES: &[&str] = &["tree"];

fn main() {
    let rules = common::rules();
    let mut trials = Vec::new();
    for rule in rules.rules().iter().filter(|rule| !DEVICE.contains(&rule.stem())) {
        if rule.to.iter().any(lowers) {
            let one = Arc::clone(rule);
            let needs = needs(rule, &|after| kernels(after).any(|has| has));
            trials.push(need::trial(format!("op::{}", rule.name), &needs, move || ops(&one)));
        }
        let one = Arc::clone(rule);
        let needs = needs(rule, &|after| kernels(after).all(|has| has));
        trials.push(need::trial(format!("plan::{}", rule.name), &needs, move || examples(&one)));
    }
    let cases = ["tests/cases", "tests/cases/superoptimise"].map(|folder| in_folder(folder, "ovolo"));
    let cases_of_all: Vec<PathBuf> = cases.into_iter().flatten().collect();
    for path in cases_of_all.clone() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        trials.push(Trial::test(format!("case::{name}"), move || {
            let source = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            plan::holds(
                &text::parse(common::ops(), &source).map_err(|error| error.to_string())?,
                "native",
                true,
            )
        }));
    }
    for path in in_folder("tests/models", "onnx") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for pipeline in ["native", "cpu", "onednn"] {
            let path = path.clone();
            let test = move || plan::holds(&model(&path), pipeline, false);
            let needs = if pipeline == "native" { Vec::new() } else { vec![need::onednn()] };
            trials.push(need::trial(format!("model::{name}::{pipeline}"), &needs, test));
        }
    }
    let rules = Arc::new(rules);
    let all = Arc::clone(&rules);
    let decisions = Arc::clone(&rules);
    trials.push(Trial::test("kernels_that_decide_are_listed", move || decisions::are_listed(&decisions)));
    trials.push(Trial::test("every_backend_has_examples", move || backends(&rules)));
    let arguments = Arguments::from_args();
    let first = libtest_mimic::run(&arguments, trials);
    // This check needs all tests above to have run.
    let all_run = match arguments.filter.is_none() && arguments.skip.is_empty() {
        true => Ok(()),
        false => Err("a filter excludes some of them".to_owned()),
    };
    let all_run = Need::undemanded("all other tests", all_run);
    let graphs = move || -> Result<(), Failed> {
        let mut graphs = Vec::new();
        for path in cases_of_all {
            let source = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            graphs.push(text::parse(common::ops(), &source).map_err(|error| error.to_string())?);
        }
        graphs.extend(in_folder("tests/models", "onnx").iter().map(|path| model(path)));
        coverage::every_native_implementation(&all, &graphs)
    };
    let wide = [all_run.clone(), need::running_avx512()];
    let every = all_run.trial("every_native_implementation_has_run", graphs);
    let second = libtest_mimic::run(&arguments, vec![every]);
    // This one needs the one before to have run.
    let for_avx512 = need::trial("native_kernels_for_avx512_have_run", &wide, coverage::kernels_for_avx512);
    let last = libtest_mimic::run(&arguments, vec![for_avx512]);
    first.exit_if_failed();
    second.exit_if_failed();
    last.exit();
}

/// The needs of a rule's tests: the library for rules that lead to oneDNN; and AVX-512 if the library has no
/// kernel without it, so that no graph after the rule can run.
fn needs(rule: &Rule, runs: &dyn Fn(&Graph) -> bool) -> Vec<Need> {
    let mut needs = Vec::new();
    if rule.stem() == LIBRARY {
        needs.push(need::onednn());
    }
    if rule.name.starts_with("onednn-conv-integer-AcdB16b") {
        needs.push(need::amx());
    } else if ["onednn-conv-integer-", "onednn-matmul-integer"].iter().any(|name| rule.name.starts_with(name))
    {
        needs.push(need::vnni());
    }
    let avx512 = need::avx512();
    if from_library(rule) && !avx512.is_met() && !fired(rule).any(|(_, after)| runs(&after)) {
        needs.push(avx512);
    }
    needs
}

/// Whether a right side contains an op that some backend runs.
fn lowers(template: &Template) -> bool {
    match template {
        Template::Op { op, children, .. } => backend_of(*op).is_some() || children.iter().any(lowers),
        Template::Each(_, inner) => inner.as_ref().is_some_and(|(_, inner)| lowers(inner)),
        Template::Operand(_) | Template::Scalar(_) => false,
    }
}

fn backend_of(op: Op) -> Option<&'static dyn Backend> {
    common::registry().backends().get(op.backend()?).map(|backend| &**backend)
}

/// The graphs of a rule's firing examples, before and after.
fn fired(rule: &Rule) -> impl Iterator<Item = (Graph, Graph)> {
    rule.examples.iter().filter_map(|example| {
        let Example::Fires { graph, after: Some(after), .. } = example else { return None };
        let before = text::parse(common::ops(), &example.graph()).unwrap_or_else(|error| panic!("{error}"));
        let after = common::after(graph, after).unwrap_or_else(|error| panic!("{error}"));
        Some((before, after))
    })
}

/// Runs every lowered op of the graphs after the rule.
fn ops(rule: &Rule) -> Result<(), Failed> {
    let mut count = 0;
    let mut refused = Vec::new();
    for (_, graph) in fired(rule) {
        let inputs = common::inputs(&graph);
        let values = common::values(&graph, &inputs);
        for (id, node) in graph.nodes() {
            if backend_of(node.op).is_none() {
                continue;
            }
            let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
            if let Err(why) = offered(node.op, &node.attrs, &operands, &values[id.index()]) {
                refused.push(why);
                continue;
            }
            step(node.op, &node.attrs, &operands, &values[id.index()])
                .map_err(|why| format!("`{}` in\n{graph}\n{why}", node.name))?;
            count += 1;
        }
    }
    if count == 0 {
        Err(format!("no example has a lowered op that runs; refused: {refused:?}").into())
    } else {
        Ok(())
    }
}

/// Whether there is a kernel. oneDNN decides which kernels it has, so it may refuse some examples of a rule,
/// but not all. The native backend has a kernel for every example.
fn offered(op: Op, attrs: &ovolo::attr::Attrs, operands: &[&Tensor], result: &Tensor) -> Result<(), OpError> {
    let types = types(operands);
    let call = Call { op, attrs, inputs: &types, output: result.ty(), threads: 1 };
    match call.contract() {
        Err(why) if op.backend() == Some(LIBRARY) => Err(why),
        _ => Ok(()),
    }
}

/// Runs plans of the graphs before the rule.
fn examples(rule: &Rule) -> Result<(), Failed> {
    let pipeline = if rule.stem() == LIBRARY { "onednn" } else { "native" };
    let wide = !from_library(rule) || need::avx512().is_met();
    let here = |graph: &Graph| !graph.nodes().any(|(_, node)| ON_DEVICES.contains(&node.op.name));
    let mut graphs =
        fired(rule).filter(|(before, after)| here(before) && (wide || kernels(after).all(|has| has)));
    graphs.try_for_each(|(graph, _)| plan::holds(&graph, pipeline, true))
}

/// Whether a rule leads to kernels of oneDNN.
fn from_library(rule: &Rule) -> bool {
    rule.stem() == LIBRARY || rule.is_called("half:bf16")
}

/// Whether each lowered op of a graph has a kernel.
fn kernels(graph: &Graph) -> impl Iterator<Item = bool> {
    graph.nodes().filter(|(_, node)| backend_of(node.op).is_some()).map(|(_, node)| {
        let types: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
        let call = Call { op: node.op, attrs: &node.attrs, inputs: &types, output: &node.ty, threads: 1 };
        call.contract().is_ok()
    })
}

/// The files in a folder with this extension.
fn in_folder(folder: &str, ending: &str) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(common::root().join(folder)).unwrap();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    files
}

fn model(path: &Path) -> Graph {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    onnx::load(common::registry().onnx(), path, &options).unwrap().graph
}

/// Checks that every backend has ops in the examples.
fn backends(rules: &RuleSet) -> Result<(), Failed> {
    let ops = |graph: &Graph| graph.nodes().map(|(_, node)| node.op).collect::<Vec<_>>();
    let seen: BTreeSet<&str> = rules
        .rules()
        .iter()
        .flat_map(|rule| fired(rule).flat_map(|(_, graph)| ops(&graph)).collect::<Vec<_>>())
        .filter_map(|op| Some(backend_of(op)?.name()))
        .collect();
    match common::registry().backends().names().find(|name| !seen.contains(name)) {
        Some(name) => Err(format!("no rule has an example with an op of `{name}`").into()),
        None => Ok(()),
    }
}

/// The types of some tensors.
fn types<'a>(values: &[&'a Tensor]) -> Vec<&'a TensorType> {
    values.iter().map(|value| value.ty()).collect()
}
