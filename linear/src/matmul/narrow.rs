//! `native.matmul-narrow-packed`: a product by a matrix of 4, 8 or 16 bits, which is read in that form.
//!
//! The matrix lies in panels of 32 columns. A product of a few rows takes as long as its bytes take from memory: each
//! vector of levels becomes floats in a register, is multiplied by the elements of the rows, and the sums of a block of
//! rows are scaled as a whole. With more rows, a part of a panel becomes floats in the second-level cache, and the tiles of
//! the usual product read it from there.

mod few;
mod widen;

use self::few::Few;
use self::widen::{Fill, Stored};
use super::steps::Steps;
use crate::args::{Buffers, Shared};
use crate::chain::Area;
use crate::gemm::{Micro, PANEL, Tile, micro};
use crate::lanes::Isa;
use crate::prefetch::Prefetch;
use crate::{ISAS, plain_contract, reference};
use ovolo::attr::{Attr, Attrs};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, KernelChoice, Layouts, Lowering, OpError, Reference};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};
use std::mem::MaybeUninit;

/// The op on plain operands, which is computed as the definition says.
pub(super) const PLAIN: Lowering =
    Lowering::new("native.matmul-narrow", "matmul-narrow", reference::contract, reference::kernel);

/// The op on panels.
pub(super) const PACKED: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "Ba32b", "plain", "plain"], "plain"),
        Form::new(&["plain", "Ba32b", "Ba32b", "plain"], "plain"),
        Form::new(&["plain", "Ba32b", "Ba32b", "Ba32b"], "plain"),
        Form::new(&["plain", "BA32b4a", "plain", "plain"], "plain"),
        Form::new(&["plain", "BA32b4a", "Ba32b", "plain"], "plain"),
        Form::new(&["plain", "BA32b4a", "Ba32b", "Ba32b"], "plain"),
    ]),
    instruction_sets: ISAS,
    reference: Reference::Prepared(prepared),
    choices,
    ..Lowering::new("native.matmul-narrow-packed", "matmul-narrow", contract, kernel)
};

/// Makes the elements of a block of a row NaN where their sum is not finite, because zero points are multiplied by it.
fn prepared(attrs: &Attrs, operands: &[&Tensor]) -> Vec<Tensor> {
    let a = operands[0].to_layout(&Layout::PLAIN);
    let depth = a.ty().shape.last().copied().unwrap_or(0).max(1);
    let block = usize::try_from(attrs.expect_int("rows-per-scale")).ok().filter(|rows| *rows > 0);
    let mut values = a.to_f64();
    for row in values.chunks_exact_mut(depth) {
        for block in row.chunks_mut(block.unwrap_or(depth)) {
            if !block.iter().sum::<f64>().is_finite() {
                block.fill(f64::NAN);
            }
        }
    }
    let a = Tensor::from_f64(a.ty().dtype, a.ty().shape.clone(), &values);
    let rest = operands[1..].iter().map(|operand| operand.to_layout(&Layout::PLAIN));
    [a].into_iter().chain(rest).collect()
}

/// The rows up to which sums are made from levels in registers.
const FEW_ROWS: usize = 4;
/// The rows of a panel that become floats at a time, if there are more rows than that: 128 KiB.
const DEPTH: usize = 1024;
/// The elements of the left operand that are multiplied by these rows before the next ones: 512 KiB.
const BAND: usize = 128 * 1024;
/// The tasks for each thread.
const TASKS: usize = 4;
/// The most panels of a task.
const GROUP: usize = 8;

/// Where the scales or zero points of a panel are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factors {
    /// There is one for all elements.
    One,
    /// Each block of rows has a row of them in the panel.
    Panels,
}

impl Factors {
    fn new(ty: &TensorType) -> Option<Self> {
        match () {
            () if ty.dtype != DType::F32 => None,
            () if ty.layout.is_plain() && ty.shape.count() == 1 => Some(Self::One),
            () if ty.layout.blocks() == [(1, PANEL)] => Some(Self::Panels),
            () => None,
        }
    }
}

struct Narrow {
    stored: Stored,
    rows: usize,
    depth: usize,
    columns: usize,
    /// The rows that share scales and zero points, and the number of such blocks.
    block: usize,
    blocks: usize,
    scales: Factors,
    points: Factors,
    /// The panels of a task.
    group: usize,
    steps: Steps,
    threads: usize,
}

