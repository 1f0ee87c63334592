//! The syntax of a spec. All fields are optional here: the reader checks for required ones, so that a missing field
//! does not hide other mistakes.

use ovolo::ron::{Entries, Raw, Spanned, Text};
use serde::Deserialize;

/// A list with its position and the positions of its values.
pub(super) type List<T> = Option<Spanned<Vec<T>>>;
/// A number with its position.
pub(super) type Number = Option<Spanned<usize>>;

#[derive(Deserialize)]
#[serde(rename = "Experiment", bound(deserialize = "'de: 'a"))]
pub(super) struct Experiment<'a> {
    #[serde(default)]
    pub name: Option<Spanned<String>>,
    #[serde(default)]
    pub models: List<Spanned<Model>>,
    #[serde(default)]
    pub pipelines: List<Spanned<String>>,
    #[serde(default)]
    pub costs: List<Raw<'a>>,
    #[serde(default)]
    pub extractors: List<Raw<'a>>,
    #[serde(default)]
    pub seeds: List<Spanned<u64>>,
    #[serde(default)]
    pub threads: Number,
    #[serde(default)]
    pub machine: Option<Spanned<Machine>>,
    #[serde(default)]
    pub sample: Number,
    #[serde(default)]
    pub spread: Number,
    #[serde(default)]
    pub among: Number,
    #[serde(default)]
    pub rounds: Number,
    #[serde(default)]
    pub parts: List<Spanned<String>>,
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(default)]
    pub file: Option<Spanned<String>>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub dims: Entries<Text, Spanned<usize>>,
    #[serde(default)]
    pub weights: Option<Spanned<String>>,
}

/// The speeds that cost models use.
#[derive(Deserialize)]
pub(super) struct Machine {
    pub flops: Spanned<f64>,
    pub memory: Spanned<f64>,
    pub cache: Spanned<f64>,
    pub start: Spanned<f64>,
}

/// A cost model that is read from a file: `Prices(…)` or `Learned(…)`.
#[derive(Deserialize)]
pub(super) struct OfFile {
    #[serde(default)]
    pub name: Option<String>,
    pub file: Spanned<String>,
}

/// A cost model or an extractor that runs as a subprocess: `Process(…)`.
#[derive(Deserialize)]
pub(super) struct OfProgram {
    #[serde(default)]
    pub name: Option<String>,
    pub command: String,
    #[serde(default)]
    pub timeout: Number,
    #[serde(default)]
    pub batch: Option<Spanned<bool>>,
}
