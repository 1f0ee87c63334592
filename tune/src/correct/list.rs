//! Corrections as the text of a price list.

use super::Kind;
use super::spread::Spreads;
use super::table::{COLUMNS, short};
use super::tree::Tree;
use ovolo::ron::{self, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns the text of a price list, in the form of `ovolo fmt`.
pub(super) fn write(kinds: &BTreeMap<Kind, Tree>, spreads: &Spreads, fitted_on: &str) -> String {
    let of_both = || kinds.keys().chain(spreads.kinds.keys());
    let backends: BTreeSet<&str> = of_both().filter_map(|(op, _)| Some(op.split_once('.')?.0)).collect();
    let backends: Vec<String> = backends.iter().map(|backend| format!("\"{backend}.*\"")).collect();
    let mut text = String::from(
        "// How much longer kernels take than the roofline estimates, by kind and regime, and how uncertain this is, by\n\
         // kind. Written by `ovolo costs fit`; do not edit it: change the other lists, or fit again.\n",
    );
    let _ = write!(
        text,
        "Prices(\n    ops: [{}],\n    fitted_on: {fitted_on:?},\n    define: {{\n",
        backends.join(", ")
    );
    text.push_str("        \"correction\": [\n");
    for (kind, tree) in in_order(kinds) {
        let value = match tree {
            Tree::Leaf(factor, _) => factor_text(*factor),
            Tree::Split(..) => format!("\"{}\"", expression(tree)),
        };
        text.push_str(&case(kind, &value));
    }
    text.push_str("            Case(value: 1.0),\n        ],\n");
    if let Some(all) = spreads.all {
        text.push_str("        \"uncertainty\": [\n");
        for (kind, spread) in in_order(&spreads.kinds) {
            text.push_str(&case(kind, &format!("{spread:.2}")));
        }
        let _ = writeln!(text, "            Case(value: {all:.2}),\n        ],");
    }
    text.push_str("    },\n)\n");
    ron::format("corrections", &text, Style::of).expect("the text is that of a price list")
}

/// The longest beginning of a name comes first, because the first case that fits is taken.
fn in_order<T>(kinds: &BTreeMap<Kind, T>) -> Vec<(&Kind, &T)> {
    let mut order: Vec<(&Kind, &T)> = kinds.iter().collect();
    order.sort_by(|((a, one), _), ((b, other), _)| {
        a.cmp(b).then(other.len().cmp(&one.len())).then(one.cmp(other))
    });
    order
}

fn case((op, implementation): &Kind, value: &str) -> String {
    format!(
        "            Case(op: {op:?}, implementation: {:?}, value: {value}),\n",
        format!("{implementation}*")
    )
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
