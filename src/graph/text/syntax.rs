//! Parses a text to statements with spans. Refuses what does not follow the grammar; after a mistake it continues
//! at the next line.

use super::lex::{Lexeme, Token, lex};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::tensor::{DType, Device, Family, Layout, Shape, TensorType};

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// A whole graph.
#[derive(Debug, Default)]
pub(super) struct GraphText {
    pub(super) name: String,
    pub(super) statements: Vec<Statement>,
}

/// One line.
#[derive(Debug)]
pub(super) enum Statement {
    Value { name: Spanned<String>, ty: Option<Spanned<TensorType>>, op: Spanned<String>, body: Body },
    Return { name: Spanned<String>, value: Spanned<String> },
}

/// The part of a statement after the op's name.
#[derive(Debug)]
pub(super) enum Body {
    Input,
    Const(Spanned<Literal>),
    Call { operands: Vec<Spanned<String>>, attrs: Vec<(Spanned<String>, Spanned<RawAttr>)> },
}

/// The value of a constant, with its elements as they are written.
#[derive(Debug)]
pub(super) enum Literal {
    List(Vec<Spanned<String>>),
    Splat(Spanned<String>),
    Seed(u64),
    Hash(String),
}

/// The value of an attribute before its kind is known.
#[derive(Clone, Debug)]
pub(super) enum RawAttr {
    Number(String),
    List(Vec<Spanned<String>>),
    Word(String),
    Quoted(String),
    Post(Vec<(Spanned<String>, Vec<Spanned<String>>)>),
}

/// A mistake that was already added to the diagnostics.
pub(super) struct Reported;

type Parsed<T> = Result<T, Reported>;

/// Returns the statements of source 0 of `found` that have no mistakes, and the names that the others would have
/// defined.
pub(super) fn parse(text: &str, families: &[Family], found: &mut Diagnostics) -> (GraphText, Vec<String>) {
    let lexemes = lex(text, found);
    let mut parser = Parser { lexemes, at: 0, families, found, broken: Vec::new() };
    let graph = parser.graph();
    (graph, parser.broken)
}

