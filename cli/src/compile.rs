//! `ovolo compile`, `ovolo dump` and `ovolo diff`.

use super::caching::{Caching, ReadyPlan};
use super::dynamic::{directory_or_zeros, dynamic, is_dynamic, region_json, region_lines};
use super::files::read;
use super::load::absent;
use super::page::writable;
use super::{Outcome, Settings, amount, print};
use clap::{Args, ValueEnum};
use ovolo::compile::{self, Compilation, Stage};
use ovolo::egraph::Growth;
use ovolo::graph::Graph;
use ovolo::graph::text::Seeds;
use ovolo::graph::{diff, dot, json, text};
use ovolo::pass::PassReport;
use ovolo::plan::{Arena, KeptConstants, Plan};
use ovolo::registry::Registry;
use ovolo::stage::Imported;
use ovolo::tensor::Device;
use ovolo_lab::report;
use serde_json::json;
use similar::TextDiff;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Compile {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    caching: Caching,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also show what each rule did. The model is compiled even if the cache has its plan.
    #[arg(long)]
    growth: bool,
}

impl Compile {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        match self.whole(registry) {
            Err(_) if !self.growth && is_dynamic(&self.settings, registry)? => self.dynamic(registry),
            outcome => outcome,
        }
    }

    /// Compiles the regions of a model that a run on zeros passes.
    fn dynamic(&self, registry: &Arc<Registry>) -> Outcome {
        let mut session = dynamic(&self.settings, &self.caching, registry)?;
        let zeros = directory_or_zeros(&self.settings, &session, None)?;
        let mut regions = Vec::new();
        let result = session.run_and_report(&zeros, &mut |region, _| regions.push(region.clone()));
        let why = result.err().map(|error| error.to_string());
        if regions.is_empty()
            && let Some(why) = why
        {
            return Err(why);
        }
        if self.json {
            let list: Vec<_> = regions.iter().map(region_json).collect();
            print(&format!("{}\n", json!({ "regions": list, "stopped": why, "plans": session.plans() })));
            return Ok(());
        }
        print(&region_lines(&regions));
        if let Some(why) = why {
            print(&format!("a run on zeros stops there: {why}\n"));
        }
        let plans = session.plans();
        print(&format!("{plans} plan(s) for a run on zeros; `ovolo run` compiles what its inputs need\n"));
        Ok(())
    }

    fn whole(&self, registry: &Arc<Registry>) -> Outcome {
        if self.caching.off() || self.growth {
            let mut stages = Vec::new();
            let compilation = self
                .settings
                .compile_into(registry, &mut stages)
                .inspect_err(|why| self.failed(why, &stages));
            let compilation = compilation?;
            self.report(&compilation.plan, Some(&compilation), &compilation.absent, None);
            return Ok(());
        }
        let ReadyPlan { plan, cached, absent, compilation, entry } =
            self.caching.plan(registry, &self.settings)?;
        self.report(&plan, compilation.as_ref(), &absent, Some((cached, &entry)));
        Ok(())
    }

    /// Reports the passes that ran before one failed, if that was asked for.
    fn failed(&self, why: &str, stages: &[Stage]) {
        if !self.growth {
            return;
        }
        if self.json {
            let passes: Vec<_> = stages.iter().map(stage_json).collect();
            print(&format!("{}\n", json!({ "error": why, "passes": passes })));
            return;
        }
        print(&stages.iter().map(|stage| self.stage_text(stage)).collect::<String>());
    }

    fn report(
        &self,
        plan: &Plan,
        compilation: Option<&Compilation>,
        missing: &[(String, String)],
        cache: Option<(bool, &Result<String, String>)>,
    ) {
        let stages = compilation.map_or(&[][..], |compilation| &compilation.stages);
        if self.json {
            let mut value = json!({
                "absent": missing, "passes": stages.iter().map(stage_json).collect::<Vec<_>>(),
                "seconds": plan.seconds(), "arena": plan.arena, "lower_bound": plan.lower_bound,
                "lower_bound_any_order": plan.lower_bound_any_order,
                "steps": plan.steps.len(), "constants": plan.constants_of(Device::Host), "cached": cache.is_some_and(|(cached, _)| cached),
                "entry": cache.and_then(|(_, entry)| entry.as_ref().ok()),
            });
            report::add_devices(&mut value, &plan.devices);
            print(&format!("{value}\n"));
            return;
        }
        for line in absent(missing) {
            print(&format!("{line}\n"));
        }
        print(&stages.iter().map(|stage| self.stage_text(stage)).collect::<String>());
        match cache {
            None => {}
            Some((true, entry)) => print(&format!(
                "hit: entry {}: {}, estimate {:.6} ms\n`--no-cache` compiles and shows every pass\n",
                entry.as_deref().unwrap_or_default(),
                memory(
                    &steps(plan.steps.len(), plan.again(), plan.replaced()),
                    &plan.arenas().collect::<Vec<Arena>>(),
                    &constants(plan)
                ),
                amount::positive(plan.seconds() * 1e3)
            )),
            Some((false, Ok(entry))) => print(&format!("miss: kept as entry {entry}\n")),
            Some((false, Err(why))) => print(&format!("miss: not kept: {why}\n")),
        }
    }

    fn stage_text(&self, stage: &Stage) -> String {
        let mut text = format!("{:8.1} ms  {}: ", stage.time.as_secs_f64() * 1e3, stage.name);
        match &stage.report {
            None => {
                let _ = writeln!(text, "{} nodes", stage.graph.len());
            }
            Some(PassReport::Rewrite(saturation)) => {
                let _ = writeln!(
                    text,
                    "{} after {}, {} e-nodes in {} classes",
                    saturation.stop,
                    amount::of(saturation.rounds, "round"),
                    saturation.nodes,
                    saturation.classes
                );
                if self.growth {
                    let turned: usize = saturation.growth.iter().map(|rule| rule.turned).sum();
                    let _ = writeln!(
                        text,
                        "             beside the rules: {turned} matches with the operands of a commutative op in the other \
                         order, {} classes united as operands of equal injective ops",
                        saturation.closed
                    );
                }
                for rule in saturation.growth.iter().filter(|rule| self.growth && rule.matched > 0) {
                    let _ = write!(
                        text,
                        "             {}: tried {}, matched {}, applied {}, refused {}, nodes {}, united {}, classes {:+}, {:.1} ms",
                        rule.rule,
                        rule.tried,
                        rule.matched,
                        rule.applied,
                        rule.refused,
                        rule.nodes,
                        rule.united,
                        rule.classes,
                        rule.time.as_secs_f64() * 1e3
                    );
                    let reason = rule.reason.as_ref().map(|reason| format!("; first no: {reason}"));
                    let _ = writeln!(text, "{}", reason.unwrap_or_default());
                }
            }
            Some(PassReport::Extract { extractor, cost_model, extraction, objective, missing }) => {
                let claim = |sum: f64, bound: f64, proven: bool| {
                    let proven = if proven { "proven optimal" } else { "unproven" };
                    let gap = if sum > 0.0 { 1.0 - bound / sum } else { 0.0 };
                    let (bound, gap) = (amount::positive(bound * 1e3), amount::positive(gap * 100.0));
                    format!("{proven} by `{extractor}` (bound {bound:.6} ms, gap {gap:.2} %)")
                };
                let seconds = amount::positive(extraction.cost * 1e3);
                let _ = write!(text, "{seconds:.6} ms by `{cost_model}`");
                let _ = match objective {
                    None => {
                        let claim = claim(extraction.cost, extraction.bound, extraction.proven);
                        writeln!(text, ", {claim}")
                    }
                    Some(objective) => writeln!(
                        text,
                        " and {:.6} ms for {} bytes, {} of them constants, at {} ms/MiB: {:.6} ms in all, {}",
                        objective.memory() * 1e3,
                        objective.bytes(),
                        objective.constants,
                        objective.worth,
                        objective.sum() * 1e3,
                        claim(objective.sum(), objective.bound, objective.proven())
                    ),
                };
                for (op, why, count) in missing.iter().filter(|_| self.growth) {
                    let _ = writeln!(text, "             no kernel {count} time(s): `{op}`: {why}");
                }
            }
            Some(PassReport::Plan { steps: count, arenas, constants, again, replaced }) => {
                let constants: Vec<_> =
                    constants.iter().map(|kept| (kept.device, kept.bytes, Some(kept.computed))).collect();
                let _ = writeln!(text, "{}", memory(&steps(*count, *again, *replaced), arenas, &constants));
            }
            Some(PassReport::Custom(what)) => {
                let _ = writeln!(text, "{what}");
            }
        }
        text
    }
}

