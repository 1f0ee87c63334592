//! Branch and bound: decides whether there is a packing below a ceiling.
//!
//! The skyline of a slice is the lowest offset at which its next buffer can begin. A valley of the skyline has higher
//! ground or the end of the part on both sides, and a buffer at its bottom lies inside it. So one question decides an
//! offset for good: does this buffer lie at the bottom of the valley, or above another buffer? Both answers are
//! tried, the first one first. A step is one such question, or a part of a question that counts as several steps.
//!
//! **Bounds.** In each slice, the remaining buffers are stacked in the order of their earliest offsets; none may be
//! lower than the skyline over its whole lifetime allows. If even this stack exceeds the ceiling, the branch fails
//! (Jackson's bound for one machine with release dates).
//!
//! **Dominance.** Among packings with the same peak, it is enough to find the one with the least sum of offset · size
//! · slices; among those, the one with the least sum of offset · size · slices²; and among those, the one in which
//! buffers of equal size or equal lifetime are in rank order. In this packing no buffer can move down, so each lies
//! on the floor or on another buffer. A buffer as wide as its valley lies at the bottom or ends above the brim,
//! because otherwise it could exchange places with what is below it. Of two buffers with the same lifetime, one
//! directly on the other, the first in rank is below. Branches that violate one of these are cut, because a better
//! packing exists elsewhere.
//!
//! **Parts.** Slices that no remaining buffer connects are packed one after the other. A part that is packed is never
//! packed again when another part fails.

use super::problem::{Item, Problem};

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is a packing, and the search has its offsets.
    Packed,
    /// There is no packing.
    Impossible,
    /// The steps were used up.
    Unknown,
}

/// The slice in which the next question is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    /// One with few buffers that can come next, in relation to the number of times that it was a dead end.
    Failing,
    /// One in which the least room would be left.
    Tight,
}

/// The skyline of a slice without remaining buffers.
const FULL: i64 = i64::MAX / 4;
const NONE: usize = usize::MAX;

/// A change that is undone when the search goes back.
#[derive(Clone, Copy)]
enum Change {
    Skyline(usize, i64),
    Earliest(usize, i64),
    Rivals(usize, i64),
    Top(usize, usize),
    Placed(usize),
}

/// A question whose second answer was not tried yet, or parts that wait for their turn.
enum Frame {
    Question { mark: usize, range: (usize, usize), item: usize, brim: i64 },
    Parts { waiting: Vec<(usize, usize)> },
}

/// What the search does next.
enum Turn {
    Open(usize, usize),
    Ask(usize, usize),
    Packed,
    Dead,
}

/// One search.
pub(super) struct Search<'a> {
    problem: &'a Problem,
    /// The most bytes of an offset plus the true size.
    ceiling: usize,
    /// The ceiling in units, for rounded sizes.
    limit: i64,
    rank: &'a [usize],
    pick: Pick,
    /// For each item, the one directly before it in rank among those with the same lifetime, size and alignment.
    before: Vec<usize>,
    skyline: Vec<i64>,
    /// The units of the remaining items in each slice.
    to_come: Vec<i64>,
    /// The number of remaining items that connect each slice with the next one.
    across: Vec<usize>,
    /// The item that was placed last in each slice.
    top: Vec<usize>,
    /// The number of items that can be the next one in each slice.
    rivals: Vec<i64>,
    /// The number of times that each slice was a dead end.
    failures: Vec<u64>,
    /// The lowest possible offset of each item.
    earliest: Vec<i64>,
    placed: Vec<bool>,
    offset: Vec<i64>,
    trail: Vec<Change>,
    queue: Vec<usize>,
    queued: Vec<bool>,
    /// The slices that changed and must be checked.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
    /// The items of each slice, nearly sorted by their earliest offsets.
    stacks: Vec<Vec<usize>>,
    frames: Vec<Frame>,
    steps: u64,
}

impl<'a> Search<'a> {
    /// Starts a search for a packing with a peak of at most `ceiling` bytes. Items that are first in `rank` are tried
    /// first.
    pub(super) fn new(problem: &'a Problem, ceiling: usize, rank: &'a [usize], pick: Pick) -> Self {
        let (slices, items) = (problem.slices.len(), problem.items.len());
        let mut across = vec![0; slices];
        for item in &problem.items {
            for count in &mut across[item.first..item.end - 1] {
                *count += 1;
            }
        }
        let to_come =
            problem.slices.iter().map(|slice| slice.iter().map(|at| problem.items[*at].size).sum()).collect();
        Self {
            problem,
            ceiling,
            limit: i64::try_from(ceiling / problem.unit).unwrap_or(FULL).min(FULL - 1) + problem.ease,
            rank,
            pick,
            before: before(problem, rank),
            skyline: vec![0; slices],
            to_come,
            across,
            top: vec![NONE; slices],
            rivals: vec![0; slices],
            failures: vec![0; slices],
            earliest: vec![0; items],
            placed: vec![false; items],
            offset: vec![0; items],
            trail: Vec::new(),
            queue: (0..slices).collect(),
            queued: vec![true; slices],
            touched: Vec::new(),
            is_touched: vec![false; slices],
            stacks: problem.slices.clone(),
            frames: Vec::new(),
            steps: 0,
        }
    }

