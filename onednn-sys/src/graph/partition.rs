//! Partitions of a graph, and their execution.

use super::interface::{Interface, RawValue};
use super::{Graph, Value};
use crate::api::Object;
use crate::load::Library;
use crate::thread::OneThread;
use crate::{Error, check};
use std::ffi::c_int;

/// An object that is destroyed with its owner.
pub(super) struct Owned {
    pub raw: Object,
    pub destroy: unsafe extern "C" fn(Object) -> c_int,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the library created the object, and it is destroyed once.
            unsafe { (self.destroy)(self.raw) };
        }
    }
}

/// The operands or the results of a partition.
struct Ports {
    values: Vec<Value>,
    tensors: Vec<Owned>,
    /// The same tensors, as the C API takes them.
    raw: Vec<Object>,
}

impl Ports {
    fn new(graph: &Graph, ports: &[RawValue]) -> Result<Self, Error> {
        let functions = &graph.interface.functions;
        let mut made = Self { values: Vec::new(), tensors: Vec::new(), raw: Vec::new() };
        for port in ports {
            // The partition knows the values by number; their shapes and strides are those of the graph.
            let value = &graph.values[port.id];
            let mut raw = std::ptr::null_mut();
            let handle = std::ptr::dangling_mut();
            // SAFETY: nothing is read or written at the address, which each run replaces; `raw` is written on success.
            let status =
                unsafe { (functions.tensor_create)(&raw mut raw, value, graph.interface.engine, handle) };
            check(status, "a tensor of a partition")?;
            made.tensors.push(Owned { raw, destroy: functions.tensor_destroy });
            made.raw.push(raw);
            made.values.push(Value(port.id));
        }
        Ok(made)
    }
}

/// A part of a graph that the library runs as a whole, with one thread.
pub struct Partition {
    interface: &'static Interface,
    library: &'static Library,
    compiled: Owned,
    stream: Owned,
    inputs: Ports,
    outputs: Ports,
}

// SAFETY: the objects may be used on any thread, by one at a time.
unsafe impl Send for Partition {}

impl Partition {
    pub(super) fn new(graph: &Graph, raw: Owned) -> Result<Self, Error> {
        const WHAT: &str = "a partition";
        let functions = &graph.interface.functions;
        let mut supported = 0;
        // SAFETY: `supported` is written on success.
        check(unsafe { (functions.partition_is_supported)(raw.raw, &raw mut supported) }, WHAT)?;
        if supported == 0 {
            return Err(Error { what: WHAT, status: 3 });
        }
        let inputs =
            ports(raw.raw, functions.partition_get_input_ports_num, functions.partition_get_input_ports)?;
        let outputs =
            ports(raw.raw, functions.partition_get_output_ports_num, functions.partition_get_output_ports)?;
        let (inputs, outputs) = (Ports::new(graph, &inputs)?, Ports::new(graph, &outputs)?);
        let described = |ports: &Ports| -> Vec<*const RawValue> {
            ports.values.iter().map(|value| &raw const graph.values[value.0]).collect()
        };
        let (from, to) = (described(&inputs), described(&outputs));
        let mut compiled = std::ptr::null_mut();
        // SAFETY: the partition is valid, and `compiled` is written on success.
        check(unsafe { (functions.compiled_partition_create)(&raw mut compiled, raw.raw) }, WHAT)?;
        let compiled = Owned { raw: compiled, destroy: functions.compiled_partition_destroy };
        // SAFETY: the arrays have as many entries as is said, and exist until the call returns.
        let status = unsafe {
            (functions.partition_compile)(
                raw.raw,
                compiled.raw,
                from.len(),
                from.as_ptr(),
                to.len(),
                to.as_ptr(),
                graph.interface.engine,
            )
        };
        check(status, "a compiled partition")?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: `stream` is written on success.
        let status = unsafe { (graph.library.api.stream_create)(&raw mut stream, graph.interface.engine, 1) };
        check(status, "a stream")?;
        let stream = Owned { raw: stream, destroy: graph.library.api.stream_destroy };
        Ok(Self { interface: graph.interface, library: graph.library, compiled, stream, inputs, outputs })
    }

    /// Returns the values that the partition reads, in the order of their places.
    #[must_use]
    pub fn inputs(&self) -> &[Value] {
        &self.inputs.values
    }

    /// Returns the values that the partition writes, in the order of their places.
    #[must_use]
    pub fn outputs(&self) -> &[Value] {
        &self.outputs.values
    }

    /// Runs the partition.
    ///
    /// # Errors
    /// If the library refuses the run.
    ///
    /// # Safety
    /// There is a place for each of [`Self::inputs`] and [`Self::outputs`], in their order, with all elements of the
    /// value. Nobody else uses the places of results until the call returns.
    pub unsafe fn run(&mut self, inputs: &[*mut u8], outputs: &[*mut u8]) -> Result<(), Error> {
        const WHAT: &str = "a run of a partition";
        let _one = OneThread::new(self.library);
        let functions = &self.interface.functions;
        for (ports, places) in [(&self.inputs, inputs), (&self.outputs, outputs)] {
            if ports.raw.len() != places.len() {
                return Err(Error { what: WHAT, status: 2 });
            }
            for (tensor, place) in ports.raw.iter().zip(places) {
                // SAFETY: the tensor is valid, and the caller guarantees the place.
                check(unsafe { (functions.tensor_set_data_handle)(*tensor, *place) }, WHAT)?;
            }
        }
        // SAFETY: the caller guarantees the places. A stream on the processor has finished when the call returns.
        let status = unsafe {
            (functions.compiled_partition_execute)(
                self.compiled.raw,
                self.stream.raw,
                self.inputs.raw.len(),
                self.inputs.raw.as_ptr(),
                self.outputs.raw.len(),
                self.outputs.raw.as_ptr(),
            )
        };
        check(status, WHAT)
    }
}

/// Returns the values that a partition reads or writes.
fn ports(
    partition: Object,
    count: unsafe extern "C" fn(Object, *mut usize) -> c_int,
    list: unsafe extern "C" fn(Object, usize, *mut RawValue) -> c_int,
) -> Result<Vec<RawValue>, Error> {
    const WHAT: &str = "the values of a partition";
    let mut number = 0;
    // SAFETY: `number` is written on success.
    check(unsafe { count(partition, &raw mut number) }, WHAT)?;
    let mut values = vec![RawValue::EMPTY; number];
    // SAFETY: there is room for `number` values.
    check(unsafe { list(partition, number, values.as_mut_ptr()) }, WHAT)?;
    Ok(values)
}
