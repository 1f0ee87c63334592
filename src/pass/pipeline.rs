//! Pipelines: which passes run in which order, with their settings, read from `passes/*.ron`.

use crate::error::{Diagnostic, Diagnostics, Span, suggestion};
use crate::extract::Limits;
use crate::rule::ron::{self, Field, Node, Value};

/// The pipelines that ship with ovolo, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("passes/native.ron", include_str!("../../passes/native.ron")),
    ("passes/onednn.ron", include_str!("../../passes/onednn.ron")),
    ("passes/cpu.ron", include_str!("../../passes/cpu.ron")),
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
    pub precision: String,
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
    /// Limits of the extractor `exact`.
    pub limits: Limits,
    /// Milliseconds that a mebibyte of the arena is worth.
    pub memory: f64,
}

/// Settings of a memory plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The order of execution: `peak` or `given`.
    pub order: String,
    /// The planner.
    pub planner: String,
    /// The most bytes that the arena may have.
    pub limit: Option<usize>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { order: "peak".into(), planner: "exact".into(), limit: None }
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
    ("Plan", &[("order", false), ("planner", false), ("limit", false)]),
];

/// The orders of execution.
const ORDERS: &[&str] = &["peak", "given"];

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
        let mut found = Diagnostics::of(name, text);
        let pipeline = match ron::read(text, 0) {
            Ok(node) => Reader { found: &mut found }.pipeline(&node),
            Err(diagnostic) => {
                found.push(diagnostic);
                None
            }
        };
        match pipeline {
            Some(pipeline) if found.is_empty() => Ok(pipeline),
            _ => Err(found),
        }
    }
}

struct Reader<'a> {
    found: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn mistake(&mut self, message: impl Into<String>, span: Span) {
        self.found.push(Diagnostic::new(message).label(0, span, ""));
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
            self.mistake("a pipeline is `Pipeline(name: …, passes: […], backends: […])`", node.span);
            return None;
        };
        if name != "Pipeline" {
            self.mistake(
                format!("`{name}` stands where `Pipeline` should"),
                Span::new(node.span.start, node.span.start + name.len()),
            );
            return None;
        }
        for field in fields {
            self.known("setting", &field.key, field.key_span, &["name", "passes", "backends", "precision"]);
        }
        let mut passes = Vec::new();
        match field(fields, "passes").map(|node| (&node.value, node.span)) {
            Some((Value::List(items), _)) => passes.extend(items.iter().filter_map(|item| self.pass(item))),
            Some((_, span)) => self.mistake("`passes` is a list", span),
            None => self.mistake("the pipeline lacks `passes`", node.span),
        }
        let backends = self.texts(fields, "backends").unwrap_or_default();
        if backends.is_empty() && self.found.is_empty() {
            self.mistake("the pipeline lacks `backends`: without one nothing can run", node.span);
        }
        for (at, backend) in backends.iter().enumerate() {
            let known: Vec<&str> = crate::backend::BACKENDS.iter().map(|one| one.name()).collect();
            let span = match field(fields, "backends").map(|node| &node.value) {
                Some(Value::List(items)) => items.get(at).map_or(node.span, |item| item.span),
                _ => node.span,
            };
            self.known("backend", backend, span, &known);
        }
        let precision = self.text(fields, "precision").unwrap_or_else(|| "f32".into());
        if let Some(node) = field(fields, "precision") {
            self.known("precision", &precision, node.span, &["f32"]);
        }
        let name = self.text(fields, "name").unwrap_or_default();
        if name.is_empty() {
            self.mistake("the pipeline lacks `name`", Span::new(node.span.start, node.span.start + 8));
        }
        let is_plan = |pass: &PassSpec| matches!(pass, PassSpec::Plan(_));
        let is_extract = |pass: &PassSpec| matches!(pass, PassSpec::Extract(_));
        if passes.iter().take_while(|pass| !is_extract(pass)).any(is_plan) {
            let help =
                "put `Extract(…)` before `Plan(…)`: memory is planned for the kernels that were chosen";
            let message = "`Plan` stands where nothing has been chosen";
            let at = field(fields, "passes").map_or(node.span, |node| node.span);
            self.found.push(Diagnostic::new(message).label(0, at, "").help(help));
        }
        let mut seen: Vec<&str> = Vec::new();
        for pass in &passes {
            let name = match pass {
                PassSpec::Rewrite(rewrite) => rewrite.name.as_str(),
                PassSpec::Extract(_) => "extract",
                PassSpec::Plan(_) => "plan",
            };
            if seen.contains(&name) || name == "import" {
                self.mistake(format!("two stages are called `{name}`"), node.span);
            }
            seen.push(name);
        }
        Some(Pipeline { name, passes, backends, precision })
    }

    fn pass(&mut self, node: &Node) -> Option<PassSpec> {
        let Value::Struct { name, fields, .. } = &node.value else {
            self.mistake("a pass is `Name(setting: …)`", node.span);
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
            settings.iter().filter(|(setting, required)| *required && field(fields, setting).is_none())
        {
            self.mistake(format!("`{name}` lacks `{setting}`"), head);
        }
        Some(match name.as_str() {
            "Rewrite" => PassSpec::Rewrite(Rewrite {
                name: self.text(fields, "name").unwrap_or_default(),
                rules: self.texts(fields, "rules").unwrap_or_default(),
                rounds: self.count(fields, "rounds", 0).unwrap_or(8),
                nodes: self.count(fields, "nodes", 0).unwrap_or(20_000),
                nodes_per_op: self.count(fields, "nodes-per-op", 0).unwrap_or(200),
            }),
            "Extract" => PassSpec::Extract(Extract {
                extractor: self.choice(fields, "extractor", "exact", &extractors()),
                cost: self.choice(fields, "cost", "roofline", &cost_models()),
                limits: Limits {
                    states: self.count(fields, "states", 2).unwrap_or(Limits::DEFAULT.states),
                    beam: self.count(fields, "beam", 2).unwrap_or(Limits::DEFAULT.beam),
                    work: self.count(fields, "work", 1).unwrap_or(Limits::DEFAULT.work),
                    ..Limits::DEFAULT
                },
                memory: self.amount(fields, "memory").unwrap_or(0.0),
            }),
            _ => PassSpec::Plan(Plan {
                order: self.choice(fields, "order", "peak", ORDERS),
                planner: self.choice(fields, "planner", "exact", &planners()),
                limit: self.count(fields, "limit", 0),
            }),
        })
    }

    fn text(&mut self, fields: &[Field], key: &str) -> Option<String> {
        let node = field(fields, key)?;
        match &node.value {
            Value::Str(text) => Some(text.text.clone()),
            _ => {
                self.mistake(format!("`{key}` is text in quotes"), node.span);
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
            self.mistake(format!("`{key}` is a list of texts in quotes"), node.span);
            return None;
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Str(text) => texts.push(text.text.clone()),
                _ => self.mistake(format!("an entry of `{key}` is text in quotes"), item.span),
            }
        }
        Some(texts)
    }

    fn amount(&mut self, fields: &[Field], key: &str) -> Option<f64> {
        let node = field(fields, key)?;
        match node.value {
            Value::Number(value) if value >= 0.0 && value.is_finite() => Some(value),
            _ => {
                self.mistake(format!("`{key}` is a number, zero or more"), node.span);
                None
            }
        }
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
                self.mistake(format!("`{key}` is a whole number"), node.span);
                None
            }
        }
    }
}

fn field<'a>(fields: &'a [Field], key: &str) -> Option<&'a Node> {
    fields.iter().find(|field| field.key == key).map(|field| &field.node)
}
