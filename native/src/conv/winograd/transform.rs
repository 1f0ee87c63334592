//! Winograd's transforms of tiles of inputs and of tiles of sums, one block of channels at a time.

use crate::lanes::Lanes;
use ovolo::op::winograd::POINTS;

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
    /// Tiles, and columns between them.
    pub count: usize,
    pub step: usize,
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

/// Pairs of points of `op::winograd` at most.
const PAIRS: usize = POINTS.len();

/// The product of `t - p^2` over so many points, without one of them, by rising powers of `t`; the highest has
/// factor 1.
const fn product(pairs: usize, except: usize) -> [f64; PAIRS + 1] {
    let mut polynomial = [0.0; PAIRS + 1];
    polynomial[0] = 1.0;
    let mut pair = 0;
    while pair < pairs {
        if pair != except {
            let mut power = PAIRS;
            while power > 0 {
                polynomial[power] = polynomial[power - 1] - POINTS[pair] * POINTS[pair] * polynomial[power];
                power -= 1;
            }
            polynomial[0] *= -POINTS[pair] * POINTS[pair];
        }
        pair += 1;
    }
    polynomial
}

/// The factors of a transform of `size` inputs: for each pair of points those of the even inputs and of the odd
/// ones, then those of zero and infinity.
const fn factors(size: usize) -> [[[f32; PAIRS + 1]; 2]; PAIRS + 1] {
    let pairs = size.saturating_sub(2) / 2;
    let mut factors = [[[0.0; PAIRS + 1]; 2]; PAIRS + 1];
    let mut pair = 0;
    while pair <= PAIRS {
        let (except, point) = if pair < pairs { (pair, POINTS[pair]) } else { (PAIRS, 1.0) };
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

/// The powers of points that make up the outputs of a tile.
const fn powers() -> [[f32; PAIRS]; PAIRS] {
    let mut powers = [[1.0; PAIRS]; PAIRS];
    let mut pair = 0;
    while pair < PAIRS {
        let (mut power, mut value) = (0, 1.0);
        while power < PAIRS {
            powers[pair][power] = value as f32;
            value *= POINTS[pair];
            power += 1;
        }
        pair += 1;
    }
    powers
}

/// The sum of every second element from `first` on, by factors.
///
/// # Safety
/// The processor has the instruction set of `V`.
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

/// `B' d` of a column of `S` elements: even and odd powers of a point and of its negative are the same, but for
/// the sign of the odd ones.
///
/// # Safety
/// The processor has the instruction set of `V`.
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

/// `A' m` of a column of `S` elements: `M` outputs.
///
/// # Safety
/// The processor has the instruction set of `V`.
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

/// Transforms tiles of inputs of `R` by `C` from a plane in blocks of channels.
///
/// # Safety
/// The plane and the strip's tiles are in bounds; the processor has the instruction set of `V`.
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
        // SAFETY: only rows and columns of the plane are read; the tile is in bounds.
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

/// Transforms tiles of sums of `R` by `C` back, to `M` by `N` outputs, and stores them into a plane in blocks of
/// channels.
///
/// # Safety
/// As [`scatter`]; no other thread writes these rows and columns.
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
                    high.min(low.max(sum)).store(store.y.offset(at));
                }
            }
        }
    }
}
