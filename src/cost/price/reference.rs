//! The reference for authors of price lists. It is written from the lists that the reader uses for its checks.

use super::PriceList;
use super::expression::FUNCTIONS;
use super::parse::FORMS;
use super::quantity::{MEASURES, SPEEDS, texts};
use crate::cost::feature::BASIC;
use std::fmt::Write;

/// The fields of a file.
const FILE: &[(&str, &str)] = &[
    (
        "ops: \"conv*\"",
        "the ops to which the file applies, a pattern or a list of patterns; all ops if it is left out. `*` stands for any \
         end of a name, here and in cases",
    ),
    ("fitted_on: \"…\"", "what its prices were fitted on, for readers"),
    (
        "define: {\"share\": \"0.8\", \"filling(size)\": \"…\"}",
        "words, with parameters or without. A definition is a number, an expression in quotes, or a list of cases",
    ),
    (
        "[Case(op: \"…\", when: \"…\", value: \"…\"), …]",
        "cases: the first one whose texts fit and whose condition `when` holds gives the value. If none does, the files \
         before this one are asked, so a file of your own can replace a single case of a shipped one",
    ),
    (
        "tables: {\"functions\": {\"exp\": 20}}",
        "tables of numbers by name, for `functions_of(table)`; rows of a later file replace those of an earlier one",
    ),
];

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
    let fields = FILE.iter().map(|(field, is)| ((*field).to_owned(), *is));
    table("Fields of `Prices(…)`", &mut fields.into_iter());
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
    text.push_str(
        "\n## Words of the shipped lists\n\nThe price of a kernel is `seconds`, and the price of a copy is `copy(size)`. The \
         others are parts of them, and each can be replaced. `ovolo costs show NAME` prints a list with its comments.\n\n\
         | Word | Defined in |\n|---|---|\n",
    );
    let list = PriceList::shipped();
    for word in &list.words {
        let parameters = match word.parameters {
            0 => String::new(),
            1 => "(size)".to_owned(),
            count => format!("({} numbers)", count),
        };
        let files: Vec<String> =
            word.definitions.iter().map(|one| format!("`{}`", list.files[one.file].source.name)).collect();
        let _ = writeln!(text, "| `{}{parameters}` | {} |", word.name, files.join(", "));
    }
    text
}
