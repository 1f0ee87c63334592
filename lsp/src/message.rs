//! Messages of the framework as those of the protocol.

use crate::address;
use crate::encoding::Encoding;
use crate::workspace::Workspace;
use lsp_types::{DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString};
use ovolo::error::{Diagnostic, Diagnostics, Label};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The messages of each file.
pub type Messages = BTreeMap<PathBuf, Vec<lsp_types::Diagnostic>>;

/// How serious messages are, and the name of their kind.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// How serious they are.
    pub severity: DiagnosticSeverity,
    /// The name of their kind, by which `ovolo rules check --allow` knows it.
    pub code: Option<&'static str>,
}

impl Weight {
    /// What stops a file from being read.
    pub const MISTAKE: Self = Self { severity: DiagnosticSeverity::ERROR, code: None };
}

/// Adds messages to those of the files in which their first places are. A message without a place in the files of the
/// editor is left out.
pub fn add(
    messages: &mut Messages,
    diagnostics: &Diagnostics,
    weight: impl Fn(usize) -> Weight,
    (workspace, encoding): (&Workspace, Encoding),
) {
    let location = |label: &Label| {
        let source = diagnostics.sources().get(label.source)?;
        let path = workspace.path(&source.name)?;
        Some((path, encoding.range(&source.text, label.span)))
    };
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        let Some((path, range)) = diagnostic.labels.first().and_then(location) else { continue };
        let related = diagnostic.labels[1..].iter().filter_map(|label| {
            let (path, range) = location(label)?;
            let message = if label.text.is_empty() { "see here".to_owned() } else { label.text.clone() };
            Some(DiagnosticRelatedInformation {
                location: Location::new(address::uri(&path)?, range),
                message,
            })
        });
        let related: Vec<_> = related.collect();
        let Weight { severity, code } = weight(at);
        messages.entry(path).or_default().push(lsp_types::Diagnostic {
            range,
            severity: Some(severity),
            code: code.map(|code| NumberOrString::String(code.to_owned())),
            source: Some("ovolo".to_owned()),
            message: text(diagnostic),
            related_information: Some(related).filter(|related| !related.is_empty()),
            ..lsp_types::Diagnostic::default()
        });
    }
}

/// Returns the message with what stands beside its first place and below it.
fn text(diagnostic: &Diagnostic) -> String {
    let beside = diagnostic.labels.first().map(|label| label.text.clone()).filter(|text| !text.is_empty());
    let first = match beside {
        Some(beside) => format!("{}: {beside}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    let lines: Vec<String> = std::iter::once(first).chain(diagnostic.notes.iter().cloned()).collect();
    lines.join("\n")
}
