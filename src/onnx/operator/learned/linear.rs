//! Linear classifiers and support vector machines.

use super::{Transform, add_columns, cast, labels, many_classes, matrix, rows, two_classes, with_number};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::operator::{Call, ImportedValue, Operator, Results, entry};
use crate::tensor::{DType, Tensor};

pub(in crate::onnx::operator) const TABLE: &[Operator] = &[
    entry("ai.onnx.ml.LinearClassifier", 1, 1, classifier),
    entry("ai.onnx.ml.SVMRegressor", 1, 1, svm_regressor),
    entry("ai.onnx.ml.SVMClassifier", 1, 1, svm_classifier),
];

fn classifier(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let x = cast(call, "features", &x, DType::F32)?;
    call.ignore(&["multi_class"]);
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.floats("intercepts")?.unwrap_or_default();
    let transform = Transform::read(call)?;
    let labels = labels(call)?;
    let features = x.dims()[1];
    let scores = if intercepts.is_empty() { labels.ty().shape.count() } else { intercepts.len() };
    if coefficients.len() != scores * features {
        let have = coefficients.len();
        return Err(Refusal::other(format!(
            "it has {have} coefficients for {scores} scores of {features} features"
        )));
    }
    let weights =
        matrix(call, "weights", x.ty.dtype, [features, scores], |f, s| coefficients[s * features + f]);
    let product = call.helper("product", "matmul", Attrs::new(), &[&x, &weights])?;
    let product = add_columns(call, &product, "intercepts", intercepts)?;
    if scores == 1 && labels.ty().shape.count() == 2 {
        return two_classes(call, &product, labels, 0.0, transform, true);
    }
    many_classes(call, &product, labels, transform)
}

/// The kernel function of a support vector machine.
struct KernelFunction {
    kind: String,
    gamma: f64,
    offset: f64,
    degree: f64,
}

impl KernelFunction {
    fn read(call: &Call<'_>) -> Result<Self, Refusal> {
        let kind = call.text("kernel_type", "LINEAR")?.to_owned();
        let numbers = call.floats("kernel_params")?.unwrap_or_default();
        let number = |at: usize| numbers.get(at).copied().map_or(0.0, f64::from);
        match kind.as_str() {
            "LINEAR" | "POLY" | "RBF" | "SIGMOID" => {}
            other => return Err(Refusal::attribute("kernel_type", format!("is `{other}`"))),
        }
        Ok(Self { kind, gamma: number(0), offset: number(1), degree: number(2) })
    }

    /// Returns the function of each row with each of the vectors.
    fn apply(
        &self,
        call: &mut Call<'_>,
        x: &ImportedValue,
        vectors: &[f32],
        count: usize,
    ) -> Result<ImportedValue, Refusal> {
        let features = x.dims()[1];
        if vectors.len() != count * features {
            let have = vectors.len();
            return Err(Refusal::other(format!(
                "{count} vectors of {features} features are not {have} numbers"
            )));
        }
        if self.kind == "RBF" {
            // The difference is taken first, since a difference of squares cancels.
            let list = Tensor::from_elements([1, count, features], vectors);
            let list = call.constant("vectors", list);
            let rows = call.reshape(Some("row"), x, &[x.dims()[0], 1, features])?;
            let away = call.helper("away", "sub", Attrs::new(), &[&rows, &list])?;
            let square = call.helper("square", "mul", Attrs::new(), &[&away, &away])?;
            let along = Attrs::new().ints("axes", &[2]).int("keepdims", 0);
            let sum = call.helper("distance", "reduce-sum", along, &[&square])?;
            let scaled = with_number(call, "scaled", "mul", &sum, -self.gamma)?;
            return call.helper("kernel", "exp", Attrs::new(), &[&scaled]);
        }
        let columns =
            matrix(call, "vectors", x.ty.dtype, [features, count], |f, v| vectors[v * features + f]);
        let product = call.helper("product", "matmul", Attrs::new(), &[x, &columns])?;
        if self.kind == "LINEAR" {
            return Ok(product);
        }
        let scaled = with_number(call, "scaled", "mul", &product, self.gamma)?;
        let moved = with_number(call, "moved", "add", &scaled, self.offset)?;
        match self.kind.as_str() {
            "POLY" => with_number(call, "kernel", "pow", &moved, self.degree),
            _ => call.helper("kernel", "tanh", Attrs::new(), &[&moved]),
        }
    }
}

fn svm_regressor(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let x = cast(call, "features", &x, DType::F32)?;
    let function = KernelFunction::read(call)?;
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let vectors = call.floats("support_vectors")?.unwrap_or_default();
    let rho = call.floats("rho")?.unwrap_or_default();
    let count = usize::try_from(call.int("n_supports", 0)?).unwrap_or(0);
    let one_class = call.flag("one_class", false)?;
    let transform = Transform::read(call)?;
    let (kernel, count) = match count {
        // Without vectors, the coefficients are those of the features.
        0 => (x.clone(), x.dims()[1]),
        count => (function.apply(call, &x, vectors, count)?, count),
    };
    if coefficients.len() != count || rho.len() != 1 {
        let have = coefficients.len();
        return Err(Refusal::other(format!("it has {have} coefficients for {count}, and {} rho", rho.len())));
    }
    let weights = matrix(call, "weights", x.ty.dtype, [count, 1], |row, _| coefficients[row]);
    let score = call.helper("score", "matmul", Attrs::new(), &[&kernel, &weights])?;
    let score = add_columns(call, &score, "rho", rho)?;
    if one_class {
        let inside = with_number(call, "inside", "greater", &score, 0.0)?;
        let [one, other] = [("one", 1.0), ("other", -1.0)].map(|(name, n)| call.scalar(name, x.ty.dtype, n));
        return Ok(vec![call.result("where", Attrs::new(), &[&inside, &one, &other])?]);
    }
    Ok(vec![transform.apply(call, &score)?])
}

