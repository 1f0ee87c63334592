//! `native.pointwise-depthwise`: a 1x1 convolution and the depthwise convolution that reads it, in blocks
//! of channels.
//!
//! A task has some rows of the result, of one or two blocks of channels. Row by row it computes those of
//! the 1x1 convolution that a row of the result reads, into a ring of rows in its thread's scratch memory:
//! they are read while they are in the first or second cache, and never written to memory. Columns of
//! zeros stand at both ends of a row of the ring, so that no pixel is at an edge. Tasks that follow each
//! other down an image compute the few rows on their border twice.

use super::rows::{Rows, rows};
use super::tile::{Micro, Tile, micro};
use super::{Finish, Geometry, contract as named};
use crate::ahead::Ahead;
use crate::args::{Buffers, Shared};
use crate::chain::{Area, apply};
use crate::{ISAS, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::pointwise::{between, parts, second};
use ovolo::op::{Form, Layouts, Lowering, OpError, Own};
use std::ops::Range;

/// Blocks of channels of a task: pairs fill the registers.
const PAIR: usize = 2;
/// Output rows of a task for each row that its neighbour computes as well.
const ROWS: usize = 8;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "OIhw16i16o", "plain", "Oihw16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "OIhw8i8o", "plain", "Oihw8o", "plain"], "nChw8c"),
    ]),
    features: &[
        Own {
            name: "pointwise_flops",
            doc: "floating-point operations of the 1x1 convolution",
            value: |call| parts(call.inputs, call.output).pointwise,
        },
        Own {
            name: "depthwise_flops",
            doc: "floating-point operations of the depthwise convolution",
            value: |call| parts(call.inputs, call.output).depthwise,
        },
    ],
    instruction_sets: ISAS,
    ..Lowering::new("native.pointwise-depthwise", "pointwise-depthwise", contract, kernel)
};

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Pair::new(call) {
        Ok(pair) => Ok(named("pointwise-depthwise", call.threads * pair.room() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Pair::new(call) {
        Ok(pair) => Ok(Box::new(pair)),
        Err(_) => reference::kernel(call),
    }
}

struct Pair {
    /// Of the depthwise convolution, which reads rows with their padding from the ring.
    geometry: Geometry,
    /// Columns of the input, and of zeros before them in the ring.
    columns: usize,
    before: usize,
    /// Channels that the 1x1 convolution reads, and blocks of them.
    channels: usize,
    inputs: usize,
    inner: Finish,
    finish: Finish,
    micro: Micro,
    /// Rows of a ring: a power of two, so that a row's place is a few of its bits.
    ring: usize,
    threads: usize,
}

impl Pair {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let middle = between(call.inputs);
        let attrs = second(call.attrs, middle.shape[1]);
        let mut geometry = Geometry::between(&attrs, &middle, call.inputs[3], call.output)?;
        if geometry.block == 1 {
            return Err(OpError::kernel(format!("the result is {}, not in blocks of channels", call.output)));
        }
        let (columns, before) = (geometry.input[1], geometry.pads[1]);
        let across = (geometry.kernel[1] - 1) * geometry.dilations[1] + 1;
        if before.max(geometry.pads_after[1]) > across {
            return Err(OpError::kernel(format!("more columns of padding than the {across} of a window")));
        }
        geometry.input[1] += before + geometry.pads_after[1];
        (geometry.pads[1], geometry.pads_after[1]) = (0, 0);
        let channels = call.inputs[0].shape[1];
        let ring = geometry.reach().min(geometry.input[0]).next_power_of_two();
        Ok(Self {
            channels,
            inputs: channels.div_ceil(geometry.block),
            inner: Finish::new(call.attrs.steps("inner"), &[], 5, &middle)?,
            finish: Finish::new(call.attrs.post(), &call.inputs[5..], 5, call.output)?,
            micro: micro(geometry.block),
            ring,
            threads: call.threads,
            columns,
            before,
            geometry,
        })
    }

    /// Elements of a ring of one block of channels.
    fn plane(&self) -> usize {
        self.ring * self.geometry.input[1] * self.geometry.block
    }

    /// Elements of scratch of a thread.
    fn room(&self) -> usize {
        PAIR.min(self.geometry.output_blocks()) * self.plane()
    }

    /// Parts that an image's rows are cut into: some for each thread, which finds in its cache what it left
    /// there in the layer before.
    fn pieces(&self, threads: usize) -> usize {
        let Geometry { batch, outputs, output: [rows, columns], block, strides, .. } = self.geometry;
        let pairs = outputs.div_ceil(PAIR * block);
        let twice = self.geometry.reach().saturating_sub(strides[0]);
        let most = (rows / (ROWS * twice).max(1)).max(1);
        if threads == 1 || self.channels > 2 * rows * columns {
            return 1;
        }
        let each = (4 * threads).div_ceil((batch * pairs * threads).max(1));
        (each * threads).min(most)
    }

    /// Where a row of the first block lies in the ring.
    fn place(&self, ring: *mut f32, row: usize) -> *mut f32 {
        ring.wrapping_add((row & (self.ring - 1)) * self.geometry.input[1] * self.geometry.block)
    }

    /// Zeroes the padding of the rows of some blocks.
    ///
    /// # Safety
    /// The ring is this thread's own.
    unsafe fn clear(&self, ring: *mut f32, blocks: usize) {
        let Geometry { block, input: [_, line], .. } = self.geometry;
        let (first, end) = (self.before * block, (self.before + self.columns) * block);
        for row in 0..blocks * self.ring {
            let row = ring.wrapping_add(row * line * block);
            // SAFETY: both parts are of this row.
            unsafe {
                row.write_bytes(0, first);
                row.add(end).write_bytes(0, line * block - end);
            }
        }
    }

    /// Computes a row of the 1x1 convolution of some blocks of channels into its place in the ring.
    ///
    /// # Safety
    /// The row is of the image; the ring is this thread's own.
    unsafe fn expand(
        &self,
        args: &Args<'_>,
        image: usize,
        (first, count): (usize, usize),
        row: usize,
        ring: *mut f32,
    ) {
        let Geometry { block, input: [height, _], outputs, .. } = self.geometry;
        let width = self.columns;
        let plane = height * width * block;
        let x = args.inputs[0].cast::<f32>().wrapping_add(image * self.inputs * plane + row * width * block);
        let line = self.place(ring, row).wrapping_add(self.before * block);
        let tiles = width.div_ceil(self.micro.pixels(count));
        for index in 0..tiles {
            let (from, end) = (width * index / tiles, width * (index + 1) / tiles);
            let tile = Tile {
                x: x.wrapping_add(from * block),
                x_pixel: block,
                x_block: plane,
                x_row: 0,
                x_column: 0,
                w: args.inputs[1].cast::<f32>().wrapping_add(first * self.inputs * block * block),
                w_output: self.inputs * block * block,
                rows: (0, 1),
                kernel: [1, 1],
                blocks: self.inputs,
                depth: self.channels.min(block),
                tail: self.channels - self.inputs.saturating_sub(1) * block,
                y: line.wrapping_add(from * block),
                y_output: self.plane(),
                bias: args.inputs[2].cast::<f32>().wrapping_add(first * block),
                biases: outputs - first * block,
                last: true,
                residual: std::ptr::null(),
                low: self.inner.low,
                high: self.inner.high,
                column: 0,
                stride: 1,
                dilation: 1,
                columns: width,
                ahead: Ahead::NONE,
            };
            // SAFETY: the tile is within the row, and so is what it reads of the input and the weights.
            unsafe { self.micro.run(&tile, count, end - from, false) };
        }
        for output in 0..count {
            let target = line.wrapping_add(output * self.plane());
            for (action, _) in &self.inner.steps {
                let area = Area {
                    source: target,
                    source_row: width * block,
                    target,
                    target_row: width * block,
                    rows: 1,
                    columns: width * block,
                    extra: std::ptr::null(),
                    extra_row: 0,
                    extra_column: 0,
                };
                // SAFETY: the row is within the ring; inner steps are unary.
                unsafe { apply(action, &area) };
            }
        }
    }

    /// # Safety
    /// No other task has these rows of the result; the ring is this thread's own.
    unsafe fn task(
        &self,
        args: &Args<'_>,
        image: usize,
        (first, count): (usize, usize),
        range: Range<usize>,
        ring: *mut f32,
    ) {
        let geometry = &self.geometry;
        let Geometry { block, outputs, input: [height, _], output: [oh, ow], .. } = *geometry;
        let taps = geometry.kernel[0] * geometry.kernel[1];
        // SAFETY: the ring is the caller's.
        unsafe { self.clear(ring, count) };
        let mut next = 0;
        for row in range {
            let top = row * geometry.strides[0];
            next = next.max(top.saturating_sub(geometry.pads[0]));
            let end = (top + geometry.reach()).saturating_sub(geometry.pads[0]).min(height);
            while next < end {
                // SAFETY: the row is of the image.
                unsafe { self.expand(args, image, (first, count), next, ring) };
                next += 1;
            }
            for output in 0..count {
                let index = first + output;
                let at = (image * geometry.output_blocks() + index) * oh * ow * block;
                let one = Rows {
                    geometry,
                    x: ring.wrapping_add(output * self.plane()),
                    mask: self.ring - 1,
                    w: args.inputs[3].cast::<f32>().wrapping_add(index * taps * block),
                    bias: args.inputs[4].cast::<f32>().wrapping_add(index * block),
                    biases: outputs - index * block,
                    y: args.output.cast::<f32>().wrapping_add(at),
                    residual: self.finish.residual.map_or(std::ptr::null(), |operand| {
                        args.inputs[operand].cast::<f32>().wrapping_add(at)
                    }),
                    low: self.finish.low,
                    high: self.finish.high,
                    first: row,
                    end: row + 1,
                };
                // SAFETY: the row is this task's alone, and what it reads is in the ring.
                unsafe {
                    rows(&one);
                    self.finish.second(args, geometry, image, index, row * ow, ow);
                }
            }
        }
    }
}

impl Kernel for Pair {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, output: [oh, ow], .. } = self.geometry;
        if batch * oh * ow == 0 {
            return;
        }
        let blocks = self.geometry.output_blocks();
        let (pairs, pieces) = (blocks.div_ceil(PAIR), self.pieces(self.threads));
        let (buffers, space) = (Buffers::new(args), Shared::<f32>::scratch(args));
        args.team.share(self.threads, batch * pieces * pairs, |lane, task| {
            let (rest, pair) = (task / pairs, task % pairs);
            let (image, piece) = (rest / pieces, rest % pieces);
            let first = pair * PAIR;
            let range = oh * piece / pieces..oh * (piece + 1) / pieces;
            let ring = space.at(lane * self.room());
            // SAFETY: the lane's space is its own, and so are the task's rows.
            unsafe { self.task(buffers.args(), image, (first, PAIR.min(blocks - first)), range, ring) };
        });
        self.finish.pad(args);
        if !self.inner.steps.is_empty() {
            // What such a step makes of zero may be no finite number, which times zero is none.
            self.finish.padding.zero(args);
        }
    }
}
