//! The kinds of passes, by the names under which pipelines ask for them.

use super::{Catalog, Pass};
use crate::error::Span;
use crate::ron::{Raw, Reader};
use crate::rule::RuleSet;
use crate::setting::Folder;
use crate::table::Table;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// What pipelines may name, and where they lie.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// What passes choose among.
    pub catalog: &'a Catalog,
    /// Rules and their files; `None` where they are not known yet, and so not checked.
    pub rules: Option<&'a RuleSet>,
    /// Where the pipeline lies, with the files that it names.
    pub folder: Folder<'a>,
}

/// Kinds of passes by name.
pub(crate) type Passes = Table<Kind>;

/// How a pass is read from a pipeline. Every mistake goes to the reader.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    read: fn(&mut Reader<'_>, Raw<'_>, &Scope<'_>) -> Option<Arc<dyn Pass>>,
}

impl Kind {
    /// A pass whose settings are read by their derived [`Deserialize`](serde::Deserialize).
    pub fn of<T: Pass + DeserializeOwned>() -> Self {
        Self {
            read: |reader, raw, scope| {
                let pass: T = reader.settings(raw, &[])?;
                pass.check(scope, reader);
                Some(Arc::new(pass))
            },
        }
    }

    /// A pass that is read by this function.
    pub(crate) fn new(read: fn(&mut Reader<'_>, Raw<'_>, &Scope<'_>) -> Option<Arc<dyn Pass>>) -> Self {
        Self { read }
    }

    /// Reads the pass that stands in a pipeline, `Name(setting: …)`.
    pub(super) fn read(reader: &mut Reader<'_>, raw: Raw<'_>, scope: &Scope<'_>) -> Option<Arc<dyn Pass>> {
        let known =
            || scope.catalog.passes.names().map(|name| format!("`{name}(…)`")).collect::<Vec<_>>().join(", ");
        let Some(name) = raw.name() else {
            reader.mistake("a pass is `Name(setting: …)`", raw.span(), format!("known are {}", known()));
            return None;
        };
        match scope.catalog.passes.get(name) {
            Some(kind) => (kind.read)(reader, raw, scope),
            None => {
                let help = match scope.catalog.passes.unknown(name).nearest {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("known are {}", known()),
                };
                let span = Span::new(raw.span().start, raw.span().start + name.len());
                reader.mistake(format!("pass `{name}` is not known"), span, help);
                None
            }
        }
    }
}
