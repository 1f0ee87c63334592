//! Operators on images and signals: sampling between pixels, suppression of boxes, Fourier transforms and windows.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::onnx::element::element_type;
use crate::tensor::{DType, Tensor, TensorType};
use std::f64::consts::TAU;

pub(super) const TABLE: &[Operator] = &[
    entry("GridSample", 2, 2, grid_sample),
    entry("AffineGrid", 2, 2, affine_grid),
    entry("RoiAlign", 3, 3, roi_align),
    entry("DeformConv", 3, 5, deform_conv),
    entry("Col2Im", 3, 3, col2im),
    entry("NonMaxSuppression", 2, 5, non_max_suppression),
    entry("DFT", 1, 3, dft),
    entry("STFT", 2, 4, stft),
    entry("HannWindow", 1, 1, |call| window(call, &[0.5, 0.5])),
    entry("HammingWindow", 1, 1, |call| window(call, &[25.0 / 46.0, 21.0 / 46.0])),
    entry("BlackmanWindow", 1, 1, |call| window(call, &[0.42, 0.5, 0.08])),
    entry("MelWeightMatrix", 5, 5, mel_weights),
    entry("CenterCropPad", 2, 2, center_crop_pad),
];

fn text(text: &str) -> Attr {
    Attr::Str(text.into())
}

fn to(dtype: DType) -> Attrs {
    Attrs::new().with("to", Attr::DType(dtype))
}

fn part_of(x: &ImportedValue, axis: usize, start: usize, size: usize) -> Attrs {
    let (mut starts, mut sizes) = (vec![0; x.rank()], x.dims().to_vec());
    (starts[axis], sizes[axis]) = (start, size);
    Attrs::new()
        .ints("starts", &signed(&starts))
        .ints("sizes", &signed(&sizes))
        .ints("steps", &vec![1; x.rank()])
}

fn grid_sample(call: &mut Call<'_>) -> Results {
    let (x, mut grid) = (call.input(0)?, call.input(1)?);
    let mode = match call.text("mode", "linear")? {
        "linear" | "bilinear" => "linear",
        "nearest" => "nearest",
        "cubic" | "bicubic" => "cubic",
        other => {
            return Err(Refusal::attribute("mode", format!("is `{other}`, not linear, nearest or cubic")));
        }
    };
    let padding = call.text("padding_mode", "zeros")?.to_owned();
    let corners = call.flag("align_corners", false)?;
    if grid.ty.dtype != x.ty.dtype {
        grid = call.helper("grid", "cast", to(x.ty.dtype), &[&grid])?;
    }
    let attrs = Attrs::new()
        .with("mode", text(mode))
        .with("padding", text(&padding))
        .int("align-corners", i64::from(corners));
    Ok(vec![call.result("grid-sample", attrs, &[&x, &grid])?])
}

/// The points of an even grid, with a one added to each, times a matrix for each image.
fn affine_grid(call: &mut Call<'_>) -> Results {
    let theta = call.input(0)?;
    let size = call.known_ints(1, "size")?.unwrap_or_default();
    let corners = call.flag("align_corners", false)?;
    let space: Option<Vec<usize>> =
        size.get(2..).map(|space| space.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect());
    let Some(space) = space.filter(|space| matches!(space.len(), 2 | 3) && !space.contains(&0)) else {
        return Err(Refusal::other(format!(
            "its size {size:?} is not the size of an image with two or three axes"
        )));
    };
    let (rank, count): (usize, usize) = (space.len(), space.iter().product());
    #[allow(clippy::cast_precision_loss)]
    let coordinate = |index: usize, size: usize| match (corners, size) {
        (true, 1) => 0.0,
        (true, _) => -1.0 + 2.0 * index as f64 / (size as f64 - 1.0),
        (false, _) => (2.0 * index as f64 + 1.0) / size as f64 - 1.0,
    };
    let mut points = Vec::with_capacity(count * (rank + 1));
    for point in 0..count {
        let (mut rest, mut index) = (point, vec![0; rank]);
        for at in (0..rank).rev() {
            index[at] = rest % space[at];
            rest /= space[at];
        }
        points.extend((0..rank).rev().map(|at| coordinate(index[at], space[at])));
        points.push(1.0);
    }
    let points = call.constant("points", Tensor::from_f64(theta.ty.dtype, [count, rank + 1], &points));
    let turned = call.helper("turned", "transpose", Attrs::new().ints("perm", &[0, 2, 1]), &[&theta])?;
    let moved = call.helper("moved", "matmul", Attrs::new(), &[&points, &turned])?;
    let dims = [&[theta.dims()[0]], &space[..], &[rank]].concat();
    Ok(vec![call.reshape(None, &moved, &dims)?])
}

