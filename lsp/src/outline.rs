//! The outline of a file of RON: its items, its fields, and the texts in quotes with the fields they stand in.
//!
//! The framework's reader gives the values of a correct file. An editor also asks while the text is incomplete, so the
//! outline is made of tokens alone, and every text has one.

use ovolo::error::Span;

/// The outline of a file.
#[derive(Debug, Default)]
pub struct Outline {
    /// The structs with a name, such as `Rule(…)`, in order; those inside of another come after it.
    pub structs: Vec<Struct>,
    /// The fields of structs, in order.
    pub fields: Vec<Field>,
    /// The texts in quotes, in order.
    pub literals: Vec<Literal>,
    /// Names that are neither fields nor the names of structs, such as a misspelt or incomplete name.
    pub words: Vec<Word>,
    /// What is open at the end of the text, from the outermost to the innermost.
    pub open: Vec<Frame>,
}

/// A struct with a name.
#[derive(Debug)]
pub struct Struct {
    /// The name.
    pub head: Span,
    /// From the name to the closing parenthesis, or to the end of the text.
    pub span: Span,
    /// The struct around it, as an index of [`Outline::structs`].
    pub parent: Option<usize>,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The name.
    pub key: Span,
    /// The struct, as an index of [`Outline::structs`].
    pub parent: Option<usize>,
}

/// A text in quotes.
#[derive(Debug)]
pub struct Literal {
    /// The text without the quotes.
    pub body: Span,
    /// The struct around it, as an index of [`Outline::structs`].
    pub parent: Option<usize>,
    /// The name of the field that it stands in.
    pub field: Option<Span>,
    /// Whether it is the key of a map.
    pub is_key: bool,
    /// Whether the closing quote is there.
    pub is_closed: bool,
}

/// A name with its struct.
#[derive(Debug)]
pub struct Word {
    /// The name.
    pub span: Span,
    /// What is open around it.
    pub within: Vec<Frame>,
}

/// An open bracket.
#[derive(Clone, Debug)]
pub struct Frame {
    /// `(`, `[` or `{`.
    pub open: char,
    /// The struct, as an index of [`Outline::structs`]; only of a parenthesis after a name.
    pub structure: Option<usize>,
    /// The field whose value is being written.
    pub field: Option<Span>,
}

impl Outline {
    /// Reads the outline of a text.
    pub fn read(text: &str) -> Self {
        Reader { text, at: 0, outline: Self::default(), word: None, key: None }.read()
    }

    /// Returns the name of a struct.
    pub fn head<'a>(&self, text: &'a str, structure: Option<usize>) -> &'a str {
        structure.and_then(|at| self.structs.get(at)).map_or("", |one| one.head.slice(text))
    }

    /// Returns the outermost struct around a struct, or itself: the rule of a file of rules.
    pub fn item(&self, structure: Option<usize>) -> Option<usize> {
        let mut at = structure?;
        while let Some(parent) = self.structs.get(at)?.parent {
            at = parent;
        }
        Some(at)
    }

    /// Returns the text in quotes at a position.
    pub fn literal_at(&self, at: usize) -> Option<&Literal> {
        self.literals.iter().find(|one| (one.body.start..=one.body.end).contains(&at))
    }

    /// Returns the texts in quotes of a field of a struct.
    pub fn texts<'a>(
        &'a self,
        text: &'a str,
        structure: usize,
        field: &'a str,
    ) -> impl Iterator<Item = &'a Literal> {
        self.literals.iter().filter(move |one| {
            one.parent == Some(structure) && one.field.is_some_and(|key| key.slice(text) == field)
        })
    }

    /// Returns the name that a struct gives itself, by its field `name` or `rule`.
    pub fn name<'a>(&'a self, text: &'a str, structure: usize) -> Option<&'a Literal> {
        self.texts(text, structure, "name").next().or_else(|| self.texts(text, structure, "rule").next())
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    outline: Outline,
    /// The name that was just read; a parenthesis or a colon says what it is.
    word: Option<Span>,
    /// The text in quotes that was just read; a colon says that it is a key.
    key: Option<usize>,
}

