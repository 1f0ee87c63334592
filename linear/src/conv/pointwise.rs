//! `native.pointwise-depthwise`: a 1x1 convolution together with the depthwise convolution that reads it, in blocks
//! of channels.
//!
//! A task computes some rows of the result, for one or two blocks of channels. For each of these rows it computes the
//! rows of the 1x1 convolution that are needed, into a ring buffer of rows in its thread's scratch memory. They are
//! read while they are in the first- or second-level cache, and never stored as a whole. Each row of the ring has
//! columns of zeros at both ends, so that no pixel is at an edge. Neighbouring tasks of an image both compute the few
//! rows at their border.

use super::rows::{Rows, rows};
use super::tile::{Micro, Place, Tile, micro};
use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, Shared, split};
use crate::chain::{Area, apply};
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::pointwise::{between, parts, second};
use ovolo::op::{Form, Layouts, Lowering, OpError, Own};
use std::ops::Range;

/// The number of blocks of channels in a task: pairs use the registers best.
const PAIR: usize = 2;
/// The number of output rows in a task for each row that the neighbouring task computes again.
const ROWS: usize = 8;

/// The declaration of the op.
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
    /// The sizes of the depthwise convolution, which reads padded rows from the ring.
    geometry: Geometry,
    /// The number of columns of the input, and of zeros before them in the ring.
    columns: usize,
    before: usize,
    /// The number of channels that the 1x1 convolution reads, and of their blocks.
    channels: usize,
    inputs: usize,
    inner: Finish,
    finish: Finish,
    micro: Micro,
    /// The number of rows of a ring, a power of two, so that the position of a row is given by its lowest bits.
    ring: usize,
    threads: usize,
}

impl Pair {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let middle = between(call.inputs);
        let attrs = second(call.attrs, middle.shape[1]);
        let mut geometry = Geometry::between(&attrs, &middle, call.inputs[3], call.output)?;
        if geometry.block == 1 {
            return Err(OpError::kernel(format!(
                "the result is {}: it must be in blocks of channels",
                call.output
            )));
        }
        let (columns, before) = (geometry.input[1], geometry.pads[1]);
        let across = (geometry.kernel[1] - 1) * geometry.dilations[1] + 1;
        if before.max(geometry.pads_after[1]) > across {
            return Err(OpError::kernel(format!(
                "there are more columns of padding than the {across} columns of a window"
            )));
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

    /// Returns the elements of the ring for one block of channels.
    fn plane(&self) -> usize {
        self.ring * self.geometry.input[1] * self.geometry.block
    }

    /// Returns the scratch elements of a thread.
    fn room(&self) -> usize {
        PAIR.min(self.geometry.output_blocks()) * self.plane()
    }

    /// Returns the number of parts of an image's rows: some for each thread, so that a thread finds in its cache what
    /// it wrote in the previous layer.
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

    /// Returns the address of a row of the first block in the ring.
    fn place(&self, ring: *mut f32, row: usize) -> *mut f32 {
        ring.wrapping_add((row & (self.ring - 1)) * self.geometry.input[1] * self.geometry.block)
    }

    /// Zeroes the padding of the rows of some blocks.
    ///
    /// # Safety
    /// Only this thread may use the ring.
    unsafe fn clear(&self, ring: *mut f32, blocks: usize) {
        let Geometry { block, input: [_, line], .. } = self.geometry;
        let (first, end) = (self.before * block, (self.before + self.columns) * block);
        for row in 0..blocks * self.ring {
            let row = ring.wrapping_add(row * line * block);
            // SAFETY: both parts are within this row.
            unsafe {
                row.write_bytes(0, first);
                row.add(end).write_bytes(0, line * block - end);
            }
        }
    }

    /// Computes a row of the 1x1 convolution of some blocks of channels, and stores it in the ring.
    ///
    /// # Safety
    /// The row must be within the image, and only this thread may use the ring.
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
        for Range { start: from, end } in split(width, tiles, 0..tiles) {
            let tile = Tile {
                x: x.wrapping_add(from * block),
                x_pixel: block,
                x_block: plane,
                x_row: 0,
                x_column: 0,
                w: args.inputs[1].cast::<f32>().wrapping_add(first * self.inputs * block * block),
                w_output: self.inputs * block * block,
                w_block: block * block,
                w_row: 0,
                w_column: 0,
                rows: (0, 1),
                taps: (0, 1),
                blocks: self.inputs,
                depth: self.channels.min(block),
                tail: self.channels - self.inputs.saturating_sub(1) * block,
                y: line.wrapping_add(from * block),
                y_output: self.plane(),
                y_pixel: block,
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
                ahead: Prefetch::NONE,
            };
            // SAFETY: the tile is within the row, and the input and weights that it reads are in bounds.
            unsafe { self.micro.run(&tile, count, end - from, Place::Adjacent) };
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
    /// No other task may write these rows of the result, and only this thread may use the ring.
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
        // SAFETY: the ring belongs to the caller.
        unsafe { self.clear(ring, count) };
        let mut next = 0;
        for row in range {
            let top = row * geometry.strides[0];
            next = next.max(top.saturating_sub(geometry.pads[0]));
            let end = (top + geometry.reach()).saturating_sub(geometry.pads[0]).min(height);
            while next < end {
                // SAFETY: the row is within the image.
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
                // SAFETY: the row belongs to this task, and the rows that it reads are in the ring.
                unsafe {
                    rows(&one);
                    self.finish.second_pass(args, geometry, image, index, row * ow, ow);
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
            // SAFETY: each thread has its own ring, and the rows belong to this task.
            unsafe { self.task(buffers.args(), image, (first, PAIR.min(blocks - first)), range, ring) };
        });
        self.finish.pad(args);
        if !self.inner.steps.is_empty() {
            // An inner step may turn the zeros of the padding into infinity or NaN, and multiplying that by zero
            // weights gives NaN.
            self.finish.padding.zero(args);
        }
    }
}
