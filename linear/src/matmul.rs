//! `matmul`, `matmul-packed` and `matmul-strassen`, with a post chain on the result.
//!
//! The result is divided into bands of rows and panels of 32 columns. A task computes one such piece over a block of the
//! inner dimension, so that data that is read again stays in the second-level cache. All pieces are computed over one block
//! before the next block begins, so that a block of a band of the left operand serves all panels while it is in the cache.
//!
//! A plain right operand of many rows is packed while the product runs. Its rows are far apart, so a task packs a few
//! panels of a block once and multiplies all bands by them: a band of the left operand and the packed panels are in the
//! second-level cache together (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008).

mod narrow;
mod sparse;
mod steps;
mod strassen;

use self::steps::Steps;
use super::args::{Buffers, Shared, part, tasks};
use super::broadcast::Broadcast;
use super::chain::Area;
use super::few::{Few, PANELS, RESULT};
use super::gemm::{Function, Micro, PANEL, Tile, micro};
use super::lanes::Isa;
use super::prefetch::{Prefetch, prefetch};
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
    narrow::PLAIN,
    narrow::PACKED,
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
/// The most panels that are packed at a time: 512 KiB.
const GROUP: usize = 4;
/// The bytes after which addresses have the same place in a first-level cache again, and how many lines each place has: 64
/// sets of 8 lines of 64 bytes, as most processors have.
const CACHE_SPAN: usize = 4096;
const CACHE_WAYS: usize = 8;
/// The additional elements of a packed row of the left operand, so that the rows of a tile have different places.
const SPREAD: usize = 16;
/// The number of rows up to which the inner dimension is not divided, because the left operand is small.
const FEW_ROWS: usize = 8;
/// The most elements of a block of the left operand that are copied before all pieces: 64 MiB. A larger block is read as it
/// lies, because the copy would take too much memory.
const COPIED: usize = 16 * 1024 * 1024;

/// The elements of the largest tile.
const STAGE: usize = RESULT;

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
    /// The columns of a tile: one panel, or more if there are few rows.
    panel: usize,
    /// The function for tiles of all rows, if there are few.
    few: Option<Function>,
    pack: bool,
    block: usize,
    band: usize,
    /// The columns and the rows of a piece: one panel and one band, or several where an operand is packed.
    group: usize,
    part: usize,
    /// The distance between the rows of a copy of the left operand, if it is copied.
    spread: Option<usize>,
    /// Whether it is copied before all pieces, not in bands.
    whole: bool,
    /// Whether all pieces are computed over one block of the inner dimension before the next block.
    rounds: bool,
    steps: Steps,
}

impl Tiling {
    /// Returns the elements of scratch that all threads share, those that a thread needs for panels of the right operand, and
    /// those that it needs for all.
    fn scratch(&self) -> (usize, usize, usize) {
        let rows = |count: usize| self.spread.map_or(0, |row| row * count);
        let panels = if self.pack { self.block * self.group } else { 0 };
        match self.whole {
            true => (rows(self.rows), panels, panels),
            false => (0, panels, panels + rows(self.band)),
        }
    }

    /// Returns whether tiles are computed in a separate buffer, from which the last step stores them in the result.
    fn stages(&self) -> bool {
        !self.steps.is_empty() && self.block >= self.depth
    }
}

