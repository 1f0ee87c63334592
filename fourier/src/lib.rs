//! Discrete Fourier transforms by `rustfft`, in 64 bits.
//!
//! `rustfft` is generic, so its algorithms are compiled in the crate that names the type of the numbers. They are a fifth of
//! what the compiler would otherwise have to do after each change of a native kernel, which is why they have this crate of
//! their own.

use rustfft::{FftDirection, FftPlanner, FftPlannerScalar};
use std::sync::Arc;

pub use rustfft::num_complex::Complex;
pub use rustfft::{Fft, FftNum};

/// The build fingerprint of the crate: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// Returns the transform of `size` numbers, the inverse one without its division by the size. With `portable`, it uses only
/// the instructions that every processor has.
#[must_use]
pub fn plan(size: usize, inverse: bool, portable: bool) -> Arc<dyn Fft<f64>> {
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    if portable {
        FftPlannerScalar::new().plan_fft(size, direction)
    } else {
        FftPlanner::new().plan_fft(size, direction)
    }
}
