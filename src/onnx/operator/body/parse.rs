//! The parser of lines and expressions.

use super::expression::{Binary, Expression, Function, Number, Unary};
use super::{Action, Line, Operand};
use crate::diagnostic::suggestion;
use std::ops::Range;

/// The largest nesting depth of an expression, because expressions are processed by recursion.
const DEPTH: usize = 40;

/// The operators of two operands, from those that bind least.
const LEVELS: [&[(&str, Binary)]; 5] = [
    &[("or", Binary::Or)],
    &[("and", Binary::And)],
    &[
        ("==", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("<=", Binary::LessEqual),
        (">=", Binary::GreaterEqual),
        ("<", Binary::Less),
        (">", Binary::Greater),
    ],
    &[("+", Binary::Add), ("-", Binary::Sub)],
    &[("*", Binary::Mul), ("/", Binary::Div)],
];

/// A mistake in a line: the message, the position and the advice.
pub(super) struct Mistake {
    pub message: String,
    pub range: Range<usize>,
    pub help: String,
}

/// The names that a line may use.
pub(super) struct Names<'a> {
    pub values: &'a [String],
    pub attributes: &'a [&'static str],
}

type Parsed<T> = Result<T, Mistake>;

/// Parses a line.
///
/// # Errors
/// Returns the first mistake.
pub(super) fn line(text: &str, names: &Names<'_>) -> Parsed<Line> {
    let mut parser = Parser { text, at: 0, depth: 0, names };
    let line = parser.line()?;
    parser.end()?;
    Ok(line)
}

/// Parses the default of an attribute.
///
/// # Errors
/// Returns the first mistake.
pub(super) fn constant(text: &str) -> Parsed<Expression> {
    let text = &text.replace('"', "'");
    let mut parser = Parser { text, at: 0, depth: 0, names: &Names { values: &[], attributes: &[] } };
    let expression = parser.expression(0)?;
    parser.end()?;
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    names: &'a Names<'a>,
}

fn mistake<T>(message: impl Into<String>, range: Range<usize>, help: impl Into<String>) -> Parsed<T> {
    Err(Mistake { message: message.into(), range, help: help.into() })
}

impl<'a> Parser<'a> {
    fn blanks(&mut self) {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
    }

    /// Returns the position of what comes next.
    fn next(&self) -> Range<usize> {
        let rest = &self.text[self.at..];
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let length = if word > 0 { word } else { rest.chars().next().map_or(0, char::len_utf8) };
        self.at..self.at + length
    }

    /// Skips a sign or a word if it comes next, and returns whether it did.
    fn takes(&mut self, sign: &str) -> bool {
        self.blanks();
        let rest = &self.text[self.at..];
        let whole = !sign.ends_with(is_word) || !rest[sign.len().min(rest.len())..].starts_with(is_word);
        let found = rest.starts_with(sign) && whole;
        if found {
            self.at += sign.len();
        }
        found
    }

    fn demand(&mut self, sign: &str) -> Parsed<()> {
        if self.takes(sign) {
            return Ok(());
        }
        mistake(format!("expected `{sign}`"), self.next(), format!("write `{sign}` here"))
    }

    fn end(&mut self) -> Parsed<()> {
        self.blanks();
        if self.at == self.text.len() {
            return Ok(());
        }
        mistake("the line has ended here", self.at..self.text.len(), "remove the rest")
    }

