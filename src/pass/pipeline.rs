//! Pipelines: the passes in their order, with their settings, read from `passes/*.ron`.

use super::{Extract, Pass, PassKind, PlanMemory, Rewrite, Scope};
use crate::error::{Diagnostic, Diagnostics, Error, Source, Span};
use crate::onnx::UNROLL;
use crate::ron::{Raw, Reader, Spanned, fields_of};
use crate::rule::{Precision, Rule, RuleSet};
use serde::Deserialize;
use std::any::Any;
use std::sync::Arc;

/// An ordered list of passes.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The name.
    pub name: String,
    /// The passes, in order.
    pub passes: Vec<Arc<dyn Pass>>,
    /// The enabled backends.
    pub backends: Vec<String>,
    /// The lowest precision of arithmetic that is allowed.
    pub precision: Precision,
    /// What rules may assume of values. Those that assume more are left out of the files that phases name.
    pub assume: Vec<&'static str>,
    /// The most nodes that the iterations of a loop may have together to become part of the graph around it. Iterations of a
    /// longer loop are regions that share one plan.
    pub unroll: usize,
    /// The text from which the pipeline was read.
    pub source: Source,
}

/// A pipeline as it is written in a file.
#[derive(Deserialize)]
#[serde(default, rename = "Pipeline")]
#[derive(Default)]
struct Written<'a> {
    name: Spanned<String>,
    #[serde(borrow)]
    passes: Vec<Raw<'a>>,
    backends: Vec<Spanned<String>>,
    precision: Option<Spanned<String>>,
    assume: Vec<Spanned<String>>,
    unroll: Option<usize>,
}

impl Pipeline {
    /// Returns the names of the fields of a pipeline in a file, in order.
    pub fn fields() -> &'static [&'static str] {
        fields_of::<Written<'_>>()
    }

    /// Reads a pipeline, which may use the names in the scope.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn read(scope: &Scope<'_>, name: &str, text: &str) -> Result<Self, Diagnostics> {
        let source = Source::new(name, text);
        let mut found = Diagnostics::new();
        let at = found.add_source(source.clone());
        let mut reader = Reader::new(&mut found, at);
        let text = reader.mend(text);
        let pipeline = reader.document(&text).and_then(|raw| {
            let written = reader.read(raw)?;
            pipeline(&mut reader, raw, written, scope, source)
        });
        match pipeline {
            Some(pipeline) if found.is_empty() => Ok(pipeline),
            _ => {
                found.sort();
                Err(found)
            }
        }
    }

    /// Returns the passes of this type, in order.
    pub(crate) fn passes_of<T: Pass>(&self) -> impl Iterator<Item = &T> {
        self.passes.iter().filter_map(|pass| pass.get())
    }

    /// Returns the first pass of this type, to change its settings.
    pub(crate) fn pass_mut<T: Pass + Clone>(&mut self) -> Option<&mut T> {
        self.passes_mut().next()
    }

    /// Returns the passes of this type, in order, to change their settings.
    pub fn passes_mut<T: Pass + Clone>(&mut self) -> impl Iterator<Item = &mut T> {
        self.passes.iter_mut().filter_map(|pass| {
            let own = pass.get::<T>()?.clone();
            *pass = Arc::new(own);
            let pass: &mut dyn Any = Arc::get_mut(pass)?;
            pass.downcast_mut()
        })
    }

    /// Returns the phases of rewriting, in order.
    pub fn rewrites(&self) -> impl Iterator<Item = &Rewrite> {
        self.passes_of()
    }

    /// Returns the extraction, if there is one.
    pub fn extract(&self) -> Option<&Extract> {
        self.passes_of().next()
    }

    /// Returns the extraction.
    ///
    /// # Errors
    /// If the pipeline has none.
    pub fn extraction(&self) -> Result<&Extract, Error> {
        self.extract().ok_or_else(|| self.without("Extract", "nothing is chosen"))
    }

    /// Returns the error that a pass is absent, with what follows from that.
    pub(crate) fn without(&self, pass: &'static str, effect: &'static str) -> Error {
        Error::NoPass { file: Arc::clone(&self.source.name), pipeline: self.name.clone(), pass, effect }
    }

    /// Returns the extraction, to change its settings.
    pub fn extract_mut(&mut self) -> Option<&mut Extract> {
        self.pass_mut()
    }

    /// Returns the memory plan.
    pub(crate) fn plan(&self) -> Option<&PlanMemory> {
        self.passes_of().next()
    }

    /// Returns the memory plan, to change its settings.
    pub fn plan_mut(&mut self) -> Option<&mut PlanMemory> {
        self.pass_mut()
    }

    /// Returns the rules of a phase.
    ///
    /// # Errors
    /// All unknown names, with their positions.
    pub fn select(&self, phase: &Rewrite, rules: &RuleSet) -> Result<Vec<Arc<Rule>>, Diagnostics> {
        self.known([phase], rules)?;
        let names: Vec<String> = phase.rules.iter().map(|name| name.value.clone()).collect();
        let mut selected = rules.select(&names)?;
        selected.retain(|rule| rule.fits(&self.assume));
        Ok(selected)
    }

    /// Checks that all phases name rules that exist and are as precise as the pipeline requires.
    ///
    /// # Errors
    /// All names that are unknown or belong to a less precise rule, with their positions.
    pub fn names(&self, rules: &RuleSet) -> Result<(), Diagnostics> {
        self.known(self.rewrites(), rules)
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
            let unfit = rules
                .unknown(name)
                .or_else(|| too_coarse(rules, name, self.precision))
                .or_else(|| too_bold(rules, name, &self.assume));
            if let Some(diagnostic) = unfit {
                // A name without a position in a file comes from the command line or from a program.
                found.push(match name.span == Span::default() {
                    true => diagnostic.note(format!("in phase `{}`", phase.name)),
                    false => diagnostic.label(source, name.span, ""),
                });
            }
        }
        found.into_result(())
    }
}