/// The bytes of the constants of each device, and those of them that are computed, where that is known.
type Constants = (Device, usize, Option<usize>);

/// Returns the constants of a plan whose program is not at hand.
fn constants(plan: &Plan) -> Vec<Constants> {
    plan.constants().into_iter().map(|(device, bytes)| (device, bytes, None)).collect()
}

/// Describes the steps of a plan: how many there are, how many compute a value again and in which time, and how many inputs
/// and bytes of inputs they replace in place.
fn steps(count: usize, (again, seconds): (usize, f64), (replaced, bytes): (usize, usize)) -> String {
    let mut text = format!("{count} steps");
    if again > 0 {
        let _ = write!(text, ", {again} of them computed again ({:.3} ms)", seconds * 1e3);
    }
    if replaced > 0 {
        let _ = write!(text, ", {} of {bytes} bytes replaced in place", amount::of(replaced, "input"));
    }
    text
}

/// Describes the bytes of a plan, after its steps; with several devices, one line for each.
fn memory(steps: &str, arenas: &[Arena], constants: &[Constants]) -> String {
    let one = |arena: &Arena| {
        let Arena { device, bytes, lower_bound, lower_bound_any_order, proven } = arena;
        #[allow(clippy::cast_precision_loss)]
        let over = |bound: usize| (*bytes).max(1) as f64 / bound.max(1) as f64;
        let (ratio, any) = (over(*lower_bound), over(*lower_bound_any_order));
        let proven = match *proven {
            _ if bytes <= lower_bound_any_order => "proven least of all orders".to_owned(),
            true => format!("proven least in this order, {any:.3} of the lower bound for all orders"),
            false => format!("not proven minimal, {any:.3} of the lower bound for all orders"),
        };
        let kept = constants.iter().find(|(on, ..)| on == device);
        let (_, kept, computed) = kept.copied().unwrap_or((*device, 0, None));
        let computed = computed.map(|computed| format!(", {computed} of them packed or computed"));
        let computed = computed.filter(|_| kept > 0).unwrap_or_default();
        format!(
            "{bytes} bytes, {ratio:.3} of the lower bound for its order of steps, {proven}; constants {kept} \
             bytes{computed}"
        )
    };
    match arenas {
        [host] => format!("{steps}, arena {}", one(host)),
        several => several.iter().fold(steps.to_owned(), |text, arena| {
            format!("{text}\n             arena of {} {}", arena.device, one(arena))
        }),
    }
}

