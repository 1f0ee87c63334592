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
}
