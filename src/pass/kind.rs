//! The kinds of passes, by the names that pipelines use.

use super::{Catalog, Pass};
use crate::error::Span;
use crate::ron::{Raw, Reader, fields_of};
use crate::rule::RuleSet;
use crate::setting::Folder;
use crate::table::Table;
use serde::de::{Deserialize, DeserializeOwned};
use std::sync::Arc;

/// The names that pipelines may use, and the folder of the pipeline.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The parts that passes may name.
    pub catalog: &'a Catalog,
    /// The rules with their files; `None` if they are not known yet and so are not checked.
    pub rules: Option<&'a RuleSet>,
    /// The folder of the pipeline and of the files that it names.
    pub folder: Folder<'a>,
}

/// The kinds of passes by name.
pub(crate) type Passes = Table<PassKind>;

/// A kind of passes: the function that reads a pass from a pipeline. It reports every mistake to the reader.
#[derive(Clone, Copy, Debug)]
pub struct PassKind {
    read: fn(&mut Reader<'_>, Raw<'_>, &Scope<'_>) -> Option<Arc<dyn Pass>>,
    fields: &'static [&'static str],
}

impl PassKind {
    /// Returns the kind of a pass whose settings are read by their derived [`Deserialize`](serde::Deserialize).
    pub fn with_settings<T: Pass + DeserializeOwned>() -> Self {
        Self {
            read: |reader, raw, scope| {
                let pass: T = reader.settings(raw, &[])?;
                pass.check(scope, reader);
                Some(Arc::new(pass))
            },
            fields: fields_of::<T>(),
        }
    }

    /// Returns the kind of a pass that this function reads. `T` is the pass as it is written in a pipeline.
    pub(crate) fn new<'de, T: Deserialize<'de>>(
        read: fn(&mut Reader<'_>, Raw<'_>, &Scope<'_>) -> Option<Arc<dyn Pass>>,
    ) -> Self {
        Self { read, fields: fields_of::<T>() }
    }

    /// Returns the names of the settings of a pass, in order.
    pub fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    /// Reads a pass of a pipeline, written as `Name(setting: …)`.
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
