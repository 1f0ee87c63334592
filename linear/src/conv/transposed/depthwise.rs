//! `native.conv-transpose-depthwise`: a transposed convolution with one filter for each channel, in blocks of channels.
//!
//! A vector has the channels of a block. Each pixel of the result is the sum over those elements of the window by which
//! it reads the operand.

use super::super::contract as named;
use crate::args::{Buffers, part, tasks};
use crate::lanes::{Isa, Lanes, widened};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::transposed::Axis;
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The declaration of the op.
pub(in super::super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Oihw16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Oihw8o", "plain"], "nChw8c"),
    ]),
    check: Some(one_filter_a_channel),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-transpose-depthwise", "conv-transpose", contract, kernel)
};

fn one_filter_a_channel(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
    if types[1].shape[1] != 1 || types[0].shape[1] != groups {
        return Err(OpError::kernel(format!(
            "the weights are {} for {groups} groups of {}: there must be one filter for each channel",
            types[1], types[0]
        )));
    }
    Ok(())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Depthwise::new(call) {
        Ok(_) => Ok(named("depthwise", 0)),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Depthwise::new(call) {
        Ok(depthwise) => Ok(Box::new(depthwise)),
        Err(_) => reference::kernel(call),
    }
}

/// An element of the window, and the pixel of the operand that is read by it, along an axis.
type Tap = (usize, usize);

struct Depthwise {
    batch: usize,
    channels: usize,
    block: usize,
    axes: [Axis; 2],
    /// What each row and each column of the result reads.
    taps: [Vec<Vec<Tap>>; 2],
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
        let block = y.layout.block(1);
        if x.dtype != DType::F32 || (block == 16 && Isa::planned() != Isa::Avx512) {
            return Err(OpError::kernel(format!("no vector of this processor has the channels of {x}")));
        }
        let axis = |axis: usize| Axis::new(call.attrs, axis, x.shape[2 + axis], w.shape[2 + axis]);
        let axes = [axis(0)?, axis(1)?];
        let taps = axes.map(|axis| {
            let read = |at: usize, tap: usize| {
                let steps = (at + axis.before).checked_sub(tap * axis.dilation)?;
                let pixel = steps / axis.stride;
                (steps.is_multiple_of(axis.stride) && pixel < axis.input).then_some((tap, pixel))
            };
            (0..axis.output).map(|at| (0..axis.kernel).filter_map(|tap| read(at, tap)).collect()).collect()
        });
        Ok(Self { batch: x.shape[0], channels: x.shape[1], block, axes, taps })
    }
}

/// A row of the result, of one block of channels.
struct Row<'a> {
    /// The operand's plane, and the rows of it and of the window that are read.
    x: *const f32,
    width: usize,
    lines: &'a [Tap],
    columns: &'a [Vec<Tap>],
    w: *const f32,
    kernel: usize,
    bias: *const f32,
    channels: usize,
    y: *mut f32,
}

widened! {
    /// # Safety
    /// All pixels must be in bounds; vectors must have 16 lanes.
    unsafe fn row_wide(row: &Row<'_>) = row_on;
}
widened! {
    /// # Safety
    /// As for [`row_wide`], with vectors of 8 lanes.
    unsafe fn row_narrow(row: &Row<'_>) = row_on of 8;
}

/// # Safety
/// As for [`row_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(row: &Row<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        let bias = V::load_first(row.bias, row.channels);
        for (column, taps) in row.columns.iter().enumerate() {
            let mut sum = bias;
            for (r, line) in row.lines {
                for (s, pixel) in taps {
                    let weight = V::load(row.w.add((r * row.kernel + s) * V::COUNT));
                    sum = V::load(row.x.add((line * row.width + pixel) * V::COUNT)).mul_add(weight, sum);
                }
            }
            // Padding of the operand and of the weights is zero, unless an element is not finite.
            sum.keep_first(row.channels).store(row.y.add(column * V::COUNT));
        }
    }
}

impl Kernel for Depthwise {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { batch, channels, block, axes: [down, across], .. } = self;
        let blocks = channels.div_ceil(*block);
        let rows = batch * blocks * down.output;
        let parts = tasks(rows * across.output * block, rows, args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |index| {
            let args = buffers.args();
            for at in part(rows, parts, index, 1) {
                let plane = at / down.output;
                let filter = plane % blocks;
                let one = Row {
                    x: args.inputs[0].cast::<f32>().wrapping_add(plane * down.input * across.input * block),
                    width: across.input,
                    lines: &self.taps[0][at % down.output],
                    columns: &self.taps[1],
                    w: args.inputs[1]
                        .cast::<f32>()
                        .wrapping_add(filter * down.kernel * across.kernel * block),
                    kernel: across.kernel,
                    bias: args.inputs[2].cast::<f32>().wrapping_add(filter * block),
                    channels: (channels - filter * block).min(*block),
                    y: args.output.cast::<f32>().wrapping_add(at * across.output * block),
                };
                // SAFETY: only this task writes the row.
                unsafe { if *block == 16 { row_wide(&one) } else { row_narrow(&one) } };
            }
        });
    }
}
