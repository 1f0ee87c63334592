//! `native.max-pool-index` on images in the default layout: where the first largest element of each window is.

use super::super::args::{Shared, part, tasks};
use super::super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::ops::Range;

/// The declaration of the op.
pub(in super::super) const OP: Lowering =
    Lowering::new("native.max-pool-index", "max-pool-index", contract, kernel);

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Index::new(call) {
        Some(_) => Ok(plain_contract("windows")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Index::new(call) {
        Some(index) => Ok(Box::new(index)),
        None => reference::kernel(call),
    }
}

/// The elements of a window along an axis that lie in the image: the first one, and their number.
#[derive(Clone, Copy)]
struct Window {
    first: usize,
    taken: usize,
}

struct Index {
    planes: usize,
    input: [usize; 2],
    /// The distance between the elements of a window.
    steps: [usize; 2],
    /// The windows of each row and of each column of the result.
    windows: [Vec<Window>; 2],
    column_major: bool,
}

impl Index {
    /// `None` if the operand is no image of `f32`.
    fn new(call: &Call<'_>) -> Option<Self> {
        let (x, y) = (call.inputs[0], call.output);
        if x.dtype != DType::F32 || x.shape.rank() != 4 {
            return None;
        }
        let list = |name: &str| -> Vec<usize> {
            call.attrs.expect_ints(name).iter().map(|one| usize::try_from(*one).unwrap_or(0)).collect()
        };
        let (kernel, strides, pads) = (list("kernel"), list("strides"), list("pads"));
        let dilations = list("dilations");
        let windows = |axis: usize| {
            let window = |output: usize| {
                let start = output * strides[axis];
                let inside = |tap: &usize| {
                    (start + tap * dilations[axis])
                        .checked_sub(pads[axis])
                        .is_some_and(|at| at < x.shape[2 + axis])
                };
                let mut taps = (0..kernel[axis]).filter(inside);
                let first = taps.next();
                Window {
                    first: first.map_or(0, |tap| start + tap * dilations[axis] - pads[axis]),
                    taken: first.map_or(0, |_| 1 + taps.count()),
                }
            };
            (0..y.shape[2 + axis]).map(window).collect()
        };
        Some(Self {
            planes: x.shape[0] * x.shape[1],
            input: [x.shape[2], x.shape[3]],
            steps: [dilations[0], dilations[1]],
            windows: [windows(0), windows(1)],
            column_major: call.attrs.expect_int("column-major") != 0,
        })
    }

    /// Writes the positions of some rows of the result, which are counted through all planes.
    ///
    /// # Safety
    /// No other task may write these rows.
    unsafe fn rows(&self, x: *const f32, y: *mut i64, rows: Range<usize>) {
        let [height, width] = self.input;
        let [down, across] = &self.windows;
        // The largest element of each window so far, and where it is.
        let mut found: Vec<(f32, usize)> = vec![(0.0, 0); across.len()];
        for row in rows {
            let (plane, window) = (row / down.len(), down[row % down.len()]);
            let first = plane * height * width;
            for (one, columns) in found.iter_mut().zip(across) {
                let at = window.first * width + columns.first;
                // SAFETY: the window is cut to the image, and has elements, or its position is not used.
                *one = (unsafe { *x.add(first + at.min(height * width - 1)) }, at);
            }
            for r in 0..window.taken {
                let line = (window.first + r * self.steps[0]) * width;
                for (one, columns) in found.iter_mut().zip(across) {
                    for s in 0..columns.taken {
                        let at = line + columns.first + s * self.steps[1];
                        // SAFETY: the window is cut to the image.
                        let value = unsafe { *x.add(first + at) };
                        *one = if value > one.0 { (value, at) } else { *one };
                    }
                }
            }
            for (column, (one, columns)) in found.iter().zip(across).enumerate() {
                let position = match self.column_major {
                    true => one.1 % width * height + one.1 / width,
                    false => one.1,
                };
                let empty = window.taken == 0 || columns.taken == 0;
                // SAFETY: the row is one of the result, and of this task.
                unsafe {
                    *y.add(row * across.len() + column) = if empty { 0 } else { (first + position) as i64 };
                }
            }
        }
    }
}

impl Kernel for Index {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, y) = (Shared::<f32>::input(args, 0), Shared::<i64>::output(args));
        let rows = self.planes * self.windows[0].len();
        let parts = tasks(rows * self.windows[1].len() * 8, rows, args.team.threads());
        args.team.run(parts, |index| {
            // SAFETY: tasks have rows of their own.
            unsafe { self.rows(x.at(0), y.at(0), part(rows, parts, index, 1)) };
        });
    }
}