    /// Returns the word that comes next, with its position.
    fn word(&mut self, what: &str) -> Parsed<(&'a str, Range<usize>)> {
        self.blanks();
        let range = self.next();
        let word = &self.text[range.clone()];
        if !word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return mistake(format!("expected {what}"), range, format!("write {what}"));
        }
        self.at = range.end;
        Ok((word, range))
    }

    fn line(&mut self) -> Parsed<Line> {
        let (mut targets, action) = if self.takes("refuse") {
            self.demand("(")?;
            let message = self.expression(0)?;
            self.demand(")")?;
            (Vec::new(), Action::Refuse(message))
        } else if self.takes("@") {
            let (name, _) = self.word("the name of an attribute")?;
            self.demand("=")?;
            let known = self.names.attributes.iter().find(|known| **known == name);
            let name = known.copied().unwrap_or_else(|| Box::leak(name.to_owned().into_boxed_str()));
            (Vec::new(), Action::Set(name, self.expression(0)?))
        } else {
            let mut targets = Vec::new();
            loop {
                targets.push(self.word("the name of a result")?.0.to_owned());
                if !self.takes(",") {
                    break;
                }
            }
            self.demand("=")?;
            (targets, self.application()?)
        };
        let condition = if self.takes("if") { Some(self.expression(0)?) } else { None };
        if matches!(action, Action::Name(_)) {
            targets.truncate(1);
        }
        Ok(Line { targets, action, condition, text: self.text.to_owned() })
    }

    /// `Operator(operand, …) {attribute: value, …}`, or the name of a value.
    fn application(&mut self) -> Parsed<Action> {
        let (operator, range) = self.word("an operator or the name of a value")?;
        if !self.takes("(") {
            self.value(operator, range)?;
            return Ok(Action::Name(operator.to_owned()));
        }
        let mut operands = Vec::new();
        while !self.takes(")") {
            if !operands.is_empty() {
                self.demand(",")?;
            }
            operands.push(self.operand()?);
        }
        let mut attributes = Vec::new();
        if self.takes("{") {
            while !self.takes("}") {
                if !attributes.is_empty() {
                    self.demand(",")?;
                }
                let (name, _) = self.word("the name of an attribute")?;
                self.demand(":")?;
                attributes.push((name.to_owned(), self.expression(0)?));
            }
        }
        Ok(Action::Apply { operator: operator.to_owned(), operands, attributes })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        Ok(match self.expression(0)? {
            Expression::Name(name) if name == "_" => Operand::Absent,
            Expression::Name(name) => Operand::Value(name),
            constant => Operand::Constant(constant),
        })
    }

    /// Checks that a name stands for a value.
    fn value(&self, name: &str, range: Range<usize>) -> Parsed<()> {
        if self.names.values.iter().any(|value| value == name) {
            return Ok(());
        }
        let close = suggestion(name, self.names.values.iter().map(String::as_str));
        let help = close.map_or_else(
            || "give it a value in an earlier line".to_owned(),
            |close| format!("did you mean `{close}`?"),
        );
        mistake(format!("there is no value `{name}`"), range, help)
    }

    fn expression(&mut self, level: usize) -> Parsed<Expression> {
        let Some(operators) = LEVELS.get(level) else {
            return self.factor();
        };
        let mut left = self.expression(level + 1)?;
        while let Some((_, kind)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
            left = Expression::Binary(*kind, Box::new(left), Box::new(self.expression(level + 1)?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Parsed<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return mistake(
                "the expression is nested too deeply",
                self.next(),
                "split it into several lines",
            );
        }
        let expression = self.leaf();
        self.depth -= 1;
        expression
    }

    fn leaf(&mut self) -> Parsed<Expression> {
        if self.takes("-") {
            return Ok(Expression::Unary(Unary::Minus, Box::new(self.factor()?)));
        }
        if self.takes("not") {
            return Ok(Expression::Unary(Unary::Not, Box::new(self.expression(2)?)));
        }
        if self.takes("(") {
            let inner = self.expression(0)?;
            self.demand(")")?;
            return Ok(inner);
        }
        if self.takes("[") {
            let mut items = Vec::new();
            while !self.takes("]") {
                if !items.is_empty() {
                    self.demand(",")?;
                }
                items.push(self.expression(0)?);
            }
            return Ok(Expression::List(items));
        }
        if self.takes("'") {
            let Some(length) = self.text[self.at..].find('\'') else {
                return mistake("the text does not end", self.at - 1..self.text.len(), "close it with `'`");
            };
            let text = self.text[self.at..self.at + length].to_owned();
            self.at += length + 1;
            return Ok(Expression::Number(Number::Text(text)));
        }
        if self.takes("@") {
            let (name, range) = self.word("the name of an attribute")?;
            if !self.names.attributes.contains(&name) {
                let close = suggestion(name, self.names.attributes.iter().copied());
                let help = close.map_or_else(
                    || "add it to `attributes`".to_owned(),
                    |close| format!("did you mean `{close}`?"),
                );
                return mistake(format!("the operator has no attribute `{name}`"), range, help);
            }
            return Ok(Expression::Attribute(name.to_owned()));
        }
        self.blanks();
        if self.text[self.at..].starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        let (word, range) = self.word("an expression")?;
        match word {
            "_" => return Ok(Expression::Name(word.to_owned())),
            "inf" => return Ok(Expression::Number(Number::Float(f64::INFINITY))),
            "pi" => return Ok(Expression::Number(Number::Float(std::f64::consts::PI))),
            _ => {}
        }
        if !self.takes("(") {
            self.value(word, range)?;
            return Ok(Expression::Name(word.to_owned()));
        }
        self.function(word, range)
    }

    fn function(&mut self, word: &str, range: Range<usize>) -> Parsed<Expression> {
        let Some((function, count)) = Function::find(word) else {
            let close = suggestion(word, Function::NAMES.iter().copied());
            let help = close.map_or_else(
                || format!("there are {}", Function::NAMES.join(", ")),
                |close| format!("did you mean `{close}`?"),
            );
            return mistake(format!("there is no function `{word}`"), range, help);
        };
        let mut operands = Vec::new();
        while !self.takes(")") {
            if !operands.is_empty() {
                self.demand(",")?;
            }
            // A result need not have a value yet.
            operands.push(match function {
                Function::Wanted => Expression::Name(self.word("the name of a result")?.0.to_owned()),
                _ => self.expression(0)?,
            });
        }
        if operands.len() != count {
            let help = format!("give it {count}");
            return mistake(format!("`{word}` has {} operands", operands.len()), range, help);
        }
        Ok(Expression::Function(function, operands))
    }

    fn number(&mut self) -> Parsed<Expression> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let mut length = 0;
        while let Some(&byte) = rest.get(length) {
            let sign = matches!(byte, b'+' | b'-') && matches!(rest[length - 1], b'e' | b'E');
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || sign) {
                break;
            }
            length += 1;
        }
        let text = &self.text[start..start + length];
        self.at += length;
        let number = match text.parse::<i64>() {
            Ok(number) => Ok(Number::Int(number)),
            Err(_) => text.parse().map(Number::Float),
        };
        match number {
            Ok(number) => Ok(Expression::Number(number)),
            Err(_) => mistake(format!("`{text}` is not a number"), start..self.at, "write a number"),
        }
    }
}

/// Returns whether a character belongs to a word. Names of operators have dots.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}
