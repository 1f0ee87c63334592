//! Formatting: a file in the form that `ovolo fmt` writes.

use crate::document::Document;
use crate::encoding::Encoding;
use lsp_types::TextEdit;
use ovolo::error::Span;
use ovolo::ron::{self, Style};

/// Returns the edit that formats a file: none if the file has its form already, or is not RON, which its messages tell.
pub fn format(document: &Document, name: &str, encoding: Encoding) -> Vec<TextEdit> {
    let text = &document.text;
    let Ok(formatted) = ron::format(name, text, Style::of) else { return Vec::new() };
    if formatted == *text {
        return Vec::new();
    }
    // Lines that stay at the beginning and at the end are not replaced, so that the cursor keeps its place.
    let same: usize = text
        .split_inclusive('\n')
        .zip(formatted.split_inclusive('\n'))
        .take_while(|(old, new)| old == new)
        .map(|(line, _)| line.len())
        .sum();
    let (old, new) = (&text[same..], &formatted[same..]);
    let tail: usize = old
        .split_inclusive('\n')
        .rev()
        .zip(new.split_inclusive('\n').rev())
        .take_while(|(old, new)| old == new)
        .map(|(line, _)| line.len())
        .sum();
    let span = Span::new(same, text.len() - tail);
    let new_text = new[..new.len() - tail].to_owned();
    vec![TextEdit { range: encoding.range(text, span), new_text }]
}