fn roi_align(call: &mut Call<'_>) -> Results {
    let (x, regions, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let half = match call.opset {
        ..16 => false,
        _ => match call.text("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => {
                let why = format!("is `{other}`, not half_pixel or output_half_pixel");
                return Err(Refusal::attribute("coordinate_transformation_mode", why));
            }
        },
    };
    let mode = call.text("mode", "avg")?.to_owned();
    let attrs = Attrs::new()
        .ints("output-size", &[call.int("output_height", 1)?, call.int("output_width", 1)?])
        .int("samples", call.int("sampling_ratio", 0)?)
        .float("scale", call.float("spatial_scale", 1.0)?)
        .int("half-pixel", i64::from(half))
        .with("mode", text(&mode));
    Ok(vec![call.result("roi-align", attrs, &[&x, &regions, &images])?])
}

fn deform_conv(call: &mut Call<'_>) -> Results {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if x.rank() != 4 || w.rank() != 4 || offset.rank() != 4 {
        return Err(Refusal::other("ovolo moves the taps of two-dimensional convolutions only"));
    }
    let list = |call: &Call<'_>, name, length, default| {
        Ok::<_, Refusal>(call.ints(name)?.map_or_else(|| vec![default; length], <[i64]>::to_vec))
    };
    call.ignore(&["kernel_shape"]);
    let attrs = Attrs::new()
        .ints("strides", &list(call, "strides", 2, 1)?)
        .ints("pads", &list(call, "pads", 4, 0)?)
        .ints("dilations", &list(call, "dilations", 2, 1)?)
        .int("groups", call.int("group", 1)?)
        .int("offset-groups", call.int("offset_group", 1)?);
    let mask = match call.optional(4) {
        Some(mask) => mask,
        None => {
            let mut dims = offset.dims().to_vec();
            dims[1] /= 2;
            let ones = vec![1.0; dims.iter().product()];
            call.constant("mask", Tensor::from_f64(x.ty.dtype, dims, &ones))
        }
    };
    let Some(bias) = call.optional(3) else {
        return Ok(vec![call.result("deform-conv", attrs, &[&x, &w, &offset, &mask])?]);
    };
    let y = call.helper("product", "deform-conv", attrs, &[&x, &w, &offset, &mask])?;
    let bias = call.reshape(Some("bias"), &bias, &[w.dims()[0], 1, 1])?;
    Ok(vec![call.result("add", Attrs::new(), &[&y, &bias])?])
}

fn col2im(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let image = call.known_ints(1, "image shape")?.unwrap_or_default();
    let block = call.known_ints(2, "block shape")?.unwrap_or_default();
    let list = |call: &Call<'_>, name, length, default| {
        Ok::<_, Refusal>(call.ints(name)?.map_or_else(|| vec![default; length], <[i64]>::to_vec))
    };
    let attrs = Attrs::new()
        .ints("image", &image)
        .ints("block", &block)
        .ints("strides", &list(call, "strides", image.len(), 1)?)
        .ints("pads", &list(call, "pads", 2 * image.len(), 0)?)
        .ints("dilations", &list(call, "dilations", image.len(), 1)?);
    Ok(vec![call.result("col2im", attrs, &[&x])?])
}

