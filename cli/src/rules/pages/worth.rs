//! What rules are worth on models, as `ovolo rules ablate --json` has measured it.

use crate::files::read;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The share of a plan's cost below which a rule counts as worth nothing to it.
const LEAST: f64 = 0.0005;

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    model: String,
    rule: String,
    /// The cost of the plan with all rules.
    with: f64,
    /// The cost of the plan without the rule; `None` if there is no plan without it.
    without: Option<f64>,
}

/// What rules are worth on some models.
pub(super) struct Worth {
    lines: Vec<Line>,
}

impl Worth {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let line = |(at, line): (usize, &str)| {
            let line: Result<Line, _> = serde_json::from_str(line);
            line.map_err(|error| format!("{}:{}: {error}", path.display(), at + 1))
        };
        let lines = read(path)?.lines().enumerate().map(line).collect::<Result<_, _>>()?;
        Ok(Self { lines })
    }

    /// Returns whether the rule led to the plan of a model, so that the plan without it was priced.
    pub(super) fn measured(&self, rule: &str) -> bool {
        self.lines.iter().any(|line| line.rule == rule)
    }

    /// Returns the number of models.
    pub(super) fn models(&self) -> usize {
        self.lines.iter().map(|line| &line.model).collect::<BTreeSet<_>>().len()
    }

    /// Returns the models whose plans cost more without a rule, each with the cost of the plan without it divided by that
    /// of the plan with it; `None` in place of that if there is no plan without it.
    pub(super) fn of(&self, rule: &str) -> Vec<(&str, Option<f64>)> {
        let counts = |line: &&Line| line.without.is_none_or(|without| without > line.with * (1.0 + LEAST));
        let found = self.lines.iter().filter(|line| line.rule == rule).filter(counts);
        found.map(|line| (name(&line.model), line.without.map(|without| without / line.with))).collect()
    }
}

/// Returns the name of a model: that of its file, or of its folder if the file is called `model`.
fn name(path: &str) -> &str {
    let path = Path::new(path);
    let stem = path.file_stem().filter(|stem| *stem != "model");
    stem.or_else(|| path.parent()?.file_name()).and_then(|name| name.to_str()).unwrap_or("model")
}
