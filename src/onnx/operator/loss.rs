//! Losses, normalisations that also give their statistics, and dropout in training.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::tensor::{DType, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("NegativeLogLikelihoodLoss", 2, 3, |call| {
        let x = call.input(0)?;
        Ok(vec![likelihood(call, &x)?])
    }),
    entry("SoftmaxCrossEntropyLoss", 2, 3, |call| {
        let x = call.input(0)?;
        let log = call.result_at(1, "log-softmax", Attrs::new().int("axis", 1), &[&x])?;
        Ok(vec![likelihood(call, &log)?, log])
    }),
    entry("LpNormalization", 1, 1, lp_normalization),
    entry("MeanVarianceNormalization", 1, 1, mean_variance),
    entry("Det", 1, 1, |call| {
        let x = call.input(0)?;
        Ok(vec![call.result("det", Attrs::new(), &[&x])?])
    }),
];

/// The negative element of each target's class, weighted; then the sum, the weighted mean, or all of them.
fn likelihood(call: &mut Call<'_>, x: &ImportedValue) -> Result<ImportedValue, Refusal> {
    let (target, weights) = (call.input(1)?, call.optional(2));
    let reduction = call.text("reduction", "mean")?.to_owned();
    let ignored = if call.has("ignore_index") { Some(call.int("ignore_index", 0)?) } else { None };
    if x.rank() < 2 || target.rank() + 1 != x.rank() {
        return Err(Refusal::other(format!("its targets {} do not fit {}", target.ty, x.ty)));
    }
    let (dtype, to) = (x.ty.dtype, |dtype| Attrs::new().with("to", Attr::DType(dtype)));
    let mut class = match target.ty.dtype {
        DType::I64 => target.clone(),
        _ => call.helper("class", "cast", to(DType::I64), &[&target])?,
    };
    let mut ignore = None;
    if let Some(index) = ignored {
        #[allow(clippy::cast_precision_loss)]
        let index = call.scalar("ignored-class", DType::I64, index as f64);
        let hit = call.helper("ignored", "equal", Attrs::new(), &[&class, &index])?;
        let first = call.scalar("first-class", DType::I64, 0.0);
        class = call.helper("safe-class", "where", Attrs::new(), &[&hit, &first, &class])?;
        ignore = Some(hit);
    }
    let mut dims = target.dims().to_vec();
    dims.insert(1, 1);
    let column = call.reshape(Some("positions"), &class, &dims)?;
    let found = call.helper("found", "gather-elements", Attrs::new().int("axis", 1), &[x, &column])?;
    let found = call.reshape(Some("likelihood"), &found, target.dims())?;
    let mut loss = call.helper("negative", "neg", Attrs::new(), &[&found])?;
    let mut weight = match &weights {
        Some(weights) => {
            Some(call.helper("class-weight", "gather", Attrs::new().int("axis", 0), &[weights, &class])?)
        }
        None => None,
    };
    if let Some(hit) = &ignore {
        let (zero, one) = (call.scalar("no-weight", dtype, 0.0), call.scalar("full-weight", dtype, 1.0));
        let other = weight.take().unwrap_or(one);
        weight = Some(call.helper("weight", "where", Attrs::new(), &[hit, &zero, &other])?);
    }
    let axes = signed(&(0..target.rank()).collect::<Vec<_>>());
    let all = Attrs::new().ints("axes", &axes).int("keepdims", 0);
    if let Some(weight) = &weight {
        if reduction == "none" {
            return call.result("mul", Attrs::new(), &[&loss, weight]);
        }
        loss = call.helper("weighted", "mul", Attrs::new(), &[&loss, weight])?;
    }
    match (reduction.as_str(), &weight) {
        ("none", _) => call.result("neg", Attrs::new(), &[&found]),
        ("sum", _) => call.result("reduce-sum", all, &[&loss]),
        ("mean", None) => call.result("reduce-mean", all, &[&loss]),
        ("mean", Some(weight)) => {
            let weight = if weight.dims() == target.dims() {
                weight.clone()
            } else {
                call.helper(
                    "weights",
                    "expand",
                    Attrs::new().ints("shape", &signed(target.dims())),
                    &[weight],
                )?
            };
            let total = call.helper("total", "reduce-sum", all.clone(), &[&loss])?;
            let weight = call.helper("total-weight", "reduce-sum", all, &[&weight])?;
            call.result("div", Attrs::new(), &[&total, &weight])
        }
        (other, _) => Err(Refusal::attribute("reduction", format!("is `{other}`, not none, sum or mean"))),
    }
}

fn lp_normalization(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let at = axis(call.int("axis", -1)?, x.rank())?;
    let over = Attrs::new().ints("axes", &signed(&[at])).int("keepdims", 1);
    let norm = match call.int("p", 2)? {
        1 => {
            let size = call.helper("size", "abs", Attrs::new(), &[&x])?;
            call.helper("norm", "reduce-sum", over, &[&size])?
        }
        2 => {
            let square = call.helper("square", "mul", Attrs::new(), &[&x, &x])?;
            let sum = call.helper("sum", "reduce-sum", over, &[&square])?;
            call.helper("norm", "sqrt", Attrs::new(), &[&sum])?
        }
        other => return Err(Refusal::attribute("p", format!("is {other}, not 1 or 2"))),
    };
    // A line of zeros stays zero.
    let (zero, one) = (call.scalar("zero", x.ty.dtype, 0.0), call.scalar("one", x.ty.dtype, 1.0));
    let empty = call.helper("is-zero", "equal", Attrs::new(), &[&norm, &zero])?;
    let norm = call.helper("divisor", "where", Attrs::new(), &[&empty, &one, &norm])?;
    Ok(vec![call.result("div", Attrs::new(), &[&x, &norm])?])
}

