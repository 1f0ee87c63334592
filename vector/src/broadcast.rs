//! Loops over a result and the operands that broadcast to it.
//!
//! A blocked layout is treated as a plain layout of its physical dimensions. For example, `[1,C,1,1]` in `nChw16c` is
//! `[1,C/16,1,1,16]`, which broadcasts as usual.

use super::args::{part, tasks};
use super::strided::MAX_LOOPS;
use ovolo::team::Team;
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The loops over a result, with the strides of `N` operands.
#[derive(Clone, Debug)]
pub struct Broadcast<const N: usize> {
    /// The outer loops: the count, and the strides of the operands in elements.
    outer: Vec<(usize, [usize; N])>,
    /// The number of elements in the innermost loop, which is contiguous in the result.
    pub length: usize,
    /// The strides of the operands in the innermost loop.
    pub strides: [usize; N],
}

impl<const N: usize> Broadcast<N> {
    /// Creates the loops. Returns `None` if the layouts are not compatible.
    pub fn new(output: &TensorType, operands: [&TensorType; N]) -> Option<Self> {
        let dims = physical(output);
        let mut steps = vec![[0; N]; dims.len()];
        for (n, operand) in operands.iter().enumerate() {
            if operand.shape.count() == 1 && operand.layout.is_plain() {
                continue;
            }
            if operand.layout != output.layout {
                return None;
            }
            let torn = |dim: usize| output.layout.block(dim) > 1 && operand.shape[dim] != output.shape[dim];
            if !output.layout.is_plain() && (0..output.shape.rank()).any(torn) {
                return None;
            }
            let theirs = physical(operand);
            let skip = dims.len().checked_sub(theirs.len())?;
            let mut stride = 1;
            for (dim, &count) in theirs.iter().enumerate().rev() {
                match count {
                    1 => {}
                    count if count == dims[dim + skip] => steps[dim + skip][n] = stride,
                    _ => return None,
                }
                stride *= count;
            }
        }
        let mut loops: Vec<(usize, [usize; N])> = Vec::with_capacity(dims.len());
        for (count, steps) in dims.into_iter().zip(steps).filter(|(count, _)| *count != 1) {
            match loops.last_mut() {
                Some((whole, last)) if last.iter().zip(&steps).all(|(last, step)| *last == step * count) => {
                    *whole *= count;
                    *last = steps;
                }
                _ => loops.push((count, steps)),
            }
        }
        let (length, strides) = loops.pop().unwrap_or((1, [0; N]));
        (loops.len() <= MAX_LOOPS).then_some(Self { outer: loops, length, strides })
    }

    /// Returns the outer loops: the count, and the strides of the operands in elements.
    pub fn outer(&self) -> &[(usize, [usize; N])] {
        &self.outer
    }

    /// Returns the offsets of the operands at one iteration of the outer loops, without the last `skip` of these
    /// loops.
    #[inline]
    pub fn offsets(&self, iteration: usize, skip: usize) -> [usize; N] {
        let mut offsets = [0; N];
        let mut rest = iteration;
        for (count, strides) in self.outer[..self.outer.len() - skip].iter().rev() {
            let index = rest % count;
            rest /= count;
            (0..N).for_each(|n| offsets[n] += index * strides[n]);
        }
        offsets
    }

    /// Returns how often the innermost loop runs.
    pub fn rows(&self) -> usize {
        self.outer.iter().map(|(count, _)| count).product()
    }

    /// Returns the number of elements of the result.
    pub fn count(&self) -> usize {
        self.rows() * self.length
    }

    /// Calls `visit` for all parts of the result, with the offset in the result, the offsets in the operands and the
    /// length. The threads of the team share the work if there is enough of it.
    pub fn run(&self, team: &Team, visit: impl Fn(usize, [usize; N], usize) + Sync) {
        let (rows, count) = (self.rows(), self.count());
        let parts = tasks(count, usize::MAX, team.threads());
        if rows >= parts {
            let parts = parts.min(rows);
            team.run(parts, |index| {
                self.walk(part(rows, parts, index, 1), |row, offsets| {
                    visit(row * self.length, offsets, self.length)
                });
            });
        } else {
            team.run(parts, |index| {
                let columns = part(self.length, parts, index, 64);
                if columns.is_empty() {
                    return;
                }
                self.walk(0..rows, |row, mut offsets| {
                    (0..N).for_each(|n| offsets[n] += columns.start * self.strides[n]);
                    visit(row * self.length + columns.start, offsets, columns.len());
                });
            });
        }
    }

    /// Calls `visit` for each row of the range, with its number and the offsets of the operands.
    #[inline(always)]
    pub fn walk(&self, rows: Range<usize>, mut visit: impl FnMut(usize, [usize; N])) {
        let mut index = [0; MAX_LOOPS];
        let mut offsets = [0; N];
        let mut rest = rows.start;
        for ((count, strides), index) in self.outer.iter().zip(&mut index).rev() {
            *index = rest % count;
            rest /= count;
            (0..N).for_each(|n| offsets[n] += *index * strides[n]);
        }
        for row in rows {
            visit(row, offsets);
            for ((count, strides), index) in self.outer.iter().zip(&mut index).rev() {
                *index += 1;
                (0..N).for_each(|n| offsets[n] += strides[n]);
                if *index < *count {
                    break;
                }
                (0..N).for_each(|n| offsets[n] -= count * strides[n]);
                *index = 0;
            }
        }
    }
}

/// Returns the dimensions of a type in the order of memory: first the outer ones, then the blocks.
pub fn physical(ty: &TensorType) -> Vec<usize> {
    let order = ty.layout.order(ty.shape.rank()).into_iter();
    let mut dims: Vec<usize> = order.map(|dim| ty.shape[dim].div_ceil(ty.layout.block(dim))).collect();
    dims.extend(ty.layout.blocks().iter().map(|(_, size)| size));
    dims
}
