//! Products of a few rows with a panel of packed columns, four elements of each at a time.
//!
//! An instruction of AVX2 (`vpmaddubsw`) multiplies 32 unsigned bytes by 32 signed ones, and adds adjacent products in
//! 16 bits, where the sum may saturate. We call a pair of weights *light* if the absolute value of its sum is at most
//! 128. The sum of its products then lies between -255 * 128 and 255 * 128, which 16 bits can hold. Two weights of
//! different signs are always light. Pairs that are not light are rare in most networks. Before the product,
//! such a pair is split into two light pairs whose sum it is: the first one stays in the panel, and the second one
//! goes into a list of vectors ([`Rest`]), which are multiplied after the panel. So the products are exact for all
//! weights, and take at most twice the time that they take if all pairs are light.

use crate::lanes::{Isa, prefetch};

/// The columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The most rows that are multiplied at once.
pub(super) const ROWS: usize = 4;
/// The elements of a panel for four steps along the inner dimension.
pub(super) const QUAD: usize = 4 * COLUMNS;
/// The largest absolute value of the sum of a light pair of weights.
const LIGHT: i16 = 128;
/// The distance in bytes at which weights are prefetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1024;

/// The sums of the rows, column by column.
pub(super) type Sums = [[i32; COLUMNS]; ROWS];

/// Weights of half a quad (eight columns) that belong to a panel in addition to its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Rest {
    weights: [i8; QUAD / 2],
    /// Twice the number of the quad, and one more for its second half.
    half: u32,
}

/// Facts about a panel that was prepared.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    /// The sum of each column.
    pub totals: [i32; COLUMNS],
    /// The length of the list of rests.
    rests: u32,
}

/// The place of a prepared panel.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// The weights with a sign, of which all pairs are light.
    pub weights: *mut i8,
    /// The second parts of the pairs that were split.
    pub rests: *mut Rest,
}

impl Panel {
    /// The bytes of weights for each quad.
    pub(super) const WEIGHTS: usize = QUAD;
    /// The most bytes of rests for each quad.
    pub(super) const RESTS: usize = 2 * size_of::<Rest>();
}

/// Rows of integers without a sign, and a prepared panel to multiply them by.
#[derive(Clone, Copy)]
pub(super) struct Quads {
    /// The rows.
    pub a: *const u8,
    /// The distance between rows, in elements.
    pub stride: usize,
    /// The number of rows, from 1 to [`ROWS`].
    pub rows: usize,
    /// The panel, as [`prepare`] wrote it.
    pub b: Panel,
    /// A quarter of the inner dimension, rounded up. Rows are filled up with zeros.
    pub quads: usize,
}

impl Quads {
    /// Adds the products of the rows to sums; those of other rows are left as they are.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn add(&self, facts: &Facts, sums: &mut Sums) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            let rests = std::slice::from_raw_parts(self.b.rests, facts.rests as usize);
            match Isa::running() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 => match self.rows {
                    1 => self.avx2::<1>(rests, sums),
                    2 => self.avx2::<2>(rests, sums),
                    3 => self.avx2::<3>(rests, sums),
                    _ => self.avx2::<4>(rests, sums),
                },
                _ => self.portable(rests, sums),
            }
        }
    }

    unsafe fn portable(&self, rests: &[Rest], sums: &mut Sums) {
        // SAFETY: as the caller of `add` promises.
        let weights = unsafe { std::slice::from_raw_parts(self.b.weights, self.quads * QUAD) };
        let halves = weights.chunks_exact(QUAD / 2).enumerate();
        let rests = rests.iter().map(|rest| (rest.half as usize, &rest.weights[..]));
        for (half, weights) in halves.chain(rests) {
            for (row, sums) in sums[..self.rows].iter_mut().enumerate() {
                let sums = &mut sums[half % 2 * COLUMNS / 2..];
                for (at, weight) in weights.iter().enumerate() {
                    // SAFETY: as above.
                    let a = unsafe { *self.a.add(row * self.stride + half / 2 * 4 + at % 4) };
                    sums[at / 4] = sums[at / 4].wrapping_add(i32::from(a) * i32::from(*weight));
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const R: usize>(&self, rests: &[Rest], sums: &mut Sums) {
        use std::arch::x86_64::{
            __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
            _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
        };
        let ones = _mm256_set1_epi16(1);
        let mut totals = [[_mm256_setzero_si256(); R]; 2];
        // SAFETY: as the caller of `add` promises.
        unsafe {
            let four = |row: usize, quad: usize| {
                let from = self.a.add(row * self.stride + 4 * quad).cast::<i32>();
                _mm256_set1_epi32(from.read_unaligned())
            };
            let product = |four: __m256i, weights: __m256i| {
                _mm256_madd_epi16(_mm256_maddubs_epi16(four, weights), ones)
            };
            for quad in 0..self.quads {
                let from = self.b.weights.add(quad * QUAD).cast::<__m256i>();
                if R == 1 {
                    // With one row, each weight is used once, and the speed of the memory is the limit.
                    prefetch(from.wrapping_byte_add(AHEAD));
                }
                let weights = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
                for row in 0..R {
                    let four = four(row, quad);
                    for (totals, weights) in totals.iter_mut().zip(weights) {
                        totals[row] = _mm256_add_epi32(totals[row], product(four, weights));
                    }
                }
            }
            for rest in rests {
                let weights = _mm256_loadu_si256(rest.weights.as_ptr().cast());
                let quad = rest.half as usize / 2;
                let mut products = [_mm256_setzero_si256(); R];
                for (row, products) in products.iter_mut().enumerate() {
                    *products = product(four(row, quad), weights);
                }
                // An index that is not a constant would keep all totals in memory.
                if rest.half % 2 == 0 {
                    for (total, product) in totals[0].iter_mut().zip(products) {
                        *total = _mm256_add_epi32(*total, product);
                    }
                } else {
                    for (total, product) in totals[1].iter_mut().zip(products) {
                        *total = _mm256_add_epi32(*total, product);
                    }
                }
            }
            for (half, totals) in totals.into_iter().enumerate() {
                for (sums, total) in sums.iter_mut().zip(totals) {
                    let to = sums.as_mut_ptr().add(8 * half).cast::<__m256i>();
                    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), total));
                }
            }
        }
    }
}