fn plan(call: &Call<'_>) -> Option<Tiling> {
    let (a, b) = (call.inputs[0], call.inputs[1]);
    let packed = call.op == "native.matmul-packed";
    let is_plain = |ty: &&TensorType| ty.dtype == DType::F32 && ty.layout.is_plain();
    if !is_plain(&a)
        || b.dtype != DType::F32
        || !call.inputs[2..].iter().all(is_plain)
        || !is_plain(&call.output)
    {
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
    let Few { plain, packed: by_panels } = Few::of(Isa::planned());
    let functions = if packed { by_panels } else { plain };
    // Where there are fewer panels, nothing can be read side by side, and tiles with partial sums are faster.
    let several = !packed || columns >= PANELS * PANEL;
    let few = rows.checked_sub(1).filter(|_| several).and_then(|at| functions.get(at).copied());
    // Reading longer pieces of a row is faster, but there should be pieces for all threads.
    let panel = match (few, packed) {
        (None, _) => PANEL,
        (_, false) => {
            let pieces = (columns * rows).div_ceil(RESULT - PANEL * rows).max(call.threads).max(1);
            columns.div_ceil(pieces).next_multiple_of(PANEL).max(PANEL)
        }
        (_, true) => {
            (columns / (2 * call.threads.max(1))).next_multiple_of(PANEL).clamp(PANEL, PANELS * PANEL)
        }
    };
    let tallest = micro().rows();
    let pack = !packed && rows >= PACK_ROWS;
    // Rows whose elements take each other's place in the first-level cache are read from a copy. Beside a right operand that
    // is packed, the copy is worth its time for all others as well.
    let zeros = (depth * size_of::<f32>()).trailing_zeros().min(CACHE_SPAN.trailing_zeros());
    let apart = CACHE_SPAN >> zeros;
    let row = block + SPREAD;
    let whole = !pack && rows >= PACK_ROWS && tallest > apart * CACHE_WAYS / 2 && rows * row <= COPIED;
    let spread = (pack || whole).then_some(row);
    // Several panels need their share of the cache.
    let band = (if pack { BAND / 2 } else { BAND } / block).max(tallest) / tallest * tallest;
    // Bands have nearly equal height.
    let equal = |parts: usize| rows.div_ceil(parts.max(1)).next_multiple_of(tallest).min(rows.max(1));
    let band = equal(rows.div_ceil(band));
    let (group, part) = if pack {
        let (panels, tasks) = (columns.div_ceil(PANEL), 4 * call.threads);
        let group = (panels * batch.len() / tasks).clamp(1, GROUP);
        let pieces = panels.div_ceil(group) * batch.len();
        (group * PANEL, equal(tasks.div_ceil(pieces.max(1)).min(rows / PACK_ROWS)))
    } else {
        (panel, band)
    };
    Some(Tiling {
        rows,
        columns,
        depth,
        row_stride: if packed { PANEL } else { columns },
        panel_stride: if packed { depth * panel } else { panel },
        panel,
        few,
        batch,
        pack,
        block,
        band: band.min(part),
        group,
        part,
        spread,
        whole,
        rounds: packed && block < depth,
        steps,
    })
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(plan) = plan(call) else { return reference::contract(call) };
    let in_place = |n: &usize| plan.stages() && call.inputs[*n] == call.output;
    let (shared, _, own) = plan.scratch();
    let scratch = (shared + call.threads * own) * size_of::<f32>();
    let in_place = (2..call.inputs.len()).filter(in_place).collect();
    Ok(Contract { scratch, in_place, ..plain_contract(&format!("tiles-{}", micro().name)) })
}

/// How the operands are cut and read: by sizes and threads alone.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(plan) = plan(call) else { return Vec::new() };
    let right = match (call.op == "native.matmul-packed", plan.pack) {
        (true, _) => "packed before the run",
        (false, true) => "packed in parts while it runs",
        (false, false) => "read as it lies",
    };
    vec![
        KernelChoice::new("right operand", right),
        KernelChoice::new(
            "pieces",
            format!("{} rows of {} columns, {} deep", plan.part, plan.group, plan.block),
        ),
        KernelChoice::new(
            "left operand",
            match (plan.spread, plan.whole) {
                (None, _) => "read as it lies",
                (_, true) => "copied",
                (_, false) => "copied in bands",
            },
        ),
    ]
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match plan(call) {
        None => reference::kernel(call),
        Some(plan) => Ok(Box::new(MatMul { plan, micro: micro(), threads: call.threads })),
    }
}

