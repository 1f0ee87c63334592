//! `ovolo train`.

use super::{Choice, network, text_of};
use crate::archive;
use crate::checkpoint;
use crate::data::Data;
use crate::evaluator::Evaluator;
use crate::network::Network;
use crate::step::{Recipe, Step};
use crate::trainer::Trainer;
use clap::Args;
use ovolo::compile::Options;
use ovolo::graph::text;
use ovolo::onnx::{self, ImportOptions, Item};
use ovolo::registry::Registry;
use ovolo::{file, tensor::Tensor};
use ovolo_cli::{AddedCommand, Job, Progress, Refusal, Settings};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The command `train`, which trains a model on data.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    choice: Choice,
    /// The data: an archive with an array for each input of the model and one with labels, all with one row for each
    /// example.
    #[arg(long, value_name = "FILE.npz")]
    data: PathBuf,
    /// Data that are not trained on. After each epoch, the share of their rows whose label has the highest score is shown.
    #[arg(long, value_name = "FILE.npz")]
    test: Option<PathBuf>,
    /// The name of the array with labels.
    #[arg(long, value_name = "NAME", default_value = "labels")]
    labels: String,
    /// How often the data are gone through. Rows that are left over by whole batches wait for the next time.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    epochs: u64,
    /// The number of rows of a batch, for models with a symbolic dimension.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// The learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 0.001, value_parser = rate)]
    rate: f64,
    /// Begin with random parameters instead of the model's.
    #[arg(long)]
    from_scratch: bool,
    /// The seed of random parameters, of the order of the rows, and of what is dropped.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Begin with parameters of this file, .npz or .safetensors, by their names in the model. Those that it does not have
    /// keep the model's values.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_scratch", "resume"])]
    parameters: Option<PathBuf>,
    /// Write the trained model to this file: ONNX, or text if the model is a graph in text form. A .npz or .safetensors file
    /// gets the parameters alone.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write parameters and state to this file, .npz or .safetensors, after each epoch.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Go on from a checkpoint, as if training had not been interrupted, up to --epochs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_scratch", "seed"])]
    resume: Option<PathBuf>,
}

impl AddedCommand for Train {
    const NAME: &'static str = "train";
    const ABOUT: &'static str = "Train a model on data, and write the trained model";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        let network = network(registry, &self.settings)?;
        let data = Data::read(&self.data).map_err(text_of)?;
        let test = self.test.as_deref().map(Data::read).transpose().map_err(text_of)?;
        let job = Job::new(Arc::clone(registry), self.bound(&data)?, false);
        let read = || [Some(&self.data), self.test.as_ref()].into_iter().flatten().cloned().collect();
        for (option, file) in [("--output", &self.output), ("--checkpoint", &self.checkpoint)] {
            if let Some(file) = file {
                job.check_output(option, file, read())?;
            }
        }
        let (options, import) = (job.options()?, job.import()?);
        let recipe = self.choice.recipe(registry)?;
        let Some(optimizer) = recipe.optimizer.as_ref().map(|optimizer| optimizer.name.clone()) else {
            return Err("--optimizer none: nothing would change; `ovolo grad` gives the gradients"
                .to_owned()
                .into());
        };
        let (mut trainer, mut evaluator) =
            self.prepared(&network, &options, &import, &recipe, test.is_some())?;
        let begin = self.begin(&network, &mut trainer, optimizer)?;
        if begin.epochs >= self.epochs {
            return Err(
                format!("{} of {} epochs are done: give more --epochs", begin.epochs, self.epochs).into()
            );
        }
        let batches = data.rows() / trainer.step().labels.ty.shape.first().copied().unwrap_or(1).max(1);
        let whole = usize::try_from(self.epochs - begin.epochs).unwrap_or(usize::MAX).saturating_mul(batches);
        let mut progress = Progress::new(whole);
        for epoch in begin.epochs..self.epochs {
            let loss =
                self.epoch(&mut trainer, &data, &Data::order(data.rows(), begin.seed, epoch), &mut |loss| {
                    progress.step(&format!("epoch {}: loss {loss:.4}", epoch + 1));
                })?;
            let mut line = format!("epoch {}: loss {loss:.4}", epoch + 1);
            if let (Some(test), Some(evaluator)) = (&test, &mut evaluator) {
                let (right, all) =
                    (evaluator.right(&trainer, test, &self.labels).map_err(text_of)?, test.rows());
                #[allow(clippy::cast_precision_loss)]
                let share = 100.0 * right as f64 / all as f64;
                line.push_str(&format!(", accuracy {share:.2} % ({right} of {all})"));
            }
            progress.print(&line);
            if let Some(file) = &self.checkpoint {
                let done = checkpoint::Progress { epochs: epoch + 1, ..begin.clone() };
                checkpoint::write(file, &trainer, &done).map_err(text_of)?;
            }
        }
        drop(progress);
        if let Some(output) = self.output.as_ref().filter(|output| archive::is_named(output)) {
            checkpoint::write_parameters(output, &trainer).map_err(text_of)?;
        } else if let Some(output) = &self.output {
            let values: BTreeMap<&str, &Tensor> = trainer.kept().collect();
            let bytes = network.with_values(&values).map_err(text_of)?;
            file::write(output, &[&bytes]).map_err(|why| format!("{}: {why}", output.display()))?;
        }
        Ok(())
    }
}

