//! `native.conv-integer`: the windows of some pixels are gathered as rows, and multiplied by the rows of the weights.

use super::wide;
use crate::args::{Buffers, Shared, part};
use crate::lanes::Isa;
use crate::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The op.
pub(super) const OP: Lowering = Lowering::new("native.conv-integer", "conv-integer", contract, kernel);

/// The pixels of a task.
const PIXELS: usize = 32;
/// Rows have a multiple of this number of elements.
const UNIT: usize = 16;

struct Convolution {
    /// Images, channels, rows and columns.
    image: [usize; 4],
    /// Outputs, channels of a group, rows and columns.
    window: [usize; 4],
    /// Rows and columns of the result.
    pixels: [usize; 2],
    groups: usize,
    strides: [isize; 2],
    dilations: [isize; 2],
    begin: [isize; 2],
    by_output: bool,
    signed: [bool; 2],
    threads: usize,
}

impl Convolution {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, w, _, q] = call.inputs else { return None };
        let two = |name: &str| -> Option<[isize; 2]> {
            let list = call.attrs.expect_ints(name);
            Some([isize::try_from(list[0]).ok()?, isize::try_from(list[1]).ok()?])
        };
        Some(Self {
            image: x.shape[..].try_into().ok()?,
            window: w.shape[..].try_into().ok()?,
            pixels: call.output.shape[2..].try_into().ok()?,
            groups: usize::try_from(call.attrs.expect_int("groups")).ok()?,
            strides: two("strides")?,
            dilations: two("dilations")?,
            begin: two("pads")?,
            by_output: q.shape.count() > 1,
            signed: [x.dtype == DType::I8, w.dtype == DType::I8],
            threads: call.threads,
        })
    }

    fn depth(&self) -> usize {
        self.window[1..].iter().product()
    }

    fn padded(&self) -> usize {
        self.depth().next_multiple_of(UNIT)
    }

    /// Returns the scratch elements: the weights, and the windows of each thread.
    fn scratch(&self) -> usize {
        (self.window[0] + self.threads * PIXELS) * self.padded()
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(convolution) = Convolution::new(call) else { return reference::contract(call) };
    Ok(Contract { scratch: convolution.scratch() * size_of::<i16>(), ..plain_contract("pairs") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Convolution::new(call) {
        Some(convolution) => Ok(Box::new(convolution)),
        None => reference::kernel(call),
    }
}

impl Kernel for Convolution {
    unsafe fn run(&self, args: &Args<'_>) {
        let [w, q] = [1, 3].map(|at| Shared::<u8>::input(args, at));
        let (depth, padded) = (self.depth(), self.padded());
        let weights = Shared::<i16>::scratch(args);
        let outputs = self.window[0];
        let parts = args.team.threads().min(outputs);
        args.team.run(parts, |index| {
            for output in part(outputs, parts, index, 1) {
                // SAFETY: the row is in bounds, and only this task writes it.
                unsafe {
                    let point = wide(*q.at(if self.by_output { output } else { 0 }), self.signed[1]);
                    let from = std::slice::from_raw_parts(w.at(output * depth), depth);
                    let to = std::slice::from_raw_parts_mut(weights.at(output * padded), padded);
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = wide(*from, self.signed[1]) - point;
                    }
                    to[depth..].fill(0);
                }
            }
        });
        let area = self.pixels[0] * self.pixels[1];
        let blocks = area.div_ceil(PIXELS);
        let tasks = self.image[0] * self.groups * blocks;
        let buffers = Buffers::new(args);
        args.team.share(self.threads, tasks, |slot, task| {
            let (plane, block) = (task / blocks, task % blocks);
            let first = block * PIXELS;
            let windows = weights.at((outputs + slot * PIXELS) * padded);
            let of_group = outputs / self.groups;
            let group = plane % self.groups;
            // SAFETY: the windows are in the scratch memory of the slot, and only this task writes these pixels.
            unsafe {
                let count = PIXELS.min(area - first);
                for pixel in 0..count {
                    let to = std::slice::from_raw_parts_mut(windows.add(pixel * padded), padded);
                    self.gather(buffers.args(), plane, first + pixel, to);
                }
                for output in 0..of_group {
                    let row = weights.at((group * of_group + output) * padded).cast_const();
                    let place = (plane / self.groups * outputs + group * of_group + output) * area + first;
                    let to = Shared::<i32>::output(buffers.args()).at(place);
                    products(row, windows.cast_const(), padded, count, to);
                }
            }
        });
    }
}

impl Convolution {
    /// Copies the window of a pixel, minus the zero point.
    unsafe fn gather(&self, args: &Args<'_>, plane: usize, pixel: usize, to: &mut [i16]) {
        let [_, channels, height, width] = self.image;
        let [_, depth, rows, columns] = self.window;
        let (image, group) = (plane / self.groups, plane % self.groups);
        // SAFETY: the operand has one element.
        let point = wide(unsafe { *Shared::<u8>::input(args, 2).at(0) }, self.signed[0]);
        let place = [pixel / self.pixels[1], pixel % self.pixels[1]];
        let at = |axis: usize, step: usize| {
            place[axis].cast_signed() * self.strides[axis] - self.begin[axis]
                + step.cast_signed() * self.dilations[axis]
        };
        let mut index = 0;
        for channel in 0..depth {
            let from = Shared::<u8>::input(args, 0)
                .at((image * channels + group * depth + channel) * height * width);
            for row in 0..rows {
                let y = at(0, row);
                for column in 0..columns {
                    let x = at(1, column);
                    let inside =
                        (0..height.cast_signed()).contains(&y) && (0..width.cast_signed()).contains(&x);
                    to[index] = if inside {
                        // SAFETY: the pixel is in the image.
                        let byte = unsafe { *from.offset(y * width.cast_signed() + x) };
                        wide(byte, self.signed[0]) - point
                    } else {
                        0
                    };
                    index += 1;
                }
            }
        }
        to[index..].fill(0);
    }
}

/// Multiplies a row of weights by some windows.
///
/// # Safety
/// All elements must be in bounds.
unsafe fn products(row: *const i16, windows: *const i16, depth: usize, count: usize, to: *mut i32) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(row: *const i16, windows: *const i16, depth: usize, count: usize, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { body(row, windows, depth, count, to) }
    }
    // SAFETY: as the caller promises, and the processor has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            return avx2(row, windows, depth, count, to);
        }
        body(row, windows, depth, count, to);
    }
}

#[inline(always)]
unsafe fn body(row: *const i16, windows: *const i16, depth: usize, count: usize, to: *mut i32) {
    for pixel in 0..count {
        // SAFETY: as the caller promises.
        let (row, window) = unsafe {
            (
                std::slice::from_raw_parts(row, depth),
                std::slice::from_raw_parts(windows.add(pixel * depth), depth),
            )
        };
        // Written so that the compiler multiplies in pairs.
        let mut sums = [0_i32; 8];
        for (row, window) in row.chunks_exact(16).zip(window.chunks_exact(16)) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let (a, b) = (2 * lane, 2 * lane + 1);
                *sum = sum.wrapping_add(
                    i32::from(row[a]) * i32::from(window[a]) + i32::from(row[b]) * i32::from(window[b]),
                );
            }
        }
        // SAFETY: as the caller promises.
        unsafe { *to.add(pixel) = sums.iter().fold(0, |sum, one| sum.wrapping_add(*one)) };
    }
}
