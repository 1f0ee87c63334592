//! Bindings: inputs and outputs that belong to a session from one run to the next.

use crate::argument::{Argument, Handle, Out, api, release};
use crate::memory::{Allocator, MemoryInfo};
use crate::run_options::RunOptions;
use crate::session::Session;
use crate::status::{Failure, quietly};
use crate::value::Value;
use ort_sys::{OrtAllocator, OrtApi, OrtIoBinding, OrtMemoryInfo, OrtRunOptions, OrtSession, OrtValue};
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The inputs and outputs that are bound.
#[derive(Default)]
pub struct Binding(Mutex<Bound>);

#[derive(Default)]
struct Bound {
    inputs: Vec<(String, Value)>,
    outputs: Vec<Output>,
}

struct Output {
    name: String,
    /// What the caller has made for it.
    made: Option<Value>,
    /// What the last run has computed.
    computed: Option<Value>,
}

impl Handle for Binding {
    type Sys = OrtIoBinding;
}

impl Binding {
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bind_output(&self, name: &str, made: Option<Value>) {
        let outputs = &mut self.bound().outputs;
        let output = Output { name: name.to_owned(), made, computed: None };
        match outputs.iter_mut().find(|bound| bound.name == name) {
            Some(bound) => *bound = output,
            None => outputs.push(output),
        }
    }

    fn run(&self, session: &Session) -> Result<(), Failure> {
        let bound = &mut *self.bound();
        let inputs: Vec<(&str, &Value)> = bound.inputs.iter().map(|(name, value)| (&**name, value)).collect();
        let wanted: Vec<&str> = bound.outputs.iter().map(|output| &*output.name).collect();
        let computed = session.run(&inputs, &wanted)?;
        for (output, value) in bound.outputs.iter_mut().zip(computed) {
            output.computed = Some(match &output.made {
                None => value,
                Some(made) => {
                    made.receive(&value).map_err(|why| why.about(&format!("output `{}`", output.name)))?;
                    made.clone()
                }
            });
        }
        Ok(())
    }
}

api! {
    fn CreateIoBinding(
        session: *mut OrtSession as &Session,
        out: *mut *mut OrtIoBinding as Out<*mut OrtIoBinding>,
    ) {
        let _ = session;
        out.set(Binding::default().lend());
        Ok(())
    }

    fn BindInput(
        binding_ptr: *mut OrtIoBinding as &Binding,
        name: *const c_char as &str,
        val_ptr: *const OrtValue as &Value,
    ) {
        let inputs = &mut binding_ptr.bound().inputs;
        match inputs.iter_mut().find(|(bound, _)| bound == name) {
            Some((_, value)) => *value = val_ptr.clone(),
            None => inputs.push((name.to_owned(), val_ptr.clone())),
        }
        Ok(())
    }

    fn BindOutput(
        binding_ptr: *mut OrtIoBinding as &Binding,
        name: *const c_char as &str,
        val_ptr: *const OrtValue as &Value,
    ) {
        binding_ptr.bind_output(name, Some(val_ptr.clone()));
        Ok(())
    }

    fn BindOutputToDevice(
        binding_ptr: *mut OrtIoBinding as &Binding,
        name: *const c_char as &str,
        mem_info_ptr: *const OrtMemoryInfo as &MemoryInfo,
    ) {
        // There is one device.
        let _ = mem_info_ptr;
        binding_ptr.bind_output(name, None);
        Ok(())
    }

    fn RunWithBinding(
        session: *mut OrtSession as &Session,
        run_options: *const OrtRunOptions as Option<&RunOptions>,
        binding_ptr: *const OrtIoBinding as &Binding,
    ) {
        run_options.map_or(Ok(()), RunOptions::check)?;
        binding_ptr.run(session)
    }

    fn GetBoundOutputValues(
        binding_ptr: *const OrtIoBinding as &Binding,
        allocator: *mut OrtAllocator as Allocator,
        output: *mut *mut *mut OrtValue as Out<*mut *mut OrtValue>,
        output_count: *mut usize as Out<usize>,
    ) {
        let bound = binding_ptr.bound();
        let value = |output: &Output| {
            output.computed.clone().ok_or_else(|| {
                Failure::invalid(format!("output `{}` is bound, and no run has computed it yet", output.name))
            })
        };
        let values: Vec<Value> = bound.outputs.iter().map(value).collect::<Result<_, _>>()?;
        // The list is allocated before the values are handed over, so that nothing is lost if that fails.
        let list = allocator.list(&vec![std::ptr::null_mut::<OrtValue>(); values.len()])?;
        for (at, value) in values.into_iter().enumerate() {
            // SAFETY: the list has a place for each value.
            unsafe { list.add(at).write(value.lend()) };
        }
        output.set(list);
        output_count.set(bound.outputs.len());
        Ok(())
    }

    // All memory is the processor's, and a run ends when its values are there.
    fn SynchronizeBoundInputs(binding_ptr: *mut OrtIoBinding as &Binding) {
        let _ = binding_ptr;
        Ok(())
    }

    fn SynchronizeBoundOutputs(binding_ptr: *mut OrtIoBinding as &Binding) {
        let _ = binding_ptr;
        Ok(())
    }
}

release!(ReleaseIoBinding: Binding);

/// Returns a binding, unless there is none.
///
/// # Safety
/// The pointer is null or one to a binding.
unsafe fn taken<'b>(binding: *mut OrtIoBinding) -> Option<&'b Binding> {
    // SAFETY: the same promise.
    unsafe { <&Binding as Argument<*mut OrtIoBinding>>::take(binding, "binding_ptr") }.ok()
}

pub unsafe extern "system" fn ClearBoundInputs(binding: *mut OrtIoBinding) {
    // SAFETY: a caller of the C API has a binding from it.
    if let Some(binding) = unsafe { taken(binding) } {
        quietly(|| binding.bound().inputs.clear());
    }
}

pub unsafe extern "system" fn ClearBoundOutputs(binding: *mut OrtIoBinding) {
    // SAFETY: a caller of the C API has a binding from it.
    if let Some(binding) = unsafe { taken(binding) } {
        quietly(|| binding.bound().outputs.clear());
    }
}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateIoBinding,
        BindInput,
        BindOutput,
        BindOutputToDevice,
        RunWithBinding,
        GetBoundOutputValues,
        SynchronizeBoundInputs,
        SynchronizeBoundOutputs,
        ClearBoundInputs,
        ClearBoundOutputs,
        ReleaseIoBinding,
        ..api
    }
}
