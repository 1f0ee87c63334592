//! Operators on images of one, two or three axes.

use crate::draft::{Draft, Known, float, int, list, text};
use ovolo::tensor::{DType, Tensor};

fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| i64::try_from(value).unwrap_or(0)).collect()
}

/// Returns an image of two axes mostly, or a new one.
fn image(draft: &mut Draft<'_>, channels: Option<usize>) -> Known {
    let fits = |known: &&Known| {
        known.dtype == DType::F32 && known.rank() == 4 && known.count() > 0 && channels.is_none()
    };
    let fits: Vec<Known> = draft.pool.iter().filter(fits).cloned().collect();
    if !fits.is_empty() && draft.rng.percent(70) {
        return draft.rng.pick(&fits);
    }
    let spatial = draft.rng.pick(&[1, 2, 2, 2, 2, 3]);
    let channels = channels.unwrap_or_else(|| draft.rng.pick(&[1, 2, 3, 4, 8, 16, 17]));
    let mut dims = vec![1 + draft.rng.below(2), channels];
    dims.extend((0..spatial).map(|_| 3 + draft.rng.below(8)));
    draft.leaf(DType::F32, &dims)
}

/// Windows that fit an image: kernel, strides, padding.
fn windows(draft: &mut Draft<'_>, dims: &[usize], padded: bool) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let kernel: Vec<usize> = dims[2..].iter().map(|&dim| 1 + draft.rng.below(dim.min(3))).collect();
    let strides = kernel.iter().map(|_| draft.rng.pick(&[1, 1, 2, 3])).collect();
    let both = kernel.iter().chain(&kernel);
    let pads = both.map(|&size| if padded { draft.rng.below(size) } else { 0 }).collect();
    (kernel, strides, pads)
}

pub(super) fn convolution(draft: &mut Draft<'_>) -> Option<()> {
    let x = image(draft, None);
    let channels = x.dims[1];
    let groups: Vec<usize> =
        [1, 1, 1, 2, channels].into_iter().filter(|&g| channels.is_multiple_of(g)).collect();
    let groups = draft.rng.pick(&groups);
    if !x.finite && groups > 1 && groups < channels {
        return None; // `native` and `cpu` assume finite numbers: their rules `widen-groups-*` multiply by zeros.
    }
    let outputs = groups * draft.rng.pick(&[1, 1, 2, 3, 8]);
    let padded = draft.rng.percent(60);
    let (kernel, strides, pads) = windows(draft, &x.dims, padded);
    let mut shape = vec![outputs, channels / groups];
    shape.extend(&kernel);
    let w = draft.weights(DType::F32, &shape);
    let b = draft.weights(DType::F32, &[outputs]);
    let mut attributes = vec![int("group", signed(&[groups])[0]), list("strides", &signed(&strides))];
    match draft.rng.below(5) {
        0 => attributes.push(text("auto_pad", draft.rng.pick(&["SAME_UPPER", "SAME_LOWER", "VALID"]))),
        _ => attributes.push(list("pads", &signed(&pads))),
    }
    let dilated = kernel.iter().zip(&x.dims[2..]).all(|(size, dim)| (size - 1) * 2 < *dim);
    if dilated && draft.rng.percent(20) {
        attributes.push(list("dilations", &vec![2; kernel.len()]));
    }
    let bias = if draft.rng.percent(70) { b.name } else { String::new() };
    draft.node("Conv", &[&x.name, &w.name, &bias], attributes, &[DType::F32])
}

pub(super) fn transposed(draft: &mut Draft<'_>) -> Option<()> {
    let x = image(draft, None);
    let channels = x.dims[1];
    let groups = if channels.is_multiple_of(2) && draft.rng.percent(30) { 2 } else { 1 };
    let (kernel, strides, pads) = windows(draft, &x.dims, true);
    if x.count() > 2000 || x.rank() > 4 {
        return None;
    }
    let mut shape = vec![channels, 1 + draft.rng.below(3)];
    shape.extend(&kernel);
    let outputs = shape[1] * groups;
    let w = draft.weights(DType::F32, &shape);
    let b = draft.weights(DType::F32, &[outputs]);
    // Padding takes from the ends of a result, which must keep some.
    let kept = (0..kernel.len())
        .all(|at| (x.dims[2 + at] - 1) * strides[at] + kernel[at] > pads[at] + pads[kernel.len() + at]);
    let mut attributes = vec![list("strides", &signed(&strides)), int("group", signed(&[groups])[0])];
    if kept {
        attributes.push(list("pads", &signed(&pads)));
    }
    let extra: Vec<i64> =
        strides.iter().map(|&stride| if stride > 1 { draft.rng.between(0, 1) } else { 0 }).collect();
    if draft.rng.percent(30) {
        attributes.push(list("output_padding", &extra));
    }
    let bias = if draft.rng.percent(60) { b.name } else { String::new() };
    draft.node("ConvTranspose", &[&x.name, &w.name, &bias], attributes, &[DType::F32])
}