/// The boxes that remain come first in a list of the largest possible length, and their number beside it.
fn non_max_suppression(call: &mut Call<'_>) -> Results {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let most = call.known_scalar(2, "largest number of boxes")?.map_or(0.0, |most| most.to_f64()[0]);
    let overlap = call.known_scalar(3, "largest overlap")?.map_or(0.0, |limit| limit.to_f64()[0]);
    let least = call.known_scalar(4, "least score")?.map_or(f64::NEG_INFINITY, |least| least.to_f64()[0]);
    #[allow(clippy::cast_possible_truncation)]
    let most = (most as i64).clamp(0, signed(&[*boxes.dims().get(1).unwrap_or(&0)])[0]);
    let attrs = Attrs::new()
        .int("most", most)
        .float("overlap", overlap)
        .float("least", least)
        .int("center", call.int("center_point_box", 0)?);
    let all = call.helper("all", "non-max-suppression", attrs, &[&boxes, &scores])?;
    // Rows that are left over hold -1.
    let rows = all.dims()[0];
    let first = call.helper("images", "slice", part_of(&all, 1, 0, 1), &[&all])?;
    let zero = call.scalar("first-image", DType::I64, 0.0);
    let set = call.helper("is-set", "greater-equal", Attrs::new(), &[&first, &zero])?;
    let ones = call.helper("ones", "cast", to(DType::I64), &[&set])?;
    let over = Attrs::new().ints("axes", &[0, 1]).int("keepdims", 0);
    let count = if rows == 0 {
        0
    } else {
        let count = call.helper("count", "reduce-sum", over, &[&ones])?;
        let count = call.demand(&count, "number of boxes")?.to_i64().unwrap_or_default();
        usize::try_from(count.first().copied().unwrap_or(0)).unwrap_or(0)
    };
    Ok(vec![call.result("slice", part_of(&all, 0, 0, count), &[&all])?])
}

/// The axis is an attribute before opset 20. A real signal gets an imaginary part of zeros.
fn dft(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let length = call.known_scalar(1, "length")?.map(|length| length.to_f64()[0]);
    let at = match call.opset {
        ..20 => call.int("axis", 1)?,
        _ => call.known_scalar(2, "axis")?.map_or(-2, |at| at.to_i64().map_or(-2, |at| at[0])),
    };
    let at = axis(at, x.rank())?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let length = length.map(|length| length as usize);
    if inverse && onesided {
        let size = length.unwrap_or_else(|| 2 * x.dims()[at].saturating_sub(1));
        return inverse_onesided(call, &x, at, size);
    }
    let y = transformed(call, &x, at, length, inverse)?;
    let kept = if onesided { y.dims()[at] / 2 + 1 } else { y.dims()[at] };
    Ok(vec![call.result("slice", part_of(&y, at, 0, kept), &[&y])?])
}

/// Makes the transform of a signal that is cut or extended to a length.
fn transformed(
    call: &mut Call<'_>,
    x: &ImportedValue,
    at: usize,
    length: Option<usize>,
    inverse: bool,
) -> Result<ImportedValue, Refusal> {
    let mut value = x.clone();
    let last = x.rank() - 1;
    let zero = call.scalar("silence", x.ty.dtype, 0.0);
    let length = length.unwrap_or(x.dims()[at]);
    if length < x.dims()[at] {
        value = call.helper("cut", "slice", part_of(&value, at, 0, length), &[&value])?;
    }
    let mut pads = vec![0; 2 * x.rank()];
    pads[x.rank() + at] = length - value.dims()[at];
    pads[x.rank() + last] = 2 - x.dims()[last].min(2);
    if pads.iter().any(|pad| *pad > 0) {
        let attrs = Attrs::new().ints("pads", &signed(&pads));
        value = call.helper("extended", "pad", attrs, &[&value, &zero])?;
    }
    let attrs = Attrs::new().int("axis", signed(&[at])[0]).int("inverse", i64::from(inverse));
    call.helper("transform", "dft", attrs, &[&value])
}

