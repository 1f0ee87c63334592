//! Copies images of bytes so that the channels of a pixel are adjacent, as rows of a product want them.

pub(super) use crate::tile::bytes::SIDE as BLOCK;
use crate::tile::bytes::{read_first, transposed};

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
