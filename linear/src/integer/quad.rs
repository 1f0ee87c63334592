//! Products of a few rows with a panel of packed columns, four elements of each at a time.
//!
//! An instruction of AVX2 (`vpmaddubsw`) multiplies 32 unsigned bytes by 32 signed ones, and adds adjacent products in
//! 16 bits, where the sum may saturate. We call a pair of weights *light* if the absolute value of its sum is at most
//! 128. The sum of its products then lies between -255 * 128 and 255 * 128, which 16 bits can hold. Two weights of
//! different signs are always light. Pairs that are not light are rare in most networks. Before the product,
//! such a pair is split: a light pair stays in the panel, and what is missing from its second weight goes into a list of
//! vectors ([`Rest`]), which are multiplied after the panel, as numbers of 16 bits. So the products are exact for all
//! weights, and take at most twice the time that they take if all pairs are light.
//!
//! With the instruction `vpdpbusd`, which adds four products in 32 bits, no pair has to be split. AVX-512 VNNI has it for
//! vectors of 64 bytes, and AVX-VNNI, on processors without AVX-512, for those of 32.

use crate::lanes::Isa;
#[cfg(target_arch = "x86_64")]
use crate::lanes::prefetch;

/// The columns of a panel.
pub(super) const COLUMNS: usize = 16;
/// The most rows that are multiplied at once.
pub(super) const ROWS: usize = 4;
/// The elements of a panel for four steps along the inner dimension.
pub(super) const QUAD: usize = 4 * COLUMNS;
/// The elements of half a quad, which are a vector.
const HALF: usize = QUAD / 2;
/// The largest absolute value of the sum of a light pair of weights.
const LIGHT: i16 = 128;
/// The distance in bytes at which weights are prefetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1024;

/// The sums of the rows, column by column.
pub(super) type Sums = [[i32; COLUMNS]; ROWS];

/// What belongs to the second weights of pairs of half a quad (eight columns) in addition to those of a panel.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub weights: [i16; HALF / 2],
    /// The number of the quad. Rests come in its order.
    pub quad: u32,
}

/// Facts about a panel that was prepared.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    /// The sum of each column.
    pub totals: [i32; COLUMNS],
    /// The lengths of the lists of rests.
    rests: [u32; 2],
    /// Whether no pair was split. Then only `vpdpbusd` may multiply the weights.
    pub whole: bool,
    /// Whether the weights are used where they are given, and the prepared panel has none.
    pub as_given: bool,
}

impl Facts {
    /// The facts about weights that are [used as they are given](used_as_given), without their totals.
    pub(super) fn as_given() -> Self {
        Self { whole: true, as_given: true, ..Self::default() }
    }
}

/// The place of a prepared panel.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// The weights with a sign, of which all pairs are light.
    pub weights: *mut i8,
    /// The second parts of the pairs that were split: a list for the first halves of quads, and one for the second
    /// halves. Each has room for all quads.
    pub rests: *mut Rest,
}

impl Panel {
    /// Returns the panel to multiply by: this one, or the weights as they were given to [`prepare`].
    pub(super) fn or_given(self, facts: &Facts, given: *const u8) -> Self {
        if facts.as_given { Self { weights: given.cast_mut().cast(), ..self } } else { self }
    }

    /// The bytes of weights for each quad.
    pub(super) const WEIGHTS: usize = QUAD;
    /// The most bytes of rests for each quad.
    pub(super) const RESTS: usize = 2 * size_of::<Rest>();

