//! Winograd's transforms of tiles of inputs and of tiles of sums, for one block of channels at a time.

use crate::lanes::Lanes;
use ovolo::op::winograd::Axis;

/// Neighbouring tiles of one block of channels of one image.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// The first row and column of the first tile. In an input, rows and columns that are negative or past `rows` and
    /// `columns` are padding; in a result they are not stored.
    pub row: isize,
    pub column: isize,
    /// The rows and columns of the plane.
    pub rows: usize,
    pub columns: usize,
    /// The number of tiles, and the columns from one tile to the next.
    pub count: usize,
    pub step: usize,
    /// The transformed tiles at the first frequency and tile. The tiles of a frequency are contiguous.
    pub tiles: *mut f32,
    /// The distance between frequencies, in elements.
    pub frequency: usize,
}

/// The operations on sums when they are stored, at the first tile.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub bias: *const f32,
    /// The number of biases: that of the outputs of this block and of those after it, without padding.
    pub biases: usize,
    /// The plane of the result, and the operand that is added to it (null for none).
    pub y: *mut f32,
    pub residual: *const f32,
    pub low: f32,
    pub high: f32,
}

/// Returns the range of `0..size` that is within `limit` if index 0 is at `at`.
fn within(at: isize, size: usize, limit: usize) -> (usize, usize) {
    let first = (-at).clamp(0, size.cast_signed()).cast_unsigned();
    let end = (limit.cast_signed() - at).clamp(0, size.cast_signed()).cast_unsigned();
    (first.min(end), end)
}

/// The largest number of pairs of the points in `op::winograd`.
const PAIRS: usize = Axis::POINTS.len();

/// Returns the product of `t - p^2` over `pairs` points, except one of them, as coefficients of rising powers of `t`.
/// The highest coefficient is 1.
const fn product(pairs: usize, except: usize) -> [f64; PAIRS + 1] {
    let mut polynomial = [0.0; PAIRS + 1];
    polynomial[0] = 1.0;
    let mut pair = 0;
    while pair < pairs {
        if pair != except {
            let mut power = PAIRS;
            while power > 0 {
                polynomial[power] =
                    polynomial[power - 1] - Axis::POINTS[pair] * Axis::POINTS[pair] * polynomial[power];
                power -= 1;
            }
            polynomial[0] *= -Axis::POINTS[pair] * Axis::POINTS[pair];
        }
        pair += 1;
    }
    polynomial
}

/// Returns the factors of a transform of `size` inputs: for each pair of points those of the even and of the odd
/// inputs, then those of the points zero and infinity.
const fn factors(size: usize) -> [[[f32; PAIRS + 1]; 2]; PAIRS + 1] {
    let pairs = size.saturating_sub(2) / 2;
    let mut factors = [[[0.0; PAIRS + 1]; 2]; PAIRS + 1];
    let mut pair = 0;
    while pair <= PAIRS {
        let (except, point) = if pair < pairs { (pair, Axis::POINTS[pair]) } else { (PAIRS, 1.0) };
        let polynomial = product(pairs, except);
        let mut power = 0;
        while power <= PAIRS {
            factors[pair][0][power] = polynomial[power] as f32;
            factors[pair][1][power] = (polynomial[power] * point) as f32;
            power += 1;
        }
        pair += 1;
    }
    factors
}

/// Returns the powers of the points from which the outputs of a tile are computed.
const fn powers() -> [[f32; PAIRS]; PAIRS] {
    let mut powers = [[1.0; PAIRS]; PAIRS];
    let mut pair = 0;
    while pair < PAIRS {
        let (mut power, mut value) = (0, 1.0);
        while power < PAIRS {
            powers[pair][power] = value as f32;
            value *= Axis::POINTS[pair];
            power += 1;
        }
        pair += 1;
    }
    powers
}

/// Returns the sum of every second element from `first` on, multiplied by factors.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn dot<V: Lanes>(d: &[V], first: usize, factors: &[f32; PAIRS + 1], count: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let scaled = |at: usize| {
            let value = d[first + 2 * at];
            if factors[at] == 1.0 { value } else { value.mul(V::splat(factors[at])) }
        };
        let mut sum = scaled(count - 1);
        for at in 0..count - 1 {
            sum = d[first + 2 * at].mul_add(V::splat(factors[at]), sum);
        }
        sum
    }
}

/// Returns `B' d` for a column of `S` elements. A point and its negative share the sums over even and odd powers;
/// only the sign of the odd sum differs.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn input<V: Lanes, const S: usize>(d: &[V; S]) -> [V; S] {
    if S == 1 {
        return *d;
    }
    let factors = const { factors(S) };
    let pairs = (S - 2) / 2;
    // SAFETY: as the caller promises.
    unsafe {
        let mut to = [V::splat(0.0); S];
        to[0] = dot(d, 0, &factors[PAIRS][0], pairs + 1);
        to[S - 1] = dot(d, 1, &factors[PAIRS][0], pairs + 1);
        for pair in 0..pairs {
            let even = dot(d, 2, &factors[pair][0], pairs);
            let odd = dot(d, 1, &factors[pair][1], pairs);
            to[1 + 2 * pair] = even.add(odd);
            to[2 + 2 * pair] = even.sub(odd);
        }
        to
    }
}

