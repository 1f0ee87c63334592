//! A panel of a convolution's weights, prepared for products, with what zero points add to these.

use super::couples;
use super::geometry::Geometry;
use super::pair::{Pair, PairSums};
use super::quad::{COLUMNS, Facts, Panel, QUAD, Rest, prepare, used_as_given};

/// Panels that several threads use begin at multiples of this number of bytes.
const ALIGNMENT: usize = 64;

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

/// Returns the elements of a window in the weights that are given.
fn given_depth(geometry: &Geometry) -> usize {
    geometry.window[0] * geometry.window[1] * width(geometry)
}

/// Returns the elements of a window as it is multiplied.
pub(super) fn depth(geometry: &Geometry) -> usize {
    given_depth(geometry) + geometry.filling
}

/// The bytes of scratch memory for a prepared panel.
pub(super) fn room(geometry: &Geometry) -> usize {
    depth(geometry) / 4 * (Panel::WEIGHTS + Panel::RESTS)
}

/// The bytes of scratch memory for a panel that is prepared for all threads.
pub(super) fn shared_room(geometry: &Geometry) -> usize {
    (size_of::<Prepared>().next_multiple_of(ALIGNMENT) + room(geometry)).next_multiple_of(ALIGNMENT)
}

/// Returns the outputs of the two panels of a pair. The second panel may have none.
pub(super) fn pair_columns(outputs: usize, pair: usize) -> [usize; 2] {
    [2 * pair, 2 * pair + 1].map(|panel| outputs.saturating_sub(panel * COLUMNS).min(COLUMNS))
}

impl Weights {
    /// Returns the weights of a group of these sizes, whose panels are whole.
    pub(super) fn of_group(&self, geometry: &Geometry, group: usize) -> Self {
        let first = group * geometry.outputs;
        let panels = self.panels.wrapping_add(first / COLUMNS * (given_depth(geometry) / 4) * QUAD);
        let points = self.points.wrapping_add(if self.by_output { first } else { 0 });
        Self { panels, points, ..*self }
    }

    /// Prepares a pair of panels. If there is no second one, it is the first one again. With `at_once`, the constants of the
    /// columns are known before the first product.
    ///
    /// # Safety
    /// The weights must be those of a convolution with these sizes, and both places of the scratch memory must have
    /// [`room`] for a panel.
    pub(super) unsafe fn pair(
        &self,
        geometry: &Geometry,
        pair: usize,
        at_once: bool,
        scratch: [*mut u8; 2],
    ) -> PreparedPair {
        let [columns, more] = pair_columns(geometry.outputs, pair);
        let output = 2 * pair * COLUMNS;
        // Products with a single panel take another way, which computes no totals.
        let later =
            !at_once && more > 0 && !self.needs_no_totals(geometry) && self.are_used_as_given(geometry);
        // SAFETY: as the caller promises.
        let panels = unsafe {
            let first = Prepared::new(geometry, self, output, columns, scratch[0], later);
            match more {
                0 => [first; 2],
                _ => [first, Prepared::new(geometry, self, output + COLUMNS, more, scratch[1], later)],
            }
        };
        PreparedPair { panels, depth: depth(geometry), later: later.then_some((*self, *geometry)) }
    }

    /// Prepares a panel for all threads. They find it by [`PreparedPair::shared`].
    ///
    /// # Safety
    /// The weights must be those of a convolution with these sizes, and `to` must have [`shared_room`].
    pub(super) unsafe fn share(&self, geometry: &Geometry, panel: usize, to: *mut u8) {
        let output = panel * COLUMNS;
        let columns = (geometry.outputs - output).min(COLUMNS);
        let place = to.wrapping_add(size_of::<Prepared>().next_multiple_of(ALIGNMENT));
        // SAFETY: as the caller promises.
        unsafe {
            to.cast::<Prepared>().write(Prepared::new(geometry, self, output, columns, place, false));
        }
    }

    /// Returns what is added to all sums of the columns of a panel, from the zero points and the totals of its columns.
    fn constants(
        &self,
        geometry: &Geometry,
        points: &[i32; COLUMNS],
        totals: &[i32; COLUMNS],
    ) -> [i32; COLUMNS] {
        // The weights that fill up a pixel are zero before the shift, and no part of the sums.
        let pixels = geometry.window[0] * geometry.window[1];
        let filling = pixels * (width(geometry) - geometry.channels) * usize::from(self.shift());
        let mut constants = [0_i32; COLUMNS];
        for ((constant, total), point) in constants.iter_mut().zip(totals).zip(points) {
            let total = total.wrapping_add(filling as i32);
            let product = point.wrapping_mul((pixels * geometry.channels) as i32);
            *constant = self.image_point.wrapping_mul(product.wrapping_sub(total));
        }
        constants
    }

