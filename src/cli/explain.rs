//! `ovolo explain`.

use super::load::absent;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::audit::{curve, runner_up};
use ovolo::plan::Plan;
use std::fmt::Write;

#[derive(Args)]
pub(super) struct Explain {
    #[command(flatten)]
    settings: Settings,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// What would be chosen in place of each step, and by how much its cost must change: the
    /// closest calls first.
    #[arg(long)]
    runner_up: bool,
    /// What less memory costs: the plans from the fastest to the smallest.
    #[arg(long, conflicts_with = "runner_up")]
    memory_curve: bool,
}

impl Explain {
    pub(super) fn run(&self) -> Outcome {
        if self.runner_up {
            return self.runner_ups();
        }
        if self.memory_curve {
            return self.curve();
        }
        let compilation = self.settings.compile()?;
        for line in absent(&compilation.absent) {
            eprintln!("{line}");
        }
        let plan = compilation.plan;
        print(&if self.json { format!("{}\n", json(&plan)) } else { text(&plan) });
        Ok(())
    }
}

impl Explain {
    #[allow(clippy::cast_precision_loss)]
    fn curve(&self) -> Outcome {
        let options = self.settings.options(&self.settings.pipeline)?;
        let points =
            curve::memory_curve(&self.settings.graph()?, &options).map_err(|error| error.to_string())?;
        let mut report = String::new();
        let first = points.first().map_or((0.0, 0), |point| (point.seconds, point.arena));
        for point in &points {
            if self.json {
                let value = serde_json::json!({
                    "seconds": point.seconds, "arena": point.arena, "proven": point.proven,
                });
                let _ = writeln!(report, "{value}");
                continue;
            }
            let _ = writeln!(
                report,
                "{:12} bytes {:6.1} %  {:12.6} ms {:+7.1} %{}",
                point.arena,
                point.arena as f64 / first.1.max(1) as f64 * 100.0,
                point.seconds * 1e3,
                (point.seconds / first.0.max(f64::MIN_POSITIVE) - 1.0) * 100.0,
                if point.proven { "" } else { "  not proven" }
            );
        }
        print(&report);
        Ok(())
    }

    fn runner_ups(&self) -> Outcome {
        let options = self.settings.options(&self.settings.pipeline)?;
        let found =
            runner_up::runner_ups(&self.settings.graph()?, &options).map_err(|error| error.to_string())?;
        let mut report = String::new();
        for one in &found {
            if self.json {
                let value = serde_json::json!({
                    "value": one.value, "chosen": one.chosen, "seconds": one.seconds,
                    "instead": one.instead, "margin": one.margin, "proven": one.proven,
                });
                let _ = writeln!(report, "{value}");
                continue;
            }
            let instead = one.instead.as_deref().unwrap_or("a program without this value");
            let about = if one.proven { "" } else { " (not proven)" };
            let _ = writeln!(report, "{}: {} at {:.1} us", one.value, one.chosen, one.seconds * 1e6);
            let _ = writeln!(
                report,
                "    runner-up {instead}: +{:.1} us in all{about}; the choice flips if the chosen costs {:.1} us",
                one.margin.max(0.0) * 1e6,
                (one.seconds + one.margin.max(0.0)) * 1e6
            );
        }
        print(&report);
        Ok(())
    }
}

fn backend(op: &str) -> &str {
    op.split_once('.').map_or(op, |(backend, _)| backend)
}

fn json(plan: &Plan) -> serde_json::Value {
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|step| {
            serde_json::json!({
                "name": &*step.name,
                "op": step.op,
                "attributes": step.attrs.to_string(),
                "backend": backend(step.op),
                "implementation": step.implementation,
                "layout": step.output_type.layout.to_string(),
                "type": step.output_type.to_string(),
                "operands": step.inputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "output": step.output.to_string(),
                "in_place": step.in_place,
                "scratch": step.scratch,
                "seconds": step.seconds,
                "rules": step.rules,
            })
        })
        .collect();
    serde_json::json!({
        "steps": steps, "seconds": plan.seconds(), "arena": plan.arena,
        "lower_bound": plan.lower_bound, "threads": plan.threads,
    })
}

fn text(plan: &Plan) -> String {
    let mut text = String::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "{index:4}  {}: {}", step.name, step.output_type);
        let _ = writeln!(
            text,
            "      {}  backend {}, implementation {}, layout {}, {:.1} us",
            step.op,
            backend(step.op),
            step.implementation,
            step.output_type.layout,
            step.seconds * 1e6
        );
        let operands: Vec<String> = step.inputs.iter().map(ToString::to_string).collect();
        let in_place =
            step.in_place.map(|operand| format!(", in place of operand {operand}")).unwrap_or_default();
        let scratch = if step.scratch > 0 { format!(", scratch {}", step.scratch) } else { String::new() };
        let _ = writeln!(text, "      {} -> {}{in_place}{scratch}", operands.join(", "), step.output);
        if !step.rules.is_empty() {
            let _ = writeln!(text, "      by {}", step.rules.join(" <- "));
        }
    }
    let _ = writeln!(
        text,
        "{} steps, estimate {:.3} ms, arena {} bytes (lower bound {}), {} thread(s)",
        plan.steps.len(),
        plan.seconds() * 1e3,
        plan.arena,
        plan.lower_bound,
        plan.threads
    );
    text
}
