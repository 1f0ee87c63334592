//! The kinds of files, told by what they contain and otherwise by their folders.

use crate::outline::Outline;
use std::path::Path;

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules.
    Rules,
    /// Examples of rules.
    Examples,
    /// A pipeline.
    Pipeline,
    /// Functions by their formulas.
    Functions,
    /// A price list.
    Prices,
    /// Another file of RON, of which only the syntax is known here.
    Other,
}

impl Kind {
    /// Returns the kind of a file. The name of its first struct decides, and in a file without one its folder.
    pub fn of(path: &Path, text: &str, outline: &Outline) -> Self {
        match outline.head(text, Some(0)) {
            "Rule" => Self::Rules,
            "Examples" => Self::Examples,
            "Pipeline" => Self::Pipeline,
            "Function" => Self::Functions,
            "Prices" => Self::Prices,
            "" => Self::in_folder(path),
            _ => Self::Other,
        }
    }

    fn in_folder(path: &Path) -> Self {
        let folder = |path: &Path| path.parent()?.file_name()?.to_str().map(str::to_owned);
        match folder(path).as_deref() {
            Some("rules") => Self::Rules,
            Some("examples") if path.parent().and_then(folder).as_deref() == Some("rules") => Self::Examples,
            Some("passes") => Self::Pipeline,
            Some("costs") => Self::Prices,
            _ => Self::Other,
        }
    }
}
