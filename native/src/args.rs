//! What kernels share: pointers that cross threads, and how work is split.

use ovolo::backend::Args;
use std::ops::Range;

/// Fewer elements than this are one task: a wake-up would cost more than it saves.
pub(super) const PARALLEL: usize = 16 * 1024;

/// A pointer that the tasks of one kernel share. Tasks write disjoint parts of what it points at.
pub(super) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: a pointer is only an address; each dereference justifies itself.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Any pointer.
    pub(super) fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The operand with this index.
    pub(super) fn input(args: &Args<'_>, index: usize) -> Self {
        Self(args.inputs[index].cast::<T>().cast_mut())
    }

    /// The result.
    pub(super) fn output(args: &Args<'_>) -> Self {
        Self(args.output.cast())
    }

    /// The scratch memory.
    pub(super) fn scratch(args: &Args<'_>) -> Self {
        Self(args.scratch.cast())
    }

    /// The pointer, `offset` elements on.
    pub(super) fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }

    /// The pointer, `offset` elements on, or back where that is negative.
    pub(super) fn by(self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

/// The buffers of a step, for its tasks.
#[derive(Clone, Copy)]
pub(super) struct Buffers<'a>(&'a Args<'a>);

// SAFETY: pointers are only addresses; each dereference justifies itself.
unsafe impl Send for Buffers<'_> {}
// SAFETY: as above.
unsafe impl Sync for Buffers<'_> {}

impl<'a> Buffers<'a> {
    /// The buffers of `args`.
    pub(super) fn new(args: &'a Args<'a>) -> Self {
        Self(args)
    }

    /// What they were made from.
    pub(super) fn args(&self) -> &'a Args<'a> {
        self.0
    }
}

/// How many tasks to split `units` of work into, when all of it touches `elements` elements.
pub(super) fn tasks(elements: usize, units: usize, threads: usize) -> usize {
    if elements < PARALLEL || threads < 2 { units.min(1) } else { units.min(4 * threads) }
}

/// Part `index` of `parts` nearly equal parts of `0..count`, cut at multiples of `unit`.
pub(super) fn part(count: usize, parts: usize, index: usize, unit: usize) -> Range<usize> {
    let units = count.div_ceil(unit);
    let cut = |index: usize| (units * index / parts * unit).min(count);
    cut(index)..cut(index + 1)
}
