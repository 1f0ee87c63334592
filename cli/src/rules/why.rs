//! `ovolo rules why-not`.

use crate::{Outcome, Settings, print};
use clap::Args;
use ovolo::egraph::{EGraph, Stop, WhyNot};
use ovolo::registry::Registry;
use ovolo::verify;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct WhyNotCommand {
    /// The rule.
    rule: String,
    #[command(flatten)]
    settings: Settings,
    /// Ask about this value only: whether it stands at the root of a left side, of any of several.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// As JSON, a line for each phase that has the rule.
    #[arg(long)]
    json: bool,
}

impl WhyNotCommand {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let options = self.settings.options(registry, &self.settings.pipeline)?;
        let rule =
            options.rules.rules().iter().find(|rule| rule.name == self.rule).cloned().ok_or_else(|| {
                let known = options.rules.rules().iter().map(|rule| rule.name.as_str());
                let close = ovolo::error::nearest(&self.rule, known);
                let hint = close.map(|close| format!(", did you mean `{close}`?")).unwrap_or_default();
                format!("no rule is called `{}`{hint}; `ovolo rules list` lists them", self.rule)
            })?;
        let graph =
            verify::verify(self.settings.graph(registry)?).map_err(|error| error.to_string())?.into_inner();
        let mut egraph = EGraph::new(&graph);
        let mut report = String::new();
        let start = std::time::Instant::now();
        for phase in options.pipeline.rewrites() {
            let rules =
                options.pipeline.select(phase, &options.rules).map_err(|errors| errors.to_string())?;
            let saturation = egraph
                .saturate(&rules, phase.limits(graph.len()), &|| start.elapsed())
                .map_err(|error| error.to_string())?;
            let Some(at) = rules.iter().position(|other| other.name == rule.name) else { continue };
            let growth = &saturation.growth[at];
            let why = egraph.why_not(&rule, self.node.as_deref()).map_err(|error| error.to_string())?;
            let limited = saturation.stop != Stop::Saturated;
            if self.json {
                let _ = writeln!(
                    report,
                    "{}",
                    serde_json::json!({
                        "phase": phase.name, "stop": saturation.stop.to_string(), "limited": limited,
                        "matched": growth.matched, "applied": growth.applied, "refused": growth.refused,
                        "why": why.to_string(),
                    })
                );
                continue;
            }
            let _ = writeln!(
                report,
                "phase `{}` ({}): `{}` matched {} times, changed the e-graph {} times, was refused {} times",
                phase.name, saturation.stop, rule.name, growth.matched, growth.applied, growth.refused
            );
            let _ = writeln!(report, "  {why}");
            if limited && matches!(why, WhyNot::Miss { .. } | WhyNot::Misses(_) | WhyNot::Nowhere(_)) {
                let _ = writeln!(
                    report,
                    "  The phase did not end by itself: what the rule needs may not have been made yet."
                );
            }
        }
        if report.is_empty() {
            return Err(format!(
                "no phase of pipeline `{}` has rule `{}`: name it, or its file `{}`, in the `rules` of a `Rewrite`",
                options.pipeline.name,
                rule.name,
                rule.stem()
            ));
        }
        print(&report);
        Ok(())
    }
}