/// A part of the rows and a group of panels of a product of the batch.
#[derive(Clone, Copy)]
struct Piece {
    batch: usize,
    part: usize,
    group: usize,
    /// Where the rows of the inner dimension begin and end.
    inner: [usize; 2],
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
        let depth = plan.depth.max(1);
        let of_round = if plan.rounds { plan.block } else { depth };
        let (buffers, most) = (Buffers::new(args), args.team.threads().min(self.threads).max(1));
        for first in (0..depth).step_by(of_round) {
            let inner = [first, (first + of_round).min(plan.depth)];
            if let Some(stride) = plan.spread.filter(|_| plan.whole) {
                // SAFETY: the rows are within the operand, and the scratch memory has room for them.
                unsafe { self.copy(&buffers, most, inner, stride) };
            }
            self.round(&buffers, most, inner);
        }
    }
}

impl MatMul {
    /// Copies a block of all rows of the left operand to rows that are `stride` elements apart.
    ///
    /// # Safety
    /// The block must be within the operand.
    unsafe fn copy(&self, buffers: &Buffers<'_>, threads: usize, inner: [usize; 2], stride: usize) {
        let plan = &self.plan;
        let [first, end] = inner;
        let tasks = tasks(plan.rows * (end - first), plan.rows, threads);
        buffers.args().team.share(threads, tasks, |_, task| {
            let left = Shared::<f32>::input(buffers.args(), 0);
            for row in part(plan.rows, tasks, task, 1) {
                // SAFETY: as the caller promises; the row is in the shared part of the scratch memory, and only this task
                // writes it.
                unsafe {
                    let to = Shared::<f32>::scratch(buffers.args()).at(row * stride);
                    std::ptr::copy_nonoverlapping(left.at(row * plan.depth + first), to, end - first);
                }
            }
        });
    }

    /// Computes all pieces over some rows of the inner dimension.
    fn round(&self, buffers: &Buffers<'_>, threads: usize, inner: [usize; 2]) {
        let plan = &self.plan;
        let (parts, groups) = (plan.rows.div_ceil(plan.part), plan.columns.div_ceil(plan.group));
        let total = plan.batch.len() * parts * groups;
        let work = plan.rows * plan.columns * (inner[1] - inner[0]).max(1) * plan.batch.len();
        let most = if work < 2 * MIN_TASK_WORK { 1 } else { threads };
        let chunk = (MIN_TASK_WORK * total / work.max(1)).clamp(1, total.div_ceil(most.min(total)));
        // Consecutive tasks share the larger operand's part and read all of the smaller one, which then stays in the
        // cache.
        let groups_first = plan.rows > plan.columns;
        let place = |at: usize| {
            let (batch, rest) = (at / (parts * groups), at % (parts * groups));
            let (part, group) =
                if groups_first { (rest / groups, rest % groups) } else { (rest % parts, rest / parts) };
            Piece { batch, part, group, inner }
        };
        buffers.args().team.share(most, total.div_ceil(chunk), |slot, task| {
            for at in task * chunk..((task + 1) * chunk).min(total) {
                // A thread mostly runs neighbouring tasks one after the other, so the next task tells what to
                // prefetch.
                let next = place(if at + 1 < total { at + 1 } else { at });
                // SAFETY: parts and groups are within the matrices, and no other task has this pair.
                unsafe { self.piece(buffers.args(), place(at), next, slot) };
            }
        });
    }

