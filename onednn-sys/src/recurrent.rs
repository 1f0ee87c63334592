//! Recurrent layers over whole sequences.
//!
//! The dimensions are S steps, B sequences, I features of the input, G gates and H units of the state. The library
//! allows for several layers and directions in one primitive; these have one of each.

use crate::Error;
use crate::attr::{Algorithm, Attr};
use crate::desc::Desc;
use crate::load::Library;
use crate::primitive::{INFERENCE, PrimitiveDesc};
use std::ffi::c_int;

/// The order in which a layer goes over the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Direction {
    /// From the first step to the last.
    Forward = 1,
    /// From the last step to the first.
    Backward = 2,
}

/// The descriptors that all cells have.
#[derive(Clone, Copy)]
pub struct Sequence<'a> {
    /// The order of the steps.
    pub direction: Direction,
    /// The inputs of all steps, `[S, B, I]`.
    pub input: &'a Desc,
    /// A state, `[1, 1, B, H]`: the initial one, and the final one.
    pub states: [&'a Desc; 2],
    /// The weights of the input, `[1, 1, I, G, H]`, and those of the state, `[1, 1, H, G, H]`.
    pub weights: [&'a Desc; 2],
    /// The bias, `[1, 1, G, H]`. The library has no kernels for a layer without one.
    pub bias: &'a Desc,
    /// The states after all steps, `[S, B, H]`.
    pub result: &'a Desc,
}

impl PrimitiveDesc {
    /// Describes an LSTM, whose gates are input, forget, cell and output. `memories` are the initial memory and the
    /// final one, `[1, 1, B, H]`.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn lstm(
        library: &'static Library,
        sequence: Sequence<'_>,
        memories: [&Desc; 2],
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        let Sequence { direction, input, states, weights, bias, result } = sequence;
        let none = std::ptr::null_mut();
        Self::new(library, "an LSTM", |raw| {
            // SAFETY: as for a convolution; null pointers stand for no weights of the memory and no projection.
            unsafe {
                (library.api.lstm_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    direction as c_int,
                    input.raw,
                    states[0].raw,
                    memories[0].raw,
                    weights[0].raw,
                    weights[1].raw,
                    none,
                    none,
                    bias.raw,
                    result.raw,
                    states[1].raw,
                    memories[1].raw,
                    NO_FLAGS,
                    attr,
                )
            }
        })
    }

    /// Describes a layer with one gate and its function.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn rnn(
        library: &'static Library,
        function: Algorithm,
        sequence: Sequence<'_>,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        let Sequence { direction, input, states, weights, bias, result } = sequence;
        Self::new(library, "a recurrent layer", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.vanilla_rnn_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    function.0,
                    direction as c_int,
                    input.raw,
                    states[0].raw,
                    weights[0].raw,
                    weights[1].raw,
                    bias.raw,
                    result.raw,
                    states[1].raw,
                    NO_FLAGS,
                    0.0,
                    0.0,
                    attr,
                )
            }
        })
    }
}

/// The library has no flags for recurrent layers.
const NO_FLAGS: u32 = 0;
