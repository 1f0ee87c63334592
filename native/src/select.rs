//! `where`: elementwise choice between two operands.

use super::args::Shared;
use super::broadcast::Broadcast;
use super::lanes::Isa;
use super::padding::Padding;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use std::marker::PhantomData;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering::new("native.where", "where", contract, kernel)];

/// The elements that are chosen at a time.
const BLOCK: usize = 32;

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
    let padding = Padding::new(call.output);
    Ok(match call.output.dtype.size() {
        1 => Box::new(Select::<u8> { loops, padding, element: PhantomData }),
        2 => Box::new(Select::<u16> { loops, padding, element: PhantomData }),
        4 => Box::new(Select::<u32> { loops, padding, element: PhantomData }),
        8 => Box::new(Select::<u64> { loops, padding, element: PhantomData }),
        _ => Box::new(Select::<u128> { loops, padding, element: PhantomData }),
    })
}

struct Select<T> {
    loops: Broadcast<3>,
    padding: Padding,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod + Send + Sync> Kernel for Select<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let condition = Shared::<u8>::input(args, 0);
        let (yes, no) = (Shared::<T>::input(args, 1), Shared::<T>::input(args, 2));
        let output = Shared::<T>::output(args);
        let strides = self.loops.strides;
        self.loops.run(args.team, |first, offsets, length| {
            let condition = condition.at(offsets[0]).cast_const();
            let (yes, no) = (yes.at(offsets[1]).cast_const(), no.at(offsets[2]).cast_const());
            // SAFETY: all offsets are in bounds; an operand in place is read before the same element is written.
            unsafe { row(condition, [yes, no], strides, output.at(first), length) };
        });
        self.padding.zero(args);
    }
}

/// Chooses among a row of elements, whose operands have these strides.
///
/// # Safety
/// All elements must be in bounds. The result may only begin where an operand of stride 1 and of the same size does.
unsafe fn row<T: bytemuck::Pod>(
    condition: *const u8,
    operands: [*const T; 2],
    strides: [usize; 3],
    output: *mut T,
    length: usize,
) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => row_avx2(condition, operands, strides, output, length),
            _ => row_on(condition, operands, strides, output, length),
        }
    }
}

/// # Safety
/// As for [`row`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn row_avx2<T: bytemuck::Pod>(
    condition: *const u8,
    operands: [*const T; 2],
    strides: [usize; 3],
    output: *mut T,
    length: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { row_on(condition, operands, strides, output, length) }
}

#[inline(always)]
unsafe fn row_on<T: bytemuck::Pod>(
    condition: *const u8,
    operands: [*const T; 2],
    strides: [usize; 3],
    output: *mut T,
    length: usize,
) {
    // Both choices of a block are read, so that its loop has no branches.
    let (mut conditions, mut choices) = ([0_u8; BLOCK], operands.map(|_| [T::zeroed(); BLOCK]));
    // SAFETY: as the caller promises.
    unsafe {
        for at in (0..length).step_by(BLOCK) {
            let count = (length - at).min(BLOCK);
            fetch(condition, strides[0], at, count, &mut conditions);
            for (n, choice) in choices.iter_mut().enumerate() {
                fetch(operands[n], strides[n + 1], at, count, choice);
            }
            let mut result = [T::zeroed(); BLOCK];
            for i in 0..BLOCK {
                result[i] = if conditions[i] != 0 { choices[0][i] } else { choices[1][i] };
            }
            std::ptr::copy_nonoverlapping(result.as_ptr(), output.add(at), count);
        }
    }
}

/// Reads `count` elements from the one at `at` on.
///
/// # Safety
/// They must be in bounds.
#[inline(always)]
unsafe fn fetch<T: bytemuck::Pod>(
    from: *const T,
    stride: usize,
    at: usize,
    count: usize,
    to: &mut [T; BLOCK],
) {
    // SAFETY: as the caller promises.
    unsafe {
        match stride {
            0 => *to = [*from; BLOCK],
            1 if count == BLOCK => *to = from.add(at).cast::<[T; BLOCK]>().read(),
            1 => std::ptr::copy_nonoverlapping(from.add(at), to.as_mut_ptr(), count),
            _ => (0..count).for_each(|i| to[i] = *from.add((at + i) * stride)),
        }
    }
}