impl Train {
    /// Compiles the step, and the model for evaluation.
    fn prepared(
        &self,
        network: &Network,
        options: &Options,
        import: &ImportOptions,
        recipe: &Recipe,
        tested: bool,
    ) -> Result<(Trainer, Option<Evaluator>), Refusal> {
        let step = Step::new(&options.registry, network, import, recipe).map_err(text_of)?;
        let trainer = Trainer::new(step, network, options).map_err(text_of)?;
        let evaluator = tested
            .then(|| Evaluator::new(network, import, &trainer, recipe.output.as_deref(), options))
            .transpose()
            .map_err(text_of)?;
        Ok((trainer, evaluator))
    }

    /// Gives the trainer its first values.
    fn begin(
        &self,
        network: &Network,
        trainer: &mut Trainer,
        optimizer: String,
    ) -> Result<checkpoint::Progress, Refusal> {
        if let Some(file) = &self.resume {
            return Ok(checkpoint::read(file, trainer, &optimizer).map_err(text_of)?);
        }
        trainer.seed(self.seed);
        if self.from_scratch {
            trainer.draw(self.seed, network);
        }
        if let Some(file) = &self.parameters {
            checkpoint::read_parameters(file, trainer).map_err(text_of)?;
        }
        Ok(checkpoint::Progress { epochs: 0, seed: self.seed, optimizer })
    }

    /// Runs the step once on each batch of the data, in an order of the rows, and returns the mean loss.
    fn epoch(
        &self,
        trainer: &mut Trainer,
        data: &Data,
        order: &[usize],
        done: &mut dyn FnMut(f64),
    ) -> Result<f64, Refusal> {
        let labels = trainer.step().labels.ty.clone();
        let size = labels.shape.first().copied().unwrap_or(1).max(1);
        if size > data.rows() {
            return Err(format!("{}: it has {} rows, and a batch {size}", data.file(), data.rows()).into());
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for rows in order.chunks_exact(size) {
            let mut batch = Vec::new();
            for input in &trainer.step().inputs {
                batch.push(data.batch(&input.name, &input.ty, rows).map_err(text_of)?);
            }
            let labels = data.batch(&self.labels, &labels, rows).map_err(text_of)?;
            let loss = trainer.run(batch, labels, self.rate).map_err(text_of)?;
            if !loss.is_finite() {
                return Err(
                    format!("the loss became {loss}: give a smaller --rate than {}", self.rate).into()
                );
            }
            done(loss);
            sum += loss;
            count += 1.0;
        }
        Ok(sum / count)
    }

    /// Returns the settings with a size for each dimension: those that --dim does not bind have the sizes of a batch.
    fn bound(&self, data: &Data) -> Result<Settings, Refusal> {
        let mut settings = self.settings.clone();
        if text::is_named(&settings.model) {
            return Ok(settings);
        }
        let rows = usize::try_from(self.batch).unwrap_or(1);
        let interface = onnx::Interface::read(&settings.model).map_err(|why| why.to_string())?;
        let mut given = Vec::new();
        for (name, ..) in &interface.inputs {
            if let Ok(tensor) = data.first(name, rows) {
                given.push((name.clone(), Item::Tensor(tensor)));
            }
        }
        let sizes =
            onnx::sizes(&settings.model, &given.into_iter().collect()).map_err(|why| why.to_string())?;
        for (name, size) in sizes.into_iter().flatten() {
            let bound = |dim: &String| dim.split_once('=').is_some_and(|(known, _)| known == name);
            if !settings.dims.iter().any(bound) {
                settings.dims.push(format!("{name}={size}"));
            }
        }
        Ok(settings)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is no learning rate: give a number above 0, such as 0.001"))
}
