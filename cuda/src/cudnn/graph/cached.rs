//! The library's engines for graphs on the device, asked for once per process and graph.

use super::descriptor::Library;
use super::engine::{Engines, Target};
use super::operation::Graph;
use crate::cudnn::Handle;
use crate::{cudnn, driver};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// For each engine, the scratch bytes that it needs, if it reports them.
type Workspaces = Arc<[Option<usize>]>;

/// The known answers, by the texts of the graphs.
static KNOWN: Mutex<BTreeMap<String, Workspaces>> = Mutex::new(BTreeMap::new());

/// Returns the engines for a graph; `None` if there is no device.
///
/// # Errors
/// If the library has no graphs or reports an error.
pub(super) fn engines(graph: &Graph) -> Result<Option<Workspaces>, String> {
    let found = cudnn::opened().map_err(|why| format!("cuDNN is {why}"))?;
    let with = Library::new(&found.calls)?;
    if driver::opened().is_err() {
        return Ok(None);
    }
    let text = graph.to_string();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(told) = known.get(&text) {
        return Ok(Some(Arc::clone(told)));
    }
    let told = Handle::shared()?.with(|raw| match Engines::new(Target::Handle(raw), with, graph) {
        Ok(engines) => Ok(engines.list.iter().map(|engine| engine.workspace).collect()),
        Err(failure) if failure.unsupported => Ok(Workspaces::from([])),
        Err(failure) => Err(failure.text),
    })?;
    known.insert(text, Arc::clone(&told));
    Ok(Some(told))
}
