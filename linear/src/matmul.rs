//! `matmul`, `matmul-packed` and `matmul-strassen`, with a post chain on the result.
//!
//! The result is divided into bands of rows and panels of 32 columns. A task computes one such piece over blocks of
//! the inner dimension, so that data that is read again stays in the second-level cache.

mod sparse;
mod steps;
mod strassen;

use self::steps::Steps;
use super::args::{Buffers, Shared};
use super::broadcast::Broadcast;
use super::chain::Area;
use super::gemm::{Micro, PANEL, Tile, WIDE, micro};
use super::prefetch::Prefetch;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, KernelChoice, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, Shape, TensorType};
use std::mem::MaybeUninit;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        instruction_sets: ISAS,
        choices,
        ..Lowering::new("native.matmul", "matmul", contract, kernel)
    },
    Lowering {
        layouts: Layouts::Forms(&[Form::new(&["plain", "Ba32b"], "plain")]),
        instruction_sets: ISAS,
        choices,
        ..Lowering::new("native.matmul-packed", "matmul", contract, kernel)
    },
    sparse::OP,
    strassen::OP,
];

/// The rows of the inner dimension in one pass: a panel of them takes 128 KiB.
const DEPTH: usize = 1024;
/// The elements of the left operand in a band: 512 KiB.
const BAND: usize = 128 * 1024;
/// The number of multiply-adds from which on a task is worth waking a thread.
const MIN_TASK_WORK: usize = 64 * 1024;
/// The number of rows from which on a plain right operand is packed, panel by panel.
const PACK_ROWS: usize = 32;
/// The number of rows up to which the inner dimension is not divided, because the left operand is small.
const FEW_ROWS: usize = 8;

/// The elements of the largest tile.
const STAGE: usize = 8 * WIDE;

struct Tiling {
    rows: usize,
    columns: usize,
    depth: usize,
    /// The distance between rows of the right operand as the tiles read it, and the distance between panels, in
    /// elements.
    row_stride: usize,
    panel_stride: usize,
    /// The offsets of both operands for each product of the batch.
    batch: Vec<(usize, usize)>,
    /// The columns of a piece: one panel, or more if there are few rows and the right operand is not packed.
    panel: usize,
    pack: bool,
    block: usize,
    band: usize,
    steps: Steps,
}

impl Tiling {
    /// Returns whether tiles are computed in a separate buffer, from which the last step stores them in the result.
    fn stages(&self) -> bool {
        !self.steps.is_empty() && self.block >= self.depth
    }
}

fn plan(call: &Call<'_>) -> Option<Tiling> {
    let (a, b) = (call.inputs[0], call.inputs[1]);
    let packed = call.op == "native.matmul-packed";
    let plain = |ty: &&TensorType| ty.dtype == DType::F32 && ty.layout.is_plain();
    if !plain(&a) || b.dtype != DType::F32 || !call.inputs[2..].iter().all(plain) || !plain(&call.output) {
        return None;
    }
    let (mut rows, depth) = (a.shape[a.shape.rank() - 2], a.shape[a.shape.rank() - 1]);
    let columns = b.shape[b.shape.rank() - 1];
    let outer = |shape: &Shape| Shape::new(&shape[..shape.rank() - 2]);
    let mut batch = vec![(0, 0)];
    if outer(&b.shape).count() == 1 {
        rows *= outer(&a.shape).count();
        let blocks_fit = b.layout.blocks() == [(1, PANEL)] && b.layout.order(2) == [1, 0];
        if packed && !blocks_fit {
            return None;
        }
    } else {
        if packed || !b.layout.is_plain() {
            return None;
        }
        let output = TensorType::plain(DType::F32, outer(&call.output.shape));
        let [left, right] = [a, b].map(|ty| TensorType::plain(DType::F32, outer(&ty.shape)));
        let loops = Broadcast::new(&output, [&left, &right])?;
        batch.clear();
        loops.walk(0..loops.rows(), |_, [left, right]| {
            for i in 0..loops.length {
                let (left, right) = (left + i * loops.strides[0], right + i * loops.strides[1]);
                batch.push((left * rows * depth, right * depth * columns));
            }
        });
    }
    let steps = Steps::new(call)?;
    let block =
        if rows <= FEW_ROWS { depth.max(1) } else { depth.div_ceil(depth.div_ceil(DEPTH).max(1)).max(1) };
    let few = !packed && rows <= micro().wide_rows();
    // Reading longer pieces of a row is faster, but there should be pieces for all threads.
    let panel =
        if few { (columns / (4 * call.threads)).next_multiple_of(PANEL).clamp(PANEL, WIDE) } else { PANEL };
    let tallest = micro().rows();
    let band = (BAND / block).max(tallest) / tallest * tallest;
    let bands = rows.div_ceil(band).max(1);
    Some(Tiling {
        rows,
        columns,
        depth,
        row_stride: if packed { PANEL } else { columns },
        panel_stride: if packed { depth * PANEL } else { panel },
        panel,
        batch,
        pack: !packed && rows >= PACK_ROWS,
        block,
        // Bands have nearly equal height.
        band: rows.div_ceil(bands).next_multiple_of(tallest).min(rows.max(1)),
        steps,
    })
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(plan) = plan(call) else { return reference::contract(call) };
    let in_place = |n: &usize| plan.stages() && call.inputs[*n] == call.output;
    let scratch = if plan.pack { call.threads * plan.block * PANEL * size_of::<f32>() } else { 0 };
    let in_place = (2..call.inputs.len()).filter(in_place).collect();
    Ok(Contract { scratch, in_place, ..plain_contract(&format!("tiles-{}", micro().name)) })
}

