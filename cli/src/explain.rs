//! `ovolo explain`.

mod regions;

use super::dynamic::{is_dynamic, sized};
use super::load::{self, absent, imported, tensors};
use super::page;
use super::run::{input_files, read_inputs};
use super::value;
use super::{Outcome, Settings, amount, print};
use clap::Args;
use ovolo::compile::{Compilation, Options};
use ovolo::cost::fits;
use ovolo::egraph::{Flip, RunnerUp};
use ovolo::error::suggestion;
use ovolo::extract::Extraction;
use ovolo::graph::{Graph, text as graph_text};
use ovolo::onnx;
use ovolo::plan::{Arena, Plan, Source};
use ovolo::registry::Registry;
use ovolo::stage::{Curve, Scale, Supposed};
use ovolo::tensor::Device;
use ovolo_lab::report::{self, Page};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args, Clone)]
pub(super) struct Explain {
    #[command(flatten)]
    settings: Settings,
    /// An input of the model, as for `run`. Sizes are read off it, and the regions of a model whose shapes depend on
    /// values are those of a run on these inputs.
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Show what would be chosen instead of each step, and how far its cost is from that choice: the closest
    /// first.
    #[arg(long)]
    runner_up: bool,
    /// Show what less memory costs: the plans from the fastest to the smallest, by the host's memory for the arena
    /// and the constants, or by that of another device (`--memory-curve=cuda:0`).
    #[arg(
        long,
        value_name = "DEVICE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "host",
        conflicts_with = "runner_up"
    )]
    memory_curve: Option<Device>,
    /// Show what would be chosen if kernels cost more or less: a pattern of ops and a factor. May be given
    /// more than once.
    #[arg(long, value_name = "PATTERN=FACTOR", value_parser = Scale::read, conflicts_with_all = ["runner_up", "memory_curve", "html"])]
    what_if: Vec<Scale>,
    /// Show how the prices of steps come about: of those whose value or op has this name. `*` stands for any end of a
    /// name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["json", "runner_up", "memory_curve", "what_if", "html"])]
    price: Option<String>,
    /// Write a page with pictures to this file: the graph before and after, the memory step by step, and the
    /// cost of each step compared with its runner-up. Works in any browser without network.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "runner_up", "memory_curve"])]
    html: Option<PathBuf>,
}

impl Explain {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let files = input_files(&self.inputs)?;
        if files.is_empty() {
            return match self.whole(registry) {
                Err(_) if is_dynamic(&self.settings, registry)? => self.regions(registry, None),
                outcome => outcome,
            };
        }
        let given = read_inputs(&files, &value::interface(&self.settings.model)?)?;
        let is_text = graph_text::is_named(&self.settings.model);
        let bound = if is_text { Some(self.settings.clone()) } else { sized(&self.settings, &given)? };
        let Some(settings) = bound else {
            return self.regions(registry, Some(&given));
        };
        let sized = Self { settings, ..self.clone() };
        match sized.settings.graph(registry) {
            Err(_) if is_dynamic(&sized.settings, registry)? => self.regions(registry, Some(&given)),
            graph => {
                onnx::check_inputs(&graph?, &tensors(given)?).map_err(|error| error.to_string())?;
                sized.whole(registry)
            }
        }
    }

    /// Explains the plan of a model with fixed shapes.
    fn whole(&self, registry: &Arc<Registry>) -> Outcome {
        if self.runner_up {
            return self.runner_ups(registry);
        }
        if let Some(device) = self.memory_curve {
            return self.curve(registry, device);
        }
        if !self.what_if.is_empty() {
            return self.supposed(registry);
        }
        if let Some(file) = &self.html {
            return self.page(registry, file);
        }
        if let Some(name) = &self.price {
            return self.prices(registry, name);
        }
        let compilation = self.settings.compile(registry)?;
        for line in absent(&compilation.absent) {
            eprintln!("{line}");
        }
        let plan = compilation.plan;
        print(&if self.json { format!("{}\n", report::plan(&plan)) } else { text(&plan) });
        Ok(())
    }
}