/// Prepares a panel of weights for products: gives them a sign by adding `shift` to their bits, replaces what fills up
/// the last quad by zeros, and splits pairs that are not light. The rests of the first halves of quads come before
/// those of the second halves, so that the branch on the half is predicted.
///
/// # Safety
/// The panel must have `depth` elements in each column, rounded up to a multiple of four, and `to` must have room for
/// [`Panel::WEIGHTS`] and [`Panel::RESTS`] bytes for each four of them.
pub(super) unsafe fn prepare(b: *const u8, depth: usize, shift: u8, to: Panel) -> Facts {
    let (quads, whole) = (depth.div_ceil(4), depth / 4);
    // SAFETY: as the caller promises; any bytes are integers.
    let (from, weights) = unsafe {
        (
            std::slice::from_raw_parts(b, quads * QUAD),
            std::slice::from_raw_parts_mut(to.weights, quads * QUAD),
        )
    };
    let mut facts = Facts::default();
    copy(&from[..whole * QUAD], shift, &mut weights[..whole * QUAD], &mut facts.totals);
    if whole < quads {
        let mut last = [shift.wrapping_neg(); QUAD];
        for (last, from) in last.chunks_exact_mut(4).zip(from[whole * QUAD..].chunks_exact(4)) {
            last[..depth % 4].copy_from_slice(&from[..depth % 4]);
        }
        copy(&last, shift, &mut weights[whole * QUAD..], &mut facts.totals);
    }
    for second in [0, 1] {
        for (quad, weights) in weights.chunks_exact_mut(QUAD).enumerate() {
            let weights = &mut weights[second * QUAD / 2..][..QUAD / 2];
            if !is_light(weights) {
                let rest = Rest { weights: split(weights), half: (2 * quad + second) as u32 };
                // SAFETY: there are at most two rests for each quad.
                unsafe { to.rests.add(facts.rests as usize).write(rest) };
                facts.rests += 1;
            }
        }
    }
    facts
}

/// Copies quads of weights, and adds up their columns.
fn copy(from: &[u8], shift: u8, to: &mut [i8], totals: &mut [i32; COLUMNS]) {
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        unsafe { copy_avx2(from, shift, to, totals) };
        return;
    }
    for (from, to) in from.chunks_exact(QUAD).zip(to.chunks_exact_mut(QUAD)) {
        for (at, (from, to)) in from.iter().zip(to).enumerate() {
            *to = from.wrapping_add(shift).cast_signed();
            totals[at / 4] += i32::from(*to);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_avx2(from: &[u8], shift: u8, to: &mut [i8], totals: &mut [i32; COLUMNS]) {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_storeu_si256,
    };
    let ones = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
    let shift = _mm256_set1_epi8(shift.cast_signed());
    let mut sums = [_mm256_setzero_si256(); 2];
    // SAFETY: a quad has two vectors, and so has the array of totals.
    unsafe {
        for (from, to) in from.chunks_exact(QUAD).zip(to.chunks_exact_mut(QUAD)) {
            for (half, sum) in sums.iter_mut().enumerate() {
                let weights = _mm256_loadu_si256(from.as_ptr().cast::<__m256i>().add(half));
                let weights = _mm256_add_epi8(weights, shift);
                _mm256_storeu_si256(to.as_mut_ptr().cast::<__m256i>().add(half), weights);
                let pairs = _mm256_maddubs_epi16(ones.0, weights);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones.1));
            }
        }
        for (half, sum) in sums.into_iter().enumerate() {
            let to = totals.as_mut_ptr().cast::<__m256i>().add(half);
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum));
        }
    }
}

/// Makes all pairs of half a quad light, and returns the rests.
fn split(weights: &mut [i8]) -> [i8; QUAD / 2] {
    let mut rests = [0; QUAD / 2];
    for (pair, rests) in weights.chunks_exact_mut(2).zip(rests.chunks_exact_mut(2)) {
        let sum = i16::from(pair[0]) + i16::from(pair[1]);
        // If this is not zero, both weights have the same sign, and the absolute value of neither is smaller.
        let rest = sum - sum.clamp(-LIGHT, LIGHT);
        pair[1] = (i16::from(pair[1]) - rest) as i8;
        rests[1] = rest as i8;
    }
    rests
}

/// Returns whether all pairs of half a quad are light.
fn is_light(weights: &[i8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { is_light_avx2(weights) };
    }
    weights.chunks_exact(2).all(|pair| (i16::from(pair[0]) + i16::from(pair[1])).abs() <= LIGHT)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn is_light_avx2(weights: &[i8]) -> bool {
    use std::arch::x86_64::{
        _mm256_abs_epi16, _mm256_cmpgt_epi16, _mm256_loadu_si256, _mm256_maddubs_epi16, _mm256_set1_epi8,
        _mm256_set1_epi16, _mm256_testz_si256,
    };
    assert_eq!(weights.len(), QUAD / 2);
    // SAFETY: half a quad is a vector.
    let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
    let sizes = _mm256_abs_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), weights));
    let heavy = _mm256_cmpgt_epi16(sizes, _mm256_set1_epi16(LIGHT));
    _mm256_testz_si256(heavy, heavy) != 0
}
