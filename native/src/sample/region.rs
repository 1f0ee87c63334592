//! `roi-align`: cells of regions of images.
//!
//! An average is separable: a line is the sum of the rows that a row of cells touches, by their weights, and a cell is
//! the sum of the elements of the line that it touches. So the samples of a cell are never read one by one. A maximum
//! is taken over all samples.

mod places;

use self::places::{Region, Regions, around};
use super::super::args::{Shared, part};
use super::super::lanes::Isa;
use super::super::{ISAS, plain_contract, reference};
use super::{Coordinates, Float, takes};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

pub(super) const OP: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.roi-align", "roi-align", contract, kernel) };

/// The channels of a region that one task computes.
const CHANNELS: usize = 64;
/// The rows of cells whose lines are summed at a time, so that no sum waits for the one before.
const LINES: usize = 8;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let scratch = match call.output.dtype {
        DType::F32 => Align::<f32>::new(call).map(|align| align.of_thread()),
        _ => Align::<f64>::new(call).map(|align| align.of_thread()),
    };
    let Some(scratch) = scratch else { return reference::contract(call) };
    Ok(Contract { scratch: call.threads * scratch, ..plain_contract("regions") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F32 => match Align::<f32>::new(call) {
            Some(align) => Box::new(align),
            None => return reference::kernel(call),
        },
        _ => match Align::<f64>::new(call) {
            Some(align) => Box::new(align),
            None => return reference::kernel(call),
        },
    })
}

struct Align<T> {
    regions: Regions,
    largest: bool,
    images: usize,
    channels: usize,
    image: [usize; 2],
    count: usize,
    cells: [usize; 2],
    coordinates: DType,
    wide: bool,
    element: PhantomData<T>,
}

/// The pixels along an axis that count for its cells: for each cell a list in `index` and `weight`, which begins at the
/// cell's number times [`Weights::room`].
#[derive(Clone, Copy)]
struct Weights<T> {
    size: usize,
    index: *mut u32,
    weight: *mut T,
    /// The length of each cell's list.
    length: *mut u32,
}

impl<T: Float> Weights<T> {
    /// Returns the room for the list of a cell: a pixel is in it with the sum of its weights, and again with a weight of
    /// zero if it has this weight in a sample, because an infinite pixel then is NaN.
    fn room(size: usize) -> usize {
        2 * size
    }

    /// Fills the lists of all cells. Returns the range of the pixels in them.
    ///
    /// # Safety
    /// There must be room for the lists.
    unsafe fn fill(&self, region: &Region, axis: usize, cells: usize) -> (usize, usize) {
        let (mut from, mut to) = (self.size, 0);
        for cell in 0..cells {
            let start = cell * Self::room(self.size);
            let (index, weight) = (self.index.wrapping_add(start), self.weight.wrapping_add(start));
            // The sums, and whether a sample has no weight, are kept in the second half of the room. The list does not
            // reach those that are not in it yet.
            let (none, sums) = (index.wrapping_add(self.size), weight.wrapping_add(self.size));
            let (mut first, mut end) = (self.size, 0);
            // SAFETY: pixels are below the size of the axis.
            unsafe {
                for at in 0..self.size {
                    (*none.add(at), *sums.add(at)) = (0, T::ZERO);
                }
                for sample in 0..region.samples[axis] {
                    let Some((low, high, share)) = around(region.place(axis, cell, sample), self.size) else {
                        continue;
                    };
                    for (pixel, share) in [(low, 1.0 - share), (high, share)] {
                        *sums.add(pixel) = *sums.add(pixel) + T::from_f64(share);
                        *none.add(pixel) |= u32::from(share == 0.0);
                    }
                    (first, end) = (first.min(low), end.max(high + 1));
                }
                let mut length = 0;
                for pixel in first..end {
                    let (sum, none) = (*sums.add(pixel), *none.add(pixel) != 0);
                    for share in
                        [(sum != T::ZERO).then_some(sum), none.then_some(T::ZERO)].into_iter().flatten()
                    {
                        (*index.add(length), *weight.add(length)) = (pixel as u32, share);
                        length += 1;
                    }
                }
                *self.length.add(cell) = length as u32;
            }
            (from, to) = (from.min(first), to.max(end));
        }
        (from, to)
    }

    /// Returns the pixels of a cell, and their weights.
    ///
    /// # Safety
    /// The list of the cell must be filled.
    #[inline(always)]
    unsafe fn of<'a>(&self, cell: usize) -> (&'a [u32], &'a [T]) {
        // SAFETY: as the caller promises.
        unsafe {
            let length = *self.length.add(cell) as usize;
            (
                std::slice::from_raw_parts(self.index.add(cell * Self::room(self.size)), length),
                std::slice::from_raw_parts(self.weight.add(cell * Self::room(self.size)), length),
            )
        }
    }
}

