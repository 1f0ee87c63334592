//! `native.conv-transpose-direct`: a transposed convolution in blocks of channels, as a convolution for each phase.
//!
//! With strides of `s` rows and `t` columns, the pixels of the result whose rows are `s` apart and whose columns are `t`
//! apart read the same elements of the window: they are one phase, and among them the operation is a convolution without
//! strides by the window's elements that are `s` and `t` apart, in reverse order. A phase whose pixels read no element
//! has the bias alone.

pub(super) mod depthwise;

use super::contract as named;
use super::tile::{Micro, Place, Tile, micro};
use crate::args::{Buffers, part, tasks};
use crate::lanes::Isa;
use crate::padding::Padding;
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::transposed::Axis;
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, TensorType};
use std::ops::Range;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "BAcd16a16b", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "BAcd8a8b", "plain"], "nChw8c"),
    ]),
    check: Some(one_group),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-transpose-direct", "conv-transpose", contract, kernel)
};

fn one_group(attrs: &Attrs, _: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let (groups, dilations) = (attrs.expect_int("groups"), attrs.expect_ints("dilations"));
    if groups != 1 || dilations != [1, 1] {
        return Err(OpError::kernel(format!(
            "there are {groups} groups and dilations of {dilations:?}: it takes one group, and windows without gaps"
        )));
    }
    Ok(())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Transposed::new(call) {
        Ok(_) => Ok(named("phases", 0)),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Transposed::new(call) {
        Ok(transposed) => Ok(Box::new(transposed)),
        Err(_) => reference::kernel(call),
    }
}

/// The pixels of a phase along an axis.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// The first pixel of the result, and the number of pixels.
    first: usize,
    pixels: usize,
    /// The first element of the window that they read, and the number of elements.
    tap: usize,
    taps: usize,
    /// The pixel of the operand that the first pixel reads by the last of these elements. It may lie before the image.
    from: isize,
}

/// Returns the phases along an axis.
fn phases(axis: &Axis) -> Vec<Phase> {
    let phase = |first: usize| {
        let tap = (first + axis.before) % axis.stride;
        let taps = axis.kernel.saturating_sub(tap).div_ceil(axis.stride);
        let at = (first + axis.before - tap) / axis.stride;
        let pixels = (axis.output - first).div_ceil(axis.stride);
        Phase { first, pixels, tap, taps, from: at.cast_signed() - taps.cast_signed() + 1 }
    };
    (0..axis.stride.min(axis.output)).map(phase).collect()
}

impl Phase {
    /// Returns the elements of the window, in reverse order, by which some pixels all read the image of this size, and
    /// whether all of them do by every one that any of them reads.
    fn taken(&self, pixels: &Range<usize>, size: usize) -> (Range<usize>, bool) {
        let own = |pixel: usize| {
            let at = self.from + pixel.cast_signed();
            let end = (size.cast_signed() - at).clamp(0, self.taps.cast_signed());
            ((-at).clamp(0, end), end)
        };
        let ((first, end), (start, last)) = (own(pixels.start), own(pixels.end - 1));
        let all = first.min(start).cast_unsigned()..end.max(last).cast_unsigned();
        (all, (first, end) == (start, last))
    }
}

struct Transposed {
    batch: usize,
    block: usize,
    channels: usize,
    outputs: usize,
    axes: [Axis; 2],
    phases: [Vec<Phase>; 2],
    micro: Micro,
    padding: Padding,
}

