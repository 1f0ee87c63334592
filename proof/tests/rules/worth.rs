//! Shows what a rule is worth: without it, the graph of a firing example gives another result in a shipped
//! pipeline. Either another plan is chosen, or none is found; or the plan stays the same but fewer candidates
//! can run, because the rule is a step towards what is chosen for other sizes and machines.

use ovolo::compile::{self, Options};
use ovolo::graph::{Graph, text};
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::pricings;
use ovolo::pass::{AbsentRules, PassReport, Rewrite};
use ovolo::rule::{Example, Rule, RuleSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What changes if the rule is removed, as the text of a snapshot.
pub fn worth(rule: &Rule, set: &RuleSet) -> Result<String, String> {
    let fires = rule.examples.iter().filter(|example| matches!(example, Example::Fires { .. }));
    let graphs: Vec<Graph> = fires
        .map(|example| text::parse(crate::common::ops(), &example.graph()).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let pipeline = pipeline_with(rule).ok_or("no shipped pipeline has the rule in a phase")?;
    let (without, shorter) = (set.without(&rule.name), pipeline_without(rule, &pipeline));
    let program = graphs.iter().find_map(|graph| {
        let (whole, rules) = chosen(graph, set, &pipeline);
        (whole != chosen(graph, &without, &shorter).0).then(|| rules + &whole)
    });
    let equal = || {
        graphs.iter().find_map(|graph| {
            let whole = members(graph, set, &pipeline);
            let less = members(graph, &without, &shorter);
            let lost: Vec<&String> = whole.difference(&less).collect();
            (!lost.is_empty()).then(|| lines(&pipeline, &lost))
        })
    };
    program.or_else(equal).ok_or_else(|| {
        "removing the rule changes nothing on any of its examples: other rules imply it".into()
    })
}

/// The most lines that a snapshot shows.
const SHOWN: usize = 24;

fn lines(pipeline: &Pipeline, lost: &[&String]) -> String {
    let mut text =
        format!("without it fewer programs can run in `{}`; these equalities are gone:\n\n", pipeline.name);
    let mut shown = lost.to_vec();
    shown.sort_by_key(|line| (line.len(), *line));
    for line in shown.into_iter().take(SHOWN) {
        writeln!(text, "{line}").unwrap();
    }
    text
}

/// The order of pipelines with the same number of passes.
const ORDER: [&str; 8] = ["mixed", "native", "onednn", "cpu", "bf16", "cuda", "cuda-tf32", "cuda-f16"];

fn pipeline_with(rule: &Rule) -> Option<Pipeline> {
    let registry = crate::common::registry();
    let shipped = registry
        .pipelines()
        .iter()
        .map(|(name, text)| Pipeline::read(&registry.scope(), name, text).unwrap());
    // First the pipelines that choose the same on every machine: oneDNN's kernels depend on the processor.
    // Among these those that need no device, and then the ones with the fewest passes, which give the simplest
    // snapshots.
    let has = |pipeline: &Pipeline, file: &str| {
        pipeline.rewrites().any(|phase| phase.rules.iter().any(|name| name.value == file))
    };
    let mut with: Vec<Pipeline> =
        shipped.filter(|pipeline| pipeline.rewrites().any(|phase| phase.names(rule))).collect();
    let place = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
    with.sort_by_key(|pipeline| {
        (has(pipeline, "onednn"), has(pipeline, "cuda"), pipeline.passes.len(), place(&pipeline.name))
    });
    with.into_iter().next()
}

/// The pipeline without the rule in any phase.
fn pipeline_without(rule: &Rule, pipeline: &Pipeline) -> Pipeline {
    let mut shorter = pipeline.clone();
    for phase in shorter.passes_mut::<Rewrite>() {
        phase.rules.retain(|name| name.value != rule.name);
    }
    shorter
}

/// The graph that a pipeline chooses under the nominal cost model, or the reason why there is none; and the
/// rules that led to it.
fn chosen(graph: &Graph, rules: &RuleSet, pipeline: &Pipeline) -> (String, String) {
    let options = options(rules, pipeline);
    let compilation = match compile::compile(graph.clone(), &options) {
        Ok(compilation) => compilation,
        Err(error) => return (error.to_string(), String::new()),
    };
    let names: BTreeSet<&str> = compilation
        .plan
        .steps
        .iter()
        .flat_map(|step| &step.source.rules)
        .map(|rule| rule.split(' ').next().unwrap_or_default())
        .collect();
    let mut report = String::new();
    if let Some(PassReport::Extract { extraction, .. }) = compilation.extraction() {
        let proven = if extraction.proven { "proven" } else { "unproven" };
        writeln!(report, "{proven} by `{}`", options.pipeline.name).unwrap();
    }
    writeln!(report, "rules: {}\n", names.into_iter().collect::<Vec<_>>().join(" ")).unwrap();
    (text::print(&compilation.program), report)
}

/// The equalities in the e-graph after the pipeline's rewriting, limited to what can run: `TERM = NODE` for
/// every node, where the term is the shortest one of its class and the operands of the node are the shortest
/// ones of theirs.
fn members(graph: &Graph, rules: &RuleSet, pipeline: &Pipeline) -> BTreeSet<String> {
    // What a rule is worth does not depend on the machine that the test runs on.
    let saturated =
        options(rules, pipeline).saturate_by_phases(graph, AbsentRules::TakePart, &mut |_| Ok(()));
    equalities(&saturated.unwrap_or_else(|error| panic!("{error}")).egraph().to_text())
}

/// A pipeline under the nominal cost model.
fn options(rules: &RuleSet, pipeline: &Pipeline) -> Options {
    let mut pipeline = pipeline.clone();
    pipeline.extract_mut().unwrap().price_by("flops", pricings()).unwrap();
    Options::from_parts(crate::common::registry(), rules.clone(), pipeline)
}

/// One e-node in the text of an e-graph: its class, op, operand classes and attributes.
struct Node<'a> {
    class: &'a str,
    constant: bool,
    op: &'a str,
    operands: Vec<&'a str>,
    attrs: &'a str,
}

fn equalities(text: &str) -> BTreeSet<String> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    // The shortest term of each class that has one.
    let mut terms: BTreeMap<&str, String> = BTreeMap::new();
    let (mut class, mut constant) = ("", false);
    for line in text.lines() {
        let Some(node) = line.strip_prefix("  ") else {
            let (head, _) = line.split_once(": ").unwrap();
            class = head.split(' ').next().unwrap();
            constant = line.ends_with(" constant");
            continue;
        };
        let (call, attrs) = node.split_once(')').unwrap();
        let (op, operands) = call.split_once('(').unwrap();
        let operands = operands.split(", ").filter(|operand| !operand.is_empty()).collect();
        nodes.push(Node { class, constant, op, operands, attrs: attrs.trim() });
    }
    // Whatever depends only on constants is evaluated once, so any such term will do.
    nodes.retain(|node| node.constant || node.operands.is_empty() || node.op.contains('.'));
    loop {
        let mut changed = false;
        for node in &nodes {
            let Some(term) = term(node, &terms) else { continue };
            let shorter = |old: &String| (term.len(), &term) < (old.len(), old);
            if terms.get(node.class).is_none_or(shorter) {
                terms.insert(node.class, term);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let equality = |node: &Node<'_>| Some(format!("{} = {}", terms.get(node.class)?, term(node, &terms)?));
    nodes.iter().filter_map(equality).collect()
}

fn term(node: &Node<'_>, terms: &BTreeMap<&str, String>) -> Option<String> {
    let operands: Option<Vec<&str>> =
        node.operands.iter().map(|class| terms.get(class).map(String::as_str)).collect();
    let operands = operands?;
    if matches!(node.op, "input" | "const") {
        return Some(node.attrs.trim_start_matches("{name: \"").trim_end_matches("\"}").to_owned());
    }
    let call = if operands.is_empty() {
        node.op.to_owned()
    } else {
        format!("{}({})", node.op, operands.join(", "))
    };
    Some(if node.attrs.is_empty() { call } else { format!("{call} {}", node.attrs) })
}
