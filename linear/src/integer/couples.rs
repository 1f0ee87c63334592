//! Panels for `vpmaddubsw` whose quads are multiplied two at a time, so that two vectors of products are added in 16 bits.
//!
//! `vpmaddubsw` multiplies 32 unsigned bytes by 32 signed ones, and adds adjacent products in 16 bits. As bytes are at most 255,
//! 16 bits hold a sum of products if the positive weights add up to at most 128, and the negative ones to at least -128: we
//! call such weights *light*. With four products in a sum in place of two, 32 sums take five instructions and not six. So we
//! look for *couples* of quads that are light together. Quads are added in any order, so that each may have one of many as
//! its partner.
//!
//! Two weights of one sign may be heavy alone. For any byte `x` and weight `w`, `x w = (255 - x) (-w) + 255 w`. So the second
//! weight of each such pair is *turned*: it gets the other sign, and a mask inverts the bits of its byte. The terms `255 w`
//! are the same for all rows; they are part of what is added to the sums of the column. A quad with a mask takes one
//! instruction more. All sums are exact.
//!
//! Half a panel (eight columns) is a sequence of parts, and each part has up to [`PART`] quads. A part has the number of its
//! records of each [kind](Kind), and then the records: for each quad its mask, if it has one, and its weights, and then the
//! quads' places in a row, in bytes.

#[cfg(target_arch = "x86_64")]
use super::quad::QUAD;
use super::quad::{COLUMNS, Facts, Panel, has_avx_vnni, has_vnni};
use crate::lanes::Isa;

/// The most quads of a part.
pub(super) const PART: usize = 252;
/// The columns of half a panel.
pub(super) const HALF_COLUMNS: usize = COLUMNS / 2;
/// The bytes of a vector.
const VECTOR: usize = 32;
/// The bytes at the beginning of a part: how many records of each kind there are.
pub(super) const HEADER: usize = 8;
/// The largest sum of the weights of one sign that are added in 16 bits.
#[cfg(target_arch = "x86_64")]
const LIGHT: i8 = 128_u8.cast_signed();
/// The quads that are tried as a partner of another one.
#[cfg(target_arch = "x86_64")]
const TRIES: usize = 12;

/// A kind of records. Of the quads of a record, the first ones have a mask.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub quads: usize,
    pub masks: usize,
}

/// The kinds, in the order of their records.
pub(super) const KINDS: [Kind; 5] = [
    Kind { quads: 2, masks: 0 },
    Kind { quads: 2, masks: 1 },
    Kind { quads: 2, masks: 2 },
    Kind { quads: 1, masks: 1 },
    Kind { quads: 1, masks: 0 },
];

impl Kind {
    /// The bytes of a record.
    pub(super) const fn bytes(self) -> usize {
        (self.quads + self.masks) * VECTOR + self.quads * size_of::<u32>()
    }
}

/// The most bytes of half a panel for each quad. A part may have a single quad.
const BYTES: usize = KINDS[3].bytes() + HEADER;

const _: () = assert!(KINDS[2].bytes() <= 2 * BYTES && KINDS[1].bytes() <= 2 * BYTES);
const _: () = assert!(2 * BYTES <= Panel::COUPLES + Panel::WEIGHTS + Panel::RESTS);

/// Returns where a half of a panel with this many quads begins.
pub(super) fn half_of(panel: *const u8, half: usize, quads: usize) -> *const u8 {
    panel.wrapping_add(half * quads * BYTES)
}

/// Returns whether panels of couples are faster than others: with AVX2 and without `vpdpbusd`.
pub(super) fn is_supported() -> bool {
    cfg!(target_arch = "x86_64") && Isa::running() >= Isa::Avx2 && !has_vnni() && !has_avx_vnni()
}

