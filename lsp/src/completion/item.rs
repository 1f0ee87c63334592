//! The list of items that a completion gives.

use crate::encoding::Encoding;
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent, MarkupKind,
    TextEdit,
};
use ovolo::error::Span;

/// The items for a position of a text.
pub struct Items<'a> {
    /// The items so far.
    pub list: Vec<CompletionItem>,
    encoding: Encoding,
    text: &'a str,
}

impl<'a> Items<'a> {
    /// Makes an empty list for a text.
    pub fn new(encoding: Encoding, text: &'a str) -> Self {
        Self { list: Vec::new(), encoding, text }
    }

    /// Adds an item that replaces a part of the text, unless there is one with this label.
    pub fn add(&mut self, part: Span, kind: CompletionItemKind, (label, new): (&str, &str), detail: &str) {
        if self.list.iter().any(|one| one.label == label) {
            return;
        }
        let edit = TextEdit { range: self.encoding.range(self.text, part), new_text: new.to_owned() };
        self.list.push(CompletionItem {
            label: label.to_owned(),
            kind: Some(kind),
            detail: Some(detail.to_owned()).filter(|detail| !detail.is_empty()),
            filter_text: Some(new.to_owned()),
            sort_text: Some(format!("{:05}", self.list.len())),
            text_edit: Some(CompletionTextEdit::Edit(edit)),
            ..CompletionItem::default()
        });
    }

    /// Gives the last item a text in Markdown.
    pub fn describe(&mut self, markdown: String) {
        if let Some(last) = self.list.last_mut() {
            let content = MarkupContent { kind: MarkupKind::Markdown, value: markdown };
            last.documentation = Some(Documentation::MarkupContent(content));
        }
    }
}
