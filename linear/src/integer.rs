//! Products of 8-bit integers, summed in 32 bits, and what stands around them: `native.matmul-integer`,
//! `native.matmul-integer-packed`, `native.conv-integer`, `native.conv-integer-packed`, `native.lstm-integer`,
//! `native.quantize`, `native.dequantize`, `native.requantize`, `native.table`, `native.conv-requantize`,
//! `native.conv-requantize-coupled` and `native.conv-requantize-depthwise`.
//!
//! Factors minus their zero points fit into 16 bits. Neighbours along the inner dimension are multiplied in pairs and
//! added, for which processors have an instruction. Those that multiply bytes in fours do that instead, where packing a
//! factor for it pays.

mod added;
mod affine;
mod bands;
mod batched;
mod chain;
mod convolution;
mod couples;
mod depthwise;
mod direct;
mod dot;
mod few;
mod formula;
mod fused;
mod geometry;
mod level;
mod levels;
mod lookup;
mod lstm;
mod matrix;
mod packed;
mod padded;
mod pair;
mod pixels;
mod prepared;
mod quad;
mod requantize;
mod rounding;
pub mod rows;
mod strips;
mod sums;
mod table;
mod window;

use self::batched::Batched;
use super::args::{Shared, part};
use super::lanes::Isa;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpDef, OpError};
use ovolo::tensor::{DType, Shape, TensorType};

/// Returns the op that makes couples of weights.
pub(super) fn definition() -> OpDef {
    couples::definition()
}

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.matmul-integer", "matmul-integer", contract, kernel),
    packed::OP,
    convolution::OP,
    window::OP,
    lstm::OP,
    level::QUANTIZE,
    level::DEQUANTIZE,
    requantize::OP,
    lookup::OP,
    fused::OP,
    fused::COUPLED,
    depthwise::OP,
];

/// The columns of a tile.
const COLUMNS: usize = 16;
/// The most rows of a tile.
const ROWS: usize = 4;
/// The columns of a task.
const STRIP: usize = 64;
/// The rows of a task.
const BAND: usize = 64;
/// The most columns that are multiplied one by one, each as a row of 16-bit integers.
const SINGLE: usize = 4;

/// Returns the index of an operand's element for each element of a shape that it broadcasts to.
fn broadcast(operand: &[usize], shape: &[usize]) -> Vec<usize> {
    let strides = Shape::from(operand).strides();
    let skip = shape.len() - operand.len();
    let mut index = vec![0; Shape::from(shape).count()];
    for (position, index) in index.iter_mut().enumerate() {
        let mut rest = position;
        for axis in (0..shape.len()).rev() {
            if axis >= skip && operand[axis - skip] != 1 {
                *index += rest % shape[axis] * strides[axis - skip];
            }
            rest /= shape[axis];
        }
    }
    index
}

struct Product {
    rows: usize,
    columns: usize,
    depth: usize,
    /// The offsets of both factors for each product of the batch.
    batch: Vec<(usize, usize)>,
    /// The index of the zero point of each row of the first factor.
    left_points: Vec<usize>,
    /// The first zero point of the second factor in each product, and whether each column has its own.
    right_points: Vec<usize>,
    by_column: bool,
    signed: [bool; 2],
    /// The rows of the first factor in all of its matrices.
    left_rows: usize,
}

