//! `native.conv-direct`: a convolution whose input and output are in blocks of channels, and whose weights are in
//! blocks of both.
//!
//! A task computes some rows of up to three blocks of output channels. It processes the input channels in chunks
//! whose weights stay in the second-level cache, and accumulates the sums in memory. A 1x1 convolution without
//! strides is treated as one long row.

use super::tile::{Micro, Tile, micro};
use super::{Finish, Geometry, contract as named};
use crate::args::Buffers;
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The largest number of bytes of weights for a chunk of input channels.
const CHUNK: usize = 320 << 10;
/// The number of multiply-adds from which on a task is worth waking a thread.
const MIN_TASK_WORK: usize = 256 << 10;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "OIhw16i16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "OIhw8i8o", "plain"], "nChw8c"),
    ]),
    check: Some(groups_fill_blocks),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-direct", "conv", contract, kernel)
};

/// Checks that each block of channels belongs to one group.
fn groups_fill_blocks(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1).max(1);
    let block = types[0].layout.block(1);
    let [outputs, inputs] = [0, 1].map(|axis| types[1].shape[axis]);
    if groups > 1 && (inputs % block != 0 || outputs / groups % block != 0) {
        return Err(OpError::kernel(format!(
            "{groups} groups of {inputs} channels do not fill blocks of {block}"
        )));
    }
    Ok(())
}

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Direct::new(call) {
        Ok(_) => Ok(named("direct", 0)),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Direct::new(call) {
        Ok(direct) => Ok(Box::new(direct)),
        Err(_) => reference::kernel(call),
    }
}

/// The part of the result that a task computes.
struct Part {
    image: usize,
    /// The first block of output channels, and the number of blocks.
    outputs: (usize, usize),
    /// The blocks of the next task, if they are others.
    then: Option<(usize, usize)>,
    rows: Range<usize>,
    columns: Range<usize>,
}

struct Direct {
    geometry: Geometry,
    finish: Finish,
    micro: Micro,
    /// The blocks of input channels in a group, and in a chunk.
    inputs: usize,
    chunk: usize,
    /// For each task, the first block of output channels and the number of blocks.
    outputs: Vec<(usize, usize)>,
    /// The output rows of a task.
    band: usize,
}

impl Direct {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let mut geometry = Geometry::new(call)?;
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        if geometry.pointwise() {
            let pixels = geometry.input[0] * geometry.input[1];
            (geometry.input, geometry.output) = ([1, pixels], [1, pixels]);
        }
        let block = geometry.block;
        let inputs = (geometry.channels / geometry.groups).div_ceil(block);
        let per_group = geometry.output_blocks() / geometry.groups.min(geometry.output_blocks());
        let mut outputs = Vec::new();
        for group in 0..geometry.groups {
            let mut first = 0;
            while first < per_group {
                let left = per_group - first;
                // Pairs use the registers best, and three blocks at once are better than two and then one.
                let count = if left == 3 { 3 } else { left.min(2) };
                outputs.push((group * per_group + first, count));
                first += count;
            }
        }
        let taps = geometry.kernel[0] * geometry.kernel[1];
        let bytes = 2 * taps * block * block * 4;
        let chunks = (inputs * bytes).div_ceil(CHUNK).clamp(1, inputs.max(1));
        let (rows, work) = (geometry.output[0], geometry.depth() * geometry.outputs);
        let pixels = geometry.output[1];
        // There should be enough tasks for all threads, and each should be large enough to be worth a thread.
        let wanted = (8 * call.threads).div_ceil(outputs.len() * geometry.batch);
        let least = (MIN_TASK_WORK * outputs.len()).div_ceil((work * pixels).max(1)).max(1);
        let band = if call.threads == 1 { rows } else { rows.div_ceil(wanted).max(least).min(rows) };
        Ok(Self {
            inputs,
            chunk: inputs.div_ceil(chunks),
            outputs,
            band,
            micro: micro(block),
            finish,
            geometry,
        })
    }

    /// Returns whether inputs and results are larger than the weights.
    fn by_pixels(&self) -> bool {
        let Geometry { batch, groups, channels, outputs, input, output, kernel, .. } = self.geometry;
        let weights = channels / groups * outputs * kernel[0] * kernel[1];
        batch * (channels * input[0] * input[1] + outputs * output[0] * output[1]) > weights
    }

    /// Returns the number of parts of a row, for a pointwise convolution that is treated as one row.
    fn parts(&self, threads: usize) -> usize {
        let Geometry { output: [rows, columns], batch, .. } = self.geometry;
        if rows > 1 {
            return 1;
        }
        let work = self.geometry.depth() * self.geometry.outputs * columns / self.outputs.len();
        let wanted = (8 * threads).div_ceil(self.outputs.len() * batch);
        wanted.min(work / MIN_TASK_WORK).min(columns / 24).max(1)
    }
}

