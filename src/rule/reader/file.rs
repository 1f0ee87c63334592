//! The reader of whole rule files and of their files of examples.

use super::example::Beside;
use super::{Reader, in_rule};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::ron;
use crate::rule::gone::Gone;
use crate::rule::{Rule, Vocabulary, example};
use std::collections::{HashMap, HashSet};

/// Reads rule files. Returns the rules, and those that are left out. Adds mistakes to `found`.
pub(in crate::rule) fn read(
    vocabulary: Vocabulary<'_>,
    files: &[(&str, &str)],
    found: &mut Diagnostics,
) -> (Vec<Rule>, Vec<Gone>) {
    // Mistakes are reported in the order of the files, and rules with the same name need all of them.
    by_threads(vocabulary, files).unwrap_or_else(|| in_order(vocabulary, files, found))
}

/// The most threads that read rule files. The longest file takes about as long as this part of all.
const THREADS: usize = 4;

/// Reads rule files by several threads; `None` if there are mistakes in them, or if there is only one processor.
fn by_threads(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> Option<(Vec<Rule>, Vec<Gone>)> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS);
    if threads < 2 {
        return None;
    }
    let all: usize = files.iter().map(|(_, text)| text.len()).sum();
    // Each part has consecutive files, and the examples of these rules.
    let mut parts: Vec<Vec<(&str, &str)>> = Vec::new();
    let mut bytes = 0;
    let is_examples = |name: &str| files.iter().any(|(rules, _)| example::beside(rules) == name);
    for (name, text) in files.iter().filter(|(name, _)| !is_examples(name)) {
        if parts.len() <= bytes * threads / all.max(1) {
            parts.push(Vec::new());
        }
        let examples = example::beside(name);
        let own = files.iter().filter(|(other, _)| *other == examples);
        let part = parts.last_mut()?;
        for (name, text) in own.chain([&(*name, *text)]) {
            part.push((name, text));
            bytes += text.len();
        }
    }
    let read = |part: &[(&str, &str)]| {
        let mut found = Diagnostics::new();
        let read = in_order(vocabulary, part, &mut found);
        found.is_empty().then_some(read)
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = parts.iter().skip(1).map(|part| scope.spawn(|| read(part))).collect();
        let first = parts.first().and_then(|part| read(part));
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::iter::once(first).chain(others.into_iter().map(join)).collect()
    });
    let (mut rules, mut gone) = (Vec::new(), Vec::new());
    for part in done {
        let (more, left_out) = part?;
        rules.extend(more);
        gone.extend(left_out);
    }
    let mut names = HashSet::new();
    rules.iter().all(|rule: &Rule| names.insert(&rule.name)).then_some(())?;
    Some((rules, gone))
}

/// Reads rule files one after the other.
fn in_order(
    vocabulary: Vocabulary<'_>,
    files: &[(&str, &str)],
    found: &mut Diagnostics,
) -> (Vec<Rule>, Vec<Gone>) {
    let (mut rules, mut gone) = (Vec::new(), Vec::new());
    let mut names: HashMap<String, (usize, Span)> = HashMap::new();
    let names_of_examples: Vec<(String, &str)> =
        files.iter().map(|(rules, _)| (example::beside(rules), *rules)).collect();
    let rules_of = |name: &str| names_of_examples.iter().find(|(examples, _)| examples == name);
    for (name, text) in files.iter().filter(|(name, _)| rules_of(name).is_none()) {
        let examples = example::beside(name);
        let examples = files.iter().find(|(name, _)| *name == examples);
        let source = found.add_source(Source::new(*name, *text));
        if is_blank(text) {
            found.push(
                Diagnostic::new("the rule file is empty")
                    .label(source, Span::new(0, text.len()), "")
                    .help("write `[Rule(name: …, from: …, to: …), …]`, or remove the file"),
            );
            continue;
        }
        let ships = vocabulary.ships(name, text);
        let before = found.len();
        let mut file = ron::Reader::new(found, source);
        let text = file.mend(text);
        let items = file.items(&text, "Rule").or_else(|| {
            let value = file.document(&text)?;
            let help = "write `[Rule(name: …, from: …, to: …), …]`";
            file.mistake("a rule file is a list of rules", value.span(), help);
            None
        });
        found.since(before).for_each(|diagnostic| {
            let at = diagnostic.labels.first().map_or(0, |label| label.span.start);
            diagnostic.notes.extend(rule_at(&text, at).map(in_rule));
        });
        let items = items.unwrap_or_default();
        if let Some(item) = items.iter().find(|item| item.name() == Some("Examples")) {
            let diagnostic = Diagnostic::new("these are examples, and the file of their rules is not read")
                .label(source, item.head(), "")
                .help(
                    "name the rule file, `FILE.ron` for `examples/FILE.ron`: its examples are read with it",
                );
            found.push(diagnostic);
            continue;
        }
        let beside = examples.map(|(name, text)| Beside::read(found, name, text)).unwrap_or_default();
        let (mut law, mut written) = (String::new(), Vec::new());
        for item in items {
            // A comment applies to all rules up to the next blank line.
            if item.follows_a_gap() || !item.comment().is_empty() {
                law = item.comment();
            }
            let rule = String::new();
            let (values, left_out) = (Vec::new(), Vec::new());
            let mut reader = Reader { vocabulary, found, source, file: name, ships, rule, values, left_out };
            let made = reader.rules(item, &law, &beside, &mut written);
            reader.named_once(&made, &mut names);
            gone.append(&mut reader.left_out);
            rules.extend(made.into_iter().map(|(rule, _)| rule));
        }
        // The rows of a rule that could not be read are not known.
        if found.len() == before {
            beside.fitting(found, name, &written);
        }
    }
    (rules, gone)
}

/// Returns whether a text contains only blanks and comments.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with("//"))
}

/// Returns the name of the rule at a position in a text that cannot be read: the last rule that begins before it.
fn rule_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let rule = &text[before.rfind("Rule(")?..];
    let after = rule[rule.find("name")? + "name".len()..].trim_start().strip_prefix(':')?;
    let name = after.trim_start().strip_prefix('"')?.split('"').next()?;
    Some(name).filter(|name| !name.is_empty() && !name.contains('\n'))
}
