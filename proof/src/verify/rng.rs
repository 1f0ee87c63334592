//! Seeded randomness: the same on every machine and for any number of threads.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// Returns a stream for a seed, a name and a number. Each rule and attempt has its own, so the results do
    /// not depend on the order in which rules are taken.
    pub fn new(seed: u64, name: &str, number: u64) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut rng = Self(seed ^ hash.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.word();
        rng
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must be at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }

    /// Returns true in `often` percent of the calls.
    pub fn percent(&mut self, often: usize) -> bool {
        self.below(100) < often
    }

    /// Returns one of the elements.
    pub fn pick<T: Clone>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())].clone()
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}
