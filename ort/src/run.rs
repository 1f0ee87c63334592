//! The functions of the C API that run sessions.

use crate::argument::{Argument, Handle, List, api};
use crate::run_options::RunOptions;
use crate::session::Session;
use crate::status::{Failure, guard};
use crate::value::Value;
use ort_sys::{OrtApi, OrtRunOptions, OrtSession, OrtValue, RunAsyncCallbackFn};
use std::ffi::{c_char, c_void};
use std::thread;

/// Returns the texts of a list.
///
/// # Safety
/// There are as many texts.
unsafe fn texts<'a>(list: &List<*const c_char>, count: usize, name: &str) -> Result<Vec<&'a str>, Failure> {
    // SAFETY: the same promise.
    let pointers = unsafe { list.of(count, name) }?;
    // SAFETY: each of them is a text.
    pointers.iter().map(|text| unsafe { <&str as Argument<*const c_char>>::take(*text, name) }).collect()
}

/// What a caller asks of a run.
pub struct Request<'a> {
    names: Vec<&'a str>,
    values: Vec<&'a Value>,
    wanted: Vec<&'a str>,
    /// A value that the caller has made for an output, or null.
    outputs: &'a mut [*mut OrtValue],
}

/// The arguments of a request: names of inputs, values, their number, names of outputs, their number, places.
pub struct Raw {
    /// Names of inputs.
    pub names: List<*const c_char>,
    /// Their values.
    pub values: List<*const OrtValue>,
    /// How many there are.
    pub inputs: usize,
    /// Names of outputs.
    pub wanted: List<*const c_char>,
    /// How many there are.
    pub outputs: usize,
    /// A place for each.
    pub places: *mut *mut OrtValue,
}

impl<'a> Request<'a> {
    /// Reads the arguments.
    ///
    /// # Safety
    /// They are what the C API says of them, and stay so as long as the request lives.
    unsafe fn read(raw: &Raw) -> Result<Self, Failure> {
        if raw.places.is_null() && raw.outputs > 0 {
            return Err(Failure::invalid("`outputs` is a null pointer"));
        }
        // SAFETY: the caller says that there are as many of each.
        unsafe {
            let values = raw.values.of(raw.inputs, "inputs")?;
            let value =
                |value: &*const OrtValue| <&Value as Argument<*const OrtValue>>::take(*value, "inputs");
            Ok(Self {
                names: texts(&raw.names, raw.inputs, "input_names")?,
                values: values.iter().map(value).collect::<Result<_, _>>()?,
                wanted: texts(&raw.wanted, raw.outputs, "output_names")?,
                outputs: match raw.outputs {
                    0 => &mut [],
                    count => std::slice::from_raw_parts_mut(raw.places, count),
                },
            })
        }
    }

    fn run(self, session: &Session, options: Option<&RunOptions>) -> Result<(), Failure> {
        options.map_or(Ok(()), RunOptions::check)?;
        let inputs: Vec<(&str, &Value)> = self.names.into_iter().zip(self.values).collect();
        let computed = session.run(&inputs, &self.wanted)?;
        // Nothing is handed over before all values are known to fit.
        for ((place, value), name) in self.outputs.iter().zip(&computed).zip(&self.wanted) {
            // SAFETY: a place that is not null has a value of the caller.
            if let Some(made) = unsafe { <Option<&Value> as Argument<*const OrtValue>>::take(*place, name) }?
            {
                made.receive(value).map_err(|why| why.about(&format!("output `{name}`")))?;
            }
        }
        for (place, value) in self.outputs.iter_mut().zip(computed).filter(|(place, _)| place.is_null()) {
            *place = value.lend();
        }
        Ok(())
    }
}

/// Pointers that another thread takes over.
struct Handed<T>(T);

// SAFETY: the C API says that a caller keeps what it hands over until the callback, and that any thread may call it.
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    /// Takes the pointers over. A method makes a closure take the whole, and not a field of it.
    fn take(self) -> T {
        self.0
    }
}

api! {
    fn Run(
        session: *mut OrtSession as &Session,
        run_options: *const OrtRunOptions as Option<&RunOptions>,
        input_names: *const *const c_char as List<*const c_char>,
        inputs: *const *const OrtValue as List<*const OrtValue>,
        input_len: usize as usize,
        output_names: *const *const c_char as List<*const c_char>,
        output_names_len: usize as usize,
        outputs: *mut *mut OrtValue as Places,
    ) {
        let raw = Raw {
            names: input_names, values: inputs, inputs: input_len,
            wanted: output_names, outputs: output_names_len, places: outputs.0,
        };
        // SAFETY: the caller of the C API keeps its arguments for the whole call.
        unsafe { Request::read(&raw) }?.run(session, run_options)
    }

    fn RunAsync(
        session: *mut OrtSession as &Session,
        run_options: *const OrtRunOptions as Option<&RunOptions>,
        input_names: *const *const c_char as List<*const c_char>,
        input: *const *const OrtValue as List<*const OrtValue>,
        input_len: usize as usize,
        output_names: *const *const c_char as List<*const c_char>,
        output_names_len: usize as usize,
        output: *mut *mut OrtValue as Places,
        callback: RunAsyncCallbackFn as RunAsyncCallbackFn,
        user_data: *mut c_void as *mut c_void,
    ) {
        let callback = callback.ok_or_else(|| Failure::invalid("`run_async_callback` is a null pointer"))?;
        let raw = Raw {
            names: input_names, values: input, inputs: input_len,
            wanted: output_names, outputs: output_names_len, places: output.0,
        };
        let session = std::ptr::from_ref(session);
        let options = run_options.map(std::ptr::from_ref);
        let handed = Handed((session, options, raw, user_data));
        let run = move || {
            let (session, options, raw, user_data) = handed.take();
            // SAFETY: the caller keeps all of it until the callback.
            let status = guard(|| unsafe {
                Request::read(&raw)?.run(&*session, options.map(|options| &*options))
            });
            let (places, count) = match status.0.is_null() {
                true => (raw.places, raw.outputs),
                false => (std::ptr::null_mut(), 0),
            };
            // SAFETY: the callback is the caller's. After it, nothing of what was handed over is used.
            unsafe { callback(user_data, places, count, status) };
        };
        let made = thread::Builder::new().name("ovolo-ort".to_owned()).spawn(run);
        made.map_err(|why| Failure::other(format!("the system gives no thread for the run: {why}")))?;
        Ok(())
    }
}

/// Places for outputs.
pub struct Places(*mut *mut OrtValue);

impl Argument<*mut *mut OrtValue> for Places {
    unsafe fn take(raw: *mut *mut OrtValue, _: &str) -> Result<Self, Failure> {
        Ok(Self(raw))
    }
}

impl Argument<RunAsyncCallbackFn> for RunAsyncCallbackFn {
    unsafe fn take(raw: RunAsyncCallbackFn, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi { Run, RunAsync, ..api }
}
