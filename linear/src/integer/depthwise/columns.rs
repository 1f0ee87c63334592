//! The same sums with AVX2, by `vpmaddwd`, which multiplies two taps at a time exactly: those below each other in a column
//! of the window.
//!
//! The bytes of two rows become pairs of 16-bit numbers once for each column of the images, and then serve every column of
//! the window that meets them. Windows at a stride of one serve two rows of the result, whose weights stand one place apart.
//! The sums become bytes while they are in registers.

use super::together::{Run, SEGMENT, Together};
use crate::args::part;
#[cfg(not(target_arch = "x86_64"))]
use crate::integer::affine::Sums;
use crate::integer::geometry::Geometry;
use crate::lanes::Isa;

/// The bytes of a vector.
const VECTOR: usize = 32;
/// The channels that are computed at once, and those of a vector of sums.
const CHANNELS: usize = 16;
const LANES: usize = 8;
/// The vectors of channels.
const HALVES: usize = CHANNELS / LANES;

/// A convolution by columns of windows.
pub(super) struct Columns {
    together: Together,
    /// The pairs of rows that their windows meet.
    pairs: usize,
    /// Whether weights have a sign, and whether each channel has a zero point of its own.
    signed: bool,
    by_output: bool,
}

/// The weights of a call, and the zero points of these and of the images.
pub(super) struct Given {
    pub weights: *const u8,
    pub points: *const u8,
    pub image_point: u8,
}

impl Columns {
    /// Returns `None` if the processor does not have the instructions, or if there are few channels. `signed` says whether
    /// images and weights are.
    pub(super) fn new(geometry: &Geometry, signed: [bool; 2], by_output: bool) -> Option<Self> {
        if Isa::running() < Isa::Avx2 || geometry.channels < CHANNELS {
            return None;
        }
        let together = Together::new(geometry, signed[0], usize::MAX);
        Some(Self { together, pairs: together.met().div_ceil(2), signed: signed[1], by_output })
    }

    /// Returns the first channels of the blocks. The last block has some channels of the one before, if they do not fill it.
    fn blocks(&self) -> impl Iterator<Item = usize> {
        let last = self.together.geometry.channels - CHANNELS;
        (0..self.together.geometry.channels).step_by(CHANNELS).map(move |first| first.min(last))
    }

    /// Returns the vectors of weights of a block, for each row of those that are computed together.
    fn weights(&self) -> usize {
        self.together.geometry.window[1] * self.pairs * HALVES
    }

    /// Returns the bytes of what is prepared for a block: weights, constants, factors and terms.
    fn of_block(&self) -> usize {
        (self.together.rows * self.weights() + 3 * HALVES) * VECTOR
    }

    /// Returns the bytes that [`Columns::prepare`] needs.
    pub(super) fn prepared(&self) -> usize {
        self.together.geometry.channels.div_ceil(CHANNELS) * self.of_block()
    }

    /// Returns the bytes that each thread needs.
    pub(super) fn of_thread(&self) -> usize {
        self.together.columns(SEGMENT) * self.pairs * HALVES * VECTOR
    }

    /// Returns the number of tasks; see [`Together::tasks`].
    pub(super) fn tasks(&self, wanted: usize) -> [usize; 2] {
        self.together.tasks(wanted, self.together.geometry.channels.div_ceil(CHANNELS))
    }

    /// Computes a part of the channels of some rows of the result that are computed together.
    ///
    /// # Safety
    /// All elements must be in bounds, and `buffer` must have room for the bytes of a thread.
    pub(super) unsafe fn row(
        &self,
        run: &Run<'_>,
        rows: usize,
        [part_of, parts]: [usize; 2],
        buffer: *mut u8,
    ) {
        let place = self.together.place(run, rows);
        let inside = self.together.inside(&place, 2 * self.pairs);
        let all: Vec<usize> = self.blocks().collect();
        let whole = self.together.geometry.pixels[1];
        for first in (0..whole).step_by(SEGMENT) {
            for at in part(all.len(), parts, part_of, 1) {
                let segment = Segment {
                    columns: self,
                    run,
                    channel: all[at],
                    prepared: run.prepared.wrapping_add(at * self.of_block()),
                    row: place.row,
                    rows: place.rows,
                    first,
                    length: SEGMENT.min(whole - first),
                    buffer,
                };
                // SAFETY: as the caller promises, and the processor has the instructions.
                unsafe { segment.compute(&inside) };
            }
        }
    }
}

