//! `native.conv-winograd`: convolutions without strides by Winograd's algorithm, in blocks of channels. The filters
//! are 3x3 or 5x5, or have 3 or 7 taps along one axis.
//!
//! Tiles of inputs are transformed, multiplied by the transformed weights (one matrix product for each element of a
//! tile), and transformed back. The last transform applies bias, residual and bounds. If the weights are small, each
//! thread takes its own chunks of tiles, whose transforms stay in the second-level cache for all three steps. If the
//! weights are large, all threads work on one chunk with many tiles, so that the weights are read from memory once
//! for many products.
//!
//! Relative error (L2) against the direct sum in `f64`, for uniform inputs and weights: 3x3 with 64 and 512 channels,
//! 2.6e-7 and 6.9e-7 with tiles of 2, 1.7e-6 and 4.0e-6 with tiles of 4; 5x5 with 48 channels, 2.7e-6; 7 taps along
//! an axis with 192 channels, 4.1e-6; 3 taps along an axis with 384 channels, 1.3e-6.

mod forms;
mod op;
mod transform;

pub(super) use self::op::OP;

use self::forms::Transforms;
use self::transform::{Store, Strip};
use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, Shared};
use crate::product::{Product, Set, StoreMode};
use crate::reference;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::winograd::{Axis, axes_of};
use ovolo::op::{KernelChoice, OpError};
use std::ops::Range;

