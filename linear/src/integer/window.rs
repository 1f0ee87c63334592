//! `native.conv-integer-packed`: a convolution with weights that were packed into panels of 16 outputs.
//!
//! The images are copied once, with the channels of a pixel beside each other and padding around them. The windows of a
//! band of pixels are then the rows of a product; those of one pixel are rows already. Signs and zero points are treated
//! as in `native.matmul-integer-packed`: where the image is padded, the copy holds the zero point of the image, so that
//! padding is zero after it is subtracted.

use super::bands::{BAND, Bands};
use super::geometry::Geometry;
use super::pair::{PAIR_COLUMNS, PAIR_ROWS};
use super::pixels::{BLOCK as PIXELS, Pixels};
use super::prepared::{Weights, depth, pair_columns, room, width};
use super::quad::COLUMNS;
use super::sums::Sums;
use crate::args::{Shared, part};
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;
use std::ops::Range;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["plain", "AcdB16a4b", "plain", "plain"], "plain")]),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-integer-packed", "conv-integer", contract, kernel)
};

/// The tasks for each thread, if there are enough.
const TASKS: usize = 4;
/// Scratch memory is divided at multiples of this number of bytes.
const ALIGNMENT: usize = 64;

struct Convolution {
    geometry: Geometry,
    by_output: bool,
    signed: [bool; 2],
    threads: usize,
}

impl Convolution {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, w, p, q] = call.inputs else { return None };
        let fits = w.shape.rank() == 4
            && w.layout.blocks() == [(0, COLUMNS), (1, 4)]
            && w.layout.order(4) == [0, 2, 3, 1]
            && [x, p, q].iter().all(|ty| ty.layout.is_plain())
            && call.attrs.expect_int("groups") == 1;
        Some(Self {
            geometry: Geometry::new(call.attrs, &x.shape, &w.shape, &call.output.shape).filter(|_| fits)?,
            by_output: q.shape.count() > 1,
            signed: [x.dtype == DType::I8, w.dtype == DType::I8],
            threads: call.threads.max(1),
        })
    }

    /// Returns the distance between pixels that are copied.
    fn steps(&self) -> [usize; 2] {
        if self.geometry.is_pointwise() { self.geometry.strides } else { [1, 1] }
    }

    /// Returns the rows and columns of the copy of an image.
    fn copied(&self) -> [usize; 2] {
        let one = &self.geometry;
        if one.is_pointwise() {
            return one.pixels;
        }
        [0, 1].map(|axis| {
            (one.pixels[axis] - 1) * one.strides[axis] + (one.window[axis] - 1) * one.dilations[axis] + 1
        })
    }

    fn places(&self) -> Places {
        let ([rows, columns], depth) = (self.copied(), depth(&self.geometry));
        let windows = if self.geometry.is_pointwise() { 0 } else { BAND * depth };
        let of_panel = room(&self.geometry);
        let mut end = 0;
        let mut take = |bytes: usize| {
            let place = end;
            end = (end + bytes).next_multiple_of(ALIGNMENT);
            place
        };
        Places {
            copy: take(self.geometry.images * rows * columns * width(&self.geometry)),
            windows: take(self.threads * windows),
            panels: take(self.threads * 2 * of_panel),
            of_windows: windows,
            of_panel,
            end,
        }
    }
}

