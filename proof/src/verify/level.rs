//! Weights that become levels: what such a rule says of real numbers, and how far its result may be off.
//!
//! A rule whose precision is one of levels makes levels `q = round(w / s) + z` of a weight, and multiplies by `(q - z) s`.
//! Where nothing is rounded, that is `w`, so both sides must be equal as real numbers.
//!
//! With `n` levels on either side of zero, a scale of `m / n` reaches the largest magnitude `m` of the weights that share it.
//! So rounded to the nearest level, each of them is off by at most half a level, `m / (2 n)`. An element of a product is the
//! sum of `a[i,k] w[k,j]` over `k`, and is off by at most the sum of `|a[i,k]| m[k,j] / (2 n)`. That is what `matmul-narrow`
//! gives for the magnitudes of `a`, with half levels as scales of ones. Where the scale is larger than it needs to be, where
//! a level is not the nearest one, or is cut off at the end of its type, a weight is off by more.

use super::draft::{Draft, DraftValue};
use ovolo::attr::{Attr, Attrs};
use ovolo::rule::Precision;
use ovolo::tensor::{DType, Tensor, TensorType};

/// What is added to half a level: the quotient that is rounded is one of `f32`, and there are up to 128 levels on a side.
const QUOTIENT: f64 = 1e-4;
/// Ops that move levels.
const MOVES: &[&str] = &["reshape", "slice", "transpose"];

/// Returns the value of an op on levels that are not rounded, or of floats; `None` if its operands are of neither kind.
pub(super) fn unrounded(value: &DraftValue, operands: &[&Tensor]) -> Option<Tensor> {
    let op = value.op?;
    let real = TensorType { dtype: DType::F64, ..value.ty.clone() };
    match op.meaning() {
        "quantize" => {
            let [x, s, z] = [0, 1, 2].map(|at| spread(operands[at], &real));
            let levels: Vec<f64> = (0..x.len()).map(|at| x[at] / s[at] + z[at]).collect();
            Some(Tensor::from_f64(DType::F64, real.shape, &levels))
        }
        name if MOVES.contains(&name) && operands[0].ty().dtype == DType::F64 => {
            Some(op.evaluate(&value.attrs, operands, &real))
        }
        "matmul-narrow" if operands[1].ty().dtype == DType::F64 => {
            let [one, zero] = [1.0, 0.0].map(|number| Tensor::from_f64(DType::F64, [0; 0], &[number]));
            let weights = weights(&value.attrs, operands);
            let whole = value.attrs.clone().with("rows-per-scale", Attr::Int(0));
            let operands = [&[operands[0], &weights, &one, &zero], &operands[4..]].concat();
            Some(op.evaluate(&whole, &operands, &real))
        }
        _ => None,
    }
}

/// Returns what the levels of a product stand for. `matmul-narrow` rounds that to `f32`, which a weight was.
fn weights(attrs: &Attrs, operands: &[&Tensor]) -> Tensor {
    let shape = operands[1].ty().shape.clone();
    let block = block(attrs, shape[0]);
    let [levels, scales, points] = [1, 2, 3].map(|at| operands[at].to_f64());
    let factor = |factors: &[f64], at: usize| match factors {
        [only] => *only,
        _ => factors[at / shape[1] / block * shape[1] + at % shape[1]],
    };
    let weight = |at: usize| (levels[at] - factor(&points, at)) * factor(&scales, at);
    let weights: Vec<f64> = (0..levels.len()).map(weight).collect();
    Tensor::from_f64(DType::F64, shape, &weights)
}

/// Returns the elements of a tensor that is repeated to a shape.
fn spread(tensor: &Tensor, to: &TensorType) -> Vec<f64> {
    let (from, values) = (&tensor.ty().shape, tensor.to_f64());
    let missing = to.shape.rank() - from.rank();
    let place = |mut at: usize| {
        let (mut place, mut step) = (0, 1);
        for axis in (0..to.shape.rank()).rev() {
            let index = at % to.shape[axis];
            at /= to.shape[axis];
            if axis >= missing {
                let size = from[axis - missing];
                place += if size == 1 { 0 } else { index * step };
                step *= size;
            }
        }
        place
    };
    (0..to.shape.count()).map(|at| values[place(at)]).collect()
}

