//! The reference for authors of price lists. It is written from the lists that the reader uses for its checks.

use super::expression::FUNCTIONS;
use super::parse::FORMS;
use super::quantity::{MEASURES, SPEEDS, texts};
use crate::cost::feature::BASIC;
use std::fmt::Write;

/// Returns everything that a price list can use, as Markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "# Reference for authors of price lists\n\nWritten by `ovolo costs reference` from the lists that price lists \
         are checked against; a test holds that it is true.\n",
    );
    let mut table = |title: &str, rows: &mut dyn Iterator<Item = (String, &str)>| {
        let _ = write!(text, "\n## {title}\n\n| Written | Is |\n|---|---|\n");
        for (written, is) in rows {
            let _ = writeln!(text, "| `{written}` | {} |", is.replace('|', "\\|"));
        }
    };
    table("Fields of a case", &mut texts().map(|text| (format!("{}: \"…\"", text.name), text.doc)));
    table("Speeds of the machine", &mut SPEEDS.iter().map(|speed| (speed.name.to_owned(), speed.doc)));
    let features = BASIC.iter().filter(|feature| feature.is_number());
    table("Features of a kernel", &mut features.map(|feature| (feature.name.to_owned(), feature.doc)));
    let measures = MEASURES.iter().map(|measure| {
        let argument = if measure.takes { ", number" } else { "" };
        (format!("{}(operand{argument})", measure.name), measure.doc)
    });
    table("Measures of an operand (`in0`, `in1`, …) or of the result (`out`)", &mut measures.into_iter());
    table("Other forms", &mut FORMS.iter().map(|(_, form, doc)| ((*form).to_owned(), *doc)));
    let functions = FUNCTIONS.iter().map(|function| {
        let written = match (function.name, function.arity, function.variadic) {
            ("not", ..) => "not a".to_owned(),
            (sign, 2, false) if !sign.starts_with(|c: char| c.is_alphabetic()) => format!("a {sign} b"),
            (name, _, true) => format!("{name}(a, b, …)"),
            (name, 2, false) => format!("{name}(a, b)"),
            (name, ..) => format!("{name}(a)"),
        };
        (written, function.doc)
    });
    table("Operators and functions of numbers", &mut functions.into_iter());
    text
}
