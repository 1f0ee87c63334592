//! `native.table`: results of a function of one byte from a table that is an operand.

use super::table::Table;
use crate::args::{Shared, part, tasks};
use crate::{ISAS, plain_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};

/// The op.
pub(super) const OP: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.table", "table", contract, kernel) };

/// The bytes at whose multiples the work is divided: a line of the cache.
const LINE: usize = 64;

struct Lookup {
    count: usize,
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let in_place = (0..1).filter(|&n| call.inputs[n] == call.output).collect();
    Ok(Contract { in_place, ..plain_contract("bytes") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Lookup { count: call.output.shape.count() }))
}

impl Kernel for Lookup {
    unsafe fn run(&self, args: &Args<'_>) {
        let (source, output) = (Shared::<u8>::input(args, 0), Shared::<u8>::output(args));
        let mut table = Table([0; 256]);
        // SAFETY: the second operand has 256 bytes.
        unsafe { Shared::<u8>::input(args, 1).at(0).copy_to_nonoverlapping(table.0.as_mut_ptr(), 256) };
        let parts = tasks(self.count, self.count.div_ceil(LINE), args.team.threads());
        args.team.run(parts, |index| {
            let part = part(self.count, parts, index, LINE);
            // SAFETY: nothing is padded, so both have this number of bytes, and parts do not overlap.
            unsafe { table.run(source.at(part.start), output.at(part.start), part.len()) };
        });
    }
}