pub(super) fn pool(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool"]);
    let x = image(draft, None);
    if op == "LpPool" && draft.opset() < 2 {
        return None; // There its norm was a float.
    }
    if !x.finite && op == "MaxPool" {
        return None; // In ONNX Runtime a NaN counts or does not by its place in the window.
    }
    let (kernel, strides, pads) = windows(draft, &x.dims, true);
    let mut attributes = vec![list("kernel_shape", &signed(&kernel)), list("strides", &signed(&strides))];
    match draft.rng.below(5) {
        // Where a step is wider than the window, ONNX Runtime cuts off what is left over: `docs/NUMERICS.md`.
        0 if strides.iter().zip(&kernel).all(|(stride, size)| stride <= size) => {
            attributes.push(text("auto_pad", draft.rng.pick(&["SAME_UPPER", "SAME_LOWER", "VALID"])))
        }
        _ => attributes.push(list("pads", &signed(&pads))),
    }
    if op == "AveragePool" && draft.opset() >= 7 && draft.rng.percent(40) {
        attributes.push(int("count_include_pad", 1));
    }
    if op == "MaxPool" && draft.opset() >= 10 && draft.rng.percent(30) {
        attributes.push(int("ceil_mode", 1));
    }
    if op == "LpPool" {
        attributes.push(int("p", draft.rng.pick(&[1, 2])));
    }
    draft.node(op, &[&x.name], attributes, &[DType::F32])
}

pub(super) fn global_pool(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]);
    let x = image(draft, None);
    if !x.finite && op == "GlobalMaxPool" {
        return None; // As for `MaxPool`.
    }
    draft.node(op, &[&x.name], Vec::new(), &[DType::F32])
}

/// Adds a constant of positive numbers for each channel.
fn positive(draft: &mut Draft<'_>, count: usize) -> String {
    let values: Vec<f64> = (0..count).map(|_| 0.3 + draft.rng.unit()).collect();
    draft.hidden(Tensor::from_f64(DType::F32, [count], &values))
}

pub(super) fn batch_norm(draft: &mut Draft<'_>) -> Option<()> {
    let x = image(draft, None);
    let channels = x.dims[1];
    let (scale, bias) =
        (draft.weights(DType::F32, &[channels]).name, draft.weights(DType::F32, &[channels]).name);
    let (mean, variance) = (draft.weights(DType::F32, &[channels]).name, positive(draft, channels));
    let mut attributes = if draft.rng.percent(50) { vec![float("epsilon", 1e-3)] } else { Vec::new() };
    match draft.opset() {
        ..6 => return None, // A list of what is overwritten was needed.
        6 => attributes.push(int("is_test", 1)),
        _ => {}
    }
    draft.node("BatchNormalization", &[&x.name, &scale, &bias, &mean, &variance], attributes, &[DType::F32])
}

pub(super) fn instance_norm(draft: &mut Draft<'_>) -> Option<()> {
    let x = image(draft, None);
    let channels = x.dims[1];
    if x.dims[2..].iter().product::<usize>() < 2 || !x.finite {
        return None; // The deviation of one element is zero, and rounding alone would be compared.
    }
    if draft.opset() >= 18 && draft.rng.percent(50) {
        let groups = if channels.is_multiple_of(2) { 2 } else { 1 };
        let count = if draft.opset() >= 21 { channels } else { groups };
        let (scale, bias) =
            (draft.weights(DType::F32, &[count]).name, draft.weights(DType::F32, &[count]).name);
        let attributes = vec![int("num_groups", signed(&[groups])[0]), float("epsilon", 1e-3)];
        return draft.node("GroupNormalization", &[&x.name, &scale, &bias], attributes, &[DType::F32]);
    }
    let (scale, bias) =
        (draft.weights(DType::F32, &[channels]).name, draft.weights(DType::F32, &[channels]).name);
    draft.node(
        "InstanceNormalization",
        &[&x.name, &scale, &bias],
        vec![float("epsilon", 1e-3)],
        &[DType::F32],
    )
}

pub(super) fn response_norm(draft: &mut Draft<'_>) -> Option<()> {
    let x = image(draft, None);
    if x.rank() != 4 || !x.finite {
        return None; // ONNX Runtime has no other, and adds and subtracts squares, so that infinities spread.
    }
    let attributes = vec![int("size", draft.rng.pick(&[1, 3, 5])), float("alpha", 0.01)];
    draft.node("LRN", &[&x.name], attributes, &[DType::F32])
}

pub(super) fn resize(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let dims =
        [1 + draft.rng.below(2), 1 + draft.rng.below(8), 2 + draft.rng.below(6), 2 + draft.rng.below(6)];
    let x = draft.leaf(DType::F32, &dims);
    let mode = draft.rng.pick(&["nearest", "linear", "cubic"]);
    if !x.finite && mode != "nearest" {
        return None; // ONNX Runtime multiplies elements by zero, so that infinities spread.
    }
    let scale = draft.rng.pick(&[0.5, 1.5, 2.0, 3.0]);
    let scales = draft.hidden(Tensor::from_f64(DType::F32, [4], &[1.0, 1.0, scale, scale]));
    // Where a size is not whole, ONNX Runtime takes the rounded one for these ways: `docs/NUMERICS.md`.
    let places: &[&str] = if scale < 2.0 {
        &["half_pixel", "asymmetric"]
    } else {
        &["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    };
    let place = draft.rng.pick(places);
    let mut attributes = vec![text("mode", mode), text("coordinate_transformation_mode", place)];
    if mode == "nearest" {
        attributes.push(text("nearest_mode", draft.rng.pick(&["floor", "ceil", "round_prefer_floor"])));
    }
    // Before opset 13 the region of interest was no optional operand.
    let region =
        if draft.opset() < 13 { draft.hidden(Tensor::from_f64(DType::F32, [0], &[])) } else { String::new() };
    draft.node("Resize", &[&x.name, &region, &scales], attributes, &[DType::F32])
}