impl<T: Float> Align<T> {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, regions, images] = [0, 1, 2].map(|at| call.inputs[at]);
        let cells = [call.output.shape[2], call.output.shape[3]];
        let numbers = matches!(images.dtype, DType::I64 | DType::I32);
        (takes(x.dtype) && takes(regions.dtype) && numbers).then(|| Self {
            regions: Regions::new(call.attrs, cells),
            largest: call.attrs.expect_str("mode") == "max",
            images: x.shape[0],
            channels: x.shape[1],
            image: [x.shape[2], x.shape[3]],
            count: regions.shape[0],
            cells,
            coordinates: regions.dtype,
            wide: images.dtype == DType::I64,
            element: PhantomData,
        })
    }

    /// Returns the elements of the lists of both axes.
    fn listed(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.cells[axis] * Weights::<T>::room(self.image[axis]))
    }

    /// Returns the bytes of a thread: lines, and for both axes weights, indices, and lengths.
    fn of_thread(&self) -> usize {
        let listed: usize = self.listed().iter().sum();
        let (elements, words) = (LINES * self.image[1] + listed, listed + self.cells[0] + self.cells[1]);
        (elements * size_of::<T>() + words * size_of::<u32>()).next_multiple_of(ALIGN)
    }

    /// Averages some channels of a region.
    ///
    /// # Safety
    /// `own` must be this thread's scratch memory, `planes` the channels of the image, and `to` those of the result.
    unsafe fn average(&self, region: &Region, planes: *const T, to: *mut T, channels: usize, own: *mut u8) {
        let (lines, listed) = (own.cast::<T>(), self.listed());
        let mut weight = lines.wrapping_add(LINES * self.image[1]);
        let mut word = weight.wrapping_add(listed[0] + listed[1]).cast::<u32>();
        let axes = [0, 1].map(|axis| {
            let lists = Weights {
                size: self.image[axis],
                index: word,
                weight,
                length: word.wrapping_add(listed[axis]),
            };
            weight = weight.wrapping_add(listed[axis]);
            word = word.wrapping_add(listed[axis] + self.cells[axis]);
            lists
        });
        // SAFETY: the scratch memory has room for the lists.
        unsafe {
            axes[0].fill(region, 0, self.cells[0]);
            let range = axes[1].fill(region, 1, self.cells[1]);
            #[allow(clippy::cast_precision_loss)]
            let share = T::from_f64(1.0 / (region.samples[0] * region.samples[1]).max(1) as f64);
            let one = Averages { axes, range, share, image: self.image, cells: self.cells, lines };
            for channel in 0..channels {
                let plane = planes.add(channel * self.image[0] * self.image[1]);
                averages(&one, plane, to.add(channel * self.cells[0] * self.cells[1]));
            }
        }
    }

    /// Takes the largest of the samples of each cell.
    ///
    /// # Safety
    /// `planes` must be the channels of the image, and `to` those of the result.
    unsafe fn maximum(&self, region: &Region, planes: *const T, to: *mut T, channels: usize) {
        let area = self.image[0] * self.image[1];
        let cells = self.cells[0] * self.cells[1];
        for (row, column) in (0..cells).map(|at| (at / self.cells[1], at % self.cells[1])) {
            let to = to.wrapping_add(row * self.cells[1] + column);
            let [down, right] = region.samples;
            let none = if down * right == 0 { T::ZERO } else { T::NAN };
            // SAFETY: the cell is within the result, and all pixels are within the image.
            unsafe {
                (0..channels).for_each(|channel| *to.add(channel * cells) = none);
                for (down, right) in (0..down * right).map(|at| (at / right, at % right)) {
                    let y = around(region.place(0, row, down), self.image[0]);
                    let x = around(region.place(1, column, right), self.image[1]);
                    let mut parts = [(0, 0.0); 4];
                    let inside = y.zip(x);
                    if let Some(((top, bottom, down), (left, right, across))) = inside {
                        let at = |row: usize, column: usize| row * self.image[1] + column;
                        parts = [
                            (at(top, left), (1.0 - down) * (1.0 - across)),
                            (at(top, right), (1.0 - down) * across),
                            (at(bottom, left), down * (1.0 - across)),
                            (at(bottom, right), down * across),
                        ];
                    }
                    for channel in 0..channels {
                        let (to, plane) = (to.add(channel * cells), planes.add(channel * area));
                        *to = match inside {
                            None => (*to).larger(T::ZERO),
                            Some(_) => parts.iter().fold(*to, |most, (pixel, weight)| {
                                most.larger(*plane.add(*pixel) * T::from_f64(*weight))
                            }),
                        };
                    }
                }
            }
        }
    }
}

