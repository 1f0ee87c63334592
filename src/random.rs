//! Seeded random numbers, which are the same on every machine: SplitMix64 (Steele, Lea and Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014), and the hash FNV-1a, which makes seeds of names.

/// The distance between the states of a sequence: 2^64 divided by the golden ratio, as an odd number.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of an empty text.
pub(crate) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the number that a state gives: the output function of SplitMix64.
pub(crate) fn mix(state: u64) -> u64 {
    let mut bits = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns the hash FNV-1a of a text, beginning with the hash of what stands before it, or with [`EMPTY`].
pub(crate) fn hash(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A sequence of random numbers, by its state.
pub(crate) struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Returns a number below `end`, which must be at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }
}
