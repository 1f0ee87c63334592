//! A graph that is ready to be queued: the plan of its engine, and addresses.

use super::descriptor::{AttributeValue, Descriptor, Library};
use super::engine::uid;
use super::operation::{Graph, ValuePlace};
use super::plan::{Plan, plan};
use super::{cached, number};
use crate::command::{Buffers, Means, Queued};
use crate::cudnn;
use crate::cudnn::Handle;
use crate::driver::{Context, Memory, Stream};
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
    /// Scratch memory of the call alone, if the plan has reserved too little for every engine.
    _scratch: Option<Memory>,
    library: Library,
    handle: &'static Handle,
}

impl Execute {
    /// Prepares the engine of a call.
    ///
    /// # Errors
    /// If the library has no such engine, if it needs more scratch memory than the plan and the device have, or if it
    /// reports another error.
    pub(crate) fn new(
        handle: &'static Handle,
        call: &Call<'_>,
        buffers: &Buffers,
        means: &mut Means<'_>,
    ) -> Result<Self, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan needs cuDNN, which is {why}"))?;
        let library = Library::new(&found.calls)?;
        let graph = super::graph(call, found.calls.version())?;
        let Chosen { plan, scratch } = chosen(handle, library, &graph, number(call), buffers, means)?;
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
        let address = match &scratch {
            Some(memory) => memory.at(0) as *mut c_void,
            None if plan.workspace > 0 => buffers.workspace() as *mut c_void,
            None => ptr::null_mut(),
        };
        let pack = library.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, AttributeValue::Whole(&names))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, AttributeValue::Pointers(&places))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, AttributeValue::Pointers(&[address]))?;
        library.finish(&pack, "the addresses")?;
        Ok(Self { pack, plan, _numbers: numbers, _scratch: scratch, library, handle })
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

/// The plan that runs, and its own scratch memory if it does not use that of the whole plan.
struct Chosen {
    plan: Arc<Plan>,
    scratch: Option<Memory>,
}

/// Why an engine does not run as planned.
enum Refused {
    /// It does not run on this device.
    Unsupported(String),
    /// It needs more scratch memory than is reserved for it.
    Large(Arc<Plan>, String),
}

/// Returns the plan of the requested engine. If that one does not run on this device within the reserved scratch memory,
/// and another one may run instead, returns the plan of the next engine that does, and notes it. If none does, the
/// requested engine, or the next one that runs on this device, takes memory of its own, which is noted as well: a
/// reservation that was made without the device never makes a plan fail while the device has memory.
///
/// # Errors
/// If no engine that may run does, if the device has not enough memory, or if the library reports another error.
fn chosen(
    handle: &'static Handle,
    library: Library,
    graph: &Graph,
    number: usize,
    buffers: &Buffers,
    means: &mut Means<'_>,
) -> Result<Chosen, String> {
    let room = buffers.workspace_bytes();
    let fitting = |number: usize| -> Result<Result<Arc<Plan>, Refused>, String> {
        match plan(handle, library, graph, number, means.artifacts) {
            Ok(plan) if plan.workspace > room => {
                let why = format!(
                    "engine {number} of cuDNN needs {} bytes of scratch memory, but {room} are reserved; a plan that is \
                     compiled on this device reserves them",
                    plan.workspace
                );
                Ok(Err(Refused::Large(plan, why)))
            }
            Ok(plan) => Ok(Ok(plan)),
            Err(failure) if failure.unsupported => Ok(Err(Refused::Unsupported(failure.text))),
            Err(failure) => Err(failure.text),
        }
    };
    let why = match fitting(number)? {
        Ok(plan) => return Ok(Chosen { plan, scratch: None }),
        Err(why) => why,
    };
    // The first engine that runs, but with more scratch memory.
    let (text, mut large) = match why {
        Refused::Unsupported(text) => (text, None),
        Refused::Large(plan, text) => (text.clone(), Some((number, plan, text))),
    };
    if let Some(notes) = &mut means.instead {
        let count = cached::engines(graph)?.map_or(0, |engines| engines.len());
        for other in (number + 1..count).chain(0..number) {
            match fitting(other)? {
                Ok(plan) => {
                    notes.push(format!("engine {other} of cuDNN runs instead of engine {number}: {text}"));
                    return Ok(Chosen { plan, scratch: None });
                }
                Err(Refused::Large(plan, text)) if large.is_none() => large = Some((other, plan, text)),
                Err(_) => {}
            }
        }
    }
    let Some((other, plan, large)) = large else { return Err(text) };
    let scratch = Some(Memory::new(Context::shared()?, plan.workspace)?);
    if let Some(notes) = &mut means.instead {
        if other != number {
            notes.push(format!("engine {other} of cuDNN runs instead of engine {number}: {text}"));
        }
        notes.push(format!("the call takes memory of its own: {large}"));
    }
    Ok(Chosen { plan, scratch })
}
