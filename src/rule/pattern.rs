//! The syntax of patterns and expressions: s-expressions with attributes. Names are not checked here.

use super::{Interval, Vocabulary, literal};
use crate::attr::Attr;
use crate::diagnostic::suggestion;
use crate::op::Ops;
use crate::ron::Text;
use crate::tensor::{DType, Layout};
use std::ops::Range;

/// A mistake at a position in the text, with advice.
pub(super) struct Mistake {
    pub message: String,
    pub range: Range<usize>,
    pub help: String,
}

fn wrong<T>(message: impl Into<String>, range: Range<usize>, help: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake { message: message.into(), range, help: help.into() })
}

#[derive(Clone, Debug)]
pub(super) struct Ast {
    pub kind: Kind,
    pub range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// `?x`.
    Var(String),
    /// `?xs..`, or `?x?`.
    Spread { name: String, optional: bool },
    /// A number or a range as an operand, possibly with a name: `0.5`, `0..6`, `?c:0..`.
    Number { interval: Interval, var: Option<String> },
    /// A part that could not be read and is already reported.
    Wrong,
    /// `(op operands… {attributes})`.
    Op { name: String, name_range: Range<usize>, children: Vec<Ast>, attrs: Vec<Entry> },
}

/// An entry of an attribute list.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// `name: value`.
    Attr { name: String, range: Range<usize>, value: ExprAst },
    /// `*rest`.
    Rest { name: String, range: Range<usize> },
}

#[derive(Clone, Debug)]
pub(super) struct ExprAst {
    pub kind: ExprKind,
    pub range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum ExprKind {
    /// A part that could not be read and is already reported.
    Wrong,
    Literal(Attr),
    Var(String),
    Call(String, Vec<ExprAst>),
}

/// Reads one pattern, as far as possible. Returns all mistakes after which reading could continue, and the first one
/// after which it could not.
pub(super) fn pattern(text: &Text, vocabulary: Vocabulary<'_>) -> (Option<Ast>, Vec<Mistake>) {
    let mut parser = Parser::new(&text.text, vocabulary);
    let ast = parser.operand().and_then(|ast| parser.end().map(|()| ast));
    parser.finish(ast)
}

/// Reads one expression. Returns mistakes as for patterns.
pub(super) fn expression(text: &Text, vocabulary: Vocabulary<'_>) -> (Option<ExprAst>, Vec<Mistake>) {
    let mut parser = Parser::new(&text.text, vocabulary);
    let ast = parser.expression().and_then(|ast| parser.end_of_expression(0).map(|()| ast));
    parser.finish(ast)
}

/// Operators of other languages, with the guards to write instead, and whether the arguments are exchanged.
const OPERATORS: &[(&str, &str, bool)] = &[
    ("<=", "at-most", false),
    (">=", "at-most", true),
    ("==", "equal", false),
    ("!=", "not-equal", false),
    ("<", "less", false),
    (">", "less", true),
    ("=", "equal", false),
    ("||", "any", false),
    ("or ", "any", false),
    ("%", "divisible", false),
    ("+", "add", false),
    ("-", "sub", false),
    ("*", "mul", false),
    ("/", "div", false),
];

/// Returns what to write instead of an operator between two expressions.
fn operator(left: &str, rest: &str) -> Option<(String, String)> {
    if rest.starts_with("&&") || rest.starts_with("and ") {
        let advice = "write two conditions in `when`, each in quotes of its own: all of them must hold";
        return Some(("there is no `and` between conditions".to_owned(), advice.to_owned()));
    }
    let (written, function, turned) = OPERATORS.iter().find(|(written, ..)| rest.starts_with(written))?;
    let right = rest[written.len()..].trim();
    // `a % b == 0` means that b divides a.
    let right =
        if *function == "divisible" { right.split("==").next().unwrap_or(right).trim() } else { right };
    let right = if right.is_empty() { "…" } else { right };
    let (first, second) = if *turned { (right, left.trim()) } else { (left.trim(), right) };
    Some((
        format!("`{}` is no operator here: there are functions only", written.trim()),
        format!("write `{function}({first}, {second})`"),
    ))
}

/// Returns the first argument of a text: all up to a comma or a closing parenthesis that is not within it.
fn argument(text: &str) -> &str {
    let mut depth = 0_usize;
    let ends = |c: char| {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ => {}
        }
        depth == 0 && c == ','
    };
    let end = text.find(ends).unwrap_or(text.len());
    let inner = &text[..end];
    // What closes an outer call does not belong to it.
    let (open, close) = (inner.matches('(').count(), inner.matches(')').count());
    let beyond = close.saturating_sub(open);
    let mut kept = inner.trim_end();
    for _ in 0..beyond {
        kept = kept.strip_suffix(')').unwrap_or(kept).trim_end();
    }
    kept
}

