//! `native.conv-depthwise`: each channel with a filter of its own, in blocks of channels.
//!
//! A row of the result is cut into tiles of as many pixels as have their sums in registers; the last one
//! reaches back over pixels that are done, rather than take few. Tiles at the edges ask of each pixel
//! whether it meets the input under a kernel column.

use super::{Finish, Geometry, contract as named};
use crate::backend::native::args::{Buffers, tasks};
use crate::backend::native::lanes::{Lanes, widened};
use crate::backend::native::reference;
use crate::backend::{Args, Call, Contract, Kernel};

/// Pixels of a tile, the most first: as many sums as keep the multipliers busy.
const TILES: [usize; 5] = [8, 7, 4, 2, 1];

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, String> {
    match Depthwise::new(call) {
        Ok(_) => Ok(named("depthwise", 0)),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
    match Depthwise::new(call) {
        Ok(depthwise) => Ok(Box::new(depthwise)),
        Err(_) => reference::kernel(call),
    }
}

struct Depthwise {
    geometry: Geometry,
    finish: Finish,
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Result<Self, String> {
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        Ok(Self { geometry: Geometry::new(call)?, finish })
    }
}

/// Some rows of one block of channels. Pointers are at the block.
struct Rows<'a> {
    geometry: &'a Geometry,
    x: *const f32,
    w: *const f32,
    bias: *const f32,
    biases: usize,
    y: *mut f32,
    residual: *const f32,
    low: f32,
    high: f32,
    first: usize,
    end: usize,
}

widened! {
    /// # Safety
    /// The block's input, weights and output are in bounds.
    unsafe fn rows(rows: &Rows<'_>) = rows_on of rows.geometry.block;
}

/// # Safety
/// As [`rows`]; the processor has the instruction set of `V`, which has as many lanes as a block.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    debug_assert_eq!(rows.geometry.block, V::COUNT);
    // SAFETY: as the caller promises.
    unsafe {
        match rows.geometry.strides[1] {
            1 => strided::<V, 1>(rows),
            2 => strided::<V, 2>(rows),
            _ => strided::<V, 0>(rows),
        }
    }
}

/// Rows whose pixels are `STRIDE` apart in the input, or any number for 0.
///
/// # Safety
/// As [`rows_on`].
#[inline(always)]
unsafe fn strided<V: Lanes, const STRIDE: usize>(rows: &Rows<'_>) {
    let columns = rows.geometry.output[1];
    let tile = tile_of(columns);
    for row in rows.first..rows.end {
        for column in (0..columns).step_by(tile) {
            let column = column.min(columns - tile);
            let inside = rows.geometry.inside(column, tile);
            // SAFETY: the tile is within the row.
            unsafe {
                match (tile, inside) {
                    (8, true) => pixels::<V, STRIDE, 8, true>(rows, row, column),
                    (8, false) => pixels::<V, STRIDE, 8, false>(rows, row, column),
                    (7, true) => pixels::<V, STRIDE, 7, true>(rows, row, column),
                    (7, false) => pixels::<V, STRIDE, 7, false>(rows, row, column),
                    (4, _) => pixels::<V, STRIDE, 4, false>(rows, row, column),
                    (2, _) => pixels::<V, STRIDE, 2, false>(rows, row, column),
                    _ => pixels::<V, STRIDE, 1, false>(rows, row, column),
                }
            }
        }
    }
}

/// The tile for rows of so many columns: one that divides them, if it is not much smaller than another.
fn tile_of(columns: usize) -> usize {
    let [most, next, ..] = TILES;
    if columns.is_multiple_of(next) && !columns.is_multiple_of(most) {
        return next;
    }
    TILES.into_iter().find(|tile| *tile <= columns).unwrap_or(1)
}

