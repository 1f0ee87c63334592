//! Winograd's transforms of tiles of inputs and of tiles of sums, one block of channels at a time.

use crate::backend::native::lanes::Lanes;

/// Some tiles beside each other, of one block of channels of one image.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// The first row and column of the first tile: of inputs, where negative ones and those past
    /// `rows` and `columns` are padding; of the result, where they are not stored.
    pub row: isize,
    pub column: isize,
    /// Rows and columns of the plane.
    pub rows: usize,
    pub columns: usize,
    /// Tiles.
    pub count: usize,
    /// The transformed tiles, at the first frequency and tile; tiles lie beside each other.
    pub tiles: *mut f32,
    /// Elements between frequencies.
    pub frequency: usize,
}

/// What happens to sums on their way to the result, at the first tile.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub bias: *const f32,
    /// Biases there are.
    pub biases: usize,
    /// The plane of the result, and what is added to it; null for nothing.
    pub y: *mut f32,
    pub residual: *const f32,
    pub low: f32,
    pub high: f32,
}

/// Rows or columns `first..end` of `size` that lie within `limit`, when the first is at `at`.
fn within(at: isize, size: usize, limit: usize) -> (usize, usize) {
    let first = (-at).clamp(0, size.cast_signed()).cast_unsigned();
    let end = (limit.cast_signed() - at).clamp(0, size.cast_signed()).cast_unsigned();
    (first.min(end), end)
}

/// `B' d` of a column of `S` elements.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn input<V: Lanes, const S: usize>(d: &[V; S]) -> [V; S] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut to = [V::splat(0.0); S];
        let both = |to: &mut [V; S], at: usize, even: V, odd: V| {
            to[at] = even.add(odd);
            to[at + 1] = even.sub(odd);
        };
        match S {
            4 => {
                to[0] = d[0].sub(d[2]);
                to[1] = d[1].add(d[2]);
                to[2] = d[2].sub(d[1]);
                to[3] = d[1].sub(d[3]);
            }
            _ => {
                let (four, five) = (V::splat(-4.0), V::splat(-5.0));
                both(&mut to, 1, d[2].mul_add(four, d[4]), d[1].mul_add(four, d[3]));
                let odd = d[3].sub(d[1]);
                both(&mut to, 3, d[4].sub(d[2]), odd.add(odd));
                to[0] = d[0].mul_add(V::splat(4.0), d[2].mul_add(five, d[4]));
                to[5] = d[1].mul_add(V::splat(4.0), d[3].mul_add(five, d[5]));
            }
        }
        to
    }
}

/// `A' m` of a column of `S` elements, the first `S - 2` of the result.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn output<V: Lanes, const S: usize>(m: &[V; S]) -> [V; S] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut to = [V::splat(0.0); S];
        let (sum, difference) = (m[1].add(m[2]), m[1].sub(m[2]));
        match S {
            4 => {
                to[0] = m[0].add(sum);
                to[1] = difference.sub(m[3]);
            }
            _ => {
                let (far, apart) = (m[3].add(m[4]), m[3].sub(m[4]));
                to[0] = m[0].add(sum).add(far);
                to[1] = apart.mul_add(V::splat(2.0), difference);
                to[2] = far.mul_add(V::splat(4.0), sum);
                to[3] = apart.mul_add(V::splat(8.0), difference.add(m[5]));
            }
        }
        to
    }
}

/// Transforms tiles of inputs of `S` by `S` from a plane in blocks of channels.
///
/// # Safety
/// The plane and the strip's tiles are in bounds; the processor has the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn scatter<V: Lanes, const S: usize>(strip: &Strip, plane: *const f32) {
    let width = V::COUNT;
    let (top, bottom) = within(strip.row, S, strip.rows);
    for index in 0..strip.count {
        let column = strip.column + (index * (S - 2)).cast_signed();
        let (left, right) = within(column, S, strip.columns);
        let origin =
            plane.wrapping_offset((strip.row * strip.columns.cast_signed() + column) * width.cast_signed());
        // SAFETY: only rows and columns of the plane are read; the tile is in bounds.
        unsafe {
            let mut half = [[V::splat(0.0); S]; S];
            let inside = (top, bottom, left, right) == (0, S, 0, S);
            for (c, column) in half.iter_mut().enumerate() {
                let mut d = [V::splat(0.0); S];
                for (r, value) in d.iter_mut().enumerate() {
                    if inside || (r >= top && r < bottom && c >= left && c < right) {
                        *value = V::load(origin.wrapping_add((r * strip.columns + c) * width));
                    }
                }
                *column = input::<V, S>(&d);
            }
            let to = strip.tiles.add(index * width);
            for r in 0..S {
                let line: [V; S] = std::array::from_fn(|c| half[c][r]);
                for (c, value) in input::<V, S>(&line).into_iter().enumerate() {
                    value.store(to.add((r * S + c) * strip.frequency));
                }
            }
        }
    }
}

/// Transforms tiles of sums back and stores them into a plane in blocks of channels.
///
/// # Safety
/// As [`scatter`]; no other thread writes these rows and columns.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn gather<V: Lanes, const S: usize>(strip: &Strip, store: &Store) {
    let width = V::COUNT;
    let (_, bottom) = within(strip.row, S - 2, strip.rows);
    // SAFETY: as the caller promises; only rows and columns of the plane are stored.
    unsafe {
        let bias = V::load_first(store.bias, store.biases.min(width));
        let (low, high) = (V::splat(store.low), V::splat(store.high));
        for index in 0..strip.count {
            let column = strip.column + (index * (S - 2)).cast_signed();
            let (_, right) = within(column, S - 2, strip.columns);
            let from = strip.tiles.add(index * width);
            let mut half = [[V::splat(0.0); S]; S];
            for c in 0..S {
                let line: [V; S] = std::array::from_fn(|r| V::load(from.add((r * S + c) * strip.frequency)));
                half[c] = output::<V, S>(&line);
            }
            let first = (strip.row * strip.columns.cast_signed() + column) * width.cast_signed();
            for r in 0..bottom {
                let line: [V; S] = std::array::from_fn(|c| half[c][r]);
                for (c, value) in output::<V, S>(&line).into_iter().enumerate().take(right) {
                    let at = first + ((r * strip.columns + c) * width).cast_signed();
                    let mut sum = value.add(bias);
                    if !store.residual.is_null() {
                        sum = sum.add(V::load(store.residual.offset(at)));
                    }
                    high.min(low.max(sum)).store(store.y.offset(at));
                }
            }
        }
    }
}