/// Layouts with upper-case and lower-case letters.
const LAYOUTS: &[&str] =
    &["nChw16c", "nChw8c", "OIhw16i16o", "OIhw8i8o", "Ohwi16o", "Ohwi8o", "Oihw16o", "Oihw8o"];

/// Returns the correct text of a word that is not a value, if the intended value can be recognized.
fn meant(word: &str, ops: &Ops) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    if let Some(number) = ["false", "true"].iter().position(|name| *name == lower) {
        return Some(format!("yes and no are the integers 1 and 0: write `{number}`"));
    }
    if let Some(dtype) = DType::named_elsewhere(word) {
        return Some(format!("the element type is `{}`", dtype.name()));
    }
    let layout = LAYOUTS.iter().copied().find(|layout| layout.eq_ignore_ascii_case(word));
    let layout =
        layout.or_else(|| (lower.len() > 3 && lower.parse::<Layout>().is_ok()).then_some(lower.as_str()));
    if let Some(layout) = layout {
        return Some(format!("the layout is `{layout}`"));
    }
    ops.step(word).map(|step| format!("write `<{step}>` for a chain of this step, `\"{step}\"` for its name"))
}

const NUMBER: &str = "write digits, such as `2` or `0.5`";
const LARGEST: &str = "write a number that 64 bits hold";
const VALUE: &str = "write a number, a list `[1,2]`, a chain `<relu>`, text in quotes, or a variable `?x`";

/// The largest nesting depth of ops and calls, because they are processed by recursion.
const DEPTH: usize = 200;

