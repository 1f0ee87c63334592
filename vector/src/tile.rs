//! The transpose of a matrix of elements, in tiles of 16 × 16, or 8 × 8 with AVX2.

pub mod bytes;

/// Writes `target[r, c] = source[c, r]` for `rows` × `columns` elements. A column of the result is contiguous in the
/// source; consecutive columns are `source_stride` elements apart there, and rows of the target are `target_stride`
/// elements apart.
///
/// # Safety
/// All these elements must be in bounds, and source and target must not overlap.
pub unsafe fn transpose<T: bytemuck::Pod>(
    source: *const T,
    source_stride: isize,
    target: *mut T,
    target_stride: isize,
    rows: usize,
    columns: usize,
) {
    // Only elements of one byte and of four have tiles in registers.
    let four = size_of::<T>() == 4;
    let isa = if four { super::lanes::Isa::running() } else { super::lanes::Isa::Portable };
    let side = if isa == super::lanes::Isa::Avx2 { 8 } else { 16 };
    for column in (0..columns).step_by(side) {
        for row in (0..rows).step_by(side) {
            let (height, width) = ((rows - row).min(side), (columns - column).min(side));
            // SAFETY: the tile is within the bounds that the caller promises.
            unsafe {
                let from = source.offset(column as isize * source_stride + row as isize);
                let to = target.offset(row as isize * target_stride + column as isize);
                if size_of::<T>() == 1 {
                    bytes::tile(from.cast(), source_stride, to.cast(), target_stride, height, width);
                    continue;
                }
                #[cfg(target_arch = "x86_64")]
                match isa {
                    super::lanes::Isa::Avx512 => {
                        tile_avx512(from.cast(), source_stride, to.cast(), target_stride, height, width);
                        continue;
                    }
                    super::lanes::Isa::Avx2 if (height, width) == (8, 8) => {
                        tile_avx2(from.cast(), source_stride, to.cast(), target_stride);
                        continue;
                    }
                    _ => {}
                }
                for c in 0..width as isize {
                    for r in 0..height as isize {
                        *to.offset(r * target_stride + c) = *from.offset(c * source_stride + r);
                    }
                }
            }
        }
    }
}

/// Transposes a whole tile of 8 × 8 elements of four bytes.
///
/// # Safety
/// As for [`transpose`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn tile_avx2(source: *const f32, source_stride: isize, target: *mut f32, target_stride: isize) {
    use std::arch::x86_64::*;
    let mut a = [_mm256_setzero_ps(); 8];
    for (c, vector) in a.iter_mut().enumerate() {
        // SAFETY: this reads eight rows of this column, as the caller promises.
        *vector = unsafe { _mm256_loadu_ps(source.offset(c as isize * source_stride)) };
    }
    // Interleaves pairs, then quads within each half, then the halves.
    let mut b = [_mm256_setzero_ps(); 8];
    for i in 0..4 {
        b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    let mut quads = [_mm256_setzero_ps(); 8];
    for i in 0..2 {
        let (low, high, low2, high2) = (b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]);
        quads[4 * i] = _mm256_shuffle_ps::<0x44>(low, low2);
        quads[4 * i + 1] = _mm256_shuffle_ps::<0xee>(low, low2);
        quads[4 * i + 2] = _mm256_shuffle_ps::<0x44>(high, high2);
        quads[4 * i + 3] = _mm256_shuffle_ps::<0xee>(high, high2);
    }
    for r in 0..4 {
        let (first, second) = (
            _mm256_permute2f128_ps::<0x20>(quads[r], quads[4 + r]),
            _mm256_permute2f128_ps::<0x31>(quads[r], quads[4 + r]),
        );
        // SAFETY: this writes rows of eight columns, as the caller promises.
        unsafe {
            _mm256_storeu_ps(target.offset(r as isize * target_stride), first);
            _mm256_storeu_ps(target.offset((4 + r as isize) * target_stride), second);
        }
    }
}

/// Transposes a tile of up to 16 × 16 elements of four bytes.
///
/// # Safety
/// As for [`transpose`]; the processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn tile_avx512(
    source: *const i32,
    source_stride: isize,
    target: *mut i32,
    target_stride: isize,
    rows: usize,
    columns: usize,
) {
    use std::arch::x86_64::*;
    let row_mask = ((1_u32 << rows) - 1) as u16;
    let column_mask = ((1_u32 << columns) - 1) as u16;
    let mut a = [_mm512_setzero_si512(); 16];
    for (c, vector) in a.iter_mut().enumerate() {
        if c < columns {
            // SAFETY: lanes past the rows are masked off.
            *vector =
                unsafe { _mm512_maskz_loadu_epi32(row_mask, source.offset(c as isize * source_stride)) };
        }
    }
    // Interleaves pairs, then quads within each 128-bit lane, then the 4 × 4 lanes.
    let mut b = [_mm512_setzero_si512(); 16];
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        let (low, high, low2, high2) = (b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]);
        a[4 * i] = _mm512_unpacklo_epi64(low, low2);
        a[4 * i + 1] = _mm512_unpackhi_epi64(low, low2);
        a[4 * i + 2] = _mm512_unpacklo_epi64(high, high2);
        a[4 * i + 3] = _mm512_unpackhi_epi64(high, high2);
    }
    for j in 0..4 {
        let even = _mm512_shuffle_i32x4::<0x88>(a[j], a[4 + j]);
        let odd = _mm512_shuffle_i32x4::<0xdd>(a[j], a[4 + j]);
        let even2 = _mm512_shuffle_i32x4::<0x88>(a[8 + j], a[12 + j]);
        let odd2 = _mm512_shuffle_i32x4::<0xdd>(a[8 + j], a[12 + j]);
        b[j] = _mm512_shuffle_i32x4::<0x88>(even, even2);
        b[4 + j] = _mm512_shuffle_i32x4::<0x88>(odd, odd2);
        b[8 + j] = _mm512_shuffle_i32x4::<0xdd>(even, even2);
        b[12 + j] = _mm512_shuffle_i32x4::<0xdd>(odd, odd2);
    }
    for (r, vector) in b.iter().enumerate() {
        if r < rows {
            // SAFETY: lanes past the columns are masked off.
            unsafe {
                _mm512_mask_storeu_epi32(target.offset(r as isize * target_stride), column_mask, *vector)
            };
        }
    }
}
