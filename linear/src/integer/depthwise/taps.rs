//! Sums of products of bytes with weights of 16 bits, of which each channel has its own.
//!
//! Two taps of a window are multiplied at a time: adjacent 16-bit numbers are their bytes of one channel, and
//! `vpmaddwd` multiplies and adds each such pair exactly.

/// The most channels that are computed at once.
pub(super) const LANES: usize = 32;
/// The channels that are computed at once with AVX2.
pub(super) const HALF: usize = 16;

/// Pairs of weights: those of two taps for each channel, one pair of taps after another.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    pub from: *const [i16; 2],
    /// The number of channels, which is the distance between pairs of taps.
    pub channels: usize,
    /// The number of taps. If it is odd, the last weights are zero.
    pub taps: usize,
    /// What is added to the sums of each channel.
    pub constants: *const i32,
    /// Whether bytes have a sign.
    pub signed: bool,
}

impl Pairs {
    /// Returns the two taps of a pair, both the last one where there is only one.
    #[inline(always)]
    fn of(&self, pair: usize) -> [usize; 2] {
        [2 * pair, (2 * pair + 1).min(self.taps - 1)]
    }

    /// Writes the sums of some pixels for `lanes` channels from `channel` on. `place` returns where the first of these
    /// channels lies for a tap and a pixel.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[inline(always)]
    pub(super) unsafe fn portable<const P: usize>(
        &self,
        channel: usize,
        lanes: usize,
        place: impl Fn(usize, usize) -> *const u8,
        sums: &mut [[i32; LANES]],
    ) {
        for (at, sums) in sums.iter_mut().enumerate().take(P) {
            for (lane, sum) in sums.iter_mut().enumerate().take(lanes) {
                // SAFETY: as the caller promises.
                *sum = unsafe {
                    let mut own = *self.constants.add(channel + lane);
                    for pair in 0..self.taps.div_ceil(2) {
                        let weights = *self.from.add(pair * self.channels + channel + lane);
                        for (tap, weight) in self.of(pair).into_iter().zip(weights) {
                            let byte = *place(tap, at).add(lane);
                            let byte =
                                if self.signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
                            own = own.wrapping_add(byte * i32::from(weight));
                        }
                    }
                    own
                };
            }
        }
    }

    /// The same for [`HALF`] channels.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[cfg(target_arch = "x86_64")]
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<const P: usize, const SIGNED: bool>(
        &self,
        channel: usize,
        place: impl Fn(usize, usize) -> *const u8,
        sums: &mut [[i32; LANES]],
    ) {
        use std::arch::x86_64::*;
        // SAFETY: as the caller promises.
        unsafe {
            // The sums of channels 0 to 3 and 8 to 11, and those of 4 to 7 and 12 to 15.
            let mut low = [_mm256_setzero_si256(); P];
            let mut high = [_mm256_setzero_si256(); P];
            for pair in 0..self.taps.div_ceil(2) {
                let weights = self.from.add(pair * self.channels + channel).cast::<__m256i>();
                let weights = [_mm256_loadu_si256(weights), _mm256_loadu_si256(weights.add(1))];
                let low_weights = _mm256_permute2x128_si256::<0x20>(weights[0], weights[1]);
                let high_weights = _mm256_permute2x128_si256::<0x31>(weights[0], weights[1]);
                let [first, second] = self.of(pair);
                for at in 0..P {
                    let a = _mm_loadu_si128(place(first, at).cast());
                    let b = _mm_loadu_si128(place(second, at).cast());
                    let (a, b) = match SIGNED {
                        true => (_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b)),
                        false => (_mm256_cvtepu8_epi16(a), _mm256_cvtepu8_epi16(b)),
                    };
                    let products = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), low_weights);
                    low[at] = _mm256_add_epi32(low[at], products);
                    let products = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), high_weights);
                    high[at] = _mm256_add_epi32(high[at], products);
                }
            }
            let constants = self.constants.add(channel).cast::<__m256i>();
            let constants = [_mm256_loadu_si256(constants), _mm256_loadu_si256(constants.add(1))];
            for at in 0..P {
                let to = sums[at].as_mut_ptr().cast::<__m256i>();
                let first = _mm256_permute2x128_si256::<0x20>(low[at], high[at]);
                _mm256_storeu_si256(to, _mm256_add_epi32(first, constants[0]));
                let second = _mm256_permute2x128_si256::<0x31>(low[at], high[at]);
                _mm256_storeu_si256(to.add(1), _mm256_add_epi32(second, constants[1]));
            }
        }
    }

    /// The same for [`LANES`] channels.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[cfg(target_arch = "x86_64")]
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn avx512<const P: usize, const SIGNED: bool>(
        &self,
        channel: usize,
        place: impl Fn(usize, usize) -> *const u8,
        sums: &mut [[i32; LANES]],
    ) {
        use std::arch::x86_64::*;
        // Interleaving works within each 128 bits, so one vector has the sums of the first four of every eight channels, and
        // another one has those of the other four.
        const LOW: [i32; 16] = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        const HIGH: [i32; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31];
        const FIRST: [i32; 16] = [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23];
        const SECOND: [i32; 16] = [8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31];
        // SAFETY: as the caller promises.
        unsafe {
            let order = |order: &[i32; 16]| _mm512_loadu_si512(order.as_ptr().cast::<__m512i>());
            let (to_low, to_high) = (order(&LOW), order(&HIGH));
            let mut low = [_mm512_setzero_si512(); P];
            let mut high = [_mm512_setzero_si512(); P];
            for pair in 0..self.taps.div_ceil(2) {
                let weights = self.from.add(pair * self.channels + channel).cast::<__m512i>();
                let weights = [_mm512_loadu_si512(weights), _mm512_loadu_si512(weights.add(1))];
                let low_weights = _mm512_permutex2var_epi32(weights[0], to_low, weights[1]);
                let high_weights = _mm512_permutex2var_epi32(weights[0], to_high, weights[1]);
                let [first, second] = self.of(pair);
                for at in 0..P {
                    let a = _mm256_loadu_si256(place(first, at).cast());
                    let b = _mm256_loadu_si256(place(second, at).cast());
                    let (a, b) = match SIGNED {
                        true => (_mm512_cvtepi8_epi16(a), _mm512_cvtepi8_epi16(b)),
                        false => (_mm512_cvtepu8_epi16(a), _mm512_cvtepu8_epi16(b)),
                    };
                    let products = _mm512_madd_epi16(_mm512_unpacklo_epi16(a, b), low_weights);
                    low[at] = _mm512_add_epi32(low[at], products);
                    let products = _mm512_madd_epi16(_mm512_unpackhi_epi16(a, b), high_weights);
                    high[at] = _mm512_add_epi32(high[at], products);
                }
            }
            let constants = self.constants.add(channel).cast::<__m512i>();
            let constants = [_mm512_loadu_si512(constants), _mm512_loadu_si512(constants.add(1))];
            for at in 0..P {
                let to = sums[at].as_mut_ptr().cast::<__m512i>();
                let first = _mm512_permutex2var_epi32(low[at], order(&FIRST), high[at]);
                _mm512_storeu_si512(to, _mm512_add_epi32(first, constants[0]));
                let second = _mm512_permutex2var_epi32(low[at], order(&SECOND), high[at]);
                _mm512_storeu_si512(to.add(1), _mm512_add_epi32(second, constants[1]));
            }
        }
    }
}
