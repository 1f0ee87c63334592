//! `native.conv-narrow`: a convolution with groups of 2 or 4 channels, in blocks of channels.
//!
//! A block holds several groups. One permutation copies input channel `j` of every group to all lanes of that group,
//! so that one multiply-add serves all groups. With three kernel columns, the pixels that read the same input column
//! share its permutations. (For groups of 8 the weights of a kernel row no longer fit into registers, and the direct
//! kernel on widened groups was 1.4 times as fast.)

use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, tasks};
use crate::lanes::{Lanes, widened};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;

/// The number of pixels whose sums are kept in registers at the same time.
const PIXELS: usize = 8;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Ohwi16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Ohwi8o", "plain"], "nChw8c"),
    ]),
    check: Some(narrow_groups),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-narrow", "conv", contract, kernel)
};

fn narrow_groups(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let (x, w) = (types[0], types[1]);
    if ![2, 4].contains(&w.shape[1]) || w.shape[0] != x.shape[1] {
        return Err(OpError::kernel(format!(
            "the weights are {w} for the input {x}: groups of 2 or 4 channels with as many outputs are supported"
        )));
    }
    Ok(())
}

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Narrow::new(call) {
        Ok(_) => Ok(named("narrow", 0)),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Narrow::new(call) {
        Ok(narrow) => Ok(Box::new(narrow)),
        Err(_) => reference::kernel(call),
    }
}

struct Narrow {
    geometry: Geometry,
    finish: Finish,
    /// The number of channels in a group.
    width: usize,
    /// For each channel of a group, the lane that each lane reads.
    lanes: [[i32; 16]; 4],
}

impl Narrow {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        let width = call.inputs[1].shape[1];
        let mut lanes = [[0; 16]; 4];
        for (channel, lanes) in lanes.iter_mut().enumerate().take(width) {
            for (lane, from) in (0..).zip(lanes.iter_mut()) {
                let group: usize = lane / width * width;
                *from = i32::try_from(group + channel).unwrap_or(0);
            }
        }
        Ok(Self { geometry: Geometry::new(call)?, finish, width, lanes })
    }
}

/// Some rows of one block of channels. The pointers are those of the block.
struct Rows<'a> {
    geometry: &'a Geometry,
    width: usize,
    lanes: &'a [[i32; 16]; 4],
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
    /// The block's input, weights and output must be in bounds.
    unsafe fn rows(rows: &Rows<'_>) = rows_on of rows.geometry.block;
}

/// # Safety
/// As for [`rows`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    let geometry = rows.geometry;
    let shared = geometry.kernel[1] == 3 && geometry.dilations[1] == 1;
    for row in rows.first..rows.end {
        // SAFETY: as the caller promises.
        unsafe {
            match (rows.width, geometry.strides[1]) {
                (2, _) if !V::COMMON => one_row::<V, 2, 0>(rows, row),
                _ if !V::COMMON => one_row::<V, 4, 0>(rows, row),
                (2, 1) if shared => one_row::<V, 2, 1>(rows, row),
                (2, 2) if shared => one_row::<V, 2, 2>(rows, row),
                (4, 1) if shared => one_row::<V, 4, 1>(rows, row),
                (4, 2) if shared => one_row::<V, 4, 2>(rows, row),
                (2, _) => one_row::<V, 2, 0>(rows, row),
                _ => one_row::<V, 4, 0>(rows, row),
            }
        }
    }
}

