//! The bytes of values in sparse layouts: those of the blocks that hold anything but zeros, in the manner of compressed
//! sparse rows.
//!
//! A *row* is a position along the layout's outermost dimension, and a *column* one along all the others together. First
//! come numbers of 32 bits: for each row, which of the stored blocks is its first one, and at the end their number; then
//! the column of each stored block. From the next multiple of [`LINE`] bytes on, the elements of the blocks follow, in the
//! order of their rows and columns.

use super::{DType, Layout, Shape, TensorType};

/// The alignment of the elements, in bytes.
const LINE: usize = 64;

/// Returns the byte at which the elements of the stored blocks begin.
pub(super) fn elements_at(layout: &Layout, shape: &Shape, stored: usize) -> usize {
    ((rows(layout, shape) + 1 + stored) * size_of::<u32>()).next_multiple_of(LINE)
}

/// Returns the bytes of a value of this type, of which some blocks are stored.
pub(super) fn bytes(ty: &TensorType, stored: usize) -> usize {
    elements_at(&ty.layout, &ty.shape, stored) + ty.layout.padded_count(&ty.shape) * ty.dtype.size()
}

/// Returns the number of rows of blocks.
fn rows(layout: &Layout, shape: &Shape) -> usize {
    layout.order(shape.rank()).first().map_or(1, |dim| shape[*dim].div_ceil(layout.block(*dim)))
}

/// Returns the number of blocks of a shape, with those of zeros.
pub(super) fn blocks(layout: &Layout, shape: &Shape) -> usize {
    shape.iter().enumerate().map(|(dim, size)| size.div_ceil(layout.block(dim))).product()
}

/// Returns the number of blocks that hold anything but zeros, in the bytes of a dense layout with blocks of so many bytes.
/// `None` as soon as there are more than `most`.
pub(super) fn count(dense: &[u8], block: usize, dtype: DType, most: usize) -> Option<usize> {
    let mut count = 0;
    for block in dense.chunks_exact(block) {
        if !is_zero(block, dtype) {
            count += 1;
            if count > most {
                return None;
            }
        }
    }
    Some(count)
}

/// Returns whether all elements are zero. The sign of a zero is not kept: weights that were multiplied by a mask have
/// zeros of both signs.
pub(super) fn is_zero(elements: &[u8], dtype: DType) -> bool {
    let signed = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let mut bits = [0; size_of::<u64>()];
    for element in elements.chunks_exact(dtype.size()) {
        bits.iter_mut().zip(element).for_each(|(bits, byte)| *bits |= byte);
    }
    // The sign is the highest bit of the last byte in memory, which is the first one on machines of the other order.
    let sign = if cfg!(target_endian = "little") { dtype.size() - 1 } else { 0 };
    bits[sign] &= if signed { 0x7f } else { 0xff };
    bits == [0; size_of::<u64>()]
}

/// Writes the blocks of a dense layout that hold anything to the bytes of the sparse layout `layout` with the same blocks,
/// which are zero. A block has so many bytes of this type. If there are more than are stored, the last ones are left out.
pub(super) fn compress(
    dense: &[u8],
    to: &mut [u8],
    layout: &Layout,
    shape: &Shape,
    (block, dtype): (usize, DType),
) {
    let blocks = dense.chunks_exact(block).enumerate().filter(|(_, block)| !is_zero(block, dtype));
    let blocks = blocks.map(|(number, from)| (number, |to: &mut [u8]| to.copy_from_slice(from)));
    store(blocks, to, layout, shape, block);
}

/// Writes blocks of so many bytes to the bytes of a sparse layout, which are zero. Each has its number among the blocks of
/// the dense layout, in ascending order, and a function that writes its elements. If there are more than are stored, the
/// last ones are left out.
pub(super) fn store<W: FnOnce(&mut [u8])>(
    blocks: impl Iterator<Item = (usize, W)>,
    to: &mut [u8],
    layout: &Layout,
    shape: &Shape,
    block: usize,
) {
    let stored = layout.stored().unwrap_or(0);
    let (rows, elements) = (rows(layout, shape), elements_at(layout, shape, stored));
    let columns = self::blocks(layout, shape).checked_div(rows).unwrap_or(0);
    let write = |to: &mut [u8], place: usize, number: usize| {
        let number = u32::try_from(number).expect("types with more blocks or columns are refused");
        to[place * size_of::<u32>()..][..size_of::<u32>()].copy_from_slice(&number.to_ne_bytes());
    };
    // The rows whose first block is known, and the blocks that are written.
    let (mut begun, mut next) = (0, 0_usize);
    for (number, elements_of) in blocks.take(stored) {
        let row = number / columns;
        while begun <= row {
            write(to, begun, next);
            begun += 1;
        }
        write(to, rows + 1 + next, number % columns);
        elements_of(&mut to[elements + next * block..][..block]);
        next += 1;
    }
    for row in begun..=rows {
        write(to, row, next);
    }
}

/// Writes the blocks of a sparse layout to their places in the bytes of the dense layout with the same blocks, which are
/// zero. Bytes that say of a block that it is at no place of the layout are those of no value; such blocks are left out.
pub(super) fn expand(
    from: &[u8],
    dense: &mut [u8],
    layout: &Layout,
    shape: &Shape,
    stored: usize,
    block: usize,
) {
    let (rows, elements) = (rows(layout, shape), elements_at(layout, shape, stored));
    let columns = blocks(layout, shape).checked_div(rows).unwrap_or(0);
    let number = |place: usize| {
        let bytes = from[place * size_of::<u32>()..].first_chunk().expect("a number has four bytes");
        u32::from_ne_bytes(*bytes) as usize
    };
    for row in 0..rows {
        for at in number(row).min(stored)..number(row + 1).min(stored) {
            let column = number(rows + 1 + at);
            if column < columns {
                let to = (row * columns + column) * block;
                dense[to..][..block].copy_from_slice(&from[elements + at * block..][..block]);
            }
        }
    }
}