/// Returns the mistake if a name belongs to a rule that is less precise than allowed.
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

/// Returns the mistake if all rules with a name assume more than allowed.
fn too_bold(rules: &RuleSet, name: &str, allowed: &[&str]) -> Option<Diagnostic> {
    let rule = rules.bolder(name, allowed)?;
    let more: Vec<String> = rule.assumes.iter().map(|one| format!("\"{one}\"")).collect();
    let more = more.join(", ");
    let message = match rule.name == name {
        true => format!("rule `{name}` assumes {more}, and the pipeline does not"),
        false => format!("each rule of `{name}` assumes {more}, and the pipeline does not"),
    };
    let help = format!("write `assume: [{more}]` if the pipeline may assume so, or take the name away");
    Some(Diagnostic::new(message).help(help))
}

/// Returns a pipeline from those parts of the text that are valid.
fn pipeline(
    reader: &mut Reader<'_>,
    raw: Raw<'_>,
    written: Written<'_>,
    scope: &Scope<'_>,
    source: Source,
) -> Option<Pipeline> {
    lacking(reader, raw, &written);
    let backends: Vec<&str> = scope.catalog.backends.names().collect();
    for backend in &written.backends {
        reader.known("backend", backend, &backends);
    }
    let precision = written
        .precision
        .filter(|name| reader.known("precision", name, &Precision::ALL.map(Precision::name)));
    let precision = precision.and_then(|name| Precision::find(&name)).unwrap_or_default();
    let assume = written.assume.iter().filter(|name| reader.known("assumption", name, &Rule::ASSUMPTIONS));
    let find = |name: &Spanned<String>| Rule::ASSUMPTIONS.into_iter().find(|known| known == &name.as_str());
    let assume: Vec<&'static str> = assume.filter_map(find).collect();
    let all = written.passes.len();
    let passes: Vec<(Arc<dyn Pass>, Span)> = written
        .passes
        .into_iter()
        .filter_map(|pass| Some((PassKind::read(reader, pass, scope)?, pass.span())))
        .collect();
    let rewrites = passes.iter().filter_map(|(pass, _)| pass.get::<Rewrite>());
    for name in rewrites.flat_map(|rewrite| &rewrite.rules) {
        let unfit = |rules| too_coarse(rules, name, precision).or_else(|| too_bold(rules, name, &assume));
        if let Some(diagnostic) = scope.rules.and_then(unfit) {
            reader.push_at(diagnostic, name.span);
        }
    }
    // A pass that could not be read may be the one that is missing, so nothing more is reported.
    let chosen = passes.iter().position(|(pass, _)| pass.get::<Extract>().is_some());
    let planned = passes.iter().position(|(pass, _)| pass.get::<PlanMemory>().is_some());
    if let Some(planned) =
        planned.filter(|planned| all == passes.len() && chosen.is_none_or(|at| at > *planned))
    {
        let help = "put `Extract(…)` before `Plan(…)`: memory is planned for the kernels that were chosen";
        reader.mistake("`Plan` stands where nothing has been chosen", passes[planned].1, help);
    }
    let after = chosen.map_or(&[][..], |chosen| &passes[chosen..]);
    if let Some((_, span)) = after.iter().find(|(pass, _)| pass.get::<Rewrite>().is_some()) {
        let help =
            "put `Rewrite(…)` before `Extract(…)`: it grows the e-graph that the extraction chooses from";
        reader.mistake("`Rewrite` stands where a program has been chosen already", *span, help);
    }
    named_once(reader, &passes);
    let unroll = written.unroll.unwrap_or(UNROLL);
    let passes = passes.into_iter().map(|(pass, _)| pass).collect();
    let backends = written.backends.into_iter().map(|backend| backend.value).collect();
    Some(Pipeline { name: written.name.value, passes, backends, precision, assume, unroll, source })
}

