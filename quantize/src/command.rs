//! `ovolo quantize`.

use super::calibration::{Calibration, calibrate};
use super::data::{Batch, Data};
use super::document::Document;
use super::engine::Engine;
use super::loss::Metric;
use super::report::Report;
use super::search::{Objective, Point, Search};
use clap::Args;
use ovolo::error::suggestion;
use ovolo::graph::text;
use ovolo::onnx::{self, Interface, Item};
use ovolo::registry::Registry;
use ovolo::{file, npy};
use ovolo_cli::{AddedCommand, Job, Refusal, Settings, print};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The command `quantize`, which writes a model some layers of which compute with 8-bit integers.
#[derive(Args)]
pub struct Quantize {
    #[command(flatten)]
    settings: Settings,
    /// The folder of the calibration data. For an input NAME it has NAME.npy, NAME.pb or a folder NAME of such files, or
    /// files *.npz with arrays for all inputs. A `/` in a name is a `_` here. Data that are longer along their first axis
    /// than the input are cut into batches.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Calibration data for one input, as a file .npy or .pb. May be given more than once.
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// Measure the loss by these labels: the share of rows of the first output that are right in float32, and not in the
    /// quantised model. Otherwise the loss is the relative error of the outputs.
    #[arg(long, value_name = "FILE.npy")]
    labels: Option<PathBuf>,
    /// How ranges follow from the values on the calibration data: min-max, percentile:P (99.9 keeps 99.9 % of the values),
    /// or entropy.
    #[arg(long, value_name = "METHOD", default_value_t)]
    calibration: Calibration,
    /// The most loss on the calibration data.
    #[arg(long, value_name = "LOSS", default_value_t = 0.01, value_parser = loss, allow_negative_numbers = true)]
    loss: f64,
    /// What the chosen model has least of: `time`, as the pipeline's cost model estimates it, or `size`, for engines with
    /// other kernels.
    #[arg(long = "for", value_name = "OBJECTIVE", value_enum, default_value_t)]
    objective: Objective,
    /// Show time and size against loss: models of which each costs more than the one before it and loses less.
    #[arg(long)]
    curve: bool,
    /// Time the chosen model, and those of the curve, on the first batch.
    #[arg(long)]
    measure: bool,
    /// Write the chosen model to this file.
    #[arg(long, value_name = "FILE.onnx")]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl AddedCommand for Quantize {
    const NAME: &'static str = "quantize";
    const ABOUT: &'static str =
        "Choose which layers of a model compute with 8-bit integers, within a loss, and write the model";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        let model = &self.settings.model;
        if text::is_named(model) {
            let name = model.display();
            return Err(
                format!("{name}: it is a graph in text form, and only ONNX models can be quantised").into()
            );
        }
        let lacks_data = self.data.is_none() && self.inputs.is_empty();
        let lacks: Vec<&str> = [
            (lacks_data, "the calibration data by --data DIR, or --input NAME=FILE"),
            (self.output.is_none() && !self.curve, "--output FILE.onnx for the chosen model, or --curve"),
        ]
        .into_iter()
        .filter_map(|(lacks, what)| lacks.then_some(what))
        .collect();
        if !lacks.is_empty() {
            return Err(format!("give {}", lacks.join("; and ")).into());
        }
        let document = Document::read(model).map_err(text_of)?;
        let data = self.read(&document)?;
        let job = Job::new(Arc::clone(registry), self.bound(&data)?, false);
        self.check_output(&job)?;
        let (options, import) = (job.options()?, job.import()?);
        let engine = Engine { options: &options, import: &import, name: document.name() };
        let batches = self.batches(&document, &engine, &data)?;
        let ranges = calibrate(&document, &engine, &batches, self.calibration).map_err(text_of)?;
        let metric = self.labels.as_deref().map_or(Ok(Metric::Outputs), labels)?;
        let search =
            Search::new(&document, &engine, &batches, &ranges, self.objective, metric).map_err(text_of)?;
        let curve = if self.curve { search.curve().map_err(text_of)? } else { Vec::new() };
        let chosen = search.within(self.loss).map_err(text_of)?;
        let time = |point: &Point| self.measure.then(|| search.time(point)).transpose().map_err(text_of);
        let report = Report {
            layers: document.layers(),
            search: &search,
            most: self.loss,
            batches: batches.len(),
            float: time(&search.float)?,
            measured: time(&chosen)?,
            curve: curve
                .into_iter()
                .map(|point| Ok((time(&point)?, point)))
                .collect::<Result<_, Refusal>>()?,
            chosen,
            output: self.output.as_deref(),
        };
        if let Some(output) = &self.output {
            let bytes = search.written(&report.chosen).map_err(text_of)?;
            file::write(output, &[&bytes]).map_err(|why| format!("{}: {why}", output.display()))?;
        }
        print(&if self.json { report.json() } else { report.text() });
        Ok(())
    }
}

