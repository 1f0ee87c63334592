//! The loop over pixels: products of vectors with elements or vectors of an image, added to sums in registers.

use crate::lanes::{Lanes, widened};

/// Rows of pixels, for one set of sums. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    /// The image at the first pixel and the first element of the set, and the distances to the next image, row, pixel
    /// and element.
    pub x: *const f32,
    pub x_image: usize,
    pub x_row: usize,
    pub x_pixel: usize,
    pub x_lane: usize,
    /// The gradient of the result at the first pixel, and the distances to the next image and row. Pixels are adjacent.
    pub d: *const f32,
    pub d_image: usize,
    pub d_row: usize,
    pub images: usize,
    pub rows: usize,
    pub columns: usize,
    /// The number of sums, each a vector.
    pub lanes: usize,
    pub sums: *mut f32,
}

impl Sweep {
    /// Adds the products of all pixels to the sums, with vectors of `block` lanes: those of `d` with adjacent elements of
    /// the image, or with vectors of it.
    ///
    /// # Safety
    /// All pixels and sums must be in bounds.
    pub unsafe fn run(&self, block: usize, vectors: bool) {
        // SAFETY: as the caller promises.
        unsafe {
            match (vectors, block) {
                (true, 16) => vectors_wide(self),
                (true, _) => vectors_narrow(self),
                (false, 16) => elements_wide(self),
                (false, _) => elements_narrow(self),
            }
        }
    }

    /// Returns the same sweep with all rows as one, if their pixels follow each other in both operands.
    pub fn in_one_row(self, block: usize) -> Self {
        if self.x_row == self.columns * self.x_pixel && self.d_row == self.columns * block {
            return Self { columns: self.columns * self.rows, rows: 1, ..self };
        }
        self
    }
}

widened! {
    /// Multiplies with elements. Vectors must have 16 lanes.
    ///
    /// # Safety
    /// All pixels and sums must be in bounds.
    unsafe fn elements_wide(sweep: &Sweep) = elements_on;
}
widened! {
    /// As [`elements_wide`], with vectors of 8 lanes.
    ///
    /// # Safety
    /// As for [`elements_wide`].
    unsafe fn elements_narrow(sweep: &Sweep) = elements_narrow_on of 8;
}
widened! {
    /// Multiplies with vectors, of 16 lanes.
    ///
    /// # Safety
    /// As for [`elements_wide`].
    unsafe fn vectors_wide(sweep: &Sweep) = vectors_on;
}
widened! {
    /// Multiplies with vectors, of 8 lanes.
    ///
    /// # Safety
    /// As for [`elements_wide`].
    unsafe fn vectors_narrow(sweep: &Sweep) = vectors_narrow_on of 8;
}

/// Generates the call of `sweep` for the number of sums.
macro_rules! by_lanes {
    ($sweep:expr, $elements:literal, [$($lanes:literal),*]) => {
        match $sweep.lanes {
            $($lanes => sweep_on::<V, $lanes, $elements>($sweep),)*
            _ => unreachable!("there are as many sums as a block has channels at most"),
        }
    };
}

/// # Safety
/// As for [`elements_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn elements_on<V: Lanes>(sweep: &Sweep) {
    // SAFETY: as the caller promises.
    unsafe { by_lanes!(sweep, true, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]) }
}

/// # Safety
/// As for [`elements_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn vectors_on<V: Lanes>(sweep: &Sweep) {
    // SAFETY: as the caller promises.
    unsafe { by_lanes!(sweep, false, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]) }
}

/// # Safety
/// As for [`elements_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn elements_narrow_on<V: Lanes>(sweep: &Sweep) {
    // SAFETY: as the caller promises.
    unsafe { by_lanes!(sweep, true, [1, 2, 3, 4, 5, 6, 7, 8]) }
}

/// # Safety
/// As for [`elements_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn vectors_narrow_on<V: Lanes>(sweep: &Sweep) {
    // SAFETY: as the caller promises.
    unsafe { by_lanes!(sweep, false, [1, 2, 3, 4, 5, 6, 7, 8]) }
}

/// Adds the products of all pixels to `N` sums: with adjacent elements of the image, or with vectors of it.
///
/// # Safety
/// As for [`elements_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn sweep_on<V: Lanes, const N: usize, const ELEMENTS: bool>(one: &Sweep) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums: [V; N] = std::array::from_fn(|lane| V::load(one.sums.add(lane * V::COUNT)));
        for image in 0..one.images {
            for row in 0..one.rows {
                let mut x = one.x.wrapping_add(image * one.x_image + row * one.x_row);
                let mut d = one.d.wrapping_add(image * one.d_image + row * one.d_row);
                for _ in 0..one.columns {
                    let above = V::load(d);
                    for (lane, sum) in sums.iter_mut().enumerate() {
                        let from =
                            if ELEMENTS { x.wrapping_add(lane) } else { x.wrapping_add(lane * one.x_lane) };
                        let value = if ELEMENTS { V::splat(*from) } else { V::load(from) };
                        *sum = value.mul_add(above, *sum);
                    }
                    x = x.wrapping_add(one.x_pixel);
                    d = d.wrapping_add(V::COUNT);
                }
            }
        }
        for (lane, sum) in sums.into_iter().enumerate() {
            sum.store(one.sums.add(lane * V::COUNT));
        }
    }
}
