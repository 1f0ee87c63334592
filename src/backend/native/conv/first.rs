//! `native.conv-first`: up to four plain input channels, output in blocks.
//!
//! The input is copied once into scratch with its padding around it, so that no tile has an edge;
//! each kernel element of each channel is then one step of a tile's sums.

use super::{Finish, Geometry, contract as named};
use crate::backend::native::args::{Buffers, Shared};
use crate::backend::native::lanes::{Lanes, widened};
use crate::backend::native::reference;
use crate::backend::{Args, Call, Contract, Kernel};

/// Pixels and output blocks of a tile.
const PIXELS: usize = 12;
const BLOCKS: usize = 2;

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, String> {
    match First::new(call) {
        Ok(first) => Ok(named("first", first.image() * first.geometry.batch * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
    match First::new(call) {
        Ok(first) => Ok(Box::new(first)),
        Err(_) => reference::kernel(call),
    }
}

struct First {
    geometry: Geometry,
    finish: Finish,
    /// Rows and columns of the padded input.
    padded: [usize; 2],
}

/// A row of some output blocks.
struct Row {
    /// The padded input at the row's first kernel row.
    x: *const f32,
    channels: usize,
    /// Between channels and rows of the padded input.
    channel: usize,
    line: usize,
    column: usize,
    stride: usize,
    kernel: [usize; 2],
    w: *const f32,
    w_output: usize,
    bias: *const f32,
    biases: usize,
    y: *mut f32,
    y_output: usize,
    pixels: usize,
    blocks: usize,
    block: usize,
    residual: *const f32,
    low: f32,
    high: f32,
}

widened! {
    /// # Safety
    /// The row's input, weights and output are in bounds.
    unsafe fn row(row: &Row) = row_on, in blocks of row.block;
}

/// # Safety
/// As [`row`]; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(row: &Row) {
    for part in (0..row.block).step_by(V::COUNT) {
        let mut first = 0;
        while first < row.pixels {
            // SAFETY: as the caller promises.
            unsafe {
                match (row.pixels - first >= PIXELS, row.blocks) {
                    (true, BLOCKS) => tile::<V, PIXELS, BLOCKS>(row, first, part),
                    (true, _) => tile::<V, PIXELS, 1>(row, first, part),
                    (false, BLOCKS) => {
                        (first..row.pixels).for_each(|pixel| tile::<V, 1, BLOCKS>(row, pixel, part))
                    }
                    (false, _) => (first..row.pixels).for_each(|pixel| tile::<V, 1, 1>(row, pixel, part)),
                }
            }
            first += PIXELS;
        }
    }
}

/// # Safety
/// As [`row_on`].
#[inline(always)]
unsafe fn tile<V: Lanes, const P: usize, const O: usize>(row: &Row, first: usize, part: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); O]; P];
        for output in 0..O {
            let at = output * row.block + part;
            let bias = V::load_first(row.bias.wrapping_add(at), row.biases.saturating_sub(at).min(V::COUNT));
            sums.iter_mut().for_each(|sums| sums[output] = bias);
        }
        let mut w = row.w.add(part);
        for r in 0..row.kernel[0] {
            for s in 0..row.kernel[1] {
                for channel in 0..row.channels {
                    let x =
                        row.x.add(channel * row.channel + r * row.line + s * row.column + first * row.stride);
                    let mut weights = [V::splat(0.0); O];
                    for (output, weight) in weights.iter_mut().enumerate() {
                        *weight = V::load(w.add(output * row.w_output));
                    }
                    for (pixel, sums) in sums.iter_mut().enumerate() {
                        let value = V::splat(*x.add(pixel * row.stride));
                        for (sum, weight) in sums.iter_mut().zip(weights) {
                            *sum = value.mul_add(weight, *sum);
                        }
                    }
                    w = w.add(row.block);
                }
            }
        }
        let (low, high) = (V::splat(row.low), V::splat(row.high));
        for (pixel, sums) in sums.iter().enumerate() {
            for (output, sum) in sums.iter().enumerate() {
                let at = output * row.y_output + (first + pixel) * row.block + part;
                let sum = if row.residual.is_null() { *sum } else { sum.add(V::load(row.residual.add(at))) };
                high.min(low.max(sum)).store(row.y.add(at));
            }
        }
    }
}