    /// Returns the two lists of rests.
    ///
    /// # Safety
    /// The panel must be prepared, with this number of quads.
    pub(super) unsafe fn lists<'a>(self, quads: usize, facts: &Facts) -> [&'a [Rest]; 2] {
        // SAFETY: the lists have these lengths, as the caller promises.
        [0, 1].map(|half| unsafe {
            std::slice::from_raw_parts(self.rests.add(half * quads), facts.rests[half] as usize)
        })
    }
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
            #[cfg(target_arch = "x86_64")]
            if facts.whole && has_vnni() {
                return match self.rows {
                    1 => self.vnni::<1>(sums, None),
                    2 => self.vnni::<2>(sums, None),
                    3 => self.vnni::<3>(sums, None),
                    _ => self.vnni::<4>(sums, None),
                };
            }
            let rests = self.b.lists(self.quads, facts);
            match Isa::running() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 if facts.whole => match self.rows {
                    1 => self.avx_vnni::<1>(sums),
                    2 => self.avx_vnni::<2>(sums),
                    3 => self.avx_vnni::<3>(sums),
                    _ => self.avx_vnni::<4>(sums),
                },
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

    /// Adds the products of the rows to sums, and returns the facts about the panel. Its weights must be
    /// [used as they are given](used_as_given). With few rows, half of the time is reading the weights, which are read once
    /// here for both.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn add_with_totals(&self, sums: &mut Sums) -> Facts {
        let mut facts = Facts::as_given();
        // SAFETY: as the caller promises; where weights are used as they are given, the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            let totals = Some(&mut facts.totals);
            match self.rows {
                1 => self.vnni::<1>(sums, totals),
                2 => self.vnni::<2>(sums, totals),
                3 => self.vnni::<3>(sums, totals),
                _ => self.vnni::<4>(sums, totals),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (sums, &mut facts);
        facts
    }

    unsafe fn portable(&self, rests: [&[Rest]; 2], sums: &mut Sums) {
        // SAFETY: as the caller of `add` promises.
        let weights = unsafe { std::slice::from_raw_parts(self.b.weights, self.quads * QUAD) };
        for (half, rests) in rests.into_iter().enumerate() {
            let own = weights.chunks_exact(QUAD).map(|quad| &quad[half * HALF..][..HALF]).enumerate();
            for (row, sums) in sums[..self.rows].iter_mut().enumerate() {
                let sums = &mut sums[half * COLUMNS / 2..];
                let mut add = |quad: usize, at: usize, weight: i32| {
                    // SAFETY: as above.
                    let a = unsafe { *self.a.add(row * self.stride + 4 * quad + at % 4) };
                    sums[at / 4] = sums[at / 4].wrapping_add(i32::from(a) * weight);
                };
                for (quad, weights) in own.clone() {
                    let weights = weights.iter().enumerate();
                    weights.for_each(|(at, weight)| add(quad, at, i32::from(*weight)));
                }
                for rest in rests {
                    let weights = rest.weights.iter().enumerate();
                    weights.for_each(|(at, weight)| add(rest.quad as usize, 2 * at + 1, i32::from(*weight)));
                }
            }
        }
    }

    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline]
    unsafe fn vnni<const R: usize>(&self, sums: &mut Sums, of_columns: Option<&mut [i32; COLUMNS]>) {
        use std::arch::x86_64::{
            __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32,
            _mm512_setzero_si512, _mm512_storeu_si512,
        };
        // Several sums for each row, so that an instruction does not wait for the one before.
        const CHAINS: usize = 4;
        let mut totals = [[_mm512_setzero_si512(); R]; CHAINS];
        // The sums of the columns are products with a row of ones.
        let (ones, mut columns) = (_mm512_set1_epi32(0x0101_0101), [_mm512_setzero_si512(); CHAINS]);
        let with_columns = of_columns.is_some();
        // SAFETY: as the caller of `add` promises; a quad is a vector.
        unsafe {
            macro_rules! add {
                ($quad:expr, $at:expr) => {
                    let weights = _mm512_loadu_si512(self.b.weights.add($quad * QUAD).cast::<__m512i>());
                    for row in 0..R {
                        let four = self.a.add(row * self.stride + 4 * $quad).cast::<i32>().read_unaligned();
                        totals[$at][row] =
                            _mm512_dpbusd_epi32(totals[$at][row], _mm512_set1_epi32(four), weights);
                    }
                    if with_columns {
                        columns[$at] = _mm512_dpbusd_epi32(columns[$at], ones, weights);
                    }
                };
            }
            let whole = self.quads - self.quads % CHAINS;
            for quad in (0..whole).step_by(CHAINS) {
                for at in 0..CHAINS {
                    add!(quad + at, at);
                }
            }
            for quad in whole..self.quads {
                add!(quad, 0);
            }
            if let Some(to) = of_columns {
                let total = _mm512_add_epi32(
                    _mm512_add_epi32(columns[0], columns[1]),
                    _mm512_add_epi32(columns[2], columns[3]),
                );
                _mm512_storeu_si512(to.as_mut_ptr().cast::<__m512i>(), total);
            }
            for row in 0..R {
                let to = sums.as_mut_ptr().add(row).cast::<__m512i>();
                let mut total = _mm512_loadu_si512(to);
                for at in 0..CHAINS {
                    total = _mm512_add_epi32(total, totals[at][row]);
                }
                _mm512_storeu_si512(to, total);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const R: usize>(&self, rests: [&[Rest]; 2], sums: &mut Sums) {
        // SAFETY: as the caller of `add` promises.
        unsafe { self.eights::<R, false>(rests, sums) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,avxvnni")]
    unsafe fn avx_vnni<const R: usize>(&self, sums: &mut Sums) {
        // SAFETY: as the caller of `add` promises.
        unsafe { self.eights::<R, true>([&[]; 2], sums) }
    }

    /// Adds the products by vectors of eight sums: by `vpdpbusd`, or by instructions of AVX2.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn eights<const R: usize, const VNNI: bool>(&self, rests: [&[Rest]; 2], sums: &mut Sums) {
        use std::arch::x86_64::*;
        // SAFETY: as the caller of `add` promises.
        unsafe {
            let ones = _mm256_set1_epi16(1);
            let mut totals = [[_mm256_setzero_si256(); R]; 2];
            macro_rules! add {
                ($total:expr, $row:expr, $quad:expr, $weights:expr) => {
                    let from = self.a.add($row * self.stride + 4 * $quad).cast::<i32>();
                    let four = _mm256_set1_epi32(from.read_unaligned());
                    if VNNI {
                        $total = _mm256_dpbusd_avx_epi32($total, four, $weights);
                    } else {
                        let product = _mm256_madd_epi16(_mm256_maddubs_epi16(four, $weights), ones);
                        $total = _mm256_add_epi32($total, product);
                    }
                };
            }
            for quad in 0..self.quads {
                let from = self.b.weights.add(quad * QUAD).cast::<__m256i>();
                if R == 1 {
                    // With one row, each weight is used once, and the speed of the memory is the limit.
                    prefetch(from.wrapping_byte_add(AHEAD));
                }
                let weights = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
                for row in 0..R {
                    add!(totals[0][row], row, quad, weights[0]);
                    add!(totals[1][row], row, quad, weights[1]);
                }
            }
            for half in 0..2 {
                for rest in rests[half] {
                    let weights = _mm256_loadu_si256(rest.weights.as_ptr().cast());
                    for row in 0..R {
                        let from = self.a.add(row * self.stride + 4 * rest.quad as usize);
                        let four = _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
                        // The second elements of pairs, in 16 bits.
                        let product = _mm256_madd_epi16(_mm256_srli_epi16::<8>(four), weights);
                        totals[half][row] = _mm256_add_epi32(totals[half][row], product);
                    }
                }
                for row in 0..R {
                    let to = sums.as_mut_ptr().add(row).cast::<__m256i>().add(half);
                    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), totals[half][row]));
                }
            }
        }
    }
}

