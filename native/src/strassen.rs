//! Strassen's algorithm in one level, for matrix products and 1x1 convolutions: see `op::strassen`.
//!
//! Sums of the left operand are made once, or once by each thread, in blocks of lanes, so that every row of a block is
//! a fixed distance from one address. Then a task has a band of their rows and a group of panels of columns: it
//! computes all four quarters of that part of the result in its own scratch memory, product by product, each
//! taken to its quarters as it leaves the registers, and hands them out while they are in its cache.
//!
//! Relative error (L2) against the product in `f64`, for uniform operands: 5.9e-7 for 768 inner elements and
//! 1.2e-6 for 3072, of the plain kernel 4.4e-7 and 8.6e-7. Rows of one image are summed in pairs, and so the error
//! of both is relative to the larger one (N. Higham, "Accuracy and Stability of Numerical Algorithms", 23.2.2), and
//! what is not finite spreads from one to the other. Images are apart.

pub(super) mod meaning;
mod sums;

use self::sums::{Quarters, sums};
use super::args::Shared;
use super::product::{Product, Set, Way};
use ovolo::backend::Args;
use ovolo::op::Choice;
use ovolo::op::strassen::{PRODUCTS, whole};
use ovolo::tensor::TensorType;

/// Elements of one sum of a band: 512 KiB, half of a second-level cache.
const BAND: usize = 128 << 10;
/// Inner elements that are multiplied at once, so that weights of a panel come from the second-level cache for each
/// tile of rows but the first.
const DEPTH: usize = 512;
/// Rows of a band at most, so that a group has some panels.
const ROWS: usize = 192;
/// Elements of the quarters that a task computes: 192 KiB.
const GROUP: usize = 48 << 10;
/// Fewer rows of a half for each thread than these are too few to read all weights for.
const FEW: usize = 56;
/// Columns for each thread beside which the sums of the left operand are a twentieth of the work.
const SPREAD: usize = 96;
/// Elements that copies of these sums may have in all: 32 MiB.
const COPIES: usize = 8 << 20;
/// Elements between the flags of threads: a line of the cache.
const FLAG: usize = 16;
/// Blocks of lanes of the left operand that are a task's.
const LEFT: usize = 512;

/// The left operand: images of rows, of blocks of elements. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub from: *const f32,
    /// Between images.
    pub image: usize,
    /// Between rows, and between blocks of as many elements of a row as there are lanes.
    pub row: usize,
    pub block: usize,
}

/// A part of the result: some rows of a panel of columns, in the thread's scratch memory.
pub(super) struct Part {
    pub from: *mut f32,
    /// Elements between rows.
    pub stride: usize,
    /// Where it belongs: rows are counted through all images, and these are of one.
    pub row: usize,
    pub rows: usize,
    pub column: usize,
    pub columns: usize,
}

/// A product: its sizes, and how it is cut.
pub(super) struct Strassen {
    /// Of an image of the left operand, and of its upper half.
    rows: usize,
    upper: usize,
    depth: usize,
    /// Inner elements of a half that are multiplied at once: whole blocks of lanes.
    step: usize,
    columns: usize,
    /// Lanes of a vector, and of a block of weights.
    lanes: usize,
    set: Set,
    /// Rows of the upper halves of all images, and of a band of them.
    half: usize,
    band: usize,
    bands: usize,
    /// Panels of two blocks of half the columns, and how many groups they are cut into.
    panels: usize,
    groups: usize,
    threads: usize,
    /// Copies of the sums of the left operand: one, or one for each thread.
    copies: usize,
}

impl Strassen {
    /// A product of so many images of rows with what `u` has the sums of; why no vector kernel takes it.
    pub fn new([images, rows]: [usize; 2], u: &TensorType, threads: usize) -> Result<Self, String> {
        let lanes = u.layout.block(2);
        let [depth, columns] = whole(u).ok_or_else(|| format!("{u} are no sums of weights"))?;
        let set = Set::new(lanes)?;
        let upper = rows.div_ceil(2);
        let half = images * upper;
        let inner = (depth / 2).max(1);
        let depths = inner.div_ceil(DEPTH).max(1);
        let step = inner.div_ceil(depths).next_multiple_of(lanes);
        let most = (BAND / step.max(1)).min(ROWS).max(set.rows()) / set.rows() * set.rows();
        // A thread that multiplies the sums it made finds them in its own cache: it has rows of its own where there
        // are many, else columns, and makes all the sums for itself where that is little beside the products.
        let room = threads * PRODUCTS.len() * half * inner.next_multiple_of(lanes) <= COPIES;
        let own = threads > 1 && half < FEW * threads && half <= most && columns >= SPREAD * threads && room;
        let apart = !own && (half >= 2 * set.rows() * threads || half.div_ceil(most) >= threads);
        let bands = half.div_ceil(most).max(1).next_multiple_of(if apart { threads } else { 1 });
        let band = half.div_ceil(bands);
        let panels = (columns / 2).div_ceil(2 * lanes);
        let group = (GROUP / (4 * band * 2 * lanes).max(1)).max(1);
        let groups = panels.div_ceil(group).next_multiple_of(if apart { 1 } else { threads }).min(panels);
        Ok(Self {
            rows,
            upper,
            depth,
            step,
            columns,
            lanes,
            set,
            half,
            band,
            bands,
            panels,
            groups: groups.max(1),
            threads,
            copies: if own { threads } else { 1 },
        })
    }

