//! `native.conv-first`: a convolution of up to four plain input channels, with output in blocks.
//!
//! For each band of rows the input is copied to scratch memory together with its padding, so that no tile is at an
//! edge. The columns with the same remainder modulo the stride are stored next to each other, so that neighbouring
//! pixels read neighbouring elements for every stride. A tile then reads its inputs at fixed distances from one
//! address. Each kernel element of each channel is one step of a tile's sums.

use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, Shared};
use crate::lanes::{Isa, Lanes};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;

/// The largest number of rows in a band, and the smallest number of bands per thread.
const BAND: usize = 8;
const BANDS: usize = 4;
/// The number of output blocks in a tile.
const BLOCKS: usize = 2;
/// The number of pixels in a tile, such that its sums fit into 32 registers or into 16.
const PIXELS_512: usize = 14;
const PIXELS_256: usize = 6;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "Ohwi16o", "plain"], "nChw16c"),
        Form::new(&["plain", "Ohwi8o", "plain"], "nChw8c"),
    ]),
    check: Some(few_channels),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-first", "conv", contract, kernel)
};

fn few_channels(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    if types[0].shape[1] > 4 {
        return Err(OpError::operand(0, types[0], ": at most 4 channels are supported"));
    }
    match attrs.expect_int("groups") {
        1 => Ok(()),
        groups => Err(OpError::attribute("groups", format!("is {groups}: only 1 is supported"))),
    }
}

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match First::new(call) {
        Ok(first) => Ok(named("first", first.threads * first.room() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match First::new(call) {
        Ok(first) => Ok(Box::new(first)),
        Err(_) => reference::kernel(call),
    }
}

struct First {
    geometry: Geometry,
    finish: Finish,
    threads: usize,
    /// The rows of a band, the rows of the padded input that it reads, and the number of columns for one remainder
    /// modulo the stride.
    band: usize,
    rows: usize,
    columns: usize,
    /// The offset in a band's input of each kernel element of each channel, in the order of the weights.
    taps: Vec<usize>,
    /// The function that selects a tile function by pixels and blocks, and the largest number of pixels.
    micro: (fn(usize, usize) -> Function, usize),
}

/// A tile: some pixels of a row by some output blocks.
struct Tile<'a> {
    /// The padded input at the first pixel and kernel element.
    x: *const f32,
    taps: &'a [usize],
    w: *const f32,
    w_output: usize,
    bias: *const f32,
    biases: usize,
    y: *mut f32,
    y_output: usize,
    residual: *const f32,
    low: f32,
    high: f32,
}

type Function = unsafe fn(&Tile<'_>);

/// # Safety
/// All memory that the tile reads and writes must be in bounds, and the processor must have the instruction set of
/// `V`.
#[inline(always)]
unsafe fn tile<V: Lanes, const P: usize, const O: usize>(tile: &Tile<'_>) {
    let width = V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); O]; P];
        for output in 0..O {
            let at = output * width;
            let bias = V::load_first(tile.bias.wrapping_add(at), tile.biases.saturating_sub(at).min(width));
            sums.iter_mut().for_each(|sums| sums[output] = bias);
        }
        let mut w = tile.w;
        for tap in tile.taps {
            let x = tile.x.add(*tap);
            let mut weights = [V::splat(0.0); O];
            for (output, weight) in weights.iter_mut().enumerate() {
                *weight = V::load(w.add(output * tile.w_output));
            }
            for (pixel, sums) in sums.iter_mut().enumerate() {
                let value = V::splat(*x.add(pixel));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = value.mul_add(weight, *sum);
                }
            }
            w = w.add(width);
        }
        // Weights of padded outputs are zero, and so are their sums, unless an input is not finite.
        let outputs = tile.biases.saturating_sub((O - 1) * width).min(width);
        let (low, high) = (V::splat(tile.low), V::splat(tile.high));
        for (pixel, sums) in sums.iter().enumerate() {
            for (output, sum) in sums.iter().enumerate() {
                let at = output * tile.y_output + pixel * width;
                let mut sum = *sum;
                if !tile.residual.is_null() {
                    sum = sum.add(V::load(tile.residual.add(at)));
                }
                sum = high.min(low.max(sum));
                if output == O - 1 {
                    sum = sum.keep_first(outputs);
                }
                sum.store(tile.y.add(at));
            }
        }
    }
}

