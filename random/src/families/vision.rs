//! Operators that sample images, and regions of them.

use crate::draft::{Draft, float, int, list, text};
use ovolo::tensor::{DType, Tensor};

fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| i64::try_from(value).unwrap_or(0)).collect()
}

/// Returns a batch, channels, a height and a width.
fn sizes(draft: &mut Draft<'_>) -> [usize; 4] {
    [1 + draft.rng.below(2), 1 + draft.rng.below(4), 2 + draft.rng.below(5), 2 + draft.rng.below(5)]
}

/// Adds a constant or an input of numbers from `least` to `most`.
fn between(draft: &mut Draft<'_>, dims: &[usize], least: f64, most: f64) -> String {
    let count = dims.iter().product();
    let values: Vec<f64> = (0..count).map(|_| least + (most - least) * draft.rng.unit()).collect();
    let constant = draft.rng.percent(40);
    draft.add(Tensor::from_f64(DType::F32, dims, &values), constant).name
}

pub(super) fn upsample(draft: &mut Draft<'_>) -> Option<()> {
    if !(7..10).contains(&draft.opset()) {
        return None;
    }
    let dims = sizes(draft);
    let x = draft.weights(DType::F32, &dims);
    let scales = [1.0, 1.0, draft.rng.pick(&[1.0, 2.0, 3.0]), draft.rng.pick(&[2.0, 4.0])];
    let mode = text("mode", draft.rng.pick(&["nearest", "linear"]));
    if draft.opset() < 9 {
        let scales = crate::draft::floats("scales", &scales);
        return draft.node("Upsample", &[&x.name], vec![mode, scales], &[DType::F32]);
    }
    let scales = draft.hidden(Tensor::from_f64(DType::F32, [4], &scales));
    draft.node("Upsample", &[&x.name, &scales], vec![mode], &[DType::F32])
}

pub(super) fn grid_sample(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 16 {
        return None;
    }
    let dims = sizes(draft);
    let x = draft.weights(DType::F32, &dims);
    let grid = [dims[0], 1 + draft.rng.below(4), 1 + draft.rng.below(4), 2];
    let grid = between(draft, &grid, -1.3, 1.3);
    let modes =
        if draft.opset() < 20 { ["bilinear", "nearest", "bicubic"] } else { ["linear", "nearest", "cubic"] };
    let attributes = vec![
        text("mode", draft.rng.pick(&modes)),
        text("padding_mode", draft.rng.pick(&["zeros", "border", "reflection"])),
        int("align_corners", draft.rng.between(0, 1)),
    ];
    draft.node("GridSample", &[&x.name, &grid], attributes, &[DType::F32])
}

pub(super) fn affine_grid(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 20 {
        return None;
    }
    let flat = draft.rng.percent(70);
    let batch = 1 + draft.rng.below(2);
    let mut size = vec![batch, 1 + draft.rng.below(3), 2 + draft.rng.below(3), 2 + draft.rng.below(3)];
    if !flat {
        size.push(2 + draft.rng.below(3));
    }
    let theta = draft.weights(DType::F32, &[batch, size.len() - 2, size.len() - 1]);
    let size = draft.ints(&signed(&size));
    let corners = int("align_corners", draft.rng.between(0, 1));
    draft.node("AffineGrid", &[&theta.name, &size], vec![corners], &[DType::F32])
}

pub(super) fn roi_align(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let [batch, channels, height, width] = sizes(draft);
    let x = draft.weights(DType::F32, &[batch, channels, height + 3, width + 3]);
    let count = 1 + draft.rng.below(3);
    let regions: Vec<f64> = (0..count)
        .flat_map(|_| {
            let (left, top) = (draft.rng.unit() * 4.0, draft.rng.unit() * 4.0);
            [left, top, left + draft.rng.unit() * 6.0, top + draft.rng.unit() * 6.0]
        })
        .collect();
    let regions = draft.add(Tensor::from_f64(DType::F32, [count, 4], &regions), false).name;
    let images: Vec<i64> = (0..count).map(|_| draft.rng.between(0, signed(&[batch])[0] - 1)).collect();
    let images = draft.ints(&images);
    let mut attributes = vec![
        text("mode", draft.rng.pick(&["avg", "max", "avg"])),
        int("output_height", draft.rng.between(1, 3)),
        int("output_width", draft.rng.between(1, 3)),
        int("sampling_ratio", draft.rng.between(0, 2)),
        float("spatial_scale", draft.rng.pick(&[1.0, 0.5])),
    ];
    if draft.opset() >= 16 {
        let mode = draft.rng.pick(&["half_pixel", "output_half_pixel"]);
        attributes.push(text("coordinate_transformation_mode", mode));
    }
    draft.node("RoiAlign", &[&x.name, &regions, &images], attributes, &[DType::F32])
}

