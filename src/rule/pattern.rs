//! The syntax of patterns and expressions: s-expressions with attributes, not yet checked.

use super::ron::Text;
use super::{Interval, literal};
use crate::attr::Attr;
use crate::error::suggestion;
use crate::tensor::{DType, Layout};
use std::ops::Range;

/// A mistake at a place in the string, and what to do.
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
    /// A number or a range in place of an operand, or one with a name: `0.5`, `0..6`, `?c:0..`.
    Number { interval: Interval, var: Option<String> },
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
    Literal(Attr),
    Var(String),
    Call(String, Vec<ExprAst>),
}

/// Reads one pattern.
pub(super) fn pattern(text: &Text) -> Result<Ast, Mistake> {
    let mut parser = Parser { text: &text.text, at: 0, depth: 0 };
    let ast = parser.operand()?;
    parser.end()?;
    Ok(ast)
}

/// Reads one expression.
pub(super) fn expression(text: &Text) -> Result<ExprAst, Mistake> {
    let mut parser = Parser { text: &text.text, at: 0, depth: 0 };
    let ast = parser.expression()?;
    parser.end()?;
    Ok(ast)
}

const NUMBER: &str = "write digits, such as `2` or `0.5`";
const LARGEST: &str = "write a number that 64 bits hold";
const VALUE: &str = "write a number, a list `[1,2]`, a chain `<relu>`, text in quotes, or a variable `?x`";

/// How deep ops and calls may stand in each other: what is read is walked by recursion.
const DEPTH: usize = 200;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// How many ops and calls are open.
    depth: usize,
}

impl<'a> Parser<'a> {
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

    /// The next character as a range, for messages.
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
                let help = if word.is_empty() {
                    "write a variable `?x`, a number, or an op `(op …)`".to_owned()
                } else {
                    format!("write `?{word}` for a variable, `({word} …)` for an op")
                };
                return wrong(format!("`{}` is no operand", &self.text[start..end]), start..end, help);
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
                    return wrong(
                        format!("`:` is missing after `{name}`"),
                        range,
                        format!("write `{name}: …`, or `*{name}` for all other attributes"),
                    );
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

    /// `0.5`, `0..6`, `0..`, `..6`, `..`.
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
        // `..` makes a range of two numbers.
        length = rest[..length].find("..").unwrap_or(length);
        // `+` and `-` belong to a number at its beginning and after an exponent only.
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
            Some(open @ ('[' | '<' | '"')) => {
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
                match literal::bracketed(&self.text[start..self.at]) {
                    Ok(literal) => ExprKind::Literal(literal),
                    Err((message, help)) => return wrong(message, start..self.at, help),
                }
            }
            Some(_) => {
                let word = self.word().to_owned();
                if word.is_empty() {
                    return wrong(format!("`{}` is no value", &self.text[self.here()]), self.here(), VALUE);
                }
                if self.rest().starts_with('(') {
                    self.at += 1;
                    let mut arguments = Vec::new();
                    while !self.eat(')') {
                        if self.rest().is_empty() {
                            return wrong(
                                format!("the arguments of `{word}` do not end"),
                                start..self.at,
                                "write `)` after the last argument",
                            );
                        }
                        arguments.push(self.expression()?);
                        if !self.eat(',') && !self.rest().starts_with(')') {
                            return wrong(
                                "`,` or `)` is missing here",
                                self.here(),
                                "write `,` between arguments, `)` after the last",
                            );
                        }
                    }
                    ExprKind::Call(word, arguments)
                } else {
                    match literal::word(&word) {
                        Some(literal) => ExprKind::Literal(literal),
                        None => {
                            let neither = format!("`{word}` is no value: not an element type, not a layout");
                            let close = suggestion(&word, DType::ALL.iter().map(|dtype| dtype.name()));
                            let (message, help) = match (close, word.parse::<Layout>()) {
                                (Some(close), _) => (neither, format!("did you mean `{close}`?")),
                                // With a number in it, it is meant as a layout.
                                (None, Err(why)) if word.contains(|c: char| c.is_ascii_digit()) => {
                                    (why, "write a layout such as `nChw16c`".to_owned())
                                }
                                _ => (
                                    neither,
                                    format!("write `?{word}` for a variable, `\"{word}\"` for text"),
                                ),
                            };
                            return wrong(message, start..self.at, help);
                        }
                    }
                }
            }
        };
        self.depth -= 1;
        Ok(ExprAst { kind, range: start..self.at })
    }
}
