//! Conversion of elements to another type.

use super::args::Shared;
use super::elements::Conversion;
use super::scalar::has_scalar;
use super::{plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.cast", "cast", contract, kernel),
    Lowering::new("native.cast-narrow", "cast-narrow", reference::contract, reference::kernel),
    Lowering::new("native.bitcast", "bitcast", |_| Ok(view_contract(0)), reference::kernel),
];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let (from, to) = (call.inputs[0].dtype, call.output.dtype);
    if from != to && !(has_scalar(from) && has_scalar(to)) {
        return reference::contract(call);
    }
    Ok(match (from == to, from.size() == to.size()) {
        (true, _) => view_contract(0),
        (false, true) => Contract { in_place: vec![0], ..plain_contract("convert") },
        (false, false) => plain_contract("convert"),
    })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !(has_scalar(call.inputs[0].dtype) && has_scalar(call.output.dtype)) {
        return reference::kernel(call);
    }
    let count = call.output.layout.padded_count(&call.output.shape);
    Ok(Box::new(Cast { count, conversion: Conversion::new(call.inputs[0].dtype, call.output.dtype) }))
}

struct Cast {
    count: usize,
    conversion: Conversion,
}

impl Kernel for Cast {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::input(args, 0), Shared::output(args));
        // SAFETY: both buffers have this number of elements; in place, elements have the same size.
        unsafe { self.conversion.run(input, output, self.count, args.team) };
    }
}
