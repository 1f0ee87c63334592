//! The environment, which all sessions share.

use crate::argument::{Argument, Handle, Out, api};
use crate::log::{self, Logger};
use crate::registry::registry;
use crate::status::{Failure, quietly};
use crate::threads::threads;
use ort_sys::{OrtApi, OrtEnv, OrtLoggingFunction, OrtLoggingLevel, OrtThreadingOptions};
use std::ffi::{c_char, c_int, c_void};

/// The environment.
pub struct Env {
    threads: Option<usize>,
}

/// What the sessions of an environment run on.
#[derive(Default)]
pub struct Threading {
    threads: Option<usize>,
}

impl Handle for Env {
    type Sys = OrtEnv;
}

impl Handle for Threading {
    type Sys = OrtThreadingOptions;
}

impl Env {
    fn begin(
        logger: Option<Logger>,
        level: OrtLoggingLevel,
        threading: Option<&Threading>,
    ) -> Result<*mut OrtEnv, Failure> {
        ovolo_cli::read_environment(&registry()).map_err(Failure::invalid)?;
        log::begin(logger, level);
        Ok(Self { threads: threading.and_then(|threading| threading.threads) }.lend())
    }

    /// Returns the number of threads for sessions without threads of their own; `None` for as many as there are
    /// processors.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }
}

impl Argument<OrtLoggingLevel> for OrtLoggingLevel {
    unsafe fn take(raw: OrtLoggingLevel, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

impl Argument<OrtLoggingFunction> for OrtLoggingFunction {
    unsafe fn take(raw: OrtLoggingFunction, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

api! {
    fn CreateEnv(
        log_severity_level: OrtLoggingLevel as OrtLoggingLevel,
        logid: *const c_char as &str,
        out: *mut *mut OrtEnv as Out<*mut OrtEnv>,
    ) {
        let _ = logid;
        out.set(Env::begin(None, log_severity_level, None)?);
        Ok(())
    }

    fn CreateEnvWithCustomLogger(
        logging_function: OrtLoggingFunction as OrtLoggingFunction,
        logger_param: *mut c_void as *mut c_void,
        log_severity_level: OrtLoggingLevel as OrtLoggingLevel,
        logid: *const c_char as &str,
        out: *mut *mut OrtEnv as Out<*mut OrtEnv>,
    ) {
        let _ = logid;
        let logger = Logger::new(logging_function, logger_param);
        out.set(Env::begin(Some(logger), log_severity_level, None)?);
        Ok(())
    }

    fn CreateEnvWithGlobalThreadPools(
        log_severity_level: OrtLoggingLevel as OrtLoggingLevel,
        logid: *const c_char as &str,
        tp_options: *const OrtThreadingOptions as &Threading,
        out: *mut *mut OrtEnv as Out<*mut OrtEnv>,
    ) {
        let _ = logid;
        out.set(Env::begin(None, log_severity_level, Some(tp_options))?);
        Ok(())
    }

    fn CreateEnvWithCustomLoggerAndGlobalThreadPools(
        logging_function: OrtLoggingFunction as OrtLoggingFunction,
        logger_param: *mut c_void as *mut c_void,
        log_severity_level: OrtLoggingLevel as OrtLoggingLevel,
        logid: *const c_char as &str,
        tp_options: *const OrtThreadingOptions as &Threading,
        out: *mut *mut OrtEnv as Out<*mut OrtEnv>,
    ) {
        let _ = logid;
        let logger = Logger::new(logging_function, logger_param);
        out.set(Env::begin(Some(logger), log_severity_level, Some(tp_options))?);
        Ok(())
    }

    fn UpdateEnvWithCustomLogLevel(
        ort_env: *mut OrtEnv as &Env,
        log_severity_level: OrtLoggingLevel as OrtLoggingLevel,
    ) {
        let _ = ort_env;
        log::set_least(log_severity_level);
        Ok(())
    }

    // Ovolo sends nothing to anybody, so there is nothing to switch on or off.
    fn EnableTelemetryEvents(env: *const OrtEnv as &Env) {
        let _ = env;
        Ok(())
    }

    fn DisableTelemetryEvents(env: *const OrtEnv as &Env) {
        let _ = env;
        Ok(())
    }

    fn CreateThreadingOptions(out: *mut *mut OrtThreadingOptions as Out<*mut OrtThreadingOptions>) {
        out.set(Threading::default().lend());
        Ok(())
    }

    fn SetGlobalIntraOpNumThreads(
        tp_options: *mut OrtThreadingOptions as &mut Threading,
        count: c_int as c_int,
    ) {
        tp_options.threads = threads(count)?;
        Ok(())
    }

    // A plan runs its steps one after the other.
    fn SetGlobalInterOpNumThreads(tp_options: *mut OrtThreadingOptions as &Threading, count: c_int as c_int) {
        let _ = (tp_options, count);
        Ok(())
    }

    fn SetGlobalSpinControl(tp_options: *mut OrtThreadingOptions as &Threading, allow: c_int as c_int) {
        let _ = (tp_options, allow);
        Ok(())
    }
}

crate::argument::release!(ReleaseThreadingOptions: Threading);

pub unsafe extern "system" fn ReleaseEnv(input: *mut OrtEnv) {
    quietly(log::end);
    // SAFETY: a caller of the C API releases what the C API gave it, and only once.
    unsafe { Env::release(input) }
}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateEnv,
        CreateEnvWithCustomLogger,
        CreateEnvWithGlobalThreadPools,
        CreateEnvWithCustomLoggerAndGlobalThreadPools,
        UpdateEnvWithCustomLogLevel,
        EnableTelemetryEvents,
        DisableTelemetryEvents,
        CreateThreadingOptions,
        SetGlobalIntraOpNumThreads,
        SetGlobalInterOpNumThreads,
        SetGlobalSpinControl,
        ReleaseEnv,
        ReleaseThreadingOptions,
        ..api
    }
}
