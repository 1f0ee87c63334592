//! `ovolo rules list`.

use super::Source;
use crate::{Outcome, print};
use clap::Args;
use ovolo::registry::Registry;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    source: Source,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let loaded = self.source.load(registry)?;
        let mut text = String::new();
        for rule in loaded.set.rules() {
            if self.json {
                let value = serde_json::json!({
                    "rule": rule.name, "file": rule.file, "line": rule.line, "law": rule.doc,
                    "examples": rule.examples.len(),
                });
                let _ = writeln!(text, "{value}");
            } else {
                let _ = writeln!(text, "{} ({}:{})", rule.name, rule.file, rule.line);
                if !rule.doc.is_empty() {
                    let _ = writeln!(text, "    {}", rule.doc);
                }
            }
        }
        print(&text);
        Ok(())
    }
}
