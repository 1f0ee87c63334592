//! Copies between two orders of the same elements: nested loops with a stride in source and target.
//!
//! Transposes, slices, broadcasts, padding and all changes of layout are such copies. The loops of a [`Region`] are
//! sorted in the order of the target, and merged if both sides are contiguous. The innermost part is then a
//! contiguous run, a fill, a tile that is transposed, or single steps.

use super::args::{PARALLEL, Shared};
use super::tile;
use ovolo::op::OpError;
use ovolo::team::Team;
use ovolo::tensor::{Layout, Shape};
use std::ops::Range;

/// The largest number of loops around the innermost one or two.
pub const MAX_LOOPS: usize = 16;
/// The number of elements of a run, or of a side of a tile, at which it is split into tasks.
const CHUNK: usize = 4096;

/// One loop: its count, and the distance of one step in source and target, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The number of steps.
    pub count: usize,
    /// The distance of a step in the source, in elements.
    pub source: isize,
    /// The distance of a step in the target, in elements.
    pub target: isize,
}

/// Nested loops, with the offsets of the first element in source and target.
#[derive(Clone, Debug)]
pub struct Region {
    outer: Vec<Loop>,
    source: isize,
    target: isize,
    inner: Inner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    /// Contiguous on both sides.
    Run(usize),
    /// One source element that fills a contiguous target.
    Fill(usize),
    /// Two loops: `rows` has stride 1 in the source, and `columns` has stride 1 in the target.
    Tile { rows: Loop, columns: Loop },
    /// One loop with any strides.
    Steps(Loop),
}

impl Region {
    /// Creates a region in the order of the target. Returns `None` if it has no elements.
    pub fn new(loops: impl IntoIterator<Item = Loop>, source: isize, target: isize) -> Option<Self> {
        let mut loops: Vec<Loop> = loops.into_iter().filter(|l| l.count != 1).collect();
        if loops.iter().any(|l| l.count == 0) {
            return None;
        }
        loops.sort_by_key(|l| std::cmp::Reverse(l.target.abs()));
        let mut merged: Vec<Loop> = Vec::with_capacity(loops.len());
        for inner in loops {
            let length = inner.count as isize;
            match merged.last_mut() {
                Some(last)
                    if last.source == inner.source * length && last.target == inner.target * length =>
                {
                    *last = Loop { count: last.count * inner.count, ..inner };
                }
                _ => merged.push(inner),
            }
        }
        let inner = match merged.pop() {
            None => Inner::Run(1),
            Some(Loop { count, source: 1, target: 1 }) => Inner::Run(count),
            Some(Loop { count, source: 0, target: 1 }) => Inner::Fill(count),
            Some(columns) if columns.target == 1 => match merged.iter().position(|l| l.source == 1) {
                Some(at) => Inner::Tile { rows: merged.remove(at), columns },
                None => Inner::Steps(columns),
            },
            Some(steps) => Inner::Steps(steps),
        };
        Some(Self { outer: merged, source, target, inner })
    }

    /// Returns the offset of the source if the region is one contiguous run at the start of the target.
    pub fn is_run(&self) -> Option<usize> {
        (self.outer.is_empty() && self.target == 0 && matches!(self.inner, Inner::Run(_)))
            .then_some(self.source.unsigned_abs())
    }

    fn outer_count(&self) -> usize {
        self.outer.iter().map(|l| l.count).product()
    }

    fn count(&self) -> usize {
        self.outer_count()
            * match self.inner {
                Inner::Run(n) | Inner::Fill(n) | Inner::Steps(Loop { count: n, .. }) => n,
                Inner::Tile { rows, columns } => rows.count * columns.count,
            }
    }

    /// Splits the innermost loop into chunks. Returns the same region over whole chunks, and a region for the rest.
    fn split(self) -> Vec<Self> {
        let (whole, set): (Loop, fn(Inner, usize) -> Inner) = match self.inner {
            Inner::Run(count) => (Loop { count, source: 1, target: 1 }, |_, n| Inner::Run(n)),
            Inner::Fill(count) => (Loop { count, source: 0, target: 1 }, |_, n| Inner::Fill(n)),
            Inner::Steps(steps) => (steps, |inner, count| match inner {
                Inner::Steps(l) => Inner::Steps(Loop { count, ..l }),
                other => other,
            }),
            Inner::Tile { rows, columns } if rows.count > columns.count => {
                (rows, |inner, count| match inner {
                    Inner::Tile { rows, columns } => Inner::Tile { rows: Loop { count, ..rows }, columns },
                    other => other,
                })
            }
            Inner::Tile { columns, .. } => (columns, |inner, count| match inner {
                Inner::Tile { rows, columns } => Inner::Tile { rows, columns: Loop { count, ..columns } },
                other => other,
            }),
        };
        let chunk = match self.inner {
            Inner::Tile { .. } => (whole.count / 16).next_multiple_of(16).clamp(16, CHUNK),
            _ => CHUNK,
        };
        if whole.count < 2 * chunk {
            return vec![self];
        }
        let (chunks, rest) = (whole.count / chunk, whole.count % chunk);
        let step = chunk as isize;
        let mut main = self.clone();
        main.outer.push(Loop { count: chunks, source: whole.source * step, target: whole.target * step });
        main.inner = set(self.inner, chunk);
        let mut regions = vec![main];
        if rest > 0 {
            let done = (chunks * chunk) as isize;
            let mut tail = self;
            tail.source += done * whole.source;
            tail.target += done * whole.target;
            tail.inner = set(tail.inner, rest);
            regions.push(tail);
        }
        regions
    }

