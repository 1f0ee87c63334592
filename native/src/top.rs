//! `top-k-index`: each thread selects the best elements of some lines.
//!
//! An element and its position are one integer, of which a lower one is better, so no two are equal and the order is
//! that of the definition. The best ones so far are kept in a short list. When it is full, it is cut down to `k` by
//! partial selection, and from then on most elements only need to be compared with the worst of these.

use super::args::{Shared, part, tasks};
use super::lanes::Isa;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The op of this family.
pub(super) const OPS: &[Lowering] = &[Lowering::new("native.top-k-index", "top-k-index", contract, kernel)];

/// Elements that are compared at a time.
const BLOCK: usize = 64;

/// Runs `$body` with the type alias `$T` for an element type that has ranks, or `$otherwise`.
macro_rules! with_rank {
    ($dtype:expr, $T:ident => $body:expr, $otherwise:expr) => {
        with_rank!(@ $dtype, $T => $body, $otherwise,
            F32 f32, F64 f64, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    (@ $dtype:expr, $T:ident => $body:expr, $otherwise:expr, $($name:ident $type:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $type;
                $body
            })*
            _ => $otherwise,
        }
    };
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if !is_short(call) {
        return reference::contract(call);
    }
    let dtype = call.inputs[0].dtype;
    let scratch = with_rank!(dtype, T => Top::<T>::new(call).of_thread(), return reference::contract(call));
    Ok(Contract { scratch: scratch * call.threads, ..plain_contract("selection") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !is_short(call) {
        return reference::kernel(call);
    }
    with_rank!(call.inputs[0].dtype, T => Ok(Box::new(Top::<T>::new(call))), reference::kernel(call))
}

/// Returns whether 32 bits hold the positions along the axis.
fn is_short(call: &Call<'_>) -> bool {
    let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
    u32::try_from(call.inputs[0].shape[axis]).is_ok()
}

/// An element with a place in the order of its type.
trait Ranked: bytemuck::Pod + Send + Sync {
    /// An unsigned integer with the order of the elements.
    type Rank: Copy + PartialOrd + Send + Sync;
    /// A rank and a position, in the order of ranks and then positions.
    type Entry: Copy + Ord + Send + Sync;
    fn rank(self, largest: bool) -> Self::Rank;
    fn entry(rank: Self::Rank, position: usize) -> Self::Entry;
    fn rank_of(entry: Self::Entry) -> Self::Rank;
    fn position(entry: Self::Entry) -> u32;
}

macro_rules! ranked {
    ($rank:ty, $entry:ty: $($type:ty, |$value:ident| $order:expr;)*) => { $(
        impl Ranked for $type {
            type Rank = $rank;
            type Entry = $entry;
            #[inline(always)]
            fn rank(self, largest: bool) -> $rank {
                let $value = self;
                let order: $rank = $order;
                if largest { !order } else { order }
            }
            #[inline(always)]
            fn entry(rank: $rank, position: usize) -> $entry {
                <$entry>::from(rank) << 32 | position as $entry
            }
            #[inline(always)]
            fn rank_of(entry: $entry) -> $rank {
                (entry >> 32) as $rank
            }
            #[inline(always)]
            fn position(entry: $entry) -> u32 {
                entry as u32
            }
        }
    )* };
}
ranked! {
    u32, u64:
    u8, |value| u32::from(value);
    u16, |value| u32::from(value);
    u32, |value| value;
    i8, |value| i32::from(value) as u32 ^ 1 << 31;
    i16, |value| i32::from(value) as u32 ^ 1 << 31;
    i32, |value| value as u32 ^ 1 << 31;
    // Both zeros are equal, and so are all NaN, which are larger than every number.
    f32, |value| {
        let bits = (value + 0.0).to_bits();
        let order = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        if value.is_nan() { u32::MAX } else { order }
    };
}
ranked! {
    u64, u128:
    u64, |value| value;
    i64, |value| value as u64 ^ 1 << 63;
    f64, |value| {
        let bits = (value + 0.0).to_bits();
        let order = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        if value.is_nan() { u64::MAX } else { order }
    };
}

struct Top<T> {
    outer: usize,
    size: usize,
    inner: usize,
    kept: usize,
    largest: bool,
    element: PhantomData<T>,
}

impl<T: Ranked> Top<T> {
    fn new(call: &Call<'_>) -> Self {
        let shape = &call.inputs[0].shape;
        let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
        Self {
            outer: shape[..axis].iter().product(),
            size: shape[axis],
            inner: shape[axis + 1..].iter().product(),
            kept: call.output.shape[axis],
            largest: call.attrs.expect_int("largest") != 0,
            element: PhantomData,
        }
    }

    /// Returns the length of the list, which is at least `k`.
    fn list(&self) -> usize {
        (2 * self.kept).max(self.kept + BLOCK).min(self.size)
    }

    fn of_thread(&self) -> usize {
        (self.list() * size_of::<T::Entry>()).next_multiple_of(ALIGN)
    }
}

/// A line, whose elements are `stride` apart.
struct Line<T> {
    from: *const T,
    stride: usize,
    size: usize,
    kept: usize,
    largest: bool,
}

/// Moves the best elements of a line to the front of `list`, in their order.
///
/// # Safety
/// The line must be in bounds.
unsafe fn select<T: Ranked>(line: &Line<T>, list: &mut [T::Entry]) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => select_avx2(line, list),
            _ => select_on(line, list),
        }
    }
}

