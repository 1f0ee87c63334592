//! A graph that is ready to be queued: the plan of its engine, and addresses.

use super::descriptor::{Descriptor, Library, Value};
use super::engine::{Engines, Target, uid};
use super::operation::Place;
use super::{attention, lacking, number};
use crate::command::{Buffers, Queued};
use crate::cudnn;
use crate::cudnn::Handle;
use crate::driver::Stream;
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use ovolo::op::Call;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

/// A graph with addresses. What it holds is given back in the order of the fields.
pub(in crate::cudnn) struct Execute {
    pack: Descriptor,
    plan: Descriptor,
    _engines: Engines,
    /// Numbers that the library reads on the host whenever the graph is queued.
    _numbers: Vec<f32>,
    library: Library,
    handle: Rc<Handle>,
}

impl Execute {
    /// Makes a call's engine ready.
    ///
    /// # Errors
    /// That the library has no such engine, that it wants more scratch than the plan has, or what the library said.
    pub fn new(handle: &Rc<Handle>, call: &Call<'_>, buffers: &Buffers) -> Result<Self, String> {
        let found = cudnn::opened().map_err(|why| format!("the plan takes cuDNN, which is {why}"))?;
        let library = Library::new(&found.calls)?;
        attention::supported(call)?;
        let graph = super::graph(call)?;
        let target = Target::Handle(handle.raw);
        let engines = Engines::new(target, library, &graph)?;
        let number = number(call);
        if number >= engines.list.len() {
            return Err(lacking(engines.list.len(), number));
        }
        let (plan, wanted) = engines.plan(target, library, number)?;
        if wanted > buffers.room() {
            return Err(format!(
                "cuDNN wants {wanted} bytes of scratch for engine {number}, and the plan has {}: compile it again on \
                 this device",
                buffers.room()
            ));
        }
        let mut numbers = vec![0.0_f32; graph.values.len()];
        for (to, value) in numbers.iter_mut().zip(&graph.values) {
            if let Place::Number(number) = value.place {
                *to = number;
            }
        }
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (at, value) in graph.values.iter().enumerate() {
            let place = match value.place {
                Place::Input(operand) => buffers.inputs[operand] as *mut c_void,
                Place::Output => buffers.output as *mut c_void,
                Place::Number(_) => ptr::from_mut(&mut numbers[at]).cast(),
                Place::Between => continue,
            };
            names.push(uid(at));
            places.push(place);
        }
        let scratch = if wanted > 0 { buffers.workspace() as *mut c_void } else { ptr::null_mut() };
        let pack = library.create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Value::Whole(&names))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Value::Pointers(&places))?;
        library.set(&pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Value::Pointers(&[scratch]))?;
        library.finish(&pack, "the addresses")?;
        Ok(Self { pack, plan, _engines: engines, _numbers: numbers, library, handle: Rc::clone(handle) })
    }
}

impl Queued for Execute {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        let (calls, raw) = (self.handle.calls, self.handle.raw);
        // SAFETY: the handle and the stream are there.
        calls.of("cudnnSetStream", unsafe { (calls.cudnnSetStream)(raw, stream.raw()) })?;
        // SAFETY: the addresses are those of memory that outlives this value, as large as the tensors say, the scratch
        // as large as the plan said.
        let status = unsafe { (self.library.graph.cudnnBackendExecute)(raw, self.plan.raw, self.pack.raw) };
        Ok(self.library.of("cudnnBackendExecute", status)?)
    }
}