impl Kernel for Direct {
    unsafe fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let threads = args.team.threads();
        let [rows, columns] = geometry.output;
        // The rows are divided, or the only row is. If the pixels are larger than the weights, each thread gets a
        // contiguous range of pixels, because its cache then holds what the same thread wrote in the previous layer.
        let (bands, parts) = (rows.div_ceil(self.band.max(1)), self.parts(threads));
        let stretches = if self.by_pixels() { threads.min(bands * parts) } else { 1 };
        let each = (bands * parts).div_ceil(stretches);
        let pieces = each * stretches;
        let buffers = Buffers::new(args);
        let place = |task: usize| {
            let (rest, piece) = (task / each, task % each);
            let (rest, output) = (rest / self.outputs.len(), rest % self.outputs.len());
            (rest / stretches, output, rest % stretches * each + piece)
        };
        let total = geometry.batch * self.outputs.len() * each * stretches;
        args.team.run(total, |task| {
            let (image, output, piece) = place(task);
            let cut = |count: usize| count * piece / pieces..count * (piece + 1) / pieces;
            let (rows, columns) = if rows > 1 { (cut(rows), 0..columns) } else { (0..rows, cut(columns)) };
            if rows.is_empty() || columns.is_empty() {
                return;
            }
            // A thread mostly runs neighbouring tasks one after the other, so the next task tells what to prefetch.
            let next = if task + 1 < total { place(task + 1).1 } else { output };
            let then = (next != output).then(|| self.outputs[next]);
            let part = Part { image, outputs: self.outputs[output], then, rows, columns };
            // SAFETY: only this task writes this part of the result.
            unsafe { self.task(buffers.args(), &part) };
        });
        self.finish.pad(args);
    }
}

impl Direct {
    /// Returns the weights to prefetch: those of the input blocks after the first `done`, or of the first input
    /// blocks of the next output blocks.
    fn ahead(
        &self,
        args: &Args<'_>,
        now: (usize, usize),
        then: Option<(usize, usize)>,
        done: usize,
    ) -> Prefetch {
        let (outputs, done) = if done < self.inputs { (Some(now), done) } else { (then, 0) };
        let Some((first, count)) = outputs else { return Prefetch::NONE };
        let Geometry { block, kernel, .. } = self.geometry;
        let size = kernel[0] * kernel[1] * block * block;
        let from = args.inputs[1].cast::<f32>().wrapping_add((first * self.inputs + done) * size);
        // The weights of several output blocks are contiguous only if there is one chunk; otherwise only those of the
        // first block are prefetched.
        let blocks = if self.chunk == self.inputs { count * self.inputs } else { self.chunk };
        Prefetch::new(from, blocks * size)
    }

    /// Returns the first tile of a part, without the offsets of its rows, columns and input blocks.
    fn first_tile(&self, args: &Args<'_>, part: &Part) -> Tile {
        let geometry = &self.geometry;
        let block = geometry.block;
        let [height, width] = geometry.input;
        let (first, _) = part.outputs;
        let plane = height * width * block;
        let taps = geometry.kernel[0] * geometry.kernel[1];
        let outputs = geometry.output_blocks();
        let group = first / (outputs / geometry.groups.min(outputs)).max(1);
        let image = part.image * self.inputs * geometry.groups + group * self.inputs;
        let result = (part.image * outputs + first) * geometry.output[0] * geometry.output[1] * block;
        Tile {
            x: args.inputs[0].cast::<f32>().wrapping_add(image * plane),
            x_pixel: geometry.strides[1] * block,
            x_block: plane,
            x_row: geometry.dilations[0] * width * block,
            x_column: geometry.dilations[1] * block,
            w: args.inputs[1].cast::<f32>().wrapping_add(first * self.inputs * taps * block * block),
            w_output: self.inputs * taps * block * block,
            rows: (0, 0),
            kernel: geometry.kernel,
            blocks: 0,
            depth: (geometry.channels / geometry.groups).min(block),
            tail: 0,
            y: args.output.cast::<f32>().wrapping_add(result),
            y_output: geometry.output[0] * geometry.output[1] * block,
            bias: args.inputs[2].cast::<f32>().wrapping_add(first * block),
            biases: geometry.outputs - first * block,
            last: false,
            residual: self
                .finish
                .residual
                .map_or(std::ptr::null(), |operand| args.inputs[operand].cast::<f32>().wrapping_add(result)),
            low: self.finish.low,
            high: self.finish.high,
            column: 0,
            stride: geometry.strides[1],
            dilation: geometry.dilations[1],
            columns: width,
            ahead: Prefetch::NONE,
        }
    }

