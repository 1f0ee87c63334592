//! Resampling: operators that change the size of images.

use super::{Call, ImportedValue, Operator, Results, crop, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};

pub(super) const TABLE: &[Operator] = &[entry("Resize", 1, 4, resize), entry("Upsample", 1, 2, upsample)];

/// How a resampling changes one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    /// The number of elements of the result.
    output: usize,
    /// The factor, which need not be the ratio of both numbers of elements.
    scale: f64,
}

/// Returns the numbers of an operand, which must be known while importing; `None` if it is absent or empty.
fn numbers(call: &Call<'_>, at: usize, what: &str) -> Result<Option<Vec<f64>>, Refusal> {
    let Some(value) = call.optional(at) else { return Ok(None) };
    let tensor = call.demand(&value, what)?;
    Ok(Some(tensor.to_f64()).filter(|numbers| !numbers.is_empty()))
}

fn upsample(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    if call.opset < 7 {
        let (rows, columns) = (call.float("height_scale", 1.0)?, call.float("width_scale", 1.0)?);
        let sizes = scaled(&x, &[1.0, 1.0, rows, columns])?;
        let attrs = legacy(call)?;
        return resample(call, &x, &sizes, attrs);
    }
    let scales = match call.floats("scales")? {
        Some(scales) => scales.iter().map(|scale| f64::from(*scale)).collect(),
        None => numbers(call, 1, "scales")?.ok_or_else(|| Refusal::other("its scales are missing"))?,
    };
    let sizes = scaled(&x, &scales)?;
    let attrs = legacy(call)?;
    resample(call, &x, &sizes, attrs)
}

/// Returns the attributes for opsets before 11, in which coordinates are `asymmetric` and the nearest element is
/// the one below.
fn legacy(call: &Call<'_>) -> Result<Attrs, Refusal> {
    let mode = match call.text("mode", "nearest")? {
        mode @ ("nearest" | "linear") => mode,
        "bilinear" => "linear",
        other => return Err(Refusal::attribute("mode", format!("is `{other}`, not nearest or linear"))),
    };
    let text = |text: &str| Attr::Str(text.into());
    Ok(Attrs::new()
        .with("mode", text(mode))
        .with("coordinates", text("asymmetric"))
        .with("rounding", text("floor")))
}

/// Computes sizes from scales, rounded down.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(x: &ImportedValue, scales: &[f64]) -> Result<Vec<Size>, Refusal> {
    if scales.len() != x.rank() {
        return Err(Refusal::other(format!("it has {} scales for {}", scales.len(), x.ty)));
    }
    if let Some(scale) = scales.iter().find(|scale| !(**scale > 0.0 && scale.is_finite())) {
        return Err(Refusal::other(format!("its scale {scale} is not a number above zero")));
    }
    let size = |(size, scale): (&usize, &f64)| Size {
        output: (*size as f64 * scale).floor() as usize,
        scale: *scale,
    };
    Ok(x.dims().iter().zip(scales).map(size).collect())
}

fn resize(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    if call.opset < 11 {
        let scales = numbers(call, 1, "scales")?.ok_or_else(|| Refusal::other("its scales are missing"))?;
        let sizes = scaled(&x, &scales)?;
        let attrs = legacy(call)?;
        return resample(call, &x, &sizes, attrs);
    }
    let mode = match call.text("mode", "nearest")? {
        mode @ ("nearest" | "linear" | "cubic") => mode,
        other => {
            return Err(Refusal::attribute("mode", format!("is `{other}`, not nearest, linear or cubic")));
        }
    };
    let coordinates = match call.text("coordinate_transformation_mode", "half_pixel")? {
        "tf_crop_and_resize" => {
            let (rounding, region) = (rounding(call)?, numbers(call, 1, "region of interest")?);
            let sizes: Vec<_> = sizes(call, &x)?.iter().map(|size| (size.output, size.scale)).collect();
            return crop::crop(call, &x, (mode, rounding), &sizes, region.as_deref());
        }
        "half_pixel" => "half-pixel",
        "half_pixel_symmetric" => "half-pixel-symmetric",
        "pytorch_half_pixel" => "pytorch-half-pixel",
        "align_corners" => "align-corners",
        "asymmetric" => "asymmetric",
        other => {
            return Err(Refusal::attribute(
                "coordinate_transformation_mode",
                format!(
                    "is `{other}`; ovolo does half_pixel, half_pixel_symmetric, pytorch_half_pixel, \
                     align_corners, asymmetric and tf_crop_and_resize"
                ),
            ));
        }
    };
    let rounding = rounding(call)?;
    call.ignore(&["extrapolation_value"]); // Only `tf_crop_and_resize` uses it.
    let sizes = sizes(call, &x)?;
    let text = |text: &str| Attr::Str(text.into());
    let attrs = Attrs::new()
        .with("mode", text(mode))
        .with("coordinates", text(coordinates))
        .with("rounding", text(rounding))
        .float("cubic-coefficient", call.float("cubic_coeff_a", -0.75)?)
        .int("exclude-outside", i64::from(call.flag("exclude_outside", false)?))
        .int("antialias", i64::from(call.flag("antialias", false)?));
    resample(call, &x, &sizes, attrs)
}

