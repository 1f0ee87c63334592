//! Writes the reference for rule authors from the same lists that the reader checks against, so they cannot
//! differ.

use ovolo::op::{Arity, AttrDef};
use ovolo::registry::Registry;
use ovolo::rule::{self, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the ops of a registry with their operands and attributes, its guards, and its computed attributes,
/// as Markdown.
pub fn markdown(registry: &Registry) -> String {
    let mut text = String::from(
        "# Reference for rule authors\n\nWritten by `ovolo rules reference` from the lists that rules are checked \
         against; a test holds that it is true.\n",
    );
    let functions = |text: &mut String, guards: bool| {
        text.push_str(if guards {
            "\n| Guard | |\n|---|---|\n"
        } else {
            "\n| Function | Gives | |\n|---|---|---|\n"
        });
        let mut list: Vec<_> =
            registry.words().all().filter(|function| function.is_guard() == guards).collect();
        list.sort_by_key(|function| function.name);
        for function in list {
            let gives = if guards { String::new() } else { format!(" {} |", function.gives) };
            let _ = writeln!(text, "| `{}` |{gives} {} |", function.signature(), cell(function.doc));
        }
    };
    text.push_str("\n## Fields of a rule\n\n| Field | Is |\n|---|---|\n");
    for (field, means) in Rule::FIELDS {
        let _ = writeln!(text, "| `{field}` | {} |", cell(means));
    }
    text.push_str("\n## Operands on a left side\n\n| Written | Means |\n|---|---|\n");
    for (written, means) in rule::OPERANDS {
        let _ = writeln!(text, "| `{written}` | {} |", cell(means));
    }
    text.push_str("\n## Kinds of arguments\n\n| Kind | Is |\n|---|---|\n");
    for (kind, means) in rule::KINDS {
        let _ = writeln!(text, "| {kind} | {} |", cell(means));
    }
    text.push_str(
        "\nAn attribute that the left binds, `{axis: ?a}`, is of the kind that its op declares, below.\n",
    );
    text.push_str("\n## Guards\n");
    functions(&mut text, true);
    text.push_str("\n## Computed attributes\n");
    functions(&mut text, false);
    for (title, lowered) in [("Ops", false), ("Lowered ops", true)] {
        let _ = writeln!(text, "\n## {title}\n\n| Op | Operands | Attributes | |\n|---|---|---|---|");
        for def in registry.ops().all().iter().filter(|def| def.is_lowered() == lowered) {
            let attrs: Vec<String> = def.attrs.iter().map(attribute).collect();
            let (operands, attrs) = (operands(def.arity), attrs.join(", "));
            let _ = writeln!(text, "| `{}` | {operands} | {attrs} | {} |", def.name, cell(def.doc));
        }
    }
    text.push_str("\n## Attributes\n\n");
    text.push_str("What the attributes of ops mean: their order, length and range. Kinds and defaults are in the tables above.\n\n");
    text.push_str("| Attribute | Of | Is |\n|---|---|---|\n");
    for ((name, doc), ops) in attributes(registry) {
        let ops: Vec<String> = ops.iter().map(|op| format!("`{op}`")).collect();
        let _ = writeln!(text, "| `{name}` | {} | {} |", ops.join(", "), cell(doc));
    }
    text
}

/// Returns the ops that have each attribute, by its name and its meaning. A lowered op has those of the op that it
/// computes, and is left out where that has the same.
fn attributes(registry: &Registry) -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut all: BTreeMap<(&'static str, &'static str), Vec<&'static str>> = BTreeMap::new();
    for def in registry.ops().all() {
        for attr in &def.attrs {
            all.entry((attr.name, attr.doc)).or_default().push(def.name);
        }
    }
    for ops in all.values_mut() {
        let logical: Vec<&'static str> = ops.clone();
        let lowered = |name: &str| registry.ops().get(name).filter(|op| op.is_lowered());
        ops.retain(|name| lowered(name).is_none_or(|op| !logical.contains(&op.meaning())));
    }
    all
}

/// Returns how many operands an op takes, as the reference says it.
pub fn operands(arity: Arity) -> String {
    match arity {
        Arity::Exactly(count) => count.to_string(),
        Arity::AtLeast(count) => format!("{count} or more"),
        Arity::Between(least, most) => format!("{least} to {most}: `?x?` for the last"),
        Arity::Post(count) => format!("{count}, and those of `post`"),
    }
}

/// Returns the declaration of an attribute, as the reference says it: its name, its kind, its default.
pub fn attribute(attr: &AttrDef) -> String {
    let default = attr.default.as_ref().map(|value| format!(" = `{value}`")).unwrap_or_default();
    format!("`{}`: {:?}{default}", attr.name, attr.kind)
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
