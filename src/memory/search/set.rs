//! Sets of tasks as bits.

/// A set of numbers below 64 times `N`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Set<const N: usize>([u64; N]);

impl<const N: usize> Set<N> {
    pub(super) const EMPTY: Self = Self([0; N]);

    pub(super) fn contains(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn with(mut self, at: usize) -> Self {
        self.insert(at);
        self
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(one, two)| one & two != 0)
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one & !two == 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the numbers in the set, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + use<N> {
        let words = self.0;
        words.into_iter().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(64 * at + bit)
            })
        })
    }
}
