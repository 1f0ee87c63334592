//! The same sums by `vpdpbusd`, which multiplies four taps at a time: those below each other in a column of the window.
//!
//! The bytes of up to four rows are interleaved once for each column of the images, and then serve every column of the
//! window that meets them. Windows of up to three rows at a stride of one serve two rows of the result, whose weights stand
//! one place apart. The sums become bytes while they are in registers.

use super::together::{Run, SEGMENT, Together};
use crate::args::part;
use crate::integer::affine::Sums;
use crate::integer::direct::Tile;
use crate::integer::geometry::Geometry;

/// The bytes of a vector.
pub(super) const VECTOR: usize = 64;
/// The vectors of interleaved bytes: four for each of those that they come from.
const FOUR: usize = 4;
/// The fewest channels.
const FEWEST: usize = 16;
/// The pixels whose sums are in registers at a time.
const TOGETHER: usize = 4;

/// Channels that are computed at once: a vector has 64 of them, or 32 of two pixels, or 16 of four.
#[derive(Clone, Copy)]
struct Block {
    channel: usize,
    pieces: usize,
}

/// A convolution by columns of windows.
pub(super) struct Quads {
    together: Together,
    blocks: Vec<Block>,
    /// The number of the groups of four rows of the windows.
    groups: usize,
}

impl Quads {
    /// Returns `None` if the processor does not have the instructions, or if there are few channels.
    pub(super) fn new(geometry: &Geometry, signed: bool) -> Option<Self> {
        if !Tile::has_vnni() || geometry.channels < FEWEST {
            return None;
        }
        let together = Together::new(geometry, signed, FOUR - 1);
        Some(Self { together, blocks: blocks(geometry.channels), groups: together.met().div_ceil(FOUR) })
    }

    /// Returns the vectors of weights of a block, for each row of those that are computed together.
    fn weights(&self) -> usize {
        self.together.geometry.window[1] * self.groups * FOUR
    }

    /// Returns the bytes of what is prepared for a block: weights, constants, factors and terms.
    fn of_block(&self) -> usize {
        (self.together.rows * self.weights() + 3 * FOUR) * VECTOR
    }

    /// Returns the bytes that [`Quads::prepare`] needs.
    pub(super) fn prepared(&self) -> usize {
        self.blocks.len() * self.of_block()
    }

    /// Returns the bytes that each thread needs.
    pub(super) fn of_thread(&self) -> usize {
        self.together.columns(SEGMENT) * self.groups * FOUR * VECTOR
    }

    /// Returns the number of tasks; see [`Together::tasks`].
    pub(super) fn tasks(&self, wanted: usize) -> [usize; 2] {
        self.together.tasks(wanted, self.blocks.len())
    }