impl First {
    fn new(call: &Call<'_>) -> Result<Self, String> {
        let geometry = Geometry::new(call)?;
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        let padded =
            [0, 1].map(|axis| geometry.input[axis] + geometry.pads[axis] + geometry.pads_after[axis]);
        Ok(Self { geometry, finish, padded })
    }

    /// Elements of one padded image, with room for the last tile to read past it.
    fn image(&self) -> usize {
        self.geometry.channels * self.padded[0] * self.padded[1]
    }

    /// Copies one channel of one image into its padded place.
    ///
    /// # Safety
    /// No other thread writes this channel.
    unsafe fn pad(&self, args: &Args<'_>, plane: usize) {
        let [height, width] = self.geometry.input;
        let [rows, columns] = self.padded;
        let [top, left] = self.geometry.pads;
        let source = args.inputs[0].cast::<f32>().wrapping_add(plane * height * width);
        let target = Shared::<f32>::scratch(args).at(plane * rows * columns);
        for row in 0..rows {
            let line = target.wrapping_add(row * columns);
            // SAFETY: the row is of the padded channel; what is copied is of the input.
            unsafe {
                if row < top || row >= top + height {
                    std::ptr::write_bytes(line, 0, columns);
                } else {
                    std::ptr::write_bytes(line, 0, left);
                    std::ptr::copy_nonoverlapping(source.add((row - top) * width), line.add(left), width);
                    std::ptr::write_bytes(line.add(left + width), 0, columns - left - width);
                }
            }
        }
    }
}

impl Kernel for First {
    fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let buffers = Buffers::new(args);
        args.team.run(geometry.batch * geometry.channels, |plane| {
            // SAFETY: each channel is one task.
            unsafe { self.pad(buffers.args(), plane) };
        });
        let (blocks, block) = (geometry.output_blocks(), geometry.block);
        let [oh, ow] = geometry.output;
        let pairs = blocks.div_ceil(BLOCKS);
        let taps = geometry.kernel[0] * geometry.kernel[1] * geometry.channels;
        let threads = args.team.threads();
        let bands = if threads == 1 { 1 } else { (4 * threads).min(oh) };
        args.team.run(geometry.batch * bands, |task| {
            let args = buffers.args();
            let (image, band) = (task / bands, task % bands);
            let (first, end) = (oh * band / bands, oh * (band + 1) / bands);
            let scratch = Shared::<f32>::scratch(args).at(image * self.image());
            for pair in 0..pairs {
                let output = pair * BLOCKS;
                for index in first..end {
                    let at = ((image * blocks + output) * oh + index) * ow * block;
                    let one = Row {
                        x: scratch.wrapping_add(index * geometry.strides[0] * self.padded[1]),
                        channels: geometry.channels,
                        channel: self.padded[0] * self.padded[1],
                        line: geometry.dilations[0] * self.padded[1],
                        column: geometry.dilations[1],
                        stride: geometry.strides[1],
                        kernel: geometry.kernel,
                        w: args.inputs[1].cast::<f32>().wrapping_add(output * taps * block),
                        w_output: taps * block,
                        bias: args.inputs[2].cast::<f32>().wrapping_add(output * block),
                        biases: geometry.outputs - output * block,
                        y: args.output.cast::<f32>().wrapping_add(at),
                        y_output: oh * ow * block,
                        pixels: ow,
                        blocks: BLOCKS.min(blocks - output),
                        block,
                        residual: self.finish.residual.map_or(std::ptr::null(), |operand| {
                            args.inputs[operand].cast::<f32>().wrapping_add(at)
                        }),
                        low: self.finish.low,
                        high: self.finish.high,
                    };
                    // SAFETY: the row is this task's alone; padding is in scratch.
                    unsafe { row(&one) };
                }
            }
            for output in 0..blocks {
                // SAFETY: rows of this task.
                unsafe { self.finish.second(args, geometry, image, output, first * ow, (end - first) * ow) };
            }
        });
        self.finish.pad(args);
    }
}