impl Explain {
    #[allow(clippy::cast_precision_loss)]
    fn curve(&self, registry: &Arc<Registry>, device: Device) -> Outcome {
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let graph = self.settings.graph(registry)?;
        let mut bar = load::bar("searching", "million steps");
        let curve = options.curve(&graph, device, &mut bar);
        let Curve { points, complete } = curve.map_err(|error| error.to_string())?;
        drop(bar);
        if !complete {
            eprintln!(
                "note: the search ended at its limit of work, so there may be smaller plans, and faster ones of the same size"
            );
        }
        let mut report = String::new();
        let first = points.first().map_or((0.0, 0), |point| (point.seconds, point.bytes()));
        for point in &points {
            if self.json {
                let value = json!({
                    "seconds": point.seconds, "bytes": point.bytes(), "arena": point.arena,
                    "constants": point.constants, "proven": point.proven,
                });
                let _ = writeln!(report, "{value}");
                continue;
            }
            let _ = writeln!(
                report,
                "{:12} bytes {:6.1} %  {:12.6} ms {:+7.1} %  arena {}, constants {}{}",
                point.bytes(),
                if first.1 > 0 { point.bytes() as f64 / first.1 as f64 * 100.0 } else { 100.0 },
                amount::positive(point.seconds * 1e3),
                if first.0 > 0.0 { (point.seconds / first.0 - 1.0) * 100.0 } else { 0.0 },
                point.arena,
                point.constants,
                if point.proven { "" } else { "  not proven" }
            );
        }
        print(&report);
        Ok(())
    }

    fn page(&self, registry: &Arc<Registry>, file: &Path) -> Outcome {
        page::writable("--html ", file, &self.settings.inputs())?;
        let (compilation, options) = self.settings.compile_and_options(registry)?;
        for line in absent(&compilation.absent) {
            eprintln!("{line}");
        }
        let mut bar = comparing();
        show(&self.settings, registry, &compilation, &options, &mut bar, &mut |page| {
            page::write_page(file, page)
        })
    }

    fn supposed(&self, registry: &Arc<Registry>) -> Outcome {
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let graph = self.settings.graph(registry)?;
        let found = options.saturate(&graph).and_then(|saturated| {
            options.price(&saturated)?.what_if(&options.choice(&graph)?, &self.what_if)
        });
        let found = found.map_err(|error| error.to_string())?;
        print(&if self.json {
            let scales: Vec<_> =
                self.what_if.iter().map(|one| json!({ "ops": one.ops, "factor": one.factor })).collect();
            let flips: Vec<_> = found.flips.iter().map(flip_json).collect();
            let value = json!({
                "scales": scales, "cost": found.now.cost, "unchanged": found.unchanged, "then": found.then.cost,
                "proven": found.now.proven && found.then.proven, "flips": flips,
            });
            format!("{value}\n")
        } else {
            supposed_text(&found)
        });
        Ok(())
    }

    /// Shows how the prices of some steps come about.
    fn prices(&self, registry: &Arc<Registry>, name: &str) -> Outcome {
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let graph = self.settings.graph(registry)?;
        let planned = options.saturate(&graph).and_then(|saturated| options.plan(&saturated));
        let planned = planned.map_err(|error| error.to_string())?;
        let mut text = String::new();
        for (at, step) in planned.plan.steps.iter().enumerate() {
            if !(fits(name, &step.name) || fits(name, step.op.name)) {
                continue;
            }
            let copies = match step.copies {
                0.0 => String::new(),
                copies => format!(", of which {:.3} us are for copies", copies * 1e6),
            };
            let (value, op, price) = (&step.name, step.op.name, step.seconds * 1e6);
            let _ = writeln!(text, "{at:4}  {value}: {op} at {price:.3} us{copies}");
            let account = planned.account(step).map_err(|error| error.to_string())?;
            if account.is_empty() {
                let model = planned.chosen.model().name();
                let _ = writeln!(text, "      the cost model `{model}` gives a number alone");
            }
            for line in account {
                let _ = writeln!(text, "      {line}");
            }
        }
        if text.is_empty() {
            let names = planned.plan.steps.iter().flat_map(|step| [&*step.name, step.op.name]);
            let help = suggestion(name, names)
                .map_or_else(String::new, |close| format!("; did you mean `{close}`?"));
            return Err(format!("no step of the plan has the value or the op `{name}`{help}"));
        }
        print(&text);
        Ok(())
    }