/// Some pixels of a row of the result, and some channels of them.
struct Segment<'a> {
    columns: &'a Columns,
    run: &'a Run<'a>,
    channel: usize,
    prepared: *const u8,
    /// The first row among those of all images, and the number of rows.
    row: usize,
    rows: usize,
    first: usize,
    length: usize,
    buffer: *mut u8,
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{CHANNELS, Columns, Given, HALVES, LANES, Segment};
    use crate::integer::affine::Sums;
    use std::arch::x86_64::*;

    impl Columns {
        /// Writes the weights minus their zero points, in pairs, and what is added to their sums for the zero point of the
        /// images, with the factors and terms of the sums.
        ///
        /// # Safety
        /// There must be room, the operands must be those of the call, and the processor must have the instructions, as
        /// [`Columns::new`] finds out.
        // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
        #[allow(clippy::needless_range_loop)]
        #[target_feature(enable = "avx2,fma")]
        pub(in super::super) unsafe fn prepare(&self, given: &Given, sums: &Sums, to: *mut u8) {
            let one = &self.together.geometry;
            let ones = _mm256_set1_epi16(1);
            // SAFETY: as the caller promises.
            unsafe {
                let mut to = to.cast::<__m256i>();
                for channel in self.blocks() {
                    let mut totals = [_mm256_setzero_si256(); HALVES];
                    let point = match self.by_output {
                        true => self.wide(given.points.add(channel)),
                        false => self.wide([*given.points; CHANNELS].as_ptr()),
                    };
                    for first in 0..self.together.rows {
                        // The weights of the second row stand a place further down, and have the same sums.
                        totals = [_mm256_setzero_si256(); HALVES];
                        for column in 0..one.window[1] {
                            for pair in 0..self.pairs {
                                let mut rows = [_mm256_setzero_si256(); 2];
                                for at in 0..2 {
                                    let row = (2 * pair + at).wrapping_sub(first);
                                    if row < one.window[0] {
                                        let tap = row * one.window[1] + column;
                                        let from = given.weights.add(tap * one.channels + channel);
                                        rows[at] = _mm256_sub_epi16(self.wide(from), point);
                                    }
                                }
                                let low = _mm256_unpacklo_epi16(rows[0], rows[1]);
                                let high = _mm256_unpackhi_epi16(rows[0], rows[1]);
                                let pairs = [
                                    _mm256_permute2x128_si256::<0x20>(low, high),
                                    _mm256_permute2x128_si256::<0x31>(low, high),
                                ];
                                for half in 0..HALVES {
                                    let total = _mm256_madd_epi16(pairs[half], ones);
                                    totals[half] = _mm256_add_epi32(totals[half], total);
                                    _mm256_storeu_si256(to, pairs[half]);
                                    to = to.add(1);
                                }
                            }
                        }
                    }
                    let factor = _mm256_set1_epi32(-i32::from(given.image_point ^ self.together.flip));
                    for half in 0..HALVES {
                        _mm256_storeu_si256(to, _mm256_mullo_epi32(totals[half], factor));
                        to = to.add(1);
                    }
                    for (from, step) in sums.operands {
                        for half in 0..HALVES {
                            let eight = match step {
                                0 => _mm256_set1_ps(*from),
                                _ => _mm256_loadu_ps(from.add(channel + half * LANES)),
                            };
                            _mm256_storeu_ps(to.cast(), eight);
                            to = to.add(1);
                        }
                    }
                }
            }
        }

        /// Returns the weights or zero points of a block in 16 bits.
        ///
        /// # Safety
        /// There must be as many.
        #[inline]
        #[target_feature(enable = "avx2")]
        unsafe fn wide(&self, from: *const u8) -> __m256i {
            // SAFETY: as the caller promises.
            let bytes = unsafe { _mm_loadu_si128(from.cast()) };
            if self.signed { _mm256_cvtepi8_epi16(bytes) } else { _mm256_cvtepu8_epi16(bytes) }
        }
    }

    impl Segment<'_> {
        /// Computes the bytes of the segment; `rows` are the rows of the images that the windows meet, each `None` if it is
        /// outside.
        ///
        /// # Safety
        /// All elements must be in bounds, and the processor must have the instructions.
        pub(super) unsafe fn compute(&self, rows: &[Option<*const u8>]) {
            // SAFETY: as the caller promises.
            unsafe {
                self.widen(rows);
                match (self.rows, self.length) {
                    (1, 8..) => self.each::<1, 8>(),
                    (1, 4..) => self.each::<1, 4>(),
                    (1, _) => self.each::<1, 1>(),
                    (_, 4..) => self.each::<2, 4>(),
                    _ => self.each::<2, 1>(),
                }
            }
        }

        /// Computes all pixels, so many at a time. The last ones may be some that were computed before.
        ///
        /// # Safety
        /// As for [`Segment::compute`].
        unsafe fn each<const R: usize, const P: usize>(&self) {
            for first in (0..self.length).step_by(P) {
                // SAFETY: as the caller promises.
                unsafe { self.pixels::<R, P>(first.min(self.length - P)) };
            }
        }

        /// Makes pairs of 16-bit numbers of the bytes of the rows, for all columns that the segment meets.
        ///
        /// # Safety
        /// As for [`Segment::compute`].
        #[target_feature(enable = "avx2")]
        unsafe fn widen(&self, rows: &[Option<*const u8>]) {
            let one = &self.columns.together.geometry;
            let outside = self.run.outside.wrapping_add(self.channel);
            let flip = _mm_set1_epi8(self.columns.together.flip.cast_signed());
            // Columns before the image are greater than all columns of it.
            let first = (self.first * one.strides[1]).wrapping_sub(one.begin[1]);
            let columns = self.columns.together.columns(self.length);
            let (rows, _) = rows.as_chunks::<2>();
            for (pair, rows) in rows.iter().enumerate() {
                // A row outside has the same pixel at all places.
                let steps = rows.map(|row| if row.is_some() { one.channels } else { 0 });
                let rows = rows.map(|row| row.map_or(outside, |row| row.wrapping_add(self.channel)));
                let to = self.buffer.cast::<__m256i>().wrapping_add(pair * HALVES);
                for at in 0..columns {
                    let column = first.wrapping_add(at);
                    let places = match column < one.image[1] {
                        true => {
                            [0, 1].map(|row: usize| rows[row].wrapping_add(column.wrapping_mul(steps[row])))
                        }
                        false => [outside; 2],
                    };
                    // SAFETY: as the caller promises.
                    unsafe {
                        let upper = _mm_xor_si128(_mm_loadu_si128(places[0].cast()), flip);
                        let lower = _mm_xor_si128(_mm_loadu_si128(places[1].cast()), flip);
                        let to = to.add(at * self.columns.pairs * HALVES);
                        _mm256_storeu_si256(to, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(upper, lower)));
                        let high = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(upper, lower));
                        _mm256_storeu_si256(to.add(1), high);
                    }
                }
            }
        }

        /// Multiplies the windows of some pixels of each row, from one on.
        ///
        /// # Safety
        /// As for [`Segment::compute`].
        // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
        #[allow(clippy::needless_range_loop)]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn pixels<const R: usize, const P: usize>(&self, first: usize) {
            let (one, pairs) = (&self.columns.together.geometry, self.columns.pairs);
            let prepared = self.prepared.cast::<__m256i>();
            let of_row = self.columns.weights();
            let constants = prepared.wrapping_add(self.columns.together.rows * of_row);
            let step = one.strides[1] * pairs * HALVES;
            let images = self.buffer.cast::<__m256i>().cast_const().wrapping_add(first * step);
            let along = one.dilations[1] * pairs * HALVES;
            // A copy, which no result that is written can change.
            let rounding = self.run.sums.rounding;
            // SAFETY: as the caller promises.
            unsafe {
                for half in 0..HALVES {
                    let mut totals = [[_mm256_loadu_si256(constants.add(half)); P]; R];
                    let mut weights = prepared.add(half);
                    let mut images = images.add(half);
                    for _ in 0..one.window[1] {
                        let mut column = images;
                        for _ in 0..pairs {
                            let mut own = [_mm256_loadu_si256(weights); R];
                            if R > 1 {
                                own[1] = _mm256_loadu_si256(weights.add(of_row));
                            }
                            for pixel in 0..P {
                                let numbers = _mm256_loadu_si256(column.add(pixel * step));
                                for row in 0..R {
                                    let products = _mm256_madd_epi16(numbers, own[row]);
                                    totals[row][pixel] = _mm256_add_epi32(totals[row][pixel], products);
                                }
                            }
                            weights = weights.add(HALVES);
                            column = column.add(HALVES);
                        }
                        images = images.add(along);
                    }
                    let factor = _mm256_loadu_ps(constants.add(HALVES + half).cast());
                    let term = _mm256_loadu_ps(constants.add(2 * HALVES + half).cast());
                    for row in 0..R {
                        let to = ((self.row + row) * one.pixels[1] + self.first + first) * one.channels;
                        let to = self.run.sums.target.add(to + self.channel + half * LANES);
                        // Steps that the compiler knows, so that the totals never leave the registers.
                        macro_rules! pixels {
                            ($($pixel:literal)*) => {$(
                                if $pixel < P {
                                    let mut x = [_mm256_setzero_ps(); 4];
                                    for at in 0..4 {
                                        // The last pixel stands in for those that there are not.
                                        let sum = totals[row][($pixel + at).min(P - 1)];
                                        let product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor);
                                        x[at] = _mm256_add_ps(product, term);
                                    }
                                    let bytes = rounding.bytes_of_eights(x);
                                    let (low, high) =
                                        (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
                                    let to = to.add($pixel * one.channels);
                                    _mm_storel_epi64(to.cast(), low);
                                    if P > 1 {
                                        let at = |pixel: usize| to.wrapping_add(pixel * one.channels);
                                        _mm_storeh_pd(at(1).cast(), _mm_castsi128_pd(low));
                                        _mm_storel_epi64(at(2).cast(), high);
                                        _mm_storeh_pd(at(3).cast(), _mm_castsi128_pd(high));
                                    }
                                }
                            )*};
                        }
                        pixels!(0 4);
                    }
                }
            }
        }
    }
}

// Without these instructions, `Columns::new` returns none.
#[cfg(not(target_arch = "x86_64"))]
impl Columns {
    pub(super) unsafe fn prepare(&self, _: &Given, _: &Sums, _: *mut u8) {
        unreachable!("there is no `vpmaddwd`");
    }
}
#[cfg(not(target_arch = "x86_64"))]
impl Segment<'_> {
    unsafe fn compute(&self, _: &[Option<*const u8>]) {
        unreachable!("there is no `vpmaddwd`");
    }
}
