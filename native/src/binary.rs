//! Functions of two operands, including comparisons and ops on bits, for all element types.
//!
//! [`map`](super::map) computes arithmetic on `f32` instead, vectorised and together with the post chain.

use super::args::Shared;
use super::broadcast::Broadcast;
use super::lanes::Isa;
use super::padding::Padding;
use super::scalar::{Bits, Flag, Number, Scalar};
use super::{ISAS, map, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::scalar::{Binary, Function};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// Returns the declaration of a function's op under this name.
pub(super) fn function(name: &'static str, function: Function) -> Lowering {
    Lowering { instruction_sets: ISAS, ..Lowering::new(name, function.name(), contract, kernel) }
}

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

/// Returns the kernel of a primitive. Other formulas are computed by [`map`] or for reference.
fn build(call: &Call<'_>) -> Option<Box<dyn Kernel>> {
    let function = call.op.flags.function?;
    let kind = function.primitive(&call.attrs.parameters(function))?;
    match call.inputs[0].dtype {
        DType::Bool => logic(call, kind),
        DType::U8 => integer::<u8>(call, kind),
        DType::U16 => integer::<u16>(call, kind),
        DType::U32 => integer::<u32>(call, kind),
        DType::U64 => integer::<u64>(call, kind),
        DType::I8 => integer::<i8>(call, kind),
        DType::I16 => integer::<i16>(call, kind),
        DType::I32 => integer::<i32>(call, kind),
        DType::I64 => integer::<i64>(call, kind),
        DType::F16 => number::<half::f16>(call, kind),
        DType::BF16 => number::<half::bf16>(call, kind),
        DType::F32 => number::<f32>(call, kind),
        DType::F64 => number::<f64>(call, kind),
        _ => None,
    }
}

fn logic(call: &Call<'_>, kind: Binary) -> Option<Box<dyn Kernel>> {
    match kind {
        Binary::And => zip(call, |a: Flag, b: Flag| Flag(a.0 & b.0)),
        Binary::Or => zip(call, |a: Flag, b: Flag| Flag(a.0 | b.0)),
        Binary::Xor => zip(call, |a: Flag, b: Flag| Flag(a.0 ^ b.0)),
        Binary::Equal => zip(call, |a: Flag, b: Flag| Flag(u8::from(a == b))),
        _ => None,
    }
}

fn integer<T: Bits>(call: &Call<'_>, kind: Binary) -> Option<Box<dyn Kernel>> {
    match kind {
        Binary::BitAnd => zip(call, T::and),
        Binary::BitOr => zip(call, T::or),
        Binary::BitXor => zip(call, T::xor),
        Binary::ShiftLeft => zip(call, T::shift_left),
        Binary::ShiftRight => zip(call, T::shift_right),
        _ => number::<T>(call, kind),
    }
}

fn number<T: Number>(call: &Call<'_>, kind: Binary) -> Option<Box<dyn Kernel>> {
    match kind {
        Binary::Add => zip(call, T::add),
        Binary::Sub => zip(call, T::sub),
        Binary::Mul => zip(call, T::mul),
        Binary::Div => zip(call, T::div),
        Binary::Pow => zip(call, T::pow),
        Binary::Min => zip(call, T::min),
        Binary::Max => zip(call, T::max),
        Binary::Remainder => zip(call, T::remainder),
        Binary::Modulo => zip(call, T::modulo),
        Binary::Equal => zip(call, |a: T, b: T| Flag(u8::from(a == b))),
        Binary::Greater => zip(call, |a: T, b: T| Flag(u8::from(a > b))),
        Binary::Less => zip(call, |a: T, b: T| Flag(u8::from(a < b))),
        Binary::GreaterEqual => zip(call, |a: T, b: T| Flag(u8::from(a >= b))),
        Binary::LessEqual => zip(call, |a: T, b: T| Flag(u8::from(a <= b))),
        _ => None,
    }
}

fn zip<A: Scalar, O: Scalar>(
    call: &Call<'_>,
    function: impl Fn(A, A) -> O + Send + Sync + 'static,
) -> Option<Box<dyn Kernel>> {
    zip_blocks(call, Box::new(Typed { function, types: PhantomData }), (size_of::<A>(), size_of::<O>()))
}

fn zip_blocks(call: &Call<'_>, function: Box<dyn Blocks>, sizes: (usize, usize)) -> Option<Box<dyn Kernel>> {
    // The operands have the same type, and the function's result has the type that the op infers.
    if call.inputs[1].dtype != call.inputs[0].dtype || call.output.dtype.size() != sizes.1 {
        return None;
    }
    Some(Box::new(Zip { loops: loops(call)?, function, sizes, padding: Padding::new(call.output) }))
}

/// A function of two numbers as it is applied to blocks of them.
trait Blocks: Send + Sync {
    /// Applies the function to [`BLOCK`] elements.
    ///
    /// # Safety
    /// All three blocks must be in bounds and aligned for their element types. The result may begin where an operand
    /// does, since a block is read before any of it is written.
    unsafe fn apply(&self, left: *const u8, right: *const u8, output: *mut u8);
}

/// A function with its types. Only the loop over a block depends on them: there are about 160 functions and types, and
/// the code around that loop is compiled once for all of them.
struct Typed<A, O, F> {
    function: F,
    types: PhantomData<(A, O)>,
}

impl<A: Scalar, O: Scalar, F: Fn(A, A) -> O + Send + Sync> Blocks for Typed<A, O, F> {
    unsafe fn apply(&self, left: *const u8, right: *const u8, output: *mut u8) {
        // SAFETY: as the caller promises; the processor has the instruction set.
        unsafe {
            match Isa::running() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 => {
                    block_avx2(&self.function, left.cast(), right.cast(), output.cast())
                }
                _ => block(&self.function, left.cast(), right.cast(), output.cast()),
            }
        }
    }
}