/// The other half of the spectrum follows from the one that is given, and the signal is real.
fn inverse_onesided(call: &mut Call<'_>, x: &ImportedValue, at: usize, size: usize) -> Results {
    let given = size / 2 + 1;
    let half = match x.dims()[at] {
        have if have >= given => call.helper("half", "slice", part_of(x, at, 0, given), &[x])?,
        have => {
            let mut pads = vec![0; 2 * x.rank()];
            pads[x.rank() + at] = given - have;
            let zero = call.scalar("silence", x.ty.dtype, 0.0);
            call.helper("half", "pad", Attrs::new().ints("pads", &signed(&pads)), &[x, &zero])?
        }
    };
    // Element n - k is the conjugate of element k.
    let mirror: Vec<i64> = (given..size).map(|k| signed(&[size - k])[0]).collect();
    let mut whole = half.clone();
    if !mirror.is_empty() {
        let mirror = call.constant("mirror", Tensor::from_elements([mirror.len()], &mirror));
        let attrs = Attrs::new().int("axis", signed(&[at])[0]);
        let rest = call.helper("rest", "gather", attrs.clone(), &[&half, &mirror])?;
        let sign = call.constant("sign", Tensor::from_f64(x.ty.dtype, [2_usize], &[1.0, -1.0]));
        let rest = call.helper("conjugate", "mul", Attrs::new(), &[&rest, &sign])?;
        whole = call.helper("whole", "concat", attrs, &[&half, &rest])?;
    }
    let y = transformed(call, &whole, at, None, true)?;
    let last = y.rank() - 1;
    Ok(vec![call.result("slice", part_of(&y, last, 0, 1), &[&y])?])
}

/// Frames of the signal, times the window, and their transform.
fn stft(call: &mut Call<'_>) -> Results {
    let signal = call.input(0)?;
    let step = call.known_scalar(1, "frame step")?.map_or(0.0, |step| step.to_f64()[0]);
    let onesided = call.flag("onesided", true)?;
    let window = call.optional(2);
    let length = call.known_scalar(3, "frame length")?.map(|length| length.to_f64()[0]);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let (step, length) = (step as usize, length.map(|length| length as usize));
    let length = length.or_else(|| Some(window.as_ref()?.dims()[0]));
    let Some(length) = length.filter(|length| *length > 0 && step > 0) else {
        return Err(Refusal::other("its frame step or frame length is missing or 0"));
    };
    let (batch, samples) = (signal.dims()[0], signal.dims()[1]);
    let parts = if signal.rank() == 3 { signal.dims()[2] } else { 1 };
    let frames = samples.checked_sub(length).map(|rest| rest / step + 1);
    let Some(frames) = frames else {
        return Err(Refusal::other(format!("its signal {} is shorter than a frame of {length}", signal.ty)));
    };
    let signal = call.reshape(Some("samples"), &signal, &[batch, samples, parts])?;
    let positions: Vec<i64> =
        (0..frames * length).map(|at| signed(&[at / length * step + at % length])[0]).collect();
    let positions = call.constant("positions", Tensor::from_elements([frames, length], &positions));
    let mut framed = call.helper("frames", "gather", Attrs::new().int("axis", 1), &[&signal, &positions])?;
    if let Some(window) = window {
        let window = call.reshape(Some("window"), &window, &[length, 1])?;
        framed = call.helper("windowed", "mul", Attrs::new(), &[&framed, &window])?;
    }
    let y = transformed(call, &framed, 2, None, false)?;
    let kept = if onesided { length / 2 + 1 } else { length };
    Ok(vec![call.result("slice", part_of(&y, 2, 0, kept), &[&y])?])
}

fn output_type(call: &Call<'_>) -> Result<DType, Refusal> {
    let number = i32::try_from(call.int("output_datatype", 1)?).unwrap_or(0);
    element_type(number)
}

