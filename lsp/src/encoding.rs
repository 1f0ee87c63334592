//! Positions: the protocol counts lines and units of a line, the framework counts bytes.

use lsp_types::{InitializeParams, Position, PositionEncodingKind, Range};
use ovolo::error::Span;

/// The unit in which positions within a line are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes, if the client offers them.
    Utf8,
    /// Units of UTF-16, which every client knows.
    #[default]
    Utf16,
}

impl Encoding {
    /// Returns bytes if the client offers them, otherwise UTF-16.
    pub fn negotiated(params: &InitializeParams) -> Self {
        let general = params.capabilities.general.as_ref();
        let offered = general.and_then(|general| general.position_encodings.as_ref());
        match offered.is_some_and(|all| all.contains(&PositionEncodingKind::UTF8)) {
            true => Self::Utf8,
            false => Self::Utf16,
        }
    }

    /// Returns the name of the encoding in the protocol.
    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Self::Utf8 => PositionEncodingKind::UTF8,
            Self::Utf16 => PositionEncodingKind::UTF16,
        }
    }

    /// Returns the position of a byte. A byte within a character counts as its first one, and a byte after the end as the
    /// end.
    pub fn position(self, text: &str, at: usize) -> Position {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[..start].matches('\n').count();
        let before = &text[start..at];
        let column = match self {
            Self::Utf8 => before.len(),
            Self::Utf16 => before.encode_utf16().count(),
        };
        Position::new(narrow(line), narrow(column))
    }

    /// Returns the range of a span.
    pub fn range(self, text: &str, span: Span) -> Range {
        Range::new(self.position(text, span.start), self.position(text, span.end))
    }

    /// Returns the byte at a position. A position after the end of its line counts as the end of the line, and a line
    /// after the last one as the end of the text.
    pub fn byte(self, text: &str, position: Position) -> usize {
        let mut start = 0;
        for _ in 0..position.line {
            match text[start..].find('\n') {
                Some(end) => start += end + 1,
                None => return text.len(),
            }
        }
        let line = text[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let mut units = position.character as usize;
        for (at, c) in line.char_indices() {
            let width = match self {
                Self::Utf8 => c.len_utf8(),
                Self::Utf16 => c.len_utf16(),
            };
            if units < width {
                return start + at;
            }
            units -= width;
        }
        start + line.len()
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
