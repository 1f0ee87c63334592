//! What sizes and attributes are drawn from: wide for verifying, narrow for small counter-examples.

use super::rng::Rng;
use super::value::LARGEST;
use ovolo::tensor::{DType, Layout};
use std::borrow::Cow;

/// What an instance is drawn from.
#[derive(Clone, Debug)]
pub(super) struct Palette {
    /// Sizes of an axis.
    pub sizes: Cow<'static, [usize]>,
    /// Sizes of the channels of an image: odd ones, ones that fill blocks and ones that do not.
    pub channels: Cow<'static, [usize]>,
    /// Rows and columns of an image.
    pub spatial: Cow<'static, [usize]>,
    /// How often in a hundred times an attribute is left at its default.
    pub defaults: usize,
    /// The most steps of a post chain.
    pub steps: usize,
    /// Values about zero only, whose text form is a seed.
    pub plain_values: bool,
    /// The highest rank that is drawn where the pattern does not say.
    pub rank: usize,
    /// Numbers that the rule's guards name, and what is next to them: drawn as often as the others.
    pub wishes: Cow<'static, [usize]>,
    /// Numbers that the rule holds, for float attributes and constants.
    pub numbers: Cow<'static, [f64]>,
    /// The most elements of a value.
    pub largest: usize,
}

/// The most elements that a wish makes a value have.
const LARGEST_WISHED: usize = 1 << 18;

impl Palette {
    /// For verifying.
    pub const WIDE: Self = Self {
        sizes: Cow::Borrowed(&[1, 1, 2, 3, 4, 5, 7, 17]),
        channels: Cow::Borrowed(&[1, 2, 3, 4, 8, 16, 16, 17, 32, 33]),
        spatial: Cow::Borrowed(&[1, 2, 3, 4, 5, 5, 6]),
        defaults: 35,
        steps: 2,
        plain_values: false,
        rank: 5,
        wishes: Cow::Borrowed(&[]),
        numbers: Cow::Borrowed(&[]),
        largest: LARGEST,
    };

    /// For counter-examples, the smallest first.
    pub const NARROW: [Self; 4] = [
        Self {
            sizes: Cow::Borrowed(&[1, 2]),
            channels: Cow::Borrowed(&[1, 2]),
            spatial: Cow::Borrowed(&[1, 2]),
            defaults: 90,
            steps: 1,
            plain_values: true,
            rank: 2,
            wishes: Cow::Borrowed(&[]),
            numbers: Cow::Borrowed(&[]),
            largest: LARGEST,
        },
        Self {
            sizes: Cow::Borrowed(&[1, 2, 3]),
            channels: Cow::Borrowed(&[1, 2, 3, 4]),
            spatial: Cow::Borrowed(&[1, 2, 3]),
            defaults: 70,
            steps: 1,
            plain_values: true,
            rank: 4,
            wishes: Cow::Borrowed(&[]),
            numbers: Cow::Borrowed(&[]),
            largest: LARGEST,
        },
        Self {
            sizes: Cow::Borrowed(&[1, 2, 3, 4]),
            channels: Cow::Borrowed(&[1, 2, 4, 8, 9]),
            spatial: Cow::Borrowed(&[1, 2, 3]),
            defaults: 60,
            steps: 2,
            plain_values: true,
            rank: 5,
            wishes: Cow::Borrowed(&[]),
            numbers: Cow::Borrowed(&[]),
            largest: LARGEST,
        },
        Self {
            sizes: Cow::Borrowed(&[1, 2, 3, 5]),
            channels: Cow::Borrowed(&[1, 8, 16, 17]),
            spatial: Cow::Borrowed(&[1, 2, 3]),
            defaults: 50,
            steps: 2,
            plain_values: false,
            rank: 5,
            wishes: Cow::Borrowed(&[]),
            numbers: Cow::Borrowed(&[]),
            largest: LARGEST,
        },
    ];

    /// The same with sizes that a rule asks for, and numbers that it holds.
    pub fn with(&self, wishes: &[usize], numbers: &[f64]) -> Self {
        let joined = |list: &[usize], most: usize| {
            let mut list = list.to_vec();
            list.extend(wishes.iter().filter(|wish| **wish <= most));
            Cow::Owned(list)
        };
        let most = wishes.iter().copied().max().unwrap_or(0);
        Self {
            sizes: joined(&self.sizes, usize::MAX),
            channels: joined(&self.channels, usize::MAX),
            // There are two of them, and channels beside them.
            spatial: joined(&self.spatial, 32),
            wishes: Cow::Owned(wishes.to_vec()),
            numbers: Cow::Owned(numbers.to_vec()),
            largest: self.largest.max(most.saturating_mul(64).min(LARGEST_WISHED)),
            ..*self
        }
    }

    /// A shape of this rank; four dimensions are an image's more often than not.
    pub fn shape(&self, rng: &mut Rng, rank: usize) -> Vec<usize> {
        if rank == 4 && rng.percent(75) {
            return vec![
                rng.pick(&[1, 1, 2]),
                rng.pick(&self.channels),
                rng.pick(&self.spatial),
                rng.pick(&self.spatial),
            ];
        }
        // With all sizes equal, a wrong axis gives the right type.
        if rng.percent(12) {
            return vec![rng.pick(&[2, 3]); rank];
        }
        // Sizes get smaller with the rank: the reference evaluation is slow.
        (0..rank)
            .map(|_| {
                let size = rng.pick(&self.sizes);
                if rank > 3 && !self.wishes.contains(&size) { size.min(4) } else { size }
            })
            .collect()
    }

