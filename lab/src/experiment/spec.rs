//! The spec of an experiment: read from a RON file together with all files that it names; all mistakes are
//! reported at once.
//!
//! ```ron
//! Experiment(
//!     name: "digits",
//!     models: [Model(file: "digits.onnx", dims: {N: 1})],
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
//! runs there.

use ovolo::cost::pricing::ByPrices;
use ovolo::cost::{Machine, Pricing};
use ovolo::error::{Diagnostic, Diagnostics, Source, Span, suggestion};
use ovolo::extract;
use ovolo::pass::Catalog;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::{ByFit, ByProgram};
use ovolo::plan::MOST_THREADS;
use ovolo::registry::Registry;
use ovolo::rule::ron::{self, Field, Node, Value};
use ovolo::subprocess::Invocation;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    /// The extractors; [`SAMPLE`] may be among them.
    pub extractors: Vec<String>,
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
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its name in tables.
    pub name: String,
    /// The name in the list of cost models.
    pub kind: String,
    /// The text of a price list or of a fitted model.
    pub text: Option<Source>,
    /// How a program is started, in the folder of the spec.
    pub program: Option<Invocation>,
}

impl Cost {
    /// Returns the pricing.
    pub fn pricing(&self, catalog: &Catalog) -> Arc<dyn Pricing> {
        match self.kind.as_str() {
            "prices" => Arc::new(ByPrices { files: self.text.iter().cloned().collect() }),
            "learned" => Arc::new(ByFit { fit: self.text.clone() }),
            "process" => Arc::new(ByProgram { program: self.program.clone() }),
            kind => (catalog.pricings.find(kind).expect("it is checked when the spec is read").plain)(),
        }
    }
}

/// The extractor that chooses by the measured times of whole plans.
pub const SAMPLE: &str = "sample";

/// The questions in addition to plans: the cost of each rule, time against memory, cost and bound against
/// work.
pub const PARTS: &[&str] = &["ablation", "memory", "gap"];

const FIELDS: &[&str] = &[
    "name",
    "models",
    "pipelines",
    "costs",
    "extractors",
    "seeds",
    "threads",
    "machine",
    "sample",
    "spread",
    "among",
    "rounds",
    "parts",
];
const FORM: &str = "write `Experiment(name: …, models: […], costs: […], extractors: […])`";
/// The most runs of a plan, plans of a draw, and seeds; larger numbers are probably mistakes.
const MOST: usize = 10_000;
/// The largest spread; beyond it, prices are more random than known.
const MOST_SPREAD: usize = 10;
/// The most draws for each plan that is kept, because each needs an extraction.
const MOST_AMONG: usize = 100;
/// The seconds of a day, the longest timeout of a program.
const DAY: usize = 86_400;

impl Spec {
    /// Reads a spec in a folder, which may name the contents of a registry.
    ///
    /// # Errors
    /// All mistakes in the spec and in the pipelines that it names.
    pub fn read(source: &Source, folder: &Path, registry: &Registry) -> Result<Self, Diagnostics> {
        let mut found = Diagnostics::new();
        let at = found.add_source(source.clone());
        let node = match ron::read(&source.text, at) {
            Ok(node) => node,
            Err(error) => {
                found.push(error);
                return Err(found);
            }
        };
        let spec = Reader { found: &mut found, folder, registry }.spec(&node, source);
        match spec {
            Some(spec) if found.is_empty() => Ok(spec),
            _ => {
                found.sort();
                Err(found)
            }
        }
    }
}

struct Reader<'a> {
    found: &'a mut Diagnostics,
    folder: &'a Path,
    registry: &'a Registry,
}