/// Where things lie in the scratch memory, in bytes.
struct Places {
    /// The copies of all images.
    copy: usize,
    /// The windows of a band, for each thread.
    windows: usize,
    /// Two prepared panels for each thread.
    panels: usize,
    of_windows: usize,
    of_panel: usize,
    end: usize,
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(convolution) = Convolution::new(call) else { return reference::contract(call) };
    Ok(Contract { scratch: convolution.places().end, ..plain_contract("panels") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Convolution::new(call) {
        Some(convolution) => Ok(Box::new(convolution)),
        None => reference::kernel(call),
    }
}

impl Kernel for Convolution {
    unsafe fn run(&self, args: &Args<'_>) {
        let places = self.places();
        let scratch = Shared::<u8>::scratch(args);
        let flip = if self.signed[0] { 128 } else { 0 };
        // SAFETY: the operand has one element.
        let point = unsafe { *Shared::<u8>::input(args, 2).at(0) } ^ flip;
        let copy = Shared::<u8>::new(scratch.at(places.copy));
        let rows = self.geometry.images * self.copied()[0];
        let image = Shared::<u8>::input(args, 0);
        // Rows of pixels that are all copied are adjacent, and need no treatment of their own.
        let (count, unit) =
            if self.geometry.is_whole() { (rows * self.geometry.pixels[1], PIXELS) } else { (rows, 1) };
        let parts = count.div_ceil(unit).min(TASKS * args.team.threads());
        args.team.run(parts, |index| {
            let part = part(count, parts, index, unit);
            // SAFETY: only this task writes these pixels of the copy.
            unsafe {
                if self.geometry.is_whole() {
                    self.copy_pixels(image.at(0), part, flip, copy.at(0));
                } else {
                    part.for_each(|row| self.copy_row(image.at(0), row, (flip, point), copy.at(0)));
                }
            }
        });
        let bands = Bands::new(self.geometry.area());
        let pairs = self.geometry.outputs.div_ceil(2 * COLUMNS);
        // Where there are few bands, the outputs are divided as well.
        let wanted = TASKS * args.team.threads();
        let parts = wanted.div_ceil(self.geometry.images * bands.count).clamp(1, pairs);
        let operands = [1, 3].map(|at| Shared::<u8>::input(args, at));
        let output = Shared::<i32>::output(args);
        args.team.share(self.threads, self.geometry.images * bands.count * parts, |slot, task| {
            let (band, pairs) = (task / parts, part(pairs, parts, task % parts, 1));
            let pixels = bands.range(band % bands.count);
            let one = Band {
                convolution: self,
                copy: copy.at(0),
                windows: scratch.at(places.windows + slot * places.of_windows),
                panels: [0, 1].map(|at| scratch.at(places.panels + (2 * slot + at) * places.of_panel)),
                weights: Weights {
                    panels: operands[0].at(0),
                    points: operands[1].at(0),
                    by_output: self.by_output,
                    signed: self.signed[1],
                    image_point: i32::from(point),
                },
                output: output.at(0),
                image: band / bands.count,
                first: pixels.start,
                count: pixels.len(),
            };
            // SAFETY: only this thread uses its part of the scratch memory, and only this task writes these outputs of
            // these pixels.
            unsafe { one.run(pairs) };
        });
    }
}

impl Convolution {
    /// Copies some pixels of all images, if all pixels are copied and there is no padding.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    unsafe fn copy_pixels(&self, images: *const u8, mut part: Range<usize>, flip: u8, copy: *mut u8) {
        let (area, width) = (self.geometry.pixels[0] * self.geometry.pixels[1], width(&self.geometry));
        while part.start < part.end {
            let (image, first) = (part.start / area, part.start % area);
            let count = (area - first).min(part.end - part.start);
            // SAFETY: the pixels are in the image and in the copy.
            unsafe {
                let from = images.add(image * self.geometry.channels * area + first);
                let pixels =
                    Pixels { from, plane: area, channels: self.geometry.channels, count, step: 1, flip };
                pixels.write(copy.add(part.start * width), width);
            }
            part.start += count;
        }
    }

    /// Copies a row of an image, with the zero point where the image is padded.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    unsafe fn copy_row(&self, images: *const u8, row: usize, (flip, point): (u8, u8), copy: *mut u8) {
        let ([rows, columns], steps, width) = (self.copied(), self.steps(), width(&self.geometry));
        let [height, across] = self.geometry.image;
        let (image, y) = (row / rows, (row % rows * steps[0]).checked_sub(self.geometry.begin[0]));
        // The pixels of the copy that lie in the image.
        let first = self.geometry.begin[1].div_ceil(steps[1]).min(columns);
        let end = (self.geometry.begin[1] + across).div_ceil(steps[1]).clamp(first, columns);
        let (first, end) = match y {
            Some(y) if y < height => (first, end),
            _ => (columns, columns),
        };
        // SAFETY: the pixels are in the image and in the copy.
        unsafe {
            let to = copy.add(row * columns * width);
            for pixel in (0..first).chain(end..columns) {
                let to = std::slice::from_raw_parts_mut(to.add(pixel * width), width);
                let (channels, rest) = to.split_at_mut(self.geometry.channels);
                channels.fill(point);
                rest.fill(0);
            }
            if let Some(y) = y
                && first < end
            {
                let plane = height * across;
                let x = first * steps[1] - self.geometry.begin[1];
                let pixels = Pixels {
                    from: images.add(image * self.geometry.channels * plane + y * across + x),
                    plane,
                    channels: self.geometry.channels,
                    count: end - first,
                    step: steps[1],
                    flip,
                };
                pixels.write(to.add(first * width), width);
            }
        }
    }
}

