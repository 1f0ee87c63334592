//! `native.conv-depthwise`: each channel with a filter of its own, in blocks of channels.

use super::{Finish, Geometry, contract as named};
use crate::backend::native::args::{Buffers, tasks};
use crate::backend::native::lanes::{Lanes, widened};
use crate::backend::native::reference;
use crate::backend::{Args, Call, Contract, Kernel};

/// Pixels whose sums are in registers at one time.
const PIXELS: usize = 8;

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
/// As [`rows`]; the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    let block = rows.geometry.block;
    for part in (0..block).step_by(V::COUNT) {
        for row in rows.first..rows.end {
            // SAFETY: as the caller promises.
            unsafe { one_row::<V>(rows, row, part) };
        }
    }
}

/// # Safety
/// As [`rows_on`].
#[inline(always)]
unsafe fn one_row<V: Lanes>(rows: &Rows<'_>, row: usize, part: usize) {
    let geometry = rows.geometry;
    let block = geometry.block;
    let width = geometry.input[1];
    let columns = geometry.output[1];
    let taken = geometry.rows(row);
    let step = geometry.strides[1] * block;
    // SAFETY: rows and columns are clipped to the input; lanes to the block.
    unsafe {
        let left = rows.biases.saturating_sub(part).min(V::COUNT);
        let bias = V::load_first(rows.bias.wrapping_add(part), left);
        let (low, high) = (V::splat(rows.low), V::splat(rows.high));
        let finish = |sum: V, column: usize| {
            let at = (row * columns + column) * block + part;
            let sum = if rows.residual.is_null() { sum } else { sum.add(V::load(rows.residual.add(at))) };
            high.min(low.max(sum)).store(rows.y.add(at));
        };
        let line = |tap: usize| {
            let at = row * geometry.strides[0] + tap * geometry.dilations[0] - geometry.pads[0];
            rows.x.add(at * width * block + part)
        };
        let weight = |r: usize, s: usize| V::load(rows.w.add((r * geometry.kernel[1] + s) * block + part));
        let mut column = 0;
        while column < columns {
            if column + PIXELS <= columns && geometry.inside(column, PIXELS) {
                let mut sums = [bias; PIXELS];
                for r in taken.clone() {
                    let line = line(r);
                    for s in 0..geometry.kernel[1] {
                        let weight = weight(r, s);
                        let at = column * geometry.strides[1] + s * geometry.dilations[1] - geometry.pads[1];
                        let from = line.add(at * block);
                        for (pixel, sum) in sums.iter_mut().enumerate() {
                            *sum = V::load(from.add(pixel * step)).mul_add(weight, *sum);
                        }
                    }
                }
                for (pixel, sum) in sums.iter().enumerate() {
                    finish(*sum, column + pixel);
                }
                column += PIXELS;
                continue;
            }
            let mut sum = bias;
            for r in taken.clone() {
                for s in 0..geometry.kernel[1] {
                    let at = column * geometry.strides[1] + s * geometry.dilations[1];
                    if at >= geometry.pads[1] && at - geometry.pads[1] < width {
                        sum =
                            V::load(line(r).add((at - geometry.pads[1]) * block)).mul_add(weight(r, s), sum);
                    }
                }
            }
            finish(sum, column);
            column += 1;
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
        let wanted = tasks(work, planes * oh, args.team.threads());
        // Whole planes where there are enough of them, else bands of rows.
        let bands = wanted.div_ceil(planes.max(1)).clamp(1, oh.max(1));
        let buffers = Buffers::new(args);
        let run = |task: usize| {
            let args = buffers.args();
            let (plane, band) = (task / bands, task % bands);
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
