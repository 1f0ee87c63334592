//! The cost models of an experiment.

use super::Cost;
use super::form::{OfFile, OfProgram};
use super::reader::Reader;
use ovolo::error::Source;
use ovolo::pass::pricing::ByProgram;
use ovolo::ron::{Raw, Text};
use ovolo::subprocess::Invocation;
use std::time::Duration;

const FORM: &str = "write a name in quotes, `Prices(name: …, file: …)`, `Learned(name: …, file: …)` or \
                    `Process(name: …, command: …)`";
/// The seconds of a day: the longest time limit for a subprocess.
const DAY: usize = 86_400;

impl Reader<'_> {
    /// Returns a cost model, which is written as a name or as a call with arguments.
    pub(super) fn cost(&mut self, raw: Raw<'_>) -> Option<Cost> {
        if let Some(name) = Text::parse(raw) {
            return self.named(&name);
        }
        match raw.name() {
            Some("Prices") => self.of_file(raw, "prices"),
            Some("Learned") => self.of_file(raw, "learned"),
            Some("Process") => self.of_program(raw),
            _ => {
                self.ron.mistake("a cost model should stand here", raw.span(), FORM);
                None
            }
        }
    }

    /// Returns a cost model that has no arguments.
    fn named(&mut self, name: &Text) -> Option<Cost> {
        let span = name.value_span();
        let name = name.text.as_str();
        if matches!(name, "prices" | "learned" | "process") {
            self.ron.mistake(format!("`{name}` needs more than its name"), span, FORM);
            return None;
        }
        let pricings = &self.registry.catalog().pricings;
        if pricings.get(name).is_none() {
            let known: Vec<&str> = pricings.names().collect();
            self.unknown("cost model", name, span, &known);
            return None;
        }
        Some(Cost { name: name.to_owned(), kind: name.to_owned(), text: None, program: None })
    }

    fn of_file(&mut self, raw: Raw<'_>, kind: &str) -> Option<Cost> {
        let OfFile { name, file } = self.ron.settings(raw, &[])?;
        let text = self.content(&file)?;
        if kind == "prices" {
            self.prices(&text)?;
        }
        let name = name.unwrap_or_else(|| kind.to_owned());
        Some(Cost { name, kind: kind.to_owned(), text: Some(text), program: None })
    }

    /// Checks that a price list is valid on top of those of the registry, and names only ops that exist.
    fn prices(&mut self, text: &Source) -> Option<()> {
        let prices = &self.registry.catalog().prices;
        let list = prices.with(std::slice::from_ref(text));
        match list.and_then(|list| list.check_ops(self.registry.ops(), prices.sources().count())) {
            Ok(()) => Some(()),
            Err(mistakes) => {
                self.ron.found().append(mistakes);
                None
            }
        }
    }

    fn of_program(&mut self, raw: Raw<'_>) -> Option<Cost> {
        let form: OfProgram = self.ron.settings(raw, &[])?;
        let program = self.program(&form, Invocation::PATIENCE);
        let batch = form.batch.is_some_and(|batch| batch.value);
        let name = form.name.unwrap_or_else(|| "process".to_owned());
        let program = Some(ByProgram::new(program, batch));
        Some(Cost { name, kind: "process".to_owned(), text: None, program })
    }

    /// Returns how a program is started, which by default may take so many seconds for an answer.
    pub(super) fn program(&mut self, form: &OfProgram, seconds: u64) -> Invocation {
        let patience =
            self.within("timeout", form.timeout, 1..=DAY).map_or(seconds, |seconds| seconds as u64);
        Invocation {
            folder: Some(self.folder.to_owned()),
            patience: Duration::from_secs(patience),
            ..Invocation::new(&form.command)
        }
    }
}