/// # Safety
/// As for [`Blocks::apply`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn block_avx2<A: Scalar, O: Scalar>(
    function: &impl Fn(A, A) -> O,
    left: *const [A; BLOCK],
    right: *const [A; BLOCK],
    output: *mut [O; BLOCK],
) {
    // SAFETY: as the caller promises.
    unsafe { block(function, left, right, output) }
}

#[inline(always)]
unsafe fn block<A: Scalar, O: Scalar>(
    function: &impl Fn(A, A) -> O,
    left: *const [A; BLOCK],
    right: *const [A; BLOCK],
    output: *mut [O; BLOCK],
) {
    // SAFETY: as the caller promises.
    let (left, right) = unsafe { (left.read(), right.read()) };
    let mut result = [O::zeroed(); BLOCK];
    for (result, (&left, &right)) in result.iter_mut().zip(left.iter().zip(&right)) {
        *result = function(left, right);
    }
    // SAFETY: as above.
    unsafe { output.write(result) }
}

struct Zip {
    loops: Broadcast<2>,
    function: Box<dyn Blocks>,
    /// The bytes of an element of the operands and of the result.
    sizes: (usize, usize),
    padding: Padding,
}

impl Kernel for Zip {
    unsafe fn run(&self, args: &Args<'_>) {
        let (left, right) = (Shared::<u8>::input(args, 0), Shared::<u8>::input(args, 1));
        let output = Shared::<u8>::output(args);
        let (size, result) = self.sizes;
        self.loops.run(args.team, |first, offsets, length| {
            let operands =
                [left.at(offsets[0] * size).cast_const(), right.at(offsets[1] * size).cast_const()];
            // SAFETY: all offsets are in bounds; an operand in place is read before the same element is written.
            unsafe { self.row(operands, output.at(first * result), length) };
        });
        self.padding.zero(args);
    }
}

/// The elements of a block, of at most eight bytes each.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Buffer([u8; 8 * BLOCK]);

impl Zip {
    /// Applies the function to a row of elements.
    ///
    /// # Safety
    /// All elements must be in bounds. The result may only begin where an operand of stride 1 and of the same size
    /// does.
    unsafe fn row(&self, operands: [*const u8; 2], output: *mut u8, length: usize) {
        let (size, result) = self.sizes;
        let mut buffers = [Buffer([0; 8 * BLOCK]); 2];
        for at in (0..length).step_by(BLOCK) {
            let count = (length - at).min(BLOCK);
            let mut blocks = [std::ptr::null(); 2];
            for (n, buffer) in buffers.iter_mut().enumerate() {
                // SAFETY: the elements are in bounds, as the caller promises.
                blocks[n] = unsafe {
                    match self.loops.strides[n] {
                        1 if count == BLOCK => operands[n].add(at * size),
                        // One element for the whole row is read once.
                        0 if at > 0 => buffer.0.as_ptr(),
                        stride => {
                            fetch(operands[n].add(at * stride * size), stride, size, count, buffer);
                            buffer.0.as_ptr()
                        }
                    }
                };
            }
            let [left, right] = blocks;
            let output = output.wrapping_add(at * result);
            // SAFETY: the blocks are in the buffers or in bounds, as the caller promises.
            unsafe {
                if count == BLOCK {
                    self.function.apply(left, right, output);
                } else {
                    let mut rest = Buffer([0; 8 * BLOCK]);
                    self.function.apply(left, right, rest.0.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(rest.0.as_ptr(), output, count * result);
                }
            }
        }
    }
}

/// Reads `count` elements of `size` bytes, or one for the whole buffer if the stride is 0.
///
/// # Safety
/// They must be in bounds, and aligned for elements of this size.
unsafe fn fetch(from: *const u8, stride: usize, size: usize, count: usize, buffer: &mut Buffer) {
    // SAFETY: as the caller promises.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(from, buffer.0.as_mut_ptr(), count * size),
            (_, 1) => fetch_as::<u8>(from, stride, count, buffer),
            (_, 2) => fetch_as::<u16>(from, stride, count, buffer),
            (_, 4) => fetch_as::<u32>(from, stride, count, buffer),
            _ => fetch_as::<u64>(from, stride, count, buffer),
        }
    }
}

/// # Safety
/// As for [`fetch`], whose elements have the size of `T`.
unsafe fn fetch_as<T: bytemuck::Pod>(from: *const u8, stride: usize, count: usize, buffer: &mut Buffer) {
    let from = from.cast::<T>();
    let elements = &mut bytemuck::cast_slice_mut::<u8, T>(&mut buffer.0)[..BLOCK];
    // SAFETY: as the caller promises.
    unsafe {
        match stride {
            0 => elements.fill(*from),
            _ => elements[..count]
                .iter_mut()
                .enumerate()
                .for_each(|(i, element)| *element = *from.add(i * stride)),
        }
    }
}