/// Defines a module with the tile functions of one instruction set.
macro_rules! tiles {
    ($name:ident, $lanes:ty, [$($p:literal),*], $(#[$feature:meta])?) => {
        mod $name {
            use super::{Function, Tile, tile};

            /// # Safety
            /// As for [`super::tile`].
            $(#[$feature])?
            unsafe fn one<const P: usize, const O: usize>(one: &Tile<'_>) {
                // SAFETY: as the caller promises.
                unsafe { tile::<$lanes, P, O>(one) }
            }

            pub(super) fn pick(pixels: usize, blocks: usize) -> Function {
                match (pixels, blocks) {
                    $(($p, 1) => one::<$p, 1>, ($p, _) => one::<$p, 2>,)*
                    _ => unreachable!("a tile has a supported number of pixels"),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(
    wide, std::arch::x86_64::__m512, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
tiles!(
    narrow, std::arch::x86_64::__m256, [1, 2, 3, 4, 5, 6],
    #[target_feature(enable = "avx2,fma")]
);
tiles!(portable, [f32; 8], [1, 2, 3, 4, 5, 6],);

impl First {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let geometry = Geometry::new(call)?;
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        let Geometry { kernel, strides, dilations, pads, pads_after, .. } = geometry;
        let stride = strides[1];
        let threads = call.threads.max(1);
        let band = (geometry.batch * geometry.output[0]).div_ceil(BANDS * threads).clamp(1, BAND);
        let rows = (band - 1) * strides[0] + (kernel[0] - 1) * dilations[0] + 1;
        let columns = (geometry.input[1] + pads[1] + pads_after[1]).div_ceil(stride);
        let mut taps = Vec::with_capacity(geometry.kernel[0] * geometry.kernel[1] * geometry.channels);
        for r in 0..geometry.kernel[0] {
            for s in 0..geometry.kernel[1] {
                let column = s * geometry.dilations[1];
                for channel in 0..geometry.channels {
                    let line = channel * rows + r * geometry.dilations[0];
                    taps.push((line * stride + column % stride) * columns + column / stride);
                }
            }
        }
        let micro: (fn(usize, usize) -> Function, usize) = match (Isa::planned(), geometry.block) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, 16) => (wide::pick, PIXELS_512),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, _) => (narrow::pick, PIXELS_256),
            _ => (portable::pick, PIXELS_256),
        };
        Ok(Self { geometry, finish, threads, band, rows, columns, taps, micro })
    }

    /// Returns the elements of one row of the padded input.
    fn line(&self) -> usize {
        self.columns * self.geometry.strides[1]
    }

    /// Returns the elements of the padded input of a band.
    fn room(&self) -> usize {
        self.geometry.channels * self.rows * self.line()
    }

    /// Copies the rows that a band reads, from padded row `first` on, to their positions in the padded input.
    ///
    /// # Safety
    /// Only this thread may use `space`, which must be large enough for a band.
    unsafe fn pad(&self, args: &Args<'_>, space: *mut f32, image: usize, first: usize) {
        let Geometry { channels, input: [height, width], pads: [top, left], strides, .. } = self.geometry;
        let stride = strides[1];
        for line in 0..channels * self.rows {
            let (channel, row) = (line / self.rows, first + line % self.rows);
            // SAFETY: the row is within the padded input and has this length.
            let target =
                unsafe { std::slice::from_raw_parts_mut(space.add(line * self.line()), self.line()) };
            if row < top || row >= top + height {
                target.fill(0.0);
                continue;
            }
            let plane = image * channels + channel;
            let source = Shared::<f32>::input(args, 0).at((plane * height + row - top) * width);
            // SAFETY: the row is within the input.
            let source = unsafe { std::slice::from_raw_parts(source, width) };
            if stride == 1 {
                target[..left].fill(0.0);
                target[left..left + width].copy_from_slice(source);
                target[left + width..].fill(0.0);
                continue;
            }
            for (phase, target) in target.chunks_exact_mut(self.columns).enumerate() {
                // The first column that is not padding, here and in the input.
                let first = left.saturating_sub(phase).div_ceil(stride).min(self.columns);
                let from = (first * stride + phase).saturating_sub(left).min(width);
                let count = (width - from).div_ceil(stride).min(self.columns - first);
                target[..first].fill(0.0);
                let taken = &mut target[first..first + count];
                if stride == 2 {
                    // With a constant stride the compiler generates vector code.
                    taken.iter_mut().zip(source[from..].chunks(2)).for_each(|(to, pair)| *to = pair[0]);
                } else {
                    taken.iter_mut().zip(source[from..].iter().step_by(stride)).for_each(|(to, x)| *to = *x);
                }
                target[first + count..].fill(0.0);
            }
        }
    }

    /// Computes some rows of one image.
    ///
    /// # Safety
    /// No other thread may write these rows, and `x` must be their padded input.
    unsafe fn band(&self, args: &Args<'_>, x: *const f32, image: usize, rows: std::ops::Range<usize>) {
        let geometry = &self.geometry;
        let (blocks, block) = (geometry.output_blocks(), geometry.block);
        let [oh, ow] = geometry.output;
        let tiles = ow.div_ceil(self.micro.1);
        for output in (0..blocks).step_by(BLOCKS) {
            for row in rows.clone() {
                for index in 0..tiles {
                    let (first, end) = (ow * index / tiles, ow * (index + 1) / tiles);
                    let at = (((image * blocks + output) * oh + row) * ow + first) * block;
                    let one = Tile {
                        x: x.wrapping_add((row - rows.start) * geometry.strides[0] * self.line() + first),
                        taps: &self.taps,
                        w: args.inputs[1].cast::<f32>().wrapping_add(output * self.taps.len() * block),
                        w_output: self.taps.len() * block,
                        bias: args.inputs[2].cast::<f32>().wrapping_add(output * block),
                        biases: geometry.outputs - output * block,
                        y: args.output.cast::<f32>().wrapping_add(at),
                        y_output: oh * ow * block,
                        residual: self.finish.residual.map_or(std::ptr::null(), |operand| {
                            args.inputs[operand].cast::<f32>().wrapping_add(at)
                        }),
                        low: self.finish.low,
                        high: self.finish.high,
                    };
                    // SAFETY: the tile is within this band, and the processor has the instruction set.
                    unsafe { (self.micro.0)(end - first, (blocks - output).min(BLOCKS))(&one) };
                }
            }
        }
        for output in 0..blocks {
            // SAFETY: the rows belong to this band.
            unsafe {
                self.finish.second_pass(args, geometry, image, output, rows.start * ow, rows.len() * ow)
            };
        }
    }
}

impl Kernel for First {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, strides, output: [oh, _], .. } = self.geometry;
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        let bands = oh.div_ceil(self.band);
        args.team.share(self.threads, batch * bands, |slot, task| {
            let (image, first) = (task / bands, task % bands * self.band);
            let (args, space) = (buffers.args(), space.at(slot * self.room()));
            // SAFETY: only this thread uses the scratch memory and these rows.
            unsafe {
                self.pad(args, space, image, first * strides[0]);
                self.band(args, space, image, first..(first + self.band).min(oh));
            }
        });
        self.finish.pad(args);
    }
}