    /// Returns the number of steps so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the offsets of the items in bytes, after [`Verdict::Packed`].
    pub(super) fn offsets(&self) -> Vec<usize> {
        let bytes = |units: &i64| usize::try_from(*units).expect("offsets are not negative");
        self.offset.iter().map(|units| bytes(units) * self.problem.unit).collect()
    }

    /// Searches for at most `budget` steps.
    pub(super) fn run(&mut self, budget: u64) -> Verdict {
        let slices = self.problem.slices.len();
        let mut turn = if self.propagate() { Turn::Open(0, slices) } else { Turn::Dead };
        loop {
            turn = match turn {
                Turn::Open(start, end) => self.open(start, end),
                Turn::Ask(..) if self.steps + self.problem.worth > budget => return Verdict::Unknown,
                Turn::Ask(start, end) => self.ask(start, end),
                // The questions of a packed part are final. The next part follows.
                Turn::Packed => match self.frames.last_mut() {
                    None => return Verdict::Packed,
                    Some(Frame::Parts { waiting }) if !waiting.is_empty() => {
                        let (start, end) = waiting.remove(0);
                        Turn::Ask(start, end)
                    }
                    Some(_) => {
                        self.frames.pop();
                        Turn::Packed
                    }
                },
                Turn::Dead => match self.frames.pop() {
                    None => return Verdict::Impossible,
                    Some(Frame::Parts { .. }) => Turn::Dead,
                    Some(Frame::Question { mark, range, item, brim }) => {
                        self.undo(mark);
                        self.decline(range, item, brim)
                    }
                },
            };
        }
    }

    /// Splits slices where no remaining item connects them. The part with the least room comes first.
    fn open(&mut self, start: usize, end: usize) -> Turn {
        let mut parts = Vec::new();
        let mut from = start;
        for slice in start..end {
            if self.across[slice] == 0 || slice + 1 == end {
                // A slice without remaining items is connected to none.
                if self.to_come[slice] > 0 {
                    parts.push((from, slice + 1));
                }
                from = slice + 1;
            }
        }
        match parts.len() {
            0 => Turn::Packed,
            1 => Turn::Ask(parts[0].0, parts[0].1),
            _ => {
                let room = |slice: usize| self.limit - self.skyline[slice] - self.to_come[slice];
                parts.sort_by_key(|&(start, end)| (start..end).map(room).min());
                let (start, end) = parts.remove(0);
                self.frames.push(Frame::Parts { waiting: parts });
                Turn::Ask(start, end)
            }
        }
    }

    /// Asks about one item, and first assumes that it lies at the bottom of its valley.
    fn ask(&mut self, start: usize, end: usize) -> Turn {
        self.steps += self.problem.worth;
        let (item, brim) = self.question(start, end);
        let offset = self.earliest[item];
        if self.dominated(item, offset) {
            return self.decline((start, end), item, brim);
        }
        let mark = self.trail.len();
        self.frames.push(Frame::Question { mark, range: (start, end), item, brim });
        self.place(item, offset);
        if self.propagate() { Turn::Open(start, end) } else { Turn::Dead }
    }

    /// Assumes the other answer: the item lies above another one, or above the brim if it is as wide as its valley.
    fn decline(&mut self, range: (usize, usize), item: usize, brim: i64) -> Turn {
        let problem = self.problem;
        let Item { first, end, align, .. } = problem.items[item];
        let mut offset = if brim == NO_BRIM { 0 } else { brim.saturating_add(1) };
        let mut below = FULL;
        for other in problem.live(first, end) {
            if other != item && !self.placed[other] {
                below = below.min(self.earliest[other] + problem.items[other].size);
            }
        }
        offset = up(offset.max(below), align);
        if offset >= FULL {
            return Turn::Dead;
        }
        self.raise(item, offset);
        if self.propagate() { Turn::Ask(range.0, range.1) } else { Turn::Dead }
    }

