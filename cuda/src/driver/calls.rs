//! The functions of the driver that are called.

use crate::calls::{Status, calls};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec,
    CUmodule, CUstream, CUstreamCaptureMode,
};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

calls! { cudarc::driver::sys, CUresult:
    cuInit(c_uint) -> Status;
    cuDriverGetVersion(*mut c_int) -> Status;
    cuDeviceGetCount(*mut c_int) -> Status;
    cuDeviceGet(*mut CUdevice, c_int) -> Status;
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice) -> Status;
    cuDeviceGetName(*mut c_char, c_int, CUdevice) -> Status;
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice) -> Status;
    cuCtxSetCurrent(CUcontext) -> Status;
    cuGetErrorName(Status, *mut *const c_char) -> Status;
    cuGetErrorString(Status, *mut *const c_char) -> Status;
    cuMemAlloc_v2(*mut CUdeviceptr, usize) -> Status;
    cuMemFree_v2(CUdeviceptr) -> Status;
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> Status;
    cuMemFreeHost(*mut c_void) -> Status;
    cuMemcpyHtoD_v2(CUdeviceptr, *const c_void, usize) -> Status;
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream) -> Status;
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream) -> Status;
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream) -> Status;
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream) -> Status;
    cuModuleLoadData(*mut CUmodule, *const c_void) -> Status;
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char) -> Status;
    cuModuleUnload(CUmodule) -> Status;
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        *mut *mut c_void,
    ) -> Status;
    cuStreamCreate(*mut CUstream, c_uint) -> Status;
    cuStreamDestroy_v2(CUstream) -> Status;
    cuStreamSynchronize(CUstream) -> Status;
    cuStreamWaitEvent(CUstream, CUevent, c_uint) -> Status;
    cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) -> Status;
    cuStreamEndCapture(CUstream, *mut CUgraph) -> Status;
    cuEventCreate(*mut CUevent, c_uint) -> Status;
    cuEventDestroy_v2(CUevent) -> Status;
    cuEventRecord(CUevent, CUstream) -> Status;
    cuEventSynchronize(CUevent) -> Status;
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong) -> Status;
    cuGraphLaunch(CUgraphExec, CUstream) -> Status;
    cuGraphDestroy(CUgraph) -> Status;
    cuGraphExecDestroy(CUgraphExec) -> Status;
}
