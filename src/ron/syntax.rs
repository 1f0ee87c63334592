//! Syntax errors: messages for the errors of the crate `ron`, with positions.

use super::lexer::{self, Kind};
use crate::diagnostic::{Diagnostic, Span};
use ::ron::error::{Error, Position, SpannedError};
use ::ron::value::RawValue;
use serde::Deserialize;

/// Returns the end of the value at a position, including the blanks and comments after it.
pub(crate) fn value(text: &str, at: usize) -> Result<usize, SpannedError> {
    let mut reader = ::ron::Deserializer::from_str(&text[at..])?;
    match <&RawValue>::deserialize(&mut reader) {
        Ok(_) => Ok(text.len() - reader.remainder().len()),
        Err(code) => Err(reader.span_error(code)),
    }
}

/// Returns the message for an error that the crate found in a text from `start` on.
pub(crate) fn diagnostic(text: &str, start: usize, error: &SpannedError, source: usize) -> Diagnostic {
    let place = start + byte(&text[start..], error.span.end);
    let next = text[place..].chars().next();
    let here = Span::new(place, place + next.map_or(0, char::len_utf8));
    let simple =
        |message: String, span: Span, help: &str| Diagnostic::new(message).label(source, span, "").help(help);
    let unclosed = lexer::tokens(text).find(|token| token.kind == Kind::OpenText);
    let ends_there = |from: usize| matches!(error.code, Error::ExpectedStringEnd) || from < place;
    if let Some(token) = unclosed.filter(|token| ends_there(token.span.start)) {
        let begin = Span::new(token.span.start, token.span.start + 1);
        return simple("the text does not end".into(), begin, "close it with the quotes that it begins with");
    }
    match &error.code {
        Error::UnclosedBlockComment => simple("the comment does not end".into(), here, "close it with `*/`"),
        Error::Eof => unfinished(text, source),
        Error::ExpectedComma
        | Error::ExpectedArrayEnd
        | Error::ExpectedMapEnd
        | Error::ExpectedStructLikeEnd
        | Error::ExpectedOptionEnd => match (key_before(text, place), next) {
            (_, None) => unfinished(text, source),
            (Some(key), _) => missing_colon(key.slice(text), here, source),
            _ => missing_comma(text, place, source),
        },
        Error::ExpectedMapColon => match key_before(text, place) {
            Some(key) => missing_colon(key.slice(text), here, source),
            None => simple("`:` is missing here".into(), here, "write `key: value`"),
        },
        Error::ExpectedIdentifier | Error::SuggestRawIdentifier(_) => {
            let message = "the name of a field is missing here".to_owned();
            opened(simple(message, here, "write `name: value`"), text, place, source)
        }
        Error::UnexpectedChar(c) if TYPOGRAPHIC.contains(c) => simple(
            format!("`{c}` does not begin a text: it is a typographic quote"),
            here,
            "write plain quotes at both ends: `\"…\"`",
        ),
        Error::UnexpectedChar(c) => simple(
            format!("`{c}` does not begin a value"),
            here,
            "write text in quotes, a number, `[…]`, `{…}` or `Name(…)`",
        ),
        Error::InvalidEscape(_) => {
            let escape = text[..place].rfind('\\').map_or(here, |from| Span::new(from, place));
            simple(
                format!("`{}` is not an escape", escape.slice(text)),
                escape,
                "write `\\\\` for a backslash, or `\\\"`, `\\n`, `\\t`",
            )
        }
        Error::TrailingCharacters => simple(
            "something follows the end".into(),
            here,
            "remove it, or move it inside what ends before it",
        ),
        Error::ExceededRecursionLimit => simple(
            "values are nested more than 128 deep".into(),
            here,
            "close what is open: no file of ovolo needs so many",
        ),
        other => {
            let from = start + byte(&text[start..], error.span.start);
            let message = other.to_string();
            let lower =
                message.chars().next().map(|c| c.to_lowercase().collect::<String>()).unwrap_or_default();
            let message = lower + message.get(1..).unwrap_or_default();
            simple(message, Span::new(from, place.max(from)), "write RON: https://github.com/ron-rs/ron")
        }
    }
}

