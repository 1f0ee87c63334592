//! Conversion of elements to another type.

use super::args::{Shared, part, tasks};
use super::scalar::{Scalar, has_scalar, with_scalar};
use super::{plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use std::marker::PhantomData;

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
    Ok(with_scalar!(call.inputs[0].dtype, A => with_scalar!(call.output.dtype, B => {
        Box::new(Cast::<A, B> { count, types: PhantomData })
    })))
}

struct Cast<A, B> {
    count: usize,
    types: PhantomData<(A, B)>,
}

impl<A: Scalar, B: Scalar> Kernel for Cast<A, B> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<A>::input(args, 0), Shared::<B>::output(args));
        let parts = tasks(self.count, self.count, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(self.count, parts, index, 16) {
                // SAFETY: the index is in bounds of both buffers; in place, each element is read before it is
                // written.
                unsafe { *output.at(at) = (*input.at(at)).cast::<B>() };
            }
        });
    }
}