/// Returns `A' m` for a column of `S` elements: `M` outputs.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn output<V: Lanes, const S: usize, const M: usize>(m: &[V; S]) -> [V; M] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut to = [m[0]; M];
        if S == 1 {
            return to;
        }
        let powers = const { powers() };
        let pairs = (S - 2) / 2;
        for (power, to) in to.iter_mut().enumerate() {
            let mut sum = if power + 1 == M { m[S - 1] } else { V::splat(0.0) };
            sum = if power == 0 { sum.add(m[0]) } else { sum };
            for pair in 0..pairs {
                let (plus, minus) = (m[1 + 2 * pair], m[2 + 2 * pair]);
                let both = if power % 2 == 0 { plus.add(minus) } else { plus.sub(minus) };
                sum = if power == 0 || pair == 0 {
                    sum.add(both)
                } else {
                    both.mul_add(V::splat(powers[pair][power]), sum)
                };
            }
            *to = sum;
        }
        to
    }
}

/// Transforms tiles of `R` by `C` inputs from a plane in blocks of channels.
///
/// # Safety
/// The plane and the strip's tiles are in bounds; the processor must have the instruction set of `V`.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn scatter<V: Lanes, const R: usize, const C: usize>(strip: &Strip, plane: *const f32) {
    let width = V::COUNT;
    let (top, bottom) = within(strip.row, R, strip.rows);
    for index in 0..strip.count {
        let column = strip.column + (index * strip.step).cast_signed();
        let (left, right) = within(column, C, strip.columns);
        let origin =
            plane.wrapping_offset((strip.row * strip.columns.cast_signed() + column) * width.cast_signed());
        // SAFETY: only rows and columns of the plane are read, and the tile is in bounds.
        unsafe {
            let mut half = [[V::splat(0.0); R]; C];
            let inside = (top, bottom, left, right) == (0, R, 0, C);
            for (c, column) in half.iter_mut().enumerate() {
                let mut d = [V::splat(0.0); R];
                for (r, value) in d.iter_mut().enumerate() {
                    if inside || (r >= top && r < bottom && c >= left && c < right) {
                        *value = V::load(origin.wrapping_add((r * strip.columns + c) * width));
                    }
                }
                *column = input::<V, R>(&d);
            }
            let to = strip.tiles.add(index * width);
            for r in 0..R {
                let line: [V; C] = std::array::from_fn(|c| half[c][r]);
                for (c, value) in input::<V, C>(&line).into_iter().enumerate() {
                    value.store(to.add((r * C + c) * strip.frequency));
                }
            }
        }
    }
}

/// Transforms tiles of `R` by `C` sums back to `M` by `N` outputs, and stores them in a plane in blocks of channels.
///
/// # Safety
/// As for [`scatter`]; no other thread may write these rows and columns.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub(super) unsafe fn gather<V: Lanes, const R: usize, const C: usize, const M: usize, const N: usize>(
    strip: &Strip,
    store: &Store,
) {
    let width = V::COUNT;
    let (_, bottom) = within(strip.row, M, strip.rows);
    // SAFETY: as the caller promises; only rows and columns of the plane are stored.
    unsafe {
        let bias = V::load_first(store.bias, store.biases.min(width));
        let (low, high) = (V::splat(store.low), V::splat(store.high));
        for index in 0..strip.count {
            let column = strip.column + (index * N).cast_signed();
            let (_, right) = within(column, N, strip.columns);
            let from = strip.tiles.add(index * width);
            let mut half = [[V::splat(0.0); M]; C];
            for c in 0..C {
                let line: [V; R] = std::array::from_fn(|r| V::load(from.add((r * C + c) * strip.frequency)));
                half[c] = output::<V, R, M>(&line);
            }
            let first = (strip.row * strip.columns.cast_signed() + column) * width.cast_signed();
            for r in 0..bottom {
                let line: [V; C] = std::array::from_fn(|c| half[c][r]);
                for (c, value) in output::<V, C, N>(&line).into_iter().enumerate().take(right) {
                    let at = first + ((r * strip.columns + c) * width).cast_signed();
                    let mut sum = value.add(bias);
                    if !store.residual.is_null() {
                        sum = sum.add(V::load(store.residual.offset(at)));
                    }
                    // Weights of padded outputs are zero, and so are their sums, unless an input is not finite.
                    let sum = high.min(low.max(sum)).keep_first(store.biases.min(width));
                    sum.store(store.y.offset(at));
                }
            }
        }
    }
}