struct Parser<'a> {
    lexemes: Vec<Lexeme>,
    at: usize,
    /// Families of devices that types may name.
    families: &'a [Family],
    found: &'a mut Diagnostics,
    broken: Vec<String>,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.lexemes[self.at].token
    }

    fn span(&self) -> Span {
        self.lexemes[self.at].span
    }

    /// Moves past a token, except the end.
    fn advance(&mut self) -> Lexeme {
        let lexeme = self.lexemes[self.at].clone();
        if lexeme.token != Token::End {
            self.at += 1;
        }
        lexeme
    }

    fn is(&self, mark: char) -> bool {
        *self.token() == Token::Mark(mark)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Word(found) if found == word)
    }

    fn take(&mut self, mark: char) -> bool {
        let there = self.is(mark);
        if there {
            self.at += 1;
        }
        there
    }

    fn expected(&mut self, what: &str) -> Reported {
        let lexeme = &self.lexemes[self.at];
        let (span, shown) = match lexeme.token {
            Token::Bad => return Reported,
            Token::End => (lexeme.span, "the end of the text".to_owned()),
            _ if lexeme.leads && self.at > 0 => {
                (Span::at(self.lexemes[self.at - 1].span.end), "the end of the line".to_owned())
            }
            _ => (lexeme.span, format!("`{}`", lexeme.span.slice(&self.found.sources()[0].text))),
        };
        let diagnostic = Diagnostic::new(format!("expected {what}, found {shown}"));
        self.found.push(diagnostic.label(0, span, format!("expected {what}")));
        Reported
    }

    fn need(&mut self, mark: char) -> Parsed<()> {
        if self.take(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    fn name(&mut self, what: &str) -> Parsed<Spanned<String>> {
        match self.token().clone() {
            Token::Word(value) | Token::Quoted(value) => Ok(Spanned { value, span: self.advance().span }),
            _ => Err(self.expected(what)),
        }
    }

    fn graph(&mut self) -> GraphText {
        let mut graph = GraphText::default();
        let head = self.head(&mut graph);
        if head.is_err() {
            return graph;
        }
        loop {
            match self.token() {
                Token::Mark('}') => break,
                Token::End => {
                    self.expected("`}` at the end of the graph");
                    return graph;
                }
                _ => self.line(&mut graph),
            }
        }
        self.at += 1;
        if *self.token() != Token::End {
            self.expected("nothing after the graph");
        }
        graph
    }

    fn head(&mut self, graph: &mut GraphText) -> Parsed<()> {
        if !self.is_word("graph") {
            return Err(self.expected("`graph`"));
        }
        self.at += 1;
        if !self.is('{') {
            graph.name = self.name("the graph's name or `{`")?.value;
        }
        self.need('{')
    }

    /// Parses one statement. After a mistake, continues at the next line.
    fn line(&mut self, graph: &mut GraphText) {
        let start = self.at;
        let parsed = self.statement().and_then(|statement| {
            if self.lexemes[self.at].leads || self.is('}') {
                Ok(statement)
            } else {
                Err(self.expected("the end of the line"))
            }
        });
        match parsed {
            Ok(statement) => graph.statements.push(statement),
            Err(Reported) => {
                if let Token::Word(name) | Token::Quoted(name) = &self.lexemes[start].token {
                    self.broken.push(name.clone());
                }
                self.at = self.at.max(start + 1).min(self.lexemes.len() - 1);
                while !self.lexemes[self.at].leads {
                    self.at += 1;
                }
                // The closing `}` of the graph may be on the line that was skipped.
                if *self.token() == Token::End
                    && self.at > start + 1
                    && self.lexemes[self.at - 1].token == Token::Mark('}')
                {
                    self.at -= 1;
                }
            }
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.is_word("return") {
            self.at += 1;
            let name = self.name("the name of an output")?;
            let value = if self.take('=') { self.name("the name of a value")? } else { name.clone() };
            return Ok(Statement::Return { name, value });
        }
        let name = self.name("the name of a value, `return` or `}`")?;
        let ty = if self.take(':') { Some(self.ty()?) } else { None };
        self.need('=')?;
        let op = self.name("an op")?;
        let body = match op.value.as_str() {
            "input" => Body::Input,
            "const" => Body::Const(self.literal()?),
            _ if !self.is('(') && *self.token() != Token::Bad => return Err(self.without_operands(&op)),
            _ => self.call()?,
        };
        Ok(Statement::Value { name, ty, op, body })
    }

    fn without_operands(&mut self, op: &Spanned<String>) -> Reported {
        let diagnostic = Diagnostic::new(format!("the op `{}` has no operands", op.value));
        let diagnostic = diagnostic.label(0, op.span, "expected `(` after it");
        self.found.push(diagnostic.suggest(&op.value, ["input", "const"]));
        Reported
    }

    /// Parses a type such as `f32[1,64,56,56]@nChw16c#gpu:0`.
    fn ty(&mut self) -> Parsed<Spanned<TensorType>> {
        let start = self.span();
        let dtype = match self.token() {
            Token::Word(word) => word.parse::<DType>().map_err(|why| (DType::named_elsewhere(word), why)),
            _ => return Err(self.expected("a type such as `f32[1,64]`")),
        };
        let dtype = dtype.map_err(|(meant, why)| {
            let diagnostic = Diagnostic::new(why.to_string()).label(0, start, "");
            self.found.push(match meant {
                Some(ours) => diagnostic.help(format!("the element type is `{ours}`")),
                None => diagnostic,
            });
            Reported
        })?;
        self.at += 1;
        self.need('[')?;
        let mut dims = Vec::new();
        while !self.is(']') {
            let size = match self.token() {
                Token::Number(digits) => digits.parse::<usize>().ok(),
                _ => None,
            };
            let Some(size) = size else {
                return Err(self.expected("a dimension's size"));
            };
            self.at += 1;
            dims.push(size);
            if !self.take(',') {
                break;
            }
        }
        self.need(']')?;
        let rank = dims.len();
        let mut ty = TensorType::plain(dtype, Shape::new(dims));
        if self.take('@') {
            let span = self.span();
            let text = self.name("a layout such as `nChw16c`")?.value;
            ty.layout = text.parse::<Layout>().map_err(|why| self.wrong_type(span, why.to_string()))?;
            if let Some(other) = ty.layout.rank().filter(|&other| other != rank) {
                let message = format!("layout `{text}` is for {other} dimensions, the shape has {rank}");
                return Err(self.wrong_type(span, message));
            }
        }
        if let Token::Hash(device) = self.token().clone() {
            ty.device = self.device(&device)?;
        }
        let whole = start.to(self.lexemes[self.at - 1].span);
        match crate::tensor::size_error(&ty) {
            Some(message) => Err(self.wrong_type(whole, message)),
            None => Ok(Spanned { value: ty, span: whole }),
        }
    }

    fn device(&mut self, name: &str) -> Parsed<Device> {
        let span = self.advance().span;
        match name {
            "host" => Ok(Device::Host),
            name => {
                let Some(family) = self.families.iter().find(|family| family.name() == name) else {
                    let known = self
                        .families
                        .iter()
                        .fold("`host`".to_owned(), |known, family| format!("{known} and `{family}:0`"));
                    return Err(self.wrong_type(span, format!("unknown device `{name}`; there are {known}")));
                };
                self.need(':')?;
                let index = match self.token() {
                    Token::Number(digits) => digits.parse().ok(),
                    _ => None,
                };
                let Some(index) = index else {
                    return Err(self.expected("the number of a device"));
                };
                self.at += 1;
                Ok(Device::Accelerator(*family, index))
            }
        }
    }

    fn wrong_type(&mut self, span: Span, message: String) -> Reported {
        self.found.push(Diagnostic::new(message).label(0, span, ""));
        Reported
    }

    fn literal(&mut self) -> Parsed<Spanned<Literal>> {
        let start = self.span();
        let value = match self.token().clone() {
            Token::Mark('[') => Literal::List(self.list()?),
            Token::Mark('~') => {
                self.at += 1;
                let seed = match self.token() {
                    Token::Number(digits) => digits.parse().ok(),
                    _ => None,
                };
                let Some(seed) = seed else {
                    return Err(self.expected("a seed, a number from 0 on"));
                };
                self.at += 1;
                Literal::Seed(seed)
            }
            Token::Hash(digits) => {
                self.at += 1;
                Literal::Hash(digits)
            }
            Token::Word(word) if word == "splat" => {
                self.at += 1;
                Literal::Splat(self.number()?)
            }
            _ => {
                return Err(self
                    .expected("a constant's value: `[1.0, 2.0]`, `splat 0.5`, `~1` or `#0123456789abcdef`"));
            }
        };
        Ok(Spanned { value, span: start.to(self.lexemes[self.at - 1].span) })
    }

    /// Parses a number, `inf`, `NaN`, `true` or `false`, and returns it as it is written.
    fn number(&mut self) -> Parsed<Spanned<String>> {
        match self.token().clone() {
            Token::Number(value) | Token::Word(value) => Ok(Spanned { value, span: self.advance().span }),
            _ => Err(self.expected("a number")),
        }
    }

    /// Parses a list such as `[1, 2, 3]`.
    fn list(&mut self) -> Parsed<Vec<Spanned<String>>> {
        self.need('[')?;
        let mut list = Vec::new();
        while !self.is(']') {
            list.push(self.number()?);
            if !self.take(',') {
                break;
            }
        }
        self.need(']')?;
        Ok(list)
    }

    /// Parses operands and attributes such as `(x, w) {axis: 1}`.
    fn call(&mut self) -> Parsed<Body> {
        self.need('(')?;
        let mut operands = Vec::new();
        while !self.is(')') {
            operands.push(self.name("an operand's name")?);
            if !self.take(',') {
                break;
            }
        }
        self.need(')')?;
        let mut attrs = Vec::new();
        if self.is('{') && !self.lexemes[self.at].leads {
            self.at += 1;
            while !self.is('}') {
                let name = self.name("an attribute's name")?;
                self.need(':')?;
                attrs.push((name, self.attr()?));
                if !self.take(',') {
                    break;
                }
            }
            self.need('}')?;
        }
        Ok(Body::Call { operands, attrs })
    }

    fn attr(&mut self) -> Parsed<Spanned<RawAttr>> {
        let start = self.span();
        let value = match self.token().clone() {
            Token::Mark('[') => RawAttr::List(self.list()?),
            Token::Mark('<') => self.post()?,
            Token::Number(number) => {
                self.at += 1;
                RawAttr::Number(number)
            }
            Token::Word(word) => {
                self.at += 1;
                RawAttr::Word(word)
            }
            Token::Quoted(text) => {
                self.at += 1;
                RawAttr::Quoted(text)
            }
            _ => return Err(self.expected("an attribute's value")),
        };
        Ok(Spanned { value, span: start.to(self.lexemes[self.at - 1].span) })
    }

    /// Parses a chain such as `<add,clip(0.0,6.0)>`.
    fn post(&mut self) -> Parsed<RawAttr> {
        self.need('<')?;
        let mut steps = Vec::new();
        while !self.is('>') {
            let name = self.name("a step of a post chain")?;
            let mut parameters = Vec::new();
            if self.take('(') {
                while !self.is(')') {
                    parameters.push(self.number()?);
                    if !self.take(',') {
                        break;
                    }
                }
                self.need(')')?;
            }
            steps.push((name, parameters));
            if !self.take(',') {
                break;
            }
        }
        self.need('>')?;
        Ok(RawAttr::Post(steps))
    }
}