    /// The rank of a value of which nothing is known.
    pub fn any_rank(&self, rng: &mut Rng) -> usize {
        rng.pick(&[0, 1, 2, 2, 3, 3, 4, 4, 4, 5]).min(self.rank)
    }

    /// A rank of which this is the least.
    pub fn rank_from(&self, rng: &mut Rng, least: usize) -> usize {
        match self.any_rank(rng) {
            rank if rank > least => rank,
            // Where few are as high, the next one is drawn as well.
            _ if least >= self.rank && rng.percent(40) => least + 1,
            _ => least,
        }
    }

    /// An element type; mostly the one that networks are made of.
    pub fn dtype(&self, rng: &mut Rng) -> DType {
        if rng.percent(55) { DType::F32 } else { rng.pick(&DType::ALL) }
    }

    /// A layout other than the default one.
    pub fn layout(&self, rng: &mut Rng, rank: usize) -> Option<Layout> {
        let names: &[&str] = match rank {
            2 => &["Ba32b", "ba"],
            3 => &["Bac4b"],
            4 => &["nChw16c", "nChw8c", "nChw16c", "nChw8c", "nhwc", "OIhw16i16o", "Ohwi8o"],
            _ => return None,
        };
        rng.pick(names).parse().ok()
    }

    /// Whether an attribute stays at its default.
    pub fn default(&self, rng: &mut Rng) -> bool {
        rng.percent(self.defaults)
    }
}

/// A shape that broadcasts to this one, itself among them. Now and then it has a dimension more, of
/// size 1, which shows in the result: a rule that does not see it gives another type.
pub(super) fn partner(rng: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let rank = shape.len();
    let mut partner = shape.to_vec();
    if rng.percent(4) {
        partner.fill(1);
        if let (Some(axis), true) = (rank.checked_sub(3), rng.percent(50)) {
            partner[axis] = shape[axis];
        }
        partner.insert(0, 1);
        return partner;
    }
    match rng.below(8) {
        0 | 1 => {}
        2 => partner = ones(rng, rank),
        3 => partner = shape[rng.below(rank + 1)..].to_vec(),
        4 if rank > 0 => {
            // One axis is kept: a value for each channel, mostly.
            let axis = if rank >= 3 && rng.percent(60) { rank - 3 } else { rng.below(rank) };
            partner = vec![1; rank];
            partner[axis] = shape[axis];
            if rng.percent(40) {
                partner.drain(..rng.below(axis + 1));
            }
        }
        5 if rank > 0 => partner = vec![shape[rank - 1]],
        _ => {
            for size in &mut partner {
                if rng.percent(40) {
                    *size = 1;
                }
            }
            if rng.percent(30) {
                partner.drain(..rng.below(rank + 1));
            }
        }
    }
    partner
}

/// The shape of a value of one element, for one of this rank: mostly without dimensions.
pub(super) fn ones(rng: &mut Rng, rank: usize) -> Vec<usize> {
    match rng.below(10) {
        0..=4 => Vec::new(),
        5 | 6 => vec![1; rank.min(1)],
        _ => vec![1; rng.below(rank + 1)],
    }
}

/// Two shapes that broadcast to this one together.
pub(super) fn pair(rng: &mut Rng, shape: &[usize]) -> (Vec<usize>, Vec<usize>) {
    match rng.below(10) {
        0..=2 => (shape.to_vec(), shape.to_vec()),
        3..=6 => (shape.to_vec(), partner(rng, shape)),
        7 | 8 => (partner(rng, shape), shape.to_vec()),
        _ => {
            // Neither has the result's shape.
            let (mut left, mut right) = (shape.to_vec(), shape.to_vec());
            for axis in 0..shape.len() {
                match rng.below(3) {
                    0 => left[axis] = 1,
                    1 => right[axis] = 1,
                    _ => {}
                }
            }
            (left, right)
        }
    }
}

/// The divisors of a number, the smallest first; of 0 as of 1.
pub(super) fn divisors(number: usize) -> Vec<usize> {
    let number = number.max(1);
    let mut divisors: Vec<usize> = (1..=number.isqrt()).filter(|d| number.is_multiple_of(*d)).collect();
    let large: Vec<usize> = divisors.iter().rev().map(|d| number / d).collect();
    divisors.extend(large);
    divisors.dedup();
    divisors
}

/// A shape of as many elements, of any rank up to 5.
pub(super) fn refactor(rng: &mut Rng, count: usize) -> Vec<usize> {
    let mut shape = Vec::new();
    let mut rest = count;
    for _ in 0..rng.below(4) {
        let size = rng.pick(&divisors(rest));
        shape.push(size);
        rest /= size.max(1);
    }
    if rest != 1 || rng.percent(30) {
        shape.insert(rng.below(shape.len() + 1), rest);
    }
    shape
}
