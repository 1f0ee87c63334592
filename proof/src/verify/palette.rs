//! The sets from which sizes and attributes are drawn: wide ones for verifying, narrow ones for small
//! counterexamples.

use super::rng::Rng;
use ovolo::tensor::{DType, Layout};
use std::borrow::Cow;

/// The most elements of a value that is evaluated, because the reference is slow.
pub(super) const LARGEST: usize = 20_000;

/// The element types with which rules are verified: one for each way in which ops compute. Others differ from one of
/// them only in their width.
pub(crate) const DTYPES: [DType; 9] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// The sets from which an instance is drawn.
#[derive(Clone, Debug)]
pub(super) struct Palette {
    /// Sizes of an axis.
    pub sizes: Cow<'static, [usize]>,
    /// Numbers of channels of an image: odd ones, and ones that do or do not fill blocks.
    pub channels: Cow<'static, [usize]>,
    /// Numbers of rows and columns of an image.
    pub spatial: Cow<'static, [usize]>,
    /// The percentage of attributes that stay at their default.
    pub defaults: usize,
    /// The most steps of a post chain.
    pub steps: usize,
    /// Whether values are the text form's random ones, whose text is only a seed.
    pub plain_values: bool,
    /// The highest rank that is drawn if the pattern does not determine it.
    pub rank: usize,
    /// Numbers in the rule's guards and their neighbours; they are drawn as often as the other sizes.
    pub wishes: Cow<'static, [usize]>,
    /// Numbers in the rule, for float attributes and constants.
    pub numbers: Cow<'static, [f64]>,
    /// The most elements of a value.
    pub largest: usize,
}

/// The largest limit on elements that numbers in guards can cause.
const LARGEST_WISHED: usize = 1 << 18;

impl Palette {
    /// The palette for verifying.
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

    /// The palettes for counterexamples, the narrowest first.
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

    /// Returns the palette with the sizes that a rule asks for, and the numbers in the rule.
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
            // An image has two such sizes and its channels, so these stay small.
            spatial: joined(&self.spatial, 32),
            wishes: Cow::Owned(wishes.to_vec()),
            numbers: Cow::Owned(numbers.to_vec()),
            largest: self.largest.max(most.saturating_mul(64).min(LARGEST_WISHED)),
            ..*self
        }
    }

    /// Draws a shape of this rank; shapes of rank 4 are mostly those of an image.
    pub fn shape(&self, rng: &mut Rng, rank: usize) -> Vec<usize> {
        if rank == 4 && rng.percent(75) {
            return vec![
                rng.pick(&[1, 1, 2]),
                rng.pick(&self.channels),
                rng.pick(&self.spatial),
                rng.pick(&self.spatial),
            ];
        }
        // If all sizes are equal, a wrong axis still gives the right type, so it must be found by value.
        if rng.percent(12) {
            return vec![rng.pick(&[2, 3]); rank];
        }
        // Sizes get smaller as the rank grows, because the reference evaluation is slow.
        (0..rank)
            .map(|_| {
                let size = rng.pick(&self.sizes);
                if rank > 3 && !self.wishes.contains(&size) { size.min(4) } else { size }
            })
            .collect()
    }

    /// Draws the rank of a value about which nothing is known.
    pub fn any_rank(&self, rng: &mut Rng) -> usize {
        rng.pick(&[0, 1, 2, 2, 3, 3, 4, 4, 4, 5]).min(self.rank)
    }

    /// Draws a rank of at least `least`.
    pub fn rank_from(&self, rng: &mut Rng, least: usize) -> usize {
        match self.any_rank(rng) {
            rank if rank > least => rank,
            // Few drawn ranks are that high, so the next one is used as well.
            _ if least >= self.rank && rng.percent(40) => least + 1,
            _ => least,
        }
    }

    /// Draws an element type, mostly `f32`.
    pub fn dtype(&self, rng: &mut Rng) -> DType {
        if rng.percent(55) { DType::F32 } else { rng.pick(&DTYPES) }
    }

    /// Draws a layout other than the default one.
    pub fn layout(&self, rng: &mut Rng, rank: usize) -> Option<Layout> {
        let names: &[&str] = match rank {
            2 => &["Ba32b", "ba"],
            3 => &["Bac4b"],
            4 => &["nChw16c", "nChw8c", "nChw16c", "nChw8c", "nhwc", "OIhw16i16o", "Ohwi8o"],
            _ => return None,
        };
        rng.pick(names).parse().ok()
    }

    /// Decides whether an attribute stays at its default.
    pub fn default(&self, rng: &mut Rng) -> bool {
        rng.percent(self.defaults)
    }
}

/// Draws a shape that broadcasts to this one, possibly the same. Sometimes it has one more dimension of size
/// 1, which shows in the result: a rule that overlooks it gives another type.
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
            // Keep one axis: mostly the channels.
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

/// Draws a shape with one element, for use beside a value of this rank; mostly of rank 0.
pub(super) fn ones(rng: &mut Rng, rank: usize) -> Vec<usize> {
    match rng.below(10) {
        0..=4 => Vec::new(),
        5 | 6 => vec![1; rank.min(1)],
        _ => vec![1; rng.below(rank + 1)],
    }
}

/// Draws two shapes that together broadcast to this one.
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

/// The divisors of a number in ascending order; those of 0 are those of 1.
pub(super) fn divisors(number: usize) -> Vec<usize> {
    let number = number.max(1);
    let mut divisors: Vec<usize> = (1..=number.isqrt()).filter(|d| number.is_multiple_of(*d)).collect();
    let large: Vec<usize> = divisors.iter().rev().map(|d| number / d).collect();
    divisors.extend(large);
    divisors.dedup();
    divisors
}

/// Draws a shape with `count` elements and a rank of at most 5.
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
