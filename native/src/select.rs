//! `where`: elementwise choice between two operands.

use super::args::Shared;
use super::broadcast::Broadcast;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use std::marker::PhantomData;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering::new("native.where", "where", contract, kernel)];

fn loops(call: &Call<'_>) -> Option<Broadcast<3>> {
    Broadcast::new(call.output, [call.inputs[0], call.inputs[1], call.inputs[2]])
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if loops(call).is_none() {
        return reference::contract(call);
    }
    let in_place = (0..3).filter(|&n| call.inputs[n] == call.output).collect();
    Ok(Contract { in_place, ..plain_contract("select") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let Some(loops) = loops(call) else { return reference::kernel(call) };
    Ok(match call.output.dtype.size() {
        1 => Box::new(Select::<u8> { loops, element: PhantomData }),
        2 => Box::new(Select::<u16> { loops, element: PhantomData }),
        4 => Box::new(Select::<u32> { loops, element: PhantomData }),
        8 => Box::new(Select::<u64> { loops, element: PhantomData }),
        _ => Box::new(Select::<u128> { loops, element: PhantomData }),
    })
}

struct Select<T> {
    loops: Broadcast<3>,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod + Send + Sync> Kernel for Select<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let condition = Shared::<u8>::input(args, 0);
        let (yes, no) = (Shared::<T>::input(args, 1), Shared::<T>::input(args, 2));
        let output = Shared::<T>::output(args);
        let strides = self.loops.strides;
        self.loops.run(args.team, |first, offsets, length| {
            for i in 0..length {
                // SAFETY: all offsets are in bounds; an operand in place is read before the same element is written.
                unsafe {
                    let value = match *condition.at(offsets[0] + i * strides[0]) {
                        0 => *no.at(offsets[2] + i * strides[2]),
                        _ => *yes.at(offsets[1] + i * strides[1]),
                    };
                    *output.at(first + i) = value;
                }
            }
        });
    }
}
