//! The inputs of a compilation, and the key of the cache that follows from them.

use super::{Difference, Digest, Key, library};
use crate::backend::features;
use crate::cost::Machine;
use crate::error::Error;
use crate::graph::text;
use crate::onnx::{self, MissingWeights};
use crate::pass::pipeline::Pipeline;
use crate::pass::{Extract, Pass};
use crate::registry::Registry;
use crate::setting;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The inputs of a compilation, which follow from the command line and the machine.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model's file.
    pub model: PathBuf,
    /// The model that has the constants which a graph in text form names by their hashes.
    pub weights: Option<PathBuf>,
    /// Sizes of symbolic dimensions.
    pub dims: BTreeMap<String, usize>,
    /// What to do with weights that have no values.
    pub missing_weights: MissingWeights,
    /// The pipeline, with the settings that replace its own.
    pub pipeline: Pipeline,
    /// The rule files: names and texts.
    pub rules: Vec<(String, String)>,
    /// Threads of the plan.
    pub threads: usize,
    /// The speeds that are kept of this machine.
    pub calibration: Option<Machine>,
    /// The builds of other crates that affect plans: the calling program and the tuner.
    pub builds: Builds,
}

/// Crates by name, each with a text that identifies its build.
pub type Builds = &'static [(&'static str, &'static str)];

/// Returns in one line the builds of the crates of a registry and of others.
pub fn build(registry: &Registry, others: Builds) -> String {
    let all = registry.builds().iter().chain(others).map(|(name, build)| format!("{name} {build}"));
    all.collect::<Vec<_>>().join(", ")
}

/// The version of the format of entries.
const FORMAT: &str = "6";

impl Request {
    /// The value of the key's field for the calibration if no speeds are kept.
    pub const NO_SPEEDS: &str = "no speeds are kept";

    /// The name of the key's field for the calibration.
    pub const CALIBRATION: &str = "calibration";

    /// Returns the value of the key's field for the calibration.
    pub fn speeds(&self) -> String {
        match self.calibration {
            _ if !self.calibrated() => "not asked".to_owned(),
            // Speeds that were measured while the machine was busy are replaced after some minutes, and are no part of the
            // key, or each measurement would be another entry.
            None => Self::NO_SPEEDS.to_owned(),
            Some(machine) => format!("{machine:?}"),
        }
    }

    /// Returns the name of the cost model, which is empty if the pipeline does not extract.
    pub(crate) fn cost(&self) -> &str {
        self.pipeline.extract().map_or("", |extract| extract.cost.name())
    }

    /// Returns whether the cost model uses the machine's speeds.
    pub fn calibrated(&self) -> bool {
        self.pipeline.extract().is_none_or(|extract| extract.cost.by_speeds())
    }

    /// Returns the key. Reads every byte of the model and its external data, and describes the backends of the
    /// pipeline as they are on this machine.
    ///
    /// # Errors
    /// If the model cannot be read or decoded, or if its prices or its choices come from a subprocess.
    pub fn key(&self, registry: &Registry) -> Result<Key, Error> {
        let repeats = |extract: &Extract| extract.cost.repeats() && extract.extractor.repeats();
        if self.pipeline.extract().is_some_and(|extract| !repeats(extract)) {
            return Err(Error::NoKey);
        }
        let external = match (text::is_named(&self.model), &self.weights) {
            (true, None) => "none".to_owned(),
            (true, Some(weights)) => {
                let files = self.external(weights)?;
                format!("weights {}, {files}", self.content(weights)?)
            }
            (false, _) => self.external(&self.model)?,
        };
        let dims: Vec<String> = self.dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let missing = match self.missing_weights {
            MissingWeights::Refuse => "refused",
            MissingWeights::Seeded => "seeded",
        };
        let mut key = Key::default()
            .with("model", self.content(&self.model)?)
            .with("external data", external)
            .with("dims", list(&dims))
            .with("missing weights", missing)
            .with("pipeline", self.passes())
            .with("cost model", self.cost())
            .with("precision", self.pipeline.precision.name())
            .with("assumptions", list(&self.pipeline.assume))
            .with("unroll", self.pipeline.unroll.to_string())
            .with(Self::CALIBRATION, self.speeds())
            .with("threads", self.threads.to_string());
        for pass in &self.pipeline.passes {
            for (setting, value) in settings(&**pass)? {
                key = key.with(&setting, value);
            }
        }
        let names: Vec<&str> = self.rules.iter().map(|(name, _)| name.as_str()).collect();
        key = key.with("rules", list(&names));
        for (at, (name, text)) in self.rules.iter().enumerate() {
            // If a file is named twice, the key has a field for each time.
            let before = names[..at].iter().filter(|known| *known == name).count();
            let again = if before == 0 { String::new() } else { format!(" ({before} before)") };
            key = key.with(&format!("rules {name}{again}"), Digest::texts([text.as_str()]).to_string());
        }
        Ok(host(key, self.pipeline.backends.iter().map(String::as_str), registry, self.builds))
    }