/// Adds the products of the same rows with four panels to their sums. A single row is loaded once for all of them.
///
/// # Safety
/// As for [`Quads::add`]; the products must have the same rows.
pub(super) unsafe fn add_four(products: &[(Quads, &Facts); 4], sums: &mut [Sums; 4]) {
    // SAFETY: as the caller promises, and the processor has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if has_vnni() && products[0].0.rows == 1 && products.iter().all(|(_, facts)| facts.whole) {
            return four_vnni(products, sums);
        }
        for ((product, facts), sums) in products.iter().zip(sums) {
            product.add(facts, sums);
        }
    }
}

// Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
#[allow(clippy::needless_range_loop)]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn four_vnni(products: &[(Quads, &Facts); 4], sums: &mut [Sums; 4]) {
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_si512, _mm512_storeu_si512,
    };
    let Quads { a, quads, .. } = products[0].0;
    let panels = products.each_ref().map(|(product, _)| product.b.weights.cast_const());
    // Two sums for each panel, so that an instruction does not wait for the one before.
    let mut totals = [[_mm512_setzero_si512(); 4]; 2];
    // SAFETY: as the caller promises; a quad is a vector.
    unsafe {
        macro_rules! add {
            ($quad:expr, $totals:expr) => {
                let four = _mm512_set1_epi32(a.add(4 * $quad).cast::<i32>().read_unaligned());
                for at in 0..4 {
                    let weights = _mm512_loadu_si512(panels[at].add($quad * QUAD).cast::<__m512i>());
                    $totals[at] = _mm512_dpbusd_epi32($totals[at], four, weights);
                }
            };
        }
        let even = quads - quads % 2;
        for quad in (0..even).step_by(2) {
            add!(quad, totals[0]);
            add!(quad + 1, totals[1]);
        }
        if even < quads {
            add!(even, totals[0]);
        }
        for at in 0..4 {
            let to = sums[at][0].as_mut_ptr().cast::<__m512i>();
            let total = _mm512_add_epi32(totals[0][at], totals[1][at]);
            _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_loadu_si512(to), total));
        }
    }
}

