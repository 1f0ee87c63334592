//! References to tensors that do not keep their bytes in memory.

use super::{Aligned, Bytes, Keeper, Lent, Tensor, TensorType};
use std::sync::{Arc, Weak};

/// A reference to a tensor. The bytes are freed when the last tensor that shares them is dropped, whatever references
/// are left.
#[derive(Clone)]
pub(crate) struct WeakTensor {
    ty: TensorType,
    bytes: WeakBytes,
}

#[derive(Clone)]
enum WeakBytes {
    Own(Weak<Aligned>),
    Kept(Weak<Keeper>, usize),
    Lent(Weak<Lent>),
}

impl Tensor {
    /// Returns a reference that does not keep the bytes.
    pub(crate) fn downgrade(&self) -> WeakTensor {
        let bytes = match &self.bytes {
            Bytes::Own(bytes) => WeakBytes::Own(Arc::downgrade(bytes)),
            Bytes::Kept(keeper, length) => WeakBytes::Kept(Arc::downgrade(keeper), *length),
            Bytes::Lent(lent) => WeakBytes::Lent(Arc::downgrade(lent)),
        };
        WeakTensor { ty: self.ty.clone(), bytes }
    }
}

impl WeakTensor {
    /// Returns the tensor; `None` if nothing shares its bytes any more.
    pub(crate) fn upgrade(&self) -> Option<Tensor> {
        let bytes = match &self.bytes {
            WeakBytes::Own(bytes) => Bytes::Own(bytes.upgrade()?),
            WeakBytes::Kept(keeper, length) => Bytes::Kept(keeper.upgrade()?, *length),
            WeakBytes::Lent(lent) => Bytes::Lent(lent.upgrade()?),
        };
        Some(Tensor { ty: self.ty.clone(), bytes })
    }
}