    /// Calls `visit` with the offsets of each iteration of the outer loops in a range.
    fn walk(&self, range: Range<usize>, mut visit: impl FnMut(isize, isize)) {
        let mut index = [0; MAX_LOOPS];
        let (mut source, mut target) = (self.source, self.target);
        let mut rest = range.start;
        for (l, index) in self.outer.iter().zip(&mut index).rev() {
            *index = rest % l.count;
            rest /= l.count;
            source += *index as isize * l.source;
            target += *index as isize * l.target;
        }
        for _ in range {
            visit(source, target);
            for (l, index) in self.outer.iter().zip(&mut index).rev() {
                *index += 1;
                source += l.source;
                target += l.target;
                if *index < l.count {
                    break;
                }
                source -= l.count as isize * l.source;
                target -= l.count as isize * l.target;
                *index = 0;
            }
        }
    }
}

/// A copy of regions, divided into tasks.
#[derive(Debug)]
pub struct Copy {
    regions: Vec<Region>,
    tasks: Vec<(usize, Range<usize>)>,
    size: usize,
}

impl Copy {
    /// Creates a copy of elements of `size` bytes. The regions must not overlap in the target.
    pub fn new(
        regions: impl IntoIterator<Item = Region>,
        size: usize,
        threads: usize,
    ) -> Result<Self, OpError> {
        let mut regions: Vec<Region> = regions.into_iter().collect();
        let total: usize = regions.iter().map(Region::count).sum();
        let parallel = threads > 1 && total >= PARALLEL;
        if parallel {
            regions = regions
                .into_iter()
                .flat_map(
                    |region| {
                        if region.outer_count() < 4 * threads { region.split() } else { vec![region] }
                    },
                )
                .collect();
        }
        if regions.iter().any(|region| region.outer.len() > MAX_LOOPS) {
            return Err(OpError::kernel(format!("more than {MAX_LOOPS} nested loops")));
        }
        let mut tasks = Vec::new();
        for (index, region) in regions.iter().enumerate() {
            let outer = region.outer_count();
            let parts =
                if parallel { (region.count() / (PARALLEL / 4)).clamp(1, 4 * threads).min(outer) } else { 1 };
            tasks.extend((0..parts).map(|part| (index, outer * part / parts..outer * (part + 1) / parts)));
        }
        Ok(Self { regions, tasks, size })
    }

    /// Runs the copy.
    ///
    /// # Safety
    /// All offsets of the regions must be in bounds of both buffers, and the buffers must not overlap.
    pub unsafe fn run(&self, source: *const u8, target: *mut u8, team: &Team) {
        match self.size {
            1 => self.run_as::<u8>(source, target, team),
            2 => self.run_as::<u16>(source, target, team),
            4 => self.run_as::<u32>(source, target, team),
            _ => self.run_as::<u64>(source, target, team),
        }
    }

    fn run_as<T: bytemuck::Pod>(&self, source: *const u8, target: *mut u8, team: &Team) {
        let (source, target) = (Shared::<T>::new(source.cast_mut().cast()), Shared::<T>::new(target.cast()));
        let job = |task: usize| {
            let (region, range) = &self.tasks[task];
            let region = &self.regions[*region];
            region.walk(range.clone(), |from, to| {
                // SAFETY: in bounds and without overlap, as the caller of `run` promises.
                unsafe { copy_inner(region.inner, source.by(from), target.by(to)) }
            });
        };
        if team.threads() == 1 || self.regions.iter().map(Region::count).sum::<usize>() < PARALLEL {
            (0..self.tasks.len()).for_each(job);
        } else {
            team.run(self.tasks.len(), job);
        }
    }
}

/// # Safety
/// The elements of the loops must be in bounds, and source and target must not overlap.
#[inline]
unsafe fn copy_inner<T: bytemuck::Pod>(inner: Inner, source: *const T, target: *mut T) {
    // SAFETY: as the caller promises.
    unsafe {
        match inner {
            Inner::Run(count) => std::ptr::copy_nonoverlapping(source, target, count),
            Inner::Fill(count) => std::slice::from_raw_parts_mut(target, count).fill(*source),
            Inner::Steps(steps) => {
                for i in 0..steps.count as isize {
                    *target.offset(i * steps.target) = *source.offset(i * steps.source);
                }
            }
            Inner::Tile { rows, columns } => {
                tile::transpose(source, columns.source, target, rows.target, rows.count, columns.count);
            }
        }
    }
}

/// Fills the target with `count` elements of `value.len()` bytes each.
///
/// # Safety
/// The target must have this number of bytes.
pub unsafe fn fill(target: *mut u8, value: &[u8], count: usize, team: &Team) {
    let target = Shared::<u8>::new(target);
    let parts = super::args::tasks(count, count.div_ceil(CHUNK), team.threads());
    team.run(parts, |index| {
        let range = super::args::part(count, parts, index, CHUNK);
        // SAFETY: parts of the target do not overlap.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(
                target.at(range.start * value.len()),
                range.len() * value.len(),
            );
            if value.iter().all(|&byte| byte == value[0]) {
                bytes.fill(value[0]);
            } else {
                bytes.chunks_exact_mut(value.len()).for_each(|element| element.copy_from_slice(value));
            }
        }
    });
}

/// Returns the offset of an index in one dimension, with all other indices zero.
pub fn offset(layout: &Layout, shape: &Shape, dim: usize, index: usize) -> isize {
    let mut indices = vec![0; shape.rank()];
    indices[dim] = index;
    layout.offset(shape, &indices) as isize
}
