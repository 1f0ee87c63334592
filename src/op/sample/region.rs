//! `roi-align`: the points of an image at which the cells of a region are read.

use super::floats;
use crate::attr::Attrs;
use crate::op::{OpError, sizes};
use crate::tensor::{Tensor, TensorType};

/// The most samples along an axis of a cell.
const MOST_SAMPLES: i64 = 1 << 12;

pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (x, regions) = (&types[0].shape, &types[1].shape);
    let size = sizes(attrs, "output-size")?;
    let fits =
        x.rank() == 4 && regions.rank() == 2 && regions[1] == 4 && types[2].shape.to_vec() == [regions[0]];
    if !attrs.expect_float("scale").is_finite() {
        return Err(OpError::attribute("scale", "is not finite"));
    }
    let samples = (0..=MOST_SAMPLES).contains(&attrs.expect_int("samples"));
    if !samples {
        return Err(OpError::attribute("samples", format!("is not among 0 to {MOST_SAMPLES}")));
    }
    if !fits || size.len() != 2 {
        return Err(OpError::operands(format!(
            "regions {} and {} do not fit {}",
            types[1], types[2], types[0]
        )));
    }
    if x.count() == 0 && regions[0] > 0 {
        return Err(OpError::operand(0, types[0], ", which has no elements for regions"));
    }
    Ok(TensorType::plain(types[0].dtype, [regions[0], x[1], size[0], size[1]]))
}

/// How `roi-align` divides regions into cells.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    scale: f64,
    half: bool,
    /// 0: as many samples as a cell has pixels.
    samples: usize,
    /// Rows and columns of cells.
    cells: [usize; 2],
}

/// A region of an image. Of all pairs, the first one is along rows, the second one along columns.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    corner: [f64; 2],
    cell: [f64; 2],
    /// The samples of a cell.
    pub samples: [usize; 2],
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl Regions {
    /// Makes the division into rows and columns of cells, by the attributes of `roi-align`.
    pub fn new(attrs: &Attrs, cells: [usize; 2]) -> Self {
        Self {
            scale: attrs.expect_float("scale"),
            half: attrs.expect_int("half-pixel") != 0,
            samples: usize::try_from(attrs.expect_int("samples")).unwrap_or(0),
            cells,
        }
    }

    /// Returns the region with the corners `[x1, y1, x2, y2]`.
    pub fn region(&self, corners: [f64; 4]) -> Region {
        let most_samples = MOST_SAMPLES as f64; // Of a region of infinite size as well.
        let shift = if self.half { 0.5 } else { 0.0 };
        let [left, top, right, bottom] = corners.map(|at| at * self.scale - shift);
        let mut extent = [bottom - top, right - left];
        if !self.half {
            extent = extent.map(|size| size.max(1.0));
        }
        let cell = [extent[0] / self.cells[0] as f64, extent[1] / self.cells[1] as f64];
        let samples = |size: f64| match self.samples {
            0 => size.ceil().clamp(0.0, most_samples) as usize,
            samples => samples,
        };
        Region { corner: [top, left], cell, samples: cell.map(samples) }
    }
}

#[allow(clippy::cast_precision_loss)]
impl Region {
    /// Returns the coordinate of a sample of a cell along rows (0) or columns (1), in pixels.
    pub fn place(&self, axis: usize, cell: usize, sample: usize) -> f64 {
        let within = (sample as f64 + 0.5) / self.samples[axis] as f64;
        self.corner[axis] + (cell as f64 + within) * self.cell[axis]
    }
}

/// Returns the two pixels around a coordinate along an axis of this many pixels, and the share of the second one. `None`
/// for a coordinate that is more than a pixel outside.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn around(at: f64, size: usize) -> Option<(usize, usize, f64)> {
    if at < -1.0 || at > size as f64 {
        return None;
    }
    let at = at.max(0.0);
    let low = (at as usize).min(size - 1);
    let at = if low + 1 >= size { low as f64 } else { at };
    Some((low, (low + 1).min(size - 1), at - low as f64))
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let shape = &operands[0].ty().shape;
    let (rows, columns) = (shape[2], shape[3]);
    let (x, corners) = (operands[0].to_f64(), operands[1].to_f64());
    let images = operands[2].to_i64().unwrap_or_default();
    let most = attrs.expect_str("mode") == "max";
    let (high, wide) = (ty.shape[2], ty.shape[3]);
    let regions = Regions::new(attrs, [high, wide]);
    let mut result = Vec::with_capacity(ty.shape.count());
    for (corners, image) in corners.as_chunks::<4>().0.iter().zip(images) {
        let image = usize::try_from(image).unwrap_or(0).min(shape[0].saturating_sub(1));
        let region = regions.region(*corners);
        let grid = region.samples;
        for channel in 0..shape[1] {
            let plane = &x[(image * shape[1] + channel) * rows * columns..][..rows * columns];
            for (row, column) in (0..high * wide).map(|at| (at / wide, at % wide)) {
                let mut found: Vec<f64> = Vec::new();
                for (down, right) in (0..grid[0] * grid[1]).map(|at| (at / grid[1], at % grid[1])) {
                    let (y, x) = (region.place(0, row, down), region.place(1, column, right));
                    found.extend(between(plane, rows, columns, y, x, most));
                }
                let points = (grid[0] * grid[1]).max(1) as f64;
                result.push(match most {
                    true => found.iter().copied().reduce(f64::max).unwrap_or(0.0),
                    false => found.iter().sum::<f64>() / points,
                });
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the weighted pixels around a point of a plane, each of them or their sum.
fn between(plane: &[f64], rows: usize, columns: usize, y: f64, x: f64, each: bool) -> Vec<f64> {
    let (Some((top, bottom, down)), Some((left, right, across))) = (around(y, rows), around(x, columns))
    else {
        return vec![0.0];
    };
    let corners = [
        (top, left, (1.0 - down) * (1.0 - across)),
        (top, right, (1.0 - down) * across),
        (bottom, left, down * (1.0 - across)),
        (bottom, right, down * across),
    ];
    let parts = corners.map(|(row, column, weight)| plane[row * columns + column] * weight);
    if each { parts.to_vec() } else { vec![parts.iter().sum()] }
}
