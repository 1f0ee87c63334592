//! Classical machine learning: what all models of `ai.onnx.ml` that give scores of classes share.

pub(super) mod forest;
pub(super) mod label;
pub(super) mod linear;

use super::{Call, ImportedValue, Results};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::{DType, Tensor};

/// Converts a value to another element type.
pub(super) fn cast(
    call: &mut Call<'_>,
    name: &str,
    value: &ImportedValue,
    to: DType,
) -> Result<ImportedValue, Refusal> {
    if value.ty.dtype == to {
        return Ok(value.clone());
    }
    call.helper(name, "cast", Attrs::new().with("to", Attr::DType(to)), &[value])
}

/// Returns an operand of one or more dimensions as rows of f32, or of f64 if it is f64. A list is one row.
fn rows(call: &mut Call<'_>) -> Result<ImportedValue, Refusal> {
    let x = call.input(0)?;
    if x.ty.dtype == DType::Text {
        return Err(Refusal::other("its operand is strings, not numbers"));
    }
    let x = if x.ty.dtype == DType::F64 { x } else { cast(call, "features", &x, DType::F32)? };
    match x.dims() {
        [_, _] => Ok(x),
        [width] => call.reshape(Some("row"), &x, &[1, *width]),
        dims => Err(Refusal::other(format!("its operand has {} dimensions, not 1 or 2", dims.len()))),
    }
}

/// Makes a constant of a binary op's other operand, and applies the op.
fn with_number(
    call: &mut Call<'_>,
    name: &str,
    op: &str,
    value: &ImportedValue,
    number: f64,
) -> Result<ImportedValue, Refusal> {
    let constant = call.scalar(&format!("{name}-constant"), value.ty.dtype, number);
    call.helper(name, op, Attrs::new(), &[value, &constant])
}

/// Adds a list of numbers to the columns of scores.
fn add_columns(
    call: &mut Call<'_>,
    scores: &ImportedValue,
    name: &str,
    numbers: &[f32],
) -> Result<ImportedValue, Refusal> {
    let numbers: Vec<f64> = numbers.iter().copied().map(f64::from).collect();
    if numbers.iter().all(|number| *number == 0.0) {
        return Ok(scores.clone());
    }
    let list = Tensor::from_f64(scores.ty.dtype, [numbers.len()], &numbers);
    let list = call.constant(name, list);
    call.helper(&format!("{name}-sum"), "add", Attrs::new(), &[scores, &list])
}

/// The transform of scores by the attribute `post_transform`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    fn named(name: &str) -> Result<Self, Refusal> {
        match name {
            "NONE" => Ok(Self::None),
            "SOFTMAX" => Ok(Self::Softmax),
            "LOGISTIC" => Ok(Self::Logistic),
            "SOFTMAX_ZERO" => Ok(Self::SoftmaxZero),
            "PROBIT" => Ok(Self::Probit),
            other => Err(Refusal::attribute(
                "post_transform",
                format!("is `{other}`, not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT"),
            )),
        }
    }

    fn read(call: &Call<'_>) -> Result<Self, Refusal> {
        Self::named(call.text("post_transform", "NONE")?)
    }

    /// Applies the transform to rows of scores.
    fn apply(self, call: &mut Call<'_>, scores: &ImportedValue) -> Result<ImportedValue, Refusal> {
        match self {
            Self::None => Ok(scores.clone()),
            Self::Softmax => call.helper("softmax", "softmax", Attrs::new().int("axis", 1), &[scores]),
            Self::Logistic => call.helper("logistic", "sigmoid", Attrs::new(), &[scores]),
            Self::SoftmaxZero => softmax_zero(call, scores),
            Self::Probit => probit(call, scores),
        }
    }
}

/// A softmax over the scores of a row that are not zero; those that are zero stay zero.
fn softmax_zero(call: &mut Call<'_>, scores: &ImportedValue) -> Result<ImportedValue, Refusal> {
    /// Scores that are nearer to zero count as zero, as in ONNX Runtime.
    const ZERO: f64 = 1e-7;
    let along = Attrs::new().ints("axes", &[1]).int("keepdims", 1);
    let size = call.helper("size", "abs", Attrs::new(), &[scores])?;
    let given = with_number(call, "given", "greater", &size, ZERO)?;
    let most = call.helper("most", "reduce-max", along.clone(), &[scores])?;
    let less = call.helper("less", "sub", Attrs::new(), &[scores, &most])?;
    let power = call.helper("power", "exp", Attrs::new(), &[&less])?;
    let zero = call.scalar("zero", scores.ty.dtype, 0.0);
    let power = call.helper("given-power", "where", Attrs::new(), &[&given, &power, &zero])?;
    let sum = call.helper("sum", "reduce-sum", along, &[&power])?;
    // A row of zeros has the sum zero.
    let empty = with_number(call, "empty", "equal", &sum, 0.0)?;
    let one = call.scalar("one", scores.ty.dtype, 1.0);
    let sum = call.helper("positive-sum", "where", Attrs::new(), &[&empty, &one, &sum])?;
    call.helper("softmax-zero", "div", Attrs::new(), &[&power, &sum])
}

