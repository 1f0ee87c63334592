//! `native.quantize` and `native.dequantize`: 8-bit levels of floats, and back.
//!
//! The loops are written so that the compiler makes vectors of them. A float is rounded by the addition of a number so
//! large that its last bit is worth one: halves go to the even integer, as the definition wants it.

use super::rounding::Rounding;
use crate::args::{Buffers, Shared, part, tasks};
use crate::lanes::Isa;
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The op that makes levels.
pub(super) const QUANTIZE: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.quantize", "quantize", contract, kernel) };
/// The op that makes floats of levels.
pub(super) const DEQUANTIZE: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.dequantize", "dequantize", contract, kernel) };

/// 1.5 times 2^23: the last bit of sums with smaller numbers is worth one.
const LARGE: f32 = 12_582_912.0;

/// An integer of 8 bits.
trait Level: bytemuck::Pod + Send + Sync {
    const LEAST: f32;
    const MOST: f32;
    fn number(self) -> f32;
    /// Returns the integer with the lower 8 bits.
    fn of(number: i32) -> Self;
}

impl Level for u8 {
    const LEAST: f32 = 0.0;
    const MOST: f32 = 255.0;
    #[inline(always)]
    fn number(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn of(number: i32) -> Self {
        number as Self
    }
}

impl Level for i8 {
    const LEAST: f32 = -128.0;
    const MOST: f32 = 127.0;
    #[inline(always)]
    fn number(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn of(number: i32) -> Self {
        number as Self
    }
}

/// How often scales and zero points repeat: each of `channels` for `inner` elements, and all of that `outer` times.
#[derive(Clone, Copy)]
struct Walk {
    outer: usize,
    channels: usize,
    inner: usize,
    /// Whether there is a scale, and a zero point, for each channel.
    own: [bool; 2],
}

impl Walk {
    /// Returns `None` if scales or zero points differ along several axes.
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, scale, zero] = call.inputs else { return None };
        // Where all elements have one scale and one zero point, their order makes no difference.
        if [scale, zero].iter().all(|ty| ty.shape.count() == 1) {
            return Some(Self { outer: 1, channels: 1, inner: x.shape.count(), own: [false; 2] });
        }
        let own = [scale, zero].map(|ty| ty.shape.count() != 1);
        let mut axes = [scale, zero].into_iter().flat_map(|ty| {
            let skip = x.shape.rank() - ty.shape.rank();
            (0..ty.shape.rank()).filter(|axis| ty.shape[*axis] != 1).map(move |axis| axis + skip)
        });
        let Some(axis) = axes.next() else {
            return Some(Self { outer: 1, channels: 1, inner: x.shape.count(), own });
        };
        let inner = x.shape[axis + 1..].iter().product();
        let outer = x.shape[..axis].iter().product();
        axes.all(|other| other == axis).then_some(Self { outer, channels: x.shape[axis], inner, own })
    }
}

/// The type of levels, if there are loops for it.
fn levels(call: &Call<'_>) -> Option<(Walk, DType)> {
    let dtype = call.inputs[2].dtype;
    let known = matches!(dtype, DType::U8 | DType::I8);
    Walk::new(call).filter(|_| known).map(|walk| (walk, dtype))
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match levels(call) {
        Some(_) => Ok(plain_contract("levels")),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let quantizes = call.op.meaning() == "quantize";
    Ok(match levels(call) {
        Some((walk, DType::U8)) => Box::new(Levels::<u8> { walk, quantizes, level: PhantomData }),
        Some((walk, _)) => Box::new(Levels::<i8> { walk, quantizes, level: PhantomData }),
        None => return reference::kernel(call),
    })
}

struct Levels<T> {
    walk: Walk,
    quantizes: bool,
    level: PhantomData<T>,
}

impl<T: Level> Kernel for Levels<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let Walk { outer, channels, inner, own } = self.walk;
        let count = outer * channels * inner;
        if count == 0 {
            return;
        }
        let (scales, zeros) = (Shared::<f32>::input(args, 1), Shared::<T>::input(args, 2));
        // One run has one scale, or a scale for each of its elements.
        let length = if inner == 1 { channels } else { inner };
        let runs = count / length;
        let (cuts, unit) = if runs == 1 { (length, 64) } else { (runs, 1) };
        let parts = tasks(count, cuts.div_ceil(unit), args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |index| {
            let args = buffers.args();
            let piece = part(cuts, parts, index, unit);
            let (runs, place) = if runs == 1 { (0..1, piece) } else { (piece, 0..length) };
            for run in runs {
                let channel = if inner == 1 { 0 } else { run % channels };
                let at = |own: bool| if own { channel } else { 0 };
                let from = run * length + place.start;
                let each = inner == 1 && channels > 1;
                // SAFETY: the run is in bounds of the operand and of the result, and only this task writes it; there
                // are as many scales and zero points as the walk says.
                unsafe {
                    let spread = Spread {
                        scale: scales.at(at(own[0]) + if each && own[0] { place.start } else { 0 }),
                        zero: zeros.at(at(own[1]) + if each && own[1] { place.start } else { 0 }),
                        each: own.map(|own| each && own),
                    };
                    if self.quantizes {
                        let x =
                            std::slice::from_raw_parts(Shared::<f32>::input(args, 0).at(from), place.len());
                        let y =
                            std::slice::from_raw_parts_mut(Shared::<T>::output(args).at(from), place.len());
                        match spread.single() {
                            // It seldom has to divide.
                            Some((scale, zero)) => Rounding::new(scale, zero, T::LEAST < 0.0).write(
                                x.as_ptr(),
                                y.as_mut_ptr().cast(),
                                y.len(),
                            ),
                            None => quantize(x, &spread, y),
                        }
                    } else {
                        let x = std::slice::from_raw_parts(Shared::<T>::input(args, 0).at(from), place.len());
                        let y =
                            std::slice::from_raw_parts_mut(Shared::<f32>::output(args).at(from), place.len());
                        dequantize(x, &spread, y);
                    }
                }
            }
        });
    }
}

