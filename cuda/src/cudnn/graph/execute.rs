//! A graph that is ready to be queued: the plan of its engine, and addresses.

use super::descriptor::{AttributeValue, Descriptor, Library};
use super::engine::uid;
use super::operation::{Graph, ValuePlace};
use super::plan::{Plan, plan};
use super::{cached, number};
use crate::command::{Buffers, Means, Queued};
use crate::cudnn;
use crate::cudnn::Handle;
use crate::driver::Stream;
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use ovolo::op::Call;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// A graph with addresses. The order of the fields is the order in which they are released.
pub(in crate::cudnn) struct Execute {
    pack: Descriptor,
    plan: Arc<Plan>,
    /// Numbers in host memory that the library reads each time the graph is queued.
    _numbers: Vec<f32>,
    library: Library,
    handle: &'static Handle,
}

impl Execute {
    /// Prepares the engine of a call.
    ///
    /// # Errors
    /// If the library has no such engine, needs more scratch memory than the plan has, or reports another error.
    pub(crate) fn new(
        handle: &'static Handle,
        call: &Call<'_>,
        buffers: &Buffers,
        means: &mut Means<'_>,
    ) -> Result<Self, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan needs cuDNN, which is {why}"))?;
        let library = Library::new(&found.calls)?;
        let graph = super::graph(call, found.calls.version())?;
        let plan = chosen(handle, library, &graph, number(call), buffers.workspace_bytes(), means)?;
        let wanted = plan.workspace;
        let mut numbers = vec![0.0_f32; graph.values.len()];
        for (to, value) in numbers.iter_mut().zip(&graph.values) {
            if let ValuePlace::Number(number) = value.place {
                *to = number;
            }
        }
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (at, value) in graph.values.iter().enumerate() {
            let place = match value.place {
                ValuePlace::Input(operand) => buffers.inputs[operand] as *mut c_void,
                ValuePlace::Output => buffers.output as *mut c_void,
                ValuePlace::Number(_) => ptr::from_mut(&mut numbers[at]).cast(),
                ValuePlace::Between => continue,
            };
            names.push(uid(at));
            places.push(place);
        }
        let scratch = if wanted > 0 { buffers.workspace() as *mut c_void } else { ptr::null_mut() };
        let pack = library.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, AttributeValue::Whole(&names))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, AttributeValue::Pointers(&places))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, AttributeValue::Pointers(&[scratch]))?;
        library.finish(&pack, "the addresses")?;
        Ok(Self { pack, plan, _numbers: numbers, library, handle })
    }
}

impl Queued for Execute {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        self.handle.on(stream, |raw| {
            let (plan, pack) = (self.plan.raw().raw, self.pack.raw);
            // SAFETY: the addresses are those of memory that outlives this value and has the sizes of the tensors;
            // the scratch memory has the size of the plan.
            let status = unsafe { (self.library.graph.cudnnBackendExecute)(raw, plan, pack) };
            Ok(self.library.check("cudnnBackendExecute", status)?)
        })
    }
}

/// Returns the plan of the requested engine. If that one does not run on this device within the scratch memory, and
/// another one may run instead, returns the plan of the next engine that does, and notes it.
///
/// # Errors
/// If no engine that may run does, or if the library reports another error.
fn chosen(
    handle: &'static Handle,
    library: Library,
    graph: &Graph,
    number: usize,
    room: usize,
    means: &mut Means<'_>,
) -> Result<Arc<Plan>, String> {
    let fitting = |number: usize| -> Result<Result<Arc<Plan>, String>, String> {
        match plan(handle, library, graph, number, means.artifacts) {
            Ok(plan) if plan.workspace > room => Ok(Err(format!(
                "cuDNN needs {} bytes of scratch memory for engine {number}, but the plan has {room}: compile it \
                 again on this device",
                plan.workspace
            ))),
            Ok(plan) => Ok(Ok(plan)),
            Err(failure) if failure.unsupported => Ok(Err(failure.text)),
            Err(failure) => Err(failure.text),
        }
    };
    let why = match fitting(number)? {
        Ok(plan) => return Ok(plan),
        Err(why) => why,
    };
    let Some(notes) = &mut means.instead else { return Err(why) };
    let count = cached::engines(graph)?.map_or(0, |engines| engines.len());
    for other in (number + 1..count).chain(0..number) {
        if let Ok(plan) = fitting(other)? {
            notes.push(format!("engine {other} of cuDNN runs instead of engine {number}: {why}"));
            return Ok(plan);
        }
    }
    Err(why)
}
