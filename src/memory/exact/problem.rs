//! The problem that the search solves: slices of time, and sizes in a common unit.

use crate::memory::Buffer;

/// A buffer in the form that the search needs.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The index of the buffer.
    pub buffer: usize,
    /// The buffer itself.
    pub given: Buffer,
    /// The first slice in which it is live.
    pub first: usize,
    /// The first slice after that in which it is no longer live.
    pub end: usize,
    /// Its size in units, rounded up to the grid that all offsets are on.
    pub size: i64,
    /// The alignment of its offset, in units.
    pub align: i64,
}

/// Buffers that are connected in time.
///
/// Time is divided into slices. Only slices with at least as many live buffers as the adjacent ones are kept: buffers
/// that do not overlap in these do not overlap anywhere.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// Its buffers.
    pub items: Vec<Item>,
    /// The items that are live in each slice.
    pub slices: Vec<Vec<usize>>,
    /// The bytes of a unit. If no buffer of a packing can move down, all offsets are multiples of it.
    pub unit: usize,
    /// Whether sizes and alignments allow any two buffers, one directly on the other, to exchange places.
    pub regular: bool,
    /// The largest difference between a rounded size and the true size, in units.
    pub ease: i64,
    /// The items that begin in each slice.
    begin: Vec<Vec<usize>>,
    /// The number of steps that one question counts as: one, if it touches few items in few slices.
    pub worth: u64,
}

/// The visits of items that count as one step, which take some tens of microseconds.
const VISITS: usize = 2_560;

impl Problem {
    /// Returns the peak of these offsets, in bytes.
    pub(crate) fn peak(&self, offsets: &[usize]) -> usize {
        self.items.iter().zip(offsets).map(|(item, offset)| offset + item.given.size).max().unwrap_or(0)
    }

    /// Returns the least possible peak above one that is impossible, in bytes.
    pub(crate) fn next_peak(&self, impossible: usize) -> usize {
        if self.regular { (impossible + 1).next_multiple_of(self.unit) } else { impossible + 1 }
    }

    fn new(members: &[(usize, Buffer)]) -> Self {
        let cuts = cuts(members);
        let grid = members.iter().fold(0, |grid, (_, buffer)| gcd(grid, buffer.align.max(1)));
        let regular =
            members.iter().all(|(_, buffer)| buffer.align.max(1) == grid && buffer.size % grid == 0);
        // If all buffers are regular, every offset is a sum of sizes.
        let unit = if regular { members.iter().fold(0, |unit, (_, b)| gcd(unit, b.size)) } else { grid };
        let units = |bytes: usize| i64::try_from(bytes / unit).unwrap_or(i64::MAX);
        let items: Vec<Item> = members
            .iter()
            .map(|&(buffer, given)| Item {
                buffer,
                given,
                first: cuts.partition_point(|cut| *cut < given.lower),
                end: cuts.partition_point(|cut| *cut < given.upper),
                size: units(given.size.next_multiple_of(grid)),
                align: if regular { 1 } else { units(given.align.max(1)) },
            })
            .collect();
        let mut slices = vec![Vec::new(); cuts.len()];
        let mut begin = slices.clone();
        for (at, item) in items.iter().enumerate() {
            begin[item.first].push(at);
            for slice in &mut slices[item.first..item.end] {
                slice.push(at);
            }
        }
        // The average of the slices of an item times the items of a slice.
        let area: usize = slices.iter().map(Vec::len).sum();
        let visits = area / items.len().max(1) * (area / slices.len().max(1));
        let worth = 1 + (visits / VISITS) as u64;
        Self { items, slices, unit, regular, ease: i64::from(!regular), begin, worth }
    }

    /// Returns the items that are live somewhere in these slices, each once.
    pub(crate) fn live(&self, first: usize, end: usize) -> impl Iterator<Item = usize> + use<'_> {
        self.slices[first].iter().chain(self.begin[first + 1..end].iter().flatten()).copied()
    }
}

/// Splits buffers at times at which none of them is live on both sides. Buffers without bytes or steps need no place.
pub(super) fn components(buffers: &[Buffer]) -> Vec<Problem> {
    let mut live: Vec<(usize, Buffer)> = buffers
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, buffer)| buffer.size > 0 && buffer.lower < buffer.upper)
        .collect();
    live.sort_by_key(|(at, buffer)| (buffer.lower, *at));
    let mut problems = Vec::new();
    let (mut start, mut end) = (0, 0);
    for at in 0..live.len() {
        if at > start && live[at].1.lower >= end {
            problems.push(Problem::new(&live[start..at]));
            start = at;
        }
        end = end.max(live[at].1.upper);
    }
    if start < live.len() {
        problems.push(Problem::new(&live[start..]));
    }
    problems
}

/// Returns the last step of each slice that is kept: a step at which a buffer begins before another one ends.
fn cuts(members: &[(usize, Buffer)]) -> Vec<usize> {
    let mut events: Vec<(usize, bool)> = Vec::with_capacity(2 * members.len());
    for (_, buffer) in members {
        events.push((buffer.lower, true));
        events.push((buffer.upper, false));
    }
    events.sort_unstable(); // ends come before beginnings at the same moment
    let mut cuts = Vec::new();
    let mut begun = false;
    for (moment, begins) in events {
        if begun && !begins {
            cuts.push(moment - 1);
        }
        begun = begins;
    }
    cuts
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
