//! `cum-sum` and `cum-prod`: some lines at a time, since each element of a line waits for the one before.
//!
//! Sums of `f32` are kept in double precision, as the definition keeps them.

use super::args::{Shared, part, tasks};
use super::lanes::Isa;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.cum-sum", "cum-sum", contract, kernel),
    Lowering::new("native.cum-prod", "cum-prod", contract, kernel),
];

/// The lines that are run through at a time.
const LINES: usize = 32;
/// As [`LINES`], if their elements are not next to each other.
const APART: usize = 8;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match call.output.dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::I64 => {
            Ok(Contract { in_place: vec![0], ..plain_contract("lines") })
        }
        _ => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F32 => of::<f32>(call),
        DType::F64 => of::<f64>(call),
        DType::I32 => of::<i32>(call),
        DType::I64 => of::<i64>(call),
        _ => return reference::kernel(call),
    })
}

fn of<T: Element>(call: &Call<'_>) -> Box<dyn Kernel> {
    match call.op.logical() == "cum-sum" {
        true => Box::new(Running::<T, Sum>::new(call)),
        false => Box::new(Running::<T, Product>::new(call)),
    }
}

/// An element, and the type in which results are kept on the way.
trait Element: bytemuck::Pod + Send + Sync {
    type Wide: Copy + Send + Sync;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn whole(number: i32) -> Self::Wide;
    fn sum(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn product(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

macro_rules! element {
    ($type:ty, $wide:ty, $sum:expr, $product:expr) => {
        impl Element for $type {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                <$wide>::from(self)
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn whole(number: i32) -> $wide {
                <$wide>::from(number)
            }
            #[inline(always)]
            fn sum(a: $wide, b: $wide) -> $wide {
                $sum(a, b)
            }
            #[inline(always)]
            fn product(a: $wide, b: $wide) -> $wide {
                $product(a, b)
            }
        }
    };
}
element!(f32, f64, |a, b| a + b, |a, b| a * b);
element!(f64, f64, |a, b| a + b, |a, b| a * b);
element!(i32, i32, i32::wrapping_add, i32::wrapping_mul);
element!(i64, i64, i64::wrapping_add, i64::wrapping_mul);

/// What is done along a line.
trait Join: Send + Sync {
    const NEUTRAL: i32;
    fn join<T: Element>(a: T::Wide, b: T::Wide) -> T::Wide;
}

struct Sum;
struct Product;

impl Join for Sum {
    const NEUTRAL: i32 = 0;
    #[inline(always)]
    fn join<T: Element>(a: T::Wide, b: T::Wide) -> T::Wide {
        T::sum(a, b)
    }
}

impl Join for Product {
    const NEUTRAL: i32 = 1;
    #[inline(always)]
    fn join<T: Element>(a: T::Wide, b: T::Wide) -> T::Wide {
        T::product(a, b)
    }
}

struct Running<T, J> {
    outer: usize,
    size: usize,
    inner: usize,
    exclusive: bool,
    reverse: bool,
    kind: PhantomData<(T, J)>,
}

impl<T: Element, J: Join> Running<T, J> {
    fn new(call: &Call<'_>) -> Self {
        let shape = &call.output.shape;
        let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
        Self {
            outer: shape[..axis].iter().product(),
            size: shape[axis],
            inner: shape[axis + 1..].iter().product(),
            exclusive: call.attrs.expect_int("exclusive") != 0,
            reverse: call.attrs.expect_int("reverse") != 0,
            kind: PhantomData,
        }
    }

    /// Runs through some lines, which begin at these offsets.
    ///
    /// # Safety
    /// The lines must be in bounds of both.
    #[inline(always)]
    unsafe fn lines<const L: usize>(&self, x: *const T, y: *mut T, starts: [usize; L]) {
        let mut so_far = [T::whole(J::NEUTRAL); L];
        for step in 0..self.size {
            let at = if self.reverse { self.size - 1 - step } else { step } * self.inner;
            // SAFETY: as the caller promises. All elements of a step are read before one is written.
            unsafe {
                let values: [T; L] = std::array::from_fn(|line| *x.add(starts[line] + at));
                for line in 0..L {
                    let next = J::join::<T>(so_far[line], values[line].widen());
                    *y.add(starts[line] + at) = T::narrow(if self.exclusive { so_far[line] } else { next });
                    so_far[line] = next;
                }
            }
        }
    }

    /// As [`Running::lines`], for lines whose elements are next to each other from `start` on.
    ///
    /// # Safety
    /// As for [`Running::lines`].
    #[inline(always)]
    unsafe fn adjacent(&self, x: *const T, y: *mut T, start: usize) {
        let mut so_far = [T::whole(J::NEUTRAL); LINES];
        for step in 0..self.size {
            let at = start + if self.reverse { self.size - 1 - step } else { step } * self.inner;
            // SAFETY: as the caller promises. All elements of a step are read before one is written.
            unsafe {
                let values = x.add(at).cast::<[T; LINES]>().read_unaligned();
                let mut results = values;
                for line in 0..LINES {
                    let next = J::join::<T>(so_far[line], values[line].widen());
                    results[line] = T::narrow(if self.exclusive { so_far[line] } else { next });
                    so_far[line] = next;
                }
                y.add(at).cast::<[T; LINES]>().write_unaligned(results);
            }
        }
    }

    /// Returns where a line begins.
    fn start(&self, line: usize) -> usize {
        line / self.inner * self.size * self.inner + line % self.inner
    }

    /// Runs through the lines of a range.
    ///
    /// # Safety
    /// The lines must be in bounds of both.
    #[inline(always)]
    unsafe fn range(&self, x: *const T, y: *mut T, lines: std::ops::Range<usize>) {
        let mut line = lines.start;
        while line < lines.end {
            let left = lines.end - line;
            let together = (self.inner - line % self.inner).min(left);
            // SAFETY: as the caller promises.
            unsafe {
                if together >= LINES {
                    self.adjacent(x, y, self.start(line));
                    line += LINES;
                } else if left >= APART {
                    self.lines::<APART>(x, y, std::array::from_fn(|at| self.start(line + at)));
                    line += APART;
                } else {
                    self.lines::<1>(x, y, [self.start(line)]);
                    line += 1;
                }
            }
        }
    }

    /// # Safety
    /// As for [`Running::range`]; the processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn range_avx2(&self, x: *const T, y: *mut T, lines: std::ops::Range<usize>) {
        // SAFETY: as the caller promises.
        unsafe { self.range(x, y, lines) }
    }
}

impl<T: Element, J: Join> Kernel for Running<T, J> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, y) = (Shared::<T>::input(args, 0), Shared::<T>::output(args));
        let lines = self.outer * self.inner;
        let unit = if self.inner >= LINES { LINES } else { APART };
        let parts = tasks(lines * self.size, lines.div_ceil(unit), args.team.threads());
        args.team.run(parts, |index| {
            let lines = part(lines, parts, index, unit);
            // SAFETY: the lines are within both, and only this task has them; the processor has the instruction set.
            unsafe {
                match Isa::running() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 | Isa::Avx512 => self.range_avx2(x.at(0), y.at(0), lines),
                    _ => self.range(x.at(0), y.at(0), lines),
                }
            }
        });
    }
}