fn stage_json(stage: &Stage) -> serde_json::Value {
    let mut value = json!({ "pass": stage.name, "seconds": stage.time.as_secs_f64() });
    match &stage.report {
        None => value["nodes"] = stage.graph.len().into(),
        Some(PassReport::Rewrite(saturation)) => {
            value["stop"] = saturation.stop.to_string().into();
            value["rounds"] = saturation.rounds.into();
            value["e_nodes"] = saturation.nodes.into();
            value["e_classes"] = saturation.classes.into();
            value["closed"] = saturation.closed.into();
            value["rules"] = saturation.growth.iter().map(growth_json).collect();
            let moved = |rule: &&Growth| rule.tried > 0;
            value["by_round"] = saturation
                .by_round
                .iter()
                .map(|round| round.iter().filter(moved).map(growth_json).collect::<Vec<_>>())
                .collect();
        }
        Some(PassReport::Extract { extractor, cost_model, extraction, objective, .. }) => {
            value["extractor"] = extractor.as_str().into();
            value["cost_model"] = cost_model.as_str().into();
            value["cost"] = extraction.cost.into();
            value["bound"] = extraction.bound.into();
            value["proven"] = extraction.proven.into();
            if let Some(objective) = objective {
                value["objective"] = json!({
                    "seconds": objective.seconds, "arena": objective.arena, "constants": objective.constants,
                    "ms_per_mib": objective.worth,
                    "memory": objective.memory(), "sum": objective.sum(), "bound": objective.bound,
                    "proven": objective.proven(),
                });
            }
        }
        Some(PassReport::Plan { steps, arenas, constants, again, replaced }) => {
            value["steps"] = (*steps).into();
            value["replaced"] = json!({ "inputs": replaced.0, "bytes": replaced.1 });
            value["again"] = json!({ "steps": again.0, "seconds": again.1 });
            let kept = |kept: &KeptConstants| json!({ "device": kept.device.to_string(), "bytes": kept.bytes, "computed": kept.computed });
            value["constants"] = constants.iter().map(kept).collect();
            if let [host, others @ ..] = &arenas[..] {
                value["arena"] = host.bytes.into();
                value["lower_bound"] = host.lower_bound.into();
                value["lower_bound_any_order"] = host.lower_bound_any_order.into();
                value["proven"] = host.proven.into();
                report::add_devices(&mut value, others);
            }
        }
        Some(PassReport::Custom(what)) => value["report"] = what.as_str().into(),
    }
    value
}