impl Quantize {
    /// Reads the calibration data.
    fn read(&self, document: &Document) -> Result<Data, Refusal> {
        let interface = Interface::read(&self.settings.model).map_err(text_of)?;
        let names = document.inputs();
        let mut data = match &self.data {
            Some(folder) => Data::read(folder, &names, &interface).map_err(text_of)?,
            None => Data::default(),
        };
        for input in &self.inputs {
            let (name, path) =
                input.split_once('=').ok_or_else(|| format!("--input needs NAME=FILE, not `{input}`"))?;
            if !names.contains(&name) {
                let help = match suggestion(name, names.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("its inputs are `{}`", names.join("`, `")),
                };
                Err(format!("--input {input}: the model has no input `{name}`; {help}"))?;
            }
            data.add(name, Path::new(path), &interface).map_err(text_of)?;
        }
        Ok(data)
    }

    /// Returns the settings with a size for each dimension: those that --dim does not bind have the sizes of the data.
    fn bound(&self, data: &Data) -> Result<Settings, Refusal> {
        let mut settings = self.settings.clone();
        let given = data.first().into_iter().map(|(name, tensor)| (name, Item::Tensor(tensor))).collect();
        let sizes = onnx::sizes(&settings.model, &given).map_err(text_of)?;
        for (name, size) in sizes.into_iter().flatten() {
            let bound = |dim: &String| dim.split_once('=').is_some_and(|(known, _)| known == name);
            if !settings.dims.iter().any(bound) {
                settings.dims.push(format!("{name}={size}"));
            }
        }
        Ok(settings)
    }

    /// Cuts the data into batches of the model in float32.
    fn batches(&self, document: &Document, engine: &Engine<'_>, data: &Data) -> Result<Vec<Batch>, Refusal> {
        let model = engine.compile(document.bytes()).map_err(text_of)?;
        Ok(data.batches(model.plan()).map_err(text_of)?)
    }

    /// Refuses an output that cannot be written, or that would replace a file that is read.
    fn check_output(&self, job: &Job) -> Result<(), Refusal> {
        let Some(output) = &self.output else { return Ok(()) };
        let inputs = self.inputs.iter().filter_map(|input| Some(PathBuf::from(input.split_once('=')?.1)));
        job.check_output("--output", output, self.labels.iter().cloned().chain(inputs).collect())
    }
}

fn labels(path: &Path) -> Result<Metric, Refusal> {
    let labels = npy::read(path).map_err(text_of)?;
    let labels = labels.to_i64().ok_or_else(|| format!("{}: labels must be integers", path.display()))?;
    Ok(Metric::Labels(labels))
}

fn loss(text: &str) -> Result<f64, String> {
    let loss = text.parse::<f64>().ok().filter(|loss| loss.is_finite() && *loss >= 0.0);
    loss.ok_or_else(|| format!("`{text}` is no loss: give a number that is at least 0, such as 0.01"))
}

#[allow(clippy::needless_pass_by_value)]
fn text_of(error: impl ToString) -> String {
    error.to_string()
}