/// Quotes that word processors write in place of plain ones.
const TYPOGRAPHIC: [char; 9] = ['“', '”', '„', '‟', '‘', '’', '«', '»', '`'];

/// Returns the message that a comma is missing between the values before and after a position.
pub(crate) fn missing_comma(text: &str, place: usize, source: usize) -> Diagnostic {
    let place = place + text[place..].len() - text[place..].trim_start().len();
    let here = Span::new(place, place + text[place..].chars().next().map_or(0, char::len_utf8));
    if let Some(before) = text_of_several_lines(text, place) {
        return Diagnostic::new("a text goes on to another line, and neither `,` nor a bracket follows it")
            .label(source, Span::new(before.start, before.start + 1), "it begins here")
            .label(source, here, "this follows it")
            .help("if it ends on its first line, close it there with the quotes that it begins with");
    }
    let close = match lexer::open_bracket(text, place).map(|open| open.slice(text)) {
        Some("[") => ']',
        Some("{") => '}',
        _ => ')',
    };
    let diagnostic = Diagnostic::new(format!("`,` or `{close}` is missing here"))
        .label(source, here, "")
        .help(format!("write `,` before what follows, or `{close}` to close what is open"));
    opened(diagnostic, text, place, source)
}

/// Returns the text that ends before a position and has several lines: often the quotes at its true end are missing, so that
/// it ends where the next text should begin.
fn text_of_several_lines(text: &str, place: usize) -> Option<Span> {
    let before = lexer::tokens(text).take_while(|token| token.span.end <= place).last()?;
    (before.kind == Kind::Text && before.span.slice(text).contains('\n')).then_some(before.span)
}

fn missing_colon(key: &str, here: Span, source: usize) -> Diagnostic {
    Diagnostic::new(format!("`:` is missing after `{key}`"))
        .label(source, Span::at(here.start), "")
        .help(format!("write `{key}: …`"))
}

/// Returns the message that the text ends inside a bracket or a text, or is empty.
fn unfinished(text: &str, source: usize) -> Diagnostic {
    let end = text.trim_end().len();
    let diagnostic = Diagnostic::new("the file ends too early").label(source, Span::at(end), "");
    let open = lexer::open_bracket(text, end);
    let help = match open.map(|open| open.slice(text)) {
        Some("[") => "close what is open with `]`",
        Some("{") => "close what is open with `}`",
        Some(_) => "close what is open with `)`",
        None => "write a value",
    };
    opened(diagnostic.help(help), text, end, source)
}

/// Adds the bracket that is open at a position.
fn opened(diagnostic: Diagnostic, text: &str, place: usize, source: usize) -> Diagnostic {
    match lexer::open_bracket(text, place) {
        Some(open) => diagnostic.label(source, open, "opened here"),
        None => diagnostic,
    }
}

/// Returns the name before a position, if it is a field name whose colon is missing.
fn key_before(text: &str, place: usize) -> Option<Span> {
    let before: Vec<_> = lexer::tokens(text)
        .take_while(|token| token.span.end <= place)
        .filter(|token| token.kind != Kind::Comment)
        .collect();
    let [.., before, key] = &before[..] else { return None };
    let begins = before.span.slice(text) == "(" || before.span.slice(text) == ",";
    let within = lexer::open_bracket(text, place).is_some_and(|open| open.slice(text) == "(");
    let name = key.span.slice(text).starts_with(|c: char| c.is_alphabetic() || c == '_');
    (begins && within && name && key.kind == Kind::Word).then_some(key.span)
}

/// Returns the byte index of a position that the crate gives as line and character.
fn byte(text: &str, position: Position) -> usize {
    let line = text.split_inclusive('\n').take(position.line.saturating_sub(1)).map(str::len).sum::<usize>();
    let characters = text[line..].char_indices().nth(position.col.saturating_sub(1));
    characters.map_or(text.len(), |(at, _)| line + at)
}