    /// Whether the weights need not be read before the products: they are used as they are given, and add nothing to the
    /// constants. So it is where images are the results of rectifiers.
    pub(super) fn needs_no_totals(&self, geometry: &Geometry) -> bool {
        self.image_point == 0 && self.are_used_as_given(geometry)
    }

    fn are_used_as_given(&self, geometry: &Geometry) -> bool {
        geometry.filling == 0 && used_as_given(depth(geometry), self.shift())
    }

    /// Returns whether the zero point of the weights of an output is another number than zero.
    ///
    /// # Safety
    /// The output must be one of the convolution.
    pub(super) unsafe fn has_point(&self, output: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.points.add(output).read() != self.shift() }
    }

    /// Returns the zero points of the outputs of a panel, of which the first is `output`.
    ///
    /// # Safety
    /// The outputs must be those of the convolution.
    unsafe fn points(&self, output: usize, columns: usize) -> [i32; COLUMNS] {
        let mut points = [0; COLUMNS];
        for (at, point) in points[..columns].iter_mut().enumerate() {
            let own = if self.by_output { output + at } else { 0 };
            // SAFETY: as the caller promises.
            let bits = unsafe { self.points.add(own).read() };
            *point = i32::from(bits.wrapping_add(self.shift()).cast_signed());
        }
        points
    }

    /// Returns the constants and the zero points of the outputs of a panel of [couples], of which the first is `output`.
    ///
    /// # Safety
    /// The outputs must be those of the convolution, and the weights must be its couples, with this number of bytes for eight
    /// outputs.
    pub(super) unsafe fn of_couples(
        &self,
        geometry: &Geometry,
        output: usize,
        columns: usize,
        bytes: usize,
    ) -> ([i32; COLUMNS], [i32; COLUMNS]) {
        let (mut totals, mut turned) = ([0; COLUMNS], [0; COLUMNS]);
        for at in (0..columns).step_by(couples::OUTPUTS) {
            let part = self.panels.wrapping_add((output + at) / couples::OUTPUTS * bytes);
            // SAFETY: as the caller promises.
            let sums = unsafe { part.cast::<[[i32; couples::OUTPUTS]; 2]>().read_unaligned() };
            totals[at..at + couples::OUTPUTS].copy_from_slice(&sums[0]);
            turned[at..at + couples::OUTPUTS].copy_from_slice(&sums[1]);
        }
        // SAFETY: as the caller promises.
        let points = unsafe { self.points(output, columns) };
        let mut constants = self.constants(geometry, &points, &totals);
        for (constant, turned) in constants.iter_mut().zip(turned) {
            *constant = constant.wrapping_add(turned);
        }
        (constants, points)
    }

    /// What is added to the bits of weights to give them a sign.
    fn shift(&self) -> u8 {
        if self.signed { 0 } else { 128 }
    }
}

/// A pair of panels, and what zero points add to products with them.
pub(super) struct PreparedPair {
    panels: [Prepared; 2],
    depth: usize,
    /// What the constants of the columns follow from, as long as they are unknown. Where weights are used as they are
    /// given, all that they need are their totals, and the first product computes these, so that weights are read once.
    later: Option<(Weights, Geometry)>,
}

impl PreparedPair {
    /// Returns a pair of the panels that [`Weights::share`] wrote, of which `first` is the first one of the pair.
    ///
    /// # Safety
    /// The panels of the pair must be prepared, with these sizes.
    pub(super) unsafe fn shared(geometry: &Geometry, pair: usize, first: *const u8) -> Self {
        let [_, more] = pair_columns(geometry.outputs, pair);
        // SAFETY: as the caller promises.
        let panels = unsafe {
            let one = first.cast::<Prepared>();
            let second = if more > 0 { one.byte_add(shared_room(geometry)) } else { one };
            [one.read(), second.read()]
        };
        Self { panels, depth: depth(geometry), later: None }
    }

    /// Returns what was split from the pairs of weights of both panels.
    ///
    /// # Safety
    /// The scratch memory of the panels must not be written as long as this is used.
    pub(super) unsafe fn rests(&self) -> [[&[Rest]; 2]; 2] {
        // SAFETY: the panels are prepared, and the caller promises that they stay as they are.
        self.panels.each_ref().map(|one| unsafe { one.panel.lists(self.depth / 4, &one.facts) })
    }

    /// Returns the weights of both panels, which must have no zero points, and the constants of their columns. If these are
    /// unknown, they are minus the last number times the sum of the column's weights.
    pub(super) fn without_points(&self) -> ([*const i8; 2], [[i32; COLUMNS]; 2], Option<i32>) {
        let weights = self.panels.each_ref().map(|one| one.panel.weights.cast_const());
        let constants = self.panels.each_ref().map(|one| one.constants);
        // Weights that are used as they are given have no filling that would count.
        let unknown = self.later.as_ref().map(|(weights, _)| weights.image_point);
        (weights, constants, unknown)
    }

