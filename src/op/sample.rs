//! Ops that read images between their pixels: `grid-sample`, `roi-align` and `deform-conv`; and `col2im`.

use super::independence::{batch, none};
use super::window::room;
use super::{Arity, AttrDef, Draw, Elements, Flags, OpDef, OpError, Sample, Values, count, plain, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType, advance};

fn text(name: &'static str, default: &str, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Str, Some(Attr::Str(default.into())), doc)
}

fn int(name: &'static str, default: i64, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Int, Some(Attr::Int(default)), doc)
}

fn ints(name: &'static str, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Ints, None, doc)
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "grid-sample",
            doc: "elements of an image (operand 0: batch, channels, space) at the points of a grid (operand 1: batch, \
                  space, coordinates from -1 to 1, the last axis of space first)",
            arity: Arity::Exactly(2),
            attrs: vec![
                text("mode", "linear", "linear, nearest or cubic"),
                text("padding", "zeros", "zeros, border or reflection: what is outside of the image"),
                int(
                    "align-corners",
                    0,
                    "1: -1 and 1 are the centres of the first and the last pixel, 0: their edges",
                ),
            ],
            flags: Flags::independent(grid),
            infer: infer_grid,
            eval: eval_grid,
            flops: flops_of_grid,
            sample: Some(draw_grid),
            lowered: None,
        },
        OpDef {
            name: "roi-align",
            doc: "regions (operand 1: x1, y1, x2, y2) of images (operand 0) by their number (operand 2), each pooled \
                  to the same size",
            arity: Arity::Exactly(3),
            attrs: vec![
                ints("output-size", "rows and columns of the result"),
                int("samples", 0, "points along each axis of a cell; 0: as many as the cell has pixels"),
                AttrDef::new("scale", AttrKind::Float, None, "pixels of the image for a unit of the regions"),
                int("half-pixel", 1, "1: coordinates are shifted by half a pixel"),
                text("mode", "avg", "avg or max"),
            ],
            flags: Flags { demands: Some(images), ..Flags::independent(regions) },
            infer: infer_roi,
            eval: eval_roi,
            flops: |_, _, ty| count(ty) * 32.0,
            sample: Some(draw_roi),
            lowered: None,
        },
        OpDef {
            name: "deform-conv",
            doc: "a convolution of an image (operand 0) with weights (operand 1) whose taps are moved by offsets \
                  (operand 2), times a mask (operand 3)",
            arity: Arity::Exactly(4),
            attrs: vec![
                ints("strides", "rows and columns"),
                ints("pads", "top, left, bottom, right"),
                ints("dilations", "rows and columns"),
                int("groups", 1, "groups of channels"),
                int("offset-groups", 1, "groups of channels that share offsets"),
            ],
            flags: Flags::independent(deformed),
            infer: infer_deform,
            eval: eval_deform,
            flops: |_, types, ty| {
                let taps: usize = types[1].shape[1..].iter().product();
                #[allow(clippy::cast_precision_loss)]
                let taps = taps as f64;
                count(ty) * taps * 8.0
            },
            sample: Some(draw_deform),
            lowered: None,
        },
        OpDef {
            name: "col2im",
            doc: "the sum of blocks of pixels (operand 0: batch, channels times block, blocks) at their places in an image",
            arity: Arity::Exactly(1),
            attrs: vec![
                ints("image", "the sizes of the image"),
                ints("block", "the sizes of a block"),
                ints("strides", "between blocks, along each axis"),
                ints("pads", "before each axis, then after each"),
                ints("dilations", "between the pixels of a block, along each axis"),
            ],
            flags: Flags::independent(batch),
            infer: infer_col2im,
            eval: eval_col2im,
            flops: |_, types, _| count(types[0]),
            sample: Some(draw_col2im),
            lowered: None,
        },
    ]
}

/// The numbers of images are below how many there are.
fn images(_: &Attrs, types: &[&TensorType]) -> Option<(usize, Elements)> {
    let last = types[0].shape.first()?.checked_sub(1)?;
    Some((2, Elements::at_most("number of the image", last)))
}

/// Images and channels are kept, and each point of the grid is a point of the result.
fn grid(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let image = (0..types[0].shape.rank()).map(|axis| (axis < 2).then_some(axis)).collect();
    let last = types[1].shape.rank() - 1;
    let point = |axis: usize| match axis {
        0 => Some(0),
        _ => (axis < last).then_some(axis + 1),
    };
    vec![image, (0..=last).map(point).collect()]
}

