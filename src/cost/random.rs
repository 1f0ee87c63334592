//! Seeded random numbers, which are the same on every machine.

/// Returns the number that follows from a state, by SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom
/// Number Generators, OOPSLA 2014).
pub(super) fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(STEP);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of random numbers.
pub(super) struct Random(pub u64);

impl Random {
    /// Returns a number below `end`, which must be at least 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits % end
    }
}