    /// Returns whether both panels are used where they are given.
    pub(super) fn is_given(&self) -> bool {
        self.panels.iter().all(|one| one.facts.as_given)
    }

    /// Returns whether the zero points of the weights add something to the products.
    pub(super) fn has_points(&self) -> bool {
        self.panels.iter().any(Prepared::has_points)
    }

    /// Writes the products of rows that lie at this distance, with what zero points add to them. There must be room for
    /// all rows.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn products(
        &mut self,
        a: *const u8,
        stride: usize,
        rows: usize,
        sums: &mut [PairSums],
    ) {
        let [first, second] = &self.panels;
        let product = Pair { stride, ..Pair::new(a, self.depth, rows, [first.operand(), second.operand()]) };
        let sums = &mut sums[..rows];
        // SAFETY: as the caller promises.
        unsafe {
            match self.later.take() {
                None => product.products([&first.constants, &second.constants], sums),
                Some((weights, geometry)) => {
                    let totals = product.products_with_totals(sums);
                    for (panel, totals) in self.panels.iter_mut().zip(totals) {
                        panel.constants = weights.constants(&geometry, &panel.points, &totals);
                    }
                    for sums in &mut *sums {
                        let (halves, _) = sums.as_chunks_mut::<COLUMNS>();
                        for (sums, panel) in halves.iter_mut().zip(&self.panels) {
                            for (sum, constant) in sums.iter_mut().zip(&panel.constants) {
                                *sum = sum.wrapping_add(*constant);
                            }
                        }
                    }
                }
            }
            self.subtract_points(a, stride, sums);
        }
    }

    /// Subtracts what the zero points of the weights add to the products of rows. The arithmetic is that of 32 bits
    /// throughout, which wraps.
    ///
    /// # Safety
    /// The sums must be those of the products.
    unsafe fn subtract_points(&self, a: *const u8, stride: usize, sums: &mut [PairSums]) {
        if !self.has_points() {
            return;
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row is one of the product.
            let total = total(unsafe { std::slice::from_raw_parts(a.add(row * stride), self.depth) });
            let points = self.panels.iter().flat_map(|panel| &panel.points);
            for (sum, point) in sums.iter_mut().zip(points) {
                *sum = sum.wrapping_sub(point.wrapping_mul(total));
            }
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
    constants: [i32; COLUMNS],
}

impl Prepared {
    /// Prepares the panel of the outputs from `output` on, of which there are `columns`. If the totals are computed later,
    /// the constants are too, and the weights must be [used as they are given](used_as_given).
    ///
    /// # Safety
    /// The weights must be those of a convolution with these sizes, and `scratch` must have [`room`] for a panel.
    unsafe fn new(
        geometry: &Geometry,
        weights: &Weights,
        output: usize,
        columns: usize,
        scratch: *mut u8,
        later: bool,
    ) -> Self {
        let (depth, shift) = (given_depth(geometry), weights.shift());
        let (given_quads, quads) = (depth / 4, self::depth(geometry) / 4);
        // SAFETY: the panel has weights of this depth, and the scratch memory has room for a prepared one.
        unsafe {
            let given = weights.panels.add(output / COLUMNS * given_quads * QUAD);
            let rests = scratch.wrapping_add(quads * Panel::WEIGHTS).cast();
            let room = Panel { weights: scratch.cast(), rests };
            let mut facts = if later || weights.needs_no_totals(geometry) {
                Facts::as_given()
            } else {
                prepare(given, depth, shift, room)
            };
            if geometry.filling > 0 {
                if std::mem::take(&mut facts.as_given) {
                    std::ptr::copy_nonoverlapping(given, scratch, given_quads * QUAD);
                }
                scratch.add(given_quads * QUAD).write_bytes(0, geometry.filling / 4 * QUAD);
            }
            let points = weights.points(output, columns);
            let constants = weights.constants(geometry, &points, &facts.totals);
            Self { panel: room.or_given(&facts, given), facts, points, constants }
        }
    }

    /// Returns the panel for products.
    pub(super) fn operand(&self) -> (Panel, &Facts) {
        (self.panel, &self.facts)
    }

    /// Returns whether the zero points of the weights add something to the products.
    fn has_points(&self) -> bool {
        self.points != [0; COLUMNS]
    }
}

fn total(row: &[u8]) -> i32 {
    row.iter().fold(0_i32, |sum, byte| sum.wrapping_add(i32::from(*byte)))
}
