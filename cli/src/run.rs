//! `ovolo run`.

use super::amount;
use super::caching::{Caching, ReadySession};
use super::dynamic::{Prepared, dynamic, prepare};
use super::load::{self, check_inputs, inputs};
use super::note::say;
use super::value::{self, Format, write_outputs};
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::dynamic::{Found, RegionReport};
use ovolo::graph::Graph;
use ovolo::onnx::{Interface, Item};
use ovolo::registry::Registry;
use ovolo::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    caching: Caching,
    /// An input of the model, as a NumPy array, or as a value in ONNX's own format (.pb). Give one for each.
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// Round the size of a dimension up to one of these sizes, so that few plans serve all sizes. Inputs are filled with
    /// copies of their last slice and outputs are cut back, where it can be proved that they do not depend on the copies;
    /// other models are refused. May be given once for each dimension.
    #[arg(long = "bucket", value_name = "NAME=N,N,…", value_parser = amount::sizes)]
    buckets: Vec<(String, Vec<usize>)>,
    /// Write each output to DIR/NAME.npy or DIR/NAME.pb (a `/` in a name becomes `_`).
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The format of the files in --output-dir: NumPy's arrays, or ONNX's own values.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Compare the class with the highest score in each row of the first output with these labels.
    #[arg(long, value_name = "FILE.npy")]
    labels: Option<PathBuf>,
    /// Print the outputs' names, types and files as JSON.
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let files = input_files(&self.inputs)?;
        let interface = value::interface(&self.settings.model)?;
        let given = read_inputs(&files, &interface)?;
        // What cannot be read or written is reported before the model is compiled.
        if let Some(labels) = self.labels.as_ref().filter(|file| !file.is_file()) {
            return Err(format!("--labels {}: there is no such file", labels.display()));
        }
        if let Some(directory) = self.output_dir.as_ref().filter(|path| path.exists() && !path.is_dir()) {
            return Err(format!("--output-dir {}: it is no directory", directory.display()));
        }
        let bound = self.settings.bound()?;
        if let Some((dim, _)) = self.buckets.iter().find(|(dim, _)| bound.contains_key(dim)) {
            return Err(format!("--dim and --bucket both give sizes for `{dim}`; leave one of them out"));
        }
        // The values of optional inputs are constants of a plan for fixed shapes.
        let gives_optional = given.keys().any(|name| interface.defaults.contains(name));
        let prepared = match self.buckets[..] {
            [] if !gives_optional => {
                let accepted = |graph: &Graph| check_inputs(graph, &given);
                prepare(&self.settings, &self.caching, registry, &given, &accepted)?
            }
            _ => Prepared::Dynamic(dynamic(&self.settings, &self.caching, registry)?),
        };
        match prepared {
            Prepared::Fixed(ready) => {
                let ReadySession { mut session, cached, unkept } = *ready;
                if let Some(line) = load::unfit(session.plan()) {
                    say!("{line}");
                }
                let run = || {
                    let inputs = inputs(session.plan(), given)?;
                    let outputs = session
                        .run(&inputs.iter().collect::<Vec<_>>())
                        .map_err(|error| error.to_string())?
                        .to_vec();
                    let names = session.plan().outputs.iter().map(|(name, _, _)| name.to_string());
                    let outputs = names.zip(outputs.into_iter().map(Item::Tensor)).collect();
                    self.report(outputs, cached, &files, &interface)
                };
                let reported = run();
                // Whoever waits for the outputs has them before the plan is stored.
                if let Some(unkept) = unkept {
                    unkept.keep(registry, &session);
                }
                reported
            }
            Prepared::Dynamic(mut session) => {
                for (dim, sizes) in &self.buckets {
                    session.bucket(dim, sizes).map_err(|error| format!("--bucket: {error}"))?;
                }
                for one in session.beyond_buckets(&given) {
                    say!("note: {one}");
                }
                let mut cached = true;
                let mut passed = |region: &RegionReport, _: Option<&_>| {
                    cached &= !matches!(region.found, Found::Compiled(_));
                };
                let outputs =
                    session.run_and_report(&given, &mut passed).map_err(|error| error.to_string())?;
                self.report(outputs, cached, &files, &interface)
            }
        }
    }

    /// Writes and prints the outputs. `files` are those of the inputs.
    fn report(
        &self,
        values: Vec<(String, Item<Tensor>)>,
        cached: bool,
        files: &[(String, PathBuf)],
        interface: &Interface,
    ) -> Outcome {
        let outputs: Vec<(String, Tensor)> = flattened(values.clone());
        if let Some(directory) = &self.output_dir {
            let mut read = self.settings.inputs();
            read.extend(files.iter().map(|(_, file)| file.clone()).chain(self.labels.clone()));
            match self.format {
                Format::Npy => write_outputs(&outputs, directory, &read)?,
                Format::Pb => value::write(&values, interface, directory, &read)?,
            }
        }
        let accuracy = self.labels.as_ref().map(|path| accuracy(path, &outputs)).transpose()?;
        if self.json {
            let list: Vec<_> = outputs
                .iter()
                .map(|(name, tensor)| {
                    let file =
                        self.output_dir.as_ref().map(|directory| directory.join(self.format.file_name(name)));
                    serde_json::json!({ "name": name, "type": tensor.ty().to_string(), "file": file })
                })
                .collect();
            print(&format!(
                "{}\n",
                serde_json::json!({ "outputs": list, "accuracy": accuracy.map(|a| a.0), "cached": cached })
            ));
            return Ok(());
        }
        for (name, tensor) in &outputs {
            print(&format!("{name}: {}\n{}\n", tensor.ty(), preview(tensor)));
        }
        if let Some((share, right, all)) = accuracy {
            print(&format!("accuracy {:.2} % ({right} of {all})\n", share * 100.0));
        }
        Ok(())
    }
}