/// Some adjacent pixels of an image's result.
struct Band<'a> {
    convolution: &'a Convolution,
    copy: *const u8,
    windows: *mut u8,
    panels: [*mut u8; 2],
    weights: Weights,
    output: *mut i32,
    image: usize,
    /// The first pixel.
    first: usize,
    count: usize,
}

impl Band<'_> {
    /// Computes the outputs of some pairs of panels.
    ///
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self, pairs: Range<usize>) {
        let one = &self.convolution.geometry;
        let depth = depth(one);
        let [rows, columns] = self.convolution.copied();
        // SAFETY: as the caller promises.
        unsafe {
            let copy = self.copy.add(self.image * rows * columns * width(one));
            let rows = match one.is_pointwise() {
                true => copy.add(self.first * depth),
                false => {
                    for at in 0..self.count {
                        self.gather(copy, self.first + at, self.windows.add(at * depth));
                    }
                    self.windows.cast_const()
                }
            };
            for pair in pairs {
                self.pair(rows, pair);
            }
        }
    }

    /// Copies the window of a pixel.
    unsafe fn gather(&self, copy: *const u8, pixel: usize, mut to: *mut u8) {
        let one = &self.convolution.geometry;
        let (columns, width) = (self.convolution.copied()[1], width(one));
        let (y, x) = (pixel / one.pixels[1] * one.strides[0], pixel % one.pixels[1] * one.strides[1]);
        // Elements of a window that are next to each other in the copy are copied together.
        let (pieces, size) = match one.dilations[1] {
            1 => (1, one.window[1] * width),
            _ => (one.window[1], width),
        };
        for row in 0..one.window[0] {
            for piece in 0..pieces {
                // SAFETY: the window is in the copy.
                unsafe {
                    let place = (y + row * one.dilations[0]) * columns + x + piece * one.dilations[1];
                    std::ptr::copy_nonoverlapping(copy.add(place * width), to, size);
                    to = to.add(size);
                }
            }
        }
    }

    /// Multiplies the rows of the band by a pair of panels.
    unsafe fn pair(&self, rows: *const u8, pair: usize) {
        let one = &self.convolution.geometry;
        let (depth, area) = (depth(one), one.area());
        let columns = pair_columns(one.outputs, pair);
        // SAFETY: as the caller of `run` promises.
        unsafe {
            let mut prepared = self.weights.pair(one, pair, false, self.panels);
            let mut sums = [[0; PAIR_COLUMNS]; PAIR_ROWS];
            // Whole products, whose sums are transposed in registers.
            for start in (0..self.count).step_by(PAIR_ROWS) {
                let count = PAIR_ROWS.min(self.count - start);
                prepared.products(rows.add(start * depth), depth, count, &mut sums);
                for (at, columns) in columns.into_iter().enumerate() {
                    let output = (2 * pair + at) * COLUMNS;
                    let to = (self.image * one.outputs + output) * area + self.first + start;
                    let sums = Sums { sums: &sums, first: at * COLUMNS, rows: count, columns };
                    sums.write(self.output.wrapping_add(to), area);
                }
            }
        }
    }
}