impl Narrow {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [a, w, s, z] = [0, 1, 2, 3].map(|at| call.inputs[at]);
        let plain = |ty: &&TensorType| ty.dtype == DType::F32 && ty.layout.is_plain();
        if !plain(&a) || !plain(&call.output) || !call.inputs[4..].iter().all(plain) {
            return None;
        }
        let int = |name| match call.attrs.get(name) {
            Some(Attr::Int(value)) => usize::try_from(*value).ok(),
            _ => None,
        };
        let depth = a.shape.last().copied()?;
        let columns = w.shape.last().copied()?;
        let block = int("rows-per-scale").filter(|rows| *rows > 0).unwrap_or(depth).max(1);
        let stored = Stored::new(w, int("per-byte")?)?;
        if depth == 0 || block % stored.step() != 0 && block < depth {
            return None;
        }
        let threads = call.threads.max(1);
        Some(Self {
            stored,
            rows: a.shape.count() / depth,
            depth,
            columns,
            block,
            blocks: depth.div_ceil(block),
            scales: Factors::new(s)?,
            points: Factors::new(z)?,
            group: (columns.div_ceil(PANEL) / (TASKS * threads)).clamp(1, GROUP),
            steps: Steps::after(call, 4)?,
            threads,
        })
    }

    /// Returns whether the sums are made from levels in registers.
    fn is_few(&self) -> bool {
        (1..=FEW_ROWS).contains(&self.rows)
    }

    /// Returns the elements of scratch that a thread needs: for the sums of the blocks of all rows, or for a panel of floats.
    fn scratch(&self) -> usize {
        if self.is_few() { self.rows * self.blocks } else { self.depth.min(DEPTH) * PANEL }
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(narrow) = Narrow::new(call) else { return reference::contract(call) };
    let scratch = narrow.threads * narrow.scratch() * size_of::<f32>();
    let form = if narrow.is_few() { "registers" } else { "panels" };
    Ok(Contract { scratch, ..plain_contract(&format!("{form}-{}", Isa::planned())) })
}

fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(narrow) = Narrow::new(call) else { return Vec::new() };
    let place = if narrow.is_few() { "in registers" } else { "in a panel" };
    vec![KernelChoice::new("weights become floats", place)]
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Narrow::new(call) {
        Some(narrow) if narrow.is_few() => {
            Ok(Box::new(InRegisters { few: Few::of(narrow.stored, narrow.rows), narrow }))
        }
        Some(narrow) => Ok(Box::new(InPanels { fill: Fill::of(narrow.stored), micro: micro(), narrow })),
        None => reference::kernel(call),
    }
}

/// The levels, scales and zero points of a panel.
#[derive(Clone, Copy)]
struct Panel {
    levels: *const u8,
    scales: *const f32,
    points: *const f32,
}

impl Narrow {
    fn panel(&self, args: &Args<'_>, panel: usize) -> Panel {
        let factors = |operand, factors| {
            let at = if factors == Factors::One { 0 } else { panel * self.blocks * PANEL };
            Shared::<f32>::input(args, operand).at(at).cast_const()
        };
        Panel {
            levels: Shared::<u8>::input(args, 1).at(panel * self.stored.panel_bytes(self.depth)),
            scales: factors(2, self.scales),
            points: factors(3, self.points),
        }
    }

    /// Runs the steps on `columns` columns of some rows, from `source` to the result.
    ///
    /// # Safety
    /// The rows and columns must be in bounds, and no other thread may use them.
    unsafe fn finish(
        &self,
        args: &Args<'_>,
        source: *const f32,
        stride: usize,
        rows: [usize; 2],
        column: usize,
        columns: usize,
    ) {
        let target = Shared::<f32>::output(args).at(rows[0] * self.columns + column);
        let area = Area {
            source,
            source_row: stride,
            target,
            target_row: self.columns,
            rows: rows[1] - rows[0],
            columns,
            ..Area::NONE
        };
        // SAFETY: the caller's promise.
        unsafe { self.steps.apply(args, area, rows[0], column) };
    }
}

/// A product of a few rows.
struct InRegisters {
    narrow: Narrow,
    few: Few,
}