/// The bytes of transformed tiles that one thread keeps in its second-level cache, with AVX-512 and without it: caches
/// are smaller there.
const THREAD_BYTES: [usize; 2] = [1200 << 10, 384 << 10];
/// The bytes of transformed tiles in a chunk that all threads share.
const SHARED_BYTES: usize = 32 << 20;
/// The number of channel blocks of a tile that are worth a task.
const MIN_TASK_BLOCKS: usize = 24;

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Winograd::new(call) {
        Ok(one) => Ok(named(&one.name(), one.scratch() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Winograd::new(call) {
        Ok(one) => Ok(Box::new(one)),
        Err(_) => reference::kernel(call),
    }
}

/// How threads share the tiles: by sizes and threads alone.
pub(super) fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Ok(one) = Winograd::new(call) else { return Vec::new() };
    let threads = if one.lanes > 0 { "each has chunks of tiles of its own" } else { "all work on one chunk" };
    vec![KernelChoice::new("threads", threads), KernelChoice::new("tiles of a chunk", one.chunk.to_string())]
}

struct Winograd {
    geometry: Geometry,
    finish: Finish,
    transforms: Transforms,
    products: Set,
    /// The rows and columns of a tile.
    axes: [Axis; 2],
    /// The rows and columns of tiles in an image.
    across: [usize; 2],
    /// The blocks of input and output channels.
    inputs: usize,
    outputs: usize,
    /// The tiles of a chunk.
    chunk: usize,
    /// The number of chunks that are computed at the same time, each by one thread; 0 if all threads share one chunk.
    lanes: usize,
}

impl Winograd {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, y) = (call.inputs[0], call.output);
        let block = y.layout.block(1);
        let axes = axes_of(call.attrs)
            .ok_or_else(|| OpError::kernel("the tiles of the attributes are not supported"))?;
        let products = Set::new(block)?;
        let transforms = Transforms::new(block, axes)
            .ok_or_else(|| OpError::kernel("there is no kernel for these tiles"))?;
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, y)?;
        let pads: Vec<usize> =
            call.attrs.expect_ints("pads").iter().map(|pad| usize::try_from(*pad).unwrap_or(0)).collect();
        let geometry = Geometry {
            batch: x.shape[0],
            block,
            groups: 1,
            channels: x.shape[1],
            outputs: y.shape[1],
            input: [x.shape[2], x.shape[3]],
            kernel: axes.map(|axis| axis.taps),
            output: [y.shape[2], y.shape[3]],
            strides: [1, 1],
            dilations: [1, 1],
            pads: [pads[0], pads[1]],
            pads_after: [pads[2], pads[3]],
        };
        let across = [0, 1].map(|axis| geometry.output[axis].div_ceil(axes[axis].tile));
        let (inputs, outputs) = (geometry.channels.div_ceil(block), geometry.output_blocks());
        let tiles = geometry.batch * across[0] * across[1];
        let frequencies = axes[0].size() * axes[1].size();
        // The bytes of one transformed tile, inputs and sums.
        let bytes = frequencies * (inputs + outputs) * block * size_of::<f32>();
        let near = (THREAD_BYTES[usize::from(block < 16)] / bytes.max(1)).max(1);
        // Separate chunks read the weights once per chunk; a shared chunk moves the tiles through the last-level
        // cache twice.
        let weights = frequencies * inputs * outputs * block * block * size_of::<f32>();
        let apart = tiles.div_ceil(near) * weights < 2 * tiles * bytes && tiles >= 16 * call.threads;
        let (chunk, lanes) = if apart {
            let rounds = tiles.div_ceil(near).next_multiple_of(call.threads);
            (tiles.div_ceil(rounds), call.threads)
        } else {
            (tiles.div_ceil(tiles.div_ceil((SHARED_BYTES / bytes.max(1)).max(1)).max(1)), 0)
        };
        Ok(Self { geometry, finish, transforms, products, axes, across, inputs, outputs, chunk, lanes })
    }

    /// Returns the implementation's name for contracts: the outputs of a tile along the transformed axes, and the
    /// filter's taps unless they are 3x3.
    fn name(&self) -> String {
        let [rows, columns] = self.axes;
        if rows == columns && rows.taps == 3 {
            return format!("winograd{}", rows.tile);
        }
        format!("winograd{}x{}-{}x{}", rows.tile, columns.tile, rows.taps, columns.taps)
    }

    /// Returns the distance in elements between the frequencies of a chunk with `blocks` blocks of channels. It is an
    /// odd number of cache lines, so that the frequencies of a tile are in different sets of a cache.
    fn frequency(&self, blocks: usize) -> usize {
        ((blocks * self.chunk) | 1) * self.geometry.block
    }

    fn frequencies(&self) -> usize {
        self.axes[0].size() * self.axes[1].size()
    }

    /// Returns the scratch elements of a chunk.
    fn room(&self) -> usize {
        self.frequencies() * (self.frequency(self.inputs) + self.frequency(self.outputs))
    }

    /// Returns all scratch elements.
    fn scratch(&self) -> usize {
        self.room() * self.lanes.max(1)
    }

    fn tiles(&self) -> usize {
        self.geometry.batch * self.across[0] * self.across[1]
    }

    /// Calls `each` for every row of tiles in a range, with the image, the row, the first column and the number of
    /// tiles.
    fn rows(&self, range: Range<usize>, mut each: impl FnMut(usize, usize, usize, usize)) {
        let [rows, columns] = self.across;
        let mut at = range.start;
        while at < range.end {
            let (row, column) = (at / columns, at % columns);
            let count = (columns - column).min(range.end - at);
            each(row / rows, row % rows, column, count);
            at += count;
        }
    }

    /// Transforms the inputs of some tiles of a chunk, for one block of channels.
    ///
    /// # Safety
    /// No other thread may write these transformed tiles.
    unsafe fn scatter(
        &self,
        args: &Args<'_>,
        space: *mut f32,
        first: usize,
        tiles: Range<usize>,
        block: usize,
    ) {
        let Geometry { input: [height, width], pads, block: lanes, .. } = self.geometry;
        let mut to = space.wrapping_add((block * self.chunk + tiles.start - first) * lanes);
        self.rows(tiles, |image, row, column, count| {
            let strip = Strip {
                row: (row * self.axes[0].tile).cast_signed() - pads[0].cast_signed(),
                column: (column * self.axes[1].tile).cast_signed() - pads[1].cast_signed(),
                rows: height,
                columns: width,
                count,
                step: self.axes[1].tile,
                tiles: to,
                frequency: self.frequency(self.inputs),
            };
            let plane = (image * self.inputs + block) * height * width * lanes;
            // SAFETY: the strip is within the chunk, and the plane within the input.
            unsafe { (self.transforms.scatter)(&strip, args.inputs[0].cast::<f32>().wrapping_add(plane)) };
            to = to.wrapping_add(count * lanes);
        });
    }

    /// Computes the sums of the first tiles of a chunk at one frequency, for some blocks of outputs. `next` says
    /// which frequency and block to prefetch; it is only a hint.
    ///
    /// # Safety
    /// No other thread may write these sums, and the inputs must have been transformed.
    unsafe fn multiply(
        &self,
        args: &Args<'_>,
        space: *mut f32,
        tiles: usize,
        frequency: usize,
        outputs: Range<usize>,
        next: (usize, usize),
    ) {
        let (lanes, depth) = (self.geometry.block, self.geometry.channels);
        let v = space.wrapping_add(frequency * self.frequency(self.inputs));
        let sums =
            self.frequencies() * self.frequency(self.inputs) + frequency * self.frequency(self.outputs);
        let m = space.wrapping_add(sums);
        let weights = |output: usize, frequency: usize| {
            let offset = (output * self.frequencies() + frequency) * depth * lanes;
            args.inputs[1].cast::<f32>().wrapping_add(offset)
        };
        let u_block = self.frequencies() * depth * lanes;
        for output in outputs.clone().step_by(2) {
            let u = weights(output, frequency);
            let ahead = if output + 2 < outputs.end {
                weights(output + 2, frequency)
            } else {
                weights(next.1, next.0)
            };
            let product = Product {
                v,
                v_block: self.chunk * lanes,
                depth,
                u,
                u_block,
                ahead,
                to: [m.wrapping_add(output * self.chunk * lanes), std::ptr::null_mut()],
                modes: [StoreMode::Set, StoreMode::None],
                row: lanes,
                column: self.chunk * lanes,
            };
            // SAFETY: tiles and blocks are within the chunk and the weights.
            unsafe { self.products.run(&product, tiles, (outputs.end - output).min(2)) };
        }
    }

    /// Transforms the sums of some tiles of a chunk back, for one block of outputs.
    ///
    /// # Safety
    /// No other thread may write these pixels, and the sums must have been computed.
    unsafe fn gather(
        &self,
        args: &Args<'_>,
        space: *mut f32,
        first: usize,
        tiles: Range<usize>,
        block: usize,
    ) {
        let Geometry { output: [height, width], outputs, block: lanes, .. } = self.geometry;
        let sums = self.frequencies() * self.frequency(self.inputs);
        let mut from = space.wrapping_add(sums + (block * self.chunk + tiles.start - first) * lanes);
        self.rows(tiles, |image, row, column, count| {
            let strip = Strip {
                row: (row * self.axes[0].tile).cast_signed(),
                column: (column * self.axes[1].tile).cast_signed(),
                rows: height,
                columns: width,
                count,
                step: self.axes[1].tile,
                tiles: from,
                frequency: self.frequency(self.outputs),
            };
            let plane = (image * self.outputs + block) * height * width * lanes;
            let store = Store {
                bias: args.inputs[2].cast::<f32>().wrapping_add(block * lanes),
                biases: outputs - block * lanes,
                y: args.output.cast::<f32>().wrapping_add(plane),
                residual: self.finish.residual.map_or(std::ptr::null(), |operand| {
                    args.inputs[operand].cast::<f32>().wrapping_add(plane)
                }),
                low: self.finish.low,
                high: self.finish.high,
            };
            // SAFETY: the strip is within the chunk, and the plane within the result and the residual.
            unsafe { (self.transforms.gather)(&strip, &store) };
            if !self.finish.steps.is_empty() {
                let [down, over] = self.axes.map(|axis| axis.tile);
                let columns = (column * over)..((column + count) * over).min(width);
                for line in row * down..((row + 1) * down).min(height) {
                    let pixel = line * width + columns.start;
                    // SAFETY: the pixels belong to these tiles.
                    unsafe {
                        self.finish.second_pass(args, &self.geometry, image, block, pixel, columns.len())
                    };
                }
            }
            from = from.wrapping_add(count * lanes);
        });
    }

    /// Computes the chunks one after the other, each with all threads.
    fn run_shared_chunks(&self, args: &Args<'_>) {
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        let (tiles, threads) = (self.tiles(), args.team.threads());
        for first in (0..tiles).step_by(self.chunk) {
            let count = self.chunk.min(tiles - first);
            let parts = |blocks: usize| {
                if threads == 1 || blocks == 0 {
                    return 1;
                }
                (8 * threads)
                    .div_ceil(blocks)
                    .min(count * blocks / MIN_TASK_BLOCKS / blocks.min(8 * threads))
                    .clamp(1, count)
            };
            let part = |parts: usize, index: usize| {
                first + count * index / parts..first + count * (index + 1) / parts
            };
            let pieces = parts(self.inputs);
            args.team.run(self.inputs * pieces, |task| {
                let tiles = part(pieces, task % pieces);
                // SAFETY: no other task has these tiles of this block.
                unsafe { self.scatter(buffers.args(), space.at(0), first, tiles, task / pieces) };
            });
            let pairs = self.outputs.div_ceil(2);
            let groups = (8 * threads).div_ceil(self.frequencies()).min(pairs);
            args.team.run(self.frequencies() * groups, |task| {
                let (frequency, group) = (task / groups, task % groups);
                let cut = |group: usize| (2 * (pairs * group / groups)).min(self.outputs);
                let next = (task + 1) % (self.frequencies() * groups);
                let (outputs, next) = (cut(group)..cut(group + 1), (next / groups, cut(next % groups)));
                // SAFETY: no other task has these outputs at this frequency.
                unsafe { self.multiply(buffers.args(), space.at(0), count, frequency, outputs, next) };
            });
            let pieces = parts(self.outputs);
            args.team.run(self.outputs * pieces, |task| {
                let tiles = part(pieces, task % pieces);
                // SAFETY: no other task has these tiles of this block.
                unsafe { self.gather(buffers.args(), space.at(0), first, tiles, task / pieces) };
            });
        }
    }

    /// Computes the chunks in parallel, each with one thread.
    fn run_separate_chunks(&self, args: &Args<'_>) {
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        let tiles = self.tiles();
        args.team.share(self.lanes, tiles.div_ceil(self.chunk), |lane, chunk| {
            let (args, space) = (buffers.args(), space.at(lane * self.room()));
            let first = chunk * self.chunk;
            let range = first..(first + self.chunk).min(tiles);
            let all = 0..self.outputs;
            // SAFETY: only this thread uses its scratch memory and the pixels of its tiles.
            unsafe {
                (0..self.inputs).for_each(|block| self.scatter(args, space, first, range.clone(), block));
                for frequency in 0..self.frequencies() {
                    let next = ((frequency + 1) % self.frequencies(), 0);
                    self.multiply(args, space, range.len(), frequency, all.clone(), next);
                }
                (0..self.outputs).for_each(|block| self.gather(args, space, first, range.clone(), block));
            }
        });
    }
}

impl Kernel for Winograd {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.tiles() == 0 {
            return;
        }
        if self.lanes == 0 {
            self.run_shared_chunks(args)
        } else {
            self.run_separate_chunks(args)
        }
        self.finish.pad(args);
    }
}