    /// Returns the next question: an item at the bottom of a valley, and the brim if the item is as wide as the
    /// valley.
    fn question(&self, start: usize, end: usize) -> (usize, i64) {
        let mut best: Option<usize> = None;
        let mut wide: Option<(usize, i64)> = None;
        let mut left = start;
        while left < end {
            let bottom = self.skyline[left];
            let mut right = left + 1;
            while right < end && self.across[right - 1] > 0 && self.skyline[right] == bottom {
                right += 1;
            }
            let open = |at: usize| at > start && at < end && self.across[at - 1] > 0;
            let wall_left = if open(left) { self.skyline[left - 1] } else { FULL };
            let wall_right = if open(right) { self.skyline[right] } else { FULL };
            if bottom < FULL && wall_left > bottom && wall_right > bottom {
                let brim = wall_left.min(wall_right);
                match self.as_wide(left, right, bottom) {
                    Some(item) if self.problem.regular => {
                        if brim == FULL {
                            return (item, brim);
                        }
                        wide = wide.or(Some((item, brim)));
                    }
                    _ => {
                        for slice in left..right {
                            if best.is_none_or(|best| self.is_before(slice, best)) {
                                best = Some(slice);
                            }
                        }
                    }
                }
            }
            left = right;
        }
        if let Some(wide) = wide {
            return wide;
        }
        let slice = best.expect("among slices with items to come, the lowest are a valley");
        let bottom = self.skyline[slice];
        let lowest = self.problem.slices[slice]
            .iter()
            .copied()
            .filter(|item| !self.placed[*item] && self.earliest[*item] == bottom)
            .min_by_key(|item| self.rank[*item]);
        (lowest.expect("the skyline is where the first item to come can begin"), NO_BRIM)
    }

    /// Returns the first in rank of the items that fill the whole width of a valley at its bottom.
    fn as_wide(&self, left: usize, right: usize, bottom: i64) -> Option<usize> {
        let fits = |at: &usize| {
            let item = &self.problem.items[*at];
            (item.first, item.end) == (left, right) && !self.placed[*at] && self.earliest[*at] == bottom
        };
        self.problem.slices[left].iter().copied().filter(fits).min_by_key(|at| self.rank[*at])
    }

