//! A text with what is read of it.

use crate::encoding::Encoding;
use crate::kind::Kind;
use crate::outline::Outline;
use lsp_types::TextDocumentContentChangeEvent;
use std::path::Path;

/// The text of a file, on the disk or in the editor.
#[derive(Debug)]
pub struct Document {
    /// The text.
    pub text: String,
    /// The outline of the text.
    pub outline: Outline,
    /// What the text contains.
    pub kind: Kind,
    /// The version that the editor gave it; `None` for a file that is not open.
    pub version: Option<i32>,
}

impl Document {
    /// Returns the document of a text.
    pub fn new(path: &Path, text: String, version: Option<i32>) -> Self {
        let outline = Outline::read(&text);
        let kind = Kind::of(path, &text, &outline);
        Self { text, outline, kind, version }
    }

    /// Returns the document after changes, which are applied in order.
    pub fn changed(
        &self,
        path: &Path,
        changes: Vec<TextDocumentContentChangeEvent>,
        version: i32,
        encoding: Encoding,
    ) -> Self {
        let mut text = self.text.clone();
        for change in changes {
            match change.range {
                None => text = change.text,
                Some(range) => {
                    let start = encoding.byte(&text, range.start);
                    let end = encoding.byte(&text, range.end).max(start);
                    text.replace_range(start..end, &change.text);
                }
            }
        }
        Self::new(path, text, Some(version))
    }
}
