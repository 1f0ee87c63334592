//! `native.requantize`: a chain of steps on integers or floats whose results become levels, in one pass.
//!
//! If a chain reads bytes and its extra operands have one element each, it has at most 256 different results. They are
//! computed first, into a table, and each byte then takes its result from there.

use super::chain::{AREA, Chain, EXTRAS, Place, Rows, Started};
use super::table::Table;
use crate::args::Shared;
use crate::block::{self, Block, OPERANDS};
use crate::broadcast::Broadcast;
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The op.
pub(super) const OP: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.requantize", "requantize", contract, kernel) };

const _: () = assert!(AREA == block::AREA && EXTRAS + 1 == OPERANDS);

/// The fewest elements for which a table is made. With fewer, computing it takes longer than it saves.
const TABLE: usize = 512;

struct Requantize {
    chain: Chain,
    /// The loops over the result, the operand, and the extra operands of the chain.
    loops: Broadcast<OPERANDS>,
    /// The bytes of an element of the operand.
    size: usize,
    /// Whether results come from a table.
    by_table: bool,
}

impl Requantize {
    fn new(call: &Call<'_>) -> Option<Self> {
        let x = call.inputs[0];
        let mut chain = Chain::new(call, 1, x.dtype)?;
        let scalar = TensorType::plain(DType::F32, [0_usize; 0]);
        let extras = chain.types(call);
        let types = std::array::from_fn(|n| match n {
            0 => x,
            n => extras.get(n - 1).copied().unwrap_or(&scalar),
        });
        let loops = Broadcast::new(call.output, types)?;
        // The first operand has the shape of the result, so its rows are contiguous.
        if loops.strides[0] != 1 && loops.length > 1 {
            return None;
        }
        if loops.strides.iter().any(|stride| *stride > 1) {
            chain.only_in_buffer();
        }
        let size = x.dtype.size();
        let by_table =
            size == 1 && x.shape.count() >= TABLE && extras.iter().all(|extra| extra.shape.count() == 1);
        Some(Self { chain, loops, size, by_table })
    }

    /// Returns the results for all bytes.
    fn table(started: &Started<'_>) -> Table {
        let bytes: [u8; 256] = std::array::from_fn(|byte| u8::try_from(byte).unwrap_or(u8::MAX));
        let mut table = Table([0; 256]);
        let rows = Rows {
            source: bytes.as_ptr(),
            source_row: bytes.len(),
            target: table.0.as_mut_ptr(),
            target_row: bytes.len(),
            rows: 1,
            columns: bytes.len(),
            places: [Place::default(); EXTRAS],
        };
        // SAFETY: the chain reads bytes, and its extra operands have one element.
        unsafe { started.run(&rows) };
        table
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Requantize::new(call) {
        Some(requantize) => Ok(plain_contract(if requantize.by_table { "table" } else { "steps" })),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Requantize::new(call) {
        Some(requantize) => Ok(Box::new(requantize)),
        None => reference::kernel(call),
    }
}

impl Kernel for Requantize {
    unsafe fn run(&self, args: &Args<'_>) {
        let (source, output) = (Shared::<u8>::input(args, 0), Shared::<u8>::output(args));
        // SAFETY: the operands are those of the call.
        let started = unsafe { self.chain.start(args) };
        let strides = &self.loops.strides;
        let table = self.by_table.then(|| Self::table(&started));
        Block::all(&self.loops, args.team, |block| {
            let place = |n: usize| Place {
                first: block.offsets[n + 1],
                row: block.row_strides[n + 1],
                column: if block.columns == 1 { 0 } else { strides[n + 1] },
            };
            let rows = Rows {
                source: source.at(block.offsets[0] * self.size),
                source_row: block.row_strides[0],
                // Rows of a block are contiguous in the result.
                target: output.at(block.first),
                target_row: block.columns,
                rows: block.rows,
                columns: block.columns,
                places: std::array::from_fn(place),
            };
            // SAFETY: blocks are within the loops, which were computed from the types.
            unsafe {
                match &table {
                    Some(table) => {
                        for row in 0..rows.rows {
                            let (from, to) = (row * rows.source_row, row * rows.target_row);
                            table.run(rows.source.add(from), rows.target.add(to), rows.columns);
                        }
                    }
                    None => started.run(&rows),
                }
            }
        });
    }
}
