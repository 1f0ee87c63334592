//! `ovolo ablate`.

mod example;
mod table;

use crate::page::title;
use crate::progress::Progress;
use crate::{Outcome, Settings, print};
use clap::Args;
use ovolo::compile::Options;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::registry::Registry;
use ovolo_proof::ablate::{self, By, Case, Measured};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Ablate {
    /// The models.
    #[arg(required_unless_present = "examples")]
    models: Vec<PathBuf>,
    /// What is left out, one at a time: rule, file (all rules of a file) or kernel (all kernels of a lowered op); or
    /// what is compared: extractor, order or planner.
    #[arg(long, default_value = "kernel")]
    by: By,
    /// Add the graphs of the rules' examples on which a rule fires. They show what rare kernels are worth.
    #[arg(long)]
    examples: bool,
    /// A pipeline: a file, or the name of a shipped one. May be given more than once.
    #[arg(long = "pipeline", default_values_t = ["native".to_owned()])]
    pipelines: Vec<String>,
    /// Add the rule files of a directory. May be given more than once.
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Add rules to a `Rewrite` of the pipeline, such as `new.ron:fuse`. May be given more than once.
    #[arg(long, value_name = "RULES:PHASE")]
    add: Vec<String>,
    /// The cost model. Default: the nominal one, which is the same on any machine.
    #[arg(long, default_value = "flops")]
    cost: String,
    /// The threads of the plans.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Bind a symbolic dimension of the models.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
    /// Print JSON, a line for each row.
    #[arg(long)]
    json: bool,
}

impl Ablate {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let mut options = Vec::new();
        for pipeline in &self.pipelines {
            let settings = self.settings(Path::new(""), pipeline);
            options.push((pipeline.as_str(), settings.options(registry, pipeline)?));
        }
        let mut cases = Vec::new();
        for model in &self.models {
            let graph = self.settings(model, &self.pipelines[0]).graph(registry)?;
            for (pipeline, options) in &mut options {
                let name = format!("{} {pipeline}", title(model));
                let found = self.measure(&name, &graph, options);
                let measured = found.map_err(|error| format!("{name}: {error}"))?;
                cases.push(Case { name, measured });
            }
        }
        let mut left_out = 0;
        let examples = if self.examples { example::graphs(registry)? } else { Vec::new() };
        let mut progress = Progress::new(examples.len() * options.len());
        for (example, graph) in &examples {
            for (pipeline, options) in &mut options {
                let name = format!("{example} {pipeline}");
                progress.step(&name);
                match ablate::measure(graph, options, self.by, &mut |_, _, _| {}) {
                    Ok(measured) => cases.push(Case { name, measured }),
                    Err(_) => left_out += 1,
                }
            }
        }
        drop(progress);
        let rows = ablate::rows(&cases);
        print(&if self.json {
            table::json(self.by, &rows)
        } else {
            let head = table::Head {
                by: self.by,
                cases: cases.len(),
                left_out,
                pipelines: &self.pipelines,
                cost: &self.cost,
                threads: self.threads,
            };
            table::text(&head, &rows)
        });
        Ok(())
    }

    fn measure(&self, name: &str, graph: &Graph, options: &mut Options) -> Result<Vec<Measured>, Error> {
        let mut progress = None;
        ablate::measure(graph, options, self.by, &mut |at, all, part| {
            progress.get_or_insert_with(|| Progress::from(at, all)).step(&format!("{name} {part}"));
        })
    }

    fn settings(&self, model: &Path, pipeline: &str) -> Settings {
        Settings {
            dims: self.dims.clone(),
            pipeline: pipeline.to_owned(),
            rules: self.rules.clone(),
            add: self.add.clone(),
            cost: Some(self.cost.clone()),
            threads: Some(self.threads),
            seeded_weights: self.seeded_weights,
            ..Settings::new(model)
        }
    }
}
