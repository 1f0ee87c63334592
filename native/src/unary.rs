//! Unary elementwise ops. [`map`](super::map) computes `f32`; a few ops support other types.

use super::args::{Shared, part, tasks};
use super::padding::Padding;
use super::scalar::{Flag, Number};
use super::{ISAS, map, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::scalar::Function;
use ovolo::tensor::DType;
use std::marker::PhantomData;

const fn lowering(name: &'static str, of: &'static str) -> Lowering {
    Lowering { instruction_sets: ISAS, ..Lowering::new(name, of, contract, kernel) }
}

/// The ops of this family that are not functions of one number.
pub(super) const OPS: &[Lowering] = &[lowering("native.not", "not"), lowering("native.isnan", "isnan")];

/// Returns the declaration of a function's op under this name.
pub(super) fn function(name: &'static str, function: Function) -> Lowering {
    lowering(name, function.name())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if map::takes(call) {
        return map::contract(call);
    }
    if build(call).is_none() {
        return reference::contract(call);
    }
    let in_place = if call.inputs[0] == call.output { vec![0] } else { Vec::new() };
    Ok(Contract { in_place, ..plain_contract("scalar") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if map::takes(call) {
        return map::kernel(call);
    }
    build(call).map_or_else(|| reference::kernel(call), Ok)
}

fn build(call: &Call<'_>) -> Option<Box<dyn Kernel>> {
    let name = call.op.own_name();
    match (name, call.inputs[0].dtype) {
        ("not", DType::Bool) => Some(each(call, |x: Flag| Flag(u8::from(x.0 == 0)))),
        ("isnan", DType::F32) => Some(each(call, |x: f32| Flag(u8::from(x.is_nan())))),
        ("isnan", DType::F64) => Some(each(call, |x: f64| Flag(u8::from(x.is_nan())))),
        (_, DType::I8) => signed::<i8>(call, name),
        (_, DType::I16) => signed::<i16>(call, name),
        (_, DType::I32) => signed::<i32>(call, name),
        (_, DType::I64) => signed::<i64>(call, name),
        (_, DType::F64) => signed::<f64>(call, name),
        _ => None,
    }
}

fn signed<T: Number>(call: &Call<'_>, name: &str) -> Option<Box<dyn Kernel>> {
    let zero = T::from_i64(0);
    match name {
        "neg" => Some(each(call, move |x: T| if x == zero { x } else { Number::sub(zero, x) })),
        "abs" => Some(each(call, move |x: T| if x < zero { Number::sub(zero, x) } else { x })),
        "relu" => Some(each(call, move |x: T| if x < zero { zero } else { x })),
        "sign" => Some(each(call, move |x: T| {
            let (plus, minus) = (T::from_i64(1), T::from_i64(-1));
            if x > zero {
                plus
            } else if x < zero {
                minus
            } else {
                x
            }
        })),
        _ => None,
    }
}

fn each<A: bytemuck::Pod + Send + Sync, B: bytemuck::Pod + Send + Sync>(
    call: &Call<'_>,
    function: impl Fn(A) -> B + Send + Sync + 'static,
) -> Box<dyn Kernel> {
    let count = call.output.layout.padded_count(&call.output.shape);
    Box::new(Each { count, function, padding: Padding::new(call.output), types: PhantomData })
}

struct Each<A, B, F> {
    count: usize,
    function: F,
    padding: Padding,
    types: PhantomData<(A, B)>,
}

impl<A, B, F> Kernel for Each<A, B, F>
where
    A: bytemuck::Pod + Send + Sync,
    B: bytemuck::Pod + Send + Sync,
    F: Fn(A) -> B + Send + Sync,
{
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<A>::input(args, 0), Shared::<B>::output(args));
        let parts = tasks(self.count, self.count, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(self.count, parts, index, 16) {
                // SAFETY: the index is in bounds of both buffers; in place, each element is read before it is
                // written.
                unsafe { *output.at(at) = (self.function)(*input.at(at)) };
            }
        });
        self.padding.zero(args);
    }
}
