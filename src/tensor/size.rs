//! Refuses types that no value can have: those whose layout does not fit their shape, and those that are larger
//! than any memory.

use super::TensorType;

/// Returns what is wrong with a type by itself; `None` if it is valid.
pub(crate) fn type_error(ty: &TensorType) -> Option<String> {
    match ty.layout.rank().filter(|&rank| rank != ty.shape.rank()) {
        Some(rank) => Some(format!("layout `{}` is for {rank} dimensions, the type is {ty}", ty.layout)),
        None => size_error(ty).or_else(|| stored_error(ty)),
    }
}

/// Returns an error text if a sparse layout stores more blocks than the shape has, or more than numbers of 32 bits count.
fn stored_error(ty: &TensorType) -> Option<String> {
    let (stored, blocks) = (ty.layout.stored()?, super::sparse::blocks(&ty.layout, &ty.shape));
    if stored > blocks {
        return Some(format!("layout `{}` stores {stored} blocks, and {ty} has {blocks}", ty.layout));
    }
    u32::try_from(blocks).err().map(|_| format!("{ty} has too many blocks for a sparse layout: {blocks}"))
}

/// The limit on the bytes of a value. It keeps sizes, including padding, from overflowing.
const LARGEST_VALUE: usize = 1 << 40;

/// Returns an error text if a value of this type is larger than any memory. The bytes of such a type must not be
/// computed, since that may overflow.
pub fn size_error(ty: &TensorType) -> Option<String> {
    let bytes = ty.shape.iter().enumerate().try_fold(ty.dtype.size(), |bytes, (dim, &size)| {
        bytes.checked_mul(size.max(1).checked_next_multiple_of(ty.layout.block(dim))?)
    });
    let fits = bytes.is_some_and(|bytes| bytes <= LARGEST_VALUE);
    (!fits).then(|| format!("a value of type {ty} is larger than any memory"))
}