    /// Writes the weights, which have no zero points, and what is added to their sums for the zero point of the images, with
    /// the factors and terms of the sums.
    ///
    /// # Safety
    /// There must be room, and tiles must be supported, as [`Quads::new`] finds out.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn prepare(&self, given: *const u8, point: u8, sums: &Sums, to: *mut u8) {
        use std::arch::x86_64::*;
        let one = &self.together.geometry;
        let ones = _mm512_set1_epi8(1);
        // SAFETY: as the caller promises.
        unsafe {
            for (at, block) in self.blocks.iter().enumerate() {
                let mut to = to.add(at * self.of_block()).cast::<__m512i>();
                let mut totals = [_mm512_setzero_si512(); FOUR];
                for first in 0..self.together.rows {
                    // The weights of the second row stand a place further down, and have the same sums.
                    totals = [_mm512_setzero_si512(); FOUR];
                    for (column, group) in
                        (0..one.window[1]).flat_map(|at| (0..self.groups).map(move |group| (at, group)))
                    {
                        let mut rows = [_mm512_setzero_si512(); FOUR];
                        for at in 0..FOUR {
                            let row = (FOUR * group + at).wrapping_sub(first);
                            if row < one.window[0] {
                                let tap = row * one.window[1] + column;
                                let from = given.add(tap * one.channels + block.channel);
                                rows[at] = load([from; FOUR], block.pieces);
                            }
                        }
                        let quads = interleaved(rows);
                        for at in 0..FOUR {
                            totals[at] = _mm512_dpbusd_epi32(totals[at], ones, quads[at]);
                            _mm512_storeu_si512(to, quads[at]);
                            to = to.add(1);
                        }
                    }
                }
                let factor = _mm512_set1_epi32(-i32::from(point ^ self.together.flip));
                for at in 0..FOUR {
                    _mm512_storeu_si512(to, _mm512_mullo_epi32(totals[at], factor));
                    to = to.add(1);
                }
                for (from, step) in sums.operands {
                    let from = from.wrapping_add(step * block.channel);
                    // Each part of 16 bytes of the vectors has four channels of each.
                    for (at, part) in (0..FOUR).flat_map(|at| (0..FOUR).map(move |part| (at, part))) {
                        let lane = (16 * part + 4 * at) % (VECTOR / block.pieces);
                        let four = match step {
                            0 => _mm_set1_ps(*from),
                            _ => _mm_loadu_ps(from.add(lane)),
                        };
                        _mm_storeu_ps(to.add(at).cast::<f32>().add(4 * part), four);
                    }
                    to = to.add(FOUR);
                }
            }
        }
    }

    /// Computes a part of the channels of some rows of the result that are computed together.
    ///
    /// # Safety
    /// As for [`Quads::prepare`]; `buffer` must have room for the bytes of a thread.
    pub(super) unsafe fn row(
        &self,
        run: &Run<'_>,
        rows: usize,
        [part_of, parts]: [usize; 2],
        buffer: *mut u8,
    ) {
        let place = self.together.place(run, rows);
        let inside = self.together.inside(&place, FOUR * self.groups);
        for at in part(self.blocks.len(), parts, part_of, 1) {
            let block = self.blocks[at];
            let whole = self.together.geometry.pixels[1];
            let length = whole.div_ceil(block.pieces).min(SEGMENT);
            for first in (0..whole).step_by(length * block.pieces) {
                let segment = Segment {
                    quads: self,
                    run,
                    block,
                    prepared: run.prepared.wrapping_add(at * self.of_block()),
                    row: place.row,
                    rows: place.rows,
                    first,
                    length: (whole - first).div_ceil(block.pieces).min(length),
                    buffer,
                };
                // SAFETY: as the caller promises, and the processor has the instructions.
                unsafe { segment.compute(&inside) };
            }
        }
    }
}

/// Divides channels, of which the last ones may be computed twice.
fn blocks(channels: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut channel = 0;
    while channel < channels {
        let rest = channels - channel;
        // As many as there are left, or the next smaller number if there are not so many before them.
        let fitting = rest.next_power_of_two().clamp(FEWEST, VECTOR);
        let size = if fitting <= channels { fitting } else { fitting / 2 };
        let first = channel.min(channels - size);
        blocks.push(Block { channel: first, pieces: VECTOR / size });
        channel = first + size;
    }
    blocks
}

/// Some pixels of a row of the result, in as many pieces as the block has.
struct Segment<'a> {
    quads: &'a Quads,
    run: &'a Run<'a>,
    block: Block,
    prepared: *const u8,
    /// The first row among those of all images, and the number of rows.
    row: usize,
    rows: usize,
    /// The first pixel, and the pixels of a piece. The last pieces may have fewer.
    first: usize,
    length: usize,
    buffer: *mut u8,
}