/// Writes a panel as couples of quads, and returns the facts about it. `of_tap` is the number of quads that lie together in a
/// row; the partner of a quad is one of them. Returns `None` if a quad is heavy
/// even after weights are turned, or if couples are not [supported](is_supported).
///
/// # Safety
/// The panel must have this many quads, and `to` must have room for [`Panel::WEIGHTS`], [`Panel::RESTS`] and
/// [`Panel::COUPLES`] bytes for each of them.
pub(super) unsafe fn couple(
    b: *const u8,
    quads: usize,
    of_tap: usize,
    shift: u8,
    to: *mut u8,
) -> Option<Facts> {
    debug_assert!(quads.is_multiple_of(of_tap));
    #[cfg(target_arch = "x86_64")]
    if is_supported() {
        let mut facts = Facts::of_couples();
        let mut part = avx2::Part::new();
        for half in 0..2 {
            let mut to = half_of(to, half, quads).cast_mut();
            for tap in (0..quads).step_by(of_tap) {
                let parts = of_tap.div_ceil(PART);
                for at in 0..parts {
                    let (first, end) = (of_tap * at / parts, of_tap * (at + 1) / parts);
                    // SAFETY: the quads are those of the panel, the caller promises the room, and there is AVX2.
                    unsafe {
                        let from = b.add((tap + first) * QUAD + half * VECTOR);
                        if !part.read(from, end - first, shift, half, &mut facts) {
                            return None;
                        }
                        to = part.write(first, to);
                    }
                }
            }
        }
        return Some(facts);
    }
    let _ = (b, of_tap, shift, to);
    None
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Facts, HALF_COLUMNS, HEADER, KINDS, LIGHT, PART, QUAD, TRIES, VECTOR};
    use std::arch::x86_64::*;

    /// The numbers of some quads of a part.
    struct List {
        quads: [u8; PART],
        count: usize,
    }

    impl List {
        const EMPTY: Self = Self { quads: [0; PART], count: 0 };

        fn push(&mut self, quad: u8) {
            self.quads[self.count] = quad;
            self.count += 1;
        }

        /// Returns the last quad, which is no more in the list.
        fn pop(&mut self) -> Option<u8> {
            self.count = self.count.checked_sub(1)?;
            Some(self.quads[self.count])
        }

        /// Returns one of the last quads for which a condition holds, which is no more in the list.
        #[inline(always)]
        fn find(&mut self, fits: impl Fn(u8) -> bool) -> Option<u8> {
            let last = self.count.checked_sub(1)?;
            for at in (0..=last).rev().take(TRIES) {
                let quad = self.quads[at];
                if fits(quad) {
                    self.quads[at] = self.quads[last];
                    self.count = last;
                    return Some(quad);
                }
            }
            None
        }
    }

    /// A part that is made.
    pub(super) struct Part {
        /// For each quad and each pair of its weights the sum of its positive weights, and minus the sum of its negative ones.
        loads: [[u8; VECTOR]; PART],
        masks: [[u8; VECTOR]; PART],
        weights: [[u8; VECTOR]; PART],
        /// The quads that have a mask, and those that have none.
        masked: List,
        plain: List,
    }

    impl Part {
        pub(super) fn new() -> Self {
            let vectors = [[0; VECTOR]; PART];
            let (masked, plain) = (List::EMPTY, List::EMPTY);
            Self { loads: vectors, masks: vectors, weights: vectors, masked, plain }
        }

        /// Reads the quads of half a panel, turns what is heavy alone, and adds to the totals of the columns and to what is
        /// added to their sums. Returns `false` if a quad is still heavy.
        ///
        /// # Safety
        /// All quads must be in bounds, and the processor must have AVX2.
        #[target_feature(enable = "avx2")]
        pub(super) unsafe fn read(
            &mut self,
            from: *const u8,
            count: usize,
            shift: u8,
            half: usize,
            facts: &mut Facts,
        ) -> bool {
            let shift = _mm256_set1_epi8(shift.cast_signed());
            let (zero, bytes, words) = (_mm256_setzero_si256(), _mm256_set1_epi8(1), _mm256_set1_epi16(1));
            let light = _mm256_set1_epi8(LIGHT);
            let mut totals = zero;
            let mut turned = zero;
            // Returns the sums of the positive and of the negative weights of pairs, as bytes and as words.
            let loads = |weights: __m256i| {
                let positive = _mm256_max_epi8(weights, zero);
                let negative = _mm256_sub_epi8(zero, _mm256_min_epi8(weights, zero));
                let [positive, negative] =
                    [positive, negative].map(|magnitudes| _mm256_maddubs_epi16(magnitudes, bytes));
                (_mm256_packus_epi16(positive, negative), positive, negative)
            };
            let is_light = |loads: __m256i| {
                let over = _mm256_subs_epu8(loads, light);
                _mm256_testz_si256(over, over) == 1
            };
            // SAFETY: as the caller promises; half a quad is a vector.
            unsafe {
                for at in 0..count {
                    let weights =
                        _mm256_xor_si256(_mm256_loadu_si256(from.add(at * QUAD).cast::<__m256i>()), shift);
                    let pairs = _mm256_maddubs_epi16(bytes, weights);
                    totals = _mm256_add_epi32(totals, _mm256_madd_epi16(pairs, words));
                    let (mut load, positive, negative) = loads(weights);
                    let mut own = weights;
                    if is_light(load) {
                        self.plain.push(at as u8);
                    } else {
                        // A pair is turned if both weights have one sign, or one of them is zero. A weight of -128 is not turned, because a
                        // signed byte cannot hold 128.
                        let same = _mm256_cmpeq_epi16(_mm256_min_epi16(positive, negative), zero);
                        let second = _mm256_slli_epi16::<8>(same);
                        let mask = _mm256_andnot_si256(_mm256_cmpeq_epi8(weights, light), second);
                        own = _mm256_sub_epi8(_mm256_xor_si256(weights, mask), mask);
                        (load, ..) = loads(own);
                        if !is_light(load) {
                            return false;
                        }
                        let moved = _mm256_maddubs_epi16(bytes, _mm256_and_si256(weights, mask));
                        turned = _mm256_add_epi32(turned, _mm256_madd_epi16(moved, _mm256_set1_epi16(255)));
                        self.masked.push(at as u8);
                        _mm256_storeu_si256(self.masks[at].as_mut_ptr().cast(), mask);
                    }
                    _mm256_storeu_si256(self.weights[at].as_mut_ptr().cast(), own);
                    _mm256_storeu_si256(self.loads[at].as_mut_ptr().cast(), load);
                }
                for (sums, more) in [(&mut facts.totals, totals), (&mut facts.turned, turned)] {
                    let sums = sums.as_mut_ptr().add(half * HALF_COLUMNS).cast::<__m256i>();
                    _mm256_storeu_si256(sums, _mm256_add_epi32(_mm256_loadu_si256(sums), more));
                }
            }
            true
        }

        /// Returns whether two quads are light together.
        #[target_feature(enable = "avx2")]
        #[inline]
        fn fit(&self, one: u8, other: u8) -> bool {
            // SAFETY: the loads of a quad are a vector.
            let [one, other] = [one, other]
                .map(|quad| unsafe { _mm256_loadu_si256(self.loads[usize::from(quad)].as_ptr().cast()) });
            let over = _mm256_subs_epu8(_mm256_adds_epu8(one, other), _mm256_set1_epi8(LIGHT));
            _mm256_testz_si256(over, over) == 1
        }

        /// Finds partners, writes the part and returns its end. `first` is the number of its first quad.
        ///
        /// # Safety
        /// There must be room for the part, and the processor must have AVX2.
        #[target_feature(enable = "avx2")]
        pub(super) unsafe fn write(&mut self, first: usize, to: *mut u8) -> *mut u8 {
            // The records of each kind: two quads, or the same one twice.
            let mut records = [const { [[0_u8; 2]; PART] }; KINDS.len()];
            let mut counts = [0_usize; KINDS.len()];
            let mut add = |kind: usize, quads: [u8; 2]| {
                records[kind][counts[kind]] = quads;
                counts[kind] += 1;
            };
            let (mut masked, mut plain) = (List::EMPTY, List::EMPTY);
            std::mem::swap(&mut masked, &mut self.masked);
            std::mem::swap(&mut plain, &mut self.plain);
            let mut alone = List::EMPTY;
            // Quads with masks are the first to look for partners without one, because a couple with two masks takes longer.
            while let Some(one) = masked.pop() {
                match plain.find(|other| self.fit(one, other)) {
                    Some(other) => add(1, [one, other]),
                    None => alone.push(one),
                }
            }
            for (mut list, [couple, single]) in [(plain, [0, 4]), (alone, [2, 3])] {
                while let Some(one) = list.pop() {
                    match list.find(|other| self.fit(one, other)) {
                        Some(other) => add(couple, [one, other]),
                        None => add(single, [one; 2]),
                    }
                }
            }
            // SAFETY: the caller promises the room.
            unsafe {
                for (at, count) in counts.iter().enumerate() {
                    to.add(at).write(*count as u8);
                }
                let mut to = to.add(HEADER);
                for (kind, (records, count)) in KINDS.iter().zip(records.iter().zip(counts)) {
                    for record in &records[..count] {
                        for (at, quad) in record[..kind.quads].iter().map(|at| usize::from(*at)).enumerate() {
                            if at < kind.masks {
                                to.cast::<[u8; VECTOR]>().write(self.masks[quad]);
                                to = to.add(VECTOR);
                            }
                            to.cast::<[u8; VECTOR]>().write(self.weights[quad]);
                            to = to.add(VECTOR);
                        }
                        for quad in &record[..kind.quads] {
                            let place = 4 * (first + usize::from(*quad));
                            to.cast::<u32>().write_unaligned(place as u32);
                            to = to.add(size_of::<u32>());
                        }
                    }
                }
                to
            }
        }
    }
}
