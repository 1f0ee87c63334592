//! Tiles of a direct convolution: some pixels of a row by some blocks of output channels.

use crate::lanes::{Isa, Lanes};
use crate::prefetch::Prefetch;

/// The number of pixels in a tile of 1, 2 or 3 blocks, such that the sums, the weights and the value of a pixel fit
/// into 32 registers.
const PIXELS_512: [usize; 3] = [14, 14, 9];
/// The same for 16 registers. The processor waits for no result where there are eight sums or more. Four pixels of
/// three blocks would leave no register free, and the compiler keeps some of their sums in memory.
const PIXELS_256: [usize; 3] = [10, 6, 3];
/// The same for vectors that are two registers each, of 16 or 32.
const PIXELS_PORTABLE: [usize; 3] = [6, 3, 2];

/// One tile. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The input at the first pixel, kernel row 0 and kernel column 0. The address may be in the padding.
    pub x: *const f32,
    /// The distances between pixels, blocks of input channels, kernel rows and kernel columns.
    pub x_pixel: usize,
    pub x_block: usize,
    pub x_row: usize,
    pub x_column: usize,
    /// The weights of the first output block for the first input block.
    pub w: *const f32,
    /// The distances between blocks of output channels and of input channels, kernel rows and kernel columns in the
    /// weights.
    pub w_output: usize,
    pub w_block: usize,
    pub w_row: isize,
    pub w_column: isize,
    /// The ranges of kernel rows and columns in use.
    pub rows: (usize, usize),
    pub taps: (usize, usize),
    /// The number of blocks of input channels.
    pub blocks: usize,
    /// The lanes that are multiplied in an input block, and in the last one.
    pub depth: usize,
    pub tail: usize,
    pub y: *mut f32,
    /// The distances between blocks of output channels and between pixels in the result.
    pub y_output: usize,
    pub y_pixel: usize,
    /// The bias of the first output channel, and the number of output channels from there on, without padding. If it
    /// is null, the tile adds to the sums in `y`.
    pub bias: *const f32,
    pub biases: usize,
    /// Whether the sums are complete, so that the residual and the bounds are applied.
    pub last: bool,
    /// The operand that is added, at the same offset as `y`; null for none.
    pub residual: *const f32,
    pub low: f32,
    pub high: f32,
    /// For tiles at the edge: the input column of the first pixel at kernel column 0, the distances between pixels
    /// and between kernel columns, and the number of columns of the input.
    pub column: isize,
    pub stride: usize,
    pub dilation: usize,
    pub columns: usize,
    /// Weights that a later tile will read.
    pub ahead: Prefetch,
}

/// Computes a tile. The second argument says whether pixels may be in the padding.
type Function = unsafe fn(&Tile, bool);

/// Where the pixels of a tile lie in the input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Side by side, none of them in the padding under any kernel column in use.
    Adjacent,
    /// At the distance `x_pixel`, none of them in the padding.
    Apart,
    /// At the distance `x_pixel`, or in the padding.
    Edge,
}

/// The values that a pixel in the padding reads.
static ZEROS: [f32; 16] = [0.0; 16];

/// The tile functions of one instruction set.
pub(super) struct Micro {
    /// Selects a function by the number of blocks, the number of pixels, and whether these are adjacent.
    function: fn(usize, usize, bool) -> Function,
    pixels: [usize; 3],
}

/// Returns the functions for blocks of `block` channels.
pub(super) fn micro(block: usize) -> Micro {
    match (Isa::planned(), block) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 16) => Micro { function: x86::avx512, pixels: PIXELS_512 },
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512 | Isa::Avx2, _) => Micro { function: x86::avx2, pixels: PIXELS_256 },
        _ => Micro { function: portable_function, pixels: PIXELS_PORTABLE },
    }
}

