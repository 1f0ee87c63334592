//! Tensors of numbers: memory of the caller, or memory that a caller may read and write.

use crate::dtype::{element, visible};
use crate::status::Failure;
use crate::type_info::TensorInfo;
use ovolo::DType;
use ovolo::tensor::{Layout, Shape, Tensor, TensorType};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Smaller tensors are copied when a model reads them: to share one costs more.
const SHARED: usize = 1 << 12;

/// A tensor at a place that does not change as long as it lives.
pub struct Numbers {
    ty: TensorType,
    dims: Vec<i64>,
    start: *mut u8,
    length: usize,
    /// Owns the bytes; without it, the caller does.
    _owner: Option<Tensor>,
}

// SAFETY: the bytes are the caller's or the owner's, stay where they are, and any thread may drop the owner.
unsafe impl Send for Numbers {}
// SAFETY: ovolo writes to a value only where the C API says that it does, and the caller shares no such value then.
unsafe impl Sync for Numbers {}
// The bytes are plain data, which no panic leaves half done.
impl UnwindSafe for Numbers {}
impl RefUnwindSafe for Numbers {}

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: there are as many bytes at this place while the value lives. As with ONNX Runtime, nothing may write to
        // them while a run reads them.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// Returns a shape of sizes that a caller gives.
pub fn shape(dims: &[i64]) -> Result<Shape, Failure> {
    let sizes = dims.iter().map(|size| usize::try_from(*size)).collect::<Result<Vec<usize>, _>>();
    let sizes = sizes
        .map_err(|_| Failure::invalid(format!("a tensor has no negative sizes, and {dims:?} was given")))?;
    // The largest element has 16 bytes.
    let count = sizes.iter().try_fold(16_usize, |count, size| count.checked_mul(*size));
    count.ok_or_else(|| {
        Failure::invalid(format!("a tensor of the shape {dims:?} is larger than any memory"))
    })?;
    Ok(Shape::from(sizes))
}

/// Returns a shape as the C API has it.
pub fn dims(shape: &Shape) -> Vec<i64> {
    shape.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect()
}

impl Numbers {
    /// Makes a tensor of zeros.
    pub fn zeros(ty: TensorType) -> Result<Self, Failure> {
        let bytes = ty.bytes();
        let tensor = Tensor::try_zeros(ty).ok_or_else(|| {
            Failure::other(format!("the system cannot allocate {bytes} bytes for a tensor"))
        })?;
        Ok(Self::own(tensor))
    }

    /// Makes a value of a tensor that a run has computed. What something else has too is copied, and so is what the model
    /// gives back as it was given, since a caller may write to it.
    pub fn computed(tensor: Tensor) -> Result<Self, Failure> {
        visible(tensor.ty().dtype)?;
        let plain = if tensor.ty().layout.is_plain() { tensor } else { tensor.to_layout(&Layout::PLAIN) };
        Ok(Self::own(plain))
    }

    /// Takes over the only tensor that has its bytes, or else copies them.
    pub fn own(mut tensor: Tensor) -> Self {
        let bytes = tensor.bytes_mut();
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        Self { ty: tensor.ty().clone(), dims: dims(&tensor.ty().shape), start, length, _owner: Some(tensor) }
    }

    /// Makes a tensor of the caller's memory.
    ///
    /// # Safety
    /// `length` bytes are at `start` as long as the tensor lives.
    pub unsafe fn lent(ty: TensorType, start: *mut u8, length: usize) -> Result<Self, Failure> {
        let wanted = ty.bytes();
        if length < wanted {
            return Err(Failure::invalid(format!(
                "{ty} has {wanted} bytes, and memory of {length} bytes was given"
            )));
        }
        if start.is_null() && wanted > 0 {
            return Err(Failure::invalid(format!("the memory for {ty} is a null pointer")));
        }
        Ok(Self { dims: dims(&ty.shape), ty, start, length: wanted, _owner: None })
    }

    /// Returns the type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Returns the sizes of the dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Returns the place of the first element.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Describes the tensor.
    pub fn info(&self) -> TensorInfo {
        TensorInfo::new(element(self.ty.dtype), self.dims.clone())
    }

    /// Returns a tensor for a model to read. It is read where it lies if it begins at a multiple of 64 and has 4 KiB or
    /// more.
    pub fn operand(self: &Arc<Self>) -> Tensor {
        if self.length >= SHARED {
            let keeper: Arc<ovolo::tensor::Keeper> = Arc::clone(self) as _;
            if let Some(tensor) = Tensor::kept(self.ty.clone(), keeper) {
                return tensor;
            }
        }
        self.copied()
    }

    /// Returns a copy.
    pub fn copied(&self) -> Tensor {
        let mut tensor = Tensor::zeros(self.ty.clone());
        tensor.bytes_mut().copy_from_slice(self.as_ref());
        tensor
    }

    /// Copies the elements of another tensor of this type into the memory of this one.
    pub fn receive(&self, other: &Self) -> Result<(), Failure> {
        if self.ty != other.ty {
            return Err(Failure::invalid(format!("it is {}, and the value for it is {}", other.ty, self.ty)));
        }
        // SAFETY: both have as many bytes. They may be the same place, if a model gives back what it was given.
        unsafe { std::ptr::copy(other.start, self.start, self.length) };
        Ok(())
    }

    /// Returns a part of the rows of a matrix as a tensor with one dimension.
    pub fn row(rows: &Tensor, width: usize, row: usize) -> Self {
        let dtype: DType = rows.ty().dtype;
        let bytes = width * dtype.size();
        let mut tensor = Tensor::zeros(TensorType::plain(dtype, [width]));
        tensor.bytes_mut().copy_from_slice(&rows.bytes()[row * bytes..(row + 1) * bytes]);
        Self::own(tensor)
    }
}
