//! `Resize` with `tf_crop_and_resize`: a region of interest is resampled, and what lies outside of the image has a value
//! of its own.
//!
//! Where the elements of the result lie in the image is known when a model is imported. So each axis is resampled by
//! sums of gathered elements, each with a weight.

use super::{Call, ImportedValue, Results};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::tensor::{DType, Tensor};

/// The elements of one axis that a result is made of: for each of its elements a position and a weight.
struct Tap {
    positions: Vec<i64>,
    weights: Vec<f64>,
}

/// How the elements between those of the image are computed.
struct Mode<'m> {
    name: &'m str,
    rounding: &'static str,
    cubic: f64,
    exclude_outside: bool,
}

/// Resamples the region of interest: the starts of all axes, then their ends, as parts of the image's sizes. `sizes` has
/// the number of elements and the scale of each axis of the result.
#[allow(clippy::float_cmp)] // An axis that is kept has exactly the region from 0 to 1.
pub(super) fn crop(
    call: &mut Call<'_>,
    x: &ImportedValue,
    (name, rounding): (&str, &'static str),
    sizes: &[(usize, f64)],
    region: Option<&[f64]>,
) -> Results {
    if call.flag("antialias", false)? {
        return Err(Refusal::attribute("antialias", "is 1, which ovolo does not do with tf_crop_and_resize"));
    }
    let mode = Mode {
        name,
        rounding,
        cubic: call.float("cubic_coeff_a", -0.75)?,
        exclude_outside: call.flag("exclude_outside", false)?,
    };
    if name != "nearest" && !x.ty.dtype.is_float() {
        return Err(Refusal::other(format!(
            "it interpolates between elements of {}, which are no floats",
            x.ty
        )));
    }
    let beyond = call.float("extrapolation_value", 0.0)?;
    let region = region.ok_or_else(|| Refusal::other("it has no region of interest"))?;
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|one| axis(*one, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    if region.len() != 2 * axes.len() {
        let why = format!("its region of interest has {} numbers for {} axes", region.len(), axes.len());
        return Err(Refusal::other(why));
    }
    let (mut value, mut outside) = (x.clone(), None);
    for (at, &axis) in axes.iter().enumerate() {
        let (start, end) = (region[at], region[axes.len() + at]);
        let (input, output) = (value.dims()[axis], sizes[axis].0);
        if (start, end) == (0.0, 1.0) && input == output && sizes[axis].1 == 1.0 {
            continue;
        }
        if input == 0 || output == 0 {
            return Err(Refusal::other(format!("its result or its image has no elements along axis {axis}")));
        }
        let places = places(start, end, input, output, sizes[axis].1);
        value = along(call, &value, axis, &mode.taps(&places, input))?;
        outside = leaves(call, outside, axis, x.rank(), &places, input)?;
    }
    match outside {
        Some(outside) => {
            let beyond = call.scalar("beyond", x.ty.dtype, beyond);
            Ok(vec![call.result("where", Attrs::new(), &[&outside, &beyond, &value])?])
        }
        None => {
            let dims = value.dims().to_vec();
            Ok(vec![call.reshape(None, &value, &dims)?])
        }
    }
}

/// Returns where the elements of the result lie in the image along one axis, in elements of the image.
#[allow(clippy::cast_precision_loss, clippy::float_cmp)]
fn places(start: f64, end: f64, input: usize, output: usize, scale: f64) -> Vec<f64> {
    let last = input as f64 - 1.0;
    let length = scale * input as f64;
    let place = |at: usize| match length == 1.0 {
        true => (end - start) * last / 2.0 + start * last,
        false => at as f64 * (end - start) * last / (length - 1.0) + start * last,
    };
    (0..output).map(place).collect()
}

impl Mode<'_> {
    /// Returns what makes the elements at these places.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn taps(&self, places: &[f64], input: usize) -> Vec<Tap> {
        let last = input as f64 - 1.0;
        let inside = |place: f64| place.clamp(0.0, last) as i64;
        let offsets: &[f64] = match self.name {
            "nearest" => {
                let nearest = |place: &f64| match self.rounding {
                    "floor" => place.floor(),
                    "ceil" => place.ceil(),
                    "prefer-ceil" => (place + 0.5).floor(),
                    _ => (place - 0.5).ceil(),
                };
                let positions = places.iter().map(|place| inside(nearest(place))).collect();
                return vec![Tap { positions, weights: Vec::new() }];
            }
            "linear" => &[0.0, 1.0],
            _ => &[-1.0, 0.0, 1.0, 2.0],
        };
        let mut taps: Vec<Tap> = Vec::new();
        for offset in offsets {
            let positions = places.iter().map(|place| inside(place.floor() + offset)).collect();
            let weight = |place: &f64| {
                let at = place.floor() + offset;
                let out = self.exclude_outside && (at < 0.0 || at > last);
                if out { 0.0 } else { self.weight(at - place) }
            };
            taps.push(Tap { positions, weights: places.iter().map(weight).collect() });
        }
        if self.exclude_outside {
            for at in 0..places.len() {
                let sum: f64 = taps.iter().map(|tap| tap.weights[at]).sum();
                taps.iter_mut().for_each(|tap| tap.weights[at] /= sum);
            }
        }
        taps
    }

    /// Returns the weight of an element at a distance, in elements.
    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic);
        match self.name {
            "linear" => (1.0 - x).max(0.0),
            _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }
    }
}

/// Makes the elements of the result along one axis.
fn along(
    call: &mut Call<'_>,
    x: &ImportedValue,
    axis: usize,
    taps: &[Tap],
) -> Result<ImportedValue, Refusal> {
    let mut sum: Option<ImportedValue> = None;
    for (number, tap) in taps.iter().enumerate() {
        let name = |what: &str| format!("{what}-{axis}-{number}");
        let count = tap.positions.len();
        let positions = call.constant(&name("positions"), Tensor::from_elements([count], &tap.positions));
        let gather = Attrs::new().int("axis", signed(&[axis])[0]);
        let mut part = call.helper(&name("gathered"), "gather", gather, &[x, &positions])?;
        if !tap.weights.is_empty() {
            let mut dims = vec![1; x.rank() - axis];
            dims[0] = count;
            let weights = Tensor::from_f64(x.ty.dtype, dims, &tap.weights);
            let weights = call.constant(&name("weights"), weights);
            part = call.helper(&name("weighted"), "mul", Attrs::new(), &[&part, &weights])?;
        }
        sum = Some(match sum {
            None => part,
            Some(sum) => call.helper(&name("sum"), "add", Attrs::new(), &[&sum, &part])?,
        });
    }
    sum.ok_or(Refusal::Operand(0))
}

/// Adds the places of an axis to those that lie outside of the image.
#[allow(clippy::cast_precision_loss)]
fn leaves(
    call: &mut Call<'_>,
    before: Option<ImportedValue>,
    axis: usize,
    rank: usize,
    places: &[f64],
    input: usize,
) -> Result<Option<ImportedValue>, Refusal> {
    let last = input as f64 - 1.0;
    let out: Vec<f64> = places.iter().map(|place| f64::from(*place < 0.0 || *place > last)).collect();
    if out.iter().all(|out| *out == 0.0) {
        return Ok(before);
    }
    let mut dims = vec![1; rank];
    dims[axis] = out.len();
    let here = call.constant(&format!("outside-{axis}"), Tensor::from_f64(DType::Bool, dims, &out));
    Ok(Some(match before {
        None => here,
        Some(before) => call.helper(&format!("outside-to-{axis}"), "or", Attrs::new(), &[&before, &here])?,
    }))
}