impl Micro {
    /// Returns the largest number of pixels in a tile of `blocks` blocks.
    pub fn pixels(&self, blocks: usize) -> usize {
        self.pixels[blocks - 1]
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// All memory that the tile reads and writes must be in bounds, and its pixels must lie as `place` says.
    pub unsafe fn run(&self, tile: &Tile, blocks: usize, pixels: usize, place: Place) {
        // SAFETY: as the caller promises; the processor has the instruction set.
        unsafe { (self.function)(blocks, pixels, place == Place::Adjacent)(tile, place == Place::Edge) }
    }
}

/// # Safety
/// As for [`Micro::run`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn tile<V: Lanes, const P: usize, const O: usize, const ADJACENT: bool>(tile: &Tile, edge: bool) {
    let width = V::COUNT;
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[V::splat(0.0); O]; P];
        if tile.bias.is_null() {
            for (pixel, sums) in sums.iter_mut().enumerate() {
                for (output, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(tile.y.add(output * tile.y_output + pixel * tile.y_pixel));
                }
            }
        } else {
            for output in 0..O {
                let left = tile.biases.saturating_sub(output * width).min(width);
                let bias = V::load_first(tile.bias.wrapping_add(output * width), left);
                sums.iter_mut().for_each(|sums| sums[output] = bias);
            }
        }
        let (first, end) = tile.rows;
        let (left, right) = tile.taps;
        let ahead = tile.ahead.over(tile.blocks * (end - first) * (right - left) * tile.depth);
        let mut step = 0;
        for block in 0..tile.blocks {
            let depth = if block + 1 == tile.blocks { tile.tail } else { tile.depth };
            for row in first..end {
                for tap in left..right {
                    let x =
                        tile.x.wrapping_add(block * tile.x_block + row * tile.x_row + tap * tile.x_column);
                    // The addresses are kept in memory, because there are more of them than registers. Those of
                    // adjacent pixels are at fixed distances from one address.
                    let mut pixels: [_; P] =
                        std::array::from_fn(|pixel| x.wrapping_add(pixel * tile.x_pixel));
                    if edge {
                        let column = tile.column + (tap * tile.dilation).cast_signed();
                        for (pixel, from) in pixels.iter_mut().enumerate() {
                            let column = column + (pixel * tile.stride).cast_signed();
                            if column < 0 || column.cast_unsigned() >= tile.columns {
                                *from = ZEROS.as_ptr();
                            }
                        }
                    }
                    let w = tile
                        .w
                        .wrapping_add(block * tile.w_block)
                        .wrapping_offset(row.cast_signed() * tile.w_row + tap.cast_signed() * tile.w_column);
                    // Vectors of eight need twice as many instructions as vectors of 16, so that requests at each step
                    // would take the place of multiplications in the cycles.
                    if width < 16 {
                        ahead.fetch_steps(step, depth);
                    }
                    for lane in 0..depth {
                        if width >= 16 {
                            ahead.fetch(step + lane);
                        }
                        let mut weights = [V::splat(0.0); O];
                        for (output, weight) in weights.iter_mut().enumerate() {
                            *weight = V::load(w.add(output * tile.w_output + lane * width));
                        }
                        for (pixel, sums) in sums.iter_mut().enumerate() {
                            let from = if ADJACENT { x.add(pixel * width) } else { pixels[pixel] };
                            let value = V::splat(*from.add(lane));
                            for (sum, weight) in sums.iter_mut().zip(weights) {
                                *sum = value.mul_add(weight, *sum);
                            }
                        }
                    }
                    step += depth;
                }
            }
        }
        // Weights of padded outputs are zero, and so are their sums, unless an input is not finite. They are set to zero
        // without a branch, because with one the compiler keeps all sums in memory; AVX-512 does it in the last step.
        let outputs = tile.biases.saturating_sub((O - 1) * width).min(width);
        let (low, high) = (V::splat(tile.low), V::splat(tile.high));
        for (pixel, sums) in sums.iter().enumerate() {
            for (output, sum) in sums.iter().enumerate() {
                let at = output * tile.y_output + pixel * tile.y_pixel;
                let mut sum = *sum;
                if tile.last {
                    if !tile.residual.is_null() {
                        sum = sum.add(V::load(tile.residual.add(at)));
                    }
                    sum = high.min(low.max(sum));
                    if output == O - 1 {
                        sum = sum.keep_first(outputs);
                    }
                }
                sum.store(tile.y.add(at));
            }
        }
    }
}

/// Generates the selection of a tile function by blocks, pixels, and whether these are adjacent. The functions for
/// adjacent pixels have the parameter `$near`.
macro_rules! table {
    ($wrap:ident, $near:literal, $blocks:expr, $pixels:expr, $adjacent:expr, [$($o:literal: [$($p:literal),*]),*]) => {
        match ($blocks, $pixels, $adjacent) {
            $($(
                ($o, $p, true) => $wrap::<$p, $o, $near>,
                ($o, $p, false) => $wrap::<$p, $o, false>,
            )*)*
            _ => unreachable!("a tile has 1 to 3 blocks and a supported number of pixels"),
        }
    };
}

/// # Safety
/// As for [`Micro::run`].
unsafe fn portable<const P: usize, const O: usize, const ADJACENT: bool>(one: &Tile, edge: bool) {
    // SAFETY: as the caller promises.
    unsafe { tile::<[f32; 8], P, O, ADJACENT>(one, edge) }
}

fn portable_function(blocks: usize, pixels: usize, adjacent: bool) -> Function {
    table!(portable, false, blocks, pixels, adjacent, [
        1: [1, 2, 3, 4, 5, 6],
        2: [1, 2, 3],
        3: [1, 2]
    ])
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Function, Tile, tile};
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// As for [`super::Micro::run`]; the processor must have AVX-512F.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    unsafe fn wide<const P: usize, const O: usize, const ADJACENT: bool>(one: &Tile, edge: bool) {
        // SAFETY: as the caller promises.
        unsafe { tile::<__m512, P, O, ADJACENT>(one, edge) }
    }

    /// # Safety
    /// As for [`super::Micro::run`]; the processor must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn narrow<const P: usize, const O: usize, const ADJACENT: bool>(one: &Tile, edge: bool) {
        // SAFETY: as the caller promises.
        unsafe { tile::<__m256, P, O, ADJACENT>(one, edge) }
    }

    pub(super) fn avx512(blocks: usize, pixels: usize, adjacent: bool) -> Function {
        table!(wide, false, blocks, pixels, adjacent, [
            1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            2: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            3: [1, 2, 3, 4, 5, 6, 7, 8, 9]
        ])
    }

    pub(super) fn avx2(blocks: usize, pixels: usize, adjacent: bool) -> Function {
        table!(narrow, true, blocks, pixels, adjacent, [
            1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            2: [1, 2, 3, 4, 5, 6],
            3: [1, 2, 3]
        ])
    }
}
