//! Conversion of elements to another type.

use super::args::{Shared, part, tasks};
use super::lanes::Isa;
use super::scalar::{Scalar, has_scalar, with_scalar};
use super::{plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
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
    match (call.inputs[0].dtype, call.output.dtype) {
        (DType::I32, DType::F32) => return Ok(Box::new(Vectors::<i32, f32> { count, types: PhantomData })),
        (DType::U8, DType::F32) => return Ok(Box::new(Vectors::<u8, f32> { count, types: PhantomData })),
        (DType::I8, DType::F32) => return Ok(Box::new(Vectors::<i8, f32> { count, types: PhantomData })),
        (DType::U8, DType::I32) => return Ok(Box::new(Vectors::<u8, i32> { count, types: PhantomData })),
        (DType::I8, DType::I32) => return Ok(Box::new(Vectors::<i8, i32> { count, types: PhantomData })),
        _ => {}
    }
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

/// A conversion for which processors have vector instructions.
trait Direct<B>: Copy {
    fn direct(self) -> B;
}

macro_rules! direct {
    ($($from:ty => $to:ty),*) => { $(impl Direct<$to> for $from {
        #[inline(always)]
        fn direct(self) -> $to { self as $to }
    })* };
}
direct!(i32 => f32, u8 => f32, i8 => f32, u8 => i32, i8 => i32);

struct Vectors<A, B> {
    count: usize,
    types: PhantomData<(A, B)>,
}

impl<A: Direct<B> + Send + Sync, B: Copy + Send + Sync> Kernel for Vectors<A, B> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<A>::input(args, 0), Shared::<B>::output(args));
        let parts = tasks(self.count, self.count.div_ceil(64), args.team.threads());
        args.team.run(parts, |index| {
            let place = part(self.count, parts, index, 64);
            // SAFETY: the elements are in bounds of both buffers, and only this task writes them.
            unsafe { convert(input.at(place.start), output.at(place.start), place.len()) };
        });
    }
}

/// Converts some elements. Both may have the same place.
///
/// # Safety
/// The elements must be in bounds.
unsafe fn convert<A: Direct<B>, B: Copy>(from: *const A, to: *mut B, count: usize) {
    #[inline(always)]
    unsafe fn body<A: Direct<B>, B: Copy>(from: *const A, to: *mut B, count: usize) {
        for at in 0..count {
            // SAFETY: as the caller promises; each element is read before it is written.
            unsafe { *to.add(at) = (*from.add(at)).direct() };
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<A: Direct<B>, B: Copy>(from: *const A, to: *mut B, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { body(from, to, count) }
    }
    // SAFETY: as the caller promises, and the processor has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            return avx2(from, to, count);
        }
        body(from, to, count);
    }
}
