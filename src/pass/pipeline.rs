//! Pipelines: which passes run in which order, with their settings, read from `passes/*.ron`.

use crate::cost::Noise;
use crate::error::{Diagnostic, Diagnostics, Source, Span, suggestion};
use crate::extract::Limits;
use crate::memory::Limit;
use crate::plan;
use crate::rule::ron::{self, Field, Node, Value};
use crate::rule::{Precision, Rule, RuleSet};
use crate::subprocess::Invocation;
use crate::tensor::Device;
use std::sync::Arc;

/// The pipelines that ship with ovolo, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("passes/mixed.ron", include_str!("../../passes/mixed.ron")),
    ("passes/native.ron", include_str!("../../passes/native.ron")),
    ("passes/onednn.ron", include_str!("../../passes/onednn.ron")),
    ("passes/cpu.ron", include_str!("../../passes/cpu.ron")),
    ("passes/bf16.ron", include_str!("../../passes/bf16.ron")),
    ("passes/cuda.ron", include_str!("../../passes/cuda.ron")),
    ("passes/cuda-tf32.ron", include_str!("../../passes/cuda-tf32.ron")),
    ("passes/cuda-f16.ron", include_str!("../../passes/cuda-f16.ron")),
    ("passes/cuda-bf16.ron", include_str!("../../passes/cuda-bf16.ron")),
    ("passes/merged.ron", include_str!("../../passes/merged.ron")),
    ("passes/superoptimise.ron", include_str!("../../passes/superoptimise.ron")),
];

/// An ordered list of passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// The passes, in order.
    pub passes: Vec<PassSpec>,
    /// Backends in play.
    pub backends: Vec<String>,
    /// The least precise arithmetic that is allowed.
    pub precision: Precision,
    /// What it was read from.
    pub source: Source,
}

/// A pass and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum PassSpec {
    /// Grows the e-graph by rules.
    Rewrite(Rewrite),
    /// Picks a program.
    Extract(Extract),
    /// Plans memory.
    Plan(Plan),
}

/// Settings of a rewriting pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The pass's name.
    pub name: String,
    /// Rule files or rules.
    pub rules: Vec<String>,
    /// Where they stand in the pipeline's file.
    pub places: Vec<(String, Span)>,
    /// The most rounds.
    pub rounds: usize,
    /// The most e-nodes: so many…
    pub nodes: usize,
    /// …and so many more for each node of the graph.
    pub nodes_per_op: usize,
}

/// Settings of an extraction.
#[derive(Clone, Debug, PartialEq)]
pub struct Extract {
    /// The extractor.
    pub extractor: String,
    /// The cost model.
    pub cost: String,
    /// The formula of the cost model `formula`.
    pub formula: Option<Source>,
    /// The fitted model of the cost model `learned`.
    pub learned: Option<Source>,
    /// How the program of the cost model `process` is started.
    pub process: Option<Invocation>,
    /// How prices are disturbed, to have other good programs.
    pub noise: Option<Noise>,
    /// Limits of the extractor `exact`.
    pub limits: Limits,
    /// Milliseconds that a mebibyte of the host's arena is worth.
    pub memory: f64,
}

/// Settings of a memory plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The order of execution: one of [`ORDERS`](plan::ORDERS).
    pub order: String,
    /// The planner.
    pub planner: String,
    /// The most bytes that the arena of each device may have.
    pub limit: Limit,
}

impl Default for Plan {
    fn default() -> Self {
        Self { order: "reuse".into(), planner: "exact".into(), limit: Limit::default() }
    }
}

/// The settings of each pass: name, and whether it must be written.
const PASSES: &[(&str, &[(&str, bool)])] = &[
    (
        "Rewrite",
        &[("name", true), ("rules", true), ("rounds", false), ("nodes", false), ("nodes-per-op", false)],
    ),
    (
        "Extract",
        &[
            ("extractor", false),
            ("cost", false),
            ("states", false),
            ("beam", false),
            ("work", false),
            ("memory", false),
        ],
    ),
    ("Plan", &[("order", false), ("planner", false), ("limit", false), ("limits", false)]),
];

/// The settings of a pipeline.
const SETTINGS: &[&str] = &["name", "passes", "backends", "precision"];

