//! `softmax-requantize` and `layer-norm-requantize`: normalisations that give levels, and may read them, in one pass over
//! memory.
//!
//! Rows are in floats only in a buffer in the first-level cache. Between their ends they are computed as the kernels of floats
//! compute it, so the levels are those that these and `native.quantize` give, to the last one.

use super::args::{Shared, part, tasks};
use super::normalize::{Rows, layer_row};
use super::softmax::{COLUMNS, softmax_columns, softmax_row};
use super::{ISAS, plain_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo_linear::rows::{Ends, Started};
use std::ops::Range;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.softmax-requantize", "softmax-requantize", softmax_contract, softmax_kernel)
    },
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.layer-norm-requantize", "layer-norm-requantize", layer_contract, layer_kernel)
    },
];

/// The position of the scale of the result.
const TARGET: usize = 1;

/// The floats of the buffer of a thread, if rows are not longer: they are in the first-level cache together with what is read
/// and written.
const AREA: usize = 4096;

/// Returns how many rows of this length are computed together. Rows follow each other in memory, so their ends are read and
/// written as one run, and the processor need not wait for the end of a short row before it begins the next one.
fn block(length: usize) -> usize {
    (AREA / length.max(1)).max(1)
}

/// Returns the contract of a kernel whose threads have buffers of this many floats.
fn contract(call: &Call<'_>, ends: &Ends, implementation: &str, floats: usize) -> Contract {
    // Levels that are read have as many bytes as those that are written, and are read before.
    let in_place = if ends.reads_levels() { vec![0] } else { Vec::new() };
    let scratch = call.threads * bytes(floats);
    Contract { in_place, scratch, ..plain_contract(implementation) }
}

/// Returns the bytes of the buffer of a thread.
fn bytes(floats: usize) -> usize {
    (floats * size_of::<f32>()).next_multiple_of(ALIGN)
}

/// Calls a function with blocks of units and the buffer of their thread, on several threads.
///
/// # Safety
/// The scratch memory must have a buffer of `floats` floats for each thread.
unsafe fn each_block(
    args: &Args<'_>,
    (units, block): (usize, usize),
    elements: usize,
    floats: usize,
    run: impl Fn(Range<usize>, *mut f32) + Sync,
) {
    let scratch = Shared::<u8>::scratch(args);
    let parts = tasks(elements, units, args.team.threads());
    args.team.share(args.team.threads(), parts, |thread, index| {
        let buffer = scratch.at(thread * bytes(floats)).cast::<f32>();
        let piece = part(units, parts, index, 1);
        for first in piece.clone().step_by(block) {
            run(first..piece.end.min(first + block), buffer);
        }
    });
}

/// Computes whole rows that follow each other.
///
/// # Safety
/// The rows must be in bounds, and the buffer must have room for them. `row` reads a row and writes one, which may be the
/// same.
#[inline(always)]
unsafe fn rows(
    (source, ends, output): (Source, &Started, Shared<u8>),
    (range, length): (Range<usize>, usize),
    buffer: *mut f32,
    row: impl Fn(*const f32, *mut f32),
) {
    let (first, count) = (range.start * length, range.len() * length);
    // SAFETY: as the caller promises.
    unsafe {
        let from = if source.levels {
            ends.read(source.at(first), buffer, count);
            buffer.cast_const()
        } else {
            source.at(first).cast()
        };
        for at in (0..count).step_by(length.max(1)) {
            row(from.add(at), buffer.add(at));
        }
        ends.write(buffer, output.at(first), count);
    }
}

/// Operand 0.
#[derive(Clone, Copy)]
struct Source {
    memory: Shared<u8>,
    /// The bytes of an element.
    size: usize,
    levels: bool,
}

impl Source {
    fn new(args: &Args<'_>, ends: &Ends) -> Self {
        let levels = ends.reads_levels();
        Self { memory: Shared::input(args, 0), size: if levels { 1 } else { size_of::<f32>() }, levels }
    }

    fn at(self, element: usize) -> *const u8 {
        self.memory.at(element * self.size)
    }
}

struct Softmax {
    ends: Ends,
    outer: usize,
    length: usize,
    inner: usize,
}

impl Softmax {
    fn new(call: &Call<'_>) -> Self {
        let shape = &call.output.shape;
        let axis = call.attrs.expect_int("axis") as usize;
        Self {
            ends: Ends::new(call, TARGET, TARGET + 2),
            outer: shape[..axis].iter().product(),
            length: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Returns how many units of work are computed together, and the floats of the buffer of a thread: some rows, or the rows
    /// of some columns.
    fn sizes(&self) -> (usize, usize) {
        match self.inner {
            1 => (block(self.length), block(self.length) * self.length),
            _ => (1, COLUMNS * self.length),
        }
    }
}

fn softmax_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let softmax = Softmax::new(call);
    let implementation = if softmax.inner == 1 { "rows" } else { "columns" };
    Ok(contract(call, &softmax.ends, implementation, softmax.sizes().1))
}

fn softmax_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Softmax::new(call)))
}

impl Kernel for Softmax {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { ends, outer, length, inner } = *self;
        let (source, output) = (Source::new(args, &ends), Shared::<u8>::output(args));
        let groups = inner.div_ceil(COLUMNS);
        let (block, floats) = self.sizes();
        // SAFETY: rows and columns are within the shape, and the contract has a buffer for each thread.
        unsafe {
            let ends = ends.start(args);
            each_block(args, (outer * groups, block), outer * length * inner, floats, |units, buffer| {
                if inner == 1 {
                    let row = |from, to| softmax_row(from, to, length, false);
                    return rows((source, &ends, output), (units, length), buffer, row);
                }
                for unit in units {
                    let (row, group) = (unit / groups, unit % groups);
                    let first = row * length * inner + group * COLUMNS;
                    let columns = COLUMNS.min(inner - group * COLUMNS);
                    for at in 0..length {
                        ends.read(source.at(first + at * inner), buffer.add(at * COLUMNS), columns);
                    }
                    softmax_columns(buffer, buffer, length, COLUMNS, columns, false);
                    for at in 0..length {
                        ends.write(buffer.add(at * COLUMNS), output.at(first + at * inner), columns);
                    }
                }
            });
        }
    }
}

struct LayerNorm {
    ends: Ends,
    rows: Rows,
}

impl LayerNorm {
    /// The position of the factors, which the terms follow.
    const SCALE: usize = TARGET + 2;

    fn new(call: &Call<'_>) -> Self {
        Self { ends: Ends::new(call, TARGET, Self::SCALE + 2), rows: Rows::new(call) }
    }
}

fn layer_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let norm = LayerNorm::new(call);
    let length = norm.rows.length;
    Ok(contract(call, &norm.ends, "rows", block(length) * length))
}

fn layer_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(LayerNorm::new(call)))
}

impl Kernel for LayerNorm {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { ends, rows: Rows { rows: count, length, epsilon } } = *self;
        let block = block(length);
        let (source, output) = (Source::new(args, &ends), Shared::<u8>::output(args));
        let [scale, bias] = [0, 1].map(|at| Shared::<f32>::input(args, Self::SCALE + at));
        // SAFETY: rows are within the shape, scale and bias have the length of a row, and the contract has a buffer for
        // each thread.
        unsafe {
            let ends = ends.start(args);
            each_block(args, (count, block), count * length, block * length, |units, buffer| {
                let row = |from, to| layer_row(from, to, scale.at(0), bias.at(0), length, epsilon);
                rows((source, &ends, output), (units, length), buffer, row);
            });
        }
    }
}
