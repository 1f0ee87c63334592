//! Strassen's algorithm, one level: seven products of half the size where a product in halves takes eight.
//!
//! With the left operand in quarters `a11` to `a22` (rows, then columns) and the right in `b11` to `b22`,
//! product `p` is `left[p] * right[p]`, both sums of quarters, and each quarter of the result is a sum of
//! products: V. Strassen, "Gaussian Elimination is not Optimal" (Numerische Mathematik 13, 1969). It is his
//! form and not Winograd's of fewer sums: sums of the left are cheap, sums of constant weights are made once,
//! and of the sums of the result his form has twelve, taken where a product leaves the registers, the other
//! fourteen (J. Huang, T. Smith, G. Henry and R. van de Geijn, "Strassen's Algorithm Reloaded", SC 2016).

use super::{Arity, Flags, Op, OpDef, matmul, plain, post, post_attr, window};
use crate::attr::{Attr, Attrs};
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// Factors of the four quarters in a sum: upper left, upper right, lower left, lower right.
type Factors = [f64; 4];

/// One of the products: the sums that are multiplied, and the quarters of the result that it is part of.
pub struct Product {
    /// Of quarters of the left operand.
    pub left: Factors,
    /// Of quarters of the right operand.
    pub right: Factors,
    /// Of the product in each quarter of the result.
    pub result: Factors,
}

/// The products.
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

/// The sums of weights: pure arithmetic on constants, as `winograd-weights` is.
pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "strassen-weights",
        doc: "weights b[K,N] of a product, or w[N,K,1,1] of a 1x1 convolution, as Strassen's algorithm takes them: u[7,K/2,N/2]",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags::default(),
        infer: |_, types| {
            plain(types)?;
            let (w, sizes) = (types[0], sizes(types[0]));
            let Some([depth, columns]) = sizes.filter(|_| w.dtype == DType::F32) else {
                return Err(format!(
                    "operand 0 is {w}, not f32 of two dimensions, or of four that end in 1x1"
                ));
            };
            if depth % 2 + columns % 2 != 0 {
                return Err(format!("operand 0 is {w}: {depth} by {columns} cannot be halved both ways"));
            }
            Ok(TensorType::plain(w.dtype, [PRODUCTS.len(), depth / 2, columns / 2]))
        },
        eval: eval_weights,
        flops: |_, _, _| 0.0,
        logical: None,
    }]
}

/// Rows and columns of the right operand that weights are.
fn sizes(w: &TensorType) -> Option<[usize; 2]> {
    match w.shape[..] {
        [depth, columns] => Some([depth, columns]),
        [outputs, channels, 1, 1] => Some([channels, outputs]),
        _ => None,
    }
}

/// The lowered product and the lowered convolution.
pub(super) fn lowered(matmul: Op, conv: Op) -> Vec<OpDef> {
    let op = |name, doc, arity, infer, eval, logical| OpDef {
        name,
        doc,
        arity: Arity::Post(arity),
        attrs: vec![post_attr()],
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval,
        flops,
        logical: Some(logical),
    };
    vec![
        op(
            "native.matmul-strassen",
            "matrix product by Strassen's algorithm, from sums of weights; then a post chain",
            2,
            infer_matmul,
            eval_matmul,
            matmul,
        ),
        op(
            "native.conv-strassen",
            "1x1 convolution by Strassen's algorithm, from sums of weights; then a post chain",
            3,
            infer_conv,
            eval_conv,
            conv,
        ),
    ]
}

/// Rows and columns of the right operand, from the type of its sums.
pub fn whole(u: &TensorType) -> Option<[usize; 2]> {
    match u.shape[..] {
        [7, depth, columns] => Some([2 * depth, 2 * columns]),
        _ => None,
    }
}

fn check(u: &TensorType, left: &TensorType, layouts: &[&str]) -> Result<[usize; 2], String> {
    let sums = whole(u).filter(|_| u.dtype == DType::F32 && left.dtype == DType::F32);
    let sizes =
        sums.ok_or_else(|| format!("input {left} with weights {u}: it takes f32, and sums [7,K/2,N/2]"))?;
    if !layouts.contains(&u.layout.to_string().as_str()) {
        return Err(format!("input {left} with weights {u}: it takes them in {}", layouts.join(" or ")));
    }
    Ok(sizes)
}

fn infer_matmul(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let right = TensorType::plain(types[1].dtype, check(types[1], types[0], &["Cab16c", "Cab8c"])?);
    let mut types = types.to_vec();
    types[1] = &right;
    matmul::infer(attrs, &types)
}