/// The scores of pairs of classes: positive ones vote for the first class, others for the second.
fn pairs(
    call: &mut Call<'_>,
    kernel: &ImportedValue,
    sizes: &[usize],
    coefficients: &[f32],
    rho: &[f32],
) -> Result<ImportedValue, Refusal> {
    let classes = sizes.len();
    let count: usize = sizes.iter().sum();
    let all: Vec<(usize, usize)> =
        (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect();
    if coefficients.len() != (classes - 1) * count || rho.len() != all.len() {
        return Err(Refusal::other(format!(
            "it has {} coefficients and {} rho for {classes} classes with {count} vectors",
            coefficients.len(),
            rho.len()
        )));
    }
    let class: Vec<usize> =
        sizes.iter().enumerate().flat_map(|(class, size)| std::iter::repeat_n(class, *size)).collect();
    let weights = matrix(call, "weights", kernel.ty.dtype, [count, all.len()], |vector, pair| {
        let (first, second) = all[pair];
        match class[vector] {
            own if own == first => coefficients[(second - 1) * count + vector],
            own if own == second => coefficients[first * count + vector],
            _ => 0.0,
        }
    });
    let scores = call.helper("pairs", "matmul", Attrs::new(), &[kernel, &weights])?;
    add_columns(call, &scores, "rho", rho)
}

fn svm_classifier(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let x = cast(call, "features", &x, DType::F32)?;
    let function = KernelFunction::read(call)?;
    let labels = labels(call)?;
    let classes = labels.ty().shape.count();
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let vectors = call.floats("support_vectors")?.unwrap_or_default();
    let rho = call.floats("rho")?.unwrap_or_default();
    let (a, b) = (call.floats("prob_a")?.unwrap_or_default(), call.floats("prob_b")?.unwrap_or_default());
    let transform = Transform::read(call)?;
    let sizes = call.ints("vectors_per_class")?.unwrap_or_default();
    let sizes: Vec<usize> = sizes.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
    if sizes.is_empty() || vectors.is_empty() {
        // A linear machine has a row of coefficients for each class.
        let weights = function.apply(call, &x, coefficients, classes)?;
        let scores = match rho {
            [one] => with_number(call, "moved", "add", &weights, f64::from(*one))?,
            _ => return Err(Refusal::other(format!("it has {} rho, not 1", rho.len()))),
        };
        return many_classes(call, &scores, labels, transform);
    }
    if sizes.len() != classes || classes < 2 {
        return Err(Refusal::other(format!("it has {} sizes for {classes} classes", sizes.len())));
    }
    let kernel = function.apply(call, &x, vectors, sizes.iter().sum())?;
    let scores = pairs(call, &kernel, &sizes, coefficients, rho)?;
    if !a.is_empty() {
        if classes > 2 || a.len() != 1 || b.len() != 1 {
            return Err(Refusal::other("it gives probabilities of more than two classes"));
        }
        // Platt's scaling: the probability of the first class.
        let scaled = with_number(call, "scaled", "mul", &scores, -f64::from(a[0]))?;
        let moved = with_number(call, "platt", "add", &scaled, -f64::from(b[0]))?;
        let first = call.helper("probability", "sigmoid", Attrs::new(), &[&moved])?;
        let bounds = Attrs::new().float("min", 1e-7).float("max", 1.0 - 1e-7);
        let first = call.helper("bounded", "clip", bounds, &[&first])?;
        let one = call.scalar("one", first.ty.dtype, 1.0);
        let second = call.helper("other", "sub", Attrs::new(), &[&one, &first])?;
        let both = call.helper("both", "concat", Attrs::new().int("axis", 1), &[&first, &second])?;
        // The label goes by the score and not by the probabilities, whose border another fit has moved.
        let label = voted(call, &scores, classes, labels)?;
        return Ok(vec![label, transform.apply(call, &both)?]);
    }
    if classes > 2 {
        let label = voted(call, &scores, classes, labels)?;
        return Ok(vec![label, transform.apply(call, &scores)?]);
    }
    Err(Refusal::other("it has two classes without probabilities, whose scores the standard does not define"))
}

/// Returns the label of the class with the most votes of pairs.
fn voted(
    call: &mut Call<'_>,
    scores: &ImportedValue,
    classes: usize,
    labels: Tensor,
) -> Result<ImportedValue, Refusal> {
    let all: Vec<(usize, usize)> =
        (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect();
    let above = with_number(call, "above", "greater", scores, 0.0)?;
    let above = cast(call, "votes", &above, DType::F32)?;
    // A vote for the first class of a pair adds 1 to it and takes 1 from the second class, which all pairs had before.
    let change = matrix(call, "change", DType::F32, [all.len(), classes], |pair, class| {
        let (first, second) = all[pair];
        f32::from(u8::from(class == first)) - f32::from(u8::from(class == second))
    });
    let counts = call.helper("counts", "matmul", Attrs::new(), &[&above, &change])?;
    let before: Vec<f32> =
        (0..classes).map(|class| f32::from(u16::try_from(class).unwrap_or(u16::MAX))).collect();
    let counts = add_columns(call, &counts, "before", &before)?;
    super::best(call, &counts, labels)
}
