//! `grid-sample` and `roi-align`: kernels that read images between their pixels.
//!
//! Places are computed in double precision as in the definitions, so that a point on the border between
//! two pixels belongs to the same one. Channels share the places.

mod grid;
mod region;

use super::args::Shared;
use super::scalar::Scalar;
use ovolo::op::Lowering;
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[grid::OP, region::OP];

/// A float of an image.
trait Float: Scalar + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> {
    const ZERO: Self;
    const NAN: Self;
    /// The larger number; the other one if one is NaN.
    fn larger(self, other: Self) -> Self;
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const NAN: Self = Self::NAN;
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const NAN: Self = Self::NAN;
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Returns whether there is code for images, or for coordinates, of this type.
fn takes(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// An operand of coordinates.
#[derive(Clone, Copy)]
struct Coordinates {
    from: Shared<u8>,
    wide: bool,
}

impl Coordinates {
    fn new(from: Shared<u8>, dtype: DType) -> Self {
        Self { from, wide: dtype == DType::F64 }
    }

    /// # Safety
    /// The operand must have this element.
    unsafe fn get(self, at: usize) -> f64 {
        // SAFETY: as the caller promises.
        unsafe {
            if self.wide {
                *self.from.at(at * 8).cast::<f64>()
            } else {
                f64::from(*self.from.at(at * 4).cast::<f32>())
            }
        }
    }
}
