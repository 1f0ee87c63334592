//! The lexer, for data that the crate `ron` does not provide: the positions of comments, brackets and lines.
//!
//! Only the crate reads values. This lexer knows just enough of the syntax to skip texts and comments.

use crate::diagnostic::Span;

/// A kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// A name or a number.
    Word,
    /// A text in quotes.
    Text,
    /// A text whose closing quote is missing.
    OpenText,
    /// `// …`, without the end of the line, or `/* … */`.
    Comment,
    /// Any other character.
    Other,
}

/// A token with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// Returns the tokens of a text, in order.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].len() - text[at..].trim_start().len();
        let (kind, length) = token(&text[at..])?;
        let span = Span::new(at, at + length);
        at = span.end;
        Some(Token { kind, span })
    })
}

/// Returns the kind and the length of the first token of a text.
fn token(rest: &str) -> Option<(Kind, usize)> {
    let first = rest.chars().next()?;
    let to = |end: Option<usize>| end.unwrap_or(rest.len());
    Some(match first {
        '(' | '[' | '{' => (Kind::Open, 1),
        ')' | ']' | '}' => (Kind::Close, 1),
        '/' if rest.starts_with("//") => (Kind::Comment, to(rest.find('\n'))),
        '/' if rest.starts_with("/*") => (Kind::Comment, block(rest)),
        '"' => closed(quoted(&rest[1..]).map(|length| length + 1), rest),
        '\'' => (Kind::Other, character(rest)),
        'r' | 'b' if prefix(rest).is_some() => {
            let begin = prefix(rest).unwrap_or_default();
            let hashes = rest[..begin].matches('#').count();
            let end = match rest[..begin].contains('r') {
                true => {
                    rest[begin..].find(&format!("\"{}", "#".repeat(hashes))).map(|length| length + 1 + hashes)
                }
                false => quoted(&rest[begin..]),
            };
            closed(end.map(|length| begin + length), rest)
        }
        c if is_word(c) => (Kind::Word, to(rest.find(|c| !is_word(c)))),
        other => (Kind::Other, other.len_utf8()),
    })
}

/// Returns whether a character belongs to a name or a number, or to a name with hyphens in old files.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.')
}

fn closed(length: Option<usize>, rest: &str) -> (Kind, usize) {
    length.map_or((Kind::OpenText, rest.len()), |length| (Kind::Text, length))
}

/// Returns the length of a prefix such as `r"`, `r#"`, `b"` or `br#"`.
fn prefix(rest: &str) -> Option<usize> {
    let letters = rest.find(|c| !matches!(c, 'r' | 'b'))?;
    let hashes = rest[letters..].find(|c| c != '#')?;
    let raw = rest[..letters].ends_with('r');
    let known = matches!(&rest[..letters], "r" | "b" | "br") && (raw || hashes == 0);
    (known && rest[letters + hashes..].starts_with('"')).then_some(letters + hashes + 1)
}

/// Returns the length of a text including its closing quote.
fn quoted(body: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            '"' if !escaped => return Some(at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Returns the length of `'x'`, or of a single `'`.
fn character(rest: &str) -> usize {
    let escaped = rest.starts_with("'\\");
    let inner = rest.char_indices().skip(if escaped { 3 } else { 2 });
    inner.take(if escaped { 8 } else { 1 }).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1)
}

/// Returns the length of a block comment. Block comments can be nested.
fn block(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let (step, change) = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step;
        depth = depth.saturating_add_signed(change);
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the positions of field names with hyphens.
pub(crate) fn hyphenated(text: &str) -> Vec<Span> {
    let tokens: Vec<Token> = tokens(text).filter(|token| token.kind != Kind::Comment).collect();
    let is_key = |pair: &[Token]| {
        let name = pair[0].span.slice(text);
        pair[0].kind == Kind::Word
            && pair[1].span.slice(text) == ":"
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.contains('-')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    tokens.windows(2).filter(|pair| is_key(pair)).map(|pair| pair[0].span).collect()
}

/// Returns the innermost bracket that is open at a position.
pub(crate) fn open_bracket(text: &str, place: usize) -> Option<Span> {
    let mut open = Vec::new();
    for token in tokens(text).take_while(|token| token.span.end <= place) {
        match token.kind {
            Kind::Open => open.push(token.span),
            Kind::Close => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// Returns the position of the next line from `from` on that begins with `name(`.
pub(crate) fn next_line(text: &str, from: usize, name: &str) -> Option<usize> {
    let begins = |at: &usize| text[at + name.len()..].starts_with('(');
    let first = |at: &usize| text[..*at].trim_end_matches([' ', '\t']).ends_with('\n');
    text.match_indices(name).map(|(at, _)| at).filter(|at| *at >= from).filter(begins).find(first)
}