/// A sum of cosines with alternating signs.
fn window(call: &mut Call<'_>, shares: &[f64]) -> Results {
    let size = call.known_scalar(0, "size")?.map_or(0.0, |size| size.to_f64()[0]);
    let dtype = output_type(call)?;
    let whole = if call.flag("periodic", true)? { size } else { size - 1.0 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let size = size as usize;
    #[allow(clippy::cast_precision_loss)]
    let at = |index: usize| {
        let angle = TAU * index as f64 / whole;
        let signs = [1.0, -1.0, 1.0];
        (0..shares.len()).map(|k| signs[k] * shares[k] * (k as f64 * angle).cos()).sum()
    };
    let values: Vec<f64> = (0..size).map(at).collect();
    Ok(vec![call.constant_result(Tensor::from_f64(dtype, [size], &values))])
}

/// Triangles over the bins of a spectrum whose corners are even on the mel scale.
fn mel_weights(call: &mut Call<'_>) -> Results {
    let number = |at: usize, what: &str| {
        Ok::<_, Refusal>(call.known_scalar(at, what)?.map_or(0.0, |value| value.to_f64()[0]))
    };
    let (bands, length) = (number(0, "number of bands")?, number(1, "length of the transform")?);
    let (rate, low, high) =
        (number(2, "sample rate")?, number(3, "lowest frequency")?, number(4, "highest frequency")?);
    let dtype = output_type(call)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let (bands, bins) = (bands as usize, (length / 2.0).floor() as usize + 1);
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (mel(low), mel(high));
    #[allow(clippy::cast_precision_loss)]
    let step = (high - low) / (bands as f64 + 2.0); // As in ONNX's own implementation.
    #[allow(clippy::cast_precision_loss)]
    let corner = |at: usize| {
        let hertz = 700.0 * (10_f64.powf((at as f64 * step + low) / 2595.0) - 1.0);
        ((length + 1.0) * hertz / rate).floor()
    };
    let mut values = vec![0.0; bins * bands];
    for band in 0..bands {
        let (left, centre, right) = (corner(band), corner(band + 1), corner(band + 2));
        for bin in 0..bins {
            #[allow(clippy::cast_precision_loss)]
            let at = bin as f64;
            let rising = centre > left && at >= left && at < centre;
            values[bin * bands + band] = match rising {
                #[allow(clippy::float_cmp)]
                _ if at == centre => 1.0,
                true => (at - left) / (centre - left),
                false if at >= centre && at < right => (right - at) / (right - centre),
                false => 0.0,
            };
        }
    }
    Ok(vec![call.constant_result(Tensor::from_f64(dtype, [bins, bands], &values))])
}

/// The middle of each axis, or zeros around all of it.
fn center_crop_pad(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let wanted = call.known_ints(1, "shape")?.unwrap_or_default();
    let axes = call.ints("axes")?.map_or_else(|| (0..signed(&[x.rank()])[0]).collect(), <[i64]>::to_vec);
    if axes.len() != wanted.len() {
        return Err(Refusal::other(format!("it has {} sizes for {} axes", wanted.len(), axes.len())));
    }
    let mut value = x.clone();
    let mut pads = vec![0; 2 * x.rank()];
    for (one, size) in axes.iter().zip(&wanted) {
        let at = axis(*one, x.rank())?;
        let size =
            usize::try_from(*size).map_err(|_| Refusal::other(format!("its size {size} is negative")))?;
        let have = x.dims()[at];
        if size < have {
            let attrs = part_of(&value, at, (have - size) / 2, size);
            value = call.helper(&format!("crop-{at}"), "slice", attrs, &[&value])?;
        } else {
            pads[at] = (size - have) / 2;
            pads[x.rank() + at] = size - have - pads[at];
        }
    }
    let zero = call.constant("zero", Tensor::zeros(TensorType::plain(x.ty.dtype, [0_usize; 0])));
    Ok(vec![call.result("pad", Attrs::new().ints("pads", &signed(&pads)), &[&value, &zero])?])
}