    /// How threads share the work: by sizes and threads alone.
    pub fn choices(&self) -> Vec<Choice> {
        let sums =
            if self.copies > 1 { "made by each thread for itself" } else { "made once, by all threads" };
        vec![
            Choice::new("sums of the left operand", sums),
            Choice::new(
                "pieces",
                format!("{} bands of rows by {} groups of columns", self.bands, self.groups),
            ),
        ]
    }

    /// Blocks of lanes of a sum of the left operand.
    fn blocks(&self) -> usize {
        (self.depth / 2).div_ceil(self.lanes)
    }

    /// Elements of a sum of the left operand.
    fn sum(&self) -> usize {
        self.blocks() * self.half * self.lanes
    }

    /// Elements of a quarter of what a task computes.
    fn quarter(&self) -> usize {
        self.panels.div_ceil(self.groups) * self.band * 2 * self.lanes
    }

    /// Elements of scratch memory.
    pub fn scratch(&self) -> usize {
        let flags = if self.copies > 1 { FLAG * self.copies } else { 0 };
        flags + self.copies * PRODUCTS.len() * self.sum() + 4 * self.threads * self.quarter()
    }

    /// Computes the product with weights `u`, and gives each part of the result to `take`, which no other
    /// thread does with that part.
    ///
    /// # Safety
    /// Operands are as large as the sizes say, and scratch as [`Strassen::scratch`].
    pub unsafe fn run(&self, args: &Args<'_>, left: Left, u: *const f32, take: impl Fn(&Part) + Sync) {
        if self.half * self.columns == 0 {
            return;
        }
        let space = Shared::<f32>::scratch(args);
        let (left, u) = (Shared::new((&raw const left).cast_mut()), Shared::new(u.cast_mut()));
        let sums = |copy: usize| space.at(copy * PRODUCTS.len() * self.sum());
        let quarters = Shared::new(sums(self.copies));
        let flags = Shared::new(quarters.at(4 * self.threads * self.quarter()));
        if self.copies > 1 {
            // SAFETY: no task runs yet.
            (0..self.copies).for_each(|copy| unsafe { *flags.at(FLAG * copy) = 0.0 });
        } else {
            // As many for each thread as for the others, as bands are.
            let pieces = (self.half * self.blocks()).div_ceil(LEFT);
            let pieces = pieces.next_multiple_of(self.threads).min(self.half);
            args.team.share(self.threads, pieces, |_, piece| {
                let cut = |piece: usize| self.half * piece / pieces;
                // SAFETY: these rows of the sums are this task's alone; `left` outlives the call.
                unsafe { self.sums(&*left.at(0), sums(0), cut(piece)..cut(piece + 1)) };
            });
        }
        args.team.share(self.threads, self.groups * self.bands, |lane, task| {
            let copy = if self.copies > 1 { lane } else { 0 };
            // SAFETY: the lane's memory is its own, and the sums are there, or are made at its first task.
            unsafe {
                if self.copies > 1 && *flags.at(FLAG * copy) == 0.0 {
                    self.sums(&*left.at(0), sums(copy), 0..self.half);
                    *flags.at(FLAG * copy) = 1.0;
                }
                let quarters = quarters.at(4 * lane * self.quarter());
                self.task(sums(copy), u.at(0), quarters, task, &take);
            }
        });
    }

    /// The sums of some rows of the upper half and those below them.
    ///
    /// # Safety
    /// No other thread writes these rows of the sums.
    unsafe fn sums(&self, left: &Left, to: *mut f32, range: std::ops::Range<usize>) {
        let (inner, lanes) = (self.depth / 2, self.lanes);
        let mut row = range.start;
        while row < range.end {
            let (image, index) = (row / self.upper, row % self.upper);
            let upper = left.from.wrapping_add(image * left.image + index * left.row);
            let lower = upper.wrapping_add(self.upper * left.row);
            let rows = (self.upper - index).min(range.end - row);
            // The last of an odd number of rows has none below it.
            let below = index + self.upper < self.rows;
            let rows = if below { rows.min(self.rows - self.upper - index) } else { 1 };
            for block in 0..self.blocks() {
                let first = block * lanes;
                let right = inner + first;
                let quarters = Quarters {
                    upper: [first, right].map(|at| upper.wrapping_add(at / lanes * left.block + at % lanes)),
                    lower: [first, right].map(|at| lower.wrapping_add(at / lanes * left.block + at % lanes)),
                    below,
                    row: left.row,
                    rows,
                    lanes: lanes.min(inner - first),
                    to: to.wrapping_add((block * self.half + row) * lanes),
                    sum: self.sum(),
                };
                // SAFETY: rows and lanes are within the operand and the sums.
                unsafe { sums(&quarters, lanes) };
            }
            row += rows;
        }
    }