fn mean_variance(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = call.ints("axes")?.map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    let axes = signed(&crate::onnx::call::axes(&axes, x.rank())?);
    let Moments { mean: _, centred, variance } = moments(call, &x, &axes)?;
    let deviation = call.helper("deviation", "sqrt", Attrs::new(), &[&variance])?;
    let epsilon = call.scalar("epsilon", x.ty.dtype, 1e-9);
    let divisor = call.helper("divisor", "add", Attrs::new(), &[&deviation, &epsilon])?;
    Ok(vec![call.result("div", Attrs::new(), &[&centred, &divisor])?])
}

/// The mean over some axes, what is left without it, and the mean of its squares.
pub(super) struct Moments {
    pub mean: ImportedValue,
    pub centred: ImportedValue,
    pub variance: ImportedValue,
}

/// Computes moments in two passes, so that values far from zero keep their precision.
pub(super) fn moments(call: &mut Call<'_>, x: &ImportedValue, axes: &[i64]) -> Result<Moments, Refusal> {
    let over = Attrs::new().ints("axes", axes).int("keepdims", 1);
    let mean = call.helper("statistic-mean", "reduce-mean", over.clone(), &[x])?;
    let centred = call.helper("centred", "sub", Attrs::new(), &[x, &mean])?;
    let square = call.helper("centred-square", "mul", Attrs::new(), &[&centred, &centred])?;
    let variance = call.helper("variance", "reduce-mean", over, &[&square])?;
    Ok(Moments { mean, centred, variance })
}

/// Batch normalisation in training: by the statistics of the operand, which also move the running ones.
pub(super) fn batch_in_training(call: &mut Call<'_>, epsilon: f64, momentum: f64) -> Results {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (mean, variance) = (call.input(3)?, call.input(4)?);
    let axes: Vec<i64> = signed(&(0..x.rank()).filter(|at| *at != 1).collect::<Vec<_>>());
    let now = moments(call, &x, &axes)?;
    let channels = x.dims()[1];
    let line = |call: &mut Call<'_>, name: &str, value: &ImportedValue| {
        let flat = call.reshape(Some(name), value, &[channels])?;
        match flat.ty.dtype == mean.ty.dtype {
            true => Ok(flat),
            false => {
                let to = Attrs::new().with("to", Attr::DType(mean.ty.dtype));
                call.helper(&format!("{name}-cast"), "cast", to, &[&flat])
            }
        }
    };
    let (mean_now, variance_now) =
        (line(call, "mean-now", &now.mean)?, line(call, "variance-now", &now.variance)?);
    let running = |call: &mut Call<'_>, at: usize, old: &ImportedValue, new: &ImportedValue| {
        let keep = call.scalar(&format!("momentum-{at}"), old.ty.dtype, momentum);
        let take = call.scalar(&format!("share-{at}"), old.ty.dtype, 1.0 - momentum);
        let kept = call.helper(&format!("kept-{at}"), "mul", Attrs::new(), &[old, &keep])?;
        let taken = call.helper(&format!("taken-{at}"), "mul", Attrs::new(), &[new, &take])?;
        call.result_at(at, "add", Attrs::new(), &[&kept, &taken])
    };
    let running_mean = running(call, 1, &mean, &mean_now)?;
    let running_variance = running(call, 2, &variance, &variance_now)?;
    let attrs = Attrs::new().float("epsilon", epsilon);
    let y = call.result("batch-norm", attrs, &[&x, &scale, &bias, &mean_now, &variance_now])?;
    Ok(vec![y, running_mean, running_variance])
}

/// The mean and the reciprocal of the deviation that a layer normalisation uses, as its second and third result.
pub(super) fn layer_statistics(
    call: &mut Call<'_>,
    x: &ImportedValue,
    at: usize,
    epsilon: f64,
) -> Result<[ImportedValue; 2], Refusal> {
    let axes = signed(&(at..x.rank()).collect::<Vec<_>>());
    let Moments { mean, variance, .. } = moments(call, x, &axes)?;
    let epsilon = call.scalar("statistic-epsilon", x.ty.dtype, epsilon);
    let above = call.helper("above-zero", "add", Attrs::new(), &[&variance, &epsilon])?;
    let root = call.helper("deviation", "sqrt", Attrs::new(), &[&above])?;
    Ok([mean, call.result_at(2, "reciprocal", Attrs::new(), &[&root])?])
}

/// Returns a mask that is true everywhere.
pub(super) fn all_true(call: &mut Call<'_>, dims: &[usize]) -> ImportedValue {
    let count = dims.iter().product();
    let mut mask = Tensor::zeros(TensorType::plain(DType::Bool, dims.to_vec()));
    let ones = vec![1_u8; count];
    mask.bytes_mut().copy_from_slice(&ones);
    call.constant("mask", mask)
}