    /// Returns whether a question in slice `a` comes before one in slice `b`.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let weight = |slice: usize| u128::from(self.failures[slice]) + 1;
        let rivals = |slice: usize| self.rivals[slice].unsigned_abs();
        let room = |slice: usize| self.limit - self.skyline[slice] - self.to_come[slice];
        match self.pick {
            Pick::Failing => u128::from(rivals(a)) * weight(b) < u128::from(rivals(b)) * weight(a),
            Pick::Tight => (room(a), rivals(a)) < (room(b), rivals(b)),
        }
    }

    /// Returns whether a packing with the item at this offset need not be found.
    fn dominated(&self, item: usize, offset: i64) -> bool {
        let Item { first, end, given, .. } = self.problem.items[item];
        let bytes = usize::try_from(offset).unwrap_or(usize::MAX).saturating_mul(self.problem.unit);
        if bytes.saturating_add(given.size) > self.ceiling {
            return true;
        }
        if self.before[item] != NONE && !self.placed[self.before[item]] {
            return true;
        }
        let top = self.top[first];
        if top == NONE || !self.problem.regular {
            return false;
        }
        let below = &self.problem.items[top];
        let on_it = (below.first, below.end) == (first, end) && self.offset[top] + below.size == offset;
        on_it && self.rank[item] < self.rank[top]
    }

    fn place(&mut self, item: usize, offset: i64) {
        let problem = self.problem;
        let Item { first, end, size, .. } = problem.items[item];
        self.placed[item] = true;
        self.offset[item] = offset;
        self.trail.push(Change::Placed(item));
        for slice in first..end {
            self.to_come[slice] -= size;
            self.across[slice] -= usize::from(slice + 1 < end);
            self.trail.push(Change::Skyline(slice, self.skyline[slice]));
            self.skyline[slice] = offset + size;
            self.trail.push(Change::Top(slice, self.top[slice]));
            self.top[slice] = item;
            self.enqueue(slice);
        }
        for other in problem.live(first, end) {
            self.lift(other, offset + size);
        }
    }

    /// Draws the conclusions of the changes. Returns whether a packing may still exist.
    fn propagate(&mut self) -> bool {
        let alive = self.settle();
        let mut touched = std::mem::take(&mut self.touched);
        let dead = if alive { touched.iter().copied().find(|slice| !self.stands(*slice)) } else { None };
        touched.drain(..).for_each(|slice| self.is_touched[slice] = false);
        self.touched = touched;
        if let Some(slice) = dead {
            self.failures[slice] += 1;
        }
        alive && dead.is_none()
    }

    /// Raises the skyline and the items on it until nothing changes. Returns whether all slices have enough room for
    /// the remaining items.
    fn settle(&mut self) -> bool {
        let problem = self.problem;
        while let Some(slice) = self.queue.pop() {
            self.queued[slice] = false;
            if !std::mem::replace(&mut self.is_touched[slice], true) {
                self.touched.push(slice);
            }
            let skyline = self.skyline[slice];
            let to_come = problem.slices[slice].iter().filter(|at| !self.placed[**at]);
            // If one of these items can lie as low as the skyline, the skyline does not rise.
            let lowest = to_come.map(|at| self.earliest[*at]).try_fold(FULL, |least, earliest| {
                if earliest <= skyline { None } else { Some(least.min(earliest)) }
            });
            let Some(bottom) = lowest.filter(|bottom| *bottom > skyline) else { continue };
            self.trail.push(Change::Skyline(slice, self.skyline[slice]));
            self.skyline[slice] = bottom;
            if bottom == FULL {
                continue;
            }
            if bottom + self.to_come[slice] > self.limit {
                self.failures[slice] += 1;
                for slice in self.queue.drain(..) {
                    self.queued[slice] = false;
                }
                return false;
            }
            for at in &problem.slices[slice] {
                self.lift(*at, bottom);
            }
        }
        true
    }

    /// Returns whether the stack of the remaining items of a slice stays below the ceiling. Counts the items that can
    /// be next.
    fn stands(&mut self, slice: usize) -> bool {
        let latest = self.limit - self.to_come[slice];
        let order = &mut self.stacks[slice];
        // This is an insertion sort, because few items have changed places since the last time.
        for end in 1..order.len() {
            let item = order[end];
            let key = self.earliest[item];
            let mut at = end;
            while at > 0 && self.earliest[order[at - 1]] > key {
                order[at] = order[at - 1];
                at -= 1;
            }
            order[at] = item;
        }
        let (mut height, mut rivals) = (0, 0);
        for &item in order.iter().filter(|item| !self.placed[**item]) {
            let before = self.before[item];
            rivals += i64::from(self.earliest[item] <= latest && (before == NONE || self.placed[before]));
            height = self.earliest[item].max(height) + self.problem.items[item].size;
        }
        if rivals != self.rivals[slice] {
            self.trail.push(Change::Rivals(slice, self.rivals[slice]));
            self.rivals[slice] = rivals;
        }
        height <= self.limit
    }

    /// Raises a remaining item to its lowest possible offset that is at least `offset`.
    fn lift(&mut self, item: usize, offset: i64) {
        if !self.placed[item] && self.earliest[item] < offset {
            self.raise(item, up(offset, self.problem.items[item].align));
        }
    }

    fn raise(&mut self, item: usize, offset: i64) {
        if self.earliest[item] < offset {
            self.trail.push(Change::Earliest(item, self.earliest[item]));
            self.earliest[item] = offset;
            for slice in self.problem.items[item].first..self.problem.items[item].end {
                self.enqueue(slice);
            }
        }
    }

    fn enqueue(&mut self, slice: usize) {
        if !std::mem::replace(&mut self.queued[slice], true) {
            self.queue.push(slice);
        }
    }

    fn undo(&mut self, mark: usize) {
        for change in self.trail.drain(mark..).rev() {
            match change {
                Change::Skyline(slice, height) => self.skyline[slice] = height,
                Change::Earliest(item, offset) => self.earliest[item] = offset,
                Change::Rivals(slice, count) => self.rivals[slice] = count,
                Change::Top(slice, item) => self.top[slice] = item,
                Change::Placed(item) => {
                    let Item { first, end, size, .. } = self.problem.items[item];
                    self.placed[item] = false;
                    for slice in first..end {
                        self.to_come[slice] += size;
                        self.across[slice] += usize::from(slice + 1 < end);
                    }
                }
            }
        }
    }
}

/// The brim of a question about an item that is not as wide as its valley.
const NO_BRIM: i64 = -1;

fn up(offset: i64, align: i64) -> i64 {
    if align == 1 { offset } else { (offset + align - 1) / align * align }
}

fn before(problem: &Problem, rank: &[usize]) -> Vec<usize> {
    let key = |at: usize| {
        let Item { first, end, given, .. } = &problem.items[at];
        (*first, *end, given.size, given.align)
    };
    let mut order: Vec<usize> = (0..problem.items.len()).collect();
    order.sort_by_key(|&at| (key(at), rank[at]));
    let mut before = vec![NONE; order.len()];
    for pair in order.windows(2) {
        if key(pair[0]) == key(pair[1]) {
            before[pair[1]] = pair[0];
        }
    }
    before
}
