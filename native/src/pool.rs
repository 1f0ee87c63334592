//! Pools in the default layout, and in all layouts with channels innermost.
//!
//! Where channels are innermost, each vector of them is a window of its own. In the default layout, the rows of a
//! window are first reduced to a line, whose elements outside of the image are neutral, and then the line's columns.

mod bytes;
mod gradient;
mod index;
mod line;

use super::args::{Buffers, tasks};
use super::lanes::{Lanes, widened};
use super::padding::Padding;
use super::{IMAGES, ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{KernelChoice, Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        layouts: IMAGES,
        choices,
        instruction_sets: ISAS,
        ..Lowering::new("native.max-pool", "max-pool", contract, kernel)
    },
    Lowering {
        layouts: IMAGES,
        choices,
        instruction_sets: ISAS,
        ..Lowering::new("native.avg-pool", "avg-pool", contract, kernel)
    },
    index::OP,
    gradient::OP,
];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Pool::new(call) {
        Some(_) => Ok(plain_contract("windows")),
        None => reference::contract(call),
    }
}

/// How many columns of a row are reduced at a time in the default layout: by sizes alone.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let floats = call.output.dtype == DType::F32;
    let Some(pool) = Pool::new(call).filter(|pool| floats && pool.has_lines()) else { return Vec::new() };
    let count = pool.at_a_time().min(pool.output[1]);
    vec![KernelChoice::new("columns at a time", format!("{count} of {}", pool.output[1]))]
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match (Pool::new(call), call.output.dtype) {
        (Some(pool), DType::F32) => Ok(Box::new(pool)),
        (Some(pool), dtype) => Ok(Box::new(bytes::Bytes { pool, signed: dtype == DType::I8 })),
        (None, _) => reference::kernel(call),
    }
}

/// The input positions of a window along an axis: the first, the distance between them and their number, and the
/// number by which an average is divided.
#[derive(Clone, Copy)]
struct Window {
    first: usize,
    step: usize,
    taken: usize,
    divisor: usize,
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
    /// The windows of each row and of each column of the result.
    windows: [Vec<Window>; 2],
    /// The numbers by which the averages of the columns are divided, for one row of a window.
    divisors: Vec<f32>,
    /// The padding of the result, if some window has no element, which gives negative infinity.
    padding: Option<Padding>,
}

impl Pool {
    fn new(call: &Call<'_>) -> Option<Self> {
        Self::of(call, call.output)
    }

    /// Returns the pool of the first operand whose result has this type.
    fn of(call: &Call<'_>, y: &TensorType) -> Option<Self> {
        let x = call.inputs[0];
        let bytes = matches!(x.dtype, DType::U8 | DType::I8) && call.op == "native.max-pool";
        if x.dtype != DType::F32 && !bytes {
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
        let mut pool = Self {
            max: call.op == "native.max-pool",
            planes,
            lanes,
            input: [x.shape[2], x.shape[3]],
            output: [y.shape[2], y.shape[3]],
            kernel: pair(&ints("kernel", &[])),
            strides: pair(&ints("strides", &[1, 1])),
            dilations: pair(&ints("dilations", &[1, 1])),
            pads: [pads[0], pads[1]],
            pads_after: [pads[2], pads[3]],
            count_pads: call.attrs.get("count-include-pad").is_some()
                && call.attrs.expect_int("count-include-pad") == 1,
            windows: [Vec::new(), Vec::new()],
            divisors: Vec::new(),
            padding: None,
        };
        pool.windows = [0, 1].map(|axis| (0..pool.output[axis]).map(|at| pool.window(axis, at)).collect());
        #[allow(clippy::cast_precision_loss)]
        let divisors = pool.windows[1].iter().map(|window| window.divisor as f32).collect();
        pool.divisors = divisors;
        let empty = pool.windows.iter().flatten().any(|window| window.taken == 0);
        pool.padding = (pool.max && empty).then(|| Padding::new(y));
        Some(pool)
    }

    /// Returns a window along an axis.
    fn window(&self, axis: usize, output: usize) -> Window {
        let start = output * self.strides[axis];
        let at = |tap: usize| start + tap * self.dilations[axis];
        let (before, size) = (self.pads[axis], self.input[axis]);
        let inside = (0..self.kernel[axis]).filter(|tap| at(*tap) >= before && at(*tap) < before + size);
        let first = inside.clone().next().map_or(0, |tap| at(tap) - before);
        let padded = before + size + self.pads_after[axis];
        let counted = (0..self.kernel[axis]).filter(|tap| at(*tap) < padded).count();
        let taken = inside.count();
        let divisor = if self.count_pads { counted } else { taken };
        Window { first, step: self.dilations[axis], taken, divisor }
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
    // SAFETY: as the caller promises.
    unsafe {
        match (row.pool.has_lines(), row.pool.max) {
            (true, true) => line::row::<V, true>(row),
            (true, false) => line::row::<V, false>(row),
            (false, true) => channels::<V, true>(row),
            (false, false) => channels::<V, false>(row),
        }
    }
}

/// A row whose channels are innermost.
///
/// # Safety
/// As for [`row_on`].
#[inline(always)]
unsafe fn channels<V: Lanes, const MAX: bool>(row: &Row<'_>) {
    let pool = row.pool;
    let (lanes, width) = (pool.lanes, pool.input[1]);
    let down = pool.windows[0][row.row];
    let initial = if MAX { f32::NEG_INFINITY } else { 0.0 };
    for (column, across) in pool.windows[1].iter().enumerate() {
        #[allow(clippy::cast_precision_loss)]
        let divisor = (down.divisor * across.divisor).max(1) as f32;
        let mut lane = 0;
        while lane < lanes {
            let count = (lanes - lane).min(V::COUNT);
            let whole = count == V::COUNT;
            // SAFETY: the window is clipped to the plane, and the lanes to the block.
            unsafe {
                let mut value = V::splat(initial);
                for r in 0..down.taken {
                    let line = (down.first + r * down.step) * width + across.first;
                    let mut from = row.x.add(line * lanes + lane);
                    for _ in 0..across.taken {
                        let one = if whole { V::load(from) } else { V::load_first(from, count) };
                        value = if MAX { one.max(value) } else { value.add(one) };
                        from = from.wrapping_add(across.step * lanes);
                    }
                }
                let value = if MAX { value } else { value.div(V::splat(divisor)) };
                let to = row.y.add(column * lanes + lane);
                if whole { value.store(to) } else { value.store_first(to, count) }
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
        if let Some(padding) = &self.padding {
            padding.zero(args);
        }
    }
}