struct Parser<'a> {
    text: &'a str,
    vocabulary: Vocabulary<'a>,
    at: usize,
    /// The mistakes after which reading continued.
    mistakes: Vec<Mistake>,
    /// The number of open ops and calls.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, vocabulary: Vocabulary<'a>) -> Self {
        Self { text, vocabulary, at: 0, mistakes: Vec::new(), depth: 0 }
    }

    fn finish<T>(mut self, read: Result<T, Mistake>) -> (Option<T>, Vec<Mistake>) {
        match read {
            Ok(read) => (Some(read), self.mistakes),
            Err(last) => {
                self.mistakes.push(last);
                (None, self.mistakes)
            }
        }
    }

    /// Adds a mistake after which reading continues.
    fn note(&mut self, message: impl Into<String>, range: Range<usize>, help: impl Into<String>) {
        self.mistakes.push(Mistake { message: message.into(), range, help: help.into() });
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: char) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len_utf8();
        }
        found
    }

    /// Returns the range of the next character, for messages.
    fn here(&self) -> Range<usize> {
        self.at..self.rest().chars().next().map_or(self.at, |c| self.at + c.len_utf8())
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let length =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn end(&mut self) -> Result<(), Mistake> {
        self.space();
        if self.rest().is_empty() {
            Ok(())
        } else {
            wrong(
                "something follows the end of the pattern",
                self.at..self.text.len(),
                "take it away, or put it inside the parentheses",
            )
        }
    }

    fn end_of_expression(&mut self, start: usize) -> Result<(), Mistake> {
        self.space();
        match operator(&self.text[start..self.at], self.rest()) {
            Some((message, help)) => wrong(message, self.here(), help),
            None => self.end(),
        }
    }

    fn enter(&mut self) -> Result<(), Mistake> {
        if self.depth == DEPTH {
            return wrong(
                format!("this stands more than {DEPTH} deep"),
                self.here(),
                "make the pattern flatter: no rule needs so many ops in each other",
            );
        }
        self.depth += 1;
        Ok(())
    }

    fn operand(&mut self) -> Result<Ast, Mistake> {
        self.space();
        let start = self.at;
        self.enter()?;
        let kind = match self.rest().chars().next() {
            None => {
                return wrong(
                    "a pattern is missing here",
                    start..start,
                    "write `(op …)`, or a variable `?x`",
                );
            }
            Some('?') => {
                self.at += 1;
                let name = self.variable(start)?;
                if self.rest().starts_with("..") {
                    self.at += 2;
                    Kind::Spread { name, optional: false }
                } else if self.rest().starts_with('?') {
                    self.at += 1;
                    Kind::Spread { name, optional: true }
                } else if self.rest().starts_with(':') {
                    self.at += 1;
                    self.space();
                    Kind::Number { interval: self.interval()?, var: Some(name) }
                } else {
                    Kind::Var(name)
                }
            }
            Some('(') => self.op()?,
            Some(')') => {
                return wrong("`)` closes nothing", self.here(), "take it away, or open it with `(`");
            }
            Some(_) if self.begins_interval() => Kind::Number { interval: self.interval()?, var: None },
            Some(_) => {
                let word = self.word();
                let end = if word.is_empty() { self.here().end } else { self.at };
                let message = format!("`{}` is no operand", &self.text[start..end]);
                if word.is_empty() {
                    return wrong(message, start..end, "write a variable `?x`, a number, or an op `(op …)`");
                }
                self.note(
                    message,
                    start..end,
                    format!("write `?{word}` for a variable, `({word} …)` for an op"),
                );
                Kind::Wrong
            }
        };
        self.depth -= 1;
        Ok(Ast { kind, range: start..self.at })
    }

    fn variable(&mut self, start: usize) -> Result<String, Mistake> {
        match self.word() {
            "" => wrong("a variable lacks its name", start..self.at, "write `?x`, or `*a` for attributes"),
            name => Ok(name.to_owned()),
        }
    }

    fn op(&mut self) -> Result<Kind, Mistake> {
        let open = self.at;
        self.at += 1;
        self.space();
        let from = self.at;
        let mut name = self.word().to_owned();
        while self.rest().starts_with('.') {
            self.at += 1;
            name.push('.');
            name.push_str(self.word());
        }
        if name.is_empty() {
            return wrong(
                "an op's name is missing after `(`",
                open..self.here().end,
                "write `(op operands… {attributes})`",
            );
        }
        let name_range = from..self.at;
        let (mut children, mut attrs) = (Vec::new(), Vec::new());
        loop {
            if self.eat(')') {
                return Ok(Kind::Op { name, name_range, children, attrs });
            }
            if self.rest().is_empty() {
                return wrong("this `(` is not closed", open..open + 1, "write `)` after its last operand");
            }
            if self.rest().starts_with('{') {
                attrs = self.attrs()?;
                if !self.eat(')') {
                    return wrong(
                        "attributes stand last: `)` is missing here",
                        self.here(),
                        "write the operands before the attributes",
                    );
                }
                return Ok(Kind::Op { name, name_range, children, attrs });
            }
            if self.rest().starts_with(',') {
                self.note("`,` stands between operands", self.here(), "take it away: a space is enough");
                self.at += 1;
                continue;
            }
            children.push(self.operand()?);
        }
    }

    fn attrs(&mut self) -> Result<Vec<Entry>, Mistake> {
        let open = self.at;
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            if self.eat('}') {
                return Ok(entries);
            }
            let start = self.at;
            if self.eat('*') {
                let name = self.variable(start)?;
                entries.push(Entry::Rest { name, range: start..self.at });
            } else {
                let name = self.word().to_owned();
                if name.is_empty() {
                    return if self.rest().is_empty() {
                        wrong("this `{` is not closed", open..open + 1, "write `}` after the last attribute")
                    } else {
                        wrong(
                            "an attribute's name is missing here",
                            self.here(),
                            "write `name: value`, or `*rest`",
                        )
                    };
                }
                let range = start..self.at;
                if !self.eat(':') {
                    let message = format!("`:` is missing after `{name}`");
                    let help = format!("write `{name}: …`, or `*{name}` for all other attributes");
                    if !self.rest().starts_with([',', '}']) {
                        return wrong(message, range, help);
                    }
                    self.note(message, range.clone(), help);
                    let value = ExprAst { kind: ExprKind::Wrong, range: range.clone() };
                    entries.push(Entry::Attr { name, range, value });
                    self.eat(',');
                    continue;
                }
                entries.push(Entry::Attr { name, range, value: self.expression()? });
            }
            if !self.eat(',') && !self.rest().starts_with('}') {
                return wrong(
                    "`,` or `}` is missing here",
                    self.here(),
                    "write `,` between attributes, `}` after the last",
                );
            }
        }
    }

    fn begins_interval(&self) -> bool {
        self.rest().starts_with("..") || self.begins_number()
    }

    fn begins_number(&self) -> bool {
        self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '-')
    }

    /// Reads `0.5`, `0..6`, `0..`, `..6` or `..`.
    fn interval(&mut self) -> Result<Interval, Mistake> {
        let start = self.at;
        if !self.begins_interval() {
            return wrong(
                "a number or a range is missing here",
                start..self.here().end,
                "write `?c:0.5`, `?c:0..6`, `?c:0..`, or `?c:..` for any number",
            );
        }
        let least = if self.begins_number() { Some(self.value()?) } else { None };
        if !self.rest().starts_with("..") {
            return Ok(Interval::point(least.unwrap_or_default()));
        }
        self.at += 2;
        let most = if self.begins_number() { Some(self.value()?) } else { None };
        Ok(Interval { least: least.unwrap_or(f64::NEG_INFINITY), most: most.unwrap_or(f64::INFINITY) })
    }

    fn value(&mut self) -> Result<f64, Mistake> {
        let start = self.at;
        match self.number()? {
            Attr::Float(value) => Ok(value.0),
            #[allow(clippy::cast_precision_loss)]
            Attr::Int(value) => Ok(value as f64),
            _ => wrong("this is not a number", start..self.at, NUMBER),
        }
    }

    fn number(&mut self) -> Result<Attr, Mistake> {
        let start = self.at;
        let rest = self.rest();
        let mut length =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c))).unwrap_or(rest.len());
        // Two numbers with `..` between them are a range.
        length = rest[..length].find("..").unwrap_or(length);
        // `+` and `-` only belong to a number at its start and in its exponent.
        if let Some(cut) = rest[1..length].find(['+', '-']).filter(|cut| !rest[..=*cut].ends_with(['e', 'E']))
        {
            length = cut + 1;
        }
        self.at += length;
        match literal::number(&rest[..length]) {
            Some(number) => Ok(number),
            None if literal::digits(&rest[..length]) => wrong(
                format!("`{}` is too large for a number", &rest[..length]),
                start..start + length,
                LARGEST,
            ),
            None => wrong(format!("`{}` is not a number", &rest[..length]), start..start + length, NUMBER),
        }
    }

    fn expression(&mut self) -> Result<ExprAst, Mistake> {
        self.space();
        let start = self.at;
        self.enter()?;
        let kind = match self.rest().chars().next() {
            None => return wrong("a value is missing here", start..start, VALUE),
            Some('?') => {
                self.at += 1;
                ExprKind::Var(self.variable(start)?)
            }
            Some(c) if c.is_ascii_digit() || c == '-' => ExprKind::Literal(self.number()?),
            Some(open @ ('[' | '<' | '"')) => self.bracketed(open)?,
            Some('!') => {
                let denied = argument(self.rest()[1..].trim_start());
                let denied = if denied.is_empty() { "…" } else { denied };
                return wrong(
                    "`!` is no operator here: there are functions only",
                    self.here(),
                    format!("write `not({denied})`"),
                );
            }
            Some(_) => {
                let word = self.word().to_owned();
                if word.is_empty() {
                    return wrong(format!("`{}` is no value", &self.text[self.here()]), self.here(), VALUE);
                }
                if self.rest().starts_with('(') {
                    self.at += 1;
                    let arguments = self.arguments(start, &word)?;
                    ExprKind::Call(word, arguments)
                } else {
                    match literal::word(&word) {
                        Some(literal) => ExprKind::Literal(literal),
                        None => self.no_value(start, &word)?,
                    }
                }
            }
        };
        self.depth -= 1;
        Ok(ExprAst { kind, range: start..self.at })
    }

    /// Reads a list, a chain or a text in quotes.
    fn bracketed(&mut self, open: char) -> Result<ExprKind, Mistake> {
        let start = self.at;
        let close = match open {
            '[' => ']',
            '<' => '>',
            _ => '"',
        };
        let Some(length) = self.rest()[1..].find(close) else {
            return wrong(
                format!("this `{open}` is not closed"),
                start..start + 1,
                format!("write `{close}` where it ends"),
            );
        };
        self.at += length + 2;
        match literal::bracketed(&self.text[start..self.at], self.vocabulary.ops) {
            Ok(literal) => Ok(ExprKind::Literal(literal)),
            Err((message, help)) => {
                self.note(message, start..self.at, help);
                Ok(ExprKind::Wrong)
            }
        }
    }

    /// Reads the arguments of the call of `word`, which begins at `start`, with the closing parenthesis.
    fn arguments(&mut self, start: usize, word: &str) -> Result<Vec<ExprAst>, Mistake> {
        let mut arguments = Vec::new();
        while !self.eat(')') {
            if self.rest().is_empty() {
                return wrong(
                    format!("the arguments of `{word}` do not end"),
                    start..self.at,
                    "write `)` after the last argument",
                );
            }
            let from = self.at;
            arguments.push(self.expression()?);
            if !self.eat(',') && !self.rest().starts_with(')') {
                if let Some((message, help)) = operator(
                    &self.text[from..self.at],
                    self.rest().split([',', ')']).next().unwrap_or_default(),
                ) {
                    return wrong(message, self.here(), help);
                }
                return wrong(
                    "`,` or `)` is missing here",
                    self.here(),
                    "write `,` between arguments, `)` after the last",
                );
            }
        }
        Ok(arguments)
    }

    /// Reports a word that is not a value, with what was probably meant. Reading continues unless it is the name of
    /// a function.
    fn no_value(&mut self, start: usize, word: &str) -> Result<ExprKind, Mistake> {
        let neither = format!("`{word}` is no value: not an element type, not a layout");
        if let Some(function) = self.vocabulary.words.get(word) {
            let signature = function.signature();
            let help = match self.rest().trim() {
                "" => format!("it is `{signature}`: {}", function.doc),
                rest => format!("it is `{signature}`: write `{word}({rest})`"),
            };
            let message = format!("`{word}` lacks the parentheses of its arguments");
            return wrong(message, start..self.at, help);
        }
        let close = suggestion(word, DType::ALL.iter().map(|dtype| dtype.name()));
        let (message, help) = match (close, word.parse::<Layout>()) {
            _ if meant(word, self.vocabulary.ops).is_some() => {
                (neither, meant(word, self.vocabulary.ops).unwrap_or_default())
            }
            (Some(close), _) => (neither, format!("did you mean `{close}`?")),
            // A word that contains digits is probably meant as a layout.
            (None, Err(why)) if word.contains(|c: char| c.is_ascii_digit()) => {
                (why.to_string(), "write a layout such as `nChw16c`".to_owned())
            }
            _ => (neither, format!("write `?{word}` for a variable, `\"{word}\"` for text")),
        };
        self.note(message, start..self.at, help);
        Ok(ExprKind::Wrong)
    }
}
