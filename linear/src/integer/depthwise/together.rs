//! Convolutions by columns of windows: which rows of the result are computed together, what they read, and the tasks.

use crate::integer::affine::Sums;
use crate::integer::geometry::Geometry;

/// The most pixels whose columns are prepared before they are multiplied.
pub(super) const SEGMENT: usize = 16;
/// The most rows of the result that are computed together.
const ROWS: usize = 2;

/// What is known of a run.
pub(super) struct Run<'a> {
    pub images: *const u8,
    /// A pixel outside of the images.
    pub outside: *const u8,
    /// The weights, as the kernel prepared them.
    pub prepared: *const u8,
    /// How sums become bytes, and where those of the first pixel go.
    pub sums: &'a Sums,
}

// SAFETY: the pointers are only addresses; each access to the memory has its own justification.
unsafe impl Sync for Run<'_> {}

/// Rows of the result that are computed together.
#[derive(Clone, Copy)]
pub(super) struct Together {
    pub geometry: Geometry,
    /// How many they are.
    pub rows: usize,
    /// The bits that take the sign from bytes of the images.
    pub flip: u8,
}

/// The place of such rows.
pub(super) struct Place {
    /// The first row in its image.
    y: usize,
    /// The first row among those of all images.
    pub row: usize,
    /// How many rows there are.
    pub rows: usize,
    image: *const u8,
}

impl Together {
    /// Windows at a stride of one read the same rows of the image for adjacent rows of the result, unless they are higher
    /// than `highest`.
    pub(super) fn new(geometry: &Geometry, signed: bool, highest: usize) -> Self {
        let adjacent = [geometry.strides[0], geometry.dilations[0]] == [1, 1];
        let several = adjacent && geometry.window[0] <= highest && geometry.pixels[0] > 1;
        let (rows, flip) = (if several { ROWS } else { 1 }, if signed { 128 } else { 0 });
        Self { geometry: *geometry, rows, flip }
    }

    /// Returns the rows of the images that the windows meet.
    pub(super) fn met(&self) -> usize {
        self.geometry.window[0] + self.rows - 1
    }

    /// Returns the columns of the images that a segment of as many pixels meets.
    pub(super) fn columns(&self, pixels: usize) -> usize {
        let one = &self.geometry;
        (pixels - 1) * one.strides[1] + (one.window[1] - 1) * one.dilations[1] + 1
    }

    /// Returns the number of tasks: for so many rows together, and parts of the blocks of channels if `wanted` are more than
    /// that.
    pub(super) fn tasks(&self, wanted: usize, blocks: usize) -> [usize; 2] {
        let rows = self.geometry.images * self.of_image();
        [rows, wanted.div_ceil(rows).clamp(1, blocks)]
    }

    /// Returns how many times rows of an image's result are computed together.
    fn of_image(&self) -> usize {
        self.geometry.pixels[0].div_ceil(self.rows)
    }

    /// Returns the place of the rows of this number.
    pub(super) fn place(&self, run: &Run<'_>, number: usize) -> Place {
        let one = &self.geometry;
        let (image, y) = (number / self.of_image(), number % self.of_image() * self.rows);
        Place {
            y,
            row: image * one.pixels[0] + y,
            rows: self.rows.min(one.pixels[0] - y),
            image: run.images.wrapping_add(image * one.image[0] * one.image[1] * one.channels),
        }
    }

    /// Returns where the rows of the images begin that the windows meet, `None` for those outside. As many are returned as
    /// the kernel has steps; the weights of rows that the windows do not have are zero.
    pub(super) fn inside(&self, place: &Place, steps: usize) -> Vec<Option<*const u8>> {
        let one = &self.geometry;
        (0..steps)
            .map(|step| {
                let step = step.min(self.met() - 1);
                let row = (place.y * one.strides[0] + step * one.dilations[0]).checked_sub(one.begin[0])?;
                (row < one.image[0]).then(|| place.image.wrapping_add(row * one.image[1] * one.channels))
            })
            .collect()
    }
}
