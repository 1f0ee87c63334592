//! What the ops of Strassen's algorithm compute, and how their sums of weights are computed.

use ovolo::attr::Attrs;
use ovolo::op::strassen::{PRODUCTS, Product, quarter, whole};
use ovolo::op::{AttrDef, Attributes, Draw, Made, post};
use ovolo::tensor::{DType, Tensor, TensorType};

/// The attributes of both ops: only a post chain, because sums of weights support neither strides nor groups.
pub(crate) const ATTRIBUTES: Attributes = Attributes::Only(|| vec![AttrDef::post()]);

/// The sums of the weights of a matrix product.
pub(crate) const OF_MATMUL: Made = Made {
    operand: 1,
    maker: "strassen-weights",
    source: |_, made| Some((TensorType::plain(made.dtype, whole(made)?), Attrs::new())),
    sample: |draw| sample([even(draw), even(draw)]),
};

/// The sums of the weights of a 1x1 convolution.
pub(crate) const OF_CONV: Made = Made {
    operand: 1,
    maker: "strassen-weights",
    source: |_, made| {
        let [channels, outputs] = whole(made)?;
        Some((TensorType::plain(made.dtype, [outputs, channels, 1, 1]), Attrs::new()))
    },
    sample: |draw| sample([even(draw), even(draw), 1, 1]),
};

fn sample<const RANK: usize>(shape: [usize; RANK]) -> (Attrs, TensorType) {
    (Attrs::new(), TensorType::plain(DType::F32, shape))
}

fn even(draw: &mut dyn Draw) -> usize {
    2 * draw.size().max(1)
}

/// Returns the product of `rows` rows with the weights whose sums are `u[7,K/2,N/2]`. If the number of rows is odd,
/// the lower half is extended by a row of zeros.
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

pub(crate) fn eval_matmul(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let u = operands[1];
    let sizes = whole(u.ty()).expect("inference has checked the shapes");
    let rows = operands[0].ty().shape.count() / sizes[0].max(1);
    let rows = if sizes[0] == 0 { ty.shape.count() / sizes[1].max(1) } else { rows };
    let values = product(&operands[0].to_f64(), rows, &u.to_f64(), sizes);
    post::apply(attrs.post(), &operands[2..], Tensor::from_f64(ty.dtype, ty.shape.clone(), &values))
}

pub(crate) fn eval_conv(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [channels, outputs] = whole(operands[1].ty()).expect("inference has checked the shapes");
    let (batch, pixels) = (ty.shape[0], ty.shape[2] * ty.shape[3]);
    let (x, bias) = (operands[0].to_f64(), operands[2].to_f64());
    let rows = batch * pixels;
    let at = |row: usize, channel: usize| x[(row / pixels * channels + channel) * pixels + row % pixels];
    let left: Vec<f64> = (0..rows * channels).map(|i| at(i / channels, i % channels)).collect();
    let values = product(&left, rows, &operands[1].to_f64(), [channels, outputs]);
    let mut result = vec![0.0; ty.shape.count()];
    for (i, value) in values.into_iter().enumerate() {
        let (row, output) = (i / outputs, i % outputs);
        result[(row / pixels * outputs + output) * pixels + row % pixels] = value + bias[output];
    }
    let result = Tensor::from_f64(ty.dtype, ty.shape.clone(), &result);
    post::apply(attrs.post(), &operands[3..], result)
}

/// Returns the floating-point operations: those of seven products, of five sums of the left operand, and of eight
/// sums of products.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn flops(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Some([depth, columns]) = whole(types[1]) else { return 0.0 };
    let (depth, columns) = (depth as f64 / 2.0, columns as f64 / 2.0);
    // The number of images, and the rows of one. The rows of a convolution are its pixels.
    let (images, rows) = match output.layout.is_plain() {
        true => output.shape.split_at(output.shape.rank() - 2),
        false => output.shape.split_at(1),
    };
    let rows = if output.layout.is_plain() { rows[0] } else { rows[1] * rows[2] };
    let rows = (images.iter().product::<usize>() * rows.div_ceil(2)) as f64;
    rows * (14.0 * depth * columns + 5.0 * depth + 8.0 * columns)
}