/// How the operands are cut and read: by sizes and threads alone.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(plan) = plan(call) else { return Vec::new() };
    let right = match (call.op == "native.matmul-packed", plan.pack) {
        (true, _) => "packed before the run",
        (false, true) => "packed panel by panel while it runs",
        (false, false) => "read as it lies",
    };
    vec![
        KernelChoice::new("right operand", right),
        KernelChoice::new(
            "pieces",
            format!("{} rows of {} columns, {} deep", plan.band, plan.panel, plan.block),
        ),
    ]
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match plan(call) {
        None => reference::kernel(call),
        Some(plan) => Ok(Box::new(MatMul { plan, micro: micro(), threads: call.threads })),
    }
}

/// A panel of a band of a product of the batch.
#[derive(Clone, Copy)]
struct Piece {
    batch: usize,
    band: usize,
    panel: usize,
}

struct MatMul {
    plan: Tiling,
    micro: &'static Micro,
    threads: usize,
}

impl Kernel for MatMul {
    unsafe fn run(&self, args: &Args<'_>) {
        let plan = &self.plan;
        if plan.rows * plan.columns * plan.batch.len() == 0 {
            return;
        }
        let (bands, panels) = (plan.rows.div_ceil(plan.band), plan.columns.div_ceil(plan.panel));
        let total = plan.batch.len() * bands * panels;
        let work = plan.rows * plan.columns * plan.depth.max(1) * plan.batch.len();
        let most = if work < 2 * MIN_TASK_WORK { 1 } else { args.team.threads().min(self.threads).max(1) };
        let chunk = (MIN_TASK_WORK * total / work.max(1)).clamp(1, total.div_ceil(most.min(total)));
        let buffers = Buffers::new(args);
        // Consecutive tasks share the larger operand's part and read all of the smaller one, which then stays in the
        // cache.
        let panels_first = plan.rows * plan.depth > plan.columns * plan.depth;
        let place = |at: usize| {
            let (batch, rest) = (at / (bands * panels), at % (bands * panels));
            let (band, panel) =
                if panels_first { (rest / panels, rest % panels) } else { (rest % bands, rest / bands) };
            Piece { batch, band, panel }
        };
        args.team.share(most, total.div_ceil(chunk), |slot, task| {
            for at in task * chunk..((task + 1) * chunk).min(total) {
                // A thread mostly runs neighbouring tasks one after the other, so the next task tells what to
                // prefetch.
                let next = place(if at + 1 < total { at + 1 } else { at });
                // SAFETY: bands and panels are within the matrices, and no other task has this pair.
                unsafe { self.piece(buffers.args(), place(at), next, slot) };
            }
        });
    }
}