    fn digest(&self, path: &Path) -> Result<Digest, Error> {
        Digest::read_file(path, self.threads).map_err(Error::io(path))
    }

    /// Returns the format of a model's file and the digest of its bytes.
    fn content(&self, model: &Path) -> Result<String, Error> {
        Ok(format!("{} {}", if text::is_named(model) { "text" } else { "onnx" }, self.digest(model)?))
    }

    /// Returns the files that hold weights of a model.
    fn external(&self, model: &Path) -> Result<String, Error> {
        if text::is_named(model) {
            return Ok("none".to_owned());
        }
        let mut found = Vec::new();
        for (name, path) in onnx::external(model)? {
            let content = match path {
                Some(path) => self.digest(&path)?.to_string(),
                None => "not there".to_owned(),
            };
            found.push(format!("{name} {content}"));
        }
        Ok(list(&found))
    }

    /// Returns the names of the pipeline and of its passes.
    fn passes(&self) -> String {
        let passes: Vec<&str> = self.pipeline.passes.iter().map(|pass| pass.name()).collect();
        format!("{}: {}", self.pipeline.name, list(&passes))
    }
}

/// Longer texts, such as price lists and fitted models, are replaced by their digest.
const LONGEST: usize = 400;

/// Returns all settings of a pass as it describes them: names such as `lower.rounds`, with their values.
fn settings(pass: &dyn Pass) -> Result<Vec<(String, String)>, Error> {
    let described = pass
        .describe()
        .map_err(|error| Error::Undescribed { pass: pass.name().to_owned(), why: error.to_string() })?;
    let mut list = Vec::new();
    setting::flatten(pass.name(), &described, &mut list);
    for (_, value) in list.iter_mut().filter(|(_, value)| value.len() > LONGEST) {
        *value = Digest::texts([value.as_str()]).to_string();
    }
    Ok(list)
}

/// Returns the fields, among those that do not depend on the model, in which a key differs from one that is made on
/// this machine by these builds.
pub fn elsewhere(key: &Key, registry: &Registry, builds: Builds) -> Vec<Difference> {
    let names = key.fields().filter_map(|(name, _)| name.strip_prefix(BACKEND));
    let fields = host(Key::default(), names, registry, builds);
    let here = fields.fields().fold(key.clone(), |here, (name, value)| here.with(name, value));
    here.differences(key)
}

/// The beginning of the names of the fields that describe backends.
const BACKEND: &str = "backend ";

/// Adds the fields that describe this program and this machine.
fn host<'a>(key: Key, names: impl Iterator<Item = &'a str>, registry: &Registry, builds: Builds) -> Key {
    let key = key
        .with("format", FORMAT)
        .with("ovolo", env!("CARGO_PKG_VERSION"))
        .with("build", build(registry, builds))
        .with("processor", features::processor())
        .with("instruction sets", list(&registry.backends().planned_features()));
    names.fold(key, |key, name| {
        let found = registry.backends().get(name).and_then(|backend| {
            let details = backend.details();
            let details = details.iter().map(|(name, value)| format!(", {name} {value}"));
            let files = backend.files();
            let files = files.iter().map(|file| format!(", content {}", library::content(file, 2)));
            Some(backend.found().ok()? + &details.chain(files).collect::<String>())
        });
        // Why a backend is absent, and where it was looked for, does not affect plans.
        key.with(&format!("{BACKEND}{name}"), found.unwrap_or_else(|| "not there".to_owned()))
    })
}

fn list<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ")
}