#[cfg(target_arch = "x86_64")]
impl Segment<'_> {
    /// Computes the bytes of the segment; `rows` are the rows of the images that the windows meet, each `None` if it is outside.
    ///
    /// # Safety
    /// All elements must be in bounds, and the processor must have the instructions.
    unsafe fn compute(&self, rows: &[Option<*const u8>]) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.block.pieces {
                1 => self.interleave::<1>(rows),
                2 => self.interleave::<2>(rows),
                _ => self.interleave::<4>(rows),
            }
            let together = TOGETHER / self.rows;
            for at in (0..self.length).step_by(together) {
                match (self.rows, together.min(self.length - at)) {
                    (1, 1) => self.pixels::<1, 1>(at),
                    (1, 2) => self.pixels::<1, 2>(at),
                    (1, 3) => self.pixels::<1, 3>(at),
                    (1, _) => self.pixels::<1, 4>(at),
                    (_, 1) => self.pixels::<2, 1>(at),
                    _ => self.pixels::<2, 2>(at),
                }
            }
        }
    }

    /// Interleaves the bytes of the rows, for all columns that the segment meets.
    ///
    /// # Safety
    /// As for [`Segment::compute`].
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn interleave<const PIECES: usize>(&self, rows: &[Option<*const u8>]) {
        use std::arch::x86_64::*;
        let (one, channel) = (&self.quads.together.geometry, self.block.channel);
        let outside = self.run.outside.wrapping_add(channel);
        let flip = _mm512_set1_epi8(self.quads.together.flip.cast_signed());
        // Columns before the image are greater than all columns of it.
        let first = (self.first * one.strides[1]).wrapping_sub(one.begin[1]);
        let apart = self.length * one.strides[1];
        let (rows, _) = rows.as_chunks::<FOUR>();
        let columns = self.quads.together.columns(self.length);
        for (group, rows) in rows.iter().enumerate() {
            // A row outside has the same pixel at all places.
            let steps = rows.map(|row| if row.is_some() { one.channels } else { 0 });
            let rows = rows.map(|row| row.map_or(outside, |row| row.wrapping_add(channel)));
            for at in 0..columns {
                let column = first.wrapping_add(at);
                let mut four = [_mm512_setzero_si512(); FOUR];
                for at in 0..FOUR {
                    let mut places = [outside; FOUR];
                    for piece in 0..PIECES {
                        let column = column.wrapping_add(piece * apart);
                        if column < one.image[1] {
                            places[piece] = rows[at].wrapping_add(column * steps[at]);
                        }
                    }
                    // SAFETY: as the caller promises.
                    four[at] = unsafe { _mm512_xor_si512(load(places, PIECES), flip) };
                }
                // SAFETY: as the caller promises.
                unsafe {
                    let to = self.buffer.cast::<__m512i>().add((at * self.quads.groups + group) * FOUR);
                    let quads = interleaved(four);
                    for at in 0..FOUR {
                        _mm512_storeu_si512(to.add(at), quads[at]);
                    }
                }
            }
        }
    }

    /// Multiplies the windows of some pixels of each row, from one on.
    ///
    /// # Safety
    /// As for [`Segment::compute`].
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
    unsafe fn pixels<const R: usize, const P: usize>(&self, first: usize) {
        use std::arch::x86_64::*;
        let (one, groups) = (&self.quads.together.geometry, self.quads.groups);
        let prepared = self.prepared.cast::<__m512i>();
        let of_row = self.quads.weights();
        let constants = prepared.wrapping_add(self.quads.together.rows * of_row);
        let step = one.strides[1] * groups * FOUR;
        let images = self.buffer.cast::<__m512i>().cast_const().wrapping_add(first * step);
        // SAFETY: as the caller promises.
        unsafe {
            let mut totals = [[[_mm512_setzero_si512(); FOUR]; P]; R];
            for at in 0..FOUR {
                let constant = _mm512_loadu_si512(constants.add(at));
                for row in 0..R {
                    for pixel in 0..P {
                        totals[row][pixel][at] = constant;
                    }
                }
            }
            let mut weights = prepared;
            for column in 0..one.window[1] {
                let mut images = images.add(column * one.dilations[1] * groups * FOUR);
                for _ in 0..groups {
                    for at in 0..FOUR {
                        let mut own = [_mm512_loadu_si512(weights.add(at)); R];
                        if R > 1 {
                            own[1] = _mm512_loadu_si512(weights.add(of_row + at));
                        }
                        for pixel in 0..P {
                            let bytes = _mm512_loadu_si512(images.add(pixel * step + at));
                            for row in 0..R {
                                totals[row][pixel][at] =
                                    _mm512_dpbusd_epi32(totals[row][pixel][at], bytes, own[row]);
                            }
                        }
                    }
                    weights = weights.add(FOUR);
                    images = images.add(FOUR);
                }
            }
            let factors = constants.add(FOUR).cast::<f32>();
            let terms = factors.add(FOUR * 16);
            let mut x = [[[_mm512_setzero_ps(); FOUR]; P]; R];
            for at in 0..FOUR {
                let factor = _mm512_loadu_ps(factors.add(16 * at));
                let term = _mm512_loadu_ps(terms.add(16 * at));
                for row in 0..R {
                    for pixel in 0..P {
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(totals[row][pixel][at]), factor);
                        x[row][pixel][at] = _mm512_add_ps(product, term);
                    }
                }
            }
            // A copy, which no result that is written can change.
            let rounding = self.run.sums.rounding;
            for row in 0..R {
                for pixel in 0..P {
                    self.write(rounding.bytes(x[row][pixel]), row, first + pixel);
                }
            }
        }
    }

    /// Writes the bytes of a pixel of each piece.
    ///
    /// # Safety
    /// As for [`Segment::compute`].
    #[inline(always)]
    unsafe fn write(&self, bytes: std::arch::x86_64::__m512i, row: usize, pixel: usize) {
        use std::arch::x86_64::*;
        let one = &self.quads.together.geometry;
        let (first, end) = ((self.row + row) * one.pixels[1], one.pixels[1]);
        let place = |piece: usize| {
            let pixel = self.first + piece * self.length + pixel;
            let to = self.run.sums.target.wrapping_add((first + pixel) * one.channels + self.block.channel);
            (pixel < end).then_some(to)
        };
        // SAFETY: as the caller promises.
        unsafe {
            macro_rules! write {
                ($store:ident, $piece:literal, $bytes:expr) => {
                    if let Some(to) = place($piece) {
                        $store(to.cast(), $bytes);
                    }
                };
            }
            match self.block.pieces {
                1 => write!(_mm512_storeu_si512, 0, bytes),
                2 => {
                    write!(_mm256_storeu_si256, 0, _mm512_castsi512_si256(bytes));
                    write!(_mm256_storeu_si256, 1, _mm512_extracti64x4_epi64::<1>(bytes));
                }
                _ => {
                    write!(_mm_storeu_si128, 0, _mm512_castsi512_si128(bytes));
                    write!(_mm_storeu_si128, 1, _mm512_extracti32x4_epi32::<1>(bytes));
                    write!(_mm_storeu_si128, 2, _mm512_extracti32x4_epi32::<2>(bytes));
                    write!(_mm_storeu_si128, 3, _mm512_extracti32x4_epi32::<3>(bytes));
                }
            }
        }
    }
}