    fn runner_ups(&self, registry: &Arc<Registry>) -> Outcome {
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let found = runner_ups(&self.settings.graph(registry)?, &options, &mut comparing())?;
        let mut lines = String::new();
        for one in &found {
            if self.json {
                let _ = writeln!(lines, "{}", report::to_json(one));
                continue;
            }
            lines.push_str(&runner_up_text(one));
        }
        print(&lines);
        Ok(())
    }
}

/// Tells what would be chosen instead of a step.
pub(super) fn runner_up_text(one: &RunnerUp) -> String {
    let mut instead = one.instead.clone().unwrap_or_else(|| "a graph without this value".into());
    if !one.differs.is_empty() {
        let _ = write!(instead, ", with {}", one.differs.join("; "));
    } else if let (None, Some(first)) = (&one.instead, one.adds.first()) {
        let more = one.adds.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(instead, ", with {} of type {}{more}", first.node, first.ty);
    }
    let about = if one.proven { "" } else { " (not proven)" };
    let margin = one.margin.max(0.0) * 1e6;
    let digits = digits(margin);
    format!(
        "{}: {} at {:.digits$} us\n    runner-up {instead}: +{margin:.digits$} us in all{about}; the choice changes if \
         the chosen one costs {:.digits$} us\n",
        one.value,
        one.chosen,
        one.seconds * 1e6,
        one.seconds * 1e6 + margin
    )
}

