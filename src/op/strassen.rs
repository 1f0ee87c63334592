//! One level of Strassen's algorithm: seven products of half the size instead of eight.
//!
//! The left operand is cut into quarters `a11` to `a22` (rows, then columns) and the right one into `b11` to `b22`.
//! Product `p` is `left[p] * right[p]`, where both factors are sums of quarters, and each quarter of the result is
//! a sum of products: V. Strassen, "Gaussian Elimination is not Optimal" (Numerische Mathematik 13, 1969). This is
//! Strassen's form and not Winograd's, which has fewer sums in total. Sums of the left operand are cheap, and sums
//! of constant weights are made once. The sums of the result are made where a product leaves the registers, and of
//! these Strassen's form has twelve, Winograd's fourteen (J. Huang, T. Smith, G. Henry and R. van de Geijn,
//! "Strassen's Algorithm Reloaded", SC 2016).

use super::{Arity, Flags, OpDef, OpError, plain, shape};
use crate::attr::Attrs;
use crate::tensor::{DType, Layout, Tensor, TensorType};

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
    let half = [ty.shape[1], ty.shape[2]];
    let [depth, columns] = half.map(|size| 2 * size);
    let whole = if operands[0].ty().shape.rank() == 4 {
        let rows = TensorType::plain(operands[0].ty().dtype, [depth, columns]);
        shape::copy_strided(operands[0], &rows, 0, &[1, depth.cast_signed()])
    } else {
        operands[0].to_layout(&Layout::PLAIN)
    };
    // Without copies of the elements in `f64`, which for the weights of a network are many.
    if (whole.ty().dtype, ty.dtype) == (DType::F32, DType::F32) {
        let mut result = Tensor::zeros(TensorType::plain(ty.dtype, ty.shape.clone()));
        #[allow(clippy::cast_possible_truncation)]
        sum(whole.elements::<f32>(), result.elements_mut::<f32>(), half, f64::from, |sum| sum as f32);
        return result;
    }
    let mut result = vec![0.0; ty.shape.count()];
    sum(&whole.to_f64(), &mut result, half, |value| value, |sum| sum);
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Makes the sums of the right operand for all products, row by row.
fn sum<T: Copy>(
    whole: &[T],
    to: &mut [T],
    half: [usize; 2],
    widen: impl Fn(T) -> f64,
    narrow: impl Fn(f64) -> T,
) {
    for (line, to) in to.chunks_exact_mut(half[1]).enumerate() {
        let (product, row) = (&PRODUCTS[line / half[0]], line % half[0]);
        let mut parts = product.right.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
        let mut part = || {
            let (q, factor) = parts.next()?;
            Some((*factor, &whole[quarter(q, half, 2 * half[1], row, 0)..][..half[1]]))
        };
        match (part(), part(), part()) {
            (Some((factor, a)), None, _) => {
                to.iter_mut().zip(a).for_each(|(to, a)| *to = narrow(factor * widen(*a)));
            }
            (Some((factor, a)), Some((other, b)), None) => {
                for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
                    *to = narrow(factor * widen(*a) + other * widen(*b));
                }
            }
            _ => unreachable!("a factor is a sum of one or two quarters"),
        }
    }
}
