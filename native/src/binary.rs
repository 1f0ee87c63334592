//! Binary elementwise ops, including comparisons, for all element types.
//!
//! [`map`](super::map) computes arithmetic on `f32` instead, vectorised and together with the post chain.

use super::args::Shared;
use super::broadcast::Broadcast;
use super::lanes::Isa;
use super::padding::Padding;
use super::scalar::{Flag, Number, Scalar};
use super::{ISAS, map, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

macro_rules! ops {
    ($($op:literal),*) => { &[$(Lowering { instruction_sets: ISAS, ..Lowering::new(concat!("native.", $op), $op, contract, kernel) }),*] };
}

/// The ops of this family.
pub(super) const OPS: &[Lowering] = ops!(
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "min",
    "max",
    "mod",
    "equal",
    "greater",
    "less",
    "greater-equal",
    "less-equal",
    "and",
    "or",
    "xor"
);

/// The elements to which a function is applied at a time.
const BLOCK: usize = 32;

fn loops(call: &Call<'_>) -> Option<Broadcast<2>> {
    Broadcast::new(call.output, [call.inputs[0], call.inputs[1]])
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if map::takes(call) {
        return map::contract(call);
    }
    if loops(call).is_none() || build(call).is_none() {
        return reference::contract(call);
    }
    let in_place = (0..2).filter(|&n| call.inputs[n] == call.output).collect();
    Ok(Contract { in_place, ..plain_contract("scalar") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if map::takes(call) {
        return map::kernel(call);
    }
    match build(call) {
        Some(kernel) => Ok(kernel),
        None => reference::kernel(call),
    }
}

fn build(call: &Call<'_>) -> Option<Box<dyn Kernel>> {
    match call.inputs[0].dtype {
        DType::Bool => logic(call),
        DType::U8 => arithmetic::<u8>(call),
        DType::U16 => arithmetic::<u16>(call),
        DType::U32 => arithmetic::<u32>(call),
        DType::U64 => arithmetic::<u64>(call),
        DType::I8 => arithmetic::<i8>(call),
        DType::I16 => arithmetic::<i16>(call),
        DType::I32 => arithmetic::<i32>(call),
        DType::I64 => arithmetic::<i64>(call),
        DType::F16 => arithmetic::<half::f16>(call),
        DType::BF16 => arithmetic::<half::bf16>(call),
        DType::F32 => arithmetic::<f32>(call),
        DType::F64 => arithmetic::<f64>(call),
        _ => None,
    }
}

fn name<'a>(call: &Call<'a>) -> &'a str {
    call.op.own_name()
}

fn logic(call: &Call<'_>) -> Option<Box<dyn Kernel>> {
    Some(match name(call) {
        "and" => zip(call, |a: Flag, b: Flag| Flag(a.0 & b.0))?,
        "or" => zip(call, |a: Flag, b: Flag| Flag(a.0 | b.0))?,
        "xor" => zip(call, |a: Flag, b: Flag| Flag(a.0 ^ b.0))?,
        "equal" => zip(call, |a: Flag, b: Flag| Flag(u8::from(a == b)))?,
        _ => return None,
    })
}

fn arithmetic<T: Number>(call: &Call<'_>) -> Option<Box<dyn Kernel>> {
    let truncated = call.attrs.get("fmod").is_some_and(|_| call.attrs.expect_int("fmod") != 0);
    Some(match name(call) {
        "add" => zip(call, T::add)?,
        "sub" => zip(call, T::sub)?,
        "mul" => zip(call, T::mul)?,
        "div" => zip(call, T::div)?,
        "pow" => zip(call, T::pow)?,
        "min" => zip(call, T::min)?,
        "max" => zip(call, T::max)?,
        "mod" if truncated => zip(call, T::remainder)?,
        "mod" => zip(call, T::modulo)?,
        "equal" => zip(call, |a: T, b: T| Flag(u8::from(a == b)))?,
        "greater" => zip(call, |a: T, b: T| Flag(u8::from(a > b)))?,
        "less" => zip(call, |a: T, b: T| Flag(u8::from(a < b)))?,
        "greater-equal" => zip(call, |a: T, b: T| Flag(u8::from(a >= b)))?,
        "less-equal" => zip(call, |a: T, b: T| Flag(u8::from(a <= b)))?,
        _ => return None,
    })
}

fn zip<A: Scalar, O: Scalar>(
    call: &Call<'_>,
    function: impl Fn(A, A) -> O + Send + Sync + 'static,
) -> Option<Box<dyn Kernel>> {
    // The operands have the same type, and the function's result has the type that the op infers.
    if call.inputs[1].dtype != call.inputs[0].dtype || call.output.dtype.size() != size_of::<O>() {
        return None;
    }
    let padding = Padding::new(call.output);
    Some(Box::new(Zip { loops: loops(call)?, function, padding, types: PhantomData }))
}

struct Zip<A, O, F> {
    loops: Broadcast<2>,
    function: F,
    padding: Padding,
    types: PhantomData<(A, O)>,
}

impl<A: Scalar, O: Scalar, F: Fn(A, A) -> O + Send + Sync> Kernel for Zip<A, O, F> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (left, right) = (Shared::<A>::input(args, 0), Shared::<A>::input(args, 1));
        let output = Shared::<O>::output(args);
        let strides = self.loops.strides;
        self.loops.run(args.team, |first, offsets, length| {
            let (left, right, output) = (left.at(offsets[0]), right.at(offsets[1]), output.at(first));
            // SAFETY: all offsets are in bounds; an operand in place is read before the same element is written.
            unsafe { row(&self.function, [left, right], strides, output, length) };
        });
        self.padding.zero(args);
    }
}

