//! The formula model: seconds as an expression over the features of a kernel, in a RON file.
//!
//! ```ron
//! Formula(
//!     // The first case whose pattern fits the op; `seconds` for all others.
//!     cases: [Case(ops: "*.conv*", seconds: "1e-6 + flops / 1.5e11")],
//!     seconds: "start + max(flops / 2e10, bytes / memory)",
//!     copy: "start + 2 * bytes / cache",
//! )
//! ```
//! Expressions have numbers, features that are numbers, the machine's speeds (`peak`, `memory`, `cache`,
//! `start`), `+ - * / ^`, and `max min sqrt log2 ceil floor abs`. All mistakes of a file are told at once.

use super::feature::FEATURES;
use super::{CostModel, Machine, Query, fits};
use crate::error::{Diagnostic, Diagnostics, Source, Span, suggestion};
use crate::rule::ron::{self, Field, Node, Text, Value};

/// The model `formula`.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    machine: Machine,
    cases: Vec<(String, Expr)>,
    seconds: Expr,
    copy: Option<Expr>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Number(f64),
    /// A feature, by its place in the list.
    Feature(usize),
    /// A speed, by its place in [`SPEEDS`].
    Speed(usize),
    Call(&'static Function, Vec<Expr>),
    /// An expression, and what is done with it from the left to the right: one list, so that no sum is too
    /// long to be walked through.
    Chain(Box<Expr>, Vec<(&'static Function, Expr)>),
}

/// A speed of the machine, for formulas.
type Speed = (&'static str, fn(&Machine) -> f64);

const SPEEDS: &[Speed] = &[
    ("peak", |machine| machine.flops),
    ("memory", |machine| machine.memory),
    ("cache", |machine| machine.cache),
    ("start", |machine| machine.start),
];

#[derive(Debug)]
struct Function {
    name: &'static str,
    /// How many arguments; more where it takes any number.
    least: usize,
    any: bool,
    of: fn(&[f64]) -> f64,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn function(name: &'static str, least: usize, any: bool, of: fn(&[f64]) -> f64) -> Function {
    Function { name, least, any, of }
}

/// Every function; the operators have names that cannot be written.
static FUNCTIONS: &[Function] = &[
    function("+", 2, false, |values| values[0] + values[1]),
    function("-", 2, false, |values| values[0] - values[1]),
    function("*", 2, false, |values| values[0] * values[1]),
    function("/", 2, false, |values| values[0] / values[1]),
    function("^", 2, false, |values| values[0].powf(values[1])),
    function("max", 1, true, |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    function("min", 1, true, |values| values.iter().copied().fold(f64::INFINITY, f64::min)),
    function("sqrt", 1, false, |values| values[0].sqrt()),
    function("log2", 1, false, |values| values[0].log2()),
    function("ceil", 1, false, |values| values[0].ceil()),
    function("floor", 1, false, |values| values[0].floor()),
    function("abs", 1, false, |values| values[0].abs()),
];

impl Expr {
    fn eval(&self, machine: &Machine, feature: &dyn Fn(usize) -> f64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Feature(at) => feature(*at),
            Self::Speed(at) => SPEEDS[*at].1(machine),
            Self::Call(function, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|one| one.eval(machine, feature)).collect();
                (function.of)(&values)
            }
            Self::Chain(first, rest) => {
                rest.iter().fold(first.eval(machine, feature), |sum, (function, one)| {
                    (function.of)(&[sum, one.eval(machine, feature)])
                })
            }
        }
    }
}

impl CostModel for Formula {
    fn name(&self) -> &'static str {
        "formula"
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let case = self.cases.iter().find(|(ops, _)| fits(ops, query.call.op.name));
        let expr = case.map_or(&self.seconds, |(_, expr)| expr);
        let feature = |at: usize| FEATURES[at].number(query).unwrap_or(f64::NAN);
        Some(expr.eval(&self.machine, &feature)).filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
    }

    #[allow(clippy::cast_precision_loss)]
    fn copy(&self, bytes: usize) -> f64 {
        let Some(expr) = &self.copy else { return self.machine.copy(bytes) };
        // Only `bytes` may stand in it.
        expr.eval(&self.machine, &|_| bytes as f64).max(0.0)
    }

    fn lacking(&self) -> String {
        "its formula must give a finite number of seconds, zero or more, for every kernel".to_owned()
    }
}

impl Formula {
    /// Reads a formula for a machine.
    ///
    /// # Errors
    /// All mistakes, each with its place.
    pub fn read(source: &Source, machine: &Machine) -> Result<Self, Diagnostics> {
        let mut found = Diagnostics::new();
        let at = found.add_source(source.clone());
        let node = match ron::read(&source.text, at) {
            Ok(node) => node,
            Err(error) => {
                found.push(error);
                return Err(found);
            }
        };
        let mut reader = Reader { found: &mut found };
        let formula = reader.formula(&node, machine);
        match formula {
            Some(formula) if found.is_empty() => Ok(formula),
            _ => {
                found.sort();
                Err(found)
            }
        }
    }
}

struct Reader<'a> {
    found: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        self.found.push(Diagnostic::new(message).label(0, span, "").help(help));
    }

    fn structure<'n>(&mut self, node: &'n Node, name: &str, known: &[&str]) -> Option<&'n [Field]> {
        let form = format!("write `{name}({}: …)`", known.join(": …, "));
        match &node.value {
            Value::Struct { name: given, fields, .. } if given == name => {
                for field in fields.iter().filter(|field| !known.contains(&field.key.as_str())) {
                    let near = suggestion(&field.key, known.iter().copied());
                    let help = near.map_or(form.clone(), |near| format!("did you mean `{near}`?"));
                    self.mistake(format!("`{name}` has no `{}`", field.key), field.key_span, help);
                }
                Some(fields)
            }
            _ => {
                self.mistake(format!("`{name}(…)` should stand here"), node.span, form);
                None
            }
        }
    }

    fn formula(&mut self, node: &Node, machine: &Machine) -> Option<Formula> {
        let fields = self.structure(node, "Formula", &["cases", "seconds", "copy"])?;
        let find = |key: &str| fields.iter().find(|field| field.key == key).map(|field| &field.node);
        let mut cases = Vec::new();
        match find("cases").map(|node| (&node.value, node.span)) {
            None => {}
            Some((Value::List(items), _)) => {
                for item in items {
                    cases.extend(self.case(item));
                }
            }
            Some((_, span)) => {
                self.mistake("`cases` is a list", span, "write `cases: [Case(ops: …, seconds: …)]`");
            }
        }
        let seconds = match find("seconds") {
            Some(node) => self.expr(node, &|_| true),
            None => {
                self.mistake("`Formula` lacks `seconds`", node.span, "add `seconds: \"…\"`");
                None
            }
        };
        let copy = find("copy").and_then(|node| self.expr(node, &|name| name == "bytes"));
        Some(Formula { machine: *machine, cases, seconds: seconds?, copy })
    }

    fn case(&mut self, node: &Node) -> Option<(String, Expr)> {
        let fields = self.structure(node, "Case", &["ops", "seconds"])?;
        let find = |key: &str| fields.iter().find(|field| field.key == key).map(|field| &field.node);
        let ops = match find("ops").map(|node| (&node.value, node.span)) {
            Some((Value::Str(text), _)) => Some(text.text.clone()),
            other => {
                let span = other.map_or(node.span, |(_, span)| span);
                self.mistake("`ops` is a pattern in quotes", span, "write `ops: \"native.conv*\"`");
                None
            }
        };
        let seconds = match find("seconds") {
            Some(node) => self.expr(node, &|_| true),
            None => {
                self.mistake("`Case` lacks `seconds`", node.span, "add `seconds: \"…\"`");
                None
            }
        };
        Some((ops?, seconds?))
    }

    /// An expression in quotes, or a number.
    fn expr(&mut self, node: &Node, allowed: &dyn Fn(&str) -> bool) -> Option<Expr> {
        match &node.value {
            Value::Number(number) => Some(Expr::Number(*number)),
            Value::Str(text) => {
                let mut parser = Parser { text, at: 0, depth: 0, allowed };
                let parsed =
                    parser.sum().and_then(|expr| {
                        parser.space();
                        match parser.rest().chars().next() {
                            None => Ok(expr),
                            Some(other) => Err(parser
                                .wrong(format!("`{other}` follows the end"), "write an operator before it")),
                        }
                    });
                parsed.map_err(|(message, span, help)| self.mistake(message, span, help)).ok()
            }
            _ => {
                self.mistake("an expression is text in quotes", node.span, "write `\"flops / 2e11\"`");
                None
            }
        }
    }
}

