//! The places of an image at which the cells of a region are read, as the definition of `roi-align` has them.

use ovolo::attr::Attrs;

/// The most samples along an axis of a cell.
const MOST_SAMPLES: f64 = 4096.0;

/// How `roi-align` divides regions into cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    scale: f64,
    half: bool,
    /// 0: as many samples as a cell has pixels.
    samples: usize,
    /// Rows and columns of cells.
    cells: [usize; 2],
}

/// A region of an image. Of all pairs, the first one is along rows, the second one along columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    corner: [f64; 2],
    cell: [f64; 2],
    /// The samples of a cell.
    pub(super) samples: [usize; 2],
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl Regions {
    /// Makes the division into rows and columns of cells, by the attributes of `roi-align`.
    pub(super) fn new(attrs: &Attrs, cells: [usize; 2]) -> Self {
        Self {
            scale: attrs.expect_float("scale"),
            half: attrs.expect_int("half-pixel") != 0,
            samples: usize::try_from(attrs.expect_int("samples")).unwrap_or(0),
            cells,
        }
    }

    /// Returns the region with the corners `[x1, y1, x2, y2]`.
    pub(super) fn region(&self, corners: [f64; 4]) -> Region {
        let shift = if self.half { 0.5 } else { 0.0 };
        let [left, top, right, bottom] = corners.map(|at| at * self.scale - shift);
        let mut extent = [bottom - top, right - left];
        if !self.half {
            extent = extent.map(|size| size.max(1.0));
        }
        let cell = [extent[0] / self.cells[0] as f64, extent[1] / self.cells[1] as f64];
        let samples = |size: f64| match self.samples {
            // A region may be of infinite size.
            0 => size.ceil().clamp(0.0, MOST_SAMPLES) as usize,
            samples => samples,
        };
        Region { corner: [top, left], cell, samples: cell.map(samples) }
    }
}

#[allow(clippy::cast_precision_loss)]
impl Region {
    /// Returns the coordinate of a sample of a cell along rows (0) or columns (1), in pixels.
    pub(super) fn place(&self, axis: usize, cell: usize, sample: usize) -> f64 {
        let within = (sample as f64 + 0.5) / self.samples[axis] as f64;
        self.corner[axis] + (cell as f64 + within) * self.cell[axis]
    }
}

/// Returns the two pixels around a coordinate along an axis of this many pixels, and the share of the second one. `None`
/// for a coordinate that is more than a pixel outside.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn around(at: f64, size: usize) -> Option<(usize, usize, f64)> {
    if at < -1.0 || at > size as f64 {
        return None;
    }
    let at = at.max(0.0);
    let low = (at as usize).min(size - 1);
    let at = if low + 1 >= size { low as f64 } else { at };
    Some((low, (low + 1).min(size - 1), at - low as f64))
}