impl Kernel for InRegisters {
    unsafe fn run(&self, args: &Args<'_>) {
        let narrow = &self.narrow;
        let Narrow { rows, depth, columns, block, blocks, group, .. } = *narrow;
        let panels = columns.div_ceil(PANEL);
        let (buffers, space) = (Buffers::new(args), Shared::<f32>::scratch(args));
        args.team.share(narrow.threads, panels.div_ceil(group), |slot, task| {
            let args = buffers.args();
            let a = Shared::<f32>::input(args, 0).at(0).cast_const();
            let totals = space.at(slot * narrow.scratch());
            // The zero points are multiplied by the sum of the row's elements of the block.
            for row in 0..rows {
                for at in 0..blocks {
                    let length = block.min(depth - at * block);
                    // SAFETY: the elements are within the row, and the sums in this slot's scratch memory.
                    unsafe {
                        let elements = std::slice::from_raw_parts(a.add(row * depth + at * block), length);
                        *totals.add(row * blocks + at) = few::total(elements);
                    }
                }
            }
            let mut stage = [MaybeUninit::<f32>::uninit(); FEW_ROWS * few::PANELS * PANEL];
            let mut panel = task * group;
            let end = (panel + group).min(panels);
            while panel < end {
                let count = if end - panel >= self.few.panels { self.few.panels } else { 1 };
                let column = panel * PANEL;
                let width = (count * PANEL).min(columns - column);
                let mut result = (Shared::<f32>::output(args).at(column), columns);
                if !narrow.steps.is_empty() {
                    result = (stage.as_mut_ptr().cast(), few::PANELS * PANEL);
                }
                let product = few::Product {
                    a,
                    totals,
                    panels: std::array::from_fn(|at| narrow.panel(args, (panel + at).min(panels - 1))),
                    depth,
                    block,
                    scales: narrow.scales,
                    points: narrow.points,
                    result,
                    columns: width,
                };
                // SAFETY: the panels are within the matrix, and no other task has these columns.
                unsafe {
                    if count == 1 {
                        (self.few.one)(&product)
                    } else {
                        (self.few.several)(&product)
                    }
                    if !narrow.steps.is_empty() {
                        narrow.finish(args, result.0, result.1, [0, rows], column, width);
                    }
                }
                panel += count;
            }
        });
    }
}

/// A product of many rows.
struct InPanels {
    narrow: Narrow,
    fill: Fill,
    micro: &'static Micro,
}

impl Kernel for InPanels {
    unsafe fn run(&self, args: &Args<'_>) {
        let narrow = &self.narrow;
        let Narrow { rows, depth, columns, .. } = *narrow;
        if rows * columns == 0 {
            return;
        }
        let (buffers, space) = (Buffers::new(args), Shared::<f32>::scratch(args));
        args.team.share(narrow.threads, columns.div_ceil(PANEL), |slot, at| {
            let args = buffers.args();
            let (panel, column) = (narrow.panel(args, at), at * PANEL);
            let wide = space.at(slot * narrow.scratch());
            let width = PANEL.min(columns - column);
            for done in (0..depth).step_by(DEPTH) {
                let length = DEPTH.min(depth - done);
                // SAFETY: the rows are within the panel, and the floats in this slot's scratch memory.
                unsafe {
                    (self.fill.function)(&widen::Part { panel, narrow, first: done, rows: length, to: wide })
                };
                let band = (BAND / length).max(self.micro.rows());
                for first in (0..rows).step_by(band) {
                    let end = (first + band).min(rows);
                    let tile = Tile {
                        a: Shared::<f32>::input(args, 0).at(first * depth + done),
                        a_stride: depth,
                        b: wide,
                        b_stride: PANEL,
                        c: Shared::<f32>::output(args).at(first * columns + column),
                        c_stride: columns,
                        depth: length,
                        columns: width,
                        accumulate: done > 0,
                        ahead: Prefetch::NONE,
                    };
                    // SAFETY: the rows and columns are within the matrices, and no other task has these columns.
                    unsafe {
                        self.micro.block(&tile, end - first);
                        if done + length == depth && !narrow.steps.is_empty() {
                            narrow.finish(args, tile.c, columns, [first, end], column, width);
                        }
                    }
                }
            }
        });
    }
}