/// Scales and zero points of a run, each one for all elements or one for each.
struct Spread<T> {
    scale: *const f32,
    zero: *const T,
    each: [bool; 2],
}

impl<T: Level> Spread<T> {
    /// # Safety
    /// There must be as many scales and zero points as elements where each has its own.
    #[inline(always)]
    unsafe fn of(&self, at: usize) -> (f32, f32) {
        let [scale, zero] = self.each.map(|each| if each { at } else { 0 });
        // SAFETY: as the caller promises.
        unsafe { (*self.scale.add(scale), (*self.zero.add(zero)).number()) }
    }

    /// Returns the scale and the zero point, if all elements have the same.
    fn single(&self) -> Option<(f32, f32)> {
        // SAFETY: there is at least one of each.
        (self.each == [false; 2]).then(|| unsafe { (*self.scale, (*self.zero).number()) })
    }
}

/// Returns the level of a number.
#[inline(always)]
fn level<T: Level>(x: f32, scale: f32, zero: f32) -> T {
    let (least, most) = (T::LEAST - zero, T::MOST - zero);
    let steps = x / scale;
    // Bounds are whole, so they may come before rounding. What is no number becomes the lower one.
    let steps = if steps > least { steps } else { least };
    let steps = if steps < most { steps } else { most };
    T::of((steps + LARGE).to_bits().wrapping_sub(LARGE.to_bits()).cast_signed().wrapping_add(zero as i32))
}

macro_rules! vectors {
    ($(#[$meta:meta])* $visibility:vis fn $name:ident<$from:ty, $to:ty>, $element:expr) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// The scales and zero points must be there.
        $visibility unsafe fn $name<T: Level>(x: &[$from], spread: &Spread<T>, y: &mut [$to]) {
            #[inline(always)]
            unsafe fn body<T: Level>(x: &[$from], spread: &Spread<T>, y: &mut [$to]) {
                if let Some((scale, zero)) = spread.single() {
                    for (x, y) in x.iter().zip(y) {
                        *y = ($element)(*x, scale, zero);
                    }
                    return;
                }
                for (at, (x, y)) in x.iter().zip(y).enumerate() {
                    // SAFETY: as the caller promises.
                    let (scale, zero) = unsafe { spread.of(at) };
                    *y = ($element)(*x, scale, zero);
                }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2<T: Level>(x: &[$from], spread: &Spread<T>, y: &mut [$to]) {
                // SAFETY: as the caller promises.
                unsafe { body(x, spread, y) }
            }
            // SAFETY: as the caller promises, and the processor has the instructions.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                if Isa::running() >= Isa::Avx2 {
                    return avx2(x, spread, y);
                }
                body(x, spread, y);
            }
        }
    };
}

vectors! {
    /// Writes the levels of numbers.
    fn quantize<f32, T>, level::<T>
}
vectors! {
    /// Writes the numbers of levels.
    fn dequantize<T, f32>, |x: T, scale: f32, zero: f32| (x.number() - zero) * scale
}

/// Writes the levels of numbers, at 256 levels between the least and the greatest of the numbers and zero. Returns the
/// scale, and the level of zero. If a number is NaN, so is the scale.
pub(super) fn dynamic_levels(values: &[f32], to: &mut [u8]) -> (f32, i32) {
    #[inline(always)]
    fn body(values: &[f32], to: &mut [u8]) -> (f32, i32) {
        let (mut least, mut most, mut broken) = ([0.0_f32; 8], [0.0_f32; 8], [0_u32; 8]);
        for values in values.chunks(8) {
            for (lane, value) in values.iter().enumerate() {
                least[lane] = if *value < least[lane] { *value } else { least[lane] };
                most[lane] = if *value > most[lane] { *value } else { most[lane] };
                broken[lane] |= u32::from(value.is_nan());
            }
        }
        let least = least.into_iter().fold(0.0, f32::min);
        let most = most.into_iter().fold(0.0, f32::max);
        let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
        let (lower, upper) = (-zero, 255.0 - zero);
        let point = zero as i32;
        for (value, to) in values.iter().zip(to) {
            let steps = *value / scale;
            let steps = if steps > lower { steps } else { lower };
            let steps = if steps < upper { steps } else { upper };
            let steps = (steps + LARGE).to_bits().wrapping_sub(LARGE.to_bits()).cast_signed();
            *to = (steps + point) as u8;
        }
        (if broken.contains(&1) { f32::NAN } else { scale }, point)
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(values: &[f32], to: &mut [u8]) -> (f32, i32) {
        body(values, to)
    }
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2(values, to) };
    }
    body(values, to)
}
