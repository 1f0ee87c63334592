//! The extractors of an experiment.

use super::form::OfProgram;
use super::reader::Reader;
use super::{Chooser, SAMPLE};
use ovolo::extract;
use ovolo::pass::choosing::ByProgram;
use ovolo::ron::{Raw, Text};

const FORM: &str = "write a name in quotes, or `Process(name: …, command: …)`";

impl Reader<'_> {
    /// Returns an extractor, which is written as a name or as a call with arguments.
    pub(super) fn extractor(&mut self, raw: Raw<'_>) -> Option<Chooser> {
        if let Some(name) = Text::parse(raw) {
            return self.known_extractor(&name);
        }
        if raw.name() != Some("Process") {
            self.ron.mistake("an extractor should stand here", raw.span(), FORM);
            return None;
        }
        let form: OfProgram = self.ron.settings(raw, &[])?;
        if let Some(batch) = &form.batch {
            self.ron.mistake("`batch` is for cost models", batch.span, "leave it out");
        }
        let program = ByProgram::new(self.program(&form, ByProgram::PATIENCE));
        Some(Chooser { name: form.name.unwrap_or_else(|| "process".to_owned()), program: Some(program) })
    }

    /// Returns an extractor that has no arguments.
    fn known_extractor(&mut self, name: &Text) -> Option<Chooser> {
        let span = name.value_span();
        let name = name.text.as_str();
        let extractors = &self.registry.catalog().extractors;
        if name == SAMPLE || extractors.get(name).is_some_and(|kind| (kind.plain)().lacks().is_none()) {
            return Some(Chooser { name: name.to_owned(), program: None });
        }
        if extractors.get(name).is_some() {
            self.ron.mistake(format!("`{name}` needs more than its name"), span, FORM);
            return None;
        }
        match extract::needs(name, extractors) {
            Some(feature) => {
                let message = format!("this build has no extractor `{name}`");
                self.ron.mistake(message, span, format!("build with `--features {feature}`"));
            }
            None => {
                let known: Vec<&str> = extractors.names().chain([SAMPLE]).collect();
                self.unknown("extractor", name, span, &known);
            }
        }
        None
    }
}
