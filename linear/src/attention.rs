//! `attention` on `f32`. The scores of a few rows at a time stay in the cache and are never stored as a whole.
//!
//! A task computes some rows of one head. It packs the keys into panels. Then, for each block of rows, it computes
//! the scores, the exponentials of their softmax, and the product with the values. The rows of that product are
//! divided by the sums of the exponentials at the end. Operands are read, and the result is written, with the strides
//! of the order of axes in which they are stored.

use super::args::{Buffers, Shared};
use super::gemm::{Micro, PANEL, Tile, micro};
use super::lanes::{Lanes, widened};
use super::math;
use super::prefetch::Prefetch;
use super::tile;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::attention::AxisOrder;
use ovolo::op::{KernelChoice, Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    instruction_sets: ISAS,
    choices,
    ..Lowering::new("native.attention", "attention", contract, kernel)
}];

/// The number of scores that are kept at a time: 128 KiB.
const SCORES: usize = 32 * 1024;
/// The largest number of rows in a block.
const ROWS: usize = 112;

struct Attention {
    micro: &'static Micro,
    heads: usize,
    /// The rows of the queries, and the columns of queries and keys.
    rows: usize,
    width: usize,
    /// The rows of keys and values, and the same number rounded up to whole panels.
    keys: usize,
    padded: usize,
    /// The columns of the values.
    columns: usize,
    /// The rows of a block.
    block: usize,
    /// The number of row blocks in a task.
    band: usize,
    scale: f32,
    /// Whether rows whose weights are NaN have weights of 0.
    nan_as_zero: bool,
    /// The strides of queries, keys, values and result for batch, head and row.
    strides: [[usize; 3]; 4],
    /// The strides of the mask for batch, head, row and column, and the number of heads in a batch.
    mask: Option<[usize; 4]>,
    batch_heads: usize,
    threads: usize,
}

fn plan(call: &Call<'_>) -> Option<Attention> {
    if call.inputs.iter().any(|ty| ty.dtype != DType::F32 || !ty.layout.is_plain()) {
        return None;
    }
    let order = AxisOrder::new(call.attrs).ok()?;
    let stored = [call.inputs[0], call.inputs[1], call.inputs[2], call.output];
    let [q, k, v, _] = stored.map(|ty| order.sizes(&ty.shape));
    let strides = stored.map(|ty| {
        let [batch, head, row, _] = order.strides(&ty.shape);
        [batch, head, row]
    });
    let micro = micro();
    let padded = k[2].next_multiple_of(PANEL);
    let tallest = micro.rows();
    let block =
        (SCORES / padded.max(1)).clamp(1, ROWS).next_multiple_of(tallest).min(ROWS / tallest * tallest);
    let heads = q[0] * q[1];
    // With few heads the rows of a head are divided between tasks, and each of these tasks packs the keys again.
    let blocks = q[2].div_ceil(block).max(1);
    let bands = if heads >= 2 * call.threads || call.threads == 1 {
        1
    } else {
        (2 * call.threads).div_ceil(heads.max(1))
    };
    let mask = call.inputs.get(3).map(|mask| {
        let skip = 4 - mask.shape.rank();
        let strides = mask.shape.strides();
        std::array::from_fn(
            |dim| if dim < skip || mask.shape[dim - skip] == 1 { 0 } else { strides[dim - skip] },
        )
    });
    Some(Attention {
        micro,
        heads,
        rows: q[2],
        width: q[3],
        keys: k[2],
        padded,
        columns: v[3],
        block,
        band: blocks.div_ceil(bands.min(blocks)),
        scale: call.attrs.expect_float("scale") as f32,
        nan_as_zero: call.attrs.expect_int("nan_as_zero") == 1,
        strides,
        mask,
        batch_heads: q[1],
        threads: call.threads,
    })
}

/// How threads share the heads: by sizes and threads alone.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(plan) = plan(call) else { return Vec::new() };
    let whole = plan.band * plan.block >= plan.rows;
    let threads =
        if whole { "each has whole heads" } else { "rows of a head are shared, and its keys packed again" };
    vec![KernelChoice::new("threads", threads), KernelChoice::new("rows of a block", plan.block.to_string())]
}