impl Reader<'_> {
    fn read(mut self) -> Outline {
        while let Some(next) = self.rest().chars().next() {
            match next {
                _ if next.is_whitespace() => self.at += next.len_utf8(),
                '/' if self.rest().starts_with("//") => self.at += self.line(),
                '/' if self.rest().starts_with("/*") => {
                    self.at += self.rest().find("*/").map_or(self.rest().len(), |end| end + 2);
                }
                '"' => self.literal(1, "\""),
                'r' if raw_quote(self.rest()).is_some() => {
                    let begin = raw_quote(self.rest()).unwrap_or_default();
                    let close = format!("\"{}", "#".repeat(begin - 2));
                    self.literal(begin, &close);
                }
                '(' | '[' | '{' => self.open(next),
                ')' | ']' | '}' => self.close(next),
                ':' => self.colon(),
                ',' => self.comma(),
                _ if is_word(next) => self.word(),
                _ => self.at += next.len_utf8(),
            }
        }
        self.settle();
        let end = self.text.len();
        for one in self.outline.structs.iter_mut().filter(|one| one.span.end == usize::MAX) {
            one.span.end = end;
        }
        self.outline
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Returns the length of the rest of the line.
    fn line(&self) -> usize {
        self.rest().find('\n').unwrap_or(self.rest().len())
    }

    /// Keeps a name that turned out to be neither a field nor the name of a struct.
    fn settle(&mut self) {
        if let Some(span) = self.word.take() {
            self.outline.words.push(Word { span, within: self.outline.open.clone() });
        }
        self.key = None;
    }

    fn structure(&self) -> Option<usize> {
        self.outline.open.iter().rev().find_map(|frame| frame.structure)
    }

    fn word(&mut self) {
        self.settle();
        let length = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        self.word = Some(Span::new(self.at, self.at + length));
        self.at += length;
    }

    fn open(&mut self, open: char) {
        let mut structure = None;
        if let (Some(head), '(') = (self.word, open) {
            structure = Some(self.outline.structs.len());
            let span = Span::new(head.start, usize::MAX);
            self.outline.structs.push(Struct { head, span, parent: self.structure() });
            self.word = None;
        }
        self.settle();
        self.outline.open.push(Frame { open, structure, field: None });
        self.at += 1;
    }

    /// Closes the innermost bracket of a kind, with those inside that were left open.
    fn close(&mut self, close: char) {
        self.settle();
        self.at += 1;
        let open = match close {
            ')' => '(',
            ']' => '[',
            _ => '{',
        };
        let Some(at) = self.outline.open.iter().rposition(|frame| frame.open == open) else { return };
        for frame in self.outline.open.split_off(at) {
            if let Some(one) = frame.structure.and_then(|at| self.outline.structs.get_mut(at)) {
                one.span.end = self.at;
            }
        }
    }

    fn colon(&mut self) {
        if let Some(key) = self.key.take() {
            self.outline.literals[key].is_key = true;
        }
        let structure = self.structure();
        if let (Some(word), Some(frame)) = (self.word.take(), self.outline.open.last_mut())
            && frame.open == '('
        {
            frame.field = Some(word);
            self.outline.fields.push(Field { key: word, parent: structure });
        }
        self.at += 1;
    }

    fn comma(&mut self) {
        self.settle();
        if let Some(frame) = self.outline.open.last_mut().filter(|frame| frame.open == '(') {
            frame.field = None;
        }
        self.at += 1;
    }

    /// Reads a text in quotes. `begin` is the length of its opening quote.
    fn literal(&mut self, begin: usize, close: &str) {
        self.settle();
        let start = self.at + begin;
        let body = &self.text[start..];
        let end = if begin == 1 { quoted(body) } else { body.find(close) };
        // Without its closing quote, a text would run up to the next one. The line of another field or struct ends it.
        let next = next_field(&body[..end.unwrap_or(body.len())]);
        let is_closed = end.is_some() && next.is_none();
        let length = match (next, end) {
            (Some(_), _) | (None, None) => body.find('\n').unwrap_or(body.len()),
            (None, Some(end)) => end,
        };
        let span = Span::new(start, start + length);
        self.at = if is_closed { span.end + close.len() } else { span.end };
        let field = self.outline.open.iter().rev().find_map(|frame| frame.field);
        self.key = Some(self.outline.literals.len());
        let parent = self.structure();
        self.outline.literals.push(Literal { body: span, parent, field, is_key: false, is_closed });
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')
}

/// Returns the length of an opening quote such as `r"` or `r#"`.
fn raw_quote(rest: &str) -> Option<usize> {
    let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    rest[1 + hashes..].starts_with('"').then_some(hashes + 2)
}

/// Returns the position of the closing quote.
fn quoted(body: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            '"' if !escaped => return Some(at),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Returns the position of the first line that begins like a field with a text, `name: "`, or like a struct, `Name(`.
fn next_field(body: &str) -> Option<usize> {
    body.match_indices('\n').map(|(at, _)| at + 1).find(|at| {
        let line = body[*at..].trim_start_matches([' ', '\t']);
        let name = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(0);
        let rest = &line[name..];
        let value = rest.strip_prefix(": ").map(|value| value.trim_start_matches(['[', '{']));
        let is_struct = line.starts_with(|c: char| c.is_ascii_uppercase()) && rest.starts_with('(');
        // The opening quote of the next field ends a text whose own closing quote is missing, so it is not in `body`.
        name > 0 && (is_struct || value.is_some_and(|value| value.is_empty() || value.starts_with('"')))
    })
}