/// Returns whether weights with this inner dimension are multiplied where they are given, if this is subtracted from them.
/// Then they need no preparation but their totals, which [`Quads::add_with_totals`] computes as well.
pub(super) fn used_as_given(depth: usize, shift: u8) -> bool {
    has_vnni() && shift == 0 && depth.is_multiple_of(4)
}

/// Whether kernels may use `vpdpbusd` on whole vectors.
pub(super) fn has_vnni() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        Isa::running() == Isa::Avx512 && is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether kernels may use `vpdpbusd` on vectors of 32 bytes, and on no larger ones.
pub(super) fn has_avx_vnni() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        Isa::running() == Isa::Avx2 && is_x86_feature_detected!("avxvnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Prepares a panel of weights for products: gives them a sign by adding `shift` to their bits, replaces what fills up
/// the last quad by zeros, and splits pairs that are not light, unless the processor needs no such pairs. If nothing is
/// to be changed, the weights are used as they are given; see [`Facts::as_given`].
///
/// # Safety
/// The panel must have `depth` elements in each column, rounded up to a multiple of four, and `to` must have room for
/// [`Panel::WEIGHTS`] and [`Panel::RESTS`] bytes for each four of them.
pub(super) unsafe fn prepare(b: *const u8, depth: usize, shift: u8, to: Panel) -> Facts {
    let (quads, full) = (depth.div_ceil(4), depth / 4);
    let as_given = used_as_given(depth, shift);
    let whole = has_vnni() || has_avx_vnni();
    let mut facts = Facts { whole, as_given, ..Facts::default() };
    let mut preparation = Preparation { quads, shift, to, facts: &mut facts };
    // SAFETY: as the caller promises; any bytes are integers.
    unsafe {
        preparation.split(std::slice::from_raw_parts(b, full * QUAD), 0);
        if full < quads {
            let from = std::slice::from_raw_parts(b.add(full * QUAD), QUAD);
            let mut last = [shift.wrapping_neg(); QUAD];
            for (last, from) in last.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
                last[..depth % 4].copy_from_slice(&from[..depth % 4]);
            }
            preparation.split(&last, full);
        }
    }
    facts
}

/// What the preparation of a panel writes.
struct Preparation<'a> {
    quads: usize,
    shift: u8,
    to: Panel,
    facts: &'a mut Facts,
}