impl Reader<'_> {
    fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        self.found.push(Diagnostic::new(message).label(0, span, "").help(help));
    }

    fn unknown(&mut self, what: &str, name: &str, span: Span, known: &[&str]) {
        let help = suggestion(name, known.iter().copied()).map_or_else(
            || format!("there are {}", known.join(", ")),
            |close| format!("did you mean `{close}`?"),
        );
        self.mistake(format!("{what} `{name}` is not known"), span, help);
    }

    /// Returns the fields of a value that must have this name, and no unknown fields.
    fn fields<'n>(&mut self, node: &'n Node, name: &str, known: &[&str], form: &str) -> Option<&'n [Field]> {
        match &node.value {
            Value::Struct { name: given, fields, .. } if given == name => {
                for field in fields.iter().filter(|field| !known.contains(&field.key.as_str())) {
                    self.unknown(&format!("setting of `{name}`"), &field.key, field.key_span, known);
                }
                Some(fields)
            }
            _ => {
                self.mistake(format!("`{name}(…)` should stand here"), node.span, form);
                None
            }
        }
    }

    fn spec(&mut self, node: &Node, source: &Source) -> Option<Spec> {
        let fields = self.fields(node, "Experiment", FIELDS, FORM)?;
        let head = Span::new(node.span.start, node.span.start + "Experiment".len());
        let name = self.name(fields, head);
        let models: Vec<Model> = self.list(fields, "models", head, true, Self::model);
        let mut pipelines = self.list(fields, "pipelines", head, false, Self::pipeline);
        if field(fields, "pipelines").is_none() {
            let native = self.registry.pipeline("native");
            let native =
                native.and_then(|(name, text)| Pipeline::read(&self.registry.scope(), name, text).ok());
            pipelines.extend(native.map(|one| ("native".to_owned(), one)));
        }
        let costs: Vec<Cost> = self.list(fields, "costs", head, true, Self::cost);
        let extractors: Vec<String> = self.list(fields, "extractors", head, true, Self::extractor);
        let mut seeds = self.list(fields, "seeds", head, false, |reader, node| {
            reader.whole(node, "a seed", 0, usize::MAX).map(|seed| (seed as u64, node.span))
        });
        if seeds.is_empty() {
            seeds.push((1, head));
        }
        let parts: Vec<String> = self.list(fields, "parts", head, false, Self::part);
        self.twice("model", models.iter().map(|model| model.name.as_str()), fields, "models");
        self.twice("pipeline", pipelines.iter().map(|(name, _)| name.as_str()), fields, "pipelines");
        self.twice("cost model", costs.iter().map(|cost| cost.name.as_str()), fields, "costs");
        self.twice("extractor", extractors.iter().map(String::as_str), fields, "extractors");
        let seeds: Vec<u64> = seeds.into_iter().map(|(seed, _)| seed).collect();
        let texts: Vec<String> = seeds.iter().map(u64::to_string).collect();
        self.twice("seed", texts.iter().map(String::as_str), fields, "seeds");
        let threads = self.number(fields, "threads", 1, MOST_THREADS).unwrap_or(1);
        let sample = self.number(fields, "sample", 1, MOST);
        let rounds = self.number(fields, "rounds", 0, MOST).unwrap_or(0);
        let spread = self.number(fields, "spread", 1, MOST_SPREAD).unwrap_or(1);
        let samples = extractors.iter().any(|name| name == SAMPLE);
        let among = self.number(fields, "among", 1, MOST_AMONG).unwrap_or(1);
        for (key, meaning) in [
            ("spread", "how far the extractor `sample` goes"),
            ("among", "of how many plans the extractor `sample` keeps one"),
        ] {
            if let (false, Some(node)) = (samples || extractors.is_empty(), field(fields, key)) {
                self.mistake(
                    format!("`{key}` is {meaning}, but `extractors` does not contain it"),
                    node.span,
                    "add `\"sample\"` to `extractors`",
                );
            }
        }
        match (samples, sample, field(fields, "sample")) {
            (false, _, Some(node)) if !extractors.is_empty() => self.mistake(
                "`sample` is the number of plans that the extractor `sample` draws, but `extractors` does not contain it",
                node.span,
                "add `\"sample\"` to `extractors`",
            ),
            (true, None, None) => {
                self.mistake("the extractor `sample` needs a number of plans", head, "add `sample: 20`");
            }
            (true, ..) if rounds == 0 => self.mistake(
                "the extractor `sample` chooses by measured times, but nothing is timed",
                head,
                "add `rounds: 9`: how often each plan is run",
            ),
            _ => {}
        }
        let machine = field(fields, "machine").and_then(|node| self.machine(node));
        Some(Spec {
            name: name?,
            source: source.clone(),
            models,
            pipelines,
            costs,
            extractors,
            seeds,
            threads,
            machine,
            sample: sample.unwrap_or(0),
            spread,
            among,
            rounds,
            parts: parts.into_iter().collect(),
        })
    }

    fn name(&mut self, fields: &[Field], head: Span) -> Option<String> {
        let Some(node) = field(fields, "name") else {
            self.mistake("the experiment lacks `name`", head, "add `name: \"…\"`");
            return None;
        };
        let name = self.text(node, "`name`")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // The name is also that of a folder.
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            self.mistake(
                "a name has only letters, digits, `-`, `_` and `.`",
                node.span,
                "the results are written to a folder with this name",
            );
            return None;
        }
        Some(name)
    }

    fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::Str(text) => Some(text.text.clone()),
            _ => {
                self.mistake(format!("{what} is text in quotes"), node.span, "write `\"…\"`");
                None
            }
        }
    }

    /// Reads the values of a list; invalid ones are reported and left out.
    fn list<T>(
        &mut self,
        fields: &[Field],
        key: &str,
        head: Span,
        needed: bool,
        mut one: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        match field(fields, key).map(|node| (&node.value, node.span)) {
            Some((Value::List(items), span)) => {
                if items.is_empty() && needed {
                    self.mistake(format!("`{key}` is empty"), span, "name at least one");
                }
                items.iter().filter_map(|item| one(self, item)).collect()
            }
            Some((_, span)) => {
                self.mistake(format!("`{key}` is a list"), span, format!("write `{key}: […]`"));
                Vec::new()
            }
            None => {
                if needed {
                    self.mistake(format!("the experiment lacks `{key}`"), head, format!("add `{key}: […]`"));
                }
                Vec::new()
            }
        }
    }

    /// Reports a name that occurs twice in a list.
    fn twice<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n str>, fields: &[Field], key: &str) {
        let mut known = BTreeSet::new();
        for name in names {
            if !known.insert(name)
                && let Some(node) = field(fields, key)
            {
                self.mistake(
                    format!("two entries of `{key}` are called `{name}`"),
                    node.span,
                    format!("remove one, or give one {what} another `name`"),
                );
            }
        }
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn whole(&mut self, node: &Node, what: &str, least: usize, most: usize) -> Option<usize> {
        match node.value {
            Value::Number(number)
                if number.fract() == 0.0 && number >= least as f64 && number <= (most as f64).min(9e15) =>
            {
                Some(number as usize)
            }
            _ => {
                let to = if most < usize::MAX { format!(" to {most}") } else { String::new() };
                self.mistake(
                    format!("{what} is a whole number"),
                    node.span,
                    format!("write one from {least}{to}"),
                );
                None
            }
        }
    }

    fn number(&mut self, fields: &[Field], key: &str, least: usize, most: usize) -> Option<usize> {
        let node = field(fields, key)?;
        self.whole(node, &format!("`{key}`"), least, most)
    }

    /// Reads the path of a file, relative to the spec, that must exist.
    fn file(&mut self, node: &Node) -> Option<PathBuf> {
        let name = self.text(node, "a file")?;
        let path = self.folder.join(&name);
        if path.is_file() {
            return Some(path);
        }
        self.mistake(
            format!("there is no file `{}`", path.display()),
            node.span,
            "paths are relative to the folder of the spec",
        );
        None
    }

    /// Reads the text of such a file.
    fn content(&mut self, node: &Node) -> Option<Source> {
        let path = self.file(node)?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(Source::new(path.display().to_string(), text)),
            Err(error) => {
                self.mistake(format!("{}: {error}", path.display()), node.span, "it must be readable text");
                None
            }
        }
    }

    fn model(&mut self, node: &Node) -> Option<Model> {
        let known = ["file", "name", "dims", "weights"];
        let fields = self.fields(node, "Model", &known, "write `Model(file: \"…\", dims: {N: 1})`")?;
        let Some(at) = field(fields, "file") else {
            self.mistake("`Model` lacks `file`", node.span, "add `file: \"model.onnx\"`");
            return None;
        };
        let mut dims = BTreeMap::new();
        if let Some(node) = field(fields, "dims") {
            match &node.value {
                Value::Map(sizes) => {
                    for size in sizes {
                        let number = self.whole(&size.node, "a dimension", 1, MOST * MOST);
                        dims.extend(number.map(|number| (size.key.clone(), number)));
                    }
                }
                _ => self.mistake("`dims` is a map", node.span, "write `dims: {N: 1}`"),
            }
        }
        let weights = match field(fields, "weights") {
            Some(node) => match self.text(node, "`weights`")?.as_str() {
                "seeded" => true,
                "given" => false,
                other => {
                    self.unknown("weights", other, node.span, &["given", "seeded"]);
                    return None;
                }
            },
            None => false,
        };
        let file = self.file(at)?;
        let name = match field(fields, "name") {
            Some(node) => self.text(node, "`name`")?,
            None => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Some(Model { name, file, dims, seeded: weights })
    }

    fn pipeline(&mut self, node: &Node) -> Option<(String, Pipeline)> {
        let name = self.text(node, "a pipeline")?;
        let (at, text) = match self.registry.pipeline(&name) {
            Some((at, text)) => (at.to_owned(), text.to_owned()),
            None if self.folder.join(&name).is_file() => {
                let source = self.content(node)?;
                (source.name.to_string(), source.text.to_string())
            }
            None => {
                let known: Vec<&str> = self.registry.pipeline_names().collect();
                self.unknown("pipeline", &name, node.span, &known);
                return None;
            }
        };
        match Pipeline::read(&self.registry.scope(), &at, &text) {
            Ok(pipeline) => Some((name, pipeline)),
            Err(mistakes) => {
                self.found.append(mistakes);
                None
            }
        }
    }

    fn cost(&mut self, node: &Node) -> Option<Cost> {
        let plain =
            |name: &str| Cost { name: name.to_owned(), kind: name.to_owned(), text: None, program: None };
        let form = "write a name in quotes, `Prices(name: …, file: …)`, `Learned(name: …, file: …)` or \
                    `Process(name: …, command: …)`";
        match &node.value {
            Value::Str(text) => match text.text.as_str() {
                kind @ ("prices" | "learned" | "process") => {
                    self.mistake(format!("`{kind}` needs more than its name"), node.span, form);
                    None
                }
                name if self.registry.catalog().pricings.get(name).is_some() => Some(plain(name)),
                name => {
                    let known: Vec<&str> = self.registry.catalog().pricings.names().collect();
                    self.unknown("cost model", name, node.span, &known);
                    None
                }
            },
            Value::Struct { name, .. } if ["Prices", "Learned", "Process"].contains(&name.as_str()) => {
                let kind = name.to_lowercase();
                let (what, known) = match kind.as_str() {
                    "process" => ("command", &["name", "command", "timeout"][..]),
                    _ => ("file", &["name", "file"][..]),
                };
                let fields = self.fields(node, name, known, form)?;
                let Some(given) = field(fields, what) else {
                    self.mistake(format!("`{name}` lacks `{what}`"), node.span, form);
                    return None;
                };
                let named = match field(fields, "name") {
                    Some(node) => self.text(node, "`name`")?,
                    None => kind.clone(),
                };
                let (mut text, mut program) = (None, None);
                if kind == "process" {
                    let command = self.text(given, "`command`")?;
                    let seconds = self.number(fields, "timeout", 1, DAY);
                    let patience = seconds.map_or(Invocation::PATIENCE, |seconds| seconds as u64);
                    program = Some(Invocation {
                        folder: Some(self.folder.to_owned()),
                        patience: Duration::from_secs(patience),
                        ..Invocation::new(&command)
                    });
                } else {
                    text = Some(self.content(given)?);
                }
                if let (Some(source), "prices") = (&text, kind.as_str())
                    && let Err(mistakes) = ovolo::cost::PriceList::over_shipped(std::slice::from_ref(source))
                {
                    self.found.append(mistakes);
                    return None;
                }
                Some(Cost { name: named, kind, text, program })
            }
            _ => {
                self.mistake("a cost model should stand here", node.span, form);
                None
            }
        }
    }

    fn extractor(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "an extractor")?;
        let known: Vec<&str> = self.registry.catalog().extractors.names().chain([SAMPLE]).collect();
        if known.contains(&name.as_str()) {
            return Some(name);
        }
        if let Some(feature) = extract::needs(&name, &self.registry.catalog().extractors) {
            self.mistake(
                format!("this build has no extractor `{name}`"),
                node.span,
                format!("build with `--features {feature}`"),
            );
            return None;
        }
        self.unknown("extractor", &name, node.span, &known);
        None
    }

    fn part(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "a part")?;
        if PARTS.contains(&name.as_str()) {
            return Some(name);
        }
        self.unknown("part", &name, node.span, PARTS);
        None
    }

    fn machine(&mut self, node: &Node) -> Option<Machine> {
        let known = ["flops", "memory", "cache", "start"];
        let form = "write `Machine(flops: 2e11, memory: 2e10, cache: 6e10, start: 1e-6)`";
        let fields = self.fields(node, "Machine", &known, form)?;
        let mut speed = |key: &str| match field(fields, key).map(|node| (&node.value, node.span)) {
            Some((Value::Number(number), _)) if *number > 0.0 && number.is_finite() => Some(*number),
            other => {
                let span = other.map_or(node.span, |(_, span)| span);
                self.mistake(format!("`{key}` is a number above zero"), span, form);
                None
            }
        };
        let [flops, memory, cache, start] = known.map(&mut speed);
        Some(Machine { flops: flops?, memory: memory?, cache: cache?, start: start?, ..Machine::NOMINAL })
    }
}

fn field<'n>(fields: &'n [Field], key: &str) -> Option<&'n Node> {
    fields.iter().find(|field| field.key == key).map(|field| &field.node)
}
