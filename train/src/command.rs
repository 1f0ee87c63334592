//! `ovolo grad`, `ovolo train` and `ovolo derivatives`.

mod derivatives;
mod grad;
mod train;

pub use derivatives::Derivatives;
pub use grad::Grad;
pub use train::Train;

use super::dropout::Dropout;
use super::error::TrainError;
use super::loss::Loss;
use super::network::Network;
use super::optimizer::Optimizer;
use super::step::{Recipe, Step};
use super::table::Table;
use clap::Args;
use ovolo::registry::Registry;
use ovolo_cli::{Refusal, Settings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The name that stands for no optimiser.
const NONE: &str = "none";

/// What a step consists of.
#[derive(Args)]
struct Choice {
    /// The loss: cross-entropy, with labels of i64 that are classes, mse, or binary-cross-entropy.
    #[arg(long, value_name = "LOSS", default_value = "cross-entropy")]
    loss: String,
    /// The optimiser: sgd, momentum, adam, adamw or adagrad. `grad` also takes `none`, and gives the gradients themselves.
    #[arg(long, value_name = "OPTIMISER", default_value = "adam")]
    optimizer: String,
    /// Set a number of the optimiser, such as beta1=0.8 or weight-decay=0.01. May be given more than once.
    #[arg(long = "set", value_name = "NAME=NUMBER")]
    settings: Vec<String>,
    /// Leave parameters as they are: those whose names match, where `*` stands for any characters. May be given more than
    /// once.
    #[arg(long, value_name = "PATTERN")]
    freeze: Vec<String>,
    /// Change only the rows of these parameters that a step has read, and the state of these rows alone: tables of embeddings
    /// whose names match. That is another update, except with sgd and adagrad without a decay. May be given more than once.
    #[arg(long, value_name = "PATTERN")]
    lazy: Vec<String>,
    /// Add derivatives of ops, which come before those of ovolo. May be given more than once.
    #[arg(long, value_name = "FILE.ron")]
    derivatives: Vec<PathBuf>,
    /// The value that the loss takes, by its name in the model. Default: the first output.
    #[arg(long, value_name = "VALUE")]
    of: Option<String>,
    /// Let batch norms keep the mean and the variance of the model. Otherwise they take those of the batch, and keep running
    /// means of both.
    #[arg(long)]
    fixed_statistics: bool,
    /// Drop a share of the elements of values, and scale the others up: those whose names match. May be given more than once.
    #[arg(long, value_name = "PATTERN=RATIO")]
    dropout: Vec<String>,
    /// Let the model's own `Dropout` nodes do nothing, as in inference.
    #[arg(long)]
    no_dropout: bool,
}

impl Choice {
    fn recipe(&self, registry: &Registry) -> Result<Recipe, Refusal> {
        let mut settings = BTreeMap::new();
        for given in &self.settings {
            let number =
                given.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
            let (name, value) = number
                .filter(|(_, value)| value.is_finite())
                .ok_or_else(|| format!("--set {given}: write NAME=NUMBER, such as beta1=0.8"))?;
            settings.insert(name.to_owned(), value);
        }
        let after = self.dropout.iter().map(|text| Dropout::parse(text)).collect::<Result<_, _>>();
        Ok(Recipe {
            table: table(registry, &self.derivatives)?,
            loss: Loss::find(registry, &self.loss).map_err(text_of)?,
            optimizer: self.optimizer(&settings)?,
            freeze: self.freeze.clone(),
            lazy: self.lazy.clone(),
            output: self.of.clone(),
            batch_statistics: !self.fixed_statistics,
            dropout: Dropout { own: !self.no_dropout, after: after.map_err(text_of)? },
        })
    }

    fn optimizer(&self, settings: &BTreeMap<String, f64>) -> Result<Option<Optimizer>, Refusal> {
        match (self.optimizer.as_str(), settings.keys().next()) {
            (NONE, None) => Ok(None),
            (NONE, Some(name)) => {
                Err(format!("--set {name}: without an optimiser there is none to set").into())
            }
            (name, _) => Ok(Some(Optimizer::find(name, settings).map_err(text_of)?)),
        }
    }
}

/// Reads the model that is trained.
fn network(registry: &Registry, settings: &Settings) -> Result<Network, Refusal> {
    if let Some(weights) = &settings.weights {
        let weights = weights.display();
        return Err(format!(
            "--weights {weights}: constants of a graph that is trained stand in its text: give the model itself"
        )
        .into());
    }
    Ok(Network::read(registry, &settings.model).map_err(text_of)?)
}

/// Returns ovolo's table of derivatives with those of files before it.
fn table(registry: &Registry, files: &[PathBuf]) -> Result<Table, Refusal> {
    let mut texts = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|why| format!("{name}: {why}"))?;
        texts.push((name, text));
    }
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Ok(Table::with(registry, &texts).map_err(text_of)?)
}

/// Tells what a step trains and keeps.
fn told(step: &Step) -> String {
    let count = |list: &[super::step::Kept]| list.iter().map(|kept| kept.ty.shape.count()).sum::<usize>();
    format!(
        "{} parameters of {} numbers, {} numbers of state, {} ops",
        step.parameters.len(),
        count(&step.parameters),
        count(&step.state) + count(&step.statistics),
        step.graph.nodes().filter(|(_, node)| !node.op.is_leaf()).count()
    )
}

#[allow(clippy::needless_pass_by_value)]
fn text_of(error: TrainError) -> String {
    error.to_string()
}
