//! A panel of a convolution's weights, prepared for products, with what zero points add to these.

use super::geometry::Geometry;
use super::pair::{Pair, PairSums};
use super::quad::{COLUMNS, Facts, Panel, QUAD, prepare};

/// The weights of a convolution, in panels of 16 outputs.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    pub panels: *const u8,
    /// The zero points: one, or one for each output.
    pub points: *const u8,
    pub by_output: bool,
    pub signed: bool,
    /// The zero point of the images, as a number without a sign.
    pub image_point: i32,
}

/// Returns the elements of a pixel, with zeros that fill it up.
pub(super) fn width(geometry: &Geometry) -> usize {
    geometry.channels.next_multiple_of(4)
}

/// Returns the elements of a window.
pub(super) fn depth(geometry: &Geometry) -> usize {
    geometry.window[0] * geometry.window[1] * width(geometry)
}

/// The bytes of scratch memory for a prepared panel.
pub(super) fn room(geometry: &Geometry) -> usize {
    depth(geometry) / 4 * (Panel::WEIGHTS + Panel::RESTS)
}

/// Returns the outputs of the two panels of a pair. The second panel may have none.
pub(super) fn pair_columns(outputs: usize, pair: usize) -> [usize; 2] {
    [2 * pair, 2 * pair + 1].map(|panel| outputs.saturating_sub(panel * COLUMNS).min(COLUMNS))
}

impl Weights {
    /// Returns the weights of a group of these sizes, whose panels are whole.
    pub(super) fn of_group(&self, geometry: &Geometry, group: usize) -> Self {
        let first = group * geometry.outputs;
        let panels = self.panels.wrapping_add(first / COLUMNS * (depth(geometry) / 4) * QUAD);
        let points = self.points.wrapping_add(if self.by_output { first } else { 0 });
        Self { panels, points, ..*self }
    }

    /// Prepares a pair of panels. If there is no second one, it is the first one again.
    ///
    /// # Safety
    /// The weights must be those of a convolution with these sizes, and both places of the scratch memory must have
    /// [`room`] for a panel.
    pub(super) unsafe fn pair(
        &self,
        geometry: &Geometry,
        pair: usize,
        scratch: [*mut u8; 2],
    ) -> [Prepared; 2] {
        let [columns, more] = pair_columns(geometry.outputs, pair);
        let output = 2 * pair * COLUMNS;
        // SAFETY: as the caller promises.
        unsafe {
            let first = Prepared::new(geometry, self, output, columns, scratch[0]);
            if more == 0 {
                return [first; 2];
            }
            [first, Prepared::new(geometry, self, output + COLUMNS, more, scratch[1])]
        }
    }
}

/// A panel, and what zero points add to its products.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    panel: Panel,
    facts: Facts,
    /// The zero point of each column.
    points: [i32; COLUMNS],
    /// What is added to all sums of a column.
    pub constants: [i32; COLUMNS],
}

impl Prepared {
    /// Prepares the panel of the outputs from `output` on, of which there are `columns`.
    ///
    /// # Safety
    /// The weights must be those of a convolution with these sizes, and `scratch` must have [`room`] for a panel.
    pub(super) unsafe fn new(
        geometry: &Geometry,
        weights: &Weights,
        output: usize,
        columns: usize,
        scratch: *mut u8,
    ) -> Self {
        let (depth, shift) = (depth(geometry), if weights.signed { 0 } else { 128 });
        let quads = depth / 4;
        // SAFETY: the panel has weights of this depth, and the scratch memory has room for a prepared one.
        unsafe {
            let given = weights.panels.add(output / COLUMNS * quads * QUAD);
            let rests = scratch.wrapping_add(quads * Panel::WEIGHTS).cast();
            let room = Panel { weights: scratch.cast(), rests };
            let facts = prepare(given, depth, shift, room);
            let mut points = [0; COLUMNS];
            for (at, point) in points[..columns].iter_mut().enumerate() {
                let own = if weights.by_output { output + at } else { 0 };
                *point = i32::from((*weights.points.add(own)).wrapping_add(shift).cast_signed());
            }
            // The weights that fill up a pixel are zero before the shift, and no part of the sums.
            let pixels = geometry.window[0] * geometry.window[1];
            let filling = pixels * (width(geometry) - geometry.channels) * usize::from(shift);
            let mut constants = [0_i32; COLUMNS];
            for ((constant, total), point) in constants.iter_mut().zip(facts.totals).zip(points) {
                let total = total.wrapping_add(filling as i32);
                let product = point.wrapping_mul((pixels * geometry.channels) as i32);
                *constant = weights.image_point.wrapping_mul(product.wrapping_sub(total));
            }
            Self { panel: room.or_given(&facts, given), facts, points, constants }
        }
    }

    /// Returns the panel for products.
    pub(super) fn operand(&self) -> (Panel, &Facts) {
        (self.panel, &self.facts)
    }

    /// Returns whether the zero points of the weights add something to the products.
    pub(super) fn has_points(&self) -> bool {
        self.points != [0; COLUMNS]
    }
}

/// Subtracts what the zero points of the weights add to the products of rows with a pair of panels. The arithmetic is that
/// of 32 bits throughout, which wraps.
///
/// # Safety
/// The sums must be those of the product.
pub(super) unsafe fn subtract_points(pair: [&Prepared; 2], sums: &mut [PairSums], product: &Pair<'_>) {
    if !pair.iter().any(|prepared| prepared.has_points()) {
        return;
    }
    for (row, sums) in sums[..product.rows].iter_mut().enumerate() {
        // SAFETY: the row is one of the product.
        let total = total(unsafe {
            std::slice::from_raw_parts(product.a.add(row * product.stride), 4 * product.quads)
        });
        let points = pair.into_iter().flat_map(|prepared| &prepared.points);
        for (sum, point) in sums.iter_mut().zip(points) {
            *sum = sum.wrapping_sub(point.wrapping_mul(total));
        }
    }
}

fn total(row: &[u8]) -> i32 {
    row.iter().fold(0_i32, |sum, byte| sum.wrapping_add(i32::from(*byte)))
}