    /// Returns the first tile of a part for a chunk: the `blocks` input blocks after the first `done`.
    fn of_chunk(&self, tile: Tile, done: usize, blocks: usize) -> Tile {
        let Geometry { block, kernel, channels, groups, .. } = self.geometry;
        let last = done + blocks == self.inputs;
        Tile {
            x: tile.x.wrapping_add(done * tile.x_block),
            w: tile.w.wrapping_add(done * kernel[0] * kernel[1] * block * block),
            blocks,
            // The last block is multiplied only up to the last channel, without padding.
            tail: if last { channels / groups - (self.inputs - 1) * block } else { tile.depth },
            bias: if done == 0 { tile.bias } else { std::ptr::null() },
            last,
            ..tile
        }
    }

    /// # Safety
    /// No other thread may write this part of the result.
    unsafe fn task(&self, args: &Args<'_>, part: &Part) {
        let geometry = &self.geometry;
        let block = geometry.block;
        let (width, ow) = (geometry.input[1], geometry.output[1]);
        let Part { outputs, then, ref rows, ref columns, .. } = *part;
        let count = outputs.1;
        let whole = self.first_tile(args, part);
        let tiles = columns.len().div_ceil(self.micro.pixels(count)).max(1);
        let mut done = 0;
        let all = rows.len() * tiles;
        while done < self.inputs {
            let blocks = self.chunk.min(self.inputs - done);
            let ahead = self.ahead(args, outputs, then, done + blocks);
            let chunk = self.of_chunk(whole, done, blocks);
            for row in rows.clone() {
                let taken = geometry.rows(row);
                let top = (row * geometry.strides[0]).cast_signed() - geometry.pads[0].cast_signed();
                for index in 0..tiles {
                    let from = columns.start + columns.len() * index / tiles;
                    let pixels = columns.start + columns.len() * (index + 1) / tiles - from;
                    let left = (from * geometry.strides[1]).cast_signed() - geometry.pads[1].cast_signed();
                    let origin = (top * width.cast_signed() + left) * block.cast_signed();
                    let offset = (row * ow + from) * block;
                    let tile = Tile {
                        x: chunk.x.wrapping_offset(origin),
                        rows: (taken.start, taken.end),
                        y: chunk.y.wrapping_add(offset),
                        residual: match self.finish.residual {
                            Some(_) => chunk.residual.wrapping_add(offset),
                            None => std::ptr::null(),
                        },
                        column: left,
                        ahead: ahead.part((row - rows.start) * tiles + index, all),
                        ..chunk
                    };
                    // SAFETY: the tile is within the task's part, and tiles that reach into the padding are marked as
                    // edges.
                    unsafe { self.micro.run(&tile, count, pixels, !geometry.inside(from, pixels)) };
                }
            }
            done += blocks;
        }
        // SAFETY: as the caller promises.
        unsafe { self.second_pass(args, part) };
    }

    /// Applies the steps of the post chain that no tile applies.
    ///
    /// # Safety
    /// As for [`Direct::task`].
    unsafe fn second_pass(&self, args: &Args<'_>, part: &Part) {
        if self.finish.steps.is_empty() {
            return;
        }
        let geometry = &self.geometry;
        let Part { image, outputs: (first, count), ref rows, ref columns, .. } = *part;
        let ow = geometry.output[1];
        // There is one row, or the rows are whole.
        let (start, pixels) = match columns.len() == ow {
            true => (rows.start * ow, rows.len() * ow),
            false => (columns.start, columns.len()),
        };
        for output in first..first + count {
            // SAFETY: the pixels belong to this task.
            unsafe { self.finish.second_pass(args, geometry, image, output, start, pixels) };
        }
    }
}
