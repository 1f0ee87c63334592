//! The parser of formulas.

use super::{Binary, Compare, Formula, Function, Parameter, Unary};
use crate::diagnostic::suggestion;
use std::ops::Range;

/// The largest nesting depth of a formula, because formulas are processed by recursion.
const DEPTH: usize = 60;

/// The words that are not primitives of one operand.
const WORDS: [&str; 6] = ["x", "y", "pi", "inf", "clamp", "if"];

/// A mistake in a formula: the message, the position and the advice.
pub(super) struct Mistake {
    pub message: String,
    pub range: Range<usize>,
    pub help: String,
}

/// The names that a formula may use.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub parameters: &'a [Parameter],
    pub functions: &'a [Function],
}

/// Parses a formula.
///
/// # Errors
/// Returns the first mistake.
pub(super) fn parse(text: &str, scope: Scope<'_>) -> Result<Formula, Mistake> {
    let mut parser = Parser { text, at: 0, depth: 0, scope };
    let formula = parser.sum()?;
    parser.blanks();
    if parser.at < text.len() {
        let rest = &text[parser.at..];
        let end = rest.find(' ').unwrap_or(rest.len());
        return Err(parser.mistake(
            "the formula has ended here",
            parser.at..parser.at + end,
            "write an operator before it, or remove it",
        ));
    }
    Ok(formula)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    scope: Scope<'a>,
}

type Parsed = Result<Formula, Mistake>;

