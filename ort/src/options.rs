//! The options of sessions.

use crate::argument::{Argument, Handle, Out, Room, api, release};
use crate::status::Failure;
use crate::threads::threads;
use ort_sys::{
    ExecutionMode, GraphOptimizationLevel, OrtApi, OrtExecutionProviderDevicePolicy,
    OrtPrepackedWeightsContainer, OrtSessionOptions,
};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

/// The options of a session.
#[derive(Clone, Default)]
pub struct SessionOptions {
    threads: Option<usize>,
    /// Whether the threads are those that the environment sets.
    of_env: bool,
    sizes: BTreeMap<String, usize>,
    entries: BTreeMap<String, String>,
}

/// A container in which sessions would share packed weights. Sessions of ovolo share them through the cache instead, so it
/// stays empty.
pub struct Prepacked(#[allow(dead_code)] u8);

impl Handle for SessionOptions {
    type Sys = OrtSessionOptions;
}

impl Handle for Prepacked {
    type Sys = OrtPrepackedWeightsContainer;
}

/// The entry that names the pipeline.
const PIPELINE: &str = "ovolo.pipeline";
/// The entry that says whether plans are cached.
const CACHE: &str = "ovolo.cache";

impl SessionOptions {
    /// Returns the number of threads, where `shared` is that of the environment; `None` for as many as there are
    /// processors.
    pub fn threads(&self, shared: Option<usize>) -> Option<usize> {
        if self.of_env { shared } else { self.threads }
    }

    /// Returns the sizes that were set for dimensions, by their names.
    pub fn sizes(&self) -> &BTreeMap<String, usize> {
        &self.sizes
    }

    /// Returns the pipeline, if one was named.
    pub fn pipeline(&self) -> Option<&str> {
        self.entries.get(PIPELINE).map(String::as_str)
    }

    /// Returns whether plans come from the cache and are kept in it.
    pub fn cached(&self) -> bool {
        self.entries.get(CACHE).is_none_or(|value| value == "1")
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        match key {
            CACHE if value != "0" && value != "1" => {
                return Err(Failure::invalid(format!("`{CACHE}` is `0` or `1`, and `{value}` was given")));
            }
            PIPELINE | CACHE => {}
            _ if key.starts_with("ovolo.") => {
                return Err(Failure::invalid(format!(
                    "ovolo has no entry `{key}`: there are `{PIPELINE}` and `{CACHE}`"
                )));
            }
            // All others are about ONNX Runtime's own optimisers, allocators and threads.
            _ => {}
        }
        self.entries.insert(key.to_owned(), value.to_owned());
        Ok(())
    }
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Argument<$ty> for $ty {
            unsafe fn take(raw: $ty, _: &str) -> Result<Self, Failure> {
                Ok(raw)
            }
        }
    )*};
}
plain!(ExecutionMode, GraphOptimizationLevel, OrtExecutionProviderDevicePolicy);

/// Functions that set what ovolo decides by itself. They take any value, and change nothing.
macro_rules! without_effect {
    ($($name:ident($($arg:ident: $ty:ty as $rust:ty),*)),* $(,)?) => {
        api! {$(
            fn $name(options: *mut OrtSessionOptions as &SessionOptions, $($arg: $ty as $rust),*) {
                let _ = (options, $($arg),*);
                Ok(())
            }
        )*}
    };
}

without_effect!(
    SetSessionExecutionMode(execution_mode: ExecutionMode as ExecutionMode),
    SetSessionGraphOptimizationLevel(level: GraphOptimizationLevel as GraphOptimizationLevel),
    SetInterOpNumThreads(count: c_int as c_int),
    SetSessionLogId(logid: *const c_char as &str),
    SetSessionLogVerbosityLevel(level: c_int as c_int),
    SetSessionLogSeverityLevel(level: c_int as c_int),
    EnableMemPattern(),
    DisableMemPattern(),
    EnableCpuMemArena(),
    DisableCpuMemArena(),
    // There is no profile to write, and results are always the same.
    DisableProfiling(),
    SetDeterministicCompute(value: bool as bool),
    // There is one device to choose from.
    SessionOptionsSetEpSelectionPolicy(
        policy: OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    ),
);

