//! Resampling of images: nearest, linear and cubic, separately along rows and columns.
//!
//! Every element of the result is a weighted sum of elements of the operand, first along columns and then along
//! rows. [`taps`] returns these elements and their weights, which depend on all of the op's attributes. The
//! conventions are those of ONNX's `Resize`.

use super::independence::images;
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, plain, rank, sizes};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::tensor::{Tensor, TensorType};

/// The values of `mode`.
const MODES: &[&str] = &["nearest", "linear", "cubic"];
/// The values of `coordinates`.
const COORDINATES: &[&str] =
    &["half-pixel", "half-pixel-symmetric", "pytorch-half-pixel", "align-corners", "asymmetric"];
/// The values of `rounding`.
const ROUNDINGS: &[&str] = &["prefer-floor", "prefer-ceil", "floor", "ceil"];

pub(super) fn ops() -> Vec<OpDef> {
    let text =
        |name, default: &str, doc| AttrDef::new(name, AttrKind::Str, Some(Attr::Str(default.into())), doc);
    let float =
        |name, default, doc| AttrDef::new(name, AttrKind::Float, Some(Attr::Float(Float(default))), doc);
    let flag = |name, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(0)), doc);
    vec![OpDef {
        name: "resize",
        doc: "x[N,C,H,W] resampled to other numbers of rows and columns",
        arity: Arity::Exactly(1),
        attrs: vec![
            AttrDef::new("sizes", AttrKind::Ints, None, "rows and columns of the result"),
            text("mode", "nearest", "`nearest`, `linear` or `cubic`"),
            text(
                "coordinates",
                "half-pixel",
                "`half-pixel`, `half-pixel-symmetric`, `pytorch-half-pixel`, `align-corners` or `asymmetric`: where in the operand an element lies",
            ),
            text(
                "rounding",
                "prefer-floor",
                "of `nearest`: `prefer-floor`, `prefer-ceil` (both to the nearest), `floor` or `ceil`",
            ),
            float("row-scale", 0.0, "rows of the result to one of the operand; 0: as the sizes say"),
            float("column-scale", 0.0, "columns of the result to one of the operand; 0: as the sizes say"),
            float("cubic-coefficient", -0.75, "the coefficient of `cubic`"),
            flag("exclude-outside", "1: elements outside of the operand have no weight"),
            flag(
                "antialias",
                "1: what becomes smaller is averaged over all elements, by `linear` or `cubic`",
            ),
        ],
        flags: Flags::independent(images),
        infer: |attrs, types| {
            plain(types)?;
            infer(attrs, types)
        },
        eval,
        flops,
        sample: None,
        lowered: None,
    }]
}

/// Infers the result's type, in the operand's layout.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    rank(types, 0, 4)?;
    let x = types[0];
    if !x.dtype.is_float() {
        return Err(OpError::operand(0, x, ", not a floating-point type"));
    }
    let wanted = sizes(attrs, "sizes")?;
    let [rows, columns] = wanted[..] else {
        return Err(OpError::attribute("sizes", format!("has {} values, not 2", wanted.len())));
    };
    for (name, known) in [("mode", MODES), ("coordinates", COORDINATES), ("rounding", ROUNDINGS)] {
        let given = attrs.expect_str(name);
        if !known.contains(&given) {
            return Err(OpError::attribute(name, format!("is \"{given}\", and may be {}", known.join(", "))));
        }
    }
    for name in ["row-scale", "column-scale"] {
        let scale = attrs.expect_float(name);
        if !(scale.is_finite() && (scale == 0.0 || (1e-6..1e6).contains(&scale))) {
            return Err(OpError::attribute(name, format!("is {scale}: it is from 1e-6 to 1e6, or 0")));
        }
    }
    for (axis, name, output) in [(0, "row-scale", rows), (1, "column-scale", columns)] {
        let (scale, input) = (attrs.expect_float(name), x.shape[2 + axis]);
        #[allow(clippy::cast_precision_loss)]
        let off = (scale * input as f64 - output as f64).abs();
        if scale != 0.0 && off > 1.0 {
            return Err(OpError::attribute(name, format!("is {scale}: it makes no {output} of {input}")));
        }
    }
    if !attrs.expect_float("cubic-coefficient").is_finite() {
        return Err(OpError::attribute("cubic-coefficient", "is not a finite number"));
    }
    if x.shape[2..].contains(&0) || rows == 0 || columns == 0 || rows.max(columns) > LONGEST {
        return Err(OpError::operands(format!("{x} does not become {rows} rows and {columns} columns")));
    }
    Ok(TensorType { shape: (&[x.shape[0], x.shape[1], rows, columns][..]).into(), ..x.clone() })
}

/// The most rows or columns of a result.
const LONGEST: usize = 1 << 20;

