//! Helpers for all kernels: pointers that several threads use, and the division of work into tasks.

use ovolo::backend::Args;
use std::ops::Range;

/// Work on fewer elements than this is one task, because waking a thread would cost more than it saves.
pub const PARALLEL: usize = 16 * 1024;

/// A pointer that the tasks of a kernel share. Tasks must write disjoint parts of the memory.
pub struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: a pointer is only an address; each access to the memory has its own justification.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Wraps a pointer.
    pub fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Returns the address of the operand with this index.
    pub fn input(args: &Args<'_>, index: usize) -> Self {
        Self(args.inputs[index].cast::<T>().cast_mut())
    }

    /// Returns the address of the result.
    pub fn output(args: &Args<'_>) -> Self {
        Self(args.output.cast())
    }

    /// Returns the address of the scratch memory.
    pub fn scratch(args: &Args<'_>) -> Self {
        Self(args.scratch.cast())
    }

    /// Returns the address `offset` elements after this one.
    pub fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }

    /// Returns the address `offset` elements after this one, or before it if `offset` is negative.
    pub fn by(self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

/// The buffers of a step, shared by its tasks.
#[derive(Clone, Copy)]
pub struct Buffers<'a>(&'a Args<'a>);

// SAFETY: the pointers are only addresses; each access to the memory has its own justification.
unsafe impl Send for Buffers<'_> {}
// SAFETY: as above.
unsafe impl Sync for Buffers<'_> {}

impl<'a> Buffers<'a> {
    /// Wraps the buffers of `args`.
    pub fn new(args: &'a Args<'a>) -> Self {
        Self(args)
    }

    /// Returns the wrapped buffers.
    pub fn args(&self) -> &'a Args<'a> {
        self.0
    }
}

/// Returns the number of tasks for `units` units of work that together touch `elements` elements.
pub fn tasks(elements: usize, units: usize, threads: usize) -> usize {
    if elements < PARALLEL || threads < 2 { units.min(1) } else { units.min(4 * threads) }
}

/// Returns part `index` of `parts` nearly equal parts of `0..count`, cut at multiples of `unit`.
pub fn part(count: usize, parts: usize, index: usize, unit: usize) -> Range<usize> {
    let units = count.div_ceil(unit);
    let cut = |index: usize| (units * index / parts * unit).min(count);
    cut(index)..cut(index + 1)
}

/// Returns some of `parts` nearly equal parts of `0..count`, in order. The quotients of the cuts are found by additions,
/// because divisions for each tile take a noticeable part of the time of small tiles.
#[inline(always)]
pub fn split(count: usize, parts: usize, some: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let parts = parts.max(1);
    let (length, rest) = (count / parts, count % parts);
    let (mut first, mut over) = (count * some.start / parts, count * some.start % parts);
    some.map(move |_| {
        let begin = first;
        over += rest;
        let more = usize::from(over >= parts);
        over -= more * parts;
        first += length + more;
        begin..first
    })
}