impl Product {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [a, b, p, q] = call.inputs else { return None };
        let (a_outer, b_outer) = (&a.shape[..a.shape.rank() - 2], &b.shape[..b.shape.rank() - 2]);
        let (mut rows, depth) = (a.shape[a.shape.rank() - 2], a.shape[a.shape.rank() - 1]);
        let columns = b.shape[b.shape.rank() - 1];
        let mut left: Vec<usize> = a_outer.to_vec();
        left.push(rows);
        let point: Vec<usize> = p.shape.iter().copied().take(p.shape.rank().saturating_sub(1)).collect();
        let left_points = broadcast(&point, &left);
        let left_rows = left.iter().product();
        let by_column = q.shape.last().copied().unwrap_or(1) > 1;
        let q_outer: Vec<usize> = q.shape.iter().copied().take(q.shape.rank().saturating_sub(2)).collect();
        let outer = &call.output.shape[..call.output.shape.rank() - 2];
        let mut batch = vec![(0, 0)];
        let mut right_points = vec![0];
        if b_outer.iter().product::<usize>() == 1 {
            rows = left_rows;
        } else {
            let size = if by_column { columns } else { 1 };
            let points = broadcast(&q_outer, b_outer);
            let (ia, ib) = (broadcast(a_outer, outer), broadcast(b_outer, outer));
            batch = ia.iter().zip(&ib).map(|(a, b)| (a * rows, b * depth * columns)).collect();
            right_points = ib.iter().map(|b| points[*b] * size).collect();
        }
        let signed = [a, b].map(|ty: &&TensorType| ty.dtype == DType::I8);
        Some(Self { rows, columns, depth, batch, left_points, right_points, by_column, signed, left_rows })
    }

    /// Returns the inner dimension of the packed first factor.
    fn pairs(&self) -> usize {
        self.depth.div_ceil(2)
    }

    /// Returns whether columns are multiplied one by one.
    fn is_narrow(&self) -> bool {
        self.columns <= SINGLE && self.batch.len() == 1
    }

    /// Multiplies each column, copied to scratch memory, by each row.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    unsafe fn narrow(&self, args: &Args<'_>) {
        let [a, b, p, q] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let columns = Shared::<i16>::scratch(args);
        let output = Shared::<i32>::output(args);
        for column in 0..self.columns {
            for at in 0..self.depth {
                let own = if self.by_column { column } else { 0 };
                // SAFETY: the element is in the factor, and the column in the scratch memory.
                unsafe {
                    let point = wide(*q.at(self.right_points[0] + own), self.signed[1]);
                    let value = wide(*b.at(at * self.columns + column), self.signed[1]);
                    *columns.at(column * self.depth + at) = value - point;
                }
            }
        }
        let few = self.rows * self.depth < super::args::PARALLEL;
        let parts = if few { 1 } else { args.team.threads().min(self.rows) };
        args.team.run(parts, |index| {
            for row in part(self.rows, parts, index, 16) {
                for column in 0..self.columns {
                    // SAFETY: the row and the column have this depth, and only this task writes the row.
                    unsafe {
                        let point = wide(*p.at(self.left_points[row]), self.signed[0]);
                        let to = output.at(row * self.columns + column);
                        let (row, column) = (a.at(row * self.depth), columns.at(column * self.depth));
                        *to = dot::dot(row, self.signed[0], point, column, self.depth);
                    }
                }
            }
        });
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if let Some(batched) = Batched::new(call) {
        return Ok(batched.contract());
    }
    let Some(product) = Product::new(call) else { return reference::contract(call) };
    if product.is_narrow() {
        let scratch = product.columns * product.depth * size_of::<i16>();
        return Ok(Contract { scratch, ..plain_contract("columns") });
    }
    let scratch = product.left_rows * product.pairs() * 2 * size_of::<i16>();
    Ok(Contract { scratch, ..plain_contract("pairs") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if let Some(batched) = Batched::new(call) {
        return Ok(Box::new(batched));
    }
    match Product::new(call) {
        Some(product) => Ok(Box::new(product)),
        None => reference::kernel(call),
    }
}

/// Returns an 8-bit integer as 16 bits.
#[inline(always)]
fn wide(byte: u8, signed: bool) -> i16 {
    if signed { i16::from(byte.cast_signed()) } else { i16::from(byte) }
}

impl Kernel for Product {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.is_narrow() {
            // SAFETY: as the caller promises.
            return unsafe { self.narrow(args) };
        }
        let [a, b, p, q] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let packed = Shared::<i16>::scratch(args);
        let output = Shared::<i32>::output(args);
        let width = 2 * self.pairs();
        let few = self.left_rows * self.depth < super::args::PARALLEL;
        let parts = if few { 1 } else { args.team.threads().min(self.left_rows) };
        args.team.run(parts, |index| {
            for row in part(self.left_rows, parts, index, 1) {
                // SAFETY: the row is in bounds of the factor and of the scratch memory, and only this task writes it.
                unsafe {
                    let point = wide(*p.at(self.left_points[row]), self.signed[0]);
                    let from = std::slice::from_raw_parts(a.at(row * self.depth), self.depth);
                    let to = std::slice::from_raw_parts_mut(packed.at(row * width), width);
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = wide(*from, self.signed[0]) - point;
                    }
                    to[self.depth..].fill(0);
                }
            }
        });
        let (strips, bands) = (self.columns.div_ceil(STRIP), self.rows.div_ceil(BAND));
        args.team.run(self.batch.len() * strips * bands, |task| {
            let (one, strip, band) = (task / (strips * bands), task / bands % strips, task % bands);
            let (first_row, right) = self.batch[one];
            let rows = band * BAND..((band + 1) * BAND).min(self.rows);
            for row in rows.clone().step_by(ROWS) {
                let end = ((strip + 1) * STRIP).min(self.columns);
                for column in (strip * STRIP..end).step_by(COLUMNS) {
                    let mut points = [0; COLUMNS];
                    let columns = (end - column).min(COLUMNS);
                    for (at, point) in points[..columns].iter_mut().enumerate() {
                        let own = if self.by_column { column + at } else { 0 };
                        // SAFETY: there is a zero point for each column, or one for all of them.
                        *point = wide(unsafe { *q.at(self.right_points[one] + own) }, self.signed[1]);
                    }
                    let tile = Tile {
                        a: packed.at((first_row + row) * width),
                        a_stride: width,
                        b: b.at(right + column),
                        b_stride: self.columns,
                        c: output.at((one * self.rows + row) * self.columns + column),
                        c_stride: self.columns,
                        depth: self.depth,
                        rows: (rows.end - row).min(ROWS),
                        columns,
                        points,
                        signed: self.signed[1],
                    };
                    // SAFETY: the tile is within the factors and the result, and only this task writes it.
                    unsafe { tile.run() };
                }
            }
        });
    }
}

