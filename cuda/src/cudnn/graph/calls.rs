//! The functions of cuDNN for graphs of operations that are called.

use crate::calls::{Status, calls};
use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnHandle_t,
};
use std::ffi::{c_char, c_void};

calls! { cudarc::cudnn::sys, cudnnStatus_t:
    cudnnGetLastErrorString(*mut c_char, usize) -> ();
    cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, *mut cudnnBackendDescriptor_t) -> Status;
    cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) -> Status;
    cudnnBackendSetAttribute(
        cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *const c_void,
    ) -> Status;
    cudnnBackendGetAttribute(
        cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *mut i64,
        *mut c_void,
    ) -> Status;
    cudnnBackendFinalize(cudnnBackendDescriptor_t) -> Status;
    cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) -> Status;
}
