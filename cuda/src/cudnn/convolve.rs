//! A convolution that is ready to be queued: its description for the library, and addresses.

use super::described::{Described, made};
use super::problem::{Algorithm, Problem};
use super::{Calls, Handle};
use crate::command::{Buffers, Descriptor, Queued, Scale};
use crate::driver::Stream;
use cudarc::cudnn::sys;
use cudarc::driver::sys::CUdeviceptr;
use ovolo::op::Call;
use std::ffi::c_void;
use std::ptr;

type Activation = Descriptor<sys::cudnnActivationDescriptor_t>;

/// A convolution with the addresses of its operands.
pub(crate) struct Convolve {
    described: Described,
    /// If present, one call computes the bias, the residual and `relu`; otherwise a second call adds the bias.
    activation: Option<Activation>,
    /// The addresses of the data, the weights, the bias, the residual and the result.
    places: [CUdeviceptr; 5],
    /// One, and the factor of the residual.
    scales: [Scale; 2],
    zero: Scale,
    workspace: (CUdeviceptr, usize),
    handle: &'static Handle,
}

impl Convolve {
    /// Describes a call to the library, and asks for the scratch size.
    ///
    /// # Errors
    /// If the library has no kernel for the call, or needs more scratch memory than the plan has.
    pub(crate) fn new(handle: &'static Handle, call: &Call<'_>, buffers: &Buffers) -> Result<Self, String> {
        let problem = Problem::new(call)?;
        let calls = handle.calls;
        let described = Described::new(calls, &problem)?;
        let wanted = described.workspace(handle)?.map_err(|refused| refused.0)?;
        let given = buffers.workspace_bytes();
        if wanted > given {
            return Err(format!(
                "cuDNN needs {wanted} bytes of scratch memory for {}, but the plan has {given}: compile it again on \
                 this device, or `ovolo tune` finds algorithms that need less",
                problem.name()
            ));
        }
        // Without `relu`, only one algorithm of the library also adds the bias.
        let fused = problem.relu || problem.algorithm == Algorithm::ImplicitProductWithIndices;
        let added = problem.residual.map_or(buffers.output, |operand| buffers.inputs[operand]);
        let scale = |one: bool| Scale::new(problem.dtype, if one { 1.0 } else { 0.0 });
        Ok(Self {
            described,
            activation: if fused { Some(activation(calls, problem.relu)?) } else { None },
            places: [buffers.inputs[0], buffers.inputs[1], buffers.inputs[2], added, buffers.output],
            scales: [scale(true), scale(problem.residual.is_some())],
            zero: scale(false),
            workspace: (if wanted > 0 { buffers.workspace() } else { 0 }, wanted),
            handle,
        })
    }
}

impl Queued for Convolve {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        self.handle.on(stream, |raw| self.queue_with(raw))
    }
}

impl Convolve {
    /// Queues the call on the stream of the library's handle.
    fn queue_with(&self, raw: sys::cudnnHandle_t) -> Result<(), String> {
        let [x, w, bias, added, y] = self.places.map(|place| place as *mut c_void);
        let at = |scale: &Scale| ptr::from_ref(scale).cast::<c_void>();
        let (one, share, zero) = (at(&self.scales[0]), at(&self.scales[1]), at(&self.zero));
        let (workspace, bytes) = (self.workspace.0 as *mut c_void, self.workspace.1);
        let (calls, described) = (self.handle.calls, &self.described);
        if let Some(activation) = &self.activation {
            // SAFETY: the descriptors describe the memory at the addresses, which outlives this value, and the
            // scratch memory has the size that the library requested.
            let status = unsafe {
                (calls.cudnnConvolutionBiasActivationForward)(
                    raw,
                    one,
                    described.x.raw,
                    x,
                    described.w.raw,
                    w,
                    described.window.raw,
                    described.algorithm,
                    workspace,
                    bytes,
                    share,
                    described.y.raw,
                    added,
                    described.bias.raw,
                    bias,
                    activation.raw,
                    described.y.raw,
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
                described.x.raw,
                x,
                described.w.raw,
                w,
                described.window.raw,
                described.algorithm,
                workspace,
                bytes,
                zero,
                described.y.raw,
                y,
            )
        };
        calls.check("cudnnConvolutionForward", status)?;
        // SAFETY: as above.
        let status =
            unsafe { (calls.cudnnAddTensor)(raw, one, described.bias.raw, bias, one, described.y.raw, y) };
        calls.check("cudnnAddTensor", status)
    }
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