/// Returns, for each row (axis 0) or column (axis 1) of the result, the indices of the operand's elements that it
/// is a sum of, with their weights.
pub fn taps(attrs: &Attrs, axis: usize, input: usize) -> Vec<Vec<(usize, f64)>> {
    let output = usize::try_from(attrs.expect_ints("sizes")[axis]).unwrap_or(0);
    let given = attrs.expect_float(["row-scale", "column-scale"][axis]);
    #[allow(clippy::cast_precision_loss)]
    let scale = if given == 0.0 { output as f64 / input as f64 } else { given };
    (0..output).map(|at| one(attrs, place(attrs, scale, [input, output], at), scale, input)).collect()
}

/// Returns the coordinate in the operand of an element of the result.
#[allow(clippy::cast_precision_loss, clippy::float_cmp)]
fn place(attrs: &Attrs, scale: f64, [input, output]: [usize; 2], at: usize) -> f64 {
    let (input, output, at) = (input as f64, output as f64, at as f64);
    let length = scale * input;
    let half_pixel = (at + 0.5) / scale - 0.5;
    match attrs.expect_str("coordinates") {
        "asymmetric" => at / scale,
        "align-corners" if length == 1.0 => 0.0,
        "align-corners" => at * (input - 1.0) / (length - 1.0),
        "pytorch-half-pixel" if length == 1.0 => -0.5,
        "half-pixel-symmetric" => input / 2.0 * (1.0 - output / length) + half_pixel,
        _ => half_pixel,
    }
}

/// Returns the elements and weights for one coordinate. An element outside the operand is replaced by the nearest
/// one inside.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn one(attrs: &Attrs, place: f64, scale: f64, input: usize) -> Vec<(usize, f64)> {
    let floor = place.floor();
    let ratio = place - floor;
    let shrink = if attrs.expect_int("antialias") == 1 { scale.min(1.0) } else { 1.0 };
    let around = |reach: f64, weight: &dyn Fn(f64) -> f64| {
        // The first and the last of the `2 * reach / shrink` elements around the coordinate whose weight may not be
        // zero.
        let (first, last) = ((-reach / shrink).floor() as i64 + 1, (reach / shrink).ceil() as i64);
        (first..=last).map(|at| (at, weight(shrink * (at as f64 - ratio)))).collect::<Vec<_>>()
    };
    let weights = match attrs.expect_str("mode") {
        "nearest" => {
            let up = match attrs.expect_str("rounding") {
                "prefer-floor" => ratio > 0.5,
                "prefer-ceil" => ratio >= 0.5,
                "floor" => false,
                _ => ratio > 0.0,
            };
            vec![(i64::from(up), 1.0)]
        }
        "linear" => around(1.0, &|x| (1.0 - x.abs()).max(0.0)),
        _ => {
            let a = attrs.expect_float("cubic-coefficient");
            around(2.0, &|x| match x.abs() {
                x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
                x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
                _ => 0.0,
            })
        }
    };
    let last = input as i64 - 1;
    let outside = |at: &i64| *at < 0 || *at > last;
    let excluded = attrs.expect_int("exclude-outside") == 1 && attrs.expect_str("mode") != "nearest";
    let placed = weights.into_iter().map(|(at, weight)| (floor as i64 + at, weight));
    let kept: Vec<(i64, f64)> =
        placed.filter(|(at, weight)| *weight != 0.0 && !(excluded && outside(at))).collect();
    let sum: f64 = kept.iter().map(|(_, weight)| weight).sum();
    let divisor = if shrink < 1.0 || excluded { sum } else { 1.0 };
    let mut taps: Vec<(usize, f64)> = Vec::with_capacity(kept.len());
    for (at, weight) in kept {
        let at = usize::try_from(at.clamp(0, last)).unwrap_or(0);
        match taps.last_mut().filter(|(before, _)| *before == at) {
            Some((_, before)) => *before += weight / divisor,
            None => taps.push((at, weight / divisor)),
        }
    }
    taps
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let x = operands[0].ty();
    let (height, width) = (x.shape[2], x.shape[3]);
    let (rows, columns) = (taps(attrs, 0, height), taps(attrs, 1, width));
    let xs = operands[0].to_f64();
    let mut result = Vec::with_capacity(ty.shape.count());
    for image in xs.chunks_exact(height * width) {
        for row in &rows {
            for column in &columns {
                let line = |at: usize| -> f64 {
                    column.iter().map(|(c, weight)| weight * image[at * width + c]).sum()
                };
                result.push(row.iter().map(|(r, weight)| weight * line(*r)).sum());
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

fn flops(attrs: &Attrs, _: &[&TensorType], output: &TensorType) -> f64 {
    let taps = match attrs.expect_str("mode") {
        "nearest" => 1.0,
        "linear" => 4.0,
        _ => 16.0,
    };
    2.0 * taps * count(output)
}
