//! How a price comes about: the words of a list that were evaluated for it, each with its case and its value.

use super::expression::Scope;
use super::trace::{Entry, Trace};
use super::{Machine, PriceList, Priced, Query};

impl PriceList {
    /// Returns the words that give the seconds of a kernel: each on a line, with its value, its case, and the numbers that
    /// the case reads, and below it, indented, the words that the case needs and that were not evaluated before.
    pub(super) fn account(&self, machine: &Machine, query: &Query<'_>, priced: Priced) -> Vec<String> {
        let mut scope = Scope { trace: Some(Trace::default()), ..self.scope(machine, Some(query), priced) };
        self.evaluate_seconds(&mut scope);
        let entries = scope.trace.map(|trace| trace.entries).unwrap_or_default();
        entries.iter().map(|entry| self.line(entry)).collect()
    }

    fn line(&self, entry: &Entry) -> String {
        let list = |values: &[f64]| values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", ");
        let name = &self.words[entry.word].name;
        let called =
            if entry.arguments.is_empty() { String::new() } else { format!("({})", list(&entry.arguments)) };
        let case = match entry.place {
            Some((file, span)) => {
                let source = &self.files[file].source;
                let line = source.text[..span.start].matches('\n').count() + 1;
                let text = span
                    .slice(&source.text)
                    .trim_matches('"')
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                format!("{}  [{}:{line}]", shortened(text), source.name)
            }
            None => "no case fits".to_owned(),
        };
        let reads = entry.reads.iter().map(|(name, value)| format!("{name} = {}", number(*value)));
        let reads: Vec<String> = reads.collect();
        let reads = if reads.is_empty() { String::new() } else { format!("  with {}", reads.join(", ")) };
        format!("{}{name}{called} = {}: {case}{reads}", "  ".repeat(entry.depth), number(entry.value))
    }
}

/// The most characters of a case that are shown. Fitted corrections have far more; the numbers that they read, and their
/// place, are beside them.
const SHOWN: usize = 160;

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text,
    }
}

/// Writes a number with four figures.
fn number(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e6 {
        format!("{value}")
    } else if (1e-2..1e6).contains(&size) {
        let figures = (4 - 1 - size.log10().floor() as i32).max(0);
        format!("{value:.*}", usize::try_from(figures).unwrap_or(0))
    } else {
        format!("{value:.3e}")
    }
}