fn extractors() -> Vec<&'static str> {
    crate::extract::EXTRACTORS.iter().map(|one| one.name()).collect()
}

fn cost_models() -> Vec<&'static str> {
    crate::cost::COST_MODELS.iter().map(|(name, _)| *name).collect()
}

fn planners() -> Vec<&'static str> {
    crate::memory::PLANNERS.iter().map(|one| one.name()).collect()
}

impl Pipeline {
    /// Reads a pipeline.
    ///
    /// # Errors
    /// Every mistake in the file.
    pub fn read(name: &str, text: &str) -> Result<Self, Diagnostics> {
        Self::with(name, text, None)
    }

    /// Reads a pipeline; its phases may name these rules and their files.
    ///
    /// # Errors
    /// Every mistake in the file, and every name of a rule that is none.
    pub fn read_for(name: &str, text: &str, rules: &RuleSet) -> Result<Self, Diagnostics> {
        Self::with(name, text, Some(rules))
    }

    fn with(name: &str, text: &str, rules: Option<&RuleSet>) -> Result<Self, Diagnostics> {
        let mut found = Diagnostics::of(name, text);
        let pipeline = match ron::read(text, 0) {
            Ok(node) => Reader { found: &mut found, rules }.pipeline(&node),
            Err(diagnostic) => {
                found.push(diagnostic);
                None
            }
        };
        match pipeline {
            Some(pipeline) if found.is_empty() => Ok(pipeline),
            _ => {
                found.sort();
                Err(found)
            }
        }
    }

    /// The rules of a phase.
    ///
    /// # Errors
    /// Every name that is none, with its place.
    pub fn select(&self, phase: &Rewrite, rules: &RuleSet) -> Result<Vec<Arc<Rule>>, Diagnostics> {
        self.known([phase], rules)?;
        rules.select(&phase.rules)
    }

    /// Whether every phase names rules that are there, and that round no more than is allowed.
    ///
    /// # Errors
    /// Every name that is none, or that stands for a rule that rounds more, with its place.
    pub fn names(&self, rules: &RuleSet) -> Result<(), Diagnostics> {
        let phases = self.passes.iter().filter_map(|pass| match pass {
            PassSpec::Rewrite(phase) => Some(phase),
            _ => None,
        });
        self.known(phases, rules)
    }

    fn known<'a>(
        &self,
        phases: impl IntoIterator<Item = &'a Rewrite>,
        rules: &RuleSet,
    ) -> Result<(), Diagnostics> {
        let mut found = Diagnostics::new();
        let source = found.add_source(self.source.clone());
        let named = phases.into_iter().flat_map(|phase| phase.rules.iter().map(move |name| (phase, name)));
        for (phase, name) in named {
            let unfit = rules.unknown(name).or_else(|| too_coarse(rules, name, self.precision));
            if let Some(diagnostic) = unfit {
                let place = phase.places.iter().find(|(known, _)| known == name);
                found.push(match place {
                    Some((_, span)) => diagnostic.label(source, *span, ""),
                    None => diagnostic.note(format!("in phase `{}`", phase.name)),
                });
            }
        }
        found.into_result(())
    }
}

/// That a name stands for a rule that rounds more than is allowed.
fn too_coarse(rules: &RuleSet, name: &str, allowed: Precision) -> Option<Diagnostic> {
    let rule = rules.coarser(name, allowed)?;
    let what = if rule.name == name { String::new() } else { format!(" of `{name}`") };
    let message = format!(
        "rule `{}`{what} rounds to {}, and the pipeline's precision is {allowed}",
        rule.name, rule.precision
    );
    let help =
        format!("write `precision: \"{}\"` if the pipeline may round so, or take it away", rule.precision);
    Some(Diagnostic::new(message).help(help))
}

struct Reader<'a> {
    found: &'a mut Diagnostics,
    /// What phases may name, where that is known.
    rules: Option<&'a RuleSet>,
}