/// The averages of a region.
struct Averages<T> {
    axes: [Weights<T>; 2],
    /// The columns of the image that some cell touches.
    range: (usize, usize),
    share: T,
    image: [usize; 2],
    cells: [usize; 2],
    lines: *mut T,
}

/// Averages one channel.
///
/// # Safety
/// `plane` must be a plane of the image, and `to` one of the result; the lists of both axes must be filled.
unsafe fn averages<T: Float>(one: &Averages<T>, plane: *const T, to: *mut T) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => averages_avx2(one, plane, to),
            _ => averages_on(one, plane, to),
        }
    }
}

/// # Safety
/// As for [`averages`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn averages_avx2<T: Float>(one: &Averages<T>, plane: *const T, to: *mut T) {
    // SAFETY: as the caller promises.
    unsafe { averages_on(one, plane, to) }
}

#[inline(always)]
unsafe fn averages_on<T: Float>(one: &Averages<T>, plane: *const T, to: *mut T) {
    let (from, end) = one.range;
    let count = end.saturating_sub(from);
    for first in (0..one.cells[0]).step_by(LINES) {
        let rows = (one.cells[0] - first).min(LINES);
        // SAFETY: the pixels of the lists are within the image, and a line has as many elements as its rows.
        unsafe {
            let lines = std::slice::from_raw_parts_mut(one.lines, LINES * count);
            lines.fill(T::ZERO);
            for row in 0..rows {
                let line = lines.get_unchecked_mut(row * count..(row + 1) * count);
                let (touched, weights) = one.axes[0].of(first + row);
                for (at, weight) in touched.iter().zip(weights) {
                    let pixels = plane.add(*at as usize * one.image[1] + from);
                    let pixels = std::slice::from_raw_parts(pixels, count);
                    for (sum, pixel) in line.iter_mut().zip(pixels) {
                        *sum = *sum + *pixel * *weight;
                    }
                }
            }
            for column in 0..one.cells[1] {
                let (touched, weights) = one.axes[1].of(column);
                let mut sums = [T::ZERO; LINES];
                for (at, weight) in touched.iter().zip(weights) {
                    let pixel = *at as usize - from;
                    for (row, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + *lines.get_unchecked(row * count + pixel) * *weight;
                    }
                }
                for (row, sum) in sums.iter().enumerate().take(rows) {
                    *to.add((first + row) * one.cells[1] + column) = *sum * one.share;
                }
            }
        }
    }
}

impl<T: Float> Kernel for Align<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, numbers) = (Shared::<T>::input(args, 0), Shared::<u8>::input(args, 2));
        let (output, scratch) = (Shared::<T>::output(args), Shared::<u8>::scratch(args));
        let corners = Coordinates::new(Shared::input(args, 1), self.coordinates);
        let (area, cells) = (self.image[0] * self.image[1], self.cells[0] * self.cells[1]);
        if cells == 0 {
            return;
        }
        let chunks = self.channels.div_ceil(CHANNELS);
        args.team.share(args.team.threads(), self.count * chunks, |thread, unit| {
            let (at, chunk) = (unit / chunks, unit % chunks);
            let channels = part(self.channels, chunks, chunk, 1);
            // SAFETY: there is a region and a number for each region of the result; a number is clamped to the images.
            // Only this task writes these channels, and each thread has its own scratch memory.
            unsafe {
                let number = if self.wide {
                    *numbers.at(at * 8).cast::<i64>()
                } else {
                    i64::from(*numbers.at(at * 4).cast::<i32>())
                };
                let image = usize::try_from(number).unwrap_or(0).min(self.images - 1);
                let mut corner = [0.0; 4];
                for (k, corner) in corner.iter_mut().enumerate() {
                    *corner = corners.get(at * 4 + k);
                }
                let region = self.regions.region(corner);
                let planes = x.at((image * self.channels + channels.start) * area);
                let to = output.at((at * self.channels + channels.start) * cells);
                if self.largest {
                    self.maximum(&region, planes, to, channels.len());
                } else {
                    let own = scratch.at(thread * self.of_thread());
                    self.average(&region, planes, to, channels.len(), own);
                }
            }
        });
    }
}