api! {
    fn CreateSessionOptions(options: *mut *mut OrtSessionOptions as Out<*mut OrtSessionOptions>) {
        options.set(SessionOptions::default().lend());
        Ok(())
    }

    fn CloneSessionOptions(
        in_options: *const OrtSessionOptions as &SessionOptions,
        out_options: *mut *mut OrtSessionOptions as Out<*mut OrtSessionOptions>,
    ) {
        out_options.set(in_options.clone().lend());
        Ok(())
    }

    fn SetIntraOpNumThreads(options: *mut OrtSessionOptions as &mut SessionOptions, count: c_int as c_int) {
        options.threads = threads(count)?;
        Ok(())
    }

    fn DisablePerSessionThreads(options: *mut OrtSessionOptions as &mut SessionOptions) {
        options.of_env = true;
        Ok(())
    }

    fn AddFreeDimensionOverrideByName(
        options: *mut OrtSessionOptions as &mut SessionOptions,
        dim_name: *const c_char as &str,
        dim_value: i64 as i64,
    ) {
        let size = usize::try_from(dim_value).map_err(|_| {
            let given = format!("the dimension `{dim_name}` cannot have the size {dim_value}");
            Failure::invalid(format!("{given}: give 0 or more"))
        })?;
        options.sizes.insert(dim_name.to_owned(), size);
        Ok(())
    }

    fn AddSessionConfigEntry(
        options: *mut OrtSessionOptions as &mut SessionOptions,
        config_key: *const c_char as &str,
        config_value: *const c_char as &str,
    ) {
        options.set(config_key, config_value)
    }

    fn HasSessionConfigEntry(
        options: *const OrtSessionOptions as &SessionOptions,
        config_key: *const c_char as &str,
        out: *mut c_int as Out<c_int>,
    ) {
        out.set(c_int::from(options.entries.contains_key(config_key)));
        Ok(())
    }

    fn GetSessionConfigEntry(
        options: *const OrtSessionOptions as &SessionOptions,
        config_key: *const c_char as &str,
        config_value: *mut c_char as Room<c_char>,
        size: *mut usize as &mut usize,
    ) {
        let Some(value) = options.entries.get(config_key) else {
            return Err(Failure::invalid(format!("the options have no entry `{config_key}`")));
        };
        let text: Vec<c_char> = value.bytes().chain([0]).map(u8::cast_signed).collect();
        let room = std::mem::replace(size, text.len());
        // A caller that gives no place asks for the size.
        if config_value.is_null() {
            return Ok(());
        }
        // SAFETY: the caller of the C API has room for as many characters.
        unsafe { config_value.fill(room, &text) }
    }

    fn CreatePrepackedWeightsContainer(
        out: *mut *mut OrtPrepackedWeightsContainer as Out<*mut OrtPrepackedWeightsContainer>,
    ) {
        out.set(Prepacked(0).lend());
        Ok(())
    }
}

release!(ReleaseSessionOptions: SessionOptions, ReleasePrepackedWeightsContainer: Prepacked);

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateSessionOptions,
        CloneSessionOptions,
        SetIntraOpNumThreads,
        DisablePerSessionThreads,
        AddFreeDimensionOverrideByName,
        AddSessionConfigEntry,
        HasSessionConfigEntry,
        GetSessionConfigEntry,
        CreatePrepackedWeightsContainer,
        ReleaseSessionOptions,
        ReleasePrepackedWeightsContainer,
        SetSessionExecutionMode,
        SetSessionGraphOptimizationLevel,
        SetInterOpNumThreads,
        SetSessionLogId,
        SetSessionLogVerbosityLevel,
        SetSessionLogSeverityLevel,
        EnableMemPattern,
        DisableMemPattern,
        EnableCpuMemArena,
        DisableCpuMemArena,
        DisableProfiling,
        SetDeterministicCompute,
        SessionOptionsSetEpSelectionPolicy,
        ..api
    }
}
