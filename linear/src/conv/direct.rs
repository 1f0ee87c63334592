//! `native.conv-direct`: a convolution whose input and output are in blocks of channels, and whose weights are in
//! blocks of both.
//!
//! A task computes some rows of up to three blocks of output channels. It processes the input channels in chunks
//! whose weights stay in the second-level cache, and accumulates the sums in memory. If the kernel has one column and
//! there are no strides, the image is treated as one long row. A 1x1 convolution with strides first gathers the pixels
//! that it reads.

use super::gate::Gate;
use super::tile::{Micro, Place, Tile, micro};
use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, Shared, part, split, tasks};
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The largest number of bytes of weights for a chunk of input channels.
const CHUNK: usize = 320 << 10;
/// The bytes of input that a task reads again for each of the output blocks: they stay in the second-level cache.
const AGAIN: usize = 192 << 10;
/// The smallest number of pixels in a part of a row.
const LEAST: usize = 24;
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
        Ok(direct) => Ok(Contract {
            in_place: direct.in_place(),
            ..named("direct", direct.gathered() * size_of::<f32>())
        }),
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
    /// The convolution with strides, if this one without strides runs on the pixels that it reads.
    strided: Option<Geometry>,
    finish: Finish,
    /// The step after the residual and the bounds, if it is a gate by an operand of the result's type and all sums are
    /// complete in their tile.
    gate: Option<Gate>,
    micro: Micro,
    /// The blocks of input channels in a group, and in a chunk.
    inputs: usize,
    chunk: usize,
    /// For each task, the first block of output channels and the number of blocks.
    outputs: Vec<(usize, usize)>,
    /// The output rows of a task.
    band: usize,
    /// The columns, between which tiles end, at which a kernel column begins or ends to overlap the input.
    cuts: Vec<usize>,
    /// Whether consecutive tasks compute all output blocks of the same pixels, and the parts of a row that this takes.
    again: Option<usize>,
}

impl Direct {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let given = Geometry::new(call)?;
        let (geometry, strided) = match given.without_strides() {
            Some(geometry) => (geometry.in_one_row(), Some(given)),
            None => (given.in_one_row(), None),
        };
        let mut finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
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
        let gate = if chunks == 1 { finish.take_gate() } else { None };
        let (rows, work) = (geometry.output[0], geometry.depth() * geometry.outputs);
        let pixels = geometry.output[1];
        // There should be enough tasks for all threads, and each should be large enough to be worth a thread.
        let wanted = (8 * call.threads).div_ceil(outputs.len() * geometry.batch);
        let least = (MIN_TASK_WORK * outputs.len()).div_ceil((work * pixels).max(1)).max(1);
        let band = if call.threads == 1 { rows } else { rows.div_ceil(wanted).max(least).min(rows) };
        let again = Again::new(&geometry, outputs.len());
        let micro = micro(block);
        Ok(Self {
            inputs,
            chunk: inputs.div_ceil(chunks),
            outputs,
            band: again.as_ref().map_or(band, |again| band.min(again.rows).max(1)),
            cuts: cuts(&geometry, micro.pixels(2)),
            again: again.map(|again| again.parts),
            micro,
            finish,
            gate,
            geometry,
            strided,
        })
    }

    /// Returns the operands that are read where a sum is stored, and not before. Sums of several chunks are in the
    /// result meanwhile.
    fn in_place(&self) -> Vec<usize> {
        let read = self.finish.residual.into_iter().chain(self.gate.as_ref().map(|gate| gate.operand));
        read.filter(|_| self.chunk >= self.inputs).collect()
    }

    /// Returns the elements of the gathered pixels.
    fn gathered(&self) -> usize {
        let Geometry { batch, block, groups, input: [height, width], .. } = self.geometry;
        if self.strided.is_some() { batch * groups * self.inputs * height * width * block } else { 0 }
    }

    /// Gathers the pixels that a convolution with strides reads, in the order of the result.
    fn gather(&self, args: &Args<'_>, given: &Geometry) {
        let Geometry { batch, block, groups, input: [height, width], output: [rows, columns], .. } = *given;
        let [down, right] = given.strides;
        let source = Shared::<f32>::input(args, 0);
        let target = Shared::<f32>::scratch(args);
        let planes = batch * groups * self.inputs;
        let tasks = tasks(self.gathered(), planes * rows, args.team.threads());
        args.team.run(tasks, |task| {
            for row in part(planes * rows, tasks, task, 1) {
                let from = source.at((row / rows * height + row % rows * down) * width * block);
                let to = target.at(row * columns * block);
                for column in 0..columns {
                    let (from, to) =
                        (from.wrapping_add(column * right * block), to.wrapping_add(column * block));
                    // SAFETY: the pixel is within the input, and this row of the scratch memory is of this task.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, block) };
                }
            }
        });
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
        wanted.min(work / MIN_TASK_WORK).min(columns / LEAST).max(self.again.unwrap_or(1)).max(1)
    }
}

