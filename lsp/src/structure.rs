//! The structure of a file: its rules, examples, passes and functions by their names.

use crate::document::Document;
use crate::encoding::Encoding;
use lsp_types::{DocumentSymbol, SymbolKind};

/// Returns the structs of a file that have a name, with those inside of them.
pub fn structure(document: &Document, encoding: Encoding) -> Vec<DocumentSymbol> {
    within(document, encoding, None)
}

fn within(document: &Document, encoding: Encoding, parent: Option<usize>) -> Vec<DocumentSymbol> {
    let Document { text, outline, .. } = document;
    let inside = outline.structs.iter().enumerate().filter(|(_, one)| one.parent == parent);
    let symbol = |(at, one): (usize, &crate::outline::Struct)| {
        let head = one.head.slice(text);
        let name = outline.name(text, at);
        // Passes without a name go by their kind; examples of a rule have none.
        let shown = match (name, head) {
            (Some(name), _) => name.body.slice(text),
            (None, "Extract" | "Plan" | "Resident" | "Prices") => head,
            (None, _) => return None,
        };
        let kind = match head {
            "Rule" | "Function" => SymbolKind::FUNCTION,
            "Pipeline" => SymbolKind::MODULE,
            "Examples" => SymbolKind::NAMESPACE,
            _ => SymbolKind::OBJECT,
        };
        let children = within(document, encoding, Some(at));
        // The field `deprecated` of the protocol is itself deprecated, but has no default.
        #[allow(deprecated)]
        Some(DocumentSymbol {
            name: if shown.is_empty() { head.to_owned() } else { shown.to_owned() },
            detail: Some(head.to_owned()),
            kind,
            tags: None,
            deprecated: None,
            range: encoding.range(text, one.span),
            selection_range: encoding.range(text, one.head),
            children: Some(children).filter(|children| !children.is_empty()),
        })
    };
    inside.filter_map(symbol).collect()
}
