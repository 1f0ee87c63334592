//! Functions of one byte. A table holds their results for all 256 bytes.

use crate::lanes::Isa;

/// The results for all bytes.
#[derive(Clone, Copy)]
pub(super) struct Table(pub [u8; 256]);

impl Table {
    /// Writes the results for some bytes.
    ///
    /// # Safety
    /// The elements must be in bounds.
    pub(super) unsafe fn run(&self, from: *const u8, to: *mut u8, count: usize) {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx512
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
        {
            // SAFETY: as the caller promises, and the processor has the instructions.
            return unsafe { self.permuted(from, to, count) };
        }
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            // SAFETY: as above.
            return unsafe { self.shuffled(from, to, count) };
        }
        for at in 0..count {
            // SAFETY: as the caller promises.
            unsafe { *to.add(at) = self.0[usize::from(*from.add(at))] };
        }
    }

    /// # Safety
    /// As for [`Table::run`], and the processor must have these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn permuted(&self, from: *const u8, to: *mut u8, count: usize) {
        use std::arch::x86_64::*;
        const BYTES: usize = 64;
        // SAFETY: as the caller promises; bytes beyond the last one are neither read nor written.
        unsafe {
            let part = |at: usize| _mm512_loadu_si512(self.0.as_ptr().add(at * BYTES).cast());
            let parts = [part(0), part(1), part(2), part(3)];
            let mut at = 0;
            while at < count {
                let some = u64::MAX >> (BYTES - BYTES.min(count - at));
                let bytes = _mm512_maskz_loadu_epi8(some, from.add(at).cast());
                // One instruction finds an entry among 128 by the lower seven bits of a byte. Its highest bit then chooses
                // between the lower and the upper half of the table.
                let lower = _mm512_permutex2var_epi8(parts[0], bytes, parts[1]);
                let upper = _mm512_permutex2var_epi8(parts[2], bytes, parts[3]);
                let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), lower, upper);
                _mm512_mask_storeu_epi8(to.add(at).cast(), some, found);
                at += BYTES;
            }
        }
    }

    /// Looks bytes up among 16 entries at a time. The entries of each 16 are combined with those before them by exclusive or,
    /// and a byte takes one entry of its own 16 and of all before these, so that only the wanted one is left.
    ///
    /// # Safety
    /// As for [`Table::run`], and the processor must have these instructions.
    // Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
    #[allow(clippy::needless_range_loop)]
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn shuffled(&self, from: *const u8, to: *mut u8, count: usize) {
        use std::arch::x86_64::*;
        const PART: usize = 16;
        const VECTORS: usize = 4;
        const BYTES: usize = 32 * VECTORS;
        let (sixteen, highest) = (_mm256_set1_epi8(16), _mm256_set1_epi8(i8::MIN));
        let mut all = [0_u8; BYTES];
        let mut at = 0;
        while at < count {
            let some = BYTES.min(count - at);
            // SAFETY: as the caller promises; bytes beyond the last one are neither read nor written.
            unsafe {
                let mut source = from.add(at);
                if some < BYTES {
                    std::ptr::copy_nonoverlapping(source, all.as_mut_ptr(), some);
                    source = all.as_ptr();
                }
                let mut bytes = [_mm256_setzero_si256(); VECTORS];
                let mut found = bytes;
                for n in 0..VECTORS {
                    bytes[n] = _mm256_loadu_si256(source.cast::<__m256i>().add(n));
                }
                // As numbers with a sign, bytes of the upper half of the table are negative, for which no entry is taken. They
                // stay negative where numbers are subtracted.
                for half in 0..2 {
                    let mut places = bytes;
                    for n in 0..VECTORS {
                        if half == 1 {
                            places[n] = _mm256_xor_si256(bytes[n], highest);
                        }
                    }
                    let mut before = _mm_setzero_si128();
                    for part in 0..8 {
                        let entries = self.0.as_ptr().add(128 * half + PART * part).cast();
                        let entries = _mm_loadu_si128(entries);
                        let own = _mm256_broadcastsi128_si256(_mm_xor_si128(entries, before));
                        before = entries;
                        for n in 0..VECTORS {
                            found[n] = _mm256_xor_si256(found[n], _mm256_shuffle_epi8(own, places[n]));
                            places[n] = _mm256_subs_epi8(places[n], sixteen);
                        }
                    }
                }
                let target = if some < BYTES { all.as_mut_ptr() } else { to.add(at) };
                for n in 0..VECTORS {
                    _mm256_storeu_si256(target.cast::<__m256i>().add(n), found[n]);
                }
                if some < BYTES {
                    std::ptr::copy_nonoverlapping(all.as_ptr(), to.add(at), some);
                }
            }
            at += BYTES;
        }
    }
}
