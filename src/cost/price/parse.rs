//! Reads the expressions of price lists.

use super::expression::{Expr, FUNCTIONS, function};
use super::quantity::{MEASURES, Place, SPEEDS};
use crate::cost::feature::BASIC;
use crate::diagnostic::{Span, suggestion};
use crate::ron::Text;

/// The names that the files define.
pub(super) struct Names<'n> {
    /// Words with the numbers of their parameters.
    pub words: &'n [(String, usize)],
    /// Tables.
    pub tables: &'n [String],
    /// The parameters of the current definition.
    pub parameters: &'n [String],
}

/// The message, the place, and a remedy.
pub(super) type Mistake = (String, Span, String);

/// The largest depth of nested expressions, because they are read and evaluated by recursion.
const DEPTH: usize = 100;

/// Reads a whole text as an expression.
///
/// # Errors
/// The first mistake.
pub(super) fn parse(text: &Text, names: &Names<'_>) -> Result<Expr, Mistake> {
    let mut parser = Parser { text, at: 0, depth: 0, names, each: false };
    let expr = parser.expression()?;
    parser.space();
    match parser.rest().chars().next() {
        None => Ok(expr),
        Some(other) => {
            Err(parser.mistake(format!("`{other}` follows the end"), "write an operator before it"))
        }
    }
}

/// Reads a name and the names in parentheses after it, such as `filling(block)`.
///
/// # Errors
/// Something is not a name.
pub(super) fn head(text: &Text) -> Result<(String, Vec<String>), Mistake> {
    let written = text.text.trim();
    let wrong = || {
        let help = "write a name, such as `share`, or a name with parameters, such as `filling(block)`";
        (format!("`{written}` cannot be defined"), text.value_span(), help.to_owned())
    };
    let (name, parameters) = match written.split_once('(') {
        None => (written, Vec::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(wrong)?;
            (name, inner.split(',').map(|one| one.trim().to_owned()).collect())
        }
    };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if !is_name(name) || !parameters.iter().all(|name| is_name(name)) {
        return Err(wrong());
    }
    if let Some(taken) =
        std::iter::once(name).chain(parameters.iter().map(String::as_str)).find(|name| reserved(name))
    {
        let help = "choose another name: this one is known to every price list".to_owned();
        return Err((format!("`{taken}` has a meaning already"), text.value_span(), help));
    }
    Ok((name.to_owned(), parameters))
}

/// The forms that are not functions of numbers: name, notation, and meaning.
pub(super) const FORMS: &[(&str, &str, &str)] = &[
    ("if", "if(condition, yes, no)", "one of two values; a condition holds where it is not 0"),
    (
        "constants",
        "constants",
        "bytes of all constants of the model, for a kernel that reads some of them, else 0",
    ),
    ("and", "a and b", "1 where both hold, else 0"),
    ("or", "a or b", "1 where one of them holds, else 0"),
    (
        "attr",
        "attr(name, absent)",
        "an integer attribute, and its value where the op has none; 0 unless it is given",
    ),
    (
        "own",
        "own(name)",
        "a number that the op declares for cost models; 0 where it declares none of the name",
    ),
    ("each_operand", "each_operand(first, term)", "`first`, to which `term` is added for each `operand`"),
    (
        "functions_of",
        "functions_of(table)",
        "operations of the functions that all elements go through, by a table",
    ),
    (
        "steps_besides",
        "steps_besides(add, relu)",
        "the number of steps after the kernel that have other names",
    ),
];
fn reserved(name: &str) -> bool {
    FORMS.iter().any(|(form, ..)| *form == name)
        || function(name).is_some()
        || Place::parse(name).is_some()
        || MEASURES.iter().any(|measure| measure.name == name)
        || SPEEDS.iter().any(|speed| speed.name == name)
        || BASIC.iter().any(|feature| feature.name == name)
}

