//! Copies images of bytes so that the channels of a pixel are adjacent, as rows of a product want them.

/// The channels and the pixels that are copied at once.
pub(super) const BLOCK: usize = 16;

/// Some adjacent pixels of one row of an image whose channels lie apart.
pub(super) struct Pixels {
    /// The first pixel of the first channel.
    pub from: *const u8,
    /// The distance between channels, in elements.
    pub plane: usize,
    pub channels: usize,
    pub count: usize,
    /// The distance between pixels that are copied, in elements.
    pub step: usize,
    /// What is combined with each byte by exclusive or: 128 takes the sign from signed bytes by adding 128.
    pub flip: u8,
}

impl Pixels {
    /// Writes the pixels one after another, each with `width` elements: its channels, and zeros.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn write(&self, to: *mut u8, width: usize) {
        for channel in (0..self.channels).step_by(BLOCK) {
            let channels = BLOCK.min(self.channels - channel);
            let padded = if channel + BLOCK < self.channels { BLOCK } else { width - channel };
            for pixel in (0..self.count).step_by(BLOCK) {
                let pixels = BLOCK.min(self.count - pixel);
                let mut block = [[0; BLOCK]; BLOCK];
                // SAFETY: as the caller promises.
                unsafe {
                    let from = self.from.add(channel * self.plane + pixel * self.step);
                    self.read(from, channels, pixels, &mut block);
                    let block = transposed(&block);
                    for (at, of_pixel) in block[..pixels].iter().enumerate() {
                        let to = to.add((pixel + at) * width + channel);
                        if padded == BLOCK {
                            to.cast::<[u8; BLOCK]>().write(*of_pixel);
                        } else {
                            std::ptr::copy_nonoverlapping(of_pixel.as_ptr(), to, padded);
                        }
                    }
                }
            }
        }
    }

    /// Reads a block: a row for each channel, with zeros for channels and pixels that there are not.
    #[inline(always)]
    unsafe fn read(&self, from: *const u8, channels: usize, pixels: usize, block: &mut [[u8; BLOCK]; BLOCK]) {
        for (channel, row) in block[..channels].iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            unsafe {
                let from = from.add(channel * self.plane);
                if self.step == 1 {
                    read_first(from, row, pixels);
                } else {
                    for (at, byte) in row[..pixels].iter_mut().enumerate() {
                        *byte = *from.add(at * self.step);
                    }
                }
            }
            row.iter_mut().for_each(|byte| *byte ^= self.flip);
        }
    }
}

/// Reads the first bytes of a row. Some are read twice rather than one by one.
#[inline(always)]
unsafe fn read_first(from: *const u8, row: &mut [u8; BLOCK], count: usize) {
    let to = row.as_mut_ptr();
    // SAFETY: as the caller promises; the pieces are within the bytes that are read.
    unsafe {
        match count {
            BLOCK => *row = from.cast::<[u8; BLOCK]>().read(),
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
fn transposed(block: &[[u8; BLOCK]; BLOCK]) -> [[u8; BLOCK]; BLOCK] {
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
            for at in 0..BLOCK / 2 {
                rows[2 * at] = _mm_unpacklo_epi8(before[at], before[at + BLOCK / 2]);
                rows[2 * at + 1] = _mm_unpackhi_epi8(before[at], before[at + BLOCK / 2]);
            }
        }
        rows.map(|row| {
            let mut bytes = [0; BLOCK];
            _mm_storeu_si128(bytes.as_mut_ptr().cast::<__m128i>(), row);
            bytes
        })
    }
}

/// Returns a block with rows for columns.
#[cfg(not(target_arch = "x86_64"))]
fn transposed(block: &[[u8; BLOCK]; BLOCK]) -> [[u8; BLOCK]; BLOCK] {
    std::array::from_fn(|column| std::array::from_fn(|row| block[row][column]))
}
