//! `native.max-pool-gradient`: the first largest element of each window gets the gradient of the maximum.
//!
//! The channels of a pixel are the lanes of a vector. For each window, a first pass over its elements finds the largest
//! one of each lane, and a second pass writes the gradient there and zero elsewhere. Where no two windows share an
//! element, that is the whole result, and it may take the place of the image. Otherwise, the second pass adds to zeros,
//! window by window.

use super::super::args::{Buffers, part, tasks};
use super::super::lanes::{Lanes, widened};
use super::super::{IMAGES, ISAS, plain_contract, reference};
use super::{Pool, Window};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use std::ops::Range;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: IMAGES,
    instruction_sets: ISAS,
    ..Lowering::new("native.max-pool-gradient", "max-pool-gradient", contract, kernel)
};

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Gradient::new(call) {
        Some(gradient) if gradient.apart => {
            Ok(Contract { in_place: vec![0], ..plain_contract("windows-apart") })
        }
        Some(_) => Ok(plain_contract("windows")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Gradient::new(call) {
        Some(gradient) => Ok(Box::new(gradient)),
        None => reference::kernel(call),
    }
}

struct Gradient {
    /// The pool of the image.
    pool: Pool,
    /// Whether no two windows share an element.
    apart: bool,
}

impl Gradient {
    /// `None` if the image is not of `f32`, or if windows have more elements than an `f32` can count.
    fn new(call: &Call<'_>) -> Option<Self> {
        let pool = Pool::of(call, call.inputs[1])?;
        let elements = pool.kernel[0].checked_mul(pool.kernel[1])?;
        if elements > 1 << f32::MANTISSA_DIGITS {
            return None;
        }
        let reach = |axis: usize| (pool.kernel[axis] - 1) * pool.dilations[axis] + 1;
        let apart = [0, 1].iter().all(|axis| reach(*axis) <= pool.strides[*axis]);
        Some(Self { pool, apart })
    }

    /// Returns the rows or columns of the image from the beginning of a window to that of the next one.
    fn stretch(&self, axis: usize, window: usize) -> Range<usize> {
        let begin = |window: usize| match window {
            0 => 0,
            _ if window == self.pool.output[axis] => self.pool.input[axis],
            _ => {
                let at = (window * self.pool.strides[axis]).saturating_sub(self.pool.pads[axis]);
                at.min(self.pool.input[axis])
            }
        };
        begin(window)..begin(window + 1)
    }
}

/// Some rows of windows in one plane.
struct Rows<'a> {
    gradient: &'a Gradient,
    /// The plane of the image, of the gradient of the maxima, and of the result.
    x: *const f32,
    d: *const f32,
    y: *mut f32,
    rows: Range<usize>,
}

widened! {
    /// # Safety
    /// The plane and the rows must be in bounds.
    unsafe fn some_rows(rows: &Rows<'_>) = rows_on;
}

/// # Safety
/// As for [`some_rows`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn rows_on<V: Lanes>(rows: &Rows<'_>) {
    let pool = &rows.gradient.pool;
    // SAFETY: as the caller promises.
    unsafe {
        match (rows.gradient.apart, pool.lanes.is_multiple_of(V::COUNT)) {
            (true, true) => windows::<V, true, true>(rows),
            (true, false) => windows::<V, true, false>(rows),
            (false, true) => windows::<V, false, true>(rows),
            (false, false) => windows::<V, false, false>(rows),
        }
    }
}

/// # Safety
/// As for [`rows_on`].
#[inline(always)]
unsafe fn windows<V: Lanes, const APART: bool, const WHOLE: bool>(rows: &Rows<'_>) {
    let (gradient, pool) = (rows.gradient, &rows.gradient.pool);
    let (lanes, width) = (pool.lanes, pool.input[1]);
    for row in rows.rows.clone() {
        let down = pool.windows[0][row];
        for (column, across) in pool.windows[1].iter().enumerate() {
            let mut lane = 0;
            while lane < lanes {
                let count = if WHOLE { V::COUNT } else { (lanes - lane).min(V::COUNT) };
                let at = (down.first * width + across.first) * lanes + lane;
                let elements = Elements {
                    down,
                    across: *across,
                    line: down.step * width * lanes,
                    pixel: across.step * lanes,
                    count,
                };
                // SAFETY: the window is clipped to the plane, and the lanes to the block.
                unsafe {
                    let found = elements.first_largest::<V, WHOLE>(rows.x.wrapping_add(at));
                    let from = rows.d.add((row * pool.output[1] + column) * lanes + lane);
                    let value = load::<V, WHOLE>(from, count);
                    if APART {
                        zero_beside::<V, WHOLE>(gradient, rows.y, [row, column], lane, count);
                    }
                    elements.give::<V, APART, WHOLE>(rows.y.wrapping_add(at), found, value);
                }
                lane += V::COUNT;
            }
        }
    }
}