/// Applies a function to a row of elements, whose operands have these strides.
///
/// # Safety
/// All elements must be in bounds. The result may only begin where an operand of stride 1 and of the same size does.
unsafe fn row<A: Scalar, O: Scalar>(
    function: &impl Fn(A, A) -> O,
    operands: [*const A; 2],
    strides: [usize; 2],
    output: *mut O,
    length: usize,
) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => row_avx2(function, operands, strides, output, length),
            _ => row_on(function, operands, strides, output, length),
        }
    }
}

/// # Safety
/// As for [`row`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn row_avx2<A: Scalar, O: Scalar>(
    function: &impl Fn(A, A) -> O,
    operands: [*const A; 2],
    strides: [usize; 2],
    output: *mut O,
    length: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { row_on(function, operands, strides, output, length) }
}

#[inline(always)]
unsafe fn row_on<A: Scalar, O: Scalar>(
    function: &impl Fn(A, A) -> O,
    operands: [*const A; 2],
    strides: [usize; 2],
    output: *mut O,
    length: usize,
) {
    // Each block is read before any of it is written, so that loops over blocks become vectors.
    let mut blocks = operands.map(|_| [A::zeroed(); BLOCK]);
    let mut result = [O::zeroed(); BLOCK];
    // SAFETY: as the caller promises.
    unsafe {
        for (block, (operand, stride)) in blocks.iter_mut().zip(operands.into_iter().zip(strides)) {
            if stride == 0 && length > 0 {
                *block = [*operand; BLOCK];
            }
        }
        for at in (0..length).step_by(BLOCK) {
            let count = (length - at).min(BLOCK);
            for (block, (operand, stride)) in blocks.iter_mut().zip(operands.into_iter().zip(strides)) {
                match stride {
                    0 => {}
                    1 if count == BLOCK => *block = operand.add(at).cast::<[A; BLOCK]>().read(),
                    1 => std::ptr::copy_nonoverlapping(operand.add(at), block.as_mut_ptr(), count),
                    _ => (0..count).for_each(|i| block[i] = *operand.add((at + i) * stride)),
                }
            }
            let [left, right] = &blocks;
            if count == BLOCK {
                for i in 0..BLOCK {
                    result[i] = function(left[i], right[i]);
                }
                output.add(at).cast::<[O; BLOCK]>().write(result);
            } else {
                (0..count).for_each(|i| *output.add(at + i) = function(left[i], right[i]));
            }
        }
    }
}
