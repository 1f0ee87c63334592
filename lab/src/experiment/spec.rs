//! What an experiment is: read from a RON file, with all that it names, all mistakes at once.
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
//! Files are looked for beside the spec, and a `Process(command: "python3 mine.py", timeout: 60)` runs there.

mod cost;
mod form;
mod reader;

use ovolo::cost::pricing::ByPrices;
use ovolo::cost::{Machine, Pricing};
use ovolo::error::{Diagnostics, Source};
use ovolo::pass::Catalog;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::{ByFit, ByProgram};
use ovolo::registry::Registry;
use ovolo::ron;
use ovolo::subprocess::Invocation;
use reader::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What it is called.
    pub name: String,
    /// Its text.
    pub source: Source,
    /// The models.
    pub models: Vec<Model>,
    /// The pipelines: names as they are written, and what they are.
    pub pipelines: Vec<(String, Pipeline)>,
    /// The cost models.
    pub costs: Vec<Cost>,
    /// The extractors; [`SAMPLE`] may be among them.
    pub extractors: Vec<String>,
    /// Seeds of what is drawn.
    pub seeds: Vec<u64>,
    /// Threads of plans.
    pub threads: usize,
    /// The speeds that cost models go by, in place of those that are measured.
    pub machine: Option<Machine>,
    /// Plans that the extractor [`SAMPLE`] draws.
    pub sample: usize,
    /// How far it goes from the extracted one: spreads of disturbed prices are so many times the usual ones.
    pub spread: usize,
    /// Plans that are drawn for each that stays; those stay whose estimates spread most evenly.
    pub among: usize,
    /// Runs of each plan; with none, nothing is timed.
    pub rounds: usize,
    /// What else is asked, of [`PARTS`].
    pub parts: BTreeSet<String>,
}

/// A model of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What tables call it: the name of the file, or the one that is given.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Sizes of symbolic dimensions.
    pub dims: BTreeMap<String, usize>,
    /// Whether weights that are left out are drawn.
    pub seeded: bool,
}

/// A cost model of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// What tables call it.
    pub name: String,
    /// The name in the list of cost models.
    pub kind: String,
    /// The text of a price list or of a fitted model.
    pub text: Option<Source>,
    /// How a program is started: beside the spec.
    pub program: Option<Invocation>,
}

impl Cost {
    /// What prices.
    pub fn pricing(&self, catalog: &Catalog) -> Arc<dyn Pricing> {
        match self.kind.as_str() {
            "prices" => Arc::new(ByPrices { files: self.text.iter().cloned().collect() }),
            "learned" => Arc::new(ByFit { fit: self.text.clone() }),
            "process" => Arc::new(ByProgram { program: self.program.clone() }),
            kind => (catalog.pricings.find(kind).expect("it is checked when the spec is read").plain)(),
        }
    }
}

/// The extractor that goes by the measured times of whole plans.
pub const SAMPLE: &str = "sample";

/// What may be asked beside plans: the cost of each rule, time against memory, cost and bound against work.
pub const PARTS: &[&str] = &["ablation", "memory", "gap"];

impl Spec {
    /// Reads a spec that lies in a folder, and that names what a registry has.
    ///
    /// # Errors
    /// Every mistake, in it and in the pipelines that it names.
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
