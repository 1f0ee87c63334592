//! Finalised plans of engines. Finalising takes the library seconds, because it compiles kernels. So a process does it
//! once for a graph and an engine, all steps with that graph and all sessions share the plan, and the library's text of
//! the plan is kept beside machine code: the next process reads the plan from there.

use super::descriptor::{AttributeValue, Descriptor, Failure, Library};
use super::engine::{Engines, Target};
use super::missing_engine;
use super::operation::Graph;
use crate::cudnn::Handle;
use crate::driver;
use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};
use ovolo::backend::Artifacts;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most plans that a process keeps beside those in use. A plan holds machine code on the device, some hundred
/// kilobytes of it.
const MOST: usize = 1024;
/// What the key of a kept text begins with.
const ARTIFACT: &str = "the plan of an engine of cuDNN";

/// A finalised plan.
pub(super) struct Plan {
    descriptor: Descriptor,
    /// The scratch bytes that it needs.
    pub workspace: usize,
}

// SAFETY: the library lets any thread use a plan, and no function changes it.
unsafe impl Send for Plan {}
// SAFETY: as above; a plan runs on the handle of the process, which one thread at a time uses.
unsafe impl Sync for Plan {}

/// The plans of this process by the texts of their graphs and the numbers of their engines, the oldest first.
static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());

struct Kept {
    graph: String,
    number: usize,
    /// The plan, or why the engine has none on this device.
    plan: Result<Arc<Plan>, String>,
    /// Whether the library's text of the plan was stored.
    stored: bool,
}

impl Plan {
    /// Reads the scratch size of a finalised plan.
    fn new(library: Library, descriptor: Descriptor) -> Result<Self, Failure> {
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        let bytes: Vec<i64> = library.numbers(&descriptor, name, Type::CUDNN_TYPE_INT64, 1)?;
        let workspace = bytes.first().map_or(0, |bytes| usize::try_from(*bytes).unwrap_or(0));
        Ok(Self { descriptor, workspace })
    }

    /// Prepares an engine.
    ///
    /// # Errors
    /// If the engine does not run on this device, or if the library reports another error.
    pub fn of_engine(
        target: Target<'_>,
        library: Library,
        engines: &Engines,
        number: usize,
    ) -> Result<Self, Failure> {
        Self::new(library, engines.plan(target, library, number)?)
    }

    /// Prepares the engine that a text of [`Plan::text`] describes.
    ///
    /// # Errors
    /// If the library does not take the text.
    pub fn of_text(target: Target<'_>, library: Library, text: &[u8]) -> Result<Self, Failure> {
        let plan = library.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        target.set_plan(library, &plan)?;
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
        library.set(&plan, name, AttributeValue::Text(text))?;
        library.finish(&plan, "the plan of a text")?;
        Self::new(library, plan)
    }

    /// Returns the library's text of the plan, from which it makes the plan again without compiling kernels.
    ///
    /// # Errors
    /// If the library has none for the engine.
    pub fn text(&self, library: Library) -> Result<Vec<u8>, Failure> {
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
        let count = library.count(&self.descriptor, name, Type::CUDNN_TYPE_CHAR)?;
        library.numbers(&self.descriptor, name, Type::CUDNN_TYPE_CHAR, count)
    }

    /// Returns the descriptor, to queue the plan.
    pub fn raw(&self) -> &Descriptor {
        &self.descriptor
    }
}

/// Returns the plan of an engine for a graph: that of this process, or else from the library's text of it, or else
/// finalised now.
///
/// # Errors
/// If the library has no such engine, if the engine does not run on this device (only then the failure is
/// `unsupported`), or if the library reports another error.
pub(super) fn plan(
    handle: &'static Handle,
    library: Library,
    graph: &Graph,
    number: usize,
    artifacts: &dyn Artifacts,
) -> Result<Arc<Plan>, Failure> {
    let text = graph.to_string();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = kept.iter().position(|one| one.number == number && one.graph == text);
    let at = match at {
        Some(at) => at,
        None => {
            let one = made(handle, library, graph, text, number, artifacts)?;
            make_room(&mut kept, MOST);
            kept.push_back(one);
            kept.len() - 1
        }
    };
    let one = &mut kept[at];
    let plan = one.plan.as_ref().map(Arc::clone);
    let plan = plan.map_err(|text| Failure { unsupported: true, text: text.clone() })?;
    if !one.stored && artifacts.keeps() {
        // Without a text, as of some engines, the next process finalises the plan again.
        if let Ok(bytes) = plan.text(library) {
            Stored::new(artifacts, handle, number)?.store(&one.graph, &bytes);
        }
        one.stored = true;
    }
    Ok(plan)
}

/// Makes a plan from its stored text, or finalises it.
fn made(
    handle: &'static Handle,
    library: Library,
    graph: &Graph,
    text: String,
    number: usize,
    artifacts: &dyn Artifacts,
) -> Result<Kept, Failure> {
    let kept = Stored::new(artifacts, handle, number)?.load(&text);
    handle.with(|raw| {
        let target = Target::Handle(raw);
        // A text that the library does not take is replaced.
        if let Some(bytes) = kept
            && let Ok(plan) = Plan::of_text(target, library, &bytes)
        {
            return Ok(Kept { graph: text, number, plan: Ok(Arc::new(plan)), stored: true });
        }
        let engines = Engines::new(target, library, graph)?;
        if number >= engines.list.len() {
            return Err(Failure { unsupported: false, text: missing_engine(engines.list.len(), number) });
        }
        let plan = match Plan::of_engine(target, library, &engines, number) {
            Ok(plan) => Ok(Arc::new(plan)),
            Err(failure) if failure.unsupported => Err(failure.text),
            Err(failure) => return Err(failure),
        };
        Ok(Kept { graph: text, number, plan, stored: false })
    })
}

/// Drops the oldest plans that no session uses, until fewer than `most` are left.
fn make_room(kept: &mut VecDeque<Kept>, most: usize) {
    while kept.len() >= most {
        let unused = |one: &Kept| one.plan.as_ref().map_or(1, Arc::strong_count) == 1;
        let Some(at) = kept.iter().position(unused) else { return };
        kept.remove(at);
    }
}

/// The artifact that holds the library's text of a plan.
struct Stored<'a> {
    artifacts: &'a dyn Artifacts,
    /// The version of the library, the device, and the number of the engine.
    of: [String; 3],
}

impl<'a> Stored<'a> {
    fn new(artifacts: &'a dyn Artifacts, handle: &Handle, number: usize) -> Result<Self, Failure> {
        let device = driver::device().map_err(|text| Failure { unsupported: false, text })?;
        Ok(Self { artifacts, of: [handle.version().to_string(), device, number.to_string()] })
    }

    /// Returns what the text of a plan depends on.
    fn key<'b>(&'b self, graph: &'b str) -> [&'b str; 5] {
        let [version, device, number] = &self.of;
        [ARTIFACT, version, device, number, graph]
    }

    fn load(&self, graph: &str) -> Option<Vec<u8>> {
        self.artifacts.load(&self.key(graph))
    }

    fn store(&self, graph: &str, bytes: &[u8]) {
        self.artifacts.store(&self.key(graph), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_plans_make_room() {
        let one = |number| Kept { graph: String::new(), number, plan: Err("none".to_owned()), stored: false };
        let mut kept: VecDeque<Kept> = (0..5).map(one).collect();
        make_room(&mut kept, 6);
        assert_eq!(kept.len(), 5);
        make_room(&mut kept, 4);
        assert_eq!(kept.iter().map(|one| one.number).collect::<Vec<_>>(), [2, 3, 4]);
    }
}
