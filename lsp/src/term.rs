//! The language inside of texts: patterns, guards, and graphs of examples, as terms with their places.
//!
//! Like the [`Outline`](crate::outline::Outline), terms are read from any text, however incomplete. Places are those in
//! the file, whose escapes are left as they are: only the quotes of texts inside of patterns are escaped.

use ovolo::error::Span;

/// Which language a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A pattern: `(conv ?x ?w {axis: ?a, *r})`.
    Pattern,
    /// A guard or a computed attribute: `equal(rank-of(?x), 4)`.
    Expression,
    /// A graph in text form: `y = conv(x, w, b) {groups: 2}`.
    Graph,
}

/// A name in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The name without its sign, so `x` of `?x`.
    pub span: Span,
    /// What it names.
    pub role: Role,
}

/// What a name in a text stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// `(name …` in a pattern, `name(…)` in a graph.
    Op,
    /// `name: …` in the braces of the op of this name.
    Attribute(String),
    /// `name(…)` in an expression.
    Function,
    /// `?name`, with the op and its attribute if it is the value of one.
    Variable(Option<(String, String)>),
    /// `*name`.
    Rest,
    /// `$name`.
    Key,
    /// A step of a chain, `<name>`.
    Step,
    /// A name of none of these: a value such as `f32`, or the value of a graph.
    Value,
}

/// An open bracket in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// `(name …`, the operands of an op of a pattern.
    Op(String),
    /// `name(…`, the arguments of a function, or the operands of an op of a graph.
    Call(String),
    /// `{…`, the attributes of the op of this name; with the attribute whose value is being written.
    Attributes(String, Option<String>),
    /// `<…`, a chain.
    Chain,
    /// `[…`, a list.
    List,
}

/// The terms of a text.
#[derive(Debug, Default)]
pub struct Terms {
    /// The terms, in order.
    pub list: Vec<Term>,
    /// What is open at the end of the text, from the outermost to the innermost.
    pub open: Vec<Open>,
    /// The sign directly before the end of the text, of a name that is still to be written.
    pub sign: Option<char>,
}

impl Terms {
    /// Reads the terms of a part of a file.
    pub fn read(text: &str, part: Span, language: Language) -> Self {
        let mut reader = Reader {
            text,
            at: part.start,
            end: part.end,
            language,
            closed: String::new(),
            terms: Self::default(),
        };
        while reader.step() {}
        reader.terms
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    language: Language,
    /// The op of a graph whose operands were just closed: braces that follow are its attributes.
    closed: String,
    terms: Terms,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or("")
    }

    /// Reads one term or sign. Returns whether the text goes on.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest().chars().next() else { return false };
        let sign = self.terms.sign.take();
        match next {
            '?' | '*' | '$' => {
                self.at += 1;
                self.terms.sign = Some(next);
            }
            '\\' if self.rest().starts_with("\\\"") => self.quoted("\\\""),
            '"' => self.quoted("\""),
            '(' => {
                self.at += 1;
                self.terms.open.push(Open::Op(String::new()));
            }
            ')' | ']' | '>' => self.close(next),
            '}' => self.close(next),
            '{' => self.open(Open::Attributes(self.op(), None)),
            '<' => self.open(Open::Chain),
            '[' => self.open(Open::List),
            ',' => {
                self.at += 1;
                if let Some(Open::Attributes(_, value)) = self.terms.open.last_mut() {
                    *value = None;
                }
            }
            '\n' | ';' => {
                self.at += 1;
                self.closed.clear();
            }
            _ if is_name(next) => self.name(sign),
            _ => self.at += next.len_utf8(),
        }
        true
    }

    fn open(&mut self, open: Open) {
        self.at += 1;
        self.terms.open.push(open);
    }

    /// Closes the innermost bracket of a kind, with those inside that were left open.
    fn close(&mut self, close: char) {
        self.at += 1;
        let fits = |open: &Open| {
            matches!(
                (close, open),
                (')', Open::Op(_) | Open::Call(_))
                    | ('}', Open::Attributes(..))
                    | (']', Open::List)
                    | ('>', Open::Chain)
            )
        };
        let Some(at) = self.terms.open.iter().rposition(fits) else { return };
        if let (Some(Open::Call(name)), Language::Graph) = (self.terms.open.get(at), self.language) {
            self.closed.clone_from(name);
        }
        self.terms.open.truncate(at);
    }

    /// Returns the op whose attributes braces here would be.
    fn op(&self) -> String {
        match self.terms.open.last() {
            Some(Open::Op(name)) => name.clone(),
            _ => self.closed.clone(),
        }
    }

    /// Skips a text in quotes.
    fn quoted(&mut self, quote: &str) {
        self.at += quote.len();
        self.at += self.rest().find(quote).map_or(self.rest().len(), |end| end + quote.len());
    }

    fn name(&mut self, sign: Option<char>) {
        let rest = self.rest();
        let dots = sign.is_none();
        let is_in = |c: char| is_name(c) || dots && matches!(c, '.' | '$');
        let mut length = rest.find(|c| !is_in(c)).unwrap_or(rest.len());
        if sign == Some('$') {
            length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        }
        if length == 0 {
            self.at += 1;
            return;
        }
        let span = Span::new(self.at, self.at + length);
        let (name, follows) = (span.slice(self.text).to_owned(), &rest[length..]);
        self.at += length;
        // The names inside of a name such as `map-$op`.
        for (at, _) in name.match_indices('$') {
            let key = &name[at + 1..];
            let end = key.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(key.len());
            let start = span.start + at + 1;
            self.terms.list.push(Term { span: Span::new(start, start + end), role: Role::Key });
        }
        let begins_op = matches!(self.terms.open.last(), Some(Open::Op(name)) if name.is_empty());
        let role = match sign {
            Some('?') => Role::Variable(self.value_of()),
            Some('*') => Role::Rest,
            Some('$') => Role::Key,
            _ if begins_op => {
                self.terms.open.pop();
                self.terms.open.push(Open::Op(name));
                Role::Op
            }
            _ if follows.starts_with('(') => {
                self.at += 1;
                self.terms.open.push(Open::Call(name));
                if self.language == Language::Graph { Role::Op } else { Role::Function }
            }
            _ => self.plain(name, follows),
        };
        self.terms.list.push(Term { span, role });
    }

    /// Returns the role of a name without a sign and without parentheses.
    fn plain(&mut self, name: String, follows: &str) -> Role {
        match self.terms.open.last_mut() {
            Some(Open::Attributes(op, value @ None)) => {
                if follows.trim_start().starts_with(':') {
                    *value = Some(name);
                }
                Role::Attribute(op.clone())
            }
            Some(Open::Chain) => Role::Step,
            _ => Role::Value,
        }
    }

    /// Returns the op and the attribute whose value stands here.
    fn value_of(&self) -> Option<(String, String)> {
        match self.terms.open.last() {
            Some(Open::Attributes(op, Some(attribute))) => Some((op.clone(), attribute.clone())),
            _ => None,
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}