fn infer_conv(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let (x, u) = (types[0], types[1]);
    let layout = match x.layout.to_string().as_str() {
        "nChw16c" => "Cab16c",
        "nChw8c" => "Cab8c",
        other => return Err(format!("operand 0 is in layout {other}: it takes nChw16c or nChw8c")),
    };
    let [channels, outputs] = check(u, x, &[layout])?;
    let w = TensorType::plain(u.dtype, [outputs, channels, 1, 1]);
    let unit = Attrs::new().ints("strides", &[1, 1]).ints("dilations", &[1, 1]).ints("pads", &[0; 4]);
    let unit = unit.int("groups", 1).with("post", Attr::Post(Vec::new()));
    let result = window::infer_conv(&unit, &[x, &w, types[2]])?.with_layout(x.layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}

/// Quarter `q` of a matrix of `columns` columns, as an index of its element; rows past the end are none.
fn quarter(q: usize, half: [usize; 2], columns: usize, row: usize, column: usize) -> usize {
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

/// The product of `rows` rows with what `u[7,K/2,N/2]` are the sums of. Of an odd number of rows the lower
/// half has one less, which stands for zeros.
fn product(left: &[f64], rows: usize, u: &[f64], [depth, columns]: [usize; 2]) -> Vec<f64> {
    let half = [rows.div_ceil(2), depth / 2, columns / 2];
    let mut result = vec![0.0; rows * columns];
    for (Product { left: factors, result: parts, .. }, right) in
        PRODUCTS.iter().zip(u.chunks_exact((half[1] * half[2]).max(1)))
    {
        for row in 0..half[0] {
            let sum = |i: usize| -> f64 {
                let at = |q: usize| left.get(quarter(q, [half[0], half[1]], depth, row, i)).copied();
                (0..4).filter(|q| factors[*q] != 0.0).map(|q| factors[q] * at(q).unwrap_or(0.0)).sum()
            };
            let sums: Vec<f64> = (0..half[1]).map(sum).collect();
            for column in 0..half[2] {
                let value: f64 =
                    sums.iter().enumerate().map(|(i, sum)| sum * right[i * half[2] + column]).sum();
                for q in (0..4).filter(|q| parts[*q] != 0.0) {
                    let to = result.get_mut(quarter(q, [half[0], half[2]], columns, row, column));
                    if let Some(to) = to {
                        *to += parts[q] * value;
                    }
                }
            }
        }
    }
    result
}

fn eval_matmul(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let u = operands[1].to_layout(&Layout::PLAIN);
    let sizes = whole(u.ty()).expect("infer accepted");
    let rows = operands[0].ty().shape.count() / sizes[0].max(1);
    let rows = if sizes[0] == 0 { ty.shape.count() / sizes[1].max(1) } else { rows };
    let values = product(&operands[0].to_f64(), rows, &u.to_f64(), sizes);
    post::apply(attrs.post(), &operands[2..], Tensor::from_f64(ty.dtype, ty.shape.clone(), &values))
}

fn eval_conv(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let plain: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    let [channels, outputs] = whole(plain[1].ty()).expect("infer accepted");
    let (batch, pixels) = (ty.shape[0], ty.shape[2] * ty.shape[3]);
    let (x, bias) = (plain[0].to_f64(), plain[2].to_f64());
    let rows = batch * pixels;
    let at = |row: usize, channel: usize| x[(row / pixels * channels + channel) * pixels + row % pixels];
    let left: Vec<f64> = (0..rows * channels).map(|i| at(i / channels, i % channels)).collect();
    let values = product(&left, rows, &plain[1].to_f64(), [channels, outputs]);
    let mut result = vec![0.0; ty.shape.count()];
    for (i, value) in values.into_iter().enumerate() {
        let (row, output) = (i / outputs, i % outputs);
        result[(row / pixels * outputs + output) * pixels + row % pixels] = value + bias[output];
    }
    let result = Tensor::from_f64(ty.dtype, ty.shape.clone(), &result);
    let extras: Vec<&Tensor> = plain[3..].iter().collect();
    post::apply(attrs.post(), &extras, result).to_layout(&ty.layout)
}

/// What is really computed: seven products, five sums on the left, and eight of products.
#[allow(clippy::cast_precision_loss)]
fn flops(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Some([depth, columns]) = whole(types[1]) else { return 0.0 };
    let (depth, columns) = (depth as f64 / 2.0, columns as f64 / 2.0);
    // Images, and rows of one: pixels of a convolution.
    let (images, rows) = match output.layout.is_plain() {
        true => output.shape.split_at(output.shape.rank() - 2),
        false => output.shape.split_at(1),
    };
    let rows = if output.layout.is_plain() { rows[0] } else { rows[1] * rows[2] };
    let rows = (images.iter().product::<usize>() * rows.div_ceil(2)) as f64;
    rows * (14.0 * depth * columns + 5.0 * depth + 8.0 * columns)
}
