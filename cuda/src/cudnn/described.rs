//! The description of a convolution for the library, without addresses.

use super::problem::{Algorithm, Problem};
use super::{Calls, Handle};
use crate::command::Descriptor;
use cudarc::cudnn::sys::{self, cudnnConvolutionFwdAlgo_t as Forward};
use ovolo::tensor::DType;
use std::ptr;

type Tensor = Descriptor<sys::cudnnTensorDescriptor_t>;
type Filter = Descriptor<sys::cudnnFilterDescriptor_t>;
type Window = Descriptor<sys::cudnnConvolutionDescriptor_t>;

/// A convolution in the library's terms.
pub(super) struct Described {
    pub x: Tensor,
    pub w: Filter,
    pub bias: Tensor,
    pub y: Tensor,
    pub window: Window,
    pub algorithm: Forward,
}

/// The library has no kernel of the algorithm for the convolution; its message.
pub(super) struct Unsupported(pub String);

impl Described {
    /// Describes a convolution.
    ///
    /// # Errors
    /// If the library reports an error.
    pub(crate) fn new(calls: &Calls, problem: &Problem) -> Result<Self, String> {
        let ty = data_type(problem.dtype)?;
        let format = if problem.nhwc {
            sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC
        } else {
            sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW
        };
        Ok(Self {
            x: tensor(calls, format, ty, problem.x)?,
            y: tensor(calls, format, ty, problem.y)?,
            bias: tensor(calls, format, ty, [1, problem.y[1], 1, 1])?,
            w: filter(calls, format, ty, problem.w)?,
            window: window(calls, problem)?,
            algorithm: forward(problem.algorithm),
        })
    }

    /// Asks the library for the scratch bytes that the algorithm needs.
    ///
    /// # Errors
    /// If the library reports an error other than that it does not support the convolution.
    pub(crate) fn workspace(&self, handle: &Handle) -> Result<Result<usize, Unsupported>, String> {
        let mut wanted = 0;
        // SAFETY: all descriptors are valid, and the library writes a number.
        let status = handle.with(|raw| unsafe {
            (handle.calls.cudnnGetConvolutionForwardWorkspaceSize)(
                raw,
                self.x.raw,
                self.w.raw,
                self.window.raw,
                self.y.raw,
                self.algorithm,
                &raw mut wanted,
            )
        });
        let answer = handle.calls.check("cudnnGetConvolutionForwardWorkspaceSize", status);
        match answer {
            Ok(()) => Ok(Ok(wanted)),
            Err(why) if (3000..4000).contains(&status.0) => Ok(Err(Unsupported(why))),
            Err(why) => Err(why),
        }
    }
}

fn forward(algorithm: Algorithm) -> Forward {
    match algorithm {
        Algorithm::ImplicitProduct => Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
        Algorithm::ImplicitProductWithIndices => Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
        Algorithm::Product => Forward::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        Algorithm::Fourier => Forward::CUDNN_CONVOLUTION_FWD_ALGO_FFT,
        Algorithm::FourierOfTiles => Forward::CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
        Algorithm::Winograd => Forward::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
        Algorithm::WinogradInSteps => Forward::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
    }
}

fn data_type(dtype: DType) -> Result<sys::cudnnDataType_t, String> {
    match dtype {
        DType::F32 => Ok(sys::cudnnDataType_t::CUDNN_DATA_FLOAT),
        DType::F16 => Ok(sys::cudnnDataType_t::CUDNN_DATA_HALF),
        DType::BF16 => Ok(sys::cudnnDataType_t::CUDNN_DATA_BFLOAT16),
        DType::F64 => Ok(sys::cudnnDataType_t::CUDNN_DATA_DOUBLE),
        other => Err(format!("the library does not support convolutions of {other}")),
    }
}

/// Converts sizes to the library's integer type.
fn to_i32<const N: usize>(sizes: [usize; N]) -> Result<[i32; N], String> {
    let mut counted = [0; N];
    for (to, size) in counted.iter_mut().zip(sizes) {
        *to =
            i32::try_from(size).map_err(|_| format!("a size of {size} is more than the library supports"))?;
    }
    Ok(counted)
}

/// Creates a descriptor with one function of the library; another function releases it.
macro_rules! made {
    ($calls:ident, $create:ident, $destroy:ident) => {{
        let mut raw = ptr::null_mut();
        // SAFETY: the library is open, and writes a descriptor.
        $calls.check(stringify!($create), unsafe { ($calls.$create)(&raw mut raw) })?;
        Descriptor { raw, free: $calls.$destroy }
    }};
}
pub(super) use made;

fn tensor(
    calls: &Calls,
    format: sys::cudnnTensorFormat_t,
    ty: sys::cudnnDataType_t,
    sizes: [usize; 4],
) -> Result<Tensor, String> {
    let [n, c, h, w] = to_i32(sizes)?;
    let tensor = made!(calls, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor);
    // SAFETY: the descriptor is valid.
    let status = unsafe { (calls.cudnnSetTensor4dDescriptor)(tensor.raw, format, ty, n, c, h, w) };
    calls.check("cudnnSetTensor4dDescriptor", status)?;
    Ok(tensor)
}

fn filter(
    calls: &Calls,
    format: sys::cudnnTensorFormat_t,
    ty: sys::cudnnDataType_t,
    sizes: [usize; 4],
) -> Result<Filter, String> {
    let [k, c, h, w] = to_i32(sizes)?;
    let filter = made!(calls, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor);
    // SAFETY: the descriptor is valid.
    let status = unsafe { (calls.cudnnSetFilter4dDescriptor)(filter.raw, ty, format, k, c, h, w) };
    calls.check("cudnnSetFilter4dDescriptor", status)?;
    Ok(filter)
}

/// Describes padding, strides, dilations and groups, and the precision of the sums.
fn window(calls: &Calls, problem: &Problem) -> Result<Window, String> {
    use sys::cudnnMathType_t as Math;
    let [top, left, down, along, rows, columns, groups] = to_i32([
        problem.pads[0],
        problem.pads[1],
        problem.strides[0],
        problem.strides[1],
        problem.dilations[0],
        problem.dilations[1],
        problem.groups,
    ])?;
    let (sums, math) = match problem.dtype {
        DType::F64 => (DType::F64, Math::CUDNN_FMA_MATH),
        // With other modes the library rounds `f32` to TF32.
        DType::F32 if !problem.tf32 => (DType::F32, Math::CUDNN_FMA_MATH),
        _ => (DType::F32, Math::CUDNN_TENSOR_OP_MATH),
    };
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    let window = made!(calls, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor);
    // SAFETY: the descriptor is valid.
    let status = unsafe {
        (calls.cudnnSetConvolution2dDescriptor)(
            window.raw,
            top,
            left,
            down,
            along,
            rows,
            columns,
            mode,
            data_type(sums)?,
        )
    };
    calls.check("cudnnSetConvolution2dDescriptor", status)?;
    // SAFETY: as above.
    calls.check("cudnnSetConvolutionGroupCount", unsafe {
        (calls.cudnnSetConvolutionGroupCount)(window.raw, groups)
    })?;
    // SAFETY: as above.
    calls.check("cudnnSetConvolutionMathType", unsafe {
        (calls.cudnnSetConvolutionMathType)(window.raw, math)
    })?;
    Ok(window)
}
