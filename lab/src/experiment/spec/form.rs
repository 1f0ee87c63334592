//! A spec as it is written. What must be there is asked for by the reader, so that what is missing keeps no other
//! mistake from being found.

use ovolo::ron::{Entries, Raw, Spanned, Text};
use serde::Deserialize;

/// A list, with its place and those of its values.
pub(super) type List<T> = Option<Spanned<Vec<T>>>;
/// A number with its place.
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
    pub extractors: List<Spanned<String>>,
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

/// The speeds that cost models go by.
#[derive(Deserialize)]
pub(super) struct Machine {
    pub flops: Spanned<f64>,
    pub memory: Spanned<f64>,
    pub cache: Spanned<f64>,
    pub start: Spanned<f64>,
}

/// A cost model that a file makes: `Prices(…)` or `Learned(…)`.
#[derive(Deserialize)]
pub(super) struct OfFile {
    #[serde(default)]
    pub name: Option<String>,
    pub file: Spanned<String>,
}

/// A cost model that a program is: `Process(…)`.
#[derive(Deserialize)]
pub(super) struct OfProgram {
    #[serde(default)]
    pub name: Option<String>,
    pub command: String,
    #[serde(default)]
    pub timeout: Number,
}