/// Computes a row for groups of `W` channels. `S` is the stride if pixels share permutations, and 0 otherwise.
///
/// # Safety
/// As for [`rows_on`].
#[inline(always)]
unsafe fn one_row<V: Lanes, const W: usize, const S: usize>(rows: &Rows<'_>, row: usize) {
    let geometry = rows.geometry;
    let block = geometry.block;
    let width = geometry.input[1];
    let columns = geometry.output[1];
    let taken = geometry.rows(row);
    // SAFETY: rows and columns are clipped to the input.
    unsafe {
        let bias = V::load_first(rows.bias, rows.biases.min(block));
        let (low, high) = (V::splat(rows.low), V::splat(rows.high));
        let line = |tap: usize| {
            let at = row * geometry.strides[0] + tap * geometry.dilations[0] - geometry.pads[0];
            rows.x.add(at * width * block)
        };
        let weight = |r: usize, s: usize, j: usize| {
            V::load(rows.w.add(((r * geometry.kernel[1] + s) * W + j) * block))
        };
        let mut column = 0;
        while column < columns {
            let mut sums = [bias; PIXELS];
            let mut count = 1;
            if S > 0 && column + PIXELS <= columns && geometry.inside(column, PIXELS) {
                count = PIXELS;
                for r in taken.clone() {
                    let from = line(r).add((column * S - geometry.pads[1]) * block);
                    let weights: [[V; W]; 3] =
                        std::array::from_fn(|s| std::array::from_fn(|j| weight(r, s, j)));
                    // The input columns are handled one after the other. They are written out so that the sums stay
                    // in registers.
                    macro_rules! column {
                        ($($c:literal)*) => { $(
                            if $c < (PIXELS - 1) * S + 3 {
                                let x = V::load(from.add($c * block));
                                for j in 0..W {
                                    let x = x.pick(&rows.lanes[j]);
                                    for (s, weights) in weights.iter().enumerate() {
                                        if $c >= s && ($c - s) % S.max(1) == 0 && ($c - s) / S.max(1) < PIXELS {
                                            let sum = &mut sums[($c - s) / S.max(1)];
                                            *sum = x.mul_add(weights[j], *sum);
                                        }
                                    }
                                }
                            }
                        )* };
                    }
                    column!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
                }
            } else {
                for r in taken.clone() {
                    for s in 0..geometry.kernel[1] {
                        let at = column * geometry.strides[1] + s * geometry.dilations[1];
                        if at >= geometry.pads[1] && at - geometry.pads[1] < width {
                            let x = V::load(line(r).add((at - geometry.pads[1]) * block));
                            for j in 0..W {
                                sums[0] = x.pick(&rows.lanes[j]).mul_add(weight(r, s, j), sums[0]);
                            }
                        }
                    }
                }
            }
            for (pixel, sum) in sums.iter().enumerate().take(count) {
                let at = (row * columns + column + pixel) * block;
                let sum =
                    if rows.residual.is_null() { *sum } else { sum.add(V::load(rows.residual.add(at))) };
                high.min(low.max(sum)).store(rows.y.add(at));
            }
            column += count;
        }
    }
}

impl Kernel for Narrow {
    unsafe fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let (blocks, block) = (geometry.output_blocks(), geometry.block);
        let [height, width] = geometry.input;
        let [oh, ow] = geometry.output;
        let taps = geometry.kernel[0] * geometry.kernel[1] * self.width;
        let planes = geometry.batch * blocks;
        let wanted = tasks(planes * oh * ow * block * taps / 8, planes * oh, args.team.threads());
        // Tasks are whole planes if there are enough of them, and bands of rows otherwise.
        let bands = wanted.div_ceil(planes.max(1)).clamp(1, oh.max(1));
        let buffers = Buffers::new(args);
        args.team.run(planes * bands, |task| {
            let args = buffers.args();
            let (plane, band) = (task / bands, task % bands);
            let index = plane % blocks;
            let (first, end) = (oh * band / bands, oh * (band + 1) / bands);
            let at = plane * oh * ow * block;
            let one = Rows {
                geometry,
                width: self.width,
                lanes: &self.lanes,
                x: args.inputs[0].cast::<f32>().wrapping_add(plane * height * width * block),
                w: args.inputs[1].cast::<f32>().wrapping_add(index * taps * block),
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
            // SAFETY: the rows are in bounds, and no other task uses them.
            unsafe {
                rows(&one);
                self.finish.second_pass(
                    args,
                    geometry,
                    plane / blocks,
                    index,
                    first * ow,
                    (end - first) * ow,
                );
            }
        });
        self.finish.pad(args);
    }
}
