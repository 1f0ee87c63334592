//! `dft`: the discrete Fourier transform by `rustfft`, in 64 bits.
//!
//! Elements that are zero but for rounding are sums of others that cancel, so sums in 32 bits would leave noise of the size
//! of these times 1e-7.
//!
//! `rustfft` has algorithms for lengths with any factors, large primes included, so a line of n numbers takes about
//! n log n operations. Lines are divided between threads.

use super::args::{Shared, part, tasks};
use super::lanes::Isa;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;
use ovolo_fourier::{Complex, Fft, FftNum};
use std::marker::PhantomData;
use std::sync::Arc;

/// The op of this family.
pub(super) const OPS: &[Lowering] = &[Lowering::new("native.dft", "dft", contract, kernel)];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let of_thread = match call.output.dtype {
        DType::F32 => Transform::<f32>::new(call).of_thread(),
        DType::F64 => Transform::<f64>::new(call).of_thread(),
        _ => return reference::contract(call),
    };
    Ok(Contract { scratch: call.threads * of_thread, ..plain_contract("fast") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F32 => Box::new(Transform::<f32>::new(call)),
        DType::F64 => Box::new(Transform::<f64>::new(call)),
        _ => return reference::kernel(call),
    })
}

/// A transform of complex numbers whose parts have the type `T`.
struct Transform<T> {
    fft: Arc<dyn Fft<f64>>,
    outer: usize,
    size: usize,
    inner: usize,
    /// What a result is multiplied by.
    scale: f64,
    element: PhantomData<T>,
}

impl<T: FftNum + Into<f64>> Transform<T> {
    #[allow(clippy::cast_precision_loss)]
    fn new(call: &Call<'_>) -> Self {
        let shape = &call.output.shape;
        let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
        let inverse = call.attrs.expect_int("inverse") != 0;
        let size = shape[axis];
        Self {
            fft: ovolo_fourier::plan(size.max(1), inverse, Isa::running() == Isa::Portable),
            outer: shape[..axis].iter().product(),
            size,
            inner: shape[axis + 1..shape.rank() - 1].iter().product(),
            scale: if inverse { 1.0 / size as f64 } else { 1.0 },
            element: PhantomData,
        }
    }

    /// Returns the bytes of a line, and of what its transform needs.
    fn of_thread(&self) -> usize {
        let numbers = self.size + self.fft.get_inplace_scratch_len();
        (numbers * size_of::<Complex<f64>>()).next_multiple_of(ALIGN)
    }
}

impl<T: FftNum + Into<f64>> Kernel for Transform<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, y) = (Shared::<Complex<T>>::input(args, 0), Shared::<Complex<T>>::output(args));
        let scratch = Shared::<u8>::scratch(args);
        let lines = self.outer * self.inner;
        if lines * self.size == 0 {
            return;
        }
        let parts = tasks(lines * self.size * 8, lines, args.team.threads());
        args.team.share(args.team.threads(), parts, |thread, index| {
            let own = scratch.at(thread * self.of_thread()).cast::<Complex<f64>>();
            // SAFETY: each thread has scratch memory of its own, of this size. Every bit pattern is a float.
            let (line, rest) = unsafe {
                let rest = own.add(self.size);
                (
                    std::slice::from_raw_parts_mut(own, self.size),
                    std::slice::from_raw_parts_mut(rest, self.fft.get_inplace_scratch_len()),
                )
            };
            for at in part(lines, parts, index, 1) {
                let start = at / self.inner * self.size * self.inner + at % self.inner;
                // SAFETY: the line is within the operand and the result, and only this task has it.
                unsafe {
                    for (k, number) in line.iter_mut().enumerate() {
                        let Complex { re, im } = *x.at(start + k * self.inner);
                        *number = Complex::new(re.into(), im.into());
                    }
                    self.fft.process_with_scratch(line, rest);
                    for (k, number) in line.iter().enumerate() {
                        let part = |part: f64| T::from_f64(part * self.scale).unwrap_or_else(T::zero);
                        *y.at(start + k * self.inner) = Complex::new(part(number.re), part(number.im));
                    }
                }
            }
        });
    }
}
