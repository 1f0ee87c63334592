//! `ovolo rules why-not`.

use crate::adding::too_bold;
use crate::{Outcome, Settings, amount, print};
use clap::Args;
use ovolo::egraph::{Stop, WhyNot};
use ovolo::error::Error;
use ovolo::pass::{self, AbsentRules};
use ovolo::registry::Registry;
use ovolo::rule::Rule;
use ovolo::stage::{Phase, Saturated};
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct WhyNotCommand {
    /// The rule.
    rule: String,
    #[command(flatten)]
    settings: Settings,
    /// Ask about this value only: whether it matches the root of one of the left sides.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Print JSON, a line for each phase that has the rule.
    #[arg(long)]
    json: bool,
}

impl WhyNotCommand {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        print(&why_not(registry, &self.settings, &self.rule, self.node.as_deref(), self.json)?);
        Ok(())
    }
}

/// Returns why a rule does not fire on a model, or on one value of it: a text, or JSON, for each phase that has the rule.
pub(crate) fn why_not(
    registry: &Arc<Registry>,
    settings: &Settings,
    rule: &str,
    node: Option<&str>,
    json: bool,
) -> Result<String, String> {
    let options = settings.options(registry, &settings.pipeline)?;
    let rule = options
        .rules
        .rules()
        .iter()
        .find(|known| known.name == rule)
        .cloned()
        .ok_or_else(|| unknown(rule, options.rules.rules(), settings))?;
    let graph = settings.graph(registry)?;
    let mut gone = pass::absent(&options.pipeline, registry.backends());
    gone.retain(|(name, _)| {
        rule.leads_to(name) && registry.backends().get(name).is_none_or(|backend| !backend.plans_elsewhere())
    });
    let mut report = String::new();
    // The question is about the rule, which may belong to a backend that is absent on this machine.
    let asked = options.saturate_by_phases(&graph, AbsentRules::TakePart, &mut |saturated| {
        report.push_str(&phase(saturated, &rule, node, &gone, json)?);
        Ok(())
    });
    asked.map_err(|error| error.to_string())?;
    if report.is_empty()
        && !rule.fits(&options.pipeline.assume)
        && options.pipeline.rewrites().any(|phase| phase.names(&rule))
    {
        return Err(format!(
            "pipeline `{}` leaves out rule `{}`, {}",
            options.pipeline.name,
            rule.name,
            too_bold(&rule)
        ));
    }
    if report.is_empty() {
        return Err(format!(
            "no phase of pipeline `{}` has rule `{}`: add it, or its file `{}`, to the `rules` of a `Rewrite`",
            options.pipeline.name,
            rule.name,
            rule.stem()
        ));
    }
    Ok(report)
}

/// Returns the message that no rule has a name: it may be that of rows, or of a rule in a file that was not named.
fn unknown(name: &str, rules: &[Arc<Rule>], settings: &Settings) -> String {
    let rows: Vec<String> =
        rules.iter().filter(|rule| rule.written == name).map(|rule| format!("`{}`", rule.name)).collect();
    if let [first, ..] = &rows[..] {
        let some = rows[..rows.len().min(SHOWN)].join(", ");
        let more = if rows.len() > SHOWN { ", …" } else { "" };
        return format!(
            "`{name}` stands for {}: {some}{more}; name one of them, such as {first}",
            amount::of(rows.len(), "rule")
        );
    }
    if rules.iter().any(|rule| settings.model.as_os_str() == rule.name.as_str()) {
        return format!(
            "`{name}` stands where the rule belongs, and rule `{}` where the model belongs; exchange them",
            settings.model.display()
        );
    }
    let close = ovolo::error::nearest(name, rules.iter().map(|rule| rule.name.as_str()));
    let hint = close.map(|close| format!(", did you mean `{close}`?")).unwrap_or_default();
    let own = match settings.rules.is_empty() && settings.add.is_empty() {
        true => ", and rules of your own are read with `--rules DIR` or `--add FILE.ron:PHASE`",
        false => "",
    };
    format!("no rule is called `{name}`{hint}; `ovolo rules list` lists those that ship{own}")
}

/// The most rows of a rule that a message names.
const SHOWN: usize = 6;

/// Reports on the rule after the last phase of rewriting, with the absent backends that have its kernels. Returns an empty
/// text if that phase does not have the rule.
fn phase(
    saturated: &mut Saturated,
    rule: &Arc<Rule>,
    node: Option<&str>,
    gone: &[(String, String)],
    json: bool,
) -> Result<String, Error> {
    let Some(Phase { name, saturation }) = saturated.growth().last().cloned() else {
        return Ok(String::new());
    };
    let Some(growth) = saturation.growth.iter().find(|growth| growth.rule == rule.name) else {
        return Ok(String::new());
    };
    let why = saturated.why_not(rule, node)?;
    let limited = saturation.stop != Stop::Saturated;
    if json {
        let value = serde_json::json!({
            "phase": name, "stop": saturation.stop.to_string(), "limited": limited,
            "matched": growth.matched, "applied": growth.applied, "refused": growth.refused,
            "why": why.to_string(),
            "absent": gone.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        });
        return Ok(format!("{value}\n"));
    }
    let times = |count: usize| amount::of(count, "time");
    let equal = growth.matched.saturating_sub(growth.applied + growth.refused);
    let equal = match equal {
        0 => String::new(),
        count => format!(", found both sides equal already {}", times(count)),
    };
    let mut report = format!(
        "phase `{name}` ({}): `{}` matched {}, changed the e-graph {}, was refused {}{equal}\n  {why}\n",
        saturation.stop,
        rule.name,
        times(growth.matched),
        times(growth.applied),
        times(growth.refused)
    );
    if limited && matches!(why, WhyNot::Miss { .. } | WhyNot::Misses(_) | WhyNot::Nowhere(_)) {
        report += "  The phase was stopped by a limit, so the nodes that the rule needs may not exist yet.\n";
    }
    for (name, why) in gone {
        let _ =
            writeln!(report, "  A compilation on this machine leaves the rule out: backend {name}: {why}");
    }
    Ok(report)
}