/// Returns how far each element of a right side may be off; `None` if it is no product by a weight of levels.
pub(super) fn slack(draft: &Draft, right: usize, values: &[Option<Tensor>]) -> Option<Vec<f64>> {
    let value = &draft.values[right];
    let op = value.op.filter(|op| op.meaning() == "matmul-narrow")?;
    let &[a, w, ..] = &value.inputs[..] else { return None };
    let given = given(draft, w, values)?;
    let shape = given.ty().shape.clone();
    let (columns, block) = (shape[1], block(&value.attrs, shape[0]));
    let blocks = shape[0].div_ceil(block);
    let mut half = vec![0.0; blocks * columns];
    for (at, weight) in given.to_f64().into_iter().enumerate() {
        let half = &mut half[at / columns / block * columns + at % columns];
        *half = f64::max(*half, weight.abs() * (0.5 + QUOTIENT) / most(draft.precision)?);
    }
    let number = |shape: Vec<usize>, values: &[f64]| Tensor::from_f64(DType::F64, shape, values);
    let magnitudes: Vec<f64> = values[a].as_ref()?.to_f64().into_iter().map(f64::abs).collect();
    let magnitudes = number(draft.values[a].ty.shape.to_vec(), &magnitudes);
    let ones = number(shape.to_vec(), &vec![1.0; shape.count()]);
    let (half, zero) = (number(vec![blocks, columns], &half), number(Vec::new(), &[0.0]));
    let plain = value.attrs.clone().with("post", Attr::Post(Vec::new()));
    let ty = TensorType { dtype: DType::F64, ..value.ty.clone() };
    let result = op.evaluate(&plain, &[&magnitudes, &ones, &half, &zero], &ty);
    let growth = growth(&value.attrs);
    Some(result.to_f64().into_iter().map(|one| one * growth).collect())
}

/// Returns the levels on either side of zero.
fn most(precision: Precision) -> Option<f64> {
    match precision {
        Precision::Int8 => Some(127.0),
        Precision::Int4 => Some(7.0),
        Precision::F32 | Precision::Tf32 | Precision::F16 | Precision::Bf16 => None,
    }
}

/// Returns the weights of which a value is the levels, moved as these are; `None` if it is no levels of weights.
fn given(draft: &Draft, at: usize, values: &[Option<Tensor>]) -> Option<Tensor> {
    let value = &draft.values[at];
    let op = value.op?;
    match op.meaning() {
        "quantize" => {
            let weights = values[value.inputs[0]].as_ref()?;
            Some(Tensor::from_f64(DType::F64, weights.ty().shape.clone(), &weights.to_f64()))
        }
        name if MOVES.contains(&name) => {
            let real = TensorType { dtype: DType::F64, ..value.ty.clone() };
            Some(op.evaluate(&value.attrs, &[&given(draft, value.inputs[0], values)?], &real))
        }
        _ => None,
    }
}

/// Returns the rows that share a scale.
fn block(attrs: &Attrs, rows: usize) -> usize {
    match usize::try_from(attrs.expect_int("rows-per-scale")) {
        Ok(0) | Err(_) => rows.max(1),
        Ok(block) => block,
    }
}

/// Returns by how much the steps of a chain may enlarge a difference: only slopes do, of the steps that are drawn for rules
/// that round.
fn growth(attrs: &Attrs) -> f64 {
    let slopes = attrs.post().iter().filter(|step| step.op.name() == "leaky-relu");
    slopes.flat_map(|step| &step.parameters).map(|slope| slope.0.abs().max(1.0)).product()
}
