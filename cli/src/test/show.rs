//! What a case shows of a compilation.

use super::case::{Case, Part};
use crate::Settings;
use crate::compile::stage;
use crate::load;
use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::Machine;
use ovolo::graph::text;
use ovolo::pass::PassReport;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::stage::Imported;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiles the model of a case, and returns what the case shows.
pub(super) fn show(registry: &Arc<Registry>, case: &Case) -> Result<String, String> {
    let mut settings = case.settings.clone();
    let mut written = None;
    if let Some(script) = &case.script {
        // Tests of a program may show several cases at the same time.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("ovolo-test-{}-{number}.onnx", std::process::id()));
        script.write(&file)?;
        settings.model.clone_from(&file);
        written = Some(file);
    }
    let shown = of_model(registry, &settings, case);
    if let Some(file) = written {
        // If it cannot be removed, it stays in the folder of temporary files.
        let _ = std::fs::remove_file(file);
    }
    shown
}

fn of_model(registry: &Arc<Registry>, settings: &Settings, case: &Case) -> Result<String, String> {
    let options = options(registry, settings, &case.after)?;
    let compilation =
        compile::compile(settings.graph(registry)?, &options).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for part in &case.show {
        if !text.is_empty() {
            text.push('\n');
        }
        let title = match part {
            Part::Graph => format!("graph after {}", case.after),
            other => other.name().to_owned(),
        };
        let _ = writeln!(text, "# {title}");
        let shown = match part {
            Part::Graph => graph(&compilation, &case.after)?,
            Part::Growth => growth(&compilation, &case.after),
            Part::Rules => rules(&compilation.plan),
            Part::Plan => compilation.plan.to_string(),
            Part::Costs => costs(&compilation.plan),
        };
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// Returns the options with a nominal machine, which is the same everywhere.
fn options(registry: &Arc<Registry>, settings: &Settings, after: &str) -> Result<Options, String> {
    let request = settings.request(registry, &settings.pipeline)?;
    if load::by_times(&request.pipeline) {
        return Err("the cost model `measured` depends on the machine: name another one with `cost`".into());
    }
    let options = load::options_for(registry, &request, Machine::NOMINAL)?;
    Ok(Options { keep_egraph_after: Some(after.to_owned()), ..options })
}

/// Returns the graph after a pass; after a rewriting pass, the classes of the e-graph that have more than the imported
/// graph.
fn graph(compilation: &Compilation, after: &str) -> Result<String, String> {
    let stage = stage(compilation, after)?;
    let Some(egraph) = &stage.egraph else {
        return Ok(match &stage.report {
            Some(PassReport::Plan { .. }) => compilation.plan.to_string(),
            _ => text::print(&stage.graph),
        });
    };
    let first = compilation.stages.first().ok_or("a compilation has stages")?;
    let imported = Imported::new(first.graph.clone()).map_err(|error| error.to_string())?;
    Ok(grown(&imported.saturate().egraph().to_text(), egraph))
}

/// Returns the classes of an e-graph in which lines are new, with `+` before these lines.
fn grown(before: &str, after: &str) -> String {
    let known: BTreeSet<&str> = before.lines().collect();
    let mut text = String::new();
    let mut lines = after.lines().peekable();
    while let Some(head) = lines.next() {
        let mut ways = Vec::new();
        while let Some(way) = lines.next_if(|line| line.starts_with(' ')) {
            ways.push(way);
        }
        if known.contains(head) && ways.iter().all(|way| known.contains(way)) {
            continue;
        }
        for line in std::iter::once(head).chain(ways) {
            let mark = if known.contains(line) { ' ' } else { '+' };
            let _ = writeln!(text, "{mark} {line}");
        }
    }
    text
}

/// Returns how each rewriting pass up to a pass stopped and what each rule did, without times.
fn growth(compilation: &Compilation, last: &str) -> String {
    let mut text = String::new();
    let end = compilation.stages.iter().position(|stage| stage.name == last).map_or(0, |at| at + 1);
    for stage in &compilation.stages[..end] {
        let Some(PassReport::Rewrite(saturation)) = &stage.report else { continue };
        let _ = writeln!(
            text,
            "{}: {} after {} rounds, {} e-nodes in {} classes",
            stage.name, saturation.stop, saturation.rounds, saturation.nodes, saturation.classes
        );
        for rule in saturation.growth.iter().filter(|rule| rule.matched > 0) {
            let _ = writeln!(
                text,
                "  {}: matched {}, applied {}, refused {}, nodes {}, united {}",
                rule.rule, rule.matched, rule.applied, rule.refused, rule.nodes, rule.united
            );
        }
    }
    text
}

/// Returns the rules that led to a plan, each on a line.
fn rules(plan: &Plan) -> String {
    let all = plan.steps.iter().flat_map(|step| &step.source.rules);
    let names: BTreeSet<&str> = all.map(|rule| rule.split(' ').next().unwrap_or_default()).collect();
    names.into_iter().fold(String::new(), |text, name| text + name + "\n")
}

/// Returns the estimate of each step, and their sum.
fn costs(plan: &Plan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        let _ = writeln!(text, "{:12.3} us  {}: {}", step.seconds * 1e6, step.name, step.op);
    }
    if plan.copying > 0.0 {
        let _ = writeln!(text, "{:12.3} us  outputs that are copied", plan.copying * 1e6);
    }
    let _ = writeln!(text, "{:12.3} us in all", plan.seconds() * 1e6);
    text
}
