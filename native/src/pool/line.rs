//! Rows of pools in the default layout.

use super::super::lanes::Lanes;
use super::{Pool, Row};
use std::mem::MaybeUninit;

/// The elements of a line: what a part of a row of the result reads. It stays in the first-level cache.
const LINE: usize = 1024;

impl Pool {
    /// Returns the columns of a padded image from the first to the last one of `count` windows.
    fn span(&self, count: usize) -> usize {
        (count - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilations[1] + 1
    }

    /// Returns whether rows are reduced by lines: in the default layout, if a line has room for a few windows at least.
    pub(super) fn has_lines(&self) -> bool {
        self.lanes == 1 && self.span(1) <= LINE / 2 && self.strides[1] <= LINE / 16
    }

    /// Returns the number of windows that have room in a line.
    pub(super) fn at_a_time(&self) -> usize {
        (LINE - self.span(1)) / self.strides[1] + 1
    }
}

/// Computes one row of one plane.
///
/// # Safety
/// The plane and the row must be in bounds; the processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn row<V: Lanes, const MAX: bool>(row: &Row<'_>) {
    let pool = row.pool;
    let columns = pool.output[1];
    let most = pool.at_a_time();
    // To write zeros first would take longer than a short row.
    let mut line = [const { MaybeUninit::<f32>::uninit() }; LINE];
    let mut column = 0;
    while column < columns {
        let count = most.min(columns - column);
        let span = pool.span(count);
        // SAFETY: as the caller promises; the span of this many windows is within the line, and is filled before it
        // is read.
        unsafe {
            fill::<V, MAX>(row, column * pool.strides[1], &mut line[..span]);
            reduce::<V, MAX>(row, line.as_ptr().cast::<f32>(), column, count);
        }
        column += count;
    }
}

/// Reduces the rows of a window to a line that begins at this column of the padded image.
///
/// # Safety
/// As for [`row`].
#[inline(always)]
unsafe fn fill<V: Lanes, const MAX: bool>(row: &Row<'_>, start: usize, line: &mut [MaybeUninit<f32>]) {
    let pool = row.pool;
    let (before, width) = (pool.pads[1], pool.input[1]);
    let down = pool.windows[0][row.row];
    let neutral = if MAX { f32::NEG_INFINITY } else { 0.0 };
    // The part of the line that lies in the image.
    let first = before.saturating_sub(start).min(line.len());
    let end = (before + width).saturating_sub(start).clamp(first, line.len());
    line[..first].fill(MaybeUninit::new(neutral));
    line[end..].fill(MaybeUninit::new(neutral));
    let from = row.x.wrapping_add(down.first * width + start + first).wrapping_sub(before);
    let line = &mut line[first..end];
    let mut at = 0;
    while at < line.len() {
        let count = (line.len() - at).min(V::COUNT);
        // SAFETY: the columns are in the image, and the rows of the window are clipped to it.
        unsafe {
            let load = |r: usize| {
                let from = from.add(r * down.step * width + at);
                if count == V::COUNT { V::load(from) } else { V::load_first(from, count) }
            };
            let mut value = V::splat(neutral);
            for r in 0..down.taken {
                value = if MAX { load(r).max(value) } else { value.add(load(r)) };
            }
            let to = line.as_mut_ptr().add(at).cast::<f32>();
            if count == V::COUNT { value.store(to) } else { value.store_first(to, count) }
        }
        at += V::COUNT;
    }
}

/// Reduces the columns of windows, of which the first begins where the line does.
///
/// # Safety
/// As for [`row`]; the line must have the columns of these windows.
#[inline(always)]
unsafe fn reduce<V: Lanes, const MAX: bool>(row: &Row<'_>, line: *const f32, column: usize, count: usize) {
    let pool = row.pool;
    let (stride, step, taps) = (pool.strides[1], pool.dilations[1], pool.kernel[1]);
    #[allow(clippy::cast_precision_loss)]
    let rows = pool.windows[0][row.row].divisor as f32;
    let initial = if MAX { f32::NEG_INFINITY } else { 0.0 };
    let mut at = 0;
    // SAFETY: as the caller promises.
    unsafe {
        let y = row.y.add(column);
        let divisors = pool.divisors.as_ptr().add(column);
        while stride == 1 && at + V::COUNT <= count {
            let mut value = V::splat(initial);
            for tap in 0..taps {
                let one = V::load(line.add(at + tap * step));
                value = if MAX { one.max(value) } else { value.add(one) };
            }
            if !MAX {
                let divisor = V::load(divisors.add(at)).mul(V::splat(rows));
                value = value.div(V::splat(1.0).max(divisor));
            }
            value.store(y.add(at));
            at += V::COUNT;
        }
        while at < count {
            let mut value = initial;
            for tap in 0..taps {
                let one = *line.add(at * stride + tap * step);
                value = if !MAX {
                    value + one
                } else if one > value {
                    one
                } else {
                    value
                };
            }
            if !MAX {
                value /= (*divisors.add(at) * rows).max(1.0);
            }
            *y.add(at) = value;
            at += 1;
        }
    }
}