impl MatMul {
    /// Computes one panel of one band of one product. `next` is the piece to prefetch.
    ///
    /// # Safety
    /// The indices must be in range, and no other thread may use this piece of the result or this slot.
    unsafe fn piece(&self, args: &Args<'_>, place: Piece, next: Piece, slot: usize) {
        let plan = &self.plan;
        let Piece { batch, band, panel } = place;
        let (left, right) = plan.batch[batch];
        let (row, column) = (band * plan.band, panel * plan.panel);
        let rows = plan.band.min(plan.rows - row);
        let columns = plan.panel.min(plan.columns - column);
        let a = Shared::<f32>::input(args, 0).at(left + row * plan.depth);
        let b = Shared::<f32>::input(args, 1).at(right + panel * plan.panel_stride);
        let c = Shared::<f32>::output(args).at((batch * plan.rows + row) * plan.columns + column);
        let buffer = Shared::<f32>::scratch(args).at(slot * plan.block * PANEL);
        // In a single pass a tile is finished before any part of it is stored, so an operand of the steps may be in
        // place.
        let staged = plan.stages();
        let mut stage = [MaybeUninit::<f32>::uninit(); STAGE];
        let mut done = 0;
        // SAFETY: all accesses are within the operands and, for the buffer, within this slot's scratch memory.
        unsafe {
            loop {
                let depth = plan.block.min(plan.depth - done);
                let mut tile = Tile {
                    a: a.add(done),
                    a_stride: plan.depth,
                    b: b.wrapping_add(done * plan.row_stride),
                    b_stride: plan.row_stride,
                    c,
                    c_stride: plan.columns,
                    depth,
                    columns,
                    accumulate: done > 0,
                    ahead: self.ahead(args, place, next, done + depth),
                };
                if plan.pack {
                    for i in 0..depth {
                        std::ptr::copy_nonoverlapping(
                            tile.b.add(i * plan.row_stride),
                            buffer.add(i * PANEL),
                            columns,
                        );
                    }
                    (tile.b, tile.b_stride) = (buffer, PANEL);
                }
                done += depth;
                let last = done >= plan.depth;
                // The steps run on each tile while it is in the first-level cache.
                let tiles = if last && !plan.steps.is_empty() { rows.div_ceil(self.micro.rows()) } else { 1 };
                for index in 0..tiles {
                    let (first, end) = (rows * index / tiles, rows * (index + 1) / tiles);
                    let c = c.add(first * plan.columns);
                    let ahead = tile.ahead.part(index, tiles);
                    let mut part = Tile { a: tile.a.add(first * plan.depth), c, ahead, ..tile };
                    if staged {
                        (part.c, part.c_stride) = (stage.as_mut_ptr().cast(), columns);
                    }
                    if columns > PANEL {
                        self.micro.wide(&part, rows);
                    } else {
                        self.micro.block(&part, end - first);
                    }
                    if last {
                        let area = Area {
                            source: part.c,
                            source_row: part.c_stride,
                            target: c,
                            target_row: plan.columns,
                            rows: end - first,
                            columns,
                            ..Area::NONE
                        };
                        plan.steps.apply(args, area, batch * plan.rows + row + first, column);
                    }
                }
                if last {
                    return;
                }
            }
        }
    }

    /// Returns the block to prefetch after the first `done` rows of the inner dimension, if the operand is in panels
    /// and the block is not the current one.
    fn ahead(&self, args: &Args<'_>, place: Piece, next: Piece, done: usize) -> Prefetch {
        let plan = &self.plan;
        if plan.row_stride != PANEL || plan.panel != PANEL {
            return Prefetch::NONE;
        }
        let (at, done) = if done < plan.depth { (place, done) } else { (next, 0) };
        if done == 0 && (next.batch, next.panel) == (place.batch, place.panel) && plan.block >= plan.depth {
            return Prefetch::NONE;
        }
        let from = plan.batch[at.batch].1 + at.panel * plan.panel_stride + done * PANEL;
        Prefetch::new(Shared::<f32>::input(args, 1).at(from), plan.block.min(plan.depth - done) * PANEL)
    }
}
