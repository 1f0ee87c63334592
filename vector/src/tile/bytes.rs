//! Tiles of bytes, which are transposed in registers.

/// The rows and the columns of a tile.
pub const SIDE: usize = 16;

/// Transposes a tile of up to 16 x 16 bytes; see [`transpose`](super::transpose).
///
/// # Safety
/// All elements must be in bounds.
pub unsafe fn tile(
    source: *const u8,
    source_stride: isize,
    target: *mut u8,
    target_stride: isize,
    rows: usize,
    columns: usize,
) {
    let mut block = [[0; SIDE]; SIDE];
    // SAFETY: as the caller promises.
    unsafe {
        for (column, bytes) in block[..columns].iter_mut().enumerate() {
            read_first(source.offset(column as isize * source_stride), bytes, rows);
        }
        for (row, bytes) in transposed(&block)[..rows].iter().enumerate() {
            let to = target.offset(row as isize * target_stride);
            if columns == SIDE {
                to.cast::<[u8; SIDE]>().write(*bytes);
            } else {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, columns);
            }
        }
    }
}

/// Reads the first bytes of a row. Some are read twice rather than one by one.
///
/// # Safety
/// The bytes must be in bounds.
#[inline(always)]
pub unsafe fn read_first(from: *const u8, row: &mut [u8; SIDE], count: usize) {
    let to = row.as_mut_ptr();
    // SAFETY: as the caller promises; the pieces are within the bytes that are read.
    unsafe {
        match count {
            SIDE => *row = from.cast::<[u8; SIDE]>().read(),
            8.. => {
                to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read());
                to.add(count - 8).cast::<[u8; 8]>().write(from.add(count - 8).cast::<[u8; 8]>().read());
            }
            4.. => {
                to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read());
                to.add(count - 4).cast::<[u8; 4]>().write(from.add(count - 4).cast::<[u8; 4]>().read());
            }
            _ => (0..count).for_each(|at| to.add(at).write(*from.add(at))),
        }
    }
}

/// Returns a block with rows for columns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn transposed(block: &[[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };
    // SAFETY: every x86-64 processor has SSE2, and rows are vectors.
    unsafe {
        let mut rows = block.each_ref().map(|row| _mm_loadu_si128(row.as_ptr().cast::<__m128i>()));
        // Each round moves the highest bit of a row's number to the lowest bit of the column's, and the highest bit of
        // the column's number to the lowest bit of the row's. After four rounds the two numbers have changed places.
        for _ in 0..4 {
            let before = rows;
            for at in 0..SIDE / 2 {
                rows[2 * at] = _mm_unpacklo_epi8(before[at], before[at + SIDE / 2]);
                rows[2 * at + 1] = _mm_unpackhi_epi8(before[at], before[at + SIDE / 2]);
            }
        }
        rows.map(|row| {
            let mut bytes = [0; SIDE];
            _mm_storeu_si128(bytes.as_mut_ptr().cast::<__m128i>(), row);
            bytes
        })
    }
}

/// Returns a block with rows for columns.
#[cfg(not(target_arch = "x86_64"))]
pub fn transposed(block: &[[u8; SIDE]; SIDE]) -> [[u8; SIDE]; SIDE] {
    std::array::from_fn(|column| std::array::from_fn(|row| block[row][column]))
}
