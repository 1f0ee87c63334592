//! Values: element types, shapes, layouts, devices and host tensors.
//!
//! A [`TensorType`] says everything that memory planning and kernels need to know about a
//! value: its element type, its logical shape, how that shape lies in memory, and where.
//! A [`Tensor`] is a type with bytes on the host, aligned to 64 bytes and shared by reference count.

mod data;
mod device;
mod dtype;
mod index;
mod layout;
mod narrow;
mod number;
mod relayout;
mod size;
mod sparse;
pub(crate) mod text;
mod texts;

pub use data::Keeper;
pub use data::{Element, Tensor};
pub(crate) use data::{Given, LARGE_PAGE, Lender, WeakTensor};
pub use device::{Device, Family, NoDevice};
pub use dtype::DType;
pub(crate) use dtype::UnknownDType;
pub use index::advance;
pub use layout::{Layout, NoLayout};
pub use narrow::{Overflow, Rounding};
pub use size::size_error;
pub(crate) use size::type_error;
pub(crate) use text::Text;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Logical dimensions, outermost first. A scalar has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape(SmallVec<[usize; 5]>);

impl Shape {
    /// Makes a shape with these dimensions.
    pub fn new(dims: impl Into<Vec<usize>>) -> Self {
        Self(SmallVec::from_slice(&dims.into()))
    }

    /// Returns the number of logical elements (one for a scalar).
    pub fn count(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Row-major strides in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis];
        }
        strides
    }

    /// Returns the shape that two operands broadcast to under NumPy's rules, if they do.
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let dim = |shape: &Self, axis: usize| {
            let skip = rank - shape.rank();
            if axis < skip { 1 } else { shape[axis - skip] }
        };
        (0..rank)
            .map(|axis| match (dim(self, axis), dim(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<SmallVec<_>>>()
            .map(Self)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Self(SmallVec::from_slice(&dims))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self(SmallVec::from_slice(&dims))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, dim) in self.0.iter().enumerate() {
            if axis > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

/// Everything that memory planning and kernels need to know about a value.
///
/// Text form: `f32[1,64,56,56]`, with `@LAYOUT` where the layout is not the default one and
/// `#DEVICE` where the device is not the host: `f32[1,64,56,56]@nChw16c#gpu:0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The logical shape, in the order of the model.
    pub shape: Shape,
    /// How the elements of the logical shape lie in memory.
    pub layout: Layout,
    /// Where the bytes are.
    pub device: Device,
}

impl TensorType {
    /// Makes the type of a value in the default layout on the host.
    pub fn plain(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into(), layout: Layout::default(), device: Device::Host }
    }

    /// Returns this type with another layout.
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    /// Returns the number of bytes in memory, including padding.
    pub fn bytes(&self) -> usize {
        match self.layout.stored() {
            None => self.layout.padded_count(&self.shape) * self.dtype.size(),
            Some(stored) => sparse::bytes(self, stored),
        }
    }

    /// Returns the bytes of a block of the layout: of one element, if it has no blocks.
    fn block_bytes(&self) -> usize {
        self.layout.blocks().iter().map(|block| block.1).product::<usize>() * self.dtype.size()
    }

    /// Returns the byte at which the elements begin: those of a sparse layout follow the places of the blocks, which are
    /// numbers of 32 bits: for each row of blocks (a position along the layout's outermost dimension) the index of its first
    /// stored block, then the number of stored blocks, then the column (a position along all other dimensions) of each.
    pub fn elements_at(&self) -> usize {
        self.layout.stored().map_or(0, |stored| sparse::elements_at(&self.layout, &self.shape, stored))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)?;
        if !self.layout.is_plain() {
            write!(f, "@{}", self.layout)?;
        }
        if self.device != Device::Host {
            write!(f, "#{}", self.device)?;
        }
        Ok(())
    }
}
