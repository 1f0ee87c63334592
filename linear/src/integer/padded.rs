//! Copies of images with their padding, for convolutions that cannot read the images themselves.

use super::geometry::Geometry;
use super::prepared::width;

/// How images are copied.
pub(super) struct Padded<'a> {
    pub from: &'a Geometry,
    pub to: &'a Geometry,
    /// Whether the channels of a pixel are apart in the images.
    pub apart: bool,
}

/// Returns the sizes for images that were copied with their padding, and with pixels of a multiple of four channels.
pub(super) fn copied(one: &Geometry) -> Geometry {
    let image = [0, 1].map(|axis| {
        (one.pixels[axis] - 1) * one.strides[axis] + (one.window[axis] - 1) * one.dilations[axis] + 1
    });
    Geometry { image, channels: width(one), begin: [0, 0], ..*one }
}

impl Padded<'_> {
    /// Copies a row of an image, as bytes without a sign. The zero point stands around the image, and zeros follow the
    /// channels of each pixel. The channels of the images may be adjacent or apart.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    pub(super) unsafe fn copy_row(
        &self,
        images: *const u8,
        row: usize,
        (flip, point): (u8, u8),
        copy: *mut u8,
    ) {
        let (from, to) = (self.from, self.to);
        let [rows, columns] = to.image;
        let (image, y) = (row / rows, (row % rows).checked_sub(from.begin[0]).filter(|y| *y < from.image[0]));
        // SAFETY: as the caller promises.
        unsafe {
            let line = columns * to.channels;
            let line = std::slice::from_raw_parts_mut(copy.add(row * line), line);
            if !self.apart && from.channels == to.channels {
                let row = y.map(|y| images.add((image * from.image[0] + y) * from.image[1] * from.channels));
                return self.copy_pixels(row, (flip, point), line);
            }
            line.fill(0);
            let Some(y) = y else {
                let pixels = line.chunks_exact_mut(to.channels);
                pixels.for_each(|pixel| pixel[..from.channels].iter_mut().for_each(|to| *to = point));
                return;
            };
            let (place, area) = (y * from.image[1], from.image[0] * from.image[1]);
            if self.apart && to.channels == 4 {
                let (pixels, _) = line.as_chunks_mut::<4>();
                let count = from.image[1].min(pixels.len().saturating_sub(from.begin[1]));
                let channels: Vec<&[u8]> = (0..from.channels)
                    .map(|channel| images.add((image * from.channels + channel) * area + place))
                    .map(|first| std::slice::from_raw_parts(first, count))
                    .collect();
                let mut outside = [0; 4];
                outside[..from.channels].fill(point);
                pixels.fill(outside);
                if count > 0 {
                    quads(&channels, flip, &mut pixels[from.begin[1]..][..count]);
                }
                return;
            }
            let pixels = line.chunks_exact_mut(to.channels);
            let (first, pixel_step, channel_step) = match self.apart {
                true => (image * from.channels * area + place, 1, area),
                false => ((image * area + place) * from.channels, from.channels, 1),
            };
            for (column, pixel) in pixels.enumerate() {
                let x = column.checked_sub(from.begin[1]).filter(|x| *x < from.image[1]);
                for (channel, to) in pixel[..from.channels].iter_mut().enumerate() {
                    *to = match x {
                        Some(x) => *images.add(first + x * pixel_step + channel * channel_step) ^ flip,
                        None => point,
                    };
                }
            }
        }
    }

    /// Copies a row of pixels with all their channels, or the zero point if there is none.
    ///
    /// # Safety
    /// The row must be one of the images.
    unsafe fn copy_pixels(&self, row: Option<*const u8>, (flip, point): (u8, u8), line: &mut [u8]) {
        let from = self.from;
        let Some(row) = row else { return line.fill(point) };
        let first = (from.begin[1] * from.channels).min(line.len());
        let count = (from.image[1] * from.channels).min(line.len() - first);
        let (before, rest) = line.split_at_mut(first);
        let (pixels, after) = rest.split_at_mut(count);
        before.fill(point);
        after.fill(point);
        // SAFETY: the row has as many elements.
        unsafe { std::ptr::copy_nonoverlapping(row, pixels.as_mut_ptr(), count) };
        if flip != 0 {
            pixels.iter_mut().for_each(|byte| *byte ^= flip);
        }
    }
}

/// Writes the pixels of up to four channels that lie apart, with zeros for channels that there are not. It is written so that
/// the compiler uses vectors.
fn quads(channels: &[&[u8]], flip: u8, to: &mut [[u8; 4]]) {
    const CHUNK: usize = 64;
    for (at, to) in to.chunks_mut(CHUNK).enumerate() {
        let zeros = [0; CHUNK];
        let of = |channel: usize| match channels.get(channel) {
            Some(row) => (&row[at * CHUNK..][..to.len()], u32::from(flip)),
            None => (&zeros[..to.len()], 0),
        };
        let [(a, p), (b, q), (c, r), (d, s)] = [of(0), of(1), of(2), of(3)];
        for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let [a, b, c, d] = [a, b, c, d].map(|byte| u32::from(*byte));
            *to = ((a ^ p) | (b ^ q) << 8 | (c ^ r) << 16 | (d ^ s) << 24).to_le_bytes();
        }
    }
}
