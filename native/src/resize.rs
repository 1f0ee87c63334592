//! Resampling in the default layout, and in all layouts with channels innermost.

use super::args::{Buffers, part, tasks};
use super::lanes::{Lanes, widened};
use super::{IMAGES, ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::resize::taps;
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    layouts: IMAGES,
    instruction_sets: ISAS,
    ..Lowering::new("native.resize", "resize", contract, kernel)
}];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match call.inputs[0].dtype {
        DType::F32 => Ok(plain_contract("taps")),
        _ => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match call.inputs[0].dtype {
        DType::F32 => Ok(Box::new(Resize::new(call))),
        _ => reference::kernel(call),
    }
}

/// The elements of the operand along one axis that contribute to an element of the result, with their weights.
type Taps = Vec<(usize, f32)>;

struct Resize {
    /// The number of images or blocks of channels, and the number of contiguous channels in each.
    planes: usize,
    lanes: usize,
    height: usize,
    width: usize,
    rows: Vec<Taps>,
    columns: Vec<Taps>,
}

impl Resize {
    fn new(call: &Call<'_>) -> Self {
        let x = call.inputs[0];
        let channels = x.shape[1];
        let (planes, lanes) = match (x.layout.is_plain(), x.layout.block(1)) {
            (true, _) => (x.shape[0] * channels, 1),
            (false, 1) => (x.shape[0], channels),
            (false, block) => (x.shape[0] * channels.div_ceil(block), block),
        };
        #[allow(clippy::cast_possible_truncation)]
        let narrow = |axis: usize| -> Vec<Taps> {
            let taps = taps(call.attrs, axis, x.shape[2 + axis]);
            taps.into_iter()
                .map(|one| one.into_iter().map(|(at, weight)| (at, weight as f32)).collect())
                .collect()
        };
        Self { planes, lanes, height: x.shape[2], width: x.shape[3], rows: narrow(0), columns: narrow(1) }
    }
}

/// One row of one plane.
struct Row<'a> {
    resize: &'a Resize,
    x: *const f32,
    y: *mut f32,
    row: &'a [(usize, f32)],
}

widened! {
    /// # Safety
    /// The plane and the row must be in bounds.
    unsafe fn one_row(row: &Row<'_>) = row_on;
}

/// # Safety
/// As for [`one_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(row: &Row<'_>) {
    let (lanes, width) = (row.resize.lanes, row.resize.width);
    if lanes == 1 {
        for (column, taps) in row.resize.columns.iter().enumerate() {
            let mut value = 0.0;
            for (r, down) in row.row {
                for (c, across) in taps {
                    // SAFETY: taps are within the plane.
                    value += down * across * unsafe { *row.x.add(r * width + c) };
                }
            }
            // SAFETY: the column is within the row.
            unsafe { *row.y.add(column) = value };
        }
        return;
    }
    for (column, taps) in row.resize.columns.iter().enumerate() {
        let mut lane = 0;
        while lane < lanes {
            let count = (lanes - lane).min(V::COUNT);
            // SAFETY: taps are within the plane, and the lanes within the block.
            unsafe {
                let mut value = V::splat(0.0);
                for (r, down) in row.row {
                    for (c, across) in taps {
                        let from = row.x.add((r * width + c) * lanes + lane);
                        let one = if count == V::COUNT { V::load(from) } else { V::load_first(from, count) };
                        value = one.mul_add(V::splat(down * across), value);
                    }
                }
                value.store_first(row.y.add(column * lanes + lane), count);
            }
            lane += V::COUNT;
        }
    }
}

impl Kernel for Resize {
    unsafe fn run(&self, args: &Args<'_>) {
        let (oh, ow) = (self.rows.len(), self.columns.len());
        let total = self.planes * oh;
        let parts = tasks(total * ow * self.lanes, total, args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |index| {
            let args = buffers.args();
            for at in part(total, parts, index, 1) {
                let plane = at / oh * self.height * self.width * self.lanes;
                let one = Row {
                    resize: self,
                    x: args.inputs[0].cast::<f32>().wrapping_add(plane),
                    y: args.output.cast::<f32>().wrapping_add(at * ow * self.lanes),
                    row: &self.rows[at % oh],
                };
                // SAFETY: only this task writes the row.
                unsafe { one_row(&one) };
            }
        });
    }
}
