//! ONNX Runtime's operators that are several of ONNX's own ones.

use crate::draft::{Draft, float, floats, int, list, text};
use ovolo::tensor::DType;

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Functions after a sum, and combinations of a value with a bias.
pub(super) fn gelu(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=4);
    let width = x.dims[x.rank() - 1];
    let bias = draft.weights(DType::F32, &[width]).name;
    match draft.rng.below(6) {
        0 => draft.node("com.microsoft.BiasGelu", &[&x.name, &bias], Vec::new(), &[DType::F32]),
        1 => {
            let bias = if draft.rng.percent(60) { bias } else { String::new() };
            draft.node("com.microsoft.FastGelu", &[&x.name, &bias], Vec::new(), &[DType::F32])
        }
        2 => {
            let alpha = float("alpha", draft.rng.pick(&[1.702, 1.0, -0.5]));
            draft.node("com.microsoft.QuickGelu", &[&x.name], vec![alpha], &[DType::F32])
        }
        3 => draft.node("com.microsoft.Gelu", &[&x.name], Vec::new(), &[DType::F32]),
        4 => {
            let dims = [1 + draft.rng.below(2), 1 + draft.rng.below(4), 2 * (1 + draft.rng.below(5))];
            let (x, bias) =
                (draft.weights(DType::F32, &dims).name, draft.weights(DType::F32, &dims[2..]).name);
            draft.node("com.microsoft.BiasSplitGelu", &[&x, &bias], Vec::new(), &[DType::F32])
        }
        _ => {
            let dims = [1 + draft.rng.below(2), 1 + draft.rng.below(4), 1 + draft.rng.below(6)];
            let (x, skip) = (draft.weights(DType::F32, &dims).name, draft.weights(DType::F32, &dims).name);
            let bias = draft.weights(DType::F32, &dims[2..]).name;
            draft.node("com.microsoft.BiasAdd", &[&x, &bias, &skip], Vec::new(), &[DType::F32])
        }
    }
}

pub(super) fn softmax(draft: &mut Draft<'_>) -> Option<()> {
    let dims =
        [1 + draft.rng.below(3), 1 + draft.rng.below(3), 1 + draft.rng.below(3), 1 + draft.rng.below(5)];
    let x = draft.weights(DType::F32, &dims).name;
    let inner = draft.rng.between(0, 1);
    let bias = if inner == 1 { [dims[0], 1, dims[2], dims[3]] } else { [1, dims[1], dims[2], dims[3]] };
    let bias = draft.weights(DType::F32, &bias).name;
    let attributes = vec![int("axis", 3), int("is_inner_broadcast", inner)];
    draft.node("com.microsoft.BiasSoftmax", &[&x, &bias], attributes, &[DType::F32])
}

pub(super) fn product(draft: &mut Draft<'_>) -> Option<()> {
    let [m, k, n, batch, more] = [(); 5].map(|()| 1 + draft.rng.below(5));
    let (ta, tb) = (draft.rng.percent(50), draft.rng.percent(50));
    let mut matrix = |rows: usize, columns: usize, turned: bool, moved: bool, batched: bool| {
        let (rows, columns) = if turned { (columns, rows) } else { (rows, columns) };
        let dims = match (batched, moved) {
            (false, _) => vec![rows, columns],
            (true, false) => vec![batch, more, rows, columns],
            // The rows stand before the batch.
            (true, true) => vec![rows, batch, more, columns],
        };
        draft.weights(DType::F32, &dims).name
    };
    let batched = (m + n) % 3 == 0;
    let (moved_a, moved_b) = (batched && k % 2 == 0, batched && m % 2 == 0);
    let a = matrix(m, k, ta, moved_a, batched);
    let b = matrix(k, n, tb, moved_b, batched);
    let mut attributes = vec![
        int("transA", i64::from(ta)),
        int("transB", i64::from(tb)),
        float("alpha", draft.rng.pick(&[1.0, 0.5, -2.0])),
    ];
    if !moved_a && !moved_b && draft.rng.percent(30) {
        return draft.node("com.microsoft.TransposeMatMul", &[&a, &b], attributes, &[DType::F32]);
    }
    attributes.extend([int("transBatchA", i64::from(moved_a)), int("transBatchB", i64::from(moved_b))]);
    draft.node("com.microsoft.FusedMatMul", &[&a, &b], attributes, &[DType::F32])
}