/// Regions and channels are kept.
fn regions(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let image = (0..types[0].shape.rank()).map(|axis| (axis == 1).then_some(1)).collect();
    vec![image, vec![Some(0), None], vec![Some(0)]]
}

/// Images are kept. All operands but the weights have one for each image.
fn deformed(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let first = |ty: &TensorType| (0..ty.shape.rank()).map(|axis| (axis == 0).then_some(0)).collect();
    let own = |(operand, ty): (usize, &&TensorType)| if operand == 1 { none(ty) } else { first(ty) };
    types.iter().enumerate().map(own).collect()
}

fn floats(types: &[&TensorType]) -> Result<(), OpError> {
    plain(types)?;
    match types[0].dtype.is_float() {
        true => Ok(()),
        false => Err(OpError::operand(0, types[0], ", not of floats")),
    }
}

fn infer_grid(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (x, grid) = (&types[0].shape, &types[1].shape);
    let fits =
        x.rank() > 2 && grid.rank() == x.rank() && grid[0] == x[0] && grid[grid.rank() - 1] == x.rank() - 2;
    if !fits {
        return Err(OpError::operands(format!("the grid {} does not fit {}", types[1], types[0])));
    }
    if !["linear", "nearest", "cubic"].contains(&attrs.expect_str("mode")) {
        return Err(OpError::attribute("mode", "is not linear, nearest or cubic"));
    }
    if !["zeros", "border", "reflection"].contains(&attrs.expect_str("padding")) {
        return Err(OpError::attribute("padding", "is not zeros, border or reflection"));
    }
    let (pixels, points) =
        (x[2..].iter().product::<usize>(), grid[1..grid.rank() - 1].iter().product::<usize>());
    if pixels == 0 && points > 0 && attrs.expect_str("padding") != "zeros" {
        return Err(OpError::operand(0, types[0], ", which has no elements for points"));
    }
    let dims = [&x[..2], &grid[1..grid.rank() - 1]].concat();
    Ok(TensorType::plain(types[0].dtype, dims))
}

/// Each pixel that counts for a point has a place, a weight and a product.
#[allow(clippy::cast_precision_loss)]
fn flops_of_grid(attrs: &Attrs, types: &[&TensorType], ty: &TensorType) -> f64 {
    let along: f64 = match attrs.expect_str("mode") {
        "nearest" => 1.0,
        "linear" => 2.0,
        _ => 4.0,
    };
    let pixels: f64 = types[0].shape.iter().skip(2).map(|_| along).product();
    count(ty) * pixels * 4.0
}

/// Reflects a coordinate at both ends of a range.
fn reflected(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    let distance = (x - low).rem_euclid(2.0 * range);
    low + distance.min(2.0 * range - distance)
}