/// Returns the names and files of `--input`.
pub(super) fn input_files(inputs: &[String]) -> Result<Vec<(String, PathBuf)>, String> {
    let one = |input: &String| match input.split_once('=') {
        Some((name, file)) => Ok((name.to_owned(), PathBuf::from(file))),
        None => Err(format!("--input needs NAME=FILE, not `{input}`")),
    };
    inputs.iter().map(one).collect()
}

/// Reads inputs from files.
pub(super) fn read_inputs(
    files: &[(String, PathBuf)],
    interface: &Interface,
) -> Result<BTreeMap<String, Item<Tensor>>, String> {
    let mut given = BTreeMap::new();
    for (name, path) in files {
        let item = value::read(path, interface.input(name))?;
        if given.insert(name.clone(), item).is_some() {
            return Err(format!("input `{name}` is given twice; give it once"));
        }
    }
    Ok(given)
}

/// Returns the tensors of outputs. Those of a sequence are called after it, with their positions.
pub(super) fn flattened(outputs: Vec<(String, Item<Tensor>)>) -> Vec<(String, Tensor)> {
    let mut list = Vec::new();
    for (name, item) in outputs {
        match item {
            Item::Tensor(tensor) => list.push((name, tensor)),
            Item::Sequence(items) => {
                let items = items.into_iter().enumerate();
                list.extend(flattened(items.map(|(at, item)| (format!("{name}/{at}"), item)).collect()));
            }
            Item::Maps(keys, rows) => list.extend([(format!("{name}/keys"), keys), (name, rows)]),
            Item::Absent => {}
        }
    }
    list
}

/// Formats the first values.
fn preview(tensor: &Tensor) -> String {
    const SHOWN: usize = 8;
    let mut text = String::from("  ");
    match tensor.to_i64() {
        _ if tensor.ty().dtype == DType::Text => {
            for value in tensor.to_texts().iter().flatten().take(SHOWN) {
                let _ = write!(text, "{value:?} ");
            }
        }
        Some(values) => values.iter().take(SHOWN).for_each(|value| {
            let _ = write!(text, "{value} ");
        }),
        None => tensor.to_f64().iter().take(SHOWN).for_each(|value| {
            let _ = write!(text, "{value:.5} ");
        }),
    }
    let count = tensor.ty().shape.count();
    if count > SHOWN {
        let _ = write!(text, "… ({count} values)");
    }
    text
}

/// Returns the share of rows whose label has the highest score, the number of these rows, and the number of
/// all.
fn accuracy(path: &std::path::Path, outputs: &[(String, Tensor)]) -> Result<(f64, usize, usize), String> {
    let labels = ovolo::npy::read(path).map_err(|error| error.to_string())?;
    let labels = labels.to_i64().ok_or_else(|| format!("{}: labels must be integers", path.display()))?;
    let (_, scores) = outputs.first().ok_or("the model has no output")?;
    let rows = labels.len();
    let values = scores.to_f64();
    if rows == 0 || scores.ty().shape.first() != Some(&rows) {
        return Err(format!("{}: {rows} labels for an output of type {}", path.display(), scores.ty()));
    }
    let classes = values.len() / rows;
    if let Some(at) =
        labels.iter().position(|label| usize::try_from(*label).is_ok_and(|class| class >= classes))
    {
        let (file, label) = (path.display(), labels[at]);
        return Err(format!(
            "{file}: label {at} is {label}, and a row of the output has {classes} classes, from 0 on"
        ));
    }
    let right = values
        .chunks(classes)
        .zip(&labels)
        .filter(|(row, label)| {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(class, _)| class);
            best.and_then(|class| i64::try_from(class).ok()) == Some(**label)
        })
        .count();
    #[allow(clippy::cast_precision_loss)]
    Ok((right as f64 / rows as f64, right, rows))
}
