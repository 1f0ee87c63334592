//! The spec of an experiment: read from a RON file together with all files that it names; all mistakes are
//! reported at once.
//!
//! ```ron
//! Experiment(
//!     name: "digits",
//!     models: [Model(file: "digits.onnx", dims: {"N": 1})],
//!     pipelines: ["native"],
//!     costs: ["flops", "roofline", Prices(name: "mine", file: "mine.ron")],
//!     extractors: ["exact", "greedy-dag", "sample"],
//!     threads: 1,
//!     sample: 20,
//!     rounds: 9,
//!     parts: ["ablation", "memory", "gap"],
//! )
//! ```
//! Paths are relative to the folder of the spec, and a `Process(command: "python3 mine.py", timeout: 60)`
//! runs there, be it a cost model or an extractor.

mod cost;
mod extractor;
mod form;
mod reader;

use ovolo::cost::pricing::ByPrices;
use ovolo::cost::{Machine, Pricing};
use ovolo::error::{Diagnostics, Source};
use ovolo::extract::Extractor;
use ovolo::pass::Catalog;
use ovolo::pass::choosing;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::{ByFit, ByProgram};
use ovolo::registry::Registry;
use ovolo::ron;
use reader::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its text.
    pub source: Source,
    /// The models.
    pub models: Vec<Model>,
    /// The pipelines: their names in the spec, and their contents.
    pub pipelines: Vec<(String, Pipeline)>,
    /// The cost models.
    pub costs: Vec<Cost>,
    /// The extractors.
    pub extractors: Vec<Chooser>,
    /// The seeds for drawing.
    pub seeds: Vec<u64>,
    /// The threads of plans.
    pub threads: usize,
    /// The speeds that cost models use, instead of the measured ones.
    pub machine: Option<Machine>,
    /// The number of plans that the extractor [`SAMPLE`] draws.
    pub sample: usize,
    /// How far it goes from the extracted plan: the multiple of the usual disturbance of prices.
    pub spread: usize,
    /// The number of plans that are drawn for each one that is kept; those whose estimates spread most evenly
    /// are kept.
    pub among: usize,
    /// The runs of each plan; with 0, nothing is timed.
    pub rounds: usize,
    /// The further questions, from [`PARTS`].
    pub parts: BTreeSet<String>,
}

/// A model of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name in tables: that of the file, or one that is given.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// The sizes of symbolic dimensions.
    pub dims: BTreeMap<String, usize>,
    /// Whether missing weights are drawn.
    pub seeded: bool,
}

/// A cost model of an experiment.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Its name in tables.
    pub name: String,
    /// The name in the list of cost models.
    pub kind: String,
    /// The text of a price list or of a fitted model.
    pub text: Option<Source>,
    /// The program that prices, in the folder of the spec.
    pub program: Option<ByProgram>,
}

impl Cost {
    /// Returns the pricing.
    pub fn pricing(&self, catalog: &Catalog) -> Arc<dyn Pricing> {
        match self.kind.as_str() {
            "prices" => Arc::new(ByPrices { files: self.text.iter().cloned().collect() }),
            "learned" => Arc::new(ByFit { fit: self.text.clone() }),
            "process" => Arc::new(self.program.clone().unwrap_or_default()),
            kind => (catalog.pricings.find(kind).expect("it is checked when the spec is read").plain)(),
        }
    }
}

/// An extractor of an experiment.
#[derive(Clone, Debug)]
pub struct Chooser {
    /// Its name in tables; [`SAMPLE`] is not in the list of extractors.
    pub name: String,
    /// The program that chooses, in the folder of the spec; `None` for an extractor of the list.
    pub program: Option<choosing::ByProgram>,
}

impl Chooser {
    /// Returns the extractor.
    pub fn extractor(&self, catalog: &Catalog) -> Arc<dyn Extractor> {
        match &self.program {
            Some(program) => Arc::new(program.clone()),
            None => {
                (catalog.extractors.find(&self.name).expect("it is checked when the spec is read").plain)()
            }
        }
    }
}

/// The extractor that chooses by the measured times of whole plans.
pub const SAMPLE: &str = "sample";

/// The questions in addition to plans: the cost of each rule, time against memory, cost and bound against
/// work.
pub const PARTS: &[&str] = &["ablation", "memory", "gap"];

impl Spec {
    /// Reads a spec in a folder, which may name the contents of a registry.
    ///
    /// # Errors
    /// All mistakes in the spec and in the pipelines that it names.
    pub fn read(source: &Source, folder: &Path, registry: &Registry) -> Result<Self, Diagnostics> {
        let mut found = Diagnostics::new();
        let at = found.add_source(source.clone());
        let mut reader = Reader { ron: ron::Reader::new(&mut found, at), folder, registry };
        let spec = reader.ron.document(&source.text).and_then(|document| reader.spec(document, source));
        match spec {
            Some(spec) if found.is_empty() => Ok(spec),
            _ => {
                found.sort();
                Err(found)
            }
        }
    }
}