pub(super) fn gemm(draft: &mut Draft<'_>) -> Option<()> {
    let [m, k, n] = [(); 3].map(|()| 1 + draft.rng.below(6));
    let (ta, tb) = (draft.rng.below(2), draft.rng.below(2));
    let a = draft.weights(DType::F32, &if ta == 1 { [k, m] } else { [m, k] }).name;
    let b = draft.weights(DType::F32, &if tb == 1 { [n, k] } else { [k, n] }).name;
    let c = if draft.rng.percent(70) { draft.weights(DType::F32, &[n]).name } else { String::new() };
    let (name, alpha) = draft.rng.pick(&[
        ("Relu", 0.0),
        ("LeakyRelu", 0.2),
        ("Tanh", 0.0),
        ("Sigmoid", 0.0),
        ("Softplus", 0.0),
    ]);
    let mut attributes = vec![
        int("transA", signed(ta)),
        int("transB", signed(tb)),
        float("alpha", draft.rng.pick(&[1.0, 0.5])),
        float("beta", draft.rng.pick(&[1.0, -0.5])),
        text("activation", name),
    ];
    if name == "LeakyRelu" {
        attributes.push(float("activation_alpha", alpha));
    }
    draft.node("com.microsoft.FusedGemm", &[&a, &b, &c], attributes, &[DType::F32])
}

/// Convolutions with a function, and with channels first or last.
pub(super) fn convolution(draft: &mut Draft<'_>) -> Option<()> {
    let [batch, channels, outputs, kernel] = [(); 4].map(|()| 1 + draft.rng.below(3));
    let size = [2 + kernel + draft.rng.below(3), 2 + kernel + draft.rng.below(3)];
    let op = draft.rng.pick(&["FusedConv", "FusedConv", "FusedConv", "NhwcConv", "NhwcFusedConv"]);
    let last = op != "FusedConv";
    let image = |channels: usize, [rows, columns]: [usize; 2]| {
        if last { [batch, rows, columns, channels] } else { [batch, channels, rows, columns] }
    };
    let x = draft.weights(DType::F32, &image(channels, size)).name;
    let w = draft.weights(DType::F32, &[outputs, channels, kernel, kernel]).name;
    let (stride, pad) = (1 + draft.rng.below(2), draft.rng.below(kernel));
    let result = size.map(|size| (size + 2 * pad - kernel) / stride + 1);
    let bias = if draft.rng.percent(70) { draft.weights(DType::F32, &[outputs]).name } else { String::new() };
    let mut attributes = vec![
        list("strides", &[signed(stride); 2]),
        list("pads", &[signed(pad); 4]),
        list("kernel_shape", &[signed(kernel); 2]),
    ];
    if op == "NhwcConv" {
        return draft.node("com.microsoft.NhwcConv", &[&x, &w, &bias], attributes, &[DType::F32]);
    }
    let (name, parameters): (&str, &[f64]) = draft.rng.pick(&[
        ("Relu", &[][..]),
        ("Tanh", &[]),
        ("Sigmoid", &[]),
        ("LeakyRelu", &[0.2]),
        ("Clip", &[-0.5, 0.75]),
        ("HardSigmoid", &[0.25, 0.4]),
    ]);
    attributes.push(text("activation", name));
    if !parameters.is_empty() {
        attributes.push(floats("activation_params", parameters));
    }
    let added = if op == "FusedConv" && !bias.is_empty() && draft.rng.percent(40) {
        draft.weights(DType::F32, &image(outputs, result)).name
    } else {
        String::new()
    };
    draft.node(&format!("com.microsoft.{op}"), &[&x, &w, &bias, &added], attributes, &[DType::F32])
}

pub(super) fn distance(draft: &mut Draft<'_>) -> Option<()> {
    let [rows, columns, width] = [(); 3].map(|()| 1 + draft.rng.below(5));
    let (a, b) =
        (draft.weights(DType::F32, &[rows, width]).name, draft.weights(DType::F32, &[columns, width]).name);
    let metric = text("metric", draft.rng.pick(&["sqeuclidean", "euclidean"]));
    draft.node("com.microsoft.CDist", &[&a, &b], vec![metric], &[DType::F32])
}