/// Reports each required field that is missing. A field that could not be read is already reported.
fn lacking(reader: &mut Reader<'_>, raw: Raw<'_>, written: &Written<'_>) {
    let head = raw.head();
    let mut lacks = |key: &str, message: &str, help: &str| {
        let meant = |key: &str| raw.meant(key, &["name", "passes", "backends", "precision", "assume"]);
        match raw.field(key) {
            Some(value) if value.is_empty() => reader.mistake(message, value.span(), help),
            None if !meant(key) => reader.mistake(message, head, help),
            _ => {}
        }
    };
    if written.name.is_empty() {
        lacks("name", "the pipeline lacks `name`", "add `name: \"…\"`");
    }
    if written.passes.is_empty() {
        lacks("passes", "the pipeline lacks `passes`", "add `passes: [Rewrite(…), Extract(), Plan()]`");
    }
    if written.backends.is_empty() {
        let message = "the pipeline lacks `backends`: without one nothing can run";
        lacks("backends", message, "add `backends: [\"native\"]`");
    }
}

/// Reports each pass with the same name as another one, or with the name of the stage before all passes.
fn named_once(reader: &mut Reader<'_>, passes: &[(Arc<dyn Pass>, Span)]) {
    for (at, (pass, span)) in passes.iter().enumerate() {
        let name = pass.name();
        let first = passes[..at].iter().find(|(other, _)| other.name() == name);
        let message = match first {
            Some(_) => format!("two stages are called `{name}`"),
            None if name == "import" => "`import` is the stage before all passes".to_owned(),
            None => continue,
        };
        let help = match pass.get::<Rewrite>() {
            Some(_) => "give it another `name`",
            None => "remove one of them",
        };
        reader.mistake_beside(message, *span, first.map(|(_, first)| (*first, "the first")), help);
    }
}
