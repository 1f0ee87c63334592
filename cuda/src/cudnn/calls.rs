//! The functions of cuDNN that are called.

use crate::calls::{Status, calls};
use cudarc::cudnn::sys::{
    cudaStream_t, cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnFilterDescriptor_t,
    cudnnHandle_t, cudnnMathType_t, cudnnNanPropagation_t, cudnnTensorDescriptor_t, cudnnTensorFormat_t,
};
use std::ffi::{c_char, c_int, c_void};

calls! { cudarc::cudnn::sys, cudnnStatus_t:
    cudnnGetVersion() -> usize;
    cudnnGetCudartVersion() -> usize;
    cudnnGetErrorString(Status) -> *const c_char;
    cudnnCreate(*mut cudnnHandle_t) -> Status;
    cudnnSetStream(cudnnHandle_t, cudaStream_t) -> Status;
    cudnnCreateTensorDescriptor(*mut cudnnTensorDescriptor_t) -> Status;
    cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t) -> Status;
    cudnnSetTensor4dDescriptor(
        cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, c_int, c_int, c_int, c_int,
    ) -> Status;
    cudnnCreateFilterDescriptor(*mut cudnnFilterDescriptor_t) -> Status;
    cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t) -> Status;
    cudnnSetFilter4dDescriptor(
        cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, c_int, c_int, c_int, c_int,
    ) -> Status;
    cudnnCreateConvolutionDescriptor(*mut cudnnConvolutionDescriptor_t) -> Status;
    cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t) -> Status;
    cudnnSetConvolution2dDescriptor(
        cudnnConvolutionDescriptor_t, c_int, c_int, c_int, c_int, c_int, c_int, cudnnConvolutionMode_t,
        cudnnDataType_t,
    ) -> Status;
    cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t, c_int) -> Status;
    cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t) -> Status;
    cudnnCreateActivationDescriptor(*mut cudnnActivationDescriptor_t) -> Status;
    cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t) -> Status;
    cudnnSetActivationDescriptor(
        cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t, f64,
    ) -> Status;
    cudnnGetConvolutionForwardWorkspaceSize(
        cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
        cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t, *mut usize,
    ) -> Status;
    cudnnConvolutionForward(
        cudnnHandle_t, *const c_void, cudnnTensorDescriptor_t, *const c_void, cudnnFilterDescriptor_t,
        *const c_void, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, *mut c_void, usize,
        *const c_void, cudnnTensorDescriptor_t, *mut c_void,
    ) -> Status;
    cudnnConvolutionBiasActivationForward(
        cudnnHandle_t, *const c_void, cudnnTensorDescriptor_t, *const c_void, cudnnFilterDescriptor_t,
        *const c_void, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, *mut c_void, usize,
        *const c_void, cudnnTensorDescriptor_t, *const c_void, cudnnTensorDescriptor_t, *const c_void,
        cudnnActivationDescriptor_t, cudnnTensorDescriptor_t, *mut c_void,
    ) -> Status;
    cudnnAddTensor(
        cudnnHandle_t, *const c_void, cudnnTensorDescriptor_t, *const c_void, *const c_void,
        cudnnTensorDescriptor_t, *mut c_void,
    ) -> Status;
}