fn growth_json(rule: &Growth) -> serde_json::Value {
    json!({
        "rule": rule.rule, "tried": rule.tried, "matched": rule.matched, "turned": rule.turned, "applied": rule.applied,
        "refused": rule.refused, "nodes": rule.nodes, "united": rule.united, "classes": rule.classes,
        "seconds": rule.time.as_secs_f64(), "reason": rule.reason,
    })
}

/// The forms in which a graph can be printed.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
}

#[derive(Args)]
pub(super) struct Dump {
    #[command(flatten)]
    settings: Settings,
    /// The pass after which to print, or `import` for the imported graph. After a rewriting pass the e-graph
    /// is printed (as text only), after `plan` the plan (as text or JSON; as a picture, its graph).
    #[arg(long, value_name = "PASS", default_value = "import")]
    after: String,
    /// The form.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the e-graph that extraction chooses from, with its prices, in the JSON form of the crate
    /// egraph-serialize. `ovolo extract` and other extractors read it.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["after", "format"])]
    egraph: Option<PathBuf>,
}

impl Dump {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        if let Some(file) = &self.egraph {
            writable("--egraph ", file, &self.settings.inputs())?;
            let options = self.settings.options(registry, &self.settings.pipeline)?;
            let saturated =
                options.saturate(&self.settings.graph(registry)?).map_err(|error| error.to_string())?;
            let named = options.price(&saturated).map_err(|error| error.to_string())?.named();
            ovolo::file::write(file, &[named.to_json().as_bytes()])
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let nodes: usize = named.nodes.iter().map(Vec::len).sum();
            print(&format!("{}: {nodes} priced nodes in {} classes\n", file.display(), named.classes.len()));
            return Ok(());
        }
        let mut options = self.settings.options(registry, &self.settings.pipeline)?;
        options.keep_egraph_after = Some(self.after.clone());
        let graph = self.settings.graph(registry)?;
        let seeds = self.settings.seeds(registry, &graph)?;
        let compilation = compile::compile(graph, &options).map_err(|error| error.to_string())?;
        let stage = stage(&compilation, &self.after)?;
        let printed = match (&stage.egraph, &stage.report, self.format) {
            (.., Format::Text) => printed(stage, &compilation, &seeds),
            (Some(_), ..) => return Err("an e-graph can only be printed as text: leave out --format".into()),
            (None, Some(PassReport::Plan { .. }), Format::Json) => {
                format!("{}\n", report::plan(&compilation.plan))
            }
            (None, _, Format::Json) => format!("{}\n", json::to_json(&stage.graph)),
            (None, _, Format::Dot) => dot::to_dot(&stage.graph),
        };
        print(&printed);
        Ok(())
    }
}

/// Returns the text form of a stage.
fn printed(stage: &Stage, compilation: &Compilation, seeds: &Seeds) -> String {
    match (&stage.egraph, &stage.report) {
        (Some(egraph), _) => egraph.clone(),
        (None, Some(PassReport::Plan { .. })) => compilation.plan.to_string(),
        (None, _) => text::print_seeded(&stage.graph, seeds),
    }
}

#[derive(Args)]
pub(super) struct Diff {
    #[command(flatten)]
    settings: Settings,
    /// The stage on the left: a pass, or `import`.
    #[arg(long, default_value = "import")]
    from: String,
    /// The stage on the right.
    #[arg(long, default_value = "extract")]
    to: String,
    /// Compare with the stage `--to` of this pipeline instead of another stage of the same one.
    #[arg(long, value_name = "PIPELINE")]
    against: Option<String>,
    /// Compare the stage `--to` with this file, which has what `ovolo dump` printed of it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "against"])]
    saved: Option<PathBuf>,
}

