//! `ovolo extract`.

use super::files::read;
use super::{Outcome, print};
use clap::Args;
use ovolo::extract::{self, Named};
use ovolo::registry::Registry;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args)]
pub(super) struct Extract {
    /// An e-graph in the JSON form of the crate egraph-serialize; `ovolo dump MODEL --egraph FILE` writes
    /// that of a model.
    #[arg(value_name = "EGRAPH.json")]
    file: PathBuf,
    /// The extractor.
    #[arg(long, default_value = "exact")]
    extractor: String,
    /// Print one JSON object: cost, bound, seconds, and the chosen node of each e-class.
    #[arg(long)]
    json: bool,
}

impl Extract {
    pub(super) fn run(&self, registry: &Registry) -> Outcome {
        let extractors = &registry.catalog().extractors;
        let extractor = extractors.get(&self.extractor).map(|kind| (kind.plain)()).ok_or_else(|| {
            format!("--extractor {}: {}", self.extractor, extract::unknown(&self.extractor, extractors))
        })?;
        if let Some(lacking) = extractor.lacks() {
            return Err(format!(
                "--extractor {}: it needs {lacking}, with `compile`, `explain` or `bench`",
                self.extractor
            ));
        }
        let file = self.file.display();
        let named = Named::read(&read(&self.file)?).map_err(|error| format!("{file}: {error}"))?;
        let start = Instant::now();
        let found = extractor.extract(&named.problem);
        let seconds = start.elapsed().as_secs_f64();
        let found = found.map_err(|error| format!("{file}: {}", named.words(&error)))?;
        let choices = named.choices(&found);
        if self.json {
            let choices: serde_json::Map<String, serde_json::Value> =
                choices.into_iter().map(|(class, node)| (class.to_owned(), node.into())).collect();
            let value = serde_json::json!({
                "cost": found.cost, "bound": found.bound, "proven": found.proven, "seconds": seconds,
                "extractor": extractor.name(), "method": found.report.method, "limit": found.report.limit,
                "choices": choices,
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let proven = if found.proven { "proven optimal" } else { "not proven optimal" };
        let report = &found.report;
        print(&format!(
            "cost {}, bound {}, gap {:.3} %, {proven}, {seconds:.3} s by `{}` ({})\n",
            found.cost,
            found.bound,
            found.gap() * 100.0,
            extractor.name(),
            report.method
        ));
        print(&format!(
            "{} runnable, reachable nodes in {} classes; {} in {} after reduction; {} classes chosen\n",
            report.size.nodes,
            report.size.classes,
            report.reduced.nodes,
            report.reduced.classes,
            choices.len()
        ));
        if let Some(limit) = &report.limit {
            print(&format!("the search ended at its limit: {limit}\n"));
        }
        Ok(())
    }
}
