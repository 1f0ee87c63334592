//! Splits the text form into tokens with byte spans. Refuses characters that belong to no token, and strings that
//! do not end.

use crate::diagnostic::{Diagnostic, Diagnostics, Span};

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name without quotes, or a word of the language.
    Word(String),
    /// A quoted name or a string, without its quotes and escapes.
    Quoted(String),
    /// A number as it is written, including `-inf`.
    Number(String),
    /// `#` and the letters and digits after it.
    Hash(String),
    /// One of `{}()[]<>:,=@~;`.
    Mark(char),
    /// Something that is not a token, and was already reported.
    Bad,
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) span: Span,
    /// Whether the token is the first of its line, or follows a `;`.
    pub(super) leads: bool,
}

/// Returns whether a name needs no quotes: it is a letter, `_` or `/`, then letters, digits and `_ . / ' -`,
/// without `//`, which would begin a comment, and it is not `return`, which would begin an output.
pub(super) fn is_plain(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(begins_word)
        && letters.all(continues_word)
        && !name.contains("//")
        && name != "return"
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '/'
}

fn continues_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '\'' | '-')
}

/// Returns all tokens of the text, of which the last is [`Token::End`]. Adds mistakes in source 0 to `found`.
pub(super) fn lex(text: &str, found: &mut Diagnostics) -> Vec<Lexeme> {
    let mut lexer = Lexer { text, at: 0, leads: true, found };
    let mut lexemes = Vec::new();
    while let Some(lexeme) = lexer.next() {
        lexemes.push(lexeme);
    }
    lexemes.push(Lexeme { token: Token::End, span: Span::at(text.len()), leads: true });
    lexemes
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    leads: bool,
    found: &'a mut Diagnostics,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Moves over the characters that satisfy the predicate.
    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some('\n' | ';') => {
                    self.leads = true;
                    self.at += 1;
                }
                Some(c) if c.is_whitespace() => self.at += c.len_utf8(),
                Some('/') if self.text[self.at..].starts_with("//") => self.skip_while(|c| c != '\n'),
                _ => return,
            }
        }
    }

    fn next(&mut self) -> Option<Lexeme> {
        self.skip_blank();
        let start = self.at;
        let first = self.peek()?;
        let token = match first {
            '"' => self.quoted(),
            '#' => {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_alphanumeric());
                Token::Hash(self.text[start + 1..self.at].to_owned())
            }
            '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | ':' | ',' | '=' | '@' | '~' => {
                self.at += 1;
                Token::Mark(first)
            }
            '0'..='9' | '-' | '+' => self.number(),
            c if begins_word(c) => {
                self.skip_while(continues_word);
                let word = &self.text[start..self.at];
                let word = word.find("//").map_or(word, |comment| &word[..comment]);
                self.at = start + word.len();
                Token::Word(word.to_owned())
            }
            other => {
                self.at += other.len_utf8();
                let span = Span::new(start, self.at);
                self.found.push(
                    Diagnostic::new(format!("`{}` is not part of the text form", other.escape_default()))
                        .label(0, span, "unexpected character")
                        .help("names with other characters are written in quotes: `\"a b\"`"),
                );
                Token::Bad
            }
        };
        let leads = std::mem::replace(&mut self.leads, false);
        Some(Lexeme { token, span: Span::new(start, self.at), leads })
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        let rest = &self.text[self.at..];
        if rest.starts_with("inf") {
            self.at += "inf".len();
        } else {
            self.skip_while(|c| c.is_ascii_digit() || c == '.');
            let mut exponent = self.text[self.at..].chars();
            if matches!(exponent.next(), Some('e' | 'E')) {
                let digits = exponent.as_str().trim_start_matches(['-', '+']);
                if digits.starts_with(|c: char| c.is_ascii_digit()) {
                    self.at = self.text.len() - digits.len();
                    self.skip_while(|c| c.is_ascii_digit());
                }
            }
        }
        Token::Number(self.text[start..self.at].to_owned())
    }

    fn quoted(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    let span = Span::new(start, self.at);
                    self.found.push(Diagnostic::new("a string does not end").label(
                        0,
                        span,
                        "a `\"` is missing on this line",
                    ));
                    return Token::Quoted(value);
                }
                Some('"') => {
                    self.at += 1;
                    return Token::Quoted(value);
                }
                Some('\\') => self.escape(&mut value),
                Some(other) => {
                    self.at += other.len_utf8();
                    value.push(other);
                }
            }
        }
    }

    /// Reads one of Rust's escapes: `\n \r \t \0 \\ \" \'` and `\u{…}`.
    fn escape(&mut self, value: &mut String) {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += letter.filter(|&c| c != '\n').map_or(0, char::len_utf8);
        let unescaped = match letter {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('0') => Some('\0'),
            Some(c @ ('\\' | '"' | '\'')) => Some(c),
            Some('u') => self.text[self.at..].strip_prefix('{').and_then(|rest| {
                let (digits, _) = rest.split_once('}')?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                self.at += digits.len() + 2;
                char::from_u32(code)
            }),
            _ => None,
        };
        match unescaped {
            Some(c) => value.push(c),
            None => self.found.push(
                Diagnostic::new("unknown escape in a string")
                    .label(0, Span::new(start, self.at), "")
                    .help(r#"escapes are \n \r \t \0 \\ \" \' and \u{…}"#),
            ),
        }
    }
}
