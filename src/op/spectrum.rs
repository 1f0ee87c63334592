//! `dft` and `det`.

use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, axis, count, plain};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};
use std::f64::consts::TAU;

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "dft",
            doc: "the discrete Fourier transform along an axis of complex numbers, whose last axis holds the real and \
                  the imaginary part",
            arity: Arity::Exactly(1),
            attrs: vec![
                AttrDef::new("axis", AttrKind::Int, None, "the axis, not negative and not the last one"),
                AttrDef::new("inverse", AttrKind::Int, Some(Attr::Int(0)), "1: the inverse transform"),
            ],
            flags: Flags::independent(untransformed),
            infer: |attrs, types| {
                plain(types)?;
                let at = axis(attrs, "axis", types[0].shape.rank())?;
                let complex = types[0].shape.last() == Some(&2) && types[0].dtype.is_float();
                if !complex || at + 1 == types[0].shape.rank() {
                    return Err(OpError::operand(
                        0,
                        types[0],
                        ", which holds no complex numbers along that axis",
                    ));
                }
                Ok(types[0].clone())
            },
            eval: eval_dft,
            flops: |attrs, types, _| {
                let at = usize::try_from(attrs.expect_int("axis")).unwrap_or(0);
                #[allow(clippy::cast_precision_loss)]
                let size = types[0].shape[at].max(2) as f64;
                count(types[0]) * 2.5 * size.log2()
            },
            sample: Some(draw_dft),
            lowered: None,
        },
        OpDef {
            name: "det",
            doc: "the determinant of each matrix of the last two axes",
            arity: Arity::Exactly(1),
            attrs: Vec::new(),
            flags: Flags::independent(matrices),
            infer: |_, types| {
                plain(types)?;
                match types[0].shape.split_last_chunk::<2>() {
                    Some((batch, [rows, columns])) if rows == columns && types[0].dtype.is_float() => {
                        Ok(TensorType::plain(types[0].dtype, batch.to_vec()))
                    }
                    _ => Err(OpError::operand(0, types[0], ", which holds no square matrices")),
                }
            },
            eval: eval_det,
            flops: |_, types, _| {
                #[allow(clippy::cast_precision_loss)]
                let size = types[0].shape.last().copied().unwrap_or(0) as f64;
                count(types[0]) * size
            },
            sample: Some(draw_det),
            lowered: None,
        },
    ]
}

/// All axes are kept but the one that is transformed, and the last one, which holds the parts of numbers.
fn untransformed(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let rank = types[0].shape.rank();
    let mixed = [axis(attrs, "axis", rank).unwrap_or(0), rank - 1];
    vec![(0..rank).map(|own| (!mixed.contains(&own)).then_some(own)).collect()]
}

/// All axes are kept but those of the matrices.
fn matrices(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let rank = result.shape.rank();
    vec![(0..types[0].shape.rank()).map(|own| (own < rank).then_some(own)).collect()]
}

fn eval_dft(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let axis = axis(attrs, "axis", ty.shape.rank()).expect("infer accepted");
    let inverse = attrs.expect_int("inverse") != 0;
    let size = ty.shape[axis];
    let inner: usize = ty.shape[axis + 1..ty.shape.rank() - 1].iter().product();
    let values = operands[0].to_f64();
    let mut result = values.clone();
    #[allow(clippy::cast_precision_loss)]
    let scale = if inverse { 1.0 / size as f64 } else { 1.0 };
    for line in 0..values.len().checked_div(2 * size).unwrap_or(0) {
        let start = line / inner * size * inner + line % inner;
        let at = |index: usize| 2 * (start + index * inner);
        let numbers: Vec<(f64, f64)> = (0..size).map(|k| (values[at(k)], values[at(k) + 1])).collect();
        for (k, (real, imaginary)) in transform(&numbers, inverse).into_iter().enumerate() {
            (result[at(k)], result[at(k) + 1]) = (real * scale, imaginary * scale);
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Transforms a line: by halves as long as its length is even (Cooley and Tukey, 1965), else by the definition.
fn transform(line: &[(f64, f64)], inverse: bool) -> Vec<(f64, f64)> {
    let size = line.len();
    #[allow(clippy::cast_precision_loss)]
    let root = |k: usize| {
        let angle = TAU * (k % size) as f64 / size as f64;
        (angle.cos(), if inverse { angle.sin() } else { -angle.sin() })
    };
    let times = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
    if size > 1 && size.is_multiple_of(2) {
        let half = |offset: usize| {
            let part: Vec<(f64, f64)> = line.iter().skip(offset).step_by(2).copied().collect();
            transform(&part, inverse)
        };
        let (even, odd) = (half(0), half(1));
        let mut result = vec![(0.0, 0.0); size];
        for k in 0..size / 2 {
            let turned = times(odd[k], root(k));
            result[k] = (even[k].0 + turned.0, even[k].1 + turned.1);
            result[k + size / 2] = (even[k].0 - turned.0, even[k].1 - turned.1);
        }
        return result;
    }
    let at = |k: usize| {
        line.iter().enumerate().fold((0.0, 0.0), |sum, (n, value)| {
            let part = times(*value, root(k * n));
            (sum.0 + part.0, sum.1 + part.1)
        })
    };
    (0..size).map(at).collect()
}

/// Eliminates below the diagonal with the largest pivot of each column.
fn eval_det(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let size = operands[0].ty().shape.last().copied().unwrap_or(0);
    let matrices = operands[0].to_f64();
    let mut result = Vec::with_capacity(ty.shape.count());
    for matrix in 0..ty.shape.count() {
        let mut rows: Vec<Vec<f64>> = matrices[matrix * size * size..][..size * size]
            .chunks_exact(size.max(1))
            .map(<[f64]>::to_vec)
            .collect();
        let mut value = 1.0;
        for column in 0..size {
            let pivot =
                (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
            let pivot = pivot.unwrap_or(column);
            if pivot != column {
                rows.swap(pivot, column);
                value = -value;
            }
            value *= rows[column][column];
            if rows[column][column] == 0.0 {
                break;
            }
            let above = rows[column].clone();
            for row in &mut rows[column + 1..] {
                let factor = row[column] / above[column];
                row.iter_mut().zip(&above).for_each(|(element, above)| *element -= factor * above);
            }
        }
        result.push(value);
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Draws complex numbers along an axis.
fn draw_dft(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, rank) = (draw.pick(&[DType::F32, DType::F64]), draw.small().min(3));
    let axis = draw.below(rank);
    let x = [draw.shape(rank), vec![2]].concat();
    let attrs = Attrs::new().size("axis", axis).size("inverse", draw.below(2));
    Some(Sample::new(attrs, vec![TensorType::plain(dtype, x)]))
}

/// Draws square matrices.
fn draw_det(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, n, rank) = (draw.pick(&[DType::F32, DType::F64]), draw.small(), draw.below(3));
    let x = [draw.shape(rank), vec![n, n]].concat();
    Some(Sample::new(Attrs::new(), vec![TensorType::plain(dtype, x)]))
}
