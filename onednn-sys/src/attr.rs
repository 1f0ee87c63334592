//! Attributes of primitives: the post chain, and who owns the scratch memory.

use crate::api::Object;
use crate::desc::{DataType, Desc};
use crate::load::Library;
use crate::{Error, check};
use std::ffi::c_int;

/// An algorithm, as its number in the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm(pub(crate) c_int);

#[allow(missing_docs)]
impl Algorithm {
    pub const CONVOLUTION_DIRECT: Self = Self(0x1);
    pub const CONVOLUTION_WINOGRAD: Self = Self(0x2);
    /// `x < 0 ? alpha * x : x`.
    pub const RELU: Self = Self(0x20);
    pub const TANH: Self = Self(0x21);
    /// `x < 0 ? alpha * (exp(x) - 1) : x`.
    pub const ELU: Self = Self(0x22);
    pub const ABS: Self = Self(0x24);
    pub const SQRT: Self = Self(0x25);
    /// `alpha * x + beta`.
    pub const LINEAR: Self = Self(0x26);
    /// `max(0, min(1, alpha * x + beta))`.
    pub const HARD_SIGMOID: Self = Self(0x28);
    pub const LOGISTIC: Self = Self(0x29);
    pub const EXP: Self = Self(0x2a);
    pub const GELU_TANH: Self = Self(0x2b);
    /// `x / (1 + exp(-alpha * x))`.
    pub const SWISH: Self = Self(0x2c);
    pub const LOG: Self = Self(0x2d);
    /// `min(beta, max(alpha, x))`.
    pub const CLIP: Self = Self(0x2e);
    /// `alpha * x ^ beta`.
    pub const POW: Self = Self(0x30);
    pub const GELU_ERF: Self = Self(0x31);
    /// Rounds to the nearest integer, ties to even.
    pub const ROUND: Self = Self(0x32);
    pub const MISH: Self = Self(0x33);
    /// `x * max(0, min(1, alpha * x + beta))`.
    pub const HARD_SWISH: Self = Self(0x34);
    pub const POOLING_MAX: Self = Self(0x1ff);
    pub const POOLING_AVG_INCLUDE_PADDING: Self = Self(0x2ff);
    pub const POOLING_AVG_EXCLUDE_PADDING: Self = Self(0x3ff);
    pub const BINARY_ADD: Self = Self(0x1fff0);
    pub const BINARY_MUL: Self = Self(0x1fff1);
    pub const BINARY_MAX: Self = Self(0x1fff2);
    pub const BINARY_MIN: Self = Self(0x1fff3);
    pub const BINARY_DIV: Self = Self(0x1fff4);
    pub const BINARY_SUB: Self = Self(0x1fff5);
    pub const REDUCTION_MAX: Self = Self(0x2fff2);
    pub const REDUCTION_MIN: Self = Self(0x2fff3);
    pub const REDUCTION_SUM: Self = Self(0x2fff4);
    pub const REDUCTION_MUL: Self = Self(0x2fff5);
    pub const REDUCTION_MEAN: Self = Self(0x2fff6);
    pub const DECONVOLUTION_DIRECT: Self = Self(0xa);
    pub const RESAMPLING_NEAREST: Self = Self(0x2fff0);
    pub const RESAMPLING_LINEAR: Self = Self(0x2fff1);
    pub const SOFTMAX_ACCURATE: Self = Self(0x30000);
    pub const SOFTMAX_LOG: Self = Self(0x30001);
}

/// Attributes under construction. The caller provides the scratch memory.
pub struct Attr {
    pub(crate) raw: Object,
    steps: Object,
    library: &'static Library,
}

impl Attr {
    /// Creates attributes without steps.
    ///
    /// # Errors
    /// If the library reports an error.
    pub fn new(library: &'static Library) -> Result<Self, Error> {
        let mut attr = Self { raw: std::ptr::null_mut(), steps: std::ptr::null_mut(), library };
        const USER: c_int = 1;
        // SAFETY: both pointers are written on success; on failure, dropping `attr` destroys what was created.
        unsafe {
            check((library.api.primitive_attr_create)(&raw mut attr.raw), "attributes")?;
            check(
                (library.api.primitive_attr_set_scratchpad_mode)(attr.raw, USER),
                "scratch memory of the caller",
            )?;
            check((library.api.post_ops_create)(&raw mut attr.steps), "a post chain")?;
        }
        Ok(attr)
    }

    /// Adds an elementwise step.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn eltwise(&mut self, algorithm: Algorithm, alpha: f32, beta: f32) -> Result<(), Error> {
        // SAFETY: `steps` is a valid chain.
        let status =
            unsafe { (self.library.api.post_ops_append_eltwise)(self.steps, algorithm.0, alpha, beta) };
        check(status, "an elementwise step")
    }

    /// Adds a step that adds the previous content of the result's memory.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn sum(&mut self, data: DataType) -> Result<(), Error> {
        // SAFETY: `steps` is a valid chain.
        let status = unsafe { (self.library.api.post_ops_append_sum)(self.steps, 1.0, 0, data as c_int) };
        check(status, "a sum step")
    }

    /// Adds a step with a right operand, which broadcasts.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn binary(&mut self, algorithm: Algorithm, operand: &Desc) -> Result<(), Error> {
        // SAFETY: `steps` is a valid chain, and the library copies the descriptor.
        let status =
            unsafe { (self.library.api.post_ops_append_binary)(self.steps, algorithm.0, operand.raw) };
        check(status, "a binary step")
    }

    /// Stores the steps in the attributes. No step can be added afterwards.
    pub(crate) fn finish(&self) -> Result<Object, Error> {
        // SAFETY: both are valid objects of the library, which copies the chain.
        let status = unsafe { (self.library.api.primitive_attr_set_post_ops)(self.raw, self.steps) };
        check(status, "a post chain")?;
        Ok(self.raw)
    }
}

impl Drop for Attr {
    fn drop(&mut self) {
        // SAFETY: the library created both objects, and each is destroyed once.
        unsafe {
            if !self.steps.is_null() {
                (self.library.api.post_ops_destroy)(self.steps);
            }
            if !self.raw.is_null() {
                (self.library.api.primitive_attr_destroy)(self.raw);
            }
        }
    }
}
