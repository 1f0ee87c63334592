//! The reader of whole rule files and of their files of examples.

use super::example::Beside;
use super::{Reader, in_rule};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::ron;
use crate::rule::gone::Gone;
use crate::rule::{Rule, Vocabulary, example};
use std::collections::HashMap;

/// Reads rule files. Returns the rules, and those that are left out. Adds mistakes to `found`.
pub(in crate::rule) fn read(
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