impl Transposed {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
        let block = y.layout.block(1);
        if x.dtype != DType::F32 || (block == 16 && Isa::planned() != Isa::Avx512) {
            return Err(OpError::kernel(format!("no vector of this processor has the channels of {x}")));
        }
        let axis = |axis: usize| Axis::new(call.attrs, axis, x.shape[2 + axis], w.shape[2 + axis]);
        let axes = [axis(0)?, axis(1)?];
        Ok(Self {
            batch: x.shape[0],
            block,
            channels: x.shape[1],
            outputs: y.shape[1],
            phases: [phases(&axes[0]), phases(&axes[1])],
            axes,
            micro: micro(block),
            padding: Padding::new(y),
        })
    }

    /// Computes some rows of a phase, for up to two blocks of outputs of an image.
    ///
    /// # Safety
    /// No other task may write these pixels.
    unsafe fn rows(
        &self,
        args: &Args<'_>,
        image: usize,
        pair: usize,
        [down, across]: [Phase; 2],
        rows: Range<usize>,
    ) {
        let Self { block, channels, outputs, axes: [vertical, horizontal], .. } = self;
        let (inputs, first) = (channels.div_ceil(*block), 2 * pair);
        let count = (outputs.div_ceil(*block) - first).min(2);
        let square = block * block;
        let [plane, target] = [vertical.input * horizontal.input, vertical.output * horizontal.output];
        let [line, column] = [vertical.stride * horizontal.kernel * square, horizontal.stride * square];
        // The first element of the window, in reverse order.
        let tap = (down.tap + down.taps.saturating_sub(1) * vertical.stride) * horizontal.kernel
            + across.tap
            + across.taps.saturating_sub(1) * horizontal.stride;
        let filter = vertical.kernel * horizontal.kernel * square;
        let start = (image * outputs.div_ceil(*block) + first) * target * block;
        let whole = Tile {
            x: args.inputs[0].cast::<f32>().wrapping_add(image * inputs * plane * block),
            x_pixel: *block,
            x_block: plane * block,
            x_row: horizontal.input * block,
            x_column: *block,
            w: args.inputs[1].cast::<f32>().wrapping_add(first * inputs * filter + tap * square),
            w_output: inputs * filter,
            w_block: filter,
            w_row: -line.cast_signed(),
            w_column: -column.cast_signed(),
            rows: (0, 0),
            taps: (0, 0),
            blocks: inputs,
            depth: *block,
            tail: channels - (inputs - 1) * block,
            y: args.output.cast::<f32>().wrapping_add(start),
            y_output: target * block,
            y_pixel: horizontal.stride * block,
            bias: args.inputs[2].cast::<f32>().wrapping_add(first * block),
            biases: outputs - first * block,
            last: true,
            residual: std::ptr::null(),
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
            column: 0,
            stride: 1,
            dilation: 1,
            columns: horizontal.input,
            ahead: Prefetch::NONE,
        };
        let tiles = across.pixels.div_ceil(self.micro.pixels(count));
        for row in rows {
            let (lines, _) = down.taken(&(row..row + 1), vertical.input);
            let top = down.from + row.cast_signed();
            let below = (down.first + row * vertical.stride) * horizontal.output + across.first;
            for tile in 0..tiles {
                let pixels = across.pixels * tile / tiles..across.pixels * (tile + 1) / tiles;
                let (taps, inside) = across.taken(&pixels, horizontal.input);
                let left = across.from + pixels.start.cast_signed();
                let origin = (top * horizontal.input.cast_signed() + left) * block.cast_signed();
                let one = Tile {
                    x: whole.x.wrapping_offset(origin),
                    rows: (lines.start, lines.end),
                    taps: (taps.start, taps.end),
                    y: whole.y.wrapping_add((below + pixels.start * horizontal.stride) * block),
                    column: left,
                    ..whole
                };
                let place = if inside { Place::Adjacent } else { Place::Edge };
                // SAFETY: the pixels are those of the task, and tiles that reach out of the image are marked as edges.
                unsafe { self.micro.run(&one, count, pixels.len(), place) };
            }
        }
    }
}

impl Kernel for Transposed {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { batch, block, channels, outputs, .. } = *self;
        let pairs = outputs.div_ceil(block).div_ceil(2);
        let buffers = Buffers::new(args);
        for down in &self.phases[0] {
            for across in &self.phases[1] {
                let rows = batch * pairs * down.pixels;
                let taps = (down.taps * across.taps).max(1);
                let work = rows * across.pixels * 2 * block * taps * channels / 8;
                let parts = tasks(work, rows, args.team.threads());
                args.team.run(parts, |index| {
                    let mine = part(rows, parts, index, 1);
                    let mut at = mine.start;
                    while at < mine.end {
                        let (plane, row) = (at / down.pixels, at % down.pixels);
                        let end = (row + mine.end - at).min(down.pixels);
                        // SAFETY: only this task writes these rows.
                        unsafe {
                            self.rows(
                                buffers.args(),
                                plane / pairs,
                                plane % pairs,
                                [*down, *across],
                                row..end,
                            );
                        }
                        at += end - row;
                    }
                });
            }
        }
        self.padding.zero(args);
    }
}