struct Parser<'a> {
    text: &'a Text,
    at: usize,
    depth: usize,
    names: &'a Names<'a>,
    /// Whether `operand` has a meaning here.
    each: bool,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn mistake(&self, message: impl Into<String>, help: impl Into<String>) -> Mistake {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        (message.into(), self.text.span(self.at..self.at + length), help.into())
    }

    /// Skips the first of these signs that comes next, and returns it.
    fn eat<'s>(&mut self, signs: &[&'s str]) -> Option<&'s str> {
        self.space();
        let sign = signs.iter().find(|sign| self.rest().starts_with(**sign))?;
        self.at += sign.len();
        Some(sign)
    }

    /// Skips a word if it comes next.
    fn eat_word(&mut self, word: &str) -> bool {
        self.space();
        let next = self.rest().strip_prefix(word);
        let found =
            next.is_some_and(|next| !next.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'));
        if found {
            self.at += word.len();
        }
        found
    }

    fn expression(&mut self) -> Result<Expr, Mistake> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.mistake("the expression is nested too deeply", "define a part of it as a word"));
        }
        let expr = self.logic("or", false, |parser| parser.logic("and", true, Self::comparison))?;
        self.depth -= 1;
        Ok(expr)
    }

    /// Reads conditions that are joined by `and` or `or`.
    fn logic(
        &mut self,
        word: &str,
        all: bool,
        operand: impl Fn(&mut Self) -> Result<Expr, Mistake>,
    ) -> Result<Expr, Mistake> {
        let mut conditions = vec![operand(self)?];
        while self.eat_word(word) {
            conditions.push(operand(self)?);
        }
        match conditions.len() {
            1 => Ok(conditions.remove(0)),
            _ => Ok(Expr::Logic(all, conditions)),
        }
    }

    fn comparison(&mut self) -> Result<Expr, Mistake> {
        let left = self.sum()?;
        match self.eat(&["<=", ">=", "==", "!=", "<", ">"]) {
            Some(sign) => Ok(Expr::Call(operator(sign), vec![left, self.sum()?])),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Expr, Mistake> {
        self.chain(&["+", "-"], |parser| parser.chain(&["*", "/"], Self::factor))
    }

    /// Reads operands that are joined by operators of one precedence.
    fn chain(
        &mut self,
        signs: &[&str],
        operand: impl Fn(&mut Self) -> Result<Expr, Mistake>,
    ) -> Result<Expr, Mistake> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(sign) = self.eat(signs) {
            rest.push((operator(sign), operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn factor(&mut self) -> Result<Expr, Mistake> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.mistake("the expression is nested too deeply", "define a part of it as a word"));
        }
        let expr = if self.eat(&["-"]).is_some() {
            Expr::Call(operator("-"), vec![Expr::Number(0.0), self.factor()?])
        } else if self.eat_word("not") {
            Expr::Call(operator("not"), vec![self.factor()?])
        } else {
            let base = self.atom()?;
            match self.eat(&["^"]) {
                Some(_) => Expr::Call(operator("^"), vec![base, self.factor()?]),
                None => base,
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn atom(&mut self) -> Result<Expr, Mistake> {
        if self.eat(&["("]).is_some() {
            let expr = self.expression()?;
            self.close()?;
            return Ok(expr);
        }
        self.space();
        let start = self.at;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.mistake("a number, a name or a function is missing here", "write `flops`, say"));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number(length);
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        let span = self.text.span(start..start + length);
        match self.eat(&["("]) {
            Some(_) => self.call(&name, span),
            None => self.name(&name, span),
        }
    }

    fn number(&mut self, mut length: usize) -> Result<Expr, Mistake> {
        // The sign of an exponent belongs to the number.
        if self.rest()[..length].ends_with(['e', 'E']) && self.rest()[length..].starts_with(['+', '-']) {
            let digits = self.rest()[length + 1..].find(|c: char| !c.is_ascii_digit());
            length = digits.map_or(self.rest().len(), |digits| length + 1 + digits);
        }
        let digits = &self.rest()[..length];
        let span = self.text.span(self.at..self.at + length);
        let number = digits.parse().map_err(|_| {
            (format!("`{digits}` is not a number"), span, "write digits, such as `2e11`".to_owned())
        })?;
        self.at += length;
        Ok(Expr::Number(number))
    }

    /// Reads a name without parentheses.
    fn name(&self, name: &str, span: Span) -> Result<Expr, Mistake> {
        if let Some(at) = self.names.parameters.iter().position(|one| one == name) {
            return Ok(Expr::Parameter(at));
        }
        if let Some(at) = self.names.words.iter().position(|(word, arity)| word == name && *arity == 0) {
            return Ok(Expr::Word(at, Vec::new()));
        }
        if name == "constants" {
            return Ok(Expr::Constants);
        }
        if let Some(at) = SPEEDS.iter().position(|speed| speed.name == name) {
            return Ok(Expr::Speed(at));
        }
        if let Some(at) = BASIC.iter().position(|feature| feature.name == name) {
            return match BASIC[at].is_number() {
                true => Ok(Expr::Feature(at)),
                false => Err((
                    format!("`{name}` is text, not a number"),
                    span,
                    "tell kernels apart by the fields of `Case(…)`".to_owned(),
                )),
            };
        }
        if self.names.words.iter().any(|(word, _)| word == name) || function(name).is_some() {
            return Err((format!("`{name}` takes arguments"), span, format!("write `{name}(…)`")));
        }
        let numbers = BASIC.iter().filter(|feature| feature.is_number()).map(|feature| feature.name);
        let words = self.names.words.iter().map(|(word, _)| word.as_str());
        let parameters = self.names.parameters.iter().map(String::as_str);
        let known = words.chain(parameters).chain(SPEEDS.iter().map(|speed| speed.name)).chain(numbers);
        Err(unknown("name", name, span, known))
    }

    /// Reads the arguments of a function whose name and opening parenthesis were read.
    fn call(&mut self, name: &str, span: Span) -> Result<Expr, Mistake> {
        match name {
            "if" => {
                let parts = self.arguments(name, 3, span)?;
                let parts: [Expr; 3] = parts.try_into().expect("three arguments were asked for");
                return Ok(Expr::If(Box::new(parts)));
            }
            "each_operand" => return self.each_operand(span),
            "attr" => {
                let attribute = self.plain_name("an attribute", "attr(groups)")?;
                let absent = match self.eat(&[","]) {
                    Some(_) => self.expression()?,
                    None => Expr::Number(0.0),
                };
                self.close()?;
                return Ok(Expr::Attribute(attribute, Box::new(absent)));
            }
            "own" => {
                let own = self.plain_name("a number that the op declares", "own(winograd_products)")?;
                self.close()?;
                return Ok(Expr::Own(own));
            }
            "functions_of" => return self.functions_of(),
            "steps_besides" => {
                let mut names = vec![self.plain_name("a step", "steps_besides(add, relu)")?];
                while self.eat(&[","]).is_some() {
                    names.push(self.plain_name("a step", "steps_besides(add, relu)")?);
                }
                self.close()?;
                return Ok(Expr::StepsBesides(names));
            }
            _ => {}
        }
        if let Some(at) = MEASURES.iter().position(|measure| measure.name == name) {
            return self.measure(at, span);
        }
        if let Some(function) = function(name).filter(|function| function.name != "not") {
            let arguments = self.list()?;
            let enough = match function.variadic {
                true => arguments.len() >= function.arity,
                false => arguments.len() == function.arity,
            };
            return match enough {
                true => Ok(Expr::Call(function, arguments)),
                false => Err(wrong_count(name, function.arity, arguments.len(), span)),
            };
        }
        if let Some(at) = self.names.words.iter().position(|(word, _)| word == name) {
            let arity = self.names.words[at].1;
            return Ok(Expr::Word(at, self.arguments(name, arity, span)?));
        }
        let words = self.names.words.iter().filter(|(_, arity)| *arity > 0).map(|(word, _)| word.as_str());
        let functions = FUNCTIONS.iter().map(|function| function.name).filter(|name| name.len() > 2);
        let known = words
            .chain(functions)
            .chain(MEASURES.iter().map(|measure| measure.name))
            .chain(FORMS.iter().map(|(form, ..)| *form));
        Err(unknown("function", name, span, known))
    }

    fn each_operand(&mut self, span: Span) -> Result<Expr, Mistake> {
        let first = self.expression()?;
        if self.eat(&[","]).is_none() {
            return Err(wrong_count("each_operand", 2, 1, span));
        }
        let outer = std::mem::replace(&mut self.each, true);
        let term = self.expression()?;
        self.each = outer;
        self.close()?;
        Ok(Expr::EachOperand(Box::new([first, term])))
    }

    fn functions_of(&mut self) -> Result<Expr, Mistake> {
        self.space();
        let start = self.at;
        let table = self.plain_name("a table", "functions_of(function)")?;
        let span = self.text.span(start..start + table.len());
        self.close()?;
        match self.names.tables.iter().position(|known| *known == table) {
            Some(at) => Ok(Expr::Functions(at)),
            None => Err(unknown("table", &table, span, self.names.tables.iter().map(String::as_str))),
        }
    }

    /// Reads a measure, such as `dim(in1, 0)`.
    fn measure(&mut self, at: usize, span: Span) -> Result<Expr, Mistake> {
        let measure = &MEASURES[at];
        let example = if measure.takes {
            format!("{}(in0, 1)", measure.name)
        } else {
            format!("{}(in0)", measure.name)
        };
        self.space();
        let start = self.at;
        let name = self.plain_name("an operand", &example)?;
        let place_span = self.text.span(start..start + name.len());
        let place = Place::parse(&name).ok_or_else(|| {
            let help = "write `in0`, `in1`, … for operands, or `out` for the result".to_owned();
            (format!("`{name}` is not an operand"), place_span, help)
        })?;
        if place == Place::Each && !self.each {
            let help = "write it in the second argument of `each_operand(first, term)`".to_owned();
            return Err(("`operand` has no meaning here".to_owned(), place_span, help));
        }
        let argument = match (measure.takes, self.eat(&[","])) {
            (true, Some(_)) => self.expression()?,
            (false, None) => Expr::Number(0.0),
            (true, None) => return Err(wrong_count(measure.name, 2, 1, span)),
            (false, Some(_)) => return Err(wrong_count(measure.name, 1, 2, span)),
        };
        self.close()?;
        Ok(Expr::Measure(at, place, Box::new(argument)))
    }

    /// Reads a name as an argument.
    fn plain_name(&mut self, what: &str, example: &str) -> Result<String, Mistake> {
        self.space();
        let length = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let name = self.rest()[..length.unwrap_or(self.rest().len())].to_owned();
        if name.is_empty() {
            return Err(self
                .mistake(format!("the name of {what} is missing here"), format!("write `{example}`, say")));
        }
        self.at += name.len();
        Ok(name)
    }

    /// Reads expressions up to the closing parenthesis.
    fn list(&mut self) -> Result<Vec<Expr>, Mistake> {
        let mut arguments = vec![self.expression()?];
        while self.eat(&[","]).is_some() {
            arguments.push(self.expression()?);
        }
        self.close()?;
        Ok(arguments)
    }

    /// Reads as many expressions as a function takes.
    fn arguments(&mut self, name: &str, count: usize, span: Span) -> Result<Vec<Expr>, Mistake> {
        let arguments = self.list()?;
        match arguments.len() == count {
            true => Ok(arguments),
            false => Err(wrong_count(name, count, arguments.len(), span)),
        }
    }

    fn close(&mut self) -> Result<(), Mistake> {
        match self.eat(&[")"]) {
            Some(_) => Ok(()),
            None => Err(self.mistake("`)` is missing here", "close every parenthesis")),
        }
    }
}

fn operator(sign: &str) -> &'static super::expression::Function {
    function(sign).expect("every sign that is read is an operator")
}

fn wrong_count(name: &str, wanted: usize, given: usize, span: Span) -> Mistake {
    let help = format!("give it {wanted}");
    (
        format!("`{name}` takes {wanted} argument{}, not {given}", if wanted == 1 { "" } else { "s" }),
        span,
        help,
    )
}

fn unknown<'k>(what: &str, name: &str, span: Span, known: impl Iterator<Item = &'k str>) -> Mistake {
    let known: Vec<&str> = known.collect();
    let help = match suggestion(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    (format!("there is no {what} `{name}`"), span, help)
}