/// Returns how the nearest element is chosen, as the op calls it.
fn rounding(call: &Call<'_>) -> Result<&'static str, Refusal> {
    Ok(match call.text("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => "prefer-floor",
        "round_prefer_ceil" => "prefer-ceil",
        "floor" => "floor",
        "ceil" => "ceil",
        other => return Err(Refusal::attribute("nearest_mode", format!("is `{other}`, which is none"))),
    })
}

/// Returns how each axis changes.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn sizes(call: &Call<'_>, x: &ImportedValue) -> Result<Vec<Size>, Refusal> {
    let all: Vec<usize> = (0..x.rank()).collect();
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|one| axis(*one, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => all,
    };
    let policy = call.text("keep_aspect_ratio_policy", "stretch")?;
    let given = |what: &str, numbers: &[f64]| match numbers.len() == axes.len() {
        true => Ok(()),
        false => Err(Refusal::other(format!("it has {} {what} for {} axes", numbers.len(), axes.len()))),
    };
    let mut found: Vec<Size> = x.dims().iter().map(|&output| Size { output, scale: 1.0 }).collect();
    if let Some(scales) = numbers(call, 2, "scales")? {
        given("scales", &scales)?;
        let mut whole = vec![1.0; x.rank()];
        axes.iter().zip(&scales).for_each(|(axis, scale)| whole[*axis] = *scale);
        return scaled(x, &whole);
    }
    let wanted =
        numbers(call, 3, "sizes")?.ok_or_else(|| Refusal::other("it has neither scales nor sizes"))?;
    given("sizes", &wanted)?;
    if let Some(size) = wanted.iter().find(|size| **size < 1.0 || **size > f64::from(i32::MAX)) {
        return Err(Refusal::other(format!("its size must be between 1 and {}, and is {size}", i32::MAX)));
    }
    let ratios = axes.iter().zip(&wanted).map(|(axis, size)| size / x.dims()[*axis] as f64);
    let common = match policy {
        "stretch" => None,
        "not_larger" => Some(ratios.fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios.fold(0.0, f64::max)),
        other => {
            return Err(Refusal::attribute(
                "keep_aspect_ratio_policy",
                format!("is `{other}`, not stretch, not_larger or not_smaller"),
            ));
        }
    };
    for (axis, size) in axes.iter().zip(&wanted) {
        let elements = x.dims()[*axis] as f64;
        found[*axis] = match common {
            None => Size { output: *size as usize, scale: size / elements },
            Some(scale) => Size { output: (scale * elements + 0.5).floor() as usize, scale },
        };
    }
    Ok(found)
}

/// Resamples rows and columns together. Any other axis is resampled as the rows of images that are made by a
/// reshape.
fn resample(call: &mut Call<'_>, x: &ImportedValue, sizes: &[Size], attrs: Attrs) -> Results {
    let rank = x.rank();
    let changed = |at: usize| {
        let Size { output, scale } = sizes[at];
        #[allow(clippy::float_cmp)]
        let kept = output == x.dims()[at] && scale == 1.0;
        !kept
    };
    let result: Vec<usize> = sizes.iter().map(|size| size.output).collect();
    if result.contains(&0) {
        return Err(Refusal::other(format!("its result would have the shape {result:?}")));
    }
    let mut steps: Vec<[Option<usize>; 2]> =
        (0..rank.saturating_sub(2)).filter(|at| changed(*at)).map(|at| [Some(at), None]).collect();
    let last: Vec<usize> = (rank.saturating_sub(2)..rank).filter(|at| changed(*at)).collect();
    match last[..] {
        [] => {}
        [one] if one + 1 == rank => steps.push([None, Some(one)]),
        [one] => steps.push([Some(one), None]),
        _ => steps.push([Some(rank - 2), Some(rank - 1)]),
    }
    let mut value = x.clone();
    for (at, [row, column]) in steps.iter().enumerate() {
        let dims = value.dims().to_vec();
        // The elements after the row axis become columns, unless columns are resampled too.
        let (before, after) = match (row, column) {
            (Some(row), Some(_)) => (*row, rank - 1),
            (Some(row), None) => (*row, *row + 1),
            (None, column) => (column.unwrap_or(0), column.unwrap_or(0)),
        };
        let rows = row.map_or(1, |row| dims[row]);
        let columns = dims[after..].iter().product::<usize>();
        let image = match rank == 4 && before == 2 && row.is_some() {
            true => value.clone(),
            false => {
                let planes = dims[..before].iter().product::<usize>();
                call.reshape(Some(&format!("image{at}")), &value, &[1, planes, rows, columns])?
            }
        };
        let size = |axis: &Option<usize>, otherwise: usize| axis.map_or(otherwise, |axis| sizes[axis].output);
        let wanted = [size(row, rows), size(column, columns)];
        let scale = |axis: &Option<usize>| axis.map_or(0.0, |axis| sizes[axis].scale);
        let attrs = attrs
            .clone()
            .ints("sizes", &signed(&wanted))
            .float("row-scale", exact(scale(row), rows, wanted[0]))
            .float("column-scale", exact(scale(column), columns, wanted[1]));
        if at + 1 == steps.len() && rank == 4 && image.name == value.name {
            return Ok(vec![call.result("resize", attrs, &[&image])?]);
        }
        let image = call.helper(&format!("resized{at}"), "resize", attrs, &[&image])?;
        let mut dims = dims;
        for axis in [row, column].into_iter().flatten() {
            dims[*axis] = sizes[*axis].output;
        }
        let suffix = format!("step{at}");
        let suffix = (at + 1 < steps.len()).then_some(suffix.as_str());
        value = call.reshape(suffix, &image, &dims)?;
        if at + 1 == steps.len() {
            return Ok(vec![value]);
        }
    }
    Ok(vec![call.reshape(None, x, &result)?])
}

/// Returns a scale, or 0 if it follows from the sizes.
#[allow(clippy::cast_precision_loss)]
fn exact(scale: f64, input: usize, output: usize) -> f64 {
    let said = output as f64 / input as f64;
    if (scale - said).abs() <= 1e-12 * said { 0.0 } else { scale }
}