/// `T` pixels of a row, all of them `INSIDE` the input under every kernel column, or not.
///
/// # Safety
/// As [`rows_on`]; the pixels are within the row.
#[inline(always)]
unsafe fn pixels<V: Lanes, const STRIDE: usize, const T: usize, const INSIDE: bool>(
    rows: &Rows<'_>,
    row: usize,
    column: usize,
) {
    let geometry = rows.geometry;
    let Geometry { strides: [down, across], dilations, pads: [above, pad], .. } = *geometry;
    let stride = if STRIDE > 0 { STRIDE } else { across };
    let width = geometry.input[1];
    // SAFETY: rows and columns are clipped to the input; lanes to the block.
    unsafe {
        let mut sums = [V::load_first(rows.bias, rows.biases.min(V::COUNT)); T];
        for r in geometry.rows(row) {
            let line = rows.x.wrapping_add((row * down + r * dilations[0] - above) * width * V::COUNT);
            for s in 0..geometry.kernel[1] {
                let weight = V::load(rows.w.add((r * geometry.kernel[1] + s) * V::COUNT));
                // The first pixel's column, which may lie to the left of the input.
                let first = (column * stride + s * dilations[1]).wrapping_sub(pad);
                let from = line.wrapping_offset(first.cast_signed() * V::COUNT.cast_signed());
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    if INSIDE || first.wrapping_add(pixel * stride) < width {
                        *sum = V::load(from.wrapping_add(pixel * stride * V::COUNT)).mul_add(weight, *sum);
                    }
                }
            }
        }
        let (low, high) = (V::splat(rows.low), V::splat(rows.high));
        for (pixel, sum) in sums.into_iter().enumerate() {
            let at = (row * geometry.output[1] + column + pixel) * V::COUNT;
            let sum = if rows.residual.is_null() { sum } else { sum.add(V::load(rows.residual.add(at))) };
            high.min(low.max(sum)).store(rows.y.add(at));
        }
    }
}

impl Kernel for Depthwise {
    fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let (blocks, block) = (geometry.output_blocks(), geometry.block);
        let [height, width] = geometry.input;
        let [oh, ow] = geometry.output;
        let planes = geometry.batch * blocks;
        let work = planes * oh * ow * block * geometry.kernel[0] * geometry.kernel[1] / 8;
        let threads = args.team.threads();
        let wanted = tasks(work, planes * oh, threads);
        // Pointwise convolutions around it have mostly a sixth of the channels on their other side. Where
        // they go by pixels, a thread has a stretch of rows of every plane; else, whole planes.
        let by_pixels = 12 * oh * ow > geometry.outputs;
        let stretches = if by_pixels { threads.min(wanted).min(oh).max(1) } else { 1 };
        let bands = wanted.div_ceil(planes.max(1)).next_multiple_of(stretches).clamp(1, oh.max(1));
        let each = bands / stretches;
        let bands = each * stretches;
        let buffers = Buffers::new(args);
        let run = |task: usize| {
            let args = buffers.args();
            let (rest, piece) = (task / each, task % each);
            let (stretch, plane) = (rest / planes, rest % planes);
            let band = stretch * each + piece;
            let index = plane % blocks;
            let (first, end) = (oh * band / bands, oh * (band + 1) / bands);
            let at = plane * oh * ow * block;
            let one = Rows {
                geometry,
                x: args.inputs[0].cast::<f32>().wrapping_add(plane * height * width * block),
                w: args.inputs[1]
                    .cast::<f32>()
                    .wrapping_add(index * geometry.kernel[0] * geometry.kernel[1] * block),
                bias: args.inputs[2].cast::<f32>().wrapping_add(index * block),
                biases: geometry.outputs - index * block,
                y: args.output.cast::<f32>().wrapping_add(at),
                residual: self
                    .finish
                    .residual
                    .map_or(std::ptr::null(), |operand| args.inputs[operand].cast::<f32>().wrapping_add(at)),
                low: self.finish.low,
                high: self.finish.high,
                first,
                end,
            };
            // SAFETY: the rows are this task's alone and in bounds.
            unsafe {
                rows(&one);
                self.finish.second(args, geometry, plane / blocks, index, first * ow, (end - first) * ow);
            }
        };
        let total = planes * bands;
        let chunk = total.div_ceil(wanted.max(1)).max(1);
        args.team
            .run(total.div_ceil(chunk), |slot| (slot * chunk..((slot + 1) * chunk).min(total)).for_each(run));
        self.finish.pad(args);
    }
}