/// # Safety
/// As for [`select`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn select_avx2<T: Ranked>(line: &Line<T>, list: &mut [T::Entry]) {
    // SAFETY: as the caller promises.
    unsafe { select_on(line, list) }
}

#[inline(always)]
unsafe fn select_on<T: Ranked>(line: &Line<T>, list: &mut [T::Entry]) {
    // Later elements must be better than the worst of the `k` best so far; one that is equal comes after it.
    let mut bound: Option<T::Rank> = None;
    let mut held = 0;
    for first in (0..line.size).step_by(BLOCK) {
        let end = (first + BLOCK).min(line.size);
        if let Some(bound) = bound.filter(|_| line.stride == 1 && end - first == BLOCK) {
            // SAFETY: the block is within the line.
            let block = unsafe { line.from.add(first).cast::<[T; BLOCK]>().read_unaligned() };
            // All of them are compared, because a loop without exits is vectorised.
            if !block.iter().fold(false, |found, value| found | (value.rank(line.largest) < bound)) {
                continue;
            }
        }
        for at in first..end {
            // SAFETY: the element is within the line.
            let rank = unsafe { *line.from.add(at * line.stride) }.rank(line.largest);
            if bound.is_some_and(|bound| rank >= bound) {
                continue;
            }
            list[held] = T::entry(rank, at);
            held += 1;
            if held == list.len() {
                let (_, worst, _) = list.select_nth_unstable(line.kept - 1);
                bound = Some(T::rank_of(*worst));
                held = line.kept;
            }
        }
    }
    // A list that is full has been cut already.
    if held > line.kept {
        list[..held].select_nth_unstable(line.kept - 1);
    }
    list[..line.kept].sort_unstable();
}

impl<T: Ranked> Kernel for Top<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let lines = self.outer * self.inner;
        if self.kept * lines == 0 {
            return;
        }
        let (x, output) = (Shared::<T>::input(args, 0), Shared::<i64>::output(args));
        let scratch = Shared::<u8>::scratch(args);
        let parts = tasks(lines * self.size, lines, args.team.threads());
        args.team.share(args.team.threads(), parts, |thread, index| {
            let list = scratch.at(thread * self.of_thread()).cast::<T::Entry>();
            // SAFETY: each thread has a list of its own, and entries are integers, which any bytes are.
            let list = unsafe { std::slice::from_raw_parts_mut(list, self.list()) };
            for line in part(lines, parts, index, 1) {
                let (outer, column) = (line / self.inner, line % self.inner);
                let from = x.at(outer * self.size * self.inner + column).cast_const();
                let one = Line {
                    from,
                    stride: self.inner,
                    size: self.size,
                    kept: self.kept,
                    largest: self.largest,
                };
                // SAFETY: the line is within the operand, and only this task has its line of the result.
                unsafe {
                    select(&one, list);
                    let to = output.at(outer * self.kept * self.inner + column);
                    for (at, entry) in list[..self.kept].iter().enumerate() {
                        *to.add(at * self.inner) = i64::from(T::position(*entry));
                    }
                }
            }
        });
    }
}
