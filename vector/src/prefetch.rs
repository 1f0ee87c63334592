//! Software prefetch: requests the weights that are needed next while the current ones are multiplied.
//!
//! The processor prefetches along a panel by itself, but each panel begins at another address, and the first tile of
//! its rows would wait for all of it. So each step of a tile requests a small part of the next panel, such that all
//! steps together request all of it.

/// Bytes that will be read soon: rows of 128 bytes, which lie one after the other if they are a range.
#[derive(Clone, Copy)]
pub struct Prefetch {
    from: *const u8,
    /// The first of these bytes that belongs to this part.
    start: usize,
    bytes: usize,
    /// The distance between rows.
    stride: usize,
}

/// The bytes of a row: 32 elements of four bytes.
const ROW: usize = 1 << ROW_SHIFT;
const ROW_SHIFT: u32 = 7;

impl Prefetch {
    /// An empty range.
    pub const NONE: Self = Self { from: std::ptr::null(), start: 0, bytes: 0, stride: ROW };

    /// Returns the range of `count` elements from `from` on. The elements are prefetched and never read, so any
    /// address is allowed.
    pub fn new(from: *const f32, count: usize) -> Self {
        Self { from: from.cast(), bytes: count * size_of::<f32>(), ..Self::NONE }
    }

    /// Returns rows of 32 elements, `stride` elements apart. Any address is allowed.
    pub fn rows(from: *const f32, rows: usize, stride: usize) -> Self {
        Self { from: from.cast(), start: 0, bytes: rows * ROW, stride: stride * size_of::<f32>() }
    }

    /// Returns part `index` of `of` equal parts.
    pub fn part(self, index: usize, of: usize) -> Self {
        if self.bytes == 0 || of == 1 {
            return self;
        }
        let (first, end) = (self.bytes * index / of, self.bytes * (index + 1) / of);
        Self { start: self.start + first, bytes: end - first, ..self }
    }

    /// Spreads the range over a number of steps.
    #[inline(always)]
    pub fn over(self, steps: usize) -> Pace {
        let Self { from, start, bytes, stride } = self;
        // Small tiles notice the time of a division.
        let step = if bytes == 0 { 0 } else { ((bytes << SHIFT) / steps.max(1)).min(FASTEST) };
        Pace { from, start, stride, step }
    }

    /// Divides the range among `of` units of work.
    pub fn among(self, of: usize) -> Divided {
        Divided { all: self, unit: (self.bytes << SHIFT) / of.max(1) }
    }
}

/// A range that is divided among units of work.
#[derive(Clone, Copy)]
pub struct Divided {
    all: Prefetch,
    /// The bytes of a unit, in units of `1 / (1 << SHIFT)`.
    unit: usize,
}

impl Divided {
    /// Returns what belongs to the units from `first` to before `end`.
    #[inline(always)]
    pub fn units(self, first: usize, end: usize) -> Prefetch {
        let (first, end) = ((self.unit * first) >> SHIFT, (self.unit * end) >> SHIFT);
        Prefetch { start: self.all.start + first, bytes: end - first, ..self.all }
    }
}

/// A range that is requested step by step.
#[derive(Clone, Copy)]
pub struct Pace {
    from: *const u8,
    start: usize,
    stride: usize,
    /// Bytes per step, in units of `1 / (1 << SHIFT)`.
    step: usize,
}

const SHIFT: u32 = 8;
/// The bytes of a cache line.
const LINE: usize = 64;
/// The fastest useful pace is one cache line per step; beyond that, requests only wait for each other.
const FASTEST: usize = LINE << SHIFT;

impl Pace {
    /// Requests the bytes that belong to some steps, each line of the cache about once.
    #[inline(always)]
    pub fn fetch_steps(self, step: usize, steps: usize) {
        let at = self.start + ((step * self.step) >> SHIFT);
        for line in 0..(self.step * steps).div_ceil(FASTEST) {
            self.request(at + line * LINE);
        }
    }

    /// Requests the bytes that belong to a step.
    #[inline(always)]
    pub fn fetch(self, step: usize) {
        if self.step > 0 {
            self.request(self.start + ((step * self.step) >> SHIFT));
        }
    }

    /// Requests the line of a byte of the range.
    #[inline(always)]
    fn request(self, at: usize) {
        prefetch(self.from.wrapping_add((at >> ROW_SHIFT) * self.stride + (at & (ROW - 1))));
    }
}

/// Requests the cache line of an address, which may be any.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch is a hint and accepts any address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
}

/// Requests the cache line of an address, which may be any.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_of_it_and_their_steps_go_to_their_ends() {
        let values = [0.0_f32; 1000];
        let all = Prefetch::new(values.as_ptr(), values.len());
        let mut at = 0;
        for index in 0..7 {
            let part = all.part(index, 7);
            assert_eq!(part.start, at);
            at += part.bytes;
            let pace = part.over(50);
            let last = (50 * pace.step) >> SHIFT;
            assert!(last <= part.bytes && part.bytes - last < 2, "{last} of {}", part.bytes);
        }
        assert_eq!(at, 4000);
        // Units of work together have all of it but the rounding of one unit.
        let shared = all.among(7);
        let units: Vec<Prefetch> = (0..7).map(|unit| shared.units(unit, unit + 1)).collect();
        assert!(units.windows(2).all(|pair| pair[0].start + pair[0].bytes == pair[1].start));
        assert!((3999..=4000).contains(&units.iter().map(|unit| unit.bytes).sum::<usize>()));
        assert_eq!(Prefetch::NONE.over(10).step, 0);
        // The pace is limited to one cache line per step.
        assert_eq!(all.over(1).step, FASTEST);
    }
}
