//! A table of states: bit sets of equal width, each once, with the cheapest way to reach it.

/// Bits of a state, all with the same number of words.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    words: usize,
    keys: Vec<u64>,
    pub cost: Vec<f64>,
    /// For each state, the state from which it was made.
    pub from: Vec<u32>,
    /// For each state, the option by which it was made.
    pub option: Vec<u32>,
    /// The hash table with open addressing: zero for an empty bucket, otherwise the index plus one.
    buckets: Vec<u32>,
}

impl Table {
    pub(crate) fn new(words: usize) -> Self {
        Self { words, buckets: vec![0; 64], ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.cost.len()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.cost.clear();
        self.from.clear();
        self.option.clear();
        self.buckets.fill(0);
    }

    pub(crate) fn key(&self, at: usize) -> &[u64] {
        &self.keys[at * self.words..][..self.words]
    }

    /// Returns the bits of a range of states, one state after the other.
    pub(crate) fn keys(&self, range: std::ops::Range<usize>) -> &[u64] {
        &self.keys[range.start * self.words..range.end * self.words]
    }

    /// Adds a state, or keeps the cheaper way to reach it; of equally cheap ways, the first.
    pub(crate) fn insert(&mut self, key: &[u64], cost: f64, from: u32, option: u32) {
        if self.buckets.len() < 2 * (self.len() + 1) {
            let size = 4 * self.buckets.len();
            self.buckets.clear();
            self.buckets.resize(size, 0);
            for at in 0..self.len() {
                let bucket = self.find(&self.keys[at * self.words..][..self.words]);
                self.buckets[bucket] = at as u32 + 1;
            }
        }
        let bucket = self.find(key);
        match self.buckets[bucket] as usize {
            0 => {
                self.keys.extend_from_slice(key);
                self.cost.push(cost);
                self.from.push(from);
                self.option.push(option);
                self.buckets[bucket] = self.len() as u32;
            }
            at => {
                if cost < self.cost[at - 1] {
                    (self.cost[at - 1], self.from[at - 1], self.option[at - 1]) = (cost, from, option);
                }
            }
        }
    }

    fn find(&self, key: &[u64]) -> usize {
        let mask = self.buckets.len() - 1;
        let hash = key
            .iter()
            .fold(0_u64, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bucket = (hash >> 20) as usize & mask;
        loop {
            match self.buckets[bucket] as usize {
                0 => return bucket,
                at if self.key(at - 1) == key => return bucket,
                _ => bucket = (bucket + 1) & mask,
            }
        }
    }
}
