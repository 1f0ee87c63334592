//! The syntax of patterns and expressions: s-expressions with attributes, not yet checked.

use super::literal;
use super::ron::Text;
use crate::attr::Attr;
use std::ops::Range;

/// A mistake at a place in the string.
pub(super) type Mistake = (String, Range<usize>);

#[derive(Clone, Debug)]
pub(super) struct Ast {
    pub kind: Kind,
    pub range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// `?x`.
    Var(String),
    /// `?xs..`.
    Rest(String),
    /// A number in place of an operand.
    Number(f64),
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
    let mut parser = Parser { text: &text.text, at: 0 };
    let ast = parser.operand()?;
    parser.end()?;
    Ok(ast)
}

/// Reads one expression.
pub(super) fn expression(text: &Text) -> Result<ExprAst, Mistake> {
    let mut parser = Parser { text: &text.text, at: 0 };
    let ast = parser.expression()?;
    parser.end()?;
    Ok(ast)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
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
            Err(("something follows the end of the pattern".into(), self.at..self.text.len()))
        }
    }

    fn operand(&mut self) -> Result<Ast, Mistake> {
        self.space();
        let start = self.at;
        let kind = match self.rest().chars().next() {
            None => return Err(("a pattern is missing here".into(), start..start)),
            Some('?') => {
                self.at += 1;
                let name = self.variable(start)?;
                if self.rest().starts_with("..") {
                    self.at += 2;
                    Kind::Rest(name)
                } else {
                    Kind::Var(name)
                }
            }
            Some('(') => self.op()?,
            Some(')') => return Err(("`)` closes nothing".into(), self.here())),
            Some(c) if c.is_ascii_digit() || c == '-' => match self.number()? {
                Attr::Float(value) => Kind::Number(value.0),
                #[allow(clippy::cast_precision_loss)]
                Attr::Int(value) => Kind::Number(value as f64),
                _ => return Err(("not a number".into(), start..self.at)),
            },
            Some(_) => {
                let word = self.word();
                let end = if word.is_empty() { self.here().end } else { self.at };
                let advice = if word.is_empty() {
                    String::new()
                } else {
                    format!("; an operand variable is `?{word}`, an op stands in parentheses")
                };
                return Err((format!("`{}` is no operand{advice}", &self.text[start..end]), start..end));
            }
        };
        Ok(Ast { kind, range: start..self.at })
    }

    fn variable(&mut self, start: usize) -> Result<String, Mistake> {
        match self.word() {
            "" => Err(("a variable lacks its name".into(), start..self.at)),
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
            return Err(("an op's name is missing after `(`".into(), open..self.here().end));
        }
        let name_range = from..self.at;
        let (mut children, mut attrs) = (Vec::new(), Vec::new());
        loop {
            if self.eat(')') {
                return Ok(Kind::Op { name, name_range, children, attrs });
            }
            if self.rest().is_empty() {
                return Err(("this `(` is not closed".into(), open..open + 1));
            }
            if self.rest().starts_with('{') {
                attrs = self.attrs()?;
                if !self.eat(')') {
                    return Err(("attributes stand last: `)` is missing here".into(), self.here()));
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
                    let what = if self.rest().is_empty() {
                        ("this `{` is not closed".into(), open..open + 1)
                    } else {
                        ("an attribute's name is missing here".into(), self.here())
                    };
                    return Err(what);
                }
                let range = start..self.at;
                if !self.eat(':') {
                    return Err((format!("`:` is missing after `{name}`"), range));
                }
                entries.push(Entry::Attr { name, range, value: self.expression()? });
            }
            if !self.eat(',') && !self.rest().starts_with('}') {
                return Err(("`,` or `}` is missing here".into(), self.here()));
            }
        }
    }

    fn number(&mut self) -> Result<Attr, Mistake> {
        let start = self.at;
        let rest = self.rest();
        let mut length =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c))).unwrap_or(rest.len());
        // `+` and `-` belong to a number at its beginning and after an exponent only.
        if let Some(cut) = rest[1..length].find(['+', '-']).filter(|cut| !rest[..=*cut].ends_with(['e', 'E']))
        {
            length = cut + 1;
        }
        self.at += length;
        literal::number(&rest[..length])
            .ok_or_else(|| (format!("`{}` is not a number", &rest[..length]), start..start + length))
    }

    fn expression(&mut self) -> Result<ExprAst, Mistake> {
        self.space();
        let start = self.at;
        let kind = match self.rest().chars().next() {
            None => return Err(("a value is missing here".into(), start..start)),
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
                    return Err((format!("this `{open}` is not closed"), start..start + 1));
                };
                self.at += length + 2;
                ExprKind::Literal(
                    literal::bracketed(&self.text[start..self.at]).map_err(|why| (why, start..self.at))?,
                )
            }
            Some(_) => {
                let word = self.word().to_owned();
                if word.is_empty() {
                    return Err((format!("`{}` is no value", &self.text[self.here()]), self.here()));
                }
                if self.rest().starts_with('(') {
                    self.at += 1;
                    let mut arguments = Vec::new();
                    while !self.eat(')') {
                        if self.rest().is_empty() {
                            return Err((format!("the arguments of `{word}` do not end"), start..self.at));
                        }
                        arguments.push(self.expression()?);
                        if !self.eat(',') && !self.rest().starts_with(')') {
                            return Err(("`,` or `)` is missing here".into(), self.here()));
                        }
                    }
                    ExprKind::Call(word, arguments)
                } else {
                    ExprKind::Literal(literal::word(&word).ok_or_else(|| {
                        (format!("`{word}` is no value: not an element type, not a layout; text stands in quotes, variables begin with `?`"), start..self.at)
                    })?)
                }
            }
        };
        Ok(ExprAst { kind, range: start..self.at })
    }
}