/// The elements of a window, for some lanes.
struct Elements {
    down: Window,
    across: Window,
    /// The distances between rows and between columns of the window, in elements of the plane.
    line: usize,
    pixel: usize,
    count: usize,
}

impl Elements {
    /// Returns which element is the first largest one, counted row by row, in each lane.
    ///
    /// # Safety
    /// The window at `x` must be in bounds.
    #[inline(always)]
    unsafe fn first_largest<V: Lanes, const WHOLE: bool>(&self, x: *const f32) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            let (mut best, mut found, mut number) = (V::splat(0.0), V::splat(0.0), 0.0);
            for r in 0..self.down.taken {
                for s in 0..self.across.taken {
                    let one = load::<V, WHOLE>(x.add(r * self.line + s * self.pixel), self.count);
                    if number == 0.0 {
                        best = one;
                    } else {
                        let larger = best.less(one);
                        best = V::select(larger, one, best);
                        found = V::select(larger, V::splat(number), found);
                    }
                    number += 1.0;
                }
            }
            found
        }
    }

    /// Writes the value to the element that was found in each lane and zero to the others, or adds it.
    ///
    /// # Safety
    /// The window at `y` must be in bounds, and no other task may use it.
    #[inline(always)]
    unsafe fn give<V: Lanes, const APART: bool, const WHOLE: bool>(&self, y: *mut f32, found: V, value: V) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut number = 0.0;
            for r in 0..self.down.taken {
                for s in 0..self.across.taken {
                    let to = y.add(r * self.line + s * self.pixel);
                    let other = if APART { V::splat(0.0) } else { load::<V, WHOLE>(to, self.count) };
                    let given = if APART { value } else { other.add(value) };
                    let given = V::select(found.equal(V::splat(number)), given, other);
                    store::<V, WHOLE>(given, to, self.count);
                    number += 1.0;
                }
            }
        }
    }
}

/// Writes zero to the pixels between a window and the next ones of which it has none, for windows that are apart.
///
/// # Safety
/// The plane must be in bounds, and no other task may use these pixels.
#[inline(always)]
unsafe fn zero_beside<V: Lanes, const WHOLE: bool>(
    gradient: &Gradient,
    y: *mut f32,
    [row, column]: [usize; 2],
    lane: usize,
    count: usize,
) {
    let pool = &gradient.pool;
    let (down, across) = (pool.windows[0][row], pool.windows[1][column]);
    let (rows, columns) = (gradient.stretch(0, row), gradient.stretch(1, column));
    let dense = down.step == 1 && across.step == 1;
    if dense && down.taken == rows.len() && across.taken == columns.len() {
        return;
    }
    for r in rows {
        for s in columns.clone() {
            // SAFETY: the pixel is one of the plane.
            unsafe {
                store::<V, WHOLE>(V::splat(0.0), y.add((r * pool.input[1] + s) * pool.lanes + lane), count);
            }
        }
    }
}

/// # Safety
/// So many elements must be in bounds.
#[inline(always)]
unsafe fn load<V: Lanes, const WHOLE: bool>(from: *const f32, count: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe { if WHOLE { V::load(from) } else { V::load_first(from, count) } }
}

/// # Safety
/// As for [`load`].
#[inline(always)]
unsafe fn store<V: Lanes, const WHOLE: bool>(value: V, to: *mut f32, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { if WHOLE { value.store(to) } else { value.store_first(to, count) } }
}

impl Kernel for Gradient {
    unsafe fn run(&self, args: &Args<'_>) {
        let pool = &self.pool;
        let ([height, width], [oh, ow]) = (pool.input, pool.output);
        let (image, result) = (height * width * pool.lanes, oh * ow * pool.lanes);
        // Windows that share elements are added one after the other.
        let units = if self.apart { pool.planes * oh } else { pool.planes };
        let parts = tasks(pool.planes * image, units, args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |index| {
            let args = buffers.args();
            let mine = part(units, parts, index, 1);
            let mut at = mine.start;
            while at < mine.end {
                let (plane, rows) = match self.apart {
                    true => (at / oh, at % oh..(at % oh + mine.end - at).min(oh)),
                    false => (at, 0..oh),
                };
                at += if self.apart { rows.len() } else { 1 };
                let y = args.output.cast::<f32>().wrapping_add(plane * image);
                if !self.apart {
                    // SAFETY: only this task writes the plane.
                    unsafe { y.write_bytes(0, image) };
                }
                let some = Rows {
                    gradient: self,
                    x: args.inputs[0].cast::<f32>().wrapping_add(plane * image),
                    d: args.inputs[1].cast::<f32>().wrapping_add(plane * result),
                    y,
                    rows,
                };
                // SAFETY: only this task writes these rows of windows, and the pixels between them.
                unsafe { some_rows(&some) };
            }
        });
    }
}
