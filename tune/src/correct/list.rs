//! Corrections as the text of a price list.

use super::Kind;
use super::table::{COLUMNS, short};
use super::tree::Tree;
use ovolo::ron::{self, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns the text of a price list, in the form of `ovolo fmt`.
pub(super) fn write(kinds: &BTreeMap<Kind, Tree>, fitted_on: &str) -> String {
    let backends: BTreeSet<&str> = kinds.keys().filter_map(|(op, _)| Some(op.split_once('.')?.0)).collect();
    let backends: Vec<String> = backends.iter().map(|backend| format!("\"{backend}.*\"")).collect();
    let mut text = String::from(
        "// How much longer kernels take than the roofline estimates, by kind and regime. Written by `ovolo costs fit`; do\n\
         // not edit it: change the other lists, or fit again.\n",
    );
    let _ = write!(
        text,
        "Prices(\n    ops: [{}],\n    fitted_on: {fitted_on:?},\n    define: {{\n        \"correction\": [\n",
        backends.join(", ")
    );
    // The longest beginning of a name comes first, because the first case that fits is taken.
    let mut order: Vec<(&Kind, &Tree)> = kinds.iter().collect();
    order.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(b.1.len().cmp(&a.1.len())).then(a.1.cmp(&b.1)));
    for ((op, implementation), tree) in order {
        let value = match tree {
            Tree::Leaf(factor, _) => factor_text(*factor),
            Tree::Split(..) => format!("\"{}\"", expression(tree)),
        };
        let _ = writeln!(
            text,
            "            Case(op: {op:?}, implementation: {:?}, value: {value}),",
            format!("{implementation}*")
        );
    }
    text.push_str("            Case(value: 1.0),\n        ],\n    },\n)\n");
    ron::format("corrections", &text, Style::of).expect("the text is that of a price list")
}

fn expression(tree: &Tree) -> String {
    match tree {
        Tree::Leaf(factor, _) => factor_text(*factor),
        Tree::Split(column, limit, parts) => {
            format!(
                "if({} < {}, {}, {})",
                COLUMNS[*column],
                short(*limit),
                expression(&parts[0]),
                expression(&parts[1])
            )
        }
    }
}

/// Writes a factor with three figures at most.
fn factor_text(factor: f64) -> String {
    let text = format!("{factor:.2}");
    if text == "0.00" { format!("{factor:.3}") } else { text }
}