pub(super) fn deform(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 19 {
        return None;
    }
    let [batch, channels, height, width] = sizes(draft);
    let channels = channels * 2;
    let (groups, shifted) = (draft.rng.pick(&[1, 1, 2]), draft.rng.pick(&[1, 1, 2]));
    let kernel = [1 + draft.rng.below(2), 1 + draft.rng.below(2)];
    let (stride, pad) = (1 + draft.rng.below(2), draft.rng.below(2));
    let outputs = groups * (1 + draft.rng.below(2));
    let size = |dim: usize, kernel: usize| (dim + 2 * pad - kernel) / stride + 1;
    let (rows, columns) = (size(height, kernel[0]), size(width, kernel[1]));
    let places = shifted * kernel[0] * kernel[1];
    let x = draft.weights(DType::F32, &[batch, channels, height, width]).name;
    let w = draft.weights(DType::F32, &[outputs, channels / groups, kernel[0], kernel[1]]).name;
    let offset = between(draft, &[batch, 2 * places, rows, columns], -1.5, 1.5);
    let bias = if draft.rng.percent(60) { draft.weights(DType::F32, &[outputs]).name } else { String::new() };
    let mask = if draft.rng.percent(60) {
        between(draft, &[batch, places, rows, columns], 0.0, 1.0)
    } else {
        String::new()
    };
    let attributes = vec![
        list("kernel_shape", &signed(&kernel)),
        list("strides", &signed(&[stride; 2])),
        list("pads", &signed(&[pad; 4])),
        int("group", signed(&[groups])[0]),
        int("offset_group", signed(&[shifted])[0]),
    ];
    draft.node("DeformConv", &[&x, &w, &offset, &bias, &mask], attributes, &[DType::F32])
}

pub(super) fn columns_to_image(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 18 {
        return None;
    }
    let [batch, channels, height, width] = sizes(draft);
    let block = [1 + draft.rng.below(2), 1 + draft.rng.below(2)];
    let (stride, pad) = (1 + draft.rng.below(2), draft.rng.below(2));
    let size = |dim: usize, block: usize| (dim + 2 * pad - block) / stride + 1;
    let places = size(height, block[0]) * size(width, block[1]);
    let x = draft.weights(DType::F32, &[batch, channels * block[0] * block[1], places]).name;
    let (image, block) = (draft.ints(&signed(&[height, width])), draft.ints(&signed(&block)));
    let attributes = vec![list("strides", &signed(&[stride; 2])), list("pads", &signed(&[pad; 4]))];
    draft.node("Col2Im", &[&x, &image, &block], attributes, &[DType::F32])
}

/// Its result is as long as a run finds.
pub(super) fn suppress(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 || draft.rng.percent(50) {
        return None;
    }
    let (batch, classes, count) = (1 + draft.rng.below(2), 1 + draft.rng.below(2), 1 + draft.rng.below(6));
    let centred = draft.rng.between(0, 1);
    let boxes: Vec<f64> = (0..batch * count)
        .flat_map(|_| {
            let (left, top) = (draft.rng.unit() * 2.0, draft.rng.unit() * 2.0);
            let (wide, high) = (0.5 + draft.rng.unit(), 0.5 + draft.rng.unit());
            if centred == 1 { [left, top, wide, high] } else { [left, top, left + wide, top + high] }
        })
        .collect();
    let boxes = draft.add(Tensor::from_f64(DType::F32, [batch, count, 4], &boxes), false).name;
    let scores = between(draft, &[batch, classes, count], 0.0, 1.0);
    let most = draft.rng.between(1, 4);
    let most = draft.ints(&[most]);
    let overlap = draft.hidden(Tensor::from_f64(DType::F32, [1], &[0.4]));
    let least = if draft.rng.percent(60) {
        draft.hidden(Tensor::from_f64(DType::F32, [1], &[0.2]))
    } else {
        String::new()
    };
    let attributes = vec![int("center_point_box", centred)];
    draft.node("NonMaxSuppression", &[&boxes, &scores, &most, &overlap, &least], attributes, &[DType::I64])
}

pub(super) fn crop_pad(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 18 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64], 1..=4);
    let axes: Vec<usize> = (0..x.rank()).filter(|_| draft.rng.percent(60)).collect();
    let all = axes.is_empty();
    let count = if all { x.rank() } else { axes.len() };
    let shape: Vec<i64> = (0..count).map(|_| draft.rng.between(1, 6)).collect();
    let shape = draft.ints(&shape);
    let attributes = if all { Vec::new() } else { vec![list("axes", &signed(&axes))] };
    draft.node("CenterCropPad", &[&x.name, &shape], attributes, &[x.dtype])
}

/// A pool that gives positions, and its inverse.
pub(super) fn unpool(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let [batch, channels, rows, columns] = sizes(draft);
    let x = draft.weights(DType::F32, &[batch, channels, 2 * rows, 2 * columns]).name;
    let attributes = || vec![list("kernel_shape", &[2, 2]), list("strides", &[2, 2])];
    draft.node("MaxPool", &[&x], attributes(), &[DType::F32, DType::I64])?;
    if draft.closed {
        return Some(());
    }
    let [.., most, places] = draft.pool.as_slice() else { return None };
    let (most, places) = (most.name.clone(), places.name.clone());
    draft.node("MaxUnpool", &[&most, &places], attributes(), &[DType::F32])
}

pub(super) fn determinant(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let size = 1 + draft.rng.below(4);
    let mut dims: Vec<usize> = (0..draft.rng.below(3)).map(|_| 1 + draft.rng.below(3)).collect();
    dims.extend([size, size]);
    let x = draft.weights(DType::F32, &dims);
    draft.node("Det", &[&x.name], Vec::new(), &[DType::F32])
}
