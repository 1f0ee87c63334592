//! `native.requantize`: a chain of steps on integers or floats whose results become levels, in one pass.

use super::level::{Level, Spread, quantize};
use crate::args::Shared;
use crate::broadcast::Broadcast;
use crate::chain::{Action, Area, apply};
use crate::lanes::Isa;
use crate::map::{AREA, Block, OPERANDS};
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::{DType, TensorType};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The op.
pub(super) const OP: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.requantize", "requantize", contract, kernel) };

/// The operands that are no extra operands of the chain, beside the first one: scale and zero point.
const LEVELS: usize = 2;

struct Chain {
    loops: Broadcast<OPERANDS>,
    /// The steps, each with the position of its extra operand in the loops.
    steps: Vec<(Action, usize)>,
    source: DType,
}

fn plan(call: &Call<'_>) -> Option<Chain> {
    let [x, scale, zero, extras @ ..] = call.inputs else { return None };
    let known = matches!(x.dtype, DType::F32 | DType::I32 | DType::U8 | DType::I8)
        && matches!(zero.dtype, DType::U8 | DType::I8)
        && scale.shape.count() == 1
        && zero.shape.count() == 1
        && extras.len() < OPERANDS;
    if !known {
        return None;
    }
    let scalar = TensorType::plain(DType::F32, [0_usize; 0]);
    let types = std::array::from_fn(|n| match n {
        0 => *x,
        n => extras.get(n - 1).copied().unwrap_or(&scalar),
    });
    let loops = Broadcast::new(call.output, types)?;
    // The first operand has the shape of the result, so its rows are contiguous.
    if loops.strides[0] != 1 && loops.length > 1 {
        return None;
    }
    let mut next = 0;
    let steps = Action::chain(call.attrs.post()).ok()?.into_iter().map(|action| {
        next += usize::from(action.binary);
        let operand = if action.binary { next } else { 0 };
        (action, operand)
    });
    Some(Chain { steps: steps.collect(), loops, source: x.dtype })
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match plan(call) {
        Some(_) => Ok(plain_contract("steps")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match (plan(call), call.output.dtype) {
        (Some(chain), DType::U8) => Box::new(Requantize::<u8> { chain, level: PhantomData }),
        (Some(chain), _) => Box::new(Requantize::<i8> { chain, level: PhantomData }),
        (None, _) => return reference::kernel(call),
    })
}

struct Requantize<T> {
    chain: Chain,
    level: PhantomData<T>,
}

impl<T: Level> Kernel for Requantize<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let mut extras = [Shared::new(std::ptr::null_mut()); OPERANDS];
        for (_, operand) in self.chain.steps.iter().filter(|(action, _)| action.binary) {
            extras[*operand] = Shared::<f32>::input(args, operand + LEVELS);
        }
        let source = Shared::<u8>::input(args, 0);
        let (scale, zero) = (Shared::<f32>::input(args, 1), Shared::<T>::input(args, 2));
        let output = Shared::<T>::output(args);
        Block::all(&self.chain.loops, args.team, |block| {
            let spread = Spread::one(scale.at(0), zero.at(0));
            // SAFETY: blocks are within the loops, which were computed from the types.
            unsafe { self.block(source.at(0), &extras, &spread, output.at(block.first), block) };
        });
    }
}

impl<T: Level> Requantize<T> {
    /// Computes a block in a buffer, and writes its levels.
    ///
    /// # Safety
    /// The block must be in bounds.
    unsafe fn block(
        &self,
        source: *const u8,
        extras: &[Shared<f32>; OPERANDS],
        spread: &Spread<T>,
        output: *mut T,
        block: &Block,
    ) {
        let Chain { loops, steps, source: dtype } = &self.chain;
        let mut buffer = [MaybeUninit::<f32>::uninit(); AREA];
        let buffer = buffer.as_mut_ptr().cast::<f32>();
        let (rows, columns) = (block.rows, block.columns);
        // SAFETY: the buffer has room for a block, and operands are in bounds.
        unsafe {
            for row in 0..rows {
                let at = block.offsets[0] + row * block.row_strides[0];
                let to = std::slice::from_raw_parts_mut(buffer.add(row * columns), columns);
                match dtype {
                    DType::I32 => convert(source.cast::<i32>().add(at), to),
                    DType::U8 => convert(source.add(at), to),
                    DType::I8 => convert(source.cast::<i8>().add(at), to),
                    _ => convert(source.cast::<f32>().add(at), to),
                }
            }
            let mut area = Area {
                source: buffer,
                source_row: columns,
                target: buffer,
                target_row: columns,
                rows,
                columns,
                ..Area::NONE
            };
            for (action, extra) in steps {
                if action.binary {
                    area.extra = extras[*extra].at(block.offsets[*extra]);
                    area.extra_row = block.row_strides[*extra];
                    area.extra_column = if columns == 1 { 0 } else { loops.strides[*extra] };
                }
                apply(action, &area);
            }
            // Rows of a block are contiguous in the result.
            let x = std::slice::from_raw_parts(buffer, rows * columns);
            quantize(x, spread, std::slice::from_raw_parts_mut(output, rows * columns));
        }
    }
}

/// A number that becomes one of binary32.
trait Number: Copy {
    fn number(self) -> f32;
}

macro_rules! numbers {
    ($($ty:ty)*) => {
        $(impl Number for $ty {
            #[inline(always)]
            fn number(self) -> f32 {
                self as f32
            }
        })*
    };
}

numbers! { i32 u8 i8 f32 }

/// Writes numbers as those of binary32.
///
/// # Safety
/// There must be as many numbers as there is room for.
unsafe fn convert<S: Number>(from: *const S, to: &mut [f32]) {
    #[inline(always)]
    fn body<S: Number>(from: &[S], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.number();
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<S: Number>(from: &[S], to: &mut [f32]) {
        body(from, to);
    }
    // SAFETY: as the caller promises, and the processor has the instructions.
    unsafe {
        let from = std::slice::from_raw_parts(from, to.len());
        #[cfg(target_arch = "x86_64")]
        if Isa::running() >= Isa::Avx2 {
            return avx2(from, to);
        }
        body(from, to);
    }
}