impl Reader<'_> {
    fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        self.found.push(Diagnostic::new(message).label(0, span, "").help(help));
    }

    fn known(&mut self, what: &str, name: &str, span: Span, known: &[&str]) -> bool {
        if known.contains(&name) {
            return true;
        }
        let help = suggestion(name, known.iter().copied()).map_or_else(
            || format!("there are {}", known.join(", ")),
            |close| format!("did you mean `{close}`?"),
        );
        self.found
            .push(Diagnostic::new(format!("{what} `{name}` is not known")).label(0, span, "").help(help));
        false
    }

    fn pipeline(&mut self, node: &Node) -> Option<Pipeline> {
        let Value::Struct { name, fields, .. } = &node.value else {
            self.mistake(
                "a pipeline is `Pipeline(…)`",
                node.span,
                "write `Pipeline(name: …, passes: […], backends: […])`",
            );
            return None;
        };
        if name != "Pipeline" {
            self.mistake(
                format!("`{name}` stands where `Pipeline` should"),
                Span::new(node.span.start, node.span.start + name.len()),
                "write `Pipeline(name: …, passes: […], backends: […])`",
            );
            return None;
        }
        for field in fields {
            self.known("setting", &field.key, field.key_span, SETTINGS);
        }
        let head = Span::new(node.span.start, node.span.start + name.len());
        let mut passes = Vec::new();
        let mut unread = false;
        match field(fields, "passes").map(|node| (&node.value, node.span)) {
            Some((Value::List(items), _)) => {
                passes.extend(items.iter().filter_map(|item| Some((self.pass(item)?, item.span))));
                unread = passes.len() < items.len();
            }
            Some((_, span)) => {
                self.mistake("`passes` is a list", span, "write `passes: [Rewrite(…), Extract(), Plan()]`")
            }
            None if !lacks(fields, "passes", SETTINGS) => {}
            None => self.mistake(
                "the pipeline lacks `passes`",
                head,
                "add `passes: [Rewrite(…), Extract(), Plan()]`",
            ),
        }
        let backends = self.texts(fields, "backends").unwrap_or_default();
        let none = |node: &Node| matches!(&node.value, Value::List(items) if items.is_empty());
        if lacks(fields, "backends", SETTINGS) || field(fields, "backends").is_some_and(none) {
            self.mistake(
                "the pipeline lacks `backends`: without one nothing can run",
                head,
                "add `backends: [\"native\"]`",
            );
        }
        for (at, backend) in backends.iter().enumerate() {
            let known: Vec<&str> = crate::backend::BACKENDS.iter().map(|one| one.name()).collect();
            let span = match field(fields, "backends").map(|node| &node.value) {
                Some(Value::List(items)) => items.get(at).map_or(node.span, |item| item.span),
                _ => node.span,
            };
            self.known("backend", backend, span, &known);
        }
        let precision = self.text(fields, "precision");
        if let (Some(name), Some(node)) = (&precision, field(fields, "precision")) {
            self.known("precision", name, node.span, &Precision::ALL.map(Precision::name));
        }
        let precision = precision.and_then(|name| Precision::find(&name)).unwrap_or_default();
        self.coarse(&passes, precision);
        let name = self.text(fields, "name").unwrap_or_default();
        let unnamed = |node: &Node| matches!(&node.value, Value::Str(text) if text.text.is_empty());
        if lacks(fields, "name", SETTINGS) || field(fields, "name").is_some_and(unnamed) {
            self.mistake("the pipeline lacks `name`", head, "add `name: \"…\"`");
        }
        // A pass that could not be read may have been the one that is missed.
        let before =
            passes.iter().filter(|_| !unread).take_while(|(pass, _)| !matches!(pass, PassSpec::Extract(_)));
        if let Some((_, at)) = before.into_iter().find(|(pass, _)| matches!(pass, PassSpec::Plan(_))) {
            let help =
                "put `Extract(…)` before `Plan(…)`: memory is planned for the kernels that were chosen";
            let message = "`Plan` stands where nothing has been chosen";
            self.mistake(message, *at, help);
        }
        let mut seen: Vec<(&str, Span)> = Vec::new();
        // One without a name is a mistake that has been told.
        let nameless =
            |pass: &PassSpec| matches!(pass, PassSpec::Rewrite(rewrite) if rewrite.name.is_empty());
        for (pass, span) in passes.iter().filter(|(pass, _)| !nameless(pass)) {
            let name = match pass {
                PassSpec::Rewrite(rewrite) => rewrite.name.as_str(),
                PassSpec::Extract(_) => "extract",
                PassSpec::Plan(_) => "plan",
            };
            let first = seen.iter().find(|(known, _)| *known == name);
            let diagnostic = Diagnostic::new(match first {
                Some(_) => format!("two stages are called `{name}`"),
                None if name == "import" => "`import` is the stage before all passes".to_owned(),
                None => {
                    seen.push((name, *span));
                    continue;
                }
            });
            let diagnostic = diagnostic.label(0, *span, "").help(match pass {
                PassSpec::Rewrite(_) => "give it another `name`",
                _ => "take one of them away",
            });
            self.found.push(match first {
                Some((_, first)) => diagnostic.label(0, *first, "the first"),
                None => diagnostic,
            });
        }
        let passes = passes.into_iter().map(|(pass, _)| pass).collect();
        let source = self.found.sources().first()?.clone();
        Some(Pipeline { name, passes, backends, precision, source })
    }

    /// That no phase names a rule that rounds more than the pipeline allows.
    fn coarse(&mut self, passes: &[(PassSpec, Span)], precision: Precision) {
        let Some(rules) = self.rules else { return };
        for (pass, _) in passes {
            let PassSpec::Rewrite(phase) = pass else { continue };
            for (name, span) in &phase.places {
                if let Some(diagnostic) = too_coarse(rules, name, precision) {
                    self.found.push(diagnostic.label(0, *span, ""));
                }
            }
        }
    }

    fn pass(&mut self, node: &Node) -> Option<PassSpec> {
        let Value::Struct { name, fields, .. } = &node.value else {
            self.mistake(
                "a pass is `Name(setting: …)`",
                node.span,
                "write `Rewrite(…)`, `Extract()` or `Plan()`",
            );
            return None;
        };
        let head = Span::new(node.span.start, node.span.start + name.len());
        let names: Vec<&str> = PASSES.iter().map(|(name, _)| *name).collect();
        if !self.known("pass", name, head, &names) {
            return None;
        }
        let settings =
            PASSES.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, settings)| *settings);
        let known: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
        for field in fields {
            self.known(&format!("setting of `{name}`"), &field.key, field.key_span, &known);
        }
        for (setting, _) in
            settings.iter().filter(|(setting, required)| *required && lacks(fields, setting, &known))
        {
            self.mistake(format!("`{name}` lacks `{setting}`"), head, format!("add `{setting}: …`"));
        }
        Some(match name.as_str() {
            "Rewrite" => PassSpec::Rewrite(Rewrite {
                name: self.text(fields, "name").unwrap_or_default(),
                rules: self.texts(fields, "rules").unwrap_or_default(),
                places: self.rules(fields),
                rounds: self.count(fields, "rounds", 0).unwrap_or(8),
                nodes: self.count(fields, "nodes", 0).unwrap_or(20_000),
                nodes_per_op: self.count(fields, "nodes-per-op", 0).unwrap_or(200),
            }),
            "Extract" => PassSpec::Extract(Extract {
                extractor: self.choice(fields, "extractor", "exact", &extractors()),
                cost: self.choice(fields, "cost", "roofline", &cost_models()),
                formula: None,
                learned: None,
                process: None,
                noise: None,
                limits: Limits {
                    states: self.count(fields, "states", 2).unwrap_or(Limits::DEFAULT.states),
                    beam: self.count(fields, "beam", 2).unwrap_or(Limits::DEFAULT.beam),
                    work: self.count(fields, "work", 1).unwrap_or(Limits::DEFAULT.work),
                    ..Limits::DEFAULT
                },
                memory: self.amount(fields, "memory").unwrap_or(0.0),
            }),
            _ => PassSpec::Plan(Plan {
                order: self.choice(fields, "order", "reuse", plan::ORDERS),
                planner: self.choice(fields, "planner", "exact", &planners()),
                limit: self.limit(fields),
            }),
        })
    }

    fn text(&mut self, fields: &[Field], key: &str) -> Option<String> {
        let node = field(fields, key)?;
        match &node.value {
            Value::Str(text) => Some(text.text.clone()),
            _ => {
                self.mistake(
                    format!("`{key}` is text in quotes"),
                    node.span,
                    format!("write `{key}: \"…\"`"),
                );
                None
            }
        }
    }

    /// One name out of a list.
    fn choice(&mut self, fields: &[Field], key: &str, otherwise: &str, known: &[&str]) -> String {
        let Some(text) = self.text(fields, key) else { return otherwise.into() };
        if let Some(node) = field(fields, key) {
            self.known(key, &text, node.span, known);
        }
        text
    }

    fn texts(&mut self, fields: &[Field], key: &str) -> Option<Vec<String>> {
        let node = field(fields, key)?;
        let Value::List(items) = &node.value else {
            self.mistake(
                format!("`{key}` is a list of texts in quotes"),
                node.span,
                format!("write `{key}: [\"…\"]`"),
            );
            return None;
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Str(text) => texts.push(text.text.clone()),
                _ => self.mistake(
                    format!("an entry of `{key}` is text in quotes"),
                    item.span,
                    "put it in quotes",
                ),
            }
        }
        Some(texts)
    }

    fn amount(&mut self, fields: &[Field], key: &str) -> Option<f64> {
        let node = field(fields, key)?;
        match node.value {
            Value::Number(value) if value >= 0.0 && value.is_finite() => Some(value),
            _ => {
                self.mistake(
                    format!("`{key}` is a number, zero or more"),
                    node.span,
                    format!("write milliseconds for a mebibyte, such as `{key}: 0.5`"),
                );
                None
            }
        }
    }

    /// The names of rules with their places; mistakes where they name nothing.
    fn rules(&mut self, fields: &[Field]) -> Vec<(String, Span)> {
        let Some(Value::List(items)) = field(fields, "rules").map(|node| &node.value) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for item in items {
            let Value::Str(text) = &item.value else { continue };
            let unknown = self.rules.and_then(|rules| rules.unknown(&text.text));
            if let Some(diagnostic) = unknown {
                self.found.push(diagnostic.label(0, item.span, ""));
            }
            places.push((text.text.clone(), item.span));
        }
        places
    }

    /// The limit of the host's arena, and those of devices by their names.
    fn limit(&mut self, fields: &[Field]) -> Limit {
        let mut limit = Limit::from(self.count(fields, "limit", 0));
        let texts = self.texts(fields, "limits").unwrap_or_default();
        let span = field(fields, "limits").map_or(Span::at(0), |node| node.span);
        for text in texts {
            let read = text.split_once('=').and_then(|(device, bytes)| {
                Some((device.trim().parse::<Device>().ok()?, bytes.trim().parse::<usize>().ok()?))
            });
            match read {
                Some((device, _)) if limit.of(device).is_some() => {
                    self.mistake(format!("{device} has two limits"), span, "leave one of the two out")
                }
                Some((device, bytes)) => limit = limit.with(device, bytes),
                None => self.mistake(
                    format!("`{text}` is no limit of a device"),
                    span,
                    "write a device and bytes, such as `limits: [\"cuda:0=1048576\"]`",
                ),
            }
        }
        limit
    }

    fn count(&mut self, fields: &[Field], key: &str, least: usize) -> Option<usize> {
        let node = field(fields, key)?;
        match node.value {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Value::Number(value) if value >= 0.0 && value.fract() == 0.0 && value < 1e15 => {
                if (value as usize) < least {
                    let diagnostic = Diagnostic::new(format!("`{key}` is {least} at the least"));
                    self.found.push(
                        diagnostic
                            .label(0, node.span, "")
                            .help(format!("write `{key}: {least}` or more, or leave it out")),
                    );
                    return None;
                }
                Some(value as usize)
            }
            _ => {
                self.mistake(
                    format!("`{key}` is a whole number"),
                    node.span,
                    format!("write `{key}: {least}` or more, or leave it out"),
                );
                None
            }
        }
    }
}

/// Whether a setting is not there, and none that is misspelt was meant for it.
fn lacks(fields: &[Field], key: &str, known: &[&str]) -> bool {
    let meant = |field: &&Field| {
        !known.contains(&field.key.as_str()) && suggestion(&field.key, known.iter().copied()) == Some(key)
    };
    field(fields, key).is_none() && !fields.iter().any(|field| meant(&field))
}

fn field<'a>(fields: &'a [Field], key: &str) -> Option<&'a Node> {
    fields.iter().find(|field| field.key == key).map(|field| &field.node)
}
