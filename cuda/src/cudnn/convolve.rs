//! A convolution that is ready to be queued: descriptors, the algorithm, and addresses.

use super::problem::{Algorithm, Problem};
use super::{Calls, Handle};
use crate::command::{Buffers, Descriptor, Queued, Scale};
use crate::driver::Stream;
use cudarc::cudnn::sys::{self, cudnnConvolutionFwdAlgo_t as Forward};
use cudarc::driver::sys::CUdeviceptr;
use ovolo::op::Call;
use ovolo::tensor::DType;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

type Tensor = Descriptor<sys::cudnnTensorDescriptor_t>;
type Filter = Descriptor<sys::cudnnFilterDescriptor_t>;
type Window = Descriptor<sys::cudnnConvolutionDescriptor_t>;
type Activation = Descriptor<sys::cudnnActivationDescriptor_t>;

/// A convolution with the addresses of its operands.
pub(crate) struct Convolve {
    x: Tensor,
    w: Filter,
    bias: Tensor,
    y: Tensor,
    window: Window,
    /// If present, one call computes the bias, the residual and `relu`; otherwise a second call adds the bias.
    activation: Option<Activation>,
    /// The addresses of the data, the weights, the bias, the residual and the result.
    places: [CUdeviceptr; 5],
    /// One, and the factor of the residual.
    scales: [Scale; 2],
    zero: Scale,
    algorithm: Forward,
    workspace: (CUdeviceptr, usize),
    handle: Rc<Handle>,
}

impl Convolve {
    /// Creates the descriptors of a call, and asks the library for the scratch size.
    ///
    /// # Errors
    /// If the library has no kernel for the call, or needs more scratch memory than the plan has.
    pub(crate) fn new(handle: &Rc<Handle>, call: &Call<'_>, buffers: &Buffers) -> Result<Self, String> {
        let problem = Problem::new(call)?;
        let calls = handle.calls;
        let ty = data_type(problem.dtype)?;
        let format = if problem.nhwc {
            sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC
        } else {
            sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW
        };
        let x = tensor(calls, format, ty, problem.x)?;
        let y = tensor(calls, format, ty, problem.y)?;
        let bias = tensor(calls, format, ty, [1, problem.y[1], 1, 1])?;
        let w = filter(calls, format, ty, problem.w)?;
        let window = window(calls, &problem)?;
        let algorithm = forward(problem.algorithm);
        let mut wanted = 0;
        // SAFETY: all descriptors are valid, and the library writes a number.
        let status = unsafe {
            (calls.cudnnGetConvolutionForwardWorkspaceSize)(
                handle.raw,
                x.raw,
                w.raw,
                window.raw,
                y.raw,
                algorithm,
                &raw mut wanted,
            )
        };
        calls.check("cudnnGetConvolutionForwardWorkspaceSize", status)?;
        let given = problem.workspace();
        if wanted > given {
            return Err(format!(
                "cuDNN needs {wanted} bytes of scratch memory for {}, but the plan has {given}: `ovolo tune` finds \
                 algorithms that need less",
                problem.name()
            ));
        }
        // Without `relu`, only one algorithm of the library also adds the bias.
        let fused = problem.relu || problem.algorithm == Algorithm::ImplicitProductWithIndices;
        let added = problem.residual.map_or(buffers.output, |operand| buffers.inputs[operand]);
        let scale = |one: bool| Scale::new(problem.dtype, if one { 1.0 } else { 0.0 });
        Ok(Self {
            x,
            w,
            bias,
            y,
            window,
            activation: if fused { Some(activation(calls, problem.relu)?) } else { None },
            places: [buffers.inputs[0], buffers.inputs[1], buffers.inputs[2], added, buffers.output],
            scales: [scale(true), scale(problem.residual.is_some())],
            zero: scale(false),
            algorithm,
            workspace: (if wanted > 0 { buffers.workspace() } else { 0 }, wanted),
            handle: Rc::clone(handle),
        })
    }
}

impl Queued for Convolve {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        let [x, w, bias, added, y] = self.places.map(|place| place as *mut c_void);
        let at = |scale: &Scale| ptr::from_ref(scale).cast::<c_void>();
        let (one, share, zero) = (at(&self.scales[0]), at(&self.scales[1]), at(&self.zero));
        let (workspace, bytes) = (self.workspace.0 as *mut c_void, self.workspace.1);
        let (calls, raw) = (self.handle.calls, self.handle.raw);
        // SAFETY: the handle and the stream are valid.
        calls.check("cudnnSetStream", unsafe { (calls.cudnnSetStream)(raw, stream.raw()) })?;
        if let Some(activation) = &self.activation {
            // SAFETY: the descriptors describe the memory at the addresses, which outlives this value, and the
            // scratch memory has the size that the library requested.
            let status = unsafe {
                (calls.cudnnConvolutionBiasActivationForward)(
                    raw,
                    one,
                    self.x.raw,
                    x,
                    self.w.raw,
                    w,
                    self.window.raw,
                    self.algorithm,
                    workspace,
                    bytes,
                    share,
                    self.y.raw,
                    added,
                    self.bias.raw,
                    bias,
                    activation.raw,
                    self.y.raw,
                    y,
                )
            };
            return calls.check("cudnnConvolutionBiasActivationForward", status);
        }
        // SAFETY: as above.
        let status = unsafe {
            (calls.cudnnConvolutionForward)(
                raw,
                one,
                self.x.raw,
                x,
                self.w.raw,
                w,
                self.window.raw,
                self.algorithm,
                workspace,
                bytes,
                zero,
                self.y.raw,
                y,
            )
        };
        calls.check("cudnnConvolutionForward", status)?;
        // SAFETY: as above.
        let status = unsafe { (calls.cudnnAddTensor)(raw, one, self.bias.raw, bias, one, self.y.raw, y) };
        calls.check("cudnnAddTensor", status)
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

/// Describes `relu`, or the identity.
fn activation(calls: &Calls, relu: bool) -> Result<Activation, String> {
    use sys::cudnnActivationMode_t as Mode;
    let mode = if relu { Mode::CUDNN_ACTIVATION_RELU } else { Mode::CUDNN_ACTIVATION_IDENTITY };
    let activation = made!(calls, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor);
    let nan = sys::cudnnNanPropagation_t::CUDNN_NOT_PROPAGATE_NAN;
    // SAFETY: the descriptor is valid.
    let status = unsafe { (calls.cudnnSetActivationDescriptor)(activation.raw, mode, nan, 0.0) };
    calls.check("cudnnSetActivationDescriptor", status)?;
    Ok(activation)
}
