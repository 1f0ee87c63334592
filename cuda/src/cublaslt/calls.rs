//! The functions of cuBLASLt that are called.

use crate::calls::{Status, calls};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
    cudaDataType, cudaDataType_t, cudaStream_t,
};
use std::ffi::{c_char, c_int, c_void};

calls! { cudarc::cublaslt::sys, cublasStatus_t:
    cublasLtGetVersion() -> usize;
    cublasLtGetStatusName(Status) -> *const c_char;
    cublasLtCreate(*mut cublasLtHandle_t) -> Status;
    cublasLtMatmulDescCreate(*mut cublasLtMatmulDesc_t, cublasComputeType_t, cudaDataType_t) -> Status;
    cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) -> Status;
    cublasLtMatmulDescSetAttribute(
        cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, *const c_void, usize,
    ) -> Status;
    cublasLtMatrixLayoutCreate(*mut cublasLtMatrixLayout_t, cudaDataType, u64, u64, i64) -> Status;
    cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) -> Status;
    cublasLtMatrixLayoutSetAttribute(
        cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, *const c_void, usize,
    ) -> Status;
    cublasLtMatmulPreferenceCreate(*mut cublasLtMatmulPreference_t) -> Status;
    cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) -> Status;
    cublasLtMatmulPreferenceSetAttribute(
        cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, *const c_void, usize,
    ) -> Status;
    cublasLtMatmulAlgoGetHeuristic(
        cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, c_int,
        *mut cublasLtMatmulHeuristicResult_t, *mut c_int,
    ) -> Status;
    cublasLtMatmul(
        cublasLtHandle_t, cublasLtMatmulDesc_t, *const c_void, *const c_void, cublasLtMatrixLayout_t,
        *const c_void, cublasLtMatrixLayout_t, *const c_void, *const c_void, cublasLtMatrixLayout_t,
        *mut c_void, cublasLtMatrixLayout_t, *const cublasLtMatmulAlgo_t, *mut c_void, usize, cudaStream_t,
    ) -> Status;
}
