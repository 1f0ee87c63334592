//! The functions of NVRTC that are called.

use crate::calls::{Status, calls};
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{c_char, c_int};

calls! { cudarc::nvrtc::sys, nvrtcResult:
    nvrtcVersion(*mut c_int, *mut c_int) -> Status;
    nvrtcGetErrorString(Status) -> *const c_char;
    nvrtcCreateProgram(
        *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    ) -> Status;
    nvrtcDestroyProgram(*mut nvrtcProgram) -> Status;
    nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char) -> Status;
    nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> Status;
    nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> Status;
    nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> Status;
    nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> Status;
}