/// Loads a vector of as many pieces, which lie at these places.
///
/// # Safety
/// All elements must be in bounds, and the processor must have the instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load(places: [*const u8; FOUR], pieces: usize) -> std::arch::x86_64::__m512i {
    use std::arch::x86_64::*;
    // SAFETY: as the caller promises.
    unsafe {
        match pieces {
            1 => _mm512_loadu_si512(places[0].cast()),
            2 => {
                let low = _mm512_castsi256_si512(_mm256_loadu_si256(places[0].cast()));
                _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(places[1].cast()))
            }
            _ => {
                let low = _mm512_castsi128_si512(_mm_loadu_si128(places[0].cast()));
                let low = _mm512_inserti32x4::<1>(low, _mm_loadu_si128(places[1].cast()));
                let low = _mm512_inserti32x4::<2>(low, _mm_loadu_si128(places[2].cast()));
                _mm512_inserti32x4::<3>(low, _mm_loadu_si128(places[3].cast()))
            }
        }
    }
}

/// Interleaves bytes: each 32 bits have the byte of each row at one place. Each part of 16 bytes of the four results
/// comes from that part of the rows, four places after another.
///
/// # Safety
/// The processor must have the instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn interleaved(rows: [std::arch::x86_64::__m512i; FOUR]) -> [std::arch::x86_64::__m512i; FOUR] {
    use std::arch::x86_64::*;
    // SAFETY: as the caller promises.
    unsafe {
        let low = [_mm512_unpacklo_epi8(rows[0], rows[1]), _mm512_unpacklo_epi8(rows[2], rows[3])];
        let high = [_mm512_unpackhi_epi8(rows[0], rows[1]), _mm512_unpackhi_epi8(rows[2], rows[3])];
        [
            _mm512_unpacklo_epi16(low[0], low[1]),
            _mm512_unpackhi_epi16(low[0], low[1]),
            _mm512_unpacklo_epi16(high[0], high[1]),
            _mm512_unpackhi_epi16(high[0], high[1]),
        ]
    }
}

// Without these instructions, `Quads::new` returns none.
#[cfg(not(target_arch = "x86_64"))]
impl Quads {
    pub(super) unsafe fn prepare(&self, _: *const u8, _: u8, _: &Sums, _: *mut u8) {
        unreachable!("there is no `vpdpbusd`");
    }
}
#[cfg(not(target_arch = "x86_64"))]
impl Segment<'_> {
    unsafe fn compute(&self, _: &[Option<*const u8>]) {
        unreachable!("there is no `vpdpbusd`");
    }
}