impl Preparation<'_> {
    /// Writes quads from number `first` on: weights of which all pairs are light, the rests, and the totals.
    ///
    /// # Safety
    /// The panel must have room for them.
    unsafe fn split(&mut self, from: &[u8], first: usize) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.facts.whole {
                return match Isa::running() {
                    Isa::Avx512 => self.copy_vnni(from, first),
                    _ => self.copy_avx2(from, first),
                };
            }
            #[cfg(target_arch = "x86_64")]
            if Isa::running() >= Isa::Avx2 {
                return self.split_avx2(from, first);
            }
            self.split_portable(from, first);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn copy_vnni(&mut self, from: &[u8], first: usize) {
        use std::arch::x86_64::{
            __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32,
            _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
        };
        // Adding 128 to a byte changes its highest bit only, and there is no other shift than 0 and 128.
        let shift = _mm512_set1_epi32(i32::from_ne_bytes([self.shift; 4]));
        // Several sums, so that an instruction does not wait for the one before.
        const CHAINS: usize = 4;
        let ones = _mm512_set1_epi32(0x0101_0101);
        let mut totals = [_mm512_setzero_si512(); CHAINS];
        // SAFETY: a quad is a vector, and the caller promises the room.
        unsafe {
            for (chunk, from) in from.chunks(CHAINS * QUAD).enumerate() {
                for ((at, from), total) in from.chunks_exact(QUAD).enumerate().zip(&mut totals) {
                    let weights =
                        _mm512_xor_si512(_mm512_loadu_si512(from.as_ptr().cast::<__m512i>()), shift);
                    *total = _mm512_dpbusd_epi32(*total, ones, weights);
                    if !self.facts.as_given {
                        let quad = first + chunk * CHAINS + at;
                        _mm512_storeu_si512(self.to.weights.add(quad * QUAD).cast::<__m512i>(), weights);
                    }
                }
            }
            let [a, b, c, d] = totals;
            let total = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
            let to = self.facts.totals.as_mut_ptr().cast::<__m512i>();
            _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_loadu_si512(to), total));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn copy_avx2(&mut self, from: &[u8], first: usize) {
        use std::arch::x86_64::*;
        let shift = _mm256_set1_epi8(self.shift.cast_signed());
        let ones = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
        let mut totals = [_mm256_setzero_si256(); 2];
        // SAFETY: half a quad is a vector, and the caller promises the room.
        unsafe {
            for (at, from) in from.chunks_exact(QUAD).enumerate() {
                let to = self.to.weights.add((first + at) * QUAD).cast::<__m256i>();
                for (half, total) in totals.iter_mut().enumerate() {
                    let weights = _mm256_loadu_si256(from.as_ptr().cast::<__m256i>().add(half));
                    let weights = _mm256_xor_si256(weights, shift);
                    // Sums of two weights fit into 16 bits.
                    let pairs = _mm256_maddubs_epi16(ones.0, weights);
                    *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, ones.1));
                    _mm256_storeu_si256(to.add(half), weights);
                }
            }
            for (half, total) in totals.into_iter().enumerate() {
                let to = self.facts.totals.as_mut_ptr().cast::<__m256i>().add(half);
                _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), total));
            }
        }
    }

    unsafe fn split_portable(&mut self, from: &[u8], first: usize) {
        for (at, from) in from.chunks_exact(HALF).enumerate() {
            let (quad, half) = (first + at / 2, at % 2);
            let mut rests = [0; HALF / 2];
            for (at, pair) in from.chunks_exact(2).enumerate() {
                let [left, right] =
                    [pair[0], pair[1]].map(|byte| byte.wrapping_add(self.shift).cast_signed());
                let sum = i16::from(left) + i16::from(right);
                self.facts.totals[half * COLUMNS / 2 + at / 2] += i32::from(sum);
                // If this is not zero, both weights have the same sign, and the absolute value of neither is smaller.
                let rest = sum - sum.clamp(-LIGHT, LIGHT);
                rests[at] = rest;
                // SAFETY: as the caller promises.
                unsafe {
                    let to = self.to.weights.add(quad * QUAD + half * HALF + 2 * at);
                    to.cast::<[i8; 2]>().write([left, (i16::from(right) - rest) as i8]);
                }
            }
            if rests != [0; HALF / 2] {
                // SAFETY: the list has room for all quads.
                unsafe { self.end(half).write(Rest { weights: rests, quad: quad as u32 }) };
                self.facts.rests[half] += 1;
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn split_avx2(&mut self, from: &[u8], first: usize) {
        use std::arch::x86_64::{
            __m256i, _mm256_add_epi8, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
            _mm256_maddubs_epi16, _mm256_max_epi16, _mm256_min_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
            _mm256_setzero_si256, _mm256_slli_epi16, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_epi16,
            _mm256_testz_si256,
        };
        let ones = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
        let (least, greatest) = (_mm256_set1_epi16(-LIGHT), _mm256_set1_epi16(LIGHT));
        let shift = _mm256_set1_epi8(self.shift.cast_signed());
        let mut totals = [_mm256_setzero_si256(); 2];
        // SAFETY: half a quad is a vector, and the caller promises the room.
        unsafe {
            for (at, from) in from.chunks_exact(QUAD).enumerate() {
                let quad = first + at;
                for (half, total) in totals.iter_mut().enumerate() {
                    let from = from.as_ptr().add(half * HALF).cast::<__m256i>();
                    let weights = _mm256_add_epi8(_mm256_loadu_si256(from), shift);
                    let pairs = _mm256_maddubs_epi16(ones.0, weights);
                    *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, ones.1));
                    let light = _mm256_min_epi16(_mm256_max_epi16(pairs, least), greatest);
                    let rests = _mm256_sub_epi16(pairs, light);
                    // The rest of a pair belongs to its second weight, which is the upper byte.
                    let upper = _mm256_slli_epi16::<8>(rests);
                    let to = self.to.weights.add(quad * QUAD + half * HALF).cast::<__m256i>();
                    _mm256_storeu_si256(to, _mm256_sub_epi8(weights, upper));
                    // It is written even if it is zero, and the next one then takes its place. A branch would often
                    // be predicted wrongly.
                    let end = self.end(half);
                    _mm256_storeu_si256((&raw mut (*end).weights).cast::<__m256i>(), rests);
                    (*end).quad = quad as u32;
                    self.facts.rests[half] += u32::from(_mm256_testz_si256(rests, rests) == 0);
                }
            }
            for (half, total) in totals.into_iter().enumerate() {
                let to = self.facts.totals.as_mut_ptr().cast::<__m256i>().add(half);
                _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), total));
            }
        }
    }

    /// Returns the end of a list of rests.
    fn end(&self, half: usize) -> *mut Rest {
        self.to.rests.wrapping_add(half * self.quads + self.facts.rests[half] as usize)
    }
}
