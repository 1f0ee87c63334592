//! `native.conv-integer-packed`: a convolution with weights that were packed into panels of 16 outputs.
//!
//! The images are copied once, with the channels of a pixel beside each other and padding around them. The windows of a
//! band of pixels are then the rows of a product; those of one pixel are rows already. Signs and zero points are treated
//! as in `native.matmul-integer-packed`: where the image is padded, the copy holds the zero point of the image, so that
//! padding is zero after it is subtracted.

use super::pair::{PAIR_ROWS, Pair};
use super::pixels::{BLOCK as PIXELS, Pixels};
use super::quad::{COLUMNS, Facts, Panel, QUAD, prepare};
use super::turned::Turned;
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

/// The pixels of a task.
const BAND: usize = 64;
/// The tasks for each thread, if there are enough.
const TASKS: usize = 4;
/// Scratch memory is divided at multiples of this number of bytes.
const ALIGNMENT: usize = 64;

struct Convolution {
    images: usize,
    channels: usize,
    outputs: usize,
    /// Rows and columns of an image.
    image: [usize; 2],
    window: [usize; 2],
    /// Rows and columns of the result.
    pixels: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// Padding at the top and at the left.
    begin: [usize; 2],
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
            && call.attrs.expect_int("groups") == 1
            && call.output.shape.count() > 0;
        if !fits {
            return None;
        }
        let two = |name: &str| -> Option<[usize; 2]> {
            let list = call.attrs.expect_ints(name);
            Some([usize::try_from(list[0]).ok()?, usize::try_from(list[1]).ok()?])
        };
        Some(Self {
            images: x.shape[0],
            channels: x.shape[1],
            outputs: w.shape[0],
            image: [x.shape[2], x.shape[3]],
            window: [w.shape[2], w.shape[3]],
            pixels: [call.output.shape[2], call.output.shape[3]],
            strides: two("strides")?,
            dilations: two("dilations")?,
            begin: two("pads")?,
            by_output: q.shape.count() > 1,
            signed: [x.dtype == DType::I8, w.dtype == DType::I8],
            threads: call.threads.max(1),
        })
    }

    /// Returns whether windows are single pixels. Then only the pixels that they lie at are copied.
    fn is_pointwise(&self) -> bool {
        self.window == [1, 1]
    }

    /// Returns whether the copy has all pixels of an image, and no others.
    fn is_whole(&self) -> bool {
        self.is_pointwise() && self.strides == [1, 1] && self.begin == [0, 0] && self.pixels == self.image
    }

    /// Returns the distance between pixels that are copied.
    fn steps(&self) -> [usize; 2] {
        if self.is_pointwise() { self.strides } else { [1, 1] }
    }

    /// Returns the rows and columns of the copy of an image.
    fn copied(&self) -> [usize; 2] {
        if self.is_pointwise() {
            return self.pixels;
        }
        [0, 1].map(|axis| {
            (self.pixels[axis] - 1) * self.strides[axis] + (self.window[axis] - 1) * self.dilations[axis] + 1
        })
    }

    /// Returns the elements of a pixel in the copy.
    fn width(&self) -> usize {
        self.channels.next_multiple_of(4)
    }

    /// Returns the elements of a window.
    fn depth(&self) -> usize {
        self.window[0] * self.window[1] * self.width()
    }

    fn places(&self) -> Places {
        let [rows, columns] = self.copied();
        let windows = if self.is_pointwise() { 0 } else { BAND * self.depth() };
        let quads = self.depth() / 4;
        let mut end = 0;
        let mut take = |bytes: usize| {
            let place = end;
            end = (end + bytes).next_multiple_of(ALIGNMENT);
            place
        };
        Places {
            copy: take(self.images * rows * columns * self.width()),
            windows: take(self.threads * windows),
            panels: take(self.threads * 2 * quads * (Panel::WEIGHTS + Panel::RESTS)),
            of_windows: windows,
            of_panel: quads * (Panel::WEIGHTS + Panel::RESTS),
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
        let rows = self.images * self.copied()[0];
        let image = Shared::<u8>::input(args, 0);
        // Rows of pixels that are all copied are adjacent, and need no treatment of their own.
        let (count, unit) = if self.is_whole() { (rows * self.pixels[1], PIXELS) } else { (rows, 1) };
        let parts = count.div_ceil(unit).min(TASKS * args.team.threads());
        args.team.run(parts, |index| {
            let part = part(count, parts, index, unit);
            // SAFETY: only this task writes these pixels of the copy.
            unsafe {
                if self.is_whole() {
                    self.copy_pixels(image.at(0), part, flip, copy.at(0));
                } else {
                    part.for_each(|row| self.copy_row(image.at(0), row, (flip, point), copy.at(0)));
                }
            }
        });
        let bands = (self.pixels[0] * self.pixels[1]).div_ceil(BAND);
        let pairs = self.outputs.div_ceil(2 * COLUMNS);
        // Where there are few bands, the outputs are divided as well.
        let wanted = TASKS * args.team.threads();
        let parts = wanted.div_ceil(self.images * bands).clamp(1, pairs);
        let operands = [1, 3].map(|at| Shared::<u8>::input(args, at));
        let output = Shared::<i32>::output(args);
        args.team.share(self.threads, self.images * bands * parts, |slot, task| {
            let (band, pairs) = (task / parts, part(pairs, parts, task % parts, 1));
            let one = Band {
                convolution: self,
                copy: copy.at(0),
                windows: scratch.at(places.windows + slot * places.of_windows),
                panels: [0, 1].map(|at| scratch.at(places.panels + (2 * slot + at) * places.of_panel)),
                weights: operands[0].at(0),
                points: operands[1].at(0),
                point: i32::from(point),
                output: output.at(0),
                image: band / bands,
                first: band % bands * BAND,
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
        let (area, width) = (self.pixels[0] * self.pixels[1], self.width());
        while part.start < part.end {
            let (image, first) = (part.start / area, part.start % area);
            let count = (area - first).min(part.end - part.start);
            // SAFETY: the pixels are in the image and in the copy.
            unsafe {
                let from = images.add(image * self.channels * area + first);
                let pixels = Pixels { from, plane: area, channels: self.channels, count, step: 1, flip };
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
        let ([rows, columns], steps, width) = (self.copied(), self.steps(), self.width());
        let [height, across] = self.image;
        let (image, y) = (row / rows, (row % rows * steps[0]).checked_sub(self.begin[0]));
        // The pixels of the copy that lie in the image.
        let first = self.begin[1].div_ceil(steps[1]).min(columns);
        let end = (self.begin[1] + across).div_ceil(steps[1]).clamp(first, columns);
        let (first, end) = match y {
            Some(y) if y < height => (first, end),
            _ => (columns, columns),
        };
        // SAFETY: the pixels are in the image and in the copy.
        unsafe {
            let to = copy.add(row * columns * width);
            for pixel in (0..first).chain(end..columns) {
                let to = std::slice::from_raw_parts_mut(to.add(pixel * width), width);
                let (channels, rest) = to.split_at_mut(self.channels);
                channels.fill(point);
                rest.fill(0);
            }
            if let Some(y) = y
                && first < end
            {
                let plane = height * across;
                let x = first * steps[1] - self.begin[1];
                let pixels = Pixels {
                    from: images.add(image * self.channels * plane + y * across + x),
                    plane,
                    channels: self.channels,
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
    weights: *const u8,
    /// The zero points of the weights.
    points: *const u8,
    /// The zero point of the image.
    point: i32,
    output: *mut i32,
    image: usize,
    /// The first pixel.
    first: usize,
}

impl Band<'_> {
    /// Computes the outputs of some pairs of panels.
    ///
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self, pairs: Range<usize>) {
        let one = self.convolution;
        let area = one.pixels[0] * one.pixels[1];
        let (count, depth) = (BAND.min(area - self.first), one.depth());
        let [rows, columns] = one.copied();
        // SAFETY: as the caller promises.
        unsafe {
            let copy = self.copy.add(self.image * rows * columns * one.width());
            let rows = match one.is_pointwise() {
                true => copy.add(self.first * depth),
                false => {
                    (0..count)
                        .for_each(|at| self.gather(copy, self.first + at, self.windows.add(at * depth)));
                    self.windows.cast_const()
                }
            };
            for pair in pairs {
                self.pair(rows, count, pair);
            }
        }
    }

    /// Copies the window of a pixel.
    unsafe fn gather(&self, copy: *const u8, pixel: usize, mut to: *mut u8) {
        let one = self.convolution;
        let (columns, width) = (one.copied()[1], one.width());
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
    unsafe fn pair(&self, rows: *const u8, count: usize, pair: usize) {
        let one = self.convolution;
        let (depth, area) = (one.depth(), one.pixels[0] * one.pixels[1]);
        let quads = depth / 4;
        let outputs = [2 * pair * COLUMNS, (2 * pair + 1) * COLUMNS].map(|output| output.min(one.outputs));
        let columns = outputs.map(|output| COLUMNS.min(one.outputs - output));
        // SAFETY: as the caller of `run` promises.
        unsafe {
            let first = self.panel(0, outputs[0], columns[0]);
            let second = if columns[1] > 0 { self.panel(1, outputs[1], columns[1]) } else { first };
            for at in (0..count).step_by(PAIR_ROWS) {
                let product = Pair {
                    a: rows.add(at * depth),
                    stride: depth,
                    rows: PAIR_ROWS.min(count - at),
                    quads,
                    panels: [(first.panel, &first.facts), (second.panel, &second.facts)],
                };
                let mut sums = product.products();
                for ((sums, prepared), (output, columns)) in
                    sums.iter_mut().zip([&first, &second]).zip(outputs.into_iter().zip(columns))
                {
                    if columns == 0 {
                        continue;
                    }
                    prepared.add_points(sums, &product);
                    let to = self.output.add((self.image * one.outputs + output) * area + self.first + at);
                    Turned { sums, rows: product.rows, columns }.write(to, area);
                }
            }
        }
    }

    /// Prepares a panel.
    unsafe fn panel(&self, slot: usize, output: usize, columns: usize) -> Prepared {
        let one = self.convolution;
        let (depth, shift) = (one.depth(), if one.signed[1] { 0 } else { 128 });
        let quads = depth / 4;
        // SAFETY: the panel has weights of this depth, and the scratch memory has room for a prepared one.
        unsafe {
            let given = self.weights.add(output / COLUMNS * quads * QUAD);
            let rests = self.panels[slot].wrapping_add(quads * Panel::WEIGHTS).cast();
            let room = Panel { weights: self.panels[slot].cast(), rests };
            let facts = prepare(given, depth, shift, room);
            let mut points = [0; COLUMNS];
            for (at, point) in points[..columns].iter_mut().enumerate() {
                let own = if one.by_output { output + at } else { 0 };
                *point = i32::from((*self.points.add(own)).wrapping_add(shift).cast_signed());
            }
            // The weights that fill up a pixel are zero before the shift, and no part of the sums.
            let pixels = one.window[0] * one.window[1];
            let filling = pixels * (one.width() - one.channels) * usize::from(shift);
            let mut constants = [0_i32; COLUMNS];
            for ((constant, total), point) in constants.iter_mut().zip(facts.totals).zip(points) {
                let total = total.wrapping_add(filling as i32);
                let product = point.wrapping_mul((pixels * one.channels) as i32);
                *constant = self.point.wrapping_mul(product.wrapping_sub(total));
            }
            Prepared { panel: room.or_given(&facts, given), facts, points, constants }
        }
    }
}

/// A panel, and what zero points add to its products.
#[derive(Clone, Copy)]
struct Prepared {
    panel: Panel,
    facts: Facts,
    /// The zero point of each column.
    points: [i32; COLUMNS],
    /// What is added to all sums of a column.
    constants: [i32; COLUMNS],
}

impl Prepared {
    /// Adds the products with zero points to sums. The arithmetic is that of 32 bits throughout, which wraps.
    unsafe fn add_points(&self, sums: &mut [[i32; COLUMNS]; PAIR_ROWS], product: &Pair<'_>) {
        let centred = self.points == [0; COLUMNS];
        for (row, sums) in sums[..product.rows].iter_mut().enumerate() {
            let total = match centred {
                true => 0,
                false => {
                    // SAFETY: the row is one of the product.
                    total(unsafe {
                        std::slice::from_raw_parts(product.a.add(row * product.stride), 4 * product.quads)
                    })
                }
            };
            for ((sum, constant), point) in sums.iter_mut().zip(&self.constants).zip(&self.points) {
                *sum = sum.wrapping_add(*constant).wrapping_sub(point.wrapping_mul(total));
            }
        }
    }
}

fn total(row: &[u8]) -> i32 {
    row.iter().fold(0_i32, |sum, byte| sum.wrapping_add(i32::from(*byte)))
}