/// Makes the page of a compilation, and shows it.
pub(super) fn show<T>(
    settings: &Settings,
    registry: &Registry,
    compilation: &Compilation,
    options: &Options,
    progress: Progress<'_>,
    show: &mut dyn FnMut(&Page<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let imported = imported(compilation)?;
    let runner_ups = runner_ups(imported, options, progress)?;
    show(&Page {
        title: &settings.title(),
        settings: &settings.account(registry, &compilation.plan)?,
        imported: Some(imported),
        program: &compilation.program,
        plan: &compilation.plan,
        runner_ups: Some(&runner_ups),
        profile: None,
    })
}

/// A function that is called with the number of kernels that are done, and of all.
type Progress<'p> = &'p mut dyn FnMut(usize, usize);

fn comparing() -> impl FnMut(usize, usize) {
    load::bar("comparing", "kernels")
}

pub(super) fn runner_ups(
    graph: &Graph,
    options: &Options,
    mut progress: Progress<'_>,
) -> Result<Vec<RunnerUp>, String> {
    let found = options
        .saturate(graph)
        .and_then(|saturated| options.price(&saturated)?.runner_ups(&options.choice(graph)?, &mut progress));
    found.map_err(|error| error.to_string())
}

/// The most digits after the point for an amount in microseconds.
const DIGITS: usize = 9;

/// The number of digits after the point that shows two figures of a margin; at least one.
fn digits(margin: f64) -> usize {
    let shows = |digits: &usize| {
        let unit = 10_f64.powi(-i32::try_from(*digits).unwrap_or(0));
        margin >= 10.0 * unit
    };
    if margin > 0.0 { (1..DIGITS).find(shows).unwrap_or(DIGITS) } else { 1 }
}

fn flip_json(flip: &Flip) -> serde_json::Value {
    let side =
        |node: &Option<String>, seconds: f64| node.as_ref().map(|op| json!({ "op": op, "seconds": seconds }));
    json!({
        "value": flip.value, "before": side(&flip.before, flip.seconds_before),
        "after": side(&flip.after, flip.seconds_after),
    })
}

pub(super) fn supposed_text(found: &Supposed) -> String {
    let proven = |extraction: &Extraction| if extraction.proven { "proven optimal" } else { "unproven" };
    let mut text = format!(
        "now {:.6} ms ({}); with the factors: the same graph {:.6} ms, the cheapest {:.6} ms ({}); {} choices change\n",
        found.now.cost * 1e3,
        proven(&found.now),
        found.unchanged * 1e3,
        found.then.cost * 1e3,
        proven(&found.then),
        found.flips.len()
    );
    let side = |node: &Option<String>, seconds: f64| match node {
        Some(op) => format!("{op} at {:.1} us", seconds * 1e6),
        None => "nothing".to_owned(),
    };
    for flip in &found.flips {
        let _ = writeln!(text, "{}: {}", flip.value, side(&flip.before, flip.seconds_before));
        let _ = writeln!(text, "    then {}", side(&flip.after, flip.seconds_after));
    }
    text
}

pub(super) fn text(plan: &Plan) -> String {
    let mut text = String::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "{index:4}  {}: {}", step.name, step.output_type);
        let _ = writeln!(
            text,
            "      {}  backend {}, implementation {}, layout {}, {:.1} us",
            step.op,
            step.op.backend().unwrap_or_default(),
            step.implementation,
            step.output_type.layout,
            step.seconds * 1e6
        );
        let operands: Vec<String> = step.inputs.iter().map(ToString::to_string).collect();
        let in_place =
            step.in_place.map(|operand| format!(", in place of operand {operand}")).unwrap_or_default();
        let scratch = if step.scratch > 0 { format!(", scratch {}", step.scratch) } else { String::new() };
        let _ = writeln!(text, "      {} -> {}{in_place}{scratch}", operands.join(", "), step.output);
        let choices = step.choices(plan.threads);
        if !choices.is_empty() {
            let choices: Vec<String> =
                choices.iter().map(|one| format!("{}: {}", one.what, one.taken)).collect();
            let _ = writeln!(text, "      decided by the kernel: {}", choices.join("; "));
        }
        let Source { rules, others, imported, again } = &step.source;
        if *again {
            text.push_str("      computed again, since it was not kept\n");
        }
        let imported = imported.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let chain: Vec<&str> = rules.iter().map(String::as_str).chain([imported.as_str()]).collect();
        if !rules.is_empty() {
            let _ = writeln!(text, "      by {}", chain.join(" <- "));
        }
        if !others.is_empty() {
            let _ = writeln!(text, "      and by {}", others.join(", "));
        }
    }
    let arena = |arena: Arena| {
        let Arena { device, bytes, lower_bound: this, lower_bound_any_order: any, .. } = arena;
        let constants = plan.constants_of(device);
        format!(
            "{bytes} bytes (lower bound for this order of steps {this}, for all orders {any}), constants {constants} \
             bytes"
        )
    };
    let copied = plan.copied_outputs();
    if !copied.is_empty() {
        let names: Vec<&str> = copied.iter().map(|at| &*plan.outputs[*at].0).collect();
        let _ = writeln!(
            text,
            "after the last step, {:.3} us: {} copied to the caller",
            amount::positive(plan.copying * 1e6),
            names.join(", ")
        );
    }
    let host = plan.arenas().take(1).filter(|_| plan.devices.is_empty());
    let host: String = host.map(|host| format!("arena {}, ", arena(host))).collect();
    let _ = writeln!(
        text,
        "{} steps, estimate {:.3} ms, {host}{} thread(s)",
        plan.steps.len(),
        amount::positive(plan.seconds() * 1e3),
        plan.threads
    );
    for one in plan.arenas().filter(|_| !plan.devices.is_empty()) {
        let _ = writeln!(text, "arena of {} {}", one.device, arena(one));
    }
    text
}
