//! The shipped rules do what the examples beside them say, every one has both kinds, and none is
//! idle: the graph of its first firing example, compiled by a pipeline that has the rule, has a
//! snapshot, and comes out otherwise, or not at all, without the rule.
#![allow(clippy::unwrap_used)]

mod common;

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::audit::example;
use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::graph::{Graph, text};
use ovolo::pass::PassReport;
use ovolo::pass::pipeline::{self, PassSpec, Pipeline};
use ovolo::rule::{Example, Rule, RuleSet, SHIPPED};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

fn main() {
    let set = RuleSet::read(SHIPPED).unwrap_or_else(|errors| panic!("{errors}"));
    let onednn = common::onednn_found();
    let trials = set
        .rules()
        .iter()
        .flat_map(|rule| {
            let (one, other, set) = (Arc::clone(rule), Arc::clone(rule), set.clone());
            let mut trials = vec![Trial::test(format!("examples::{}", rule.name), move || examples(&one))];
            // What a rule that leads to oneDNN is worth shows where the library says which kernels it has.
            if !SEARCHED.contains(&rule.stem()) && (rule.stem() != "onednn" || onednn) {
                trials.push(Trial::test(format!("worth::{}", rule.name), move || worth(&other, &set)));
            }
            trials
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn examples(rule: &Rule) -> Result<(), Failed> {
    if let Some(lacks) = example::lacks(rule) {
        return Err(lacks.into());
    }
    let wrong: Vec<String> =
        example::run(rule).into_iter().filter_map(|verdict| Some(verdict.wrong?.message)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Files of equalities that only the pipeline `superoptimise` searches through. What one of them is
/// worth shows in networks, and not yet in a case for each of them: see `ovolo rules ablate`.
const SEARCHED: &[&str] = &["taso", "taso-multi"];

/// Rules to kernels that have the prices of others until they are measured, and change nothing so far.
const UNMEASURED: &[&str] = &[
    "lower-softmax-onednn",
    "lower-log-softmax-onednn",
    "lower-layer-norm-onednn",
    "lower-map-onednn",
    "lower-pack-onednn",
    "lower-unpack-onednn",
    "lower-reduce-sum-onednn",
    "lower-reduce-mean-onednn",
    "lower-reduce-max-onednn",
    "lower-reduce-min-onednn",
];

/// Rules that change nothing on processors with AVX-512, and why.
const NARROW: &[(&str, &str)] = &[
    ("winograd-2-nChw8c", "a block of 8 channels fills half of a register there"),
    ("winograd-4-nChw8c", "a block of 8 channels fills half of a register there"),
];

fn worth(rule: &Rule, set: &RuleSet) -> Result<(), Failed> {
    let fires = rule.examples.iter().filter(|example| matches!(example, Example::Fires { .. }));
    let graphs: Vec<Graph> = fires
        .map(|example| text::parse(&example.graph()).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let pipeline = pipeline_with(rule).ok_or("no shipped pipeline has the rule in a phase")?;
    let without = set.without(&rule.name);
    let found = graphs.iter().find_map(|graph| {
        let whole = report(graph, set, &pipeline);
        (whole != report(graph, &without, &pipeline)).then_some(whole)
    });
    let narrow = NARROW.iter().any(|(name, _)| *name == rule.name) && wide()
        || UNMEASURED.contains(&rule.name.as_str());
    let Some(whole) = found else {
        return if narrow {
            Ok(())
        } else {
            Err("every example compiles to the same program without the rule".into())
        };
    };
    if narrow {
        return Err("the rule changes something here: take it off the list".into());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/rules"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(rule.name.clone(), whole));
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn wide() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn wide() -> bool {
    false
}

fn pipeline_with(rule: &Rule) -> Option<Pipeline> {
    let shipped = pipeline::SHIPPED.iter().map(|(name, text)| Pipeline::read(name, text).unwrap());
    let has = |pass: &PassSpec| match pass {
        PassSpec::Rewrite(settings) => {
            settings.rules.iter().any(|name| *name == rule.name || name == rule.stem())
        }
        _ => false,
    };
    // Plain pipelines first: the fewer rules, the plainer the snapshot.
    let mut with: Vec<Pipeline> = shipped.filter(|pipeline| pipeline.passes.iter().any(has)).collect();
    with.sort_by_key(|pipeline| pipeline.passes.len());
    with.into_iter().next()
}

/// What a pipeline makes of a graph under the nominal cost model: the rules on the way, and the
/// program.
fn report(graph: &Graph, rules: &RuleSet, pipeline: &Pipeline) -> String {
    let mut pipeline = pipeline.clone();
    for pass in &mut pipeline.passes {
        if let PassSpec::Extract(settings) = pass {
            settings.cost = "flops".into();
        }
    }
    let options = Options {
        rules: rules.clone(),
        pipeline,
        threads: 1,
        machine: Machine::NOMINAL,
        keep_egraph_after: None,
    };
    let compilation = match compile::compile(graph.clone(), &options) {
        Ok(compilation) => compilation,
        Err(error) => return error.to_string(),
    };
    let names: BTreeSet<&str> = compilation
        .plan
        .steps
        .iter()
        .flat_map(|step| &step.rules)
        .map(|rule| rule.split(' ').next().unwrap_or_default())
        .collect();
    let mut report = String::new();
    if let Some(PassReport::Extract { extraction, .. }) = compilation.extraction() {
        let proven = if extraction.proven { "proven" } else { "unproven" };
        writeln!(report, "{proven} by `{}`", options.pipeline.name).unwrap();
    }
    writeln!(report, "rules: {}\n", names.into_iter().collect::<Vec<_>>().join(" ")).unwrap();
    write!(report, "{}", text::print(&compilation.program)).unwrap();
    report
}
