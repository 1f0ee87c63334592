//! Types that no value has: those whose layout does not fit, and those that are larger than any memory.

use super::TensorType;

/// What is wrong with a type by itself.
pub(crate) fn type_error(ty: &TensorType) -> Option<String> {
    match ty.layout.rank().filter(|&rank| rank != ty.shape.rank()) {
        Some(rank) => Some(format!("layout `{}` is for {rank} dimensions, the type is {ty}", ty.layout)),
        None => size_error(ty),
    }
}

/// Bytes that no value has; keeps sizes, padding included, far from overflow.
const LARGEST_VALUE: usize = 1 << 40;

/// That a value is larger than any memory, if it is. Nothing may compute the bytes of such a type.
pub fn size_error(ty: &TensorType) -> Option<String> {
    let bytes = ty.shape.iter().enumerate().try_fold(ty.dtype.size(), |bytes, (dim, &size)| {
        bytes.checked_mul(size.max(1).checked_next_multiple_of(ty.layout.block(dim))?)
    });
    let fits = bytes.is_some_and(|bytes| bytes <= LARGEST_VALUE);
    (!fits).then(|| format!("a value of type {ty} is larger than any memory"))
}