impl Attention {
    /// Returns the scratch elements of one thread.
    fn slot(&self) -> usize {
        (self.padded * (self.width + self.block)).next_multiple_of(16)
    }

    /// # Safety
    /// The unit must be in range, and no other thread may use this unit or this slot.
    unsafe fn unit(&self, args: &Args<'_>, head: usize, band: usize, slot: usize) {
        let [q, k, v] = [0, 1, 2].map(|operand| Shared::<f32>::input(args, operand));
        let output = Shared::<f32>::output(args);
        let packed = Shared::<f32>::scratch(args).at(slot * self.slot());
        let scores = packed.wrapping_add(self.padded * self.width);
        let [queries_row, keys_row, values_row, result_row] = self.strides.map(|[_, _, row]| row);
        let keys = k.at(self.first(1, head));
        let values = v.at(self.first(2, head));
        // SAFETY: all rows are within the shapes of the operands, and panels and scores are within the slot.
        unsafe {
            for first in (0..self.keys).step_by(PANEL) {
                let panel = packed.add(first * self.width);
                let count = PANEL.min(self.keys - first);
                if count < PANEL {
                    std::slice::from_raw_parts_mut(panel, PANEL * self.width).fill(0.0);
                }
                let from = keys.add(first * keys_row);
                tile::transpose(
                    from.cast_const(),
                    keys_row as isize,
                    panel,
                    PANEL as isize,
                    self.width,
                    count,
                );
            }
            let end = ((band + 1) * self.band * self.block).min(self.rows);
            for row in (band * self.band * self.block..end).step_by(self.block) {
                let rows = self.block.min(end - row);
                let product = Tile {
                    a: q.at(self.first(0, head) + row * queries_row),
                    a_stride: queries_row,
                    b: packed,
                    b_stride: PANEL,
                    c: scores,
                    c_stride: self.padded,
                    depth: self.width,
                    columns: PANEL,
                    accumulate: false,
                    ahead: Prefetch::NONE,
                };
                for first in (0..self.padded).step_by(PANEL) {
                    let (b, c) = (packed.add(first * self.width).cast_const(), scores.add(first));
                    self.micro.block(&Tile { b, c, ..product }, rows);
                }
                let mut sums = [0.0; ROWS];
                for (r, sum) in sums[..rows].iter_mut().enumerate() {
                    let (mask, step) = self.mask_row(args, head, row + r);
                    let weights = scores.add(r * self.padded);
                    *sum = exponentials(weights, self.keys, self.scale, mask, step);
                    // Where all scores are -infinity, the exponentials are 0, and the weights would be 0 / 0.
                    if self.nan_as_zero && (sum.is_nan() || *sum <= 0.0) {
                        std::slice::from_raw_parts_mut(weights, self.keys).fill(0.0);
                        *sum = 1.0;
                    }
                }
                let result = output.at(self.first(3, head) + row * result_row);
                for first in (0..self.columns).step_by(PANEL) {
                    let product = Tile {
                        a: scores,
                        a_stride: self.padded,
                        b: values.add(first),
                        b_stride: values_row,
                        c: result.add(first),
                        c_stride: result_row,
                        depth: self.keys,
                        columns: PANEL.min(self.columns - first),
                        accumulate: false,
                        ahead: Prefetch::NONE,
                    };
                    self.micro.block(&product, rows);
                }
                for (r, sum) in sums[..rows].iter().enumerate() {
                    let row = std::slice::from_raw_parts_mut(result.add(r * result_row), self.columns);
                    let factor = 1.0 / sum;
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
        }
    }

    /// Returns the place of the first element of a head in queries, keys, values or the result (0 to 3).
    fn first(&self, operand: usize, head: usize) -> usize {
        let [batch, inner, _] = self.strides[operand];
        head / self.batch_heads * batch + head % self.batch_heads * inner
    }

    /// Returns the address of the mask's row for a row of a head, and the mask's stride along the row. The address is
    /// null if there is no mask.
    fn mask_row(&self, args: &Args<'_>, head: usize, row: usize) -> (*const f32, usize) {
        match self.mask {
            None => (std::ptr::null(), 0),
            Some([batch, inner, rows, columns]) => {
                let offset = head / self.batch_heads * batch + head % self.batch_heads * inner + row * rows;
                (Shared::<f32>::input(args, 3).at(offset), columns)
            }
        }
    }
}

widened! {
    /// Replaces the scores by `e^(scale * score + mask - maximum)` and stores their sum in `sum`.
    ///
    /// # Safety
    /// The row must be in bounds, and so must the mask unless it is null.
    unsafe fn exponentials_into(
        row: *mut f32, length: usize, scale: f32, mask: *const f32, step: usize, sum: &mut f32,
    ) = exponentials_on;
}

/// # Safety
/// As for [`exponentials_into`].
unsafe fn exponentials(row: *mut f32, length: usize, scale: f32, mask: *const f32, step: usize) -> f32 {
    let mut sum = 0.0;
    // SAFETY: as the caller promises.
    unsafe { exponentials_into(row, length, scale, mask, step, &mut sum) };
    sum
}

/// # Safety
/// As for [`exponentials_into`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn exponentials_on<V: Lanes>(
    row: *mut f32,
    length: usize,
    scale: f32,
    mask: *const f32,
    step: usize,
    sum: &mut f32,
) {
    // SAFETY: as the caller promises; only lanes within the row are loaded and stored.
    unsafe {
        let lowest = V::splat(f32::NEG_INFINITY);
        let factor = V::splat(scale);
        let mut greatest = lowest;
        let whole = length / V::COUNT * V::COUNT;
        let constant = if mask.is_null() || step == 1 { 0.0 } else { *mask };
        let mut at = 0;
        while at < whole {
            let term = if step == 1 { V::load(mask.add(at)) } else { V::splat(constant) };
            let x = V::load(row.add(at)).mul_add(factor, term);
            x.store(row.add(at));
            greatest = x.max(greatest);
            at += V::COUNT;
        }
        let mut most = greatest.greatest();
        while at < length {
            let x = *row.add(at) * scale + if step == 1 { *mask.add(at) } else { constant };
            *row.add(at) = x;
            most = most.max(x);
            at += 1;
        }
        let shift = V::splat(if most == f32::NEG_INFINITY { 0.0 } else { most });
        let mut total = V::splat(0.0);
        at = 0;
        while at < length {
            let rest = length - at;
            if rest >= V::COUNT {
                let e = math::share(V::load(row.add(at)).sub(shift));
                total = total.add(e);
                e.store(row.add(at));
            } else {
                let e = math::share(V::load_first(row.add(at), rest).sub(shift));
                e.store_first(row.add(at), rest);
                total = total.add(V::load_first(row.add(at), rest));
            }
            at += V::COUNT;
        }
        *sum = total.sum();
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(plan) = plan(call) else { return reference::contract(call) };
    let scratch = plan.slot() * call.threads * size_of::<f32>();
    Ok(Contract { scratch, ..plain_contract(&format!("tiles-{}", plan.micro.name)) })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match plan(call) {
        None => reference::kernel(call),
        Some(plan) => Ok(Box::new(plan)),
    }
}

impl Kernel for Attention {
    unsafe fn run(&self, args: &Args<'_>) {
        let bands = self.rows.div_ceil(self.band * self.block);
        let units = self.heads * bands;
        if units == 0 || self.columns == 0 {
            return;
        }
        let work = self.heads * self.rows * self.keys * (self.width + self.columns);
        let most = if work < 128 * 1024 { 1 } else { self.threads };
        let buffers = Buffers::new(args);
        args.team.share(most, units, |slot, unit| {
            // SAFETY: each unit runs once, and only this thread uses this slot.
            unsafe { self.unit(buffers.args(), unit / bands, unit % bands, slot) };
        });
    }
}