/// The quantile of the normal distribution, with the inverse of the error function by Winitzki's formula (A handy
/// approximation for the error function and its inverse, 2008), which is right within 0.2 %. ONNX Runtime has the
/// same.
fn probit(call: &mut Call<'_>, scores: &ImportedValue) -> Result<ImportedValue, Refusal> {
    const A: f64 = 0.147;
    let twice = with_number(call, "twice", "mul", scores, 2.0)?;
    let x = with_number(call, "centred", "sub", &twice, 1.0)?;
    let square = call.helper("square", "mul", Attrs::new(), &[&x, &x])?;
    let one = call.scalar("one", scores.ty.dtype, 1.0);
    let rest = call.helper("rest", "sub", Attrs::new(), &[&one, &square])?;
    let log = call.helper("log", "log", Attrs::new(), &[&rest])?;
    let half = with_number(call, "half", "mul", &log, 0.5)?;
    let v = with_number(call, "v", "add", &half, 2.0 / (std::f64::consts::PI * A))?;
    let v_square = call.helper("v-square", "mul", Attrs::new(), &[&v, &v])?;
    let scaled = with_number(call, "scaled", "mul", &log, 1.0 / A)?;
    let under = call.helper("under", "sub", Attrs::new(), &[&v_square, &scaled])?;
    let root = call.helper("root", "sqrt", Attrs::new(), &[&under])?;
    let away = call.helper("away", "sub", Attrs::new(), &[&root, &v])?;
    let inverse = call.helper("inverse", "sqrt", Attrs::new(), &[&away])?;
    let sign = call.helper("sign", "sign", Attrs::new(), &[&x])?;
    let inverse = call.helper("signed", "mul", Attrs::new(), &[&inverse, &sign])?;
    with_number(call, "probit", "mul", &inverse, std::f64::consts::SQRT_2)
}

/// The labels of classes, integers or strings.
fn labels(call: &Call<'_>) -> Result<Tensor, Refusal> {
    let strings = call.texts("classlabels_strings")?.filter(|list| !list.is_empty());
    let ints = match call.ints("classlabels_int64s")? {
        None => call.ints("classlabels_ints")?,
        given => given,
    };
    match (strings, ints.filter(|list| !list.is_empty())) {
        (Some(texts), None) => Ok(Tensor::from_texts([texts.len()], &texts)),
        (None, Some(ints)) => Ok(Tensor::from_elements([ints.len()], ints)),
        (None, None) => Err(Refusal::other("it has no labels of classes")),
        (Some(_), Some(_)) => Err(Refusal::other("its labels of classes are both integers and strings")),
    }
}

/// Returns the labels of the best scores.
fn best(call: &mut Call<'_>, scores: &ImportedValue, labels: Tensor) -> Result<ImportedValue, Refusal> {
    let attrs = Attrs::new().int("axis", 1).int("keepdims", 0).int("select-last", 0);
    let at = call.helper("best", "arg-max", attrs, &[scores])?;
    let labels = call.constant("labels", labels);
    call.result_at(0, "gather", Attrs::new().int("axis", 0), &[&labels, &at])
}

/// The results of a classifier of two classes with one score: the second label where the score is above a threshold,
/// and two columns of scores.
fn two_classes(
    call: &mut Call<'_>,
    score: &ImportedValue,
    labels: Tensor,
    threshold: f64,
    transform: Transform,
    complement: bool,
) -> Results {
    let rows = score.dims()[0];
    let flat = call.reshape(Some("score"), score, &[rows])?;
    let above = with_number(call, "above", "greater", &flat, threshold)?;
    let at = cast(call, "class", &above, DType::I64)?;
    let labels = call.constant("labels", labels);
    let label = call.result_at(0, "gather", Attrs::new().int("axis", 0), &[&labels, &at])?;
    let (positive, complement) = match transform {
        Transform::Logistic => (transform.apply(call, score)?, true),
        Transform::Probit => return Err(Refusal::attribute("post_transform", "is PROBIT for one score")),
        _ => (score.clone(), complement),
    };
    let other = call.scalar("other", score.ty.dtype, if complement { 1.0 } else { 0.0 });
    let negative = call.helper("negative", "sub", Attrs::new(), &[&other, &positive])?;
    let scores = call.helper("scores", "concat", Attrs::new().int("axis", 1), &[&negative, &positive])?;
    Ok(vec![label, cast(call, "scores-f32", &scores, DType::F32)?])
}

/// The results of a classifier with a score for each class.
fn many_classes(
    call: &mut Call<'_>,
    scores: &ImportedValue,
    labels: Tensor,
    transform: Transform,
) -> Results {
    let count = labels.ty().shape.count();
    if scores.dims()[1] != count {
        let have = scores.dims()[1];
        return Err(Refusal::other(format!("it has {have} scores for {count} labels of classes")));
    }
    let label = best(call, scores, labels)?;
    let scores = transform.apply(call, scores)?;
    Ok(vec![label, cast(call, "scores-f32", &scores, DType::F32)?])
}

/// Returns a matrix of numbers in an attribute.
fn matrix(
    call: &mut Call<'_>,
    name: &str,
    dtype: DType,
    dims: [usize; 2],
    at: impl Fn(usize, usize) -> f32,
) -> ImportedValue {
    let pairs = (0..dims[0]).flat_map(|row| (0..dims[1]).map(move |column| (row, column)));
    let numbers: Vec<f64> = pairs.map(|(row, column)| f64::from(at(row, column))).collect();
    call.constant(name, Tensor::from_f64(dtype, dims, &numbers))
}

/// Returns dimensions for attributes.
fn dims_of(value: &ImportedValue) -> Vec<i64> {
    signed(value.dims())
}