    /// All products of a band and a group.
    ///
    /// # Safety
    /// The sums are there, and no other thread uses `quarters`.
    unsafe fn task(
        &self,
        left: *const f32,
        u: *const f32,
        quarters: *mut f32,
        task: usize,
        take: &impl Fn(&Part),
    ) {
        let (lanes, inner, half) = (self.lanes, self.depth / 2, self.half);
        let (band, group) = (task / self.groups, task % self.groups);
        let cut = |group: usize| self.panels * group / self.groups;
        let (panels, next) = (cut(group)..cut(group + 1), cut(group + 1) % self.panels);
        let (top, end) = (half * band / self.bands, half * (band + 1) / self.bands);
        let columns = self.columns / 2;
        let blocks = columns.div_ceil(lanes);
        let between = PRODUCTS.len() * inner * lanes;
        let weights =
            |product: usize, panel: usize| u.wrapping_add(2 * panel * between + product * inner * lanes);
        let stride = 2 * lanes;
        let place = |quarter: usize, panel: usize| {
            let offset = quarter * self.quarter() + (panel - panels.start) * (end - top) * stride;
            quarters.wrapping_add(offset)
        };
        let mut begun = [false; 4];
        for (index, product) in PRODUCTS.iter().enumerate() {
            let first = ways(&product.result, &mut begun);
            let again = first.map(|(quarter, way)| (quarter, if way == Way::Set { Way::Add } else { way }));
            // Of no inner elements the sums are zeros.
            for from in (0..inner.max(1)).step_by(self.step) {
                let to = if from == 0 { first } else { again };
                let depth = self.step.min(inner - from);
                for panel in panels.clone() {
                    let at = |product, panel, from: usize| weights(product, panel).wrapping_add(from * lanes);
                    let ahead = if panel + 1 < panels.end {
                        at(index, panel + 1, from)
                    } else if from + depth < inner {
                        at(index, panels.start, from + depth)
                    } else if index + 1 < PRODUCTS.len() {
                        at(index + 1, panels.start, 0)
                    } else {
                        at(0, next, 0)
                    };
                    let one = Product {
                        v: left.wrapping_add(index * self.sum() + (from / lanes * half + top) * lanes),
                        v_block: half * lanes,
                        depth,
                        u: at(index, panel, from),
                        u_block: between,
                        ahead,
                        to: to.map(|(quarter, _)| place(quarter, panel)),
                        ways: to.map(|(_, way)| way),
                        row: stride,
                        column: lanes,
                    };
                    // SAFETY: the band's rows of the sums, the panel's weights, and this thread's quarters.
                    unsafe { self.set.run(&one, end - top, (blocks - 2 * panel).min(2)) };
                }
            }
        }
        for panel in panels.clone() {
            for quarter in 0..4 {
                let (lower, right) = (quarter / 2 == 1, quarter % 2 == 1);
                let first = panel * stride;
                let mut row = top;
                while row < end {
                    let (image, index) = (row / self.upper, row % self.upper);
                    let rows = (self.upper - index).min(end - row);
                    let below = if lower { self.upper } else { 0 };
                    let part = Part {
                        from: place(quarter, panel).wrapping_add((row - top) * stride),
                        stride,
                        row: image * self.rows + index + below,
                        rows: rows.min(self.rows.saturating_sub(index + below)),
                        column: first + if right { columns } else { 0 },
                        columns: (columns - first).min(stride),
                    };
                    if part.rows > 0 {
                        take(&part);
                    }
                    row += rows;
                }
            }
        }
    }
}

/// The quarters that a product is part of and how it goes there, when those that have `begun` hold sums.
fn ways(factors: &[f64; 4], begun: &mut [bool; 4]) -> [(usize, Way); 2] {
    let mut ways = [(0, Way::None); 2];
    let parts = factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
    for (to, (quarter, factor)) in ways.iter_mut().zip(parts) {
        let way = match (begun[quarter], *factor > 0.0) {
            (false, _) => Way::Set,
            (true, true) => Way::Add,
            (true, false) => Way::Subtract,
        };
        begun[quarter] = true;
        *to = (quarter, way);
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quarter_is_set_once_and_then_added_to() {
        let mut begun = [false; 4];
        let mut set = [0; 4];
        for product in &PRODUCTS {
            let parts = product.result.iter().filter(|factor| **factor != 0.0).count();
            let ways = ways(&product.result, &mut begun);
            // A tile goes to two quarters at most, and the first part of a quarter is not negated.
            assert_eq!(ways.iter().filter(|(_, way)| *way != Way::None).count(), parts);
            for (quarter, way) in ways {
                if way == Way::Set {
                    set[quarter] += 1;
                    assert_eq!(product.result[quarter], 1.0);
                }
            }
        }
        assert_eq!(set, [1; 4]);
    }
}
