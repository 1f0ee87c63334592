//! `native.reduce-sum-integer`: sums of bytes over pixels or over the last axes.

use super::super::args::{Shared, part, tasks};
use super::super::lanes::Isa;
use super::super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError, image};
use ovolo::tensor::DType;

/// The declaration of the op.
pub(in super::super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "plain"], "plain"),
        Form::new(&["nhwc", "plain"], "nhwc"),
    ]),
    check: Some(image::reduces_pixels),
    instruction_sets: ISAS,
    ..Lowering::new("native.reduce-sum-integer", "reduce-sum-integer", contract, kernel)
};

/// The columns whose sums are in registers together.
const COLUMNS: usize = 2 * WORDS;
/// The 16-bit integers of a vector.
const WORDS: usize = 16;
/// The bytes whose sum 16 bits hold.
const DEPTH: usize = 256;
/// What makes a byte with a sign one without, as an exclusive or and as a difference.
const FLIP: u8 = 128;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Sums::new(call) {
        Some(sums) => Ok(plain_contract(if sums.columns > 1 { "columns" } else { "rows" })),
        None => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Sums::new(call) {
        Some(sums) => Ok(Box::new(sums)),
        None => reference::kernel(call),
    }
}

/// Matrices whose rows are added to each other; the sums of a row alone are those of a matrix with one column.
struct Sums {
    matrices: usize,
    rows: usize,
    columns: usize,
    signed: bool,
}

impl Sums {
    /// Returns the matrices, if the reduced axes are adjacent.
    fn new(call: &Call<'_>) -> Option<Self> {
        let x = call.inputs[0];
        let axes: Vec<usize> =
            call.attrs.expect_ints("axes").iter().filter_map(|axis| usize::try_from(*axis).ok()).collect();
        let order = x.layout.order(x.shape.rank());
        let reduced: Vec<bool> = order.iter().map(|axis| axes.contains(axis)).collect();
        let first = reduced.iter().position(|one| *one)?;
        let last = reduced.iter().rposition(|one| *one)?;
        if !reduced[first..=last].iter().all(|one| *one) {
            return None;
        }
        let size = |some: &[usize]| some.iter().map(|axis| x.shape[*axis]).product();
        Some(Self {
            matrices: size(&order[..first]),
            rows: size(&order[first..=last]),
            columns: size(&order[last + 1..]),
            signed: x.dtype == DType::I8,
        })
    }
}

impl Kernel for Sums {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { matrices, rows, columns, signed } = *self;
        let (x, y) = (Shared::<u8>::input(args, 0), Shared::<i32>::output(args));
        // SAFETY: the second operand has one byte.
        let byte = unsafe { *Shared::<u8>::input(args, 1).at(0) };
        let point = if signed { i64::from(byte.cast_signed()) } else { i64::from(byte) };
        let offset = point + if signed { i64::from(FLIP) } else { 0 };
        // Sums wrap around, as those of the definition do.
        let offset = (offset * rows as i64) as i32;
        let strips = columns.div_ceil(COLUMNS);
        let parts = tasks(matrices * rows * columns / 4, matrices * strips, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(matrices * strips, parts, index, 1) {
                let (matrix, first) = (unit / strips, unit % strips * COLUMNS);
                let width = COLUMNS.min(columns - first);
                // SAFETY: the matrix and the result have these elements, and only this task writes these sums.
                unsafe {
                    let from = std::slice::from_raw_parts(x.at(matrix * rows * columns), rows * columns);
                    let to = std::slice::from_raw_parts_mut(y.at(matrix * columns + first), width);
                    add(from, columns, first, if signed { FLIP } else { 0 }, to);
                    to.iter_mut().for_each(|sum| *sum = sum.wrapping_sub(offset));
                }
            }
        });
    }
}

/// Writes the sums of some columns of a matrix, of at most [`COLUMNS`] from `first` on, whose bytes have no sign after an
/// exclusive or with `flip`.
///
/// # Safety
/// The columns must be columns of the matrix.
unsafe fn add(from: &[u8], columns: usize, first: usize, flip: u8, to: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(from: &[u8], columns: usize, first: usize, flip: u8, to: &mut [i32]) {
        let (halves, rest) = to.split_at_mut(to.len() / WORDS * WORDS);
        // SAFETY: as the caller promises.
        unsafe {
            match halves.len() / WORDS {
                2 => vectors::<2>(from, columns, first, flip, halves),
                1 => vectors::<1>(from, columns, first, flip, halves),
                _ => {}
            }
        }
        if !rest.is_empty() {
            body(from, columns, first + halves.len(), flip, rest);
        }
    }
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2(from, columns, first, flip, to) };
    }
    body(from, columns, first, flip, to);
}

/// As [`add`], for as many columns as `N` vectors of 16-bit integers have. The sums of 256 rows are in registers.
///
/// # Safety
/// As for [`add`]; the processor must have AVX2.
// Loops in place of iterators: closures and iterators that hold vectors are not always inlined.
#[allow(clippy::needless_range_loop)]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn vectors<const N: usize>(from: &[u8], columns: usize, first: usize, flip: u8, to: &mut [i32]) {
    use std::arch::x86_64::*;
    to.fill(0);
    let flip = _mm_set1_epi8(flip.cast_signed());
    for some in from.chunks(DEPTH * columns) {
        let mut sums = [_mm256_setzero_si256(); N];
        for row in 0..some.len() / columns {
            for at in 0..N {
                // SAFETY: the columns are in the row.
                let bytes =
                    unsafe { _mm_loadu_si128(some.as_ptr().add(row * columns + first + WORDS * at).cast()) };
                let words = _mm256_cvtepu8_epi16(_mm_xor_si128(bytes, flip));
                sums[at] = _mm256_add_epi16(sums[at], words);
            }
        }
        let mut words = [0_u16; COLUMNS];
        for at in 0..N {
            // SAFETY: all vectors have room.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(WORDS * at).cast(), sums[at]) };
        }
        for (to, sum) in to.iter_mut().zip(words) {
            *to = to.wrapping_add(i32::from(sum));
        }
    }
}

#[inline(always)]
fn body(from: &[u8], columns: usize, first: usize, flip: u8, to: &mut [i32]) {
    to.fill(0);
    if columns == 1 {
        for some in from.chunks(DEPTH) {
            to[0] = to[0].wrapping_add(some.iter().map(|byte| i32::from(*byte ^ flip)).sum::<i32>());
        }
        return;
    }
    for some in from.chunks(DEPTH * columns) {
        let mut sums = [0_u16; COLUMNS];
        for row in some.chunks_exact(columns) {
            for (sum, byte) in sums[..to.len()].iter_mut().zip(&row[first..]) {
                *sum += u16::from(*byte ^ flip);
            }
        }
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = to.wrapping_add(i32::from(sum));
        }
    }
}
