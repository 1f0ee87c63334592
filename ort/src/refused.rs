//! Functions that ovolo does not have. Each says so, and what to do instead.
//!
//! A function that the crate `ort` cannot reach without one of these is not in the list: it says only that it is not
//! implemented, as the table of stubs has it.

use crate::status::{Failure, guard};
use ort_sys::*;
use std::ffi::c_void;

/// Defines functions that refuse, and one that puts them into the table of the C API.
macro_rules! refuse {
    ($($why:literal => [$($name:ident($($ty:ty),*)),* $(,)?];)*) => {
        $($(
            unsafe extern "system" fn $name($(_: $ty),*) -> OrtStatusPtr {
                guard(|| Err(Failure::absent(stringify!($name), $why)))
            }
        )*)*

        /// Adds the functions to a table.
        pub fn add(api: OrtApi) -> OrtApi {
            OrtApi { $($($name,)*)* ..api }
        }
    };
}

refuse! {
    "it has no execution providers, since it is one itself: leave the provider out, and name one \
     of its pipelines in the entry `ovolo.pipeline` of the session's configuration" => [
        SessionOptionsAppendExecutionProvider_CUDA_V2(
            *mut OrtSessionOptions,
            *const OrtCUDAProviderOptionsV2
        ),
        SessionOptionsAppendExecutionProvider_CUDA(*mut OrtSessionOptions, *const OrtCUDAProviderOptions),
        CreateCUDAProviderOptions(*mut *mut OrtCUDAProviderOptionsV2),
        UpdateCUDAProviderOptions(
            *mut OrtCUDAProviderOptionsV2,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_ROCM(*mut OrtSessionOptions, *const OrtROCMProviderOptions),
        CreateROCMProviderOptions(*mut *mut OrtROCMProviderOptions),
        UpdateROCMProviderOptions(
            *mut OrtROCMProviderOptions,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_OpenVINO(
            *mut OrtSessionOptions,
            *const OrtOpenVINOProviderOptions
        ),
        SessionOptionsAppendExecutionProvider_OpenVINO_V2(
            *mut OrtSessionOptions,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_TensorRT(
            *mut OrtSessionOptions,
            *const OrtTensorRTProviderOptions
        ),
        SessionOptionsAppendExecutionProvider_TensorRT_V2(
            *mut OrtSessionOptions,
            *const OrtTensorRTProviderOptionsV2
        ),
        CreateTensorRTProviderOptions(*mut *mut OrtTensorRTProviderOptionsV2),
        UpdateTensorRTProviderOptions(
            *mut OrtTensorRTProviderOptionsV2,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_MIGraphX(
            *mut OrtSessionOptions,
            *const OrtMIGraphXProviderOptions
        ),
        SessionOptionsAppendExecutionProvider_CANN(*mut OrtSessionOptions, *const OrtCANNProviderOptions),
        CreateCANNProviderOptions(*mut *mut OrtCANNProviderOptions),
        UpdateCANNProviderOptions(
            *mut OrtCANNProviderOptions,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_Dnnl(*mut OrtSessionOptions, *const OrtDnnlProviderOptions),
        CreateDnnlProviderOptions(*mut *mut OrtDnnlProviderOptions),
        UpdateDnnlProviderOptions(
            *mut OrtDnnlProviderOptions,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_VitisAI(
            *mut OrtSessionOptions,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        SessionOptionsAppendExecutionProvider_V2(
            *mut OrtSessionOptions,
            *mut OrtEnv,
            *const *const OrtEpDevice,
            usize,
            *const *const c_char,
            *const *const c_char,
            usize
        ),
        RegisterExecutionProviderLibrary(*mut OrtEnv, *const c_char, *const os_char),
        UnregisterExecutionProviderLibrary(*mut OrtEnv, *const c_char),
        GetExecutionProviderApi(*const c_char, u32, *mut *const c_void),
    ];
    "operators that a program brings with it cannot be run: say them in operators of ONNX, or add \
     them to ovolo as docs/EXTENDING.md tells" => [
        CreateCustomOpDomain(*const c_char, *mut *mut OrtCustomOpDomain),
        CustomOpDomain_Add(*mut OrtCustomOpDomain, *const OrtCustomOp),
        AddCustomOpDomain(*mut OrtSessionOptions, *mut OrtCustomOpDomain),
        RegisterCustomOpsLibrary(*mut OrtSessionOptions, *const c_char, *mut *mut c_void),
        RegisterCustomOpsLibrary_V2(*mut OrtSessionOptions, *const os_char),
        RegisterCustomOpsUsingFunction(*mut OrtSessionOptions, *const c_char),
        EnableOrtCustomOps(*mut OrtSessionOptions),
        CreateOpAttr(*const c_char, *const c_void, c_int, OrtOpAttrType, *mut *mut OrtOpAttr),
        CreateOp(
            *const OrtKernelInfo,
            *const c_char,
            *const c_char,
            c_int,
            *mut *const c_char,
            *const ONNXTensorElementDataType,
            c_int,
            *const *const OrtOpAttr,
            c_int,
            c_int,
            c_int,
            *mut *mut OrtOp
        ),
    ];
    "a plan is compiled for the weights that are in the model: put them into the model" => [
        AddInitializer(*mut OrtSessionOptions, *const c_char, *const OrtValue),
        AddExternalInitializers(*mut OrtSessionOptions, *const *const c_char, *const *const OrtValue, usize),
        AddExternalInitializersFromMemory(
            *mut OrtSessionOptions,
            *const *const os_char,
            *const *mut c_char,
            *const usize,
            usize
        ),
        SessionGetOverridableInitializerName(*const OrtSession, usize, *mut OrtAllocator, *mut *mut c_char),
        SessionGetOverridableInitializerTypeInfo(*const OrtSession, usize, *mut *mut OrtTypeInfo),
        CreateLoraAdapter(*const os_char, *mut OrtAllocator, *mut *mut OrtLoraAdapter),
        CreateLoraAdapterFromArray(*const c_void, usize, *mut OrtAllocator, *mut *mut OrtLoraAdapter),
        RunOptionsAddActiveLoraAdapter(*mut OrtRunOptions, *const OrtLoraAdapter),
    ];
    "ovolo writes neither models nor profiles: `ovolo bench --profile` times the steps of a model" => [
        SetOptimizedModelFilePath(*mut OrtSessionOptions, *const os_char),
        EnableProfiling(*mut OrtSessionOptions, *const os_char),
        SessionEndProfiling(*mut OrtSession, *mut OrtAllocator, *mut *mut c_char),
        SessionGetProfilingStartTimeNs(*const OrtSession, *mut u64),
        RunOptionsEnableProfiling(*mut OrtRunOptions, *const os_char),
        RunOptionsDisableProfiling(*mut OrtRunOptions),
    ];
    "its threads are its own: set their number" => [
        SessionOptionsSetCustomCreateThreadFn(*mut OrtSessionOptions, OrtCustomCreateThreadFn),
        SessionOptionsSetCustomThreadCreationOptions(*mut OrtSessionOptions, *mut c_void),
        SessionOptionsSetCustomJoinThreadFn(*mut OrtSessionOptions, OrtCustomJoinThreadFn),
        SetGlobalCustomCreateThreadFn(*mut OrtThreadingOptions, OrtCustomCreateThreadFn),
        SetGlobalCustomThreadCreationOptions(*mut OrtThreadingOptions, *mut c_void),
        SetGlobalCustomJoinThreadFn(*mut OrtThreadingOptions, OrtCustomJoinThreadFn),
        SetGlobalIntraOpThreadAffinity(*mut OrtThreadingOptions, *const c_char),
        SetGlobalDenormalAsZero(*mut OrtThreadingOptions),
    ];
    "a session has no logger of its own: give the environment one" => [
        SetUserLoggingFunction(*mut OrtSessionOptions, OrtLoggingFunction, *mut c_void),
    ];
    "dimensions are known by their names alone: use `AddFreeDimensionOverrideByName`" => [
        AddFreeDimensionOverride(*mut OrtSessionOptions, *const c_char, i64),
    ];
    "a compilation cannot be ended from outside" => [
        SessionOptionsSetLoadCancellationFlag(*mut OrtSessionOptions, bool),
    ];
    "a session has no options that can change while it lives" => [
        SetEpDynamicOptions(*mut OrtSession, *const *const c_char, *const *const c_char, usize),
    ];
    "the description of the graph is not read: `ModelMetadataGetDescription` has that of the \
     model" => [
        ModelMetadataGetGraphDescription(*const OrtModelMetadata, *mut OrtAllocator, *mut *mut c_char),
    ];
    "the names of bound outputs are those that the caller has bound, in that order" => [
        GetBoundOutputNames(
            *const OrtIoBinding,
            *mut OrtAllocator,
            *mut *mut c_char,
            *mut *mut usize,
            *mut usize
        ),
    ];
    "models carry nothing that was compiled for a device" => [
        GetModelCompatibilityForEpDevices(
            *const *const OrtEpDevice,
            usize,
            *const c_char,
            *mut OrtCompiledModelCompatibility
        ),
        GetCompatibilityInfoFromModel(*const os_char, *const c_char, *mut OrtAllocator, *mut *mut c_char),
        GetCompatibilityInfoFromModelBytes(
            *const c_void,
            usize,
            *const c_char,
            *mut OrtAllocator,
            *mut *mut c_char
        ),
    ];
    "its allocator has no settings" => [
        CreateArenaCfg(usize, c_int, c_int, c_int, *mut *mut OrtArenaCfg),
        CreateAndRegisterAllocator(*mut OrtEnv, *const OrtMemoryInfo, *const OrtArenaCfg),
    ];
    "types carry no denotations" => [
        GetDenotationFromTypeInfo(*const OrtTypeInfo, *mut *const c_char, *mut usize),
    ];
    "there are no sparse tensors: make a dense one" => [
        CreateSparseTensorAsOrtValue(
            *mut OrtAllocator,
            *const i64,
            usize,
            ONNXTensorElementDataType,
            *mut *mut OrtValue
        ),
    ];
    "there are no opaque values" => [
        CreateOpaqueValue(*const c_char, *const c_char, *const c_void, usize, *mut *mut OrtValue),
    ];
}
