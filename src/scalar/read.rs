//! The reader of tables of functions.

use super::parse::{Scope, parse};
use super::{Definition, Function, Operator, Parameter, Setting};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::ron::{Entries, Raw, Reader, Spanned, Text};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::sync::OnceLock;

/// A row as it is written in a file.
#[derive(Deserialize)]
#[serde(rename = "Function")]
struct Row {
    name: Spanned<String>,
    doc: String,
    #[serde(default)]
    parameters: Vec<ParameterRow>,
    formula: Text,
    #[serde(default)]
    derivative: Option<Text>,
    #[serde(default)]
    derivative_y: Option<Text>,
    #[serde(default)]
    commutative: Option<Spanned<bool>>,
    #[serde(default)]
    onnx: Vec<OperatorRow>,
}

#[derive(Deserialize)]
#[serde(rename = "Parameter")]
struct ParameterRow {
    name: Spanned<String>,
    default: f64,
    doc: String,
    #[serde(default)]
    whole: bool,
}

#[derive(Deserialize)]
#[serde(rename = "Operator")]
struct OperatorRow {
    name: String,
    #[serde(default)]
    when: Entries<String, Setting>,
    #[serde(default)]
    defaults: Entries<String, Setting>,
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let text = || Text::parse(raw).map(|text| Self::Text(kept(&text.text)));
        let value = raw.number().map(Self::Number).or_else(text);
        value
            .ok_or_else(|| D::Error::custom("must be a number, or text in quotes\nwrite `1.0` or `\"tanh\"`"))
    }
}

/// Returns a text that lives until the process ends, as definitions do.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// Reads a table. Its formulas may use the functions in `before`. Mistakes are added to `found`, and a row with a
/// mistake is left out.
pub fn read(source: &Source, before: &[Function], found: &mut Diagnostics) -> Vec<Function> {
    let at = found.add_source(source.clone());
    let mut reader = Reader::new(found, at);
    let text = reader.mend(&source.text);
    let Some(items) = reader.items(&text, "Function") else {
        if let Some(raw) = reader.document(&text) {
            let help = "write `[Function(name: …, doc: …, formula: …), …]`";
            reader.mistake("a table of functions is a list", raw.span(), help);
        }
        return Vec::new();
    };
    let mut known = before.to_vec();
    for raw in items {
        let Some(row) = reader.read::<Row>(raw) else { continue };
        known.extend(Table { reader: &mut reader, source: at, known: &known }.function(row));
    }
    known.split_off(before.len())
}

struct Table<'a, 'f> {
    reader: &'a mut Reader<'f>,
    source: usize,
    known: &'a [Function],
}

impl Table<'_, '_> {
    fn function(&mut self, row: Row) -> Option<Function> {
        let name = kept(&row.name.value);
        let mut right = self.kebab(&row.name);
        let taken = |one: &Function| {
            one.name() == name || one.reversed_name() == Some(name) || one.join_name() == Some(name)
        };
        if self.known.iter().any(taken) {
            let help = "give one of them another name";
            self.reader.mistake(format!("there are two functions named `{name}`"), row.name.span, help);
            right = false;
        }
        for (at, one) in row.parameters.iter().enumerate() {
            right &= self.kebab(&one.name);
            let earlier = row.parameters[..at].iter().any(|other| other.name.value == one.name.value);
            if earlier || ["x", "y"].contains(&one.name.value.as_str()) {
                let message = format!("`{}` is the name of something else", one.name.value);
                self.reader.mistake(message, one.name.span, "give the parameter another name");
                right = false;
            }
        }
        let parameters = row.parameters.into_iter().map(|one| Parameter {
            name: kept(&one.name.value),
            default: one.default,
            doc: kept(&one.doc),
            whole: one.whole,
        });
        let parameters: Vec<Parameter> = parameters.collect();
        let formula = self.formula(&row.formula, Scope { parameters: &parameters, functions: self.known })?;
        let operands = if formula.contains(&super::Formula::Y) { 2 } else { 1 };
        let claim = row.commutative.filter(|claim| claim.value);
        let commutative = claim.is_some();
        if let Some(claim) = claim {
            right &= self.commutes(&formula, &parameters, claim.span);
        }
        if !right {
            return None;
        }
        let operators = row.onnx.into_iter().map(operator).collect();
        let function = Function::define(Definition {
            name,
            doc: kept(&row.doc),
            parameters,
            formula,
            operands,
            commutative,
            derivatives: [OnceLock::new(), OnceLock::new()],
            reversed: kept(&format!("r{name}")),
            join: kept(&format!("pop-{name}")),
            operators,
            primitives: OnceLock::new(),
        });
        // A derivative may use the function itself.
        for (operand, text) in [row.derivative, row.derivative_y].into_iter().enumerate() {
            let Some(text) = text else { continue };
            let functions: Vec<Function> = self.known.iter().copied().chain([function]).collect();
            let scope = Scope { parameters: function.parameters(), functions: &functions };
            let derivative = self.formula(&text, scope)?;
            function.0.derivatives[operand].get_or_init(|| derivative);
        }
        Some(function)
    }

    /// Checks a claim that the operands may be swapped, for a few pairs of numbers.
    fn commutes(&mut self, formula: &super::Formula, parameters: &[Parameter], span: Span) -> bool {
        let given: Vec<f64> = parameters.iter().map(|one| one.default).collect();
        let sides = |[x, y]: [f64; 2]| (formula.evaluate(&given, &[x, y]), formula.evaluate(&given, &[y, x]));
        let differ = |pair: &[f64; 2]| {
            let (one, other) = sides(*pair);
            one != other && !(one.is_nan() && other.is_nan())
        };
        let pairs = [[1.0, 2.0], [0.0, 1.0], [-3.5, 0.25], [7.0, -2.0], [-1.0, -4.0], [0.5, 1000.0]];
        let Some(pair) = pairs.into_iter().find(differ) else { return true };
        let ([x, y], (one, other)) = (pair, sides(pair));
        let message = format!("the value for x = {x}, y = {y} is {one}, and {other} with them swapped");
        self.reader.mistake(message, span, "remove `commutative`");
        false
    }

    fn formula(&mut self, text: &Text, scope: Scope<'_>) -> Option<super::Formula> {
        match parse(&text.text, scope) {
            Ok(formula) => Some(formula),
            Err(mistake) => {
                let diagnostic = Diagnostic::new(mistake.message)
                    .label(self.source, text.span(mistake.range), "")
                    .help(mistake.help);
                self.reader.push(diagnostic);
                None
            }
        }
    }

    /// Checks that a name consists of words of lower-case letters and digits, joined by `-`.
    fn kebab(&mut self, name: &Spanned<String>) -> bool {
        let word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        let right =
            name.value.split('-').all(word) && name.value.starts_with(|c: char| c.is_ascii_lowercase());
        if !right {
            let message = format!("`{}` is not in kebab case", name.value);
            self.reader.mistake(message, name.span, "write words in lower case, with `-` between them");
        }
        right
    }
}

fn operator(row: OperatorRow) -> Operator {
    let settings = |entries: Entries<String, Setting>| {
        entries.0.into_iter().map(|(name, value)| (kept(&name), value)).collect()
    };
    Operator { name: kept(&row.name), when: settings(row.when), defaults: settings(row.defaults) }
}