/// What is wrong, where, and what to do.
type Wrong = (String, Span, String);

struct Parser<'a> {
    text: &'a Text,
    at: usize,
    depth: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

/// How deep expressions may stand in each other: they are read by recursion.
const DEPTH: usize = 100;

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn wrong(&self, message: impl Into<String>, help: impl Into<String>) -> Wrong {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        (message.into(), self.text.span(self.at..self.at + length), help.into())
    }

    fn eat(&mut self, tokens: &[char]) -> Option<char> {
        self.space();
        let found = self.rest().chars().next().filter(|first| tokens.contains(first))?;
        self.at += found.len_utf8();
        Some(found)
    }

    fn sum(&mut self) -> Result<Expr, Wrong> {
        self.chain(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Expr, Wrong> {
        self.chain(&['*', '/'], Self::factor)
    }

    /// Operands with operators of one rank between them.
    fn chain(
        &mut self,
        signs: &[char],
        operand: impl Fn(&mut Self) -> Result<Expr, Wrong>,
    ) -> Result<Expr, Wrong> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(sign) = self.eat(signs) {
            rest.push((operator(sign.encode_utf8(&mut [0; 4])), operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn factor(&mut self) -> Result<Expr, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.wrong("expressions stand too deep in each other", "take parentheses away"));
        }
        let expr = if self.eat(&['-']).is_some() {
            call("-", vec![Expr::Number(0.0), self.factor()?])
        } else {
            let base = self.atom()?;
            match self.eat(&['^']) {
                Some(_) => call("^", vec![base, self.factor()?]),
                None => base,
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn atom(&mut self) -> Result<Expr, Wrong> {
        if self.eat(&['(']).is_some() {
            let expr = self.sum()?;
            self.close()?;
            return Ok(expr);
        }
        self.space();
        let start = self.at;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let mut length = self.rest().find(|c| !word(c)).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.wrong("a number, a feature or a function is missing here", "write `flops`, say"));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            // The sign of an exponent.
            if self.rest()[..length].ends_with(['e', 'E']) && self.rest()[length..].starts_with(['+', '-']) {
                let digits = self.rest()[length + 1..].find(|c: char| !c.is_ascii_digit());
                length = digits.map_or(self.rest().len(), |digits| length + 1 + digits);
            }
            let digits = &self.rest()[..length];
            let span = self.text.span(start..start + length);
            let number = digits.parse().map_err(|_| {
                (format!("`{digits}` is no number"), span, "write digits, such as `2e11`".to_owned())
            })?;
            self.at += length;
            return Ok(Expr::Number(number));
        }
        let name = self.rest()[..length].to_owned();
        let span = self.text.span(start..start + length);
        self.at += length;
        if self.eat(&['(']).is_some() {
            return self.call(&name, span);
        }
        let feature = FEATURES.iter().position(|feature| feature.name == name);
        if let Some(at) = feature.filter(|_| (self.allowed)(&name)) {
            return if FEATURES[at].is_number() {
                Ok(Expr::Feature(at))
            } else {
                let help = "take the cases apart by `Case(ops: …)`".to_owned();
                Err((format!("`{name}` is text, and no number"), span, help))
            };
        }
        if let Some(at) = SPEEDS.iter().position(|(speed, _)| *speed == name) {
            return Ok(Expr::Speed(at));
        }
        let features = FEATURES.iter().filter(|feature| feature.is_number()).map(|feature| feature.name);
        let known: Vec<&str> = features
            .filter(|name| (self.allowed)(name))
            .chain(SPEEDS.iter().map(|(name, _)| *name))
            .collect();
        let near = suggestion(&name, known.iter().copied());
        let help = near.map_or_else(
            || format!("there are {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err((format!("`{name}` is not known here"), span, help))
    }

    fn call(&mut self, name: &str, span: Span) -> Result<Expr, Wrong> {
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            let written = |function: &&Function| function.name.starts_with(|c: char| c.is_ascii_alphabetic());
            let known: Vec<&str> = FUNCTIONS.iter().filter(written).map(|function| function.name).collect();
            return Err((
                format!("function `{name}` is not known"),
                span,
                format!("there are {}", known.join(", ")),
            ));
        };
        let mut arguments = vec![self.sum()?];
        while self.eat(&[',']).is_some() {
            arguments.push(self.sum()?);
        }
        self.close()?;
        if arguments.len() != function.least && !function.any {
            let help = format!("give it {}", function.least);
            return Err((
                format!("`{name}` takes {} argument(s), {} are given", function.least, arguments.len()),
                span,
                help,
            ));
        }
        Ok(Expr::Call(function, arguments))
    }

    fn close(&mut self) -> Result<(), Wrong> {
        match self.eat(&[')']) {
            Some(_) => Ok(()),
            None => Err(self.wrong("`)` is missing here", "close what is open")),
        }
    }
}

/// An operator on its operands.
fn call(name: &str, operands: Vec<Expr>) -> Expr {
    Expr::Call(operator(name), operands)
}

fn operator(name: &str) -> &'static Function {
    FUNCTIONS.iter().find(|function| function.name == name).expect("operators are in the list")
}