/// A small part of the result.
struct Tile {
    /// The rows of the first factor, in 16 bits, with an even number of elements.
    a: *const i16,
    a_stride: usize,
    b: *const u8,
    b_stride: usize,
    c: *mut i32,
    c_stride: usize,
    depth: usize,
    rows: usize,
    columns: usize,
    points: [i16; COLUMNS],
    signed: bool,
}

impl Tile {
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if Isa::running() >= Isa::Avx2 {
                return match self.rows {
                    1 => self.pairs::<1>(),
                    2 => self.pairs::<2>(),
                    3 => self.pairs::<3>(),
                    _ => self.pairs::<4>(),
                };
            }
            self.plain();
        }
    }

    unsafe fn plain(&self) {
        for row in 0..self.rows {
            for column in 0..self.columns {
                let mut sum = 0_i32;
                for at in 0..self.depth {
                    // SAFETY: as the caller promises.
                    let (a, b) = unsafe {
                        (*self.a.add(row * self.a_stride + at), *self.b.add(at * self.b_stride + column))
                    };
                    let b = wide(b, self.signed) - self.points[column];
                    sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                }
                // SAFETY: as the caller promises.
                unsafe { *self.c.add(row * self.c_stride + column) = sum };
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn pairs<const R: usize>(&self) {
        use std::arch::x86_64::{
            __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16,
            _mm256_loadu_si256, _mm256_madd_epi16, _mm256_permute2x128_si256, _mm256_set1_epi32,
            _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi16, _mm256_unpackhi_epi16,
            _mm256_unpacklo_epi16,
        };
        // SAFETY: as the caller promises.
        unsafe {
            let points = _mm256_loadu_si256(self.points.as_ptr().cast::<__m256i>());
            let load = |at: usize| {
                if at >= self.depth {
                    return _mm256_setzero_si256();
                }
                let from = self.b.add(at * self.b_stride);
                let mut padded = [0_u8; COLUMNS];
                let bytes = if self.columns == COLUMNS {
                    _mm_loadu_si128(from.cast::<__m128i>())
                } else {
                    std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), self.columns);
                    _mm_loadu_si128(padded.as_ptr().cast::<__m128i>())
                };
                let wide =
                    if self.signed { _mm256_cvtepi8_epi16(bytes) } else { _mm256_cvtepu8_epi16(bytes) };
                _mm256_sub_epi16(wide, points)
            };
            let mut sums = [[_mm256_setzero_si256(); 2]; R];
            let mut at = 0;
            while at < self.depth {
                let (even, odd) = (load(at), load(at + 1));
                let low = _mm256_unpacklo_epi16(even, odd);
                let high = _mm256_unpackhi_epi16(even, odd);
                for (row, sum) in sums.iter_mut().enumerate() {
                    let pair = self.a.add(row * self.a_stride + at).cast::<i32>().read_unaligned();
                    let pair = _mm256_set1_epi32(pair);
                    sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(pair, low));
                    sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(pair, high));
                }
                at += 2;
            }
            for (row, [low, high]) in sums.into_iter().enumerate() {
                // The halves have the columns 0 to 3 and 8 to 11, and 4 to 7 and 12 to 15.
                let mut line = [0_i32; COLUMNS];
                let first = _mm256_permute2x128_si256::<0x20>(low, high);
                let second = _mm256_permute2x128_si256::<0x31>(low, high);
                _mm256_storeu_si256(line.as_mut_ptr().cast::<__m256i>(), first);
                _mm256_storeu_si256(line.as_mut_ptr().add(8).cast::<__m256i>(), second);
                std::ptr::copy_nonoverlapping(line.as_ptr(), self.c.add(row * self.c_stride), self.columns);
            }
        }
    }
}