/// How pixels are divided if the input is read again for each of the output blocks and is larger than the cache, so
/// that consecutive tasks read the same part of it.
struct Again {
    /// The rows of a band, and the parts of a row.
    rows: usize,
    parts: usize,
}

impl Again {
    /// Returns the division for so many groups of output blocks, if it saves more reading of the input than it costs
    /// reading of the weights.
    fn new(geometry: &Geometry, times: usize) -> Option<Self> {
        let Geometry { block, groups, channels, outputs, kernel, strides, dilations, .. } = *geometry;
        // Without AVX-512 caches are smaller.
        if block == 16 || times <= groups {
            return None;
        }
        let [rows, columns] = geometry.output;
        let bytes = channels / groups * size_of::<f32>();
        // The input rows or columns that so many output rows or columns read.
        let read = |axis: usize, count: usize| {
            let span = (count.max(1) - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
            span.min(count * kernel[axis])
        };
        let all = read(0, rows) * read(1, columns) * bytes;
        if all <= AGAIN {
            return None;
        }
        let fits = |rows: usize, columns: usize| read(0, rows) * read(1, columns) * bytes <= AGAIN;
        let (band, parts) = if rows > 1 {
            ((1..=rows).rev().find(|rows| fits(*rows, columns)).unwrap_or(1), 1)
        } else {
            let most = (columns / LEAST).max(1);
            (1, (1..=most).find(|parts| fits(1, columns.div_ceil(*parts))).unwrap_or(most))
        };
        let pieces = rows.div_ceil(band) * parts;
        let weights = bytes * kernel[0] * kernel[1] * (outputs / groups);
        (weights * pieces < all * (times / groups)).then_some(Self { rows: band, parts })
    }
}

/// Returns the columns at which the kernel columns that overlap the input change, where they are not so close together
/// that tiles of `pixels` pixels would become small.
fn cuts(geometry: &Geometry, pixels: usize) -> Vec<usize> {
    let columns = geometry.output[1];
    let mut cuts = vec![0];
    for column in 1..columns {
        let last = cuts.last().copied().unwrap_or(0);
        if column - last >= pixels
            && columns - column >= pixels
            && geometry.taps(column) != geometry.taps(column - 1)
        {
            cuts.push(column);
        }
    }
    cuts.push(columns);
    cuts
}

impl Kernel for Direct {
    unsafe fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let threads = args.team.threads();
        let [rows, columns] = geometry.output;
        // The rows are divided, or the only row is. If the pixels are larger than the weights, each thread gets a
        // contiguous range of pixels, because its cache then holds what the same thread wrote in the previous layer.
        let (bands, parts) = (rows.div_ceil(self.band.max(1)), self.parts(threads));
        let stretches = match self.again {
            Some(_) => bands * parts,
            None if self.by_pixels() => threads.min(bands * parts),
            None => 1,
        };
        let each = (bands * parts).div_ceil(stretches);
        let pieces = each * stretches;
        if let Some(given) = &self.strided {
            self.gather(args, given);
        }
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
        let input = if self.strided.is_some() { args.scratch.cast_const() } else { args.inputs[0] };
        Tile {
            x: input.cast::<f32>().wrapping_add(image * plane),
            x_pixel: geometry.strides[1] * block,
            x_block: plane,
            x_row: geometry.dilations[0] * width * block,
            x_column: geometry.dilations[1] * block,
            w: args.inputs[1].cast::<f32>().wrapping_add(first * self.inputs * taps * block * block),
            w_output: self.inputs * taps * block * block,
            w_block: taps * block * block,
            w_row: (geometry.kernel[1] * block * block).cast_signed(),
            w_column: (block * block).cast_signed(),
            rows: (0, 0),
            taps: (0, 0),
            blocks: 0,
            depth: (geometry.channels / geometry.groups).min(block),
            tail: 0,
            y: args.output.cast::<f32>().wrapping_add(result),
            y_output: geometry.output[0] * geometry.output[1] * block,
            y_pixel: block,
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

    /// Returns the columns of each tile of some columns, for so many output blocks. No tile goes beyond a cut, and
    /// those between two cuts are nearly equal.
    fn tiles(&self, columns: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
        let most = self.micro.pixels(count);
        self.cuts.windows(2).flat_map(move |pair| {
            let (first, end) = (pair[0].max(columns.start), pair[1].min(columns.end));
            let length = end.saturating_sub(first);
            let tiles = length.div_ceil(most);
            split(length, tiles, 0..tiles).map(move |part| first + part.start..first + part.end)
        })
    }

    /// Returns where the pixels of a tile lie, and the kernel columns that overlap the input for any of them.
    fn place(&self, columns: &Range<usize>) -> (Place, Range<usize>) {
        let (first, last) = (self.geometry.taps(columns.start), self.geometry.taps(columns.end - 1));
        match (first == last, self.geometry.strides[1]) {
            (true, 1) => (Place::Adjacent, first),
            (true, _) => (Place::Apart, first),
            (false, _) => (Place::Edge, last.start.min(first.start)..first.end.max(last.end)),
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
        let mut done = 0;
        let all = rows.len() * columns.len();
        while done < self.inputs {
            let blocks = self.chunk.min(self.inputs - done);
            let ahead = self.ahead(args, outputs, then, done + blocks).among(all);
            let chunk = self.of_chunk(whole, done, blocks);
            for row in rows.clone() {
                let taken = geometry.rows(row);
                let top = (row * geometry.strides[0]).cast_signed() - geometry.pads[0].cast_signed();
                let before = (row - rows.start) * columns.len();
                for tile in self.tiles(columns.clone(), count) {
                    let left =
                        (tile.start * geometry.strides[1]).cast_signed() - geometry.pads[1].cast_signed();
                    let origin = (top * width.cast_signed() + left) * block.cast_signed();
                    let offset = (row * ow + tile.start) * block;
                    let (place, taps) = self.place(&tile);
                    let [from, to] = [tile.start, tile.end].map(|column| before + column - columns.start);
                    let one = Tile {
                        x: chunk.x.wrapping_offset(origin),
                        rows: (taken.start, taken.end),
                        taps: (taps.start, taps.end),
                        y: chunk.y.wrapping_add(offset),
                        residual: match self.finish.residual {
                            Some(_) => chunk.residual.wrapping_add(offset),
                            None => std::ptr::null(),
                        },
                        column: left,
                        ahead: ahead.units(from, to),
                        ..chunk
                    };
                    // SAFETY: the tile is within the task's part, and tiles that reach into the padding are marked as
                    // edges.
                    unsafe {
                        match &self.gate {
                            None => self.micro.run(&one, count, tile.len(), place),
                            Some(gate) => {
                                let start = one.y.offset_from(args.output.cast::<f32>()).cast_unsigned();
                                gate.tile(&self.micro, args.inputs, start, &one, [count, tile.len()], place);
                            }
                        }
                    };
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