impl Diff {
    /// Prints the differences, and returns whether there are none.
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Result<bool, String> {
        let text = match &self.saved {
            Some(file) => self.since(registry, file)?,
            None => self.differences(registry)?,
        };
        print(if text.is_empty() { "no difference\n" } else { &text });
        Ok(text.is_empty())
    }

    /// Compares a stage with what a file has of it.
    fn since(&self, registry: &Arc<Registry>, file: &Path) -> Result<String, String> {
        let saved = read(file)?;
        let graph = self.settings.graph(registry)?;
        let seeds = self.settings.seeds(registry, &graph)?;
        let compilation = self.compiled(registry, graph, &self.settings.pipeline, &self.to)?;
        let now = printed(stage(&compilation, &self.to)?, &compilation, &seeds);
        let diff = TextDiff::from_lines(&saved, &now);
        Ok(diff.unified_diff().context_radius(2).header(&file.display().to_string(), "now").to_string())
    }

    fn compiled(
        &self,
        registry: &Arc<Registry>,
        graph: Graph,
        pipeline: &str,
        after: &str,
    ) -> Result<Compilation, String> {
        let mut options = self.settings.options(registry, pipeline)?;
        options.keep_egraph_after = Some(after.to_owned());
        compile::compile(graph, &options).map_err(|error| error.to_string())
    }

    fn differences(&self, registry: &Arc<Registry>) -> Result<String, String> {
        let own = |name: &str| self.side(registry, &self.settings.pipeline, name);
        let (left, right) = match &self.against {
            None => (own(&self.from)?, own(&self.to)?),
            Some(other) => {
                if self.from != "import" {
                    return Err(
                        "--from names a stage of the same pipeline, and --against another pipeline: give only one of them"
                            .into(),
                    );
                }
                (own(&self.to)?, self.side(registry, other, &self.to)?)
            }
        };
        match (left, right) {
            (Side::Graph(left), Side::Graph(right)) => Ok(diff(&left, &right).to_string()),
            (Side::Classes(left), Side::Classes(right)) => Ok(lines(&left, &right)),
            _ => Err("one stage is a graph and the other an e-graph, which holds many graphs: compare a stage before \
                      `extract` with another before it, or `import` with one from `extract` on"
                .into()),
        }
    }

    /// Returns the graph or e-graph after a pass.
    fn side(&self, registry: &Arc<Registry>, pipeline: &str, name: &str) -> Result<Side, String> {
        let compilation = self.compiled(registry, self.settings.graph(registry)?, pipeline, name)?;
        let stage = stage(&compilation, name)?;
        let both_grow =
            [&self.from, &self.to].iter().all(|name| *name == "import" || grows(&compilation, name));
        Ok(match &stage.egraph {
            Some(text) => Side::Classes(text.clone()),
            // Show the import as an e-graph, to compare it with another one.
            None if name == "import" && both_grow => {
                let imported = Imported::new(stage.graph.clone()).map_err(|error| error.to_string())?;
                Side::Classes(imported.saturate().egraph().to_text())
            }
            None => Side::Graph(stage.graph.clone()),
        })
    }
}

/// One side of a comparison.
enum Side {
    Graph(Graph),
    /// The text of an e-graph.
    Classes(String),
}

fn grows(compilation: &Compilation, name: &str) -> bool {
    let rewrites = |stage: &Stage| stage.name == name && matches!(stage.report, Some(PassReport::Rewrite(_)));
    compilation.stages.iter().any(rewrites)
}

/// Returns the lines that only one of the two texts has, in order.
fn lines(left: &str, right: &str) -> String {
    let alone = |text: &str, other: &str, mark: char| -> String {
        let known: BTreeSet<&str> = other.lines().collect();
        text.lines().filter(|line| !known.contains(line)).map(|line| format!("{mark} {line}\n")).collect()
    };
    alone(left, right, '-') + &alone(right, left, '+')
}

pub(super) fn stage<'a>(compilation: &'a Compilation, name: &str) -> Result<&'a Stage, String> {
    compilation.stages.iter().find(|stage| stage.name == name).ok_or_else(|| {
        let names: Vec<&str> = compilation.stages.iter().map(|stage| stage.name.as_str()).collect();
        format!("there is no stage `{name}` in this pipeline; its stages are {}", names.join(", "))
    })
}
