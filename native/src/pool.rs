//! Pools in the default layout, and in all layouts with channels innermost.

use super::args::{Buffers, tasks};
use super::lanes::{Lanes, widened};
use super::{IMAGES, ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        layouts: IMAGES,
        instruction_sets: ISAS,
        ..Lowering::new("native.max-pool", "max-pool", contract, kernel)
    },
    Lowering {
        layouts: IMAGES,
        instruction_sets: ISAS,
        ..Lowering::new("native.avg-pool", "avg-pool", contract, kernel)
    },
];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Pool::new(call) {
        Some(_) => Ok(plain_contract("windows")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Pool::new(call) {
        Some(pool) => Ok(Box::new(pool)),
        None => reference::kernel(call),
    }
}

struct Pool {
    max: bool,
    /// The number of images or blocks of channels, and the number of contiguous channels in each.
    planes: usize,
    lanes: usize,
    input: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [usize; 2],
    pads_after: [usize; 2],
    count_pads: bool,
}

impl Pool {
    fn new(call: &Call<'_>) -> Option<Self> {
        let x = call.inputs[0];
        if x.dtype != DType::F32 {
            return None;
        }
        let ints = |name: &str, otherwise: &[i64]| -> Vec<usize> {
            let values =
                if call.attrs.get(name).is_some() { call.attrs.expect_ints(name) } else { otherwise };
            values.iter().map(|value| usize::try_from(*value).unwrap_or(0)).collect()
        };
        let pair = |values: &[usize]| [values[0], values[1]];
        let pads = ints("pads", &[]);
        let (planes, lanes) = match x.layout.to_string().as_str() {
            "plain" => (x.shape[0] * x.shape[1], 1),
            "nhwc" => (x.shape[0], x.shape[1]),
            _ => (x.shape[0] * x.shape[1].div_ceil(x.layout.block(1)), x.layout.block(1)),
        };
        Some(Self {
            max: call.op == "native.max-pool",
            planes,
            lanes,
            input: [x.shape[2], x.shape[3]],
            output: [call.output.shape[2], call.output.shape[3]],
            kernel: pair(&ints("kernel", &[])),
            strides: pair(&ints("strides", &[1, 1])),
            dilations: pair(&ints("dilations", &[1, 1])),
            pads: [pads[0], pads[1]],
            pads_after: [pads[2], pads[3]],
            count_pads: call.attrs.get("count-include-pad").is_some()
                && call.attrs.expect_int("count-include-pad") == 1,
        })
    }

    /// Returns the input positions of a window along an axis: the first, the distance between them, their number, and
    /// the number by which an average is divided.
    fn window(&self, axis: usize, output: usize) -> (usize, usize, usize, usize) {
        let start = output * self.strides[axis];
        let at = |tap: usize| start + tap * self.dilations[axis];
        let (before, size) = (self.pads[axis], self.input[axis]);
        let inside = (0..self.kernel[axis]).filter(|tap| at(*tap) >= before && at(*tap) < before + size);
        let first = inside.clone().next().map_or(0, |tap| at(tap) - before);
        let padded = before + size + self.pads_after[axis];
        let counted = (0..self.kernel[axis]).filter(|tap| at(*tap) < padded).count();
        let taken = inside.count();
        (first, self.dilations[axis], taken, if self.count_pads { counted } else { taken })
    }
}

/// One row of one plane.
struct Row<'a> {
    pool: &'a Pool,
    x: *const f32,
    y: *mut f32,
    row: usize,
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
    let pool = row.pool;
    let (lanes, width) = (pool.lanes, pool.input[1]);
    let (top, down, rows, row_count) = pool.window(0, row.row);
    for column in 0..pool.output[1] {
        let (left, across, columns, column_count) = pool.window(1, column);
        #[allow(clippy::cast_precision_loss)]
        let divisor = (row_count * column_count).max(1) as f32;
        let mut lane = 0;
        while lane < lanes {
            let count = (lanes - lane).min(V::COUNT);
            // SAFETY: the window is clipped to the plane, and the lanes to the block.
            unsafe {
                let mut value = V::splat(if pool.max { f32::NEG_INFINITY } else { 0.0 });
                for r in 0..rows {
                    for c in 0..columns {
                        let at = ((top + r * down) * width + left + c * across) * lanes + lane;
                        let from = row.x.add(at);
                        let one = if count == V::COUNT { V::load(from) } else { V::load_first(from, count) };
                        value = if pool.max { one.max(value) } else { value.add(one) };
                    }
                }
                let value = if pool.max { value } else { value.div(V::splat(divisor)) };
                value.store_first(row.y.add(column * lanes + lane), count);
            }
            lane += V::COUNT;
        }
    }
}

impl Kernel for Pool {
    unsafe fn run(&self, args: &Args<'_>) {
        let [height, width] = self.input;
        let [oh, ow] = self.output;
        let total = self.planes * oh;
        let work = total * ow * self.lanes * self.kernel[0] * self.kernel[1] / 4;
        let parts = tasks(work, total, args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |part| {
            let args = buffers.args();
            for index in total * part / parts..total * (part + 1) / parts {
                let plane = index / oh;
                let one = Row {
                    pool: self,
                    x: args.inputs[0].cast::<f32>().wrapping_add(plane * height * width * self.lanes),
                    y: args.output.cast::<f32>().wrapping_add(index * ow * self.lanes),
                    row: index % oh,
                };
                // SAFETY: only this task writes the row.
                unsafe { one_row(&one) };
            }
        });
    }
}