    /// Computes a piece of one product. `next` is the piece to prefetch.
    ///
    /// # Safety
    /// The indices must be in range, and no other thread may use this piece of the result or this slot.
    unsafe fn piece(&self, args: &Args<'_>, place: Piece, next: Piece, slot: usize) {
        let plan = &self.plan;
        let (row, column) = (place.part * plan.part, place.group * plan.group);
        let end = (row + plan.part).min(plan.rows);
        let columns = plan.group.min(plan.columns - column);
        let (shared, panels, all) = plan.scratch();
        let buffer = Shared::<f32>::scratch(args).at(shared + slot * all);
        let left = Shared::<f32>::input(args, 0).at(plan.batch[place.batch].0).cast_const();
        let [mut done, inner_end] = place.inner;
        loop {
            let depth = plan.block.min(inner_end - done);
            if plan.pack {
                let right = Shared::<f32>::input(args, 1).at(plan.batch[place.batch].1);
                // SAFETY: the rows and columns are within the operand, and the buffer is this slot's scratch memory.
                unsafe {
                    pack(right.add(done * plan.columns + column), plan.columns, depth, columns, buffer);
                }
            }
            for first in (row..end).step_by(plan.band) {
                let rows = plan.band.min(end - first);
                let mut a = (left.wrapping_add(first * plan.depth + done), plan.depth);
                if let Some(stride) = plan.spread.filter(|_| plan.whole) {
                    let copy = Shared::<f32>::scratch(args).at(first * stride).cast_const();
                    a = (copy.wrapping_add(done - place.inner[0]), stride);
                } else if let Some(stride) = plan.spread {
                    let band = buffer.wrapping_add(panels);
                    for row in 0..rows {
                        // SAFETY: the row is within the operand, and the buffer is this slot's scratch memory.
                        unsafe {
                            std::ptr::copy_nonoverlapping(a.0.add(row * a.1), band.add(row * stride), depth);
                        }
                    }
                    a = (band, stride);
                }
                for (panel, from) in (column..column + columns).step_by(plan.panel).enumerate() {
                    let tile = Block {
                        a,
                        row: first,
                        rows,
                        column: from,
                        columns: plan.panel.min(column + columns - from),
                        done,
                        depth,
                        packed: plan.pack.then(|| buffer.wrapping_add(panel * depth * PANEL).cast_const()),
                    };
                    // SAFETY: the block is within the piece, and only this call uses the piece.
                    unsafe { self.block(args, place, next, &tile) };
                }
            }
            done += depth;
            if done >= inner_end {
                return;
            }
        }
    }

    /// Computes a panel of a band over a block of the inner dimension.
    ///
    /// # Safety
    /// The block must be within the matrices, and no other thread may use this part of the result.
    unsafe fn block(&self, args: &Args<'_>, place: Piece, next: Piece, block: &Block) {
        let plan = &self.plan;
        let Block { a: (a, a_stride), row, rows, column, columns, done, depth, packed } = *block;
        let (_, right) = plan.batch[place.batch];
        let c = Shared::<f32>::output(args).at((place.batch * plan.rows + row) * plan.columns + column);
        // In a single pass a tile is finished before any part of it is stored, so an operand of the steps may be in
        // place.
        let staged = plan.stages();
        let mut stage = [MaybeUninit::<f32>::uninit(); STAGE];
        let last = done + depth >= plan.depth;
        // SAFETY: all accesses are within the operands and, for packed panels, within this slot's scratch memory.
        unsafe {
            let (b, b_stride) = match packed {
                Some(buffer) => (buffer, PANEL),
                None => {
                    let panel = Shared::<f32>::input(args, 1)
                        .at(right + column / plan.panel * plan.panel_stride)
                        .cast_const();
                    (panel.wrapping_add(done * plan.row_stride), plan.row_stride)
                }
            };
            let tile = Tile {
                a,
                a_stride,
                b,
                b_stride,
                c,
                c_stride: plan.columns,
                depth,
                columns,
                accumulate: done > 0,
                ahead: self.ahead(args, place, next, block),
            };
            // The steps run on each tile while it is in the first-level cache.
            let tiles = if last && !plan.steps.is_empty() { rows.div_ceil(self.micro.rows()) } else { 1 };
            for index in 0..tiles {
                let (first, end) = (rows * index / tiles, rows * (index + 1) / tiles);
                let c = c.add(first * plan.columns);
                let ahead = tile.ahead.part(index, tiles);
                let mut part = Tile { a: a.add(first * a_stride), c, ahead, ..tile };
                if staged {
                    (part.c, part.c_stride) = (stage.as_mut_ptr().cast(), columns);
                }
                match plan.few {
                    Some(function) => function(&part),
                    None => self.micro.block(&part, end - first),
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
                    plan.steps.apply(args, area, place.batch * plan.rows + row + first, column);
                }
            }
        }
    }