/// Returns the weight of a pixel at a distance from a point, by cubic interpolation with the coefficient -0.75.
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let d = distance.abs();
    if d <= 1.0 {
        ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A
    } else {
        0.0
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn eval_grid(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (mode, padding) = (attrs.expect_str("mode"), attrs.expect_str("padding"));
    let corners = attrs.expect_int("align-corners") != 0;
    let shape = &operands[0].ty().shape;
    let space = &shape[2..];
    let (x, grid) = (operands[0].to_f64(), operands[1].to_f64());
    let plane: usize = space.iter().product();
    let points: usize = ty.shape[2..].iter().product();
    let last = |size: usize| size.saturating_sub(1) as f64;
    let bounds = |size: usize| if corners { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) };
    // The index of a pixel along an axis, after padding; `None` for one that counts as zero.
    let inside = |index: f64, size: usize| match padding {
        _ if plane == 0 => None,
        "zeros" => (index >= 0.0 && index < size as f64).then_some(index as usize),
        "border" => Some(index.clamp(0.0, last(size)) as usize),
        _ => {
            let (low, high) = bounds(size);
            Some(reflected(index, low, high).round_ties_even().clamp(0.0, last(size)) as usize)
        }
    };
    let mut result = vec![0.0; ty.shape.count()];
    for batch in 0..shape[0] {
        for point in 0..points {
            let at = (batch * points + point) * space.len();
            // For each axis, the pixels that count, with their weights.
            let mut taps: Vec<Vec<(Option<usize>, f64)>> = Vec::with_capacity(space.len());
            for (axis, &size) in space.iter().enumerate() {
                let given = grid[at + space.len() - 1 - axis];
                let mut place = match corners {
                    true => (given + 1.0) / 2.0 * (size as f64 - 1.0),
                    false => ((given + 1.0) * size as f64 - 1.0) / 2.0,
                };
                if mode != "cubic" {
                    let (low, high) = bounds(size);
                    place = match padding {
                        "border" => place.clamp(0.0, last(size)),
                        "reflection" => reflected(place, low, high).clamp(0.0, last(size)),
                        _ => place,
                    };
                }
                let base = place.floor();
                taps.push(match mode {
                    "nearest" => vec![(inside(place.round_ties_even(), size), 1.0)],
                    "linear" => [base, base + 1.0]
                        .iter()
                        .map(|index| (inside(*index, size), 1.0 - (place - index).abs()))
                        .collect(),
                    _ => (-1..3)
                        .map(|step| {
                            let index = base + f64::from(step);
                            (inside(index, size), cubic(place - index))
                        })
                        .collect(),
                });
            }
            for channel in 0..shape[1] {
                let image = &x[(batch * shape[1] + channel) * plane..][..plane];
                result[(batch * shape[1] + channel) * points + point] = weighted(image, space, &taps);
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the sum of the pixels at all combinations of taps, times their weights.
fn weighted(image: &[f64], space: &[usize], taps: &[Vec<(Option<usize>, f64)>]) -> f64 {
    let counts: Vec<usize> = taps.iter().map(Vec::len).collect();
    let mut index = vec![0; taps.len()];
    let mut sum = 0.0;
    for _ in 0..counts.iter().product() {
        let (mut at, mut weight) = (Some(0), 1.0);
        for (axis, &tap) in index.iter().enumerate() {
            let (pixel, share) = taps[axis][tap];
            at = at.and_then(|at| Some(at * space[axis] + pixel?));
            weight *= share;
        }
        if let Some(at) = at.filter(|_| weight != 0.0) {
            sum += weight * image[at];
        }
        advance(&mut index, &counts);
    }
    sum
}

/// The most samples along an axis of a cell of `roi-align`.
const MOST_SAMPLES: i64 = 1 << 12;

fn infer_roi(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (x, regions) = (&types[0].shape, &types[1].shape);
    let size = sizes(attrs, "output-size")?;
    let fits =
        x.rank() == 4 && regions.rank() == 2 && regions[1] == 4 && types[2].shape.to_vec() == [regions[0]];
    if !attrs.expect_float("scale").is_finite() {
        return Err(OpError::attribute("scale", "is not finite"));
    }
    let samples = (0..=MOST_SAMPLES).contains(&attrs.expect_int("samples"));
    if !samples {
        return Err(OpError::attribute("samples", format!("is not among 0 to {MOST_SAMPLES}")));
    }
    if !fits || size.len() != 2 {
        return Err(OpError::operands(format!(
            "regions {} and {} do not fit {}",
            types[1], types[2], types[0]
        )));
    }
    if x.count() == 0 && regions[0] > 0 {
        return Err(OpError::operand(0, types[0], ", which has no elements for regions"));
    }
    Ok(TensorType::plain(types[0].dtype, [regions[0], x[1], size[0], size[1]]))
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn eval_roi(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let shape = &operands[0].ty().shape;
    let (rows, columns) = (shape[2], shape[3]);
    let (x, regions) = (operands[0].to_f64(), operands[1].to_f64());
    let images = operands[2].to_i64().unwrap_or_default();
    let (scale, half) = (attrs.expect_float("scale"), attrs.expect_int("half-pixel") != 0);
    let samples = usize::try_from(attrs.expect_int("samples")).unwrap_or(0);
    let most = attrs.expect_str("mode") == "max";
    let most_samples = MOST_SAMPLES as f64; // Of a region of infinite size as well.
    let (high, wide) = (ty.shape[2], ty.shape[3]);
    let mut result = Vec::with_capacity(ty.shape.count());
    for (region, image) in regions.chunks_exact(4).zip(images) {
        let image = usize::try_from(image).unwrap_or(0).min(shape[0].saturating_sub(1));
        let shift = if half { 0.5 } else { 0.0 };
        let corner: Vec<f64> = region.iter().map(|at| at * scale - shift).collect();
        let mut extent = [corner[3] - corner[1], corner[2] - corner[0]];
        if !half {
            extent = extent.map(|size| size.max(1.0));
        }
        let cell = [extent[0] / high as f64, extent[1] / wide as f64];
        let grid = cell
            .map(|size| if samples > 0 { samples } else { size.ceil().clamp(0.0, most_samples) as usize });
        for channel in 0..shape[1] {
            let plane = &x[(image * shape[1] + channel) * rows * columns..][..rows * columns];
            for (row, column) in (0..high * wide).map(|at| (at / wide, at % wide)) {
                let mut found: Vec<f64> = Vec::new();
                for (down, right) in (0..grid[0] * grid[1]).map(|at| (at / grid[1], at % grid[1])) {
                    let y = corner[1] + (row as f64 + (down as f64 + 0.5) / grid[0] as f64) * cell[0];
                    let x = corner[0] + (column as f64 + (right as f64 + 0.5) / grid[1] as f64) * cell[1];
                    found.extend(between(plane, rows, columns, y, x, most));
                }
                let points = (grid[0] * grid[1]).max(1) as f64;
                result.push(match most {
                    true => found.iter().copied().reduce(f64::max).unwrap_or(0.0),
                    false => found.iter().sum::<f64>() / points,
                });
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the weighted pixels around a point of a plane, each of them or their sum.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn between(plane: &[f64], rows: usize, columns: usize, y: f64, x: f64, each: bool) -> Vec<f64> {
    if y < -1.0 || y > rows as f64 || x < -1.0 || x > columns as f64 {
        return vec![0.0];
    }
    let axis = |at: f64, size: usize| {
        let at = at.max(0.0);
        let low = (at as usize).min(size - 1);
        let at = if low + 1 >= size { low as f64 } else { at };
        (low, (low + 1).min(size - 1), at - low as f64)
    };
    let ((top, bottom, down), (left, right, across)) = (axis(y, rows), axis(x, columns));
    let corners = [
        (top, left, (1.0 - down) * (1.0 - across)),
        (top, right, (1.0 - down) * across),
        (bottom, left, down * (1.0 - across)),
        (bottom, right, down * across),
    ];
    let parts = corners.map(|(row, column, weight)| plane[row * columns + column] * weight);
    if each { parts.to_vec() } else { vec![parts.iter().sum()] }
}

fn infer_deform(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (x, w) = (&types[0].shape, &types[1].shape);
    let (strides, pads, dilations) =
        (sizes(attrs, "strides")?, sizes(attrs, "pads")?, sizes(attrs, "dilations")?);
    if x.rank() != 4 || w.rank() != 4 || strides.len() != 2 || pads.len() != 4 || dilations.len() != 2 {
        return Err(OpError::operands(format!("weights {} do not fit {}", types[1], types[0])));
    }
    let size = |at: usize| {
        let rest = room(x[2 + at], [pads[at], pads[2 + at]], w[2 + at], dilations[at])?;
        Some(rest / strides[at].max(1) + 1)
    };
    let (Some(rows), Some(columns)) = (size(0), size(1)) else {
        return Err(OpError::operands(format!("weights {} are larger than {}", types[1], types[0])));
    };
    let groups = usize::try_from(attrs.expect_int("offset-groups")).unwrap_or(0);
    let own = usize::try_from(attrs.expect_int("groups")).unwrap_or(0);
    let divides = |count: usize, groups: usize| groups > 0 && count.is_multiple_of(groups);
    if !divides(w[0], own) || w[1] * own != x[1] || !divides(x[1], groups) {
        return Err(OpError::operands(format!(
            "weights {} and {groups} groups of offsets do not fit {}",
            types[1], types[0]
        )));
    }
    let taps = w[2] * w[3];
    let offsets = [x[0], groups * taps * 2, rows, columns];
    let mask = [x[0], groups * taps, rows, columns];
    if types[2].shape.to_vec() != offsets || types[3].shape.to_vec() != mask {
        return Err(OpError::operands(format!("offsets {} and mask {} do not fit", types[2], types[3])));
    }
    Ok(TensorType::plain(types[0].dtype, [x[0], w[0], rows, columns]))
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn eval_deform(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (shape, weights) = (&operands[0].ty().shape, &operands[1].ty().shape);
    let list = |name| sizes(attrs, name).expect("infer accepted");
    let (strides, pads, dilations) = (list("strides"), list("pads"), list("dilations"));
    let whole = |name| usize::try_from(attrs.expect_int(name)).unwrap_or(1).max(1);
    let (groups, offset_groups) = (whole("groups"), whole("offset-groups"));
    let values: Vec<Vec<f64>> = operands.iter().map(|operand| operand.to_f64()).collect();
    let (rows, columns, taps) = (shape[2], shape[3], weights[2] * weights[3]);
    let (high, wide) = (ty.shape[2], ty.shape[3]);
    let (inputs, outputs) = (weights[1], weights[0] / groups);
    let pixel = |plane: &[f64], y: f64, x: f64| {
        let (top, left) = (y.floor(), x.floor());
        let mut sum = 0.0;
        for (row, column) in [(top, left), (top, left + 1.0), (top + 1.0, left), (top + 1.0, left + 1.0)] {
            if row >= 0.0 && column >= 0.0 && row < rows as f64 && column < columns as f64 {
                #[allow(clippy::cast_sign_loss)]
                let value = plane[row as usize * columns + column as usize];
                sum += value * (1.0 - (y - row).abs()) * (1.0 - (x - column).abs());
            }
        }
        sum
    };
    let mut result = Vec::with_capacity(ty.shape.count());
    for position in 0..ty.shape.count() {
        let (column, row) = (position % wide, position / wide % high);
        let (filter, batch) = (position / (wide * high) % weights[0], position / (wide * high * weights[0]));
        let mut sum = 0.0;
        for (input, tap) in (0..inputs * taps).map(|at| (at / taps, at % taps)) {
            let channel = filter / outputs * inputs + input;
            let group = channel / (shape[1] / offset_groups).max(1);
            let at = |map: usize, maps: usize| ((batch * maps + map) * high + row) * wide + column;
            let offset = 2 * (group * taps + tap);
            let y = values[2][at(offset, offset_groups * taps * 2)];
            let x = values[2][at(offset + 1, offset_groups * taps * 2)];
            let place = |index: usize, stride: usize, step: usize, dilation: usize, pad: usize| {
                (index * stride + step * dilation) as f64 - pad as f64
            };
            let y = y + place(row, strides[0], tap / weights[3], dilations[0], pads[0]);
            let x = x + place(column, strides[1], tap % weights[3], dilations[1], pads[1]);
            let plane = &values[0][(batch * shape[1] + channel) * rows * columns..][..rows * columns];
            let mask = values[3][at(group * taps + tap, offset_groups * taps)];
            sum += values[1][(filter * inputs + input) * taps + tap] * mask * pixel(plane, y, x);
        }
        result.push(sum);
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

fn infer_col2im(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (image, block) = (sizes(attrs, "image")?, sizes(attrs, "block")?);
    let area: usize = block.iter().product();
    let x = &types[0].shape;
    if x.rank() != 3 || area == 0 || !x[1].is_multiple_of(area) || image.len() != block.len() {
        return Err(OpError::operand(0, types[0], format!(", which has no blocks of {block:?}")));
    }
    let blocks: Option<usize> = blocks(attrs, &image, &block)?.map(|counts| counts.iter().product());
    if blocks != Some(x[2]) {
        return Err(OpError::operand(
            0,
            types[0],
            match blocks {
                Some(blocks) => format!(": an image of {image:?} has {blocks} blocks"),
                None => format!(": an image of {image:?} is smaller than a block"),
            },
        ));
    }
    Ok(TensorType::plain(types[0].dtype, [&[x[0], x[1] / area], &image[..]].concat()))
}

/// Returns the number of blocks along each axis; `None` if a block is larger than the image.
fn blocks(attrs: &Attrs, image: &[usize], block: &[usize]) -> Result<Option<Vec<usize>>, OpError> {
    let (strides, pads, dilations) =
        (sizes(attrs, "strides")?, sizes(attrs, "pads")?, sizes(attrs, "dilations")?);
    let rank = image.len();
    if strides.contains(&0) {
        return Err(OpError::attribute("strides", format!("must be at least 1, and is {strides:?}")));
    }
    if strides.len() != rank || dilations.len() != rank || pads.len() != 2 * rank {
        return Err(OpError::attribute("strides", format!("or pads or dilations do not fit {rank} axes")));
    }
    let along = |at: usize| {
        let rest = room(image[at], [pads[at], pads[rank + at]], block[at], dilations[at])?;
        Some(rest / strides[at] + 1)
    };
    Ok((0..rank).map(along).collect())
}

fn eval_col2im(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let list = |name| sizes(attrs, name).expect("infer accepted");
    let (image, block) = (list("image"), list("block"));
    let (strides, pads, dilations) = (list("strides"), list("pads"), list("dilations"));
    let counts = blocks(attrs, &image, &block).expect("infer accepted").unwrap_or_default();
    let (area, number): (usize, usize) = (block.iter().product(), counts.iter().product());
    let plane: usize = image.iter().product();
    let values = operands[0].to_f64();
    let mut result = vec![0.0; ty.shape.count()];
    for (row, line) in values.chunks_exact(number.max(1)).enumerate() {
        let target = &mut result[row / area * plane..][..plane];
        let tap = unravel(row % area, &block);
        for (at, value) in line.iter().enumerate() {
            let place = unravel(at, &counts).iter().enumerate().try_fold(0, |sum, (axis, start)| {
                let index = (start * strides[axis] + tap[axis] * dilations[axis]).checked_sub(pads[axis])?;
                (index < image[axis]).then_some(sum * image[axis] + index)
            });
            if let Some(place) = place {
                target[place] += value;
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the index along each axis of a position in row-major order.
fn unravel(mut position: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        index[axis] = position % dims[axis];
        position /= dims[axis];
    }
    index
}

/// Draws an image and a grid of points in it.
fn draw_grid(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, space) = (draw.floats(), 1 + draw.small().min(2));
    let (x, points) = (draw.shape(2 + space), draw.shape(space));
    let grid = [&x[..1], &points, &[space]].concat();
    let attrs = Attrs::new().text("mode", draw.pick(&["linear", "nearest", "cubic"]));
    let attrs = attrs.text("padding", draw.pick(&["zeros", "border", "reflection"]));
    let attrs = attrs.size("align-corners", draw.below(2));
    Some(Sample::new(attrs, vec![TensorType::plain(dtype, x), TensorType::plain(dtype, grid)]))
}

/// Draws regions of images.
fn draw_roi(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, regions, x) = (draw.floats(), draw.small(), draw.shape(4));
    let attrs = Attrs::new().sizes("output-size", &draw.shape(2)).size("samples", draw.below(3));
    let attrs = attrs.float("scale", 0.5).size("half-pixel", draw.below(2));
    let attrs = attrs.text("mode", draw.pick(&["avg", "max"]));
    let images = Values::Below(x[0]);
    let types = [
        TensorType::plain(dtype, x),
        TensorType::plain(dtype, [regions, 4]),
        TensorType::plain(DType::I64, [regions]),
    ];
    Some(Sample::new(attrs, types).with(2, images))
}

/// Draws a convolution with moved taps.
fn draw_deform(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, batch, outputs, inputs) = (draw.floats(), draw.small(), draw.small(), draw.small());
    let (window, result) = (draw.shape(2), draw.shape(2));
    let mut one_of = |from: usize| from + draw.below(2);
    let (groups, shared) = (one_of(1), one_of(1));
    let mut two = |from: usize| [0, 1].map(|_| one_of(from));
    let (strides, dilations, begin, end) = (two(1), two(1), two(0), two(0));
    let channels = inputs * groups * shared;
    let image = [0, 1].map(|axis| {
        let spanned = (result[axis] - 1) * strides[axis] + (window[axis] - 1) * dilations[axis] + 1;
        spanned.saturating_sub(begin[axis] + end[axis]).max(1)
    });
    let fit = [0, 1].map(|axis| {
        let spanned = (window[axis] - 1) * dilations[axis] + 1;
        (image[axis] + begin[axis] + end[axis] - spanned) / strides[axis] + 1
    });
    let attrs = Attrs::new()
        .sizes("strides", &strides)
        .sizes("pads", &[begin, end].concat())
        .sizes("dilations", &dilations)
        .size("groups", groups)
        .size("offset-groups", shared);
    let taps = shared * window[0] * window[1];
    let field = |maps: usize| TensorType::plain(dtype, vec![batch, maps, fit[0], fit[1]]);
    let x = TensorType::plain(dtype, vec![batch, channels, image[0], image[1]]);
    let w = TensorType::plain(dtype, vec![outputs * groups, channels / groups, window[0], window[1]]);
    Some(Sample::new(attrs, vec![x, w, field(2 * taps), field(taps)]))
}

/// Draws blocks of an image.
fn draw_col2im(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, block, counts, outer) = (draw.floats(), draw.shape(2), draw.shape(2), draw.shape(2));
    let image = [0, 1].map(|at| block[at] + counts[at] - 1);
    let attrs = Attrs::new().sizes("image", &image).sizes("block", &block);
    let attrs = attrs.ints("strides", &[1, 1]).ints("pads", &[0; 4]).ints("dilations", &[1, 1]);
    let x = vec![outer[0], outer[1] * block[0] * block[1], counts[0] * counts[1]];
    Some(Sample::new(attrs, vec![TensorType::plain(dtype, x)]))
}
