//! `ovolo experiment`.

use super::files::read;
use super::progress::Progress;
use super::{Outcome, print};
use clap::{Args, Subcommand};
use ovolo::error::Source;
use ovolo::registry::Registry;
use ovolo_lab::experiment::{self, Outcome as Done, Spec};
use ovolo_tune::Shard;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Experiment {
    #[command(subcommand)]
    merge: Option<Other>,
    #[command(flatten)]
    run: Option<Run>,
}

#[derive(Subcommand)]
enum Other {
    /// Merge the results of shards; or, with --compare, show those of several machines side by side.
    Merge(Merge),
}

#[derive(Args)]
struct Run {
    /// The experiment: models, pipelines, cost models, extractors, seeds.
    #[arg(value_name = "SPEC.ron")]
    spec: PathBuf,
    /// The folder of the results; a stopped run there continues. Default: the experiment's name.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run the tasks of one of several shards, such as 2/4.
    #[arg(long, value_name = "N/COUNT", default_value = "1/1")]
    shard: Shard,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Merge {
    /// The experiment.
    #[arg(value_name = "SPEC.ron")]
    spec: PathBuf,
    /// The folders of the shards.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The folder of the merged results.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Accept results of different versions, libraries and hardware, and keep them apart.
    #[arg(long)]
    compare: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Experiment {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        match (&self.merge, &self.run) {
            (Some(Other::Merge(merge)), _) => merge.run(registry),
            (None, Some(run)) => run.run(registry),
            (None, None) => Err("name a spec: `ovolo experiment SPEC.ron`".into()),
        }
    }
}

fn spec(path: &Path, registry: &Registry) -> Result<Spec, String> {
    let source = Source::new(path.display().to_string(), read(path)?);
    let folder = path.parent().unwrap_or(Path::new(""));
    Spec::read(&source, folder, registry).map_err(|mistakes| mistakes.to_string())
}

impl Run {
    fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let spec = spec(&self.spec, registry)?;
        let out = self.out.clone().unwrap_or_else(|| {
            let part = self.shard.to_string().replace('/', "-of-");
            PathBuf::from(if self.shard.whole() {
                spec.name.clone()
            } else {
                format!("{}-{part}", spec.name)
            })
        });
        let mut progress: Option<Progress> = None;
        let done = experiment::run(&spec, registry, &out, self.shard, &mut |now| {
            progress.get_or_insert_with(|| Progress::new(now.all)).at(now.done, &now.task);
            true
        });
        drop(progress);
        told(&out, &done.map_err(|error| error.to_string())?, self.json)
    }
}

impl Merge {
    fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let spec = spec(&self.spec, registry)?;
        let done = experiment::merge(&spec, &self.folders, &self.out, self.compare);
        told(&self.out, &done.map_err(|error| error.to_string())?, self.json)
    }
}

/// Reports the results in a folder; a task without a result fails the command.
fn told(out: &Path, done: &Done, json: bool) -> Outcome {
    for note in &done.notes {
        eprintln!("note: {note}");
    }
    if json {
        let failed: serde_json::Map<String, serde_json::Value> =
            done.failed.iter().map(|(task, why)| (task.clone(), why.as_str().into())).collect();
        let value = serde_json::json!({
            "folder": out.display().to_string(), "tasks": done.tasks, "known": done.known,
            "again": done.again, "failed": failed, "files": done.files,
        });
        print(&format!("{value}\n"));
    } else {
        print(&format!(
            "{}: {} tasks, {} of them done before{}; results.jsonl{}\n",
            out.display(),
            done.tasks,
            done.known,
            if done.again > 0 { format!(", {} failed ones tried again", done.again) } else { String::new() },
            done.files.iter().map(|file| format!(", {file}")).collect::<String>()
        ));
    }
    match done.failed.first() {
        None => Ok(()),
        Some((task, why)) => Err(format!(
            "{} task(s) failed, completely or in part; the first is `{task}`: {why}\n  help: mend it, in the spec, a program or \
                 the machine, and run `ovolo experiment` again: failed tasks are run again; failed.csv lists them",
            done.failed.len()
        )),
    }
}