    /// Returns what to prefetch while a block is computed, if the operand is in panels: the next one of the same band, or the
    /// first one of the next band, block or piece, if it is another one.
    fn ahead(&self, args: &Args<'_>, place: Piece, next: Piece, block: &Block) -> Prefetch {
        let plan = &self.plan;
        if plan.pack {
            return self.ahead_of_packing(args, place, next, block);
        }
        if plan.row_stride != PANEL || plan.few.is_some() {
            return Prefetch::NONE;
        }
        let first = place.group * plan.group;
        let after = block.column + PANEL;
        let (batch, column, done) = if after < (first + plan.group).min(plan.columns) {
            (place.batch, after, block.done)
        } else if block.row + block.rows < ((place.part + 1) * plan.part).min(plan.rows) {
            (place.batch, first, block.done)
        } else if block.done + block.depth < place.inner[1] {
            (place.batch, first, block.done + block.depth)
        } else {
            (next.batch, next.group * plan.group, next.inner[0])
        };
        if (batch, column, done) == (place.batch, block.column, block.done) {
            return Prefetch::NONE;
        }
        let from = plan.batch[batch].1 + column / PANEL * plan.panel_stride + done * PANEL;
        Prefetch::new(Shared::<f32>::input(args, 1).at(from), plan.block.min(plan.depth - done) * PANEL)
    }
}

impl MatMul {
    /// Returns what to prefetch while a block is computed from packed panels: of the same panel of the next block or group,
    /// the part that belongs to the band.
    fn ahead_of_packing(&self, args: &Args<'_>, place: Piece, next: Piece, block: &Block) -> Prefetch {
        let plan = &self.plan;
        let first = place.group * plan.group;
        let (batch, group, done) = if block.done + block.depth < plan.depth {
            (place.batch, first, block.done + block.depth)
        } else if (next.batch, next.group) == (place.batch, place.group) && plan.block >= plan.depth {
            return Prefetch::NONE;
        } else {
            (next.batch, next.group * plan.group, 0)
        };
        let column = group + (block.column - first);
        if column >= plan.columns {
            return Prefetch::NONE;
        }
        let from = plan.batch[batch].1 + done * plan.columns + column;
        let rows = plan.block.min(plan.depth - done);
        let panel = Prefetch::rows(Shared::<f32>::input(args, 1).at(from), rows, plan.columns);
        let begin = place.part * plan.part;
        let bands = plan.part.min(plan.rows - begin).div_ceil(plan.band);
        panel.part((block.row - begin) / plan.band, bands)
    }
}

/// A panel of a band over a block of the inner dimension.
struct Block {
    /// The rows of the left operand, and the distance between them in elements.
    a: (*const f32, usize),
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
    /// The rows of the inner dimension before the block.
    done: usize,
    depth: usize,
    /// The panel, if it is packed while the product runs.
    packed: Option<*const f32>,
}

/// The rows before which a row is requested while panels are packed. They are far apart, so that the processor does not see
/// which one comes next.
const REQUESTED: usize = 12;

/// Copies rows of a matrix into panels, one after another.
///
/// # Safety
/// The rows, `stride` elements apart, must be readable, and `to` writable for as many panels as there are columns.
unsafe fn pack(from: *const f32, stride: usize, rows: usize, columns: usize, to: *mut f32) {
    for row in 0..rows {
        let source = from.wrapping_add(row * stride);
        let ahead = from.wrapping_add((row + REQUESTED).min(rows - 1) * stride);
        for (panel, column) in (0..columns).step_by(PANEL).enumerate() {
            let target = to.wrapping_add((panel * rows + row) * PANEL);
            for line in (column..columns.min(column + PANEL)).step_by(16) {
                prefetch(ahead.wrapping_add(line).cast());
            }
            // SAFETY: the caller's promise.
            unsafe {
                if columns - column >= PANEL {
                    let values = source.wrapping_add(column).cast::<[f32; PANEL]>().read_unaligned();
                    target.cast::<[f32; PANEL]>().write_unaligned(values);
                } else {
                    std::ptr::copy_nonoverlapping(source.wrapping_add(column), target, columns - column);
                }
            }
        }
    }
}
