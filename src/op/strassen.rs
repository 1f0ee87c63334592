//! One level of Strassen's algorithm: seven products of half the size instead of eight.
//!
//! The left operand is cut into quarters `a11` to `a22` (rows, then columns) and the right one into `b11` to `b22`.
//! Product `p` is `left[p] * right[p]`, where both factors are sums of quarters, and each quarter of the result is
//! a sum of products: V. Strassen, "Gaussian Elimination is not Optimal" (Numerische Mathematik 13, 1969). This is
//! Strassen's form and not Winograd's, which has fewer sums in total. Sums of the left operand are cheap, and sums
//! of constant weights are made once. The sums of the result are made where a product leaves the registers, and of
//! these Strassen's form has twelve, Winograd's fourteen (J. Huang, T. Smith, G. Henry and R. van de Geijn,
//! "Strassen's Algorithm Reloaded", SC 2016).

use super::{Arity, Flags, OpDef, OpError, plain};
use crate::attr::Attrs;
use crate::tensor::{DType, Tensor, TensorType};

/// Factors of the four quarters in a sum: upper left, upper right, lower left, lower right.
type Factors = [f64; 4];

/// One of the products: the sums that are multiplied, and the quarters of the result that it is part of.
pub struct Product {
    /// The factors of the left operand's quarters.
    pub left: Factors,
    /// The factors of the right operand's quarters.
    pub right: Factors,
    /// The factors of the product in each quarter of the result.
    pub result: Factors,
}

/// The seven products.
#[rustfmt::skip]
pub const PRODUCTS: [Product; 7] = [
    Product { left: [1., 0., 0., 1.], right: [1., 0., 0., 1.], result: [1., 0., 0., 1.] },
    Product { left: [0., 0., 1., 1.], right: [1., 0., 0., 0.], result: [0., 0., 1., -1.] },
    Product { left: [1., 0., 0., 0.], right: [0., 1., 0., -1.], result: [0., 1., 0., 1.] },
    Product { left: [0., 0., 0., 1.], right: [-1., 0., 1., 0.], result: [1., 0., 1., 0.] },
    Product { left: [1., 1., 0., 0.], right: [0., 0., 0., 1.], result: [-1., 1., 0., 0.] },
    Product { left: [-1., 0., 1., 0.], right: [1., 1., 0., 0.], result: [0., 0., 0., 1.] },
    Product { left: [0., 1., 0., -1.], right: [0., 0., 1., 1.], result: [1., 0., 0., 0.] },
];

/// Returns the op that makes the sums of weights. It is only evaluated for constants, as `winograd-weights` is.
pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "strassen-weights",
        doc: "weights b[K,N] of a product, or w[N,K,1,1] of a 1x1 convolution, in the form that Strassen's algorithm takes: u[7,K/2,N/2]",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags { inexact: true, ..Flags::default() },
        infer: |_, types| {
            plain(types)?;
            let (w, sizes) = (types[0], sizes(types[0]));
            let Some([depth, columns]) = sizes.filter(|_| w.dtype == DType::F32) else {
                return Err(OpError::operand(
                    0,
                    w,
                    ", not f32 of two dimensions, or of four that end in 1x1",
                ));
            };
            if depth % 2 + columns % 2 != 0 {
                return Err(OpError::operand(
                    0,
                    w,
                    format!(": {depth} by {columns} cannot be halved both ways"),
                ));
            }
            Ok(TensorType::plain(w.dtype, [PRODUCTS.len(), depth / 2, columns / 2]))
        },
        eval: eval_weights,
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }]
}

/// Returns the rows and columns of the weights as a right operand.
fn sizes(w: &TensorType) -> Option<[usize; 2]> {
    match w.shape[..] {
        [depth, columns] => Some([depth, columns]),
        [outputs, channels, 1, 1] => Some([channels, outputs]),
        _ => None,
    }
}

/// Returns the rows and columns of the right operand, given the type of its sums.
pub fn whole(u: &TensorType) -> Option<[usize; 2]> {
    match u.shape[..] {
        [7, depth, columns] => Some([2 * depth, 2 * columns]),
        _ => None,
    }
}

/// Returns the index of an element of quarter `q` in a matrix of `columns` columns. For rows past the end, the
/// index is outside the matrix.
pub fn quarter(q: usize, half: [usize; 2], columns: usize, row: usize, column: usize) -> usize {
    (row + q / 2 * half[0]) * columns + column + q % 2 * half[1]
}

fn eval_weights(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let transposed = operands[0].ty().shape.rank() == 4;
    let (half, values) = ([ty.shape[1], ty.shape[2]], operands[0].to_f64());
    let (depth, columns) = (2 * half[0], 2 * half[1]);
    let at = |q: usize, row: usize, column: usize| {
        let index = quarter(q, half, columns, row, column);
        values[if transposed { index % columns * depth + index / columns } else { index }]
    };
    let mut result = Vec::with_capacity(ty.shape.count());
    for Product { right, .. } in &PRODUCTS {
        for index in 0..half[0] * half[1] {
            let (row, column) = (index / half[1], index % half[1]);
            let parts = right.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
            result.push(parts.map(|(q, factor)| factor * at(q, row, column)).sum());
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}
