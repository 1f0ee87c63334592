//! A graph that is ready to be queued: the plan of its engine, and addresses.

use super::descriptor::{AttributeValue, Descriptor, Library};
use super::engine::{Engines, Target, uid};
use super::operation::ValuePlace;
use super::{missing_engine, number};
use crate::command::{Buffers, Queued};
use crate::cudnn;
use crate::cudnn::Handle;
use crate::driver::Stream;
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use ovolo::op::Call;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

/// A graph with addresses. The order of the fields is the order in which they are released.
pub(in crate::cudnn) struct Execute {
    pack: Descriptor,
    plan: Descriptor,
    _engines: Engines,
    /// Numbers in host memory that the library reads each time the graph is queued.
    _numbers: Vec<f32>,
    library: Library,
    handle: Rc<Handle>,
}

impl Execute {
    /// Prepares the engine of a call.
    ///
    /// # Errors
    /// If the library has no such engine, needs more scratch memory than the plan has, or reports another error.
    pub(crate) fn new(handle: &Rc<Handle>, call: &Call<'_>, buffers: &Buffers) -> Result<Self, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan needs cuDNN, which is {why}"))?;
        let library = Library::new(&found.calls)?;
        let graph = super::graph(call, found.calls.version())?;
        let target = Target::Handle(handle.raw);
        let engines = Engines::new(target, library, &graph)?;
        let number = number(call);
        if number >= engines.list.len() {
            return Err(missing_engine(engines.list.len(), number));
        }
        let (plan, wanted) = engines.plan(target, library, number)?;
        if wanted > buffers.workspace_bytes() {
            return Err(format!(
                "cuDNN needs {wanted} bytes of scratch memory for engine {number}, but the plan has {}: compile it \
                 again on this device",
                buffers.workspace_bytes()
            ));
        }
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
        Ok(Self { pack, plan, _engines: engines, _numbers: numbers, library, handle: Rc::clone(handle) })
    }
}

impl Queued for Execute {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        let (calls, raw) = (self.handle.calls, self.handle.raw);
        // SAFETY: the handle and the stream are valid.
        calls.check("cudnnSetStream", unsafe { (calls.cudnnSetStream)(raw, stream.raw()) })?;
        // SAFETY: the addresses are those of memory that outlives this value and has the sizes of the tensors; the
        // scratch memory has the size of the plan.
        let status = unsafe { (self.library.graph.cudnnBackendExecute)(raw, self.plan.raw, self.pack.raw) };
        Ok(self.library.check("cudnnBackendExecute", status)?)
    }
}