impl Parser<'_> {
    fn mistake(&self, message: impl Into<String>, range: Range<usize>, help: impl Into<String>) -> Mistake {
        Mistake { message: message.into(), range, help: help.into() }
    }

    fn blanks(&mut self) {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
    }

    /// Skips a sign if it comes next, and returns whether it did.
    fn takes(&mut self, sign: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn demand(&mut self, sign: &str, what: &str) -> Result<(), Mistake> {
        if self.takes(sign) {
            return Ok(());
        }
        let end = self.text[self.at..].chars().next().map_or(self.at, |next| self.at + next.len_utf8());
        Err(self.mistake(format!("expected `{sign}`"), self.at..end, format!("write {what}")))
    }

    fn sum(&mut self) -> Parsed {
        let mut value = self.product()?;
        loop {
            let kind = match () {
                () if self.takes("+") => Binary::Add,
                () if self.takes("-") => Binary::Sub,
                () => return Ok(value),
            };
            value = Formula::binary(kind, value, self.product()?);
        }
    }

    fn product(&mut self) -> Parsed {
        let mut value = self.factor()?;
        loop {
            let kind = match () {
                () if self.takes("*") => Binary::Mul,
                () if self.takes("/") => Binary::Div,
                () => return Ok(value),
            };
            value = Formula::binary(kind, value, self.factor()?);
        }
    }

    fn factor(&mut self) -> Parsed {
        self.blanks();
        self.depth += 1;
        if self.depth > DEPTH {
            let help =
                format!("a formula is at most {DEPTH} deep: name a part of it as a function of its own");
            return Err(self.mistake("the formula is too deep", self.at..self.at, help));
        }
        let value = if self.takes("-") {
            match self.factor()? {
                Formula::Number(number) => Formula::Number(-number),
                value => Formula::Unary(Unary::Neg, Box::new(value)),
            }
        } else if self.takes("(") {
            let value = self.sum()?;
            self.demand(")", "`)` after what is in parentheses")?;
            value
        } else if self.text[self.at..].starts_with(|c: char| c.is_ascii_digit()) {
            self.number()?
        } else {
            self.name()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Parsed {
        let rest = &self.text.as_bytes()[self.at..];
        let exponent = |at: usize| at > 0 && matches!(rest[at - 1], b'e' | b'E');
        let part = |at: usize| {
            rest[at].is_ascii_digit()
                || matches!(rest[at], b'.' | b'e' | b'E')
                || matches!(rest[at], b'+' | b'-') && exponent(at)
        };
        let end = self.at + (0..rest.len()).find(|at| !part(*at)).unwrap_or(rest.len());
        let range = self.at..end;
        self.at = end;
        self.text[range.clone()]
            .parse()
            .map(Formula::Number)
            .map_err(|_| self.mistake("this is no number", range, "write digits, such as `2` or `0.5`"))
    }

    /// Returns the range of the next word: letters and digits, with `-` between letters.
    fn word(&self) -> Range<usize> {
        let rest = &self.text.as_bytes()[self.at..];
        let letter = |at: usize| rest.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let mut end = 0;
        while letter(end) || end > 0 && rest.get(end) == Some(&b'-') && letter(end + 1) {
            end += 1;
        }
        self.at..self.at + end
    }

    fn name(&mut self) -> Parsed {
        let range = self.word();
        let name = &self.text[range.clone()];
        if name.is_empty() {
            let end = self.text[self.at..].chars().next().map_or(self.at, |next| self.at + next.len_utf8());
            let help = "write `x`, a parameter, a number, or a function of one, such as `exp(x)`";
            return Err(self.mistake("a value is expected", self.at..end, help));
        }
        self.at = range.end;
        if self.takes("(") {
            let value = self.call(name, range)?;
            self.demand(")", "`)` after the last argument")?;
            return Ok(value);
        }
        let parameters = self.scope.parameters;
        if let Some(at) = parameters.iter().position(|one| one.name == name) {
            return Ok(Formula::Parameter(at, parameters[at].name));
        }
        match name {
            "x" => Ok(Formula::X),
            "y" => Ok(Formula::Y),
            "pi" => Ok(Formula::Number(std::f64::consts::PI)),
            "inf" => Ok(Formula::Number(f64::INFINITY)),
            _ => Err(self.unknown(name, range)),
        }
    }

    fn unknown(&self, name: &str, range: Range<usize>) -> Mistake {
        let one = Unary::ALL.iter().map(|one| one.name());
        let primitives = one.chain(Binary::ALL.iter().map(|one| one.name()));
        let known: Vec<&str> = (WORDS.into_iter())
            .chain(self.scope.parameters.iter().map(|one| one.name))
            .chain(primitives)
            .chain(self.scope.functions.iter().map(|one| one.name()))
            .collect();
        let apart = name.split_once('-').filter(|(left, _)| known.contains(left));
        let help = match (apart, suggestion(name, known.iter().copied())) {
            (Some((left, right)), _) => format!("write blanks around the sign: `{left} - {right}`"),
            (None, Some(close)) => format!("did you mean `{close}`?"),
            (None, None) => {
                "write `x`, a parameter, or a function that stands before in the table".to_owned()
            }
        };
        self.mistake(format!("`{name}` is not known"), range, help)
    }

    fn call(&mut self, name: &str, range: Range<usize>) -> Parsed {
        if name == "if" {
            return self.choice();
        }
        let mut arguments = vec![self.sum()?];
        while self.takes(",") {
            arguments.push(self.sum()?);
        }
        let count = arguments.len();
        let takes = |takes: &str| {
            Err(self.mistake(
                format!("`{name}` takes {takes}, not {count}"),
                range.clone(),
                format!("give it {takes}"),
            ))
        };
        if let Some(kind) = Binary::find(name) {
            let Ok([a, b]) = <[Formula; 2]>::try_from(arguments) else { return takes("two arguments") };
            return Ok(Formula::binary(kind, a, b));
        }
        if name == "clamp" {
            let Ok([a, low, high]) = <[Formula; 3]>::try_from(arguments) else {
                return takes("three arguments");
            };
            let below = Formula::choice(Compare::Greater, a.clone(), high.clone(), high, a.clone());
            return Ok(Formula::choice(Compare::Less, a, low.clone(), low, below));
        }
        if let Some(function) = self.scope.functions.iter().find(|one| one.name() == name) {
            return self.function(*function, arguments, range);
        }
        let Some(kind) = Unary::find(name) else { return Err(self.unknown(name, range)) };
        let Ok([a]) = <[Formula; 1]>::try_from(arguments) else { return takes("one argument") };
        Ok(Formula::Unary(kind, Box::new(a)))
    }

    /// Returns a call of another function. Parameters that are not given have their defaults.
    fn function(&self, function: Function, mut arguments: Vec<Formula>, range: Range<usize>) -> Parsed {
        let (takes, declared) = (function.operands(), function.parameters());
        if arguments.len() < takes {
            let help = "give it `x` and `y`, or other values for them";
            return Err(self.mistake(format!("`{function}` takes two operands"), range, help));
        }
        if arguments.len() > takes + declared.len() {
            let operands = if takes == 1 { "`x`" } else { "`x`, `y`" };
            let help = format!("give it {operands} and at most {} parameter(s)", declared.len());
            return Err(self.mistake(format!("`{function}` has fewer parameters"), range, help));
        }
        let given = arguments.split_off(takes);
        for (operand, name) in [(Formula::X, "x"), (Formula::Y, "y")] {
            if given.iter().any(|one| one.contains(&operand)) {
                let help = "parameters are numbers, or parameters of this function";
                return Err(self.mistake(
                    format!("a parameter of `{function}` depends on `{name}`"),
                    range,
                    help,
                ));
            }
        }
        let rest = declared[given.len()..].iter().map(|one| Formula::Number(one.default));
        let given = given.into_iter().chain(rest).collect();
        // A function that consists of a single primitive is replaced by that primitive.
        Ok(match function.formula() {
            Formula::Unary(kind, x) if **x == Formula::X => {
                Formula::Unary(*kind, Box::new(arguments.remove(0)))
            }
            _ => Formula::Call(function, arguments, given),
        })
    }

    fn choice(&mut self) -> Parsed {
        let a = self.sum()?;
        let compare = match () {
            () if self.takes("<=") => Compare::LessEqual,
            () if self.takes(">=") => Compare::GreaterEqual,
            () if self.takes("==") => Compare::Equal,
            () if self.takes("<") => Compare::Less,
            () if self.takes(">") => Compare::Greater,
            () => {
                let help = "write `if(a < b, then, else)`, with `<`, `<=`, `>`, `>=` or `==`";
                return Err(self.mistake("a comparison is expected", self.at..self.at, help));
            }
        };
        let b = self.sum()?;
        self.demand(",", "`if(a < b, then, else)`")?;
        let then = self.sum()?;
        self.demand(",", "`if(a < b, then, else)`")?;
        Ok(Formula::choice(compare, a, b, then, self.sum()?))
    }
}
