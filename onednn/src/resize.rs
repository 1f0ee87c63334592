//! Resampling, for attributes that agree with the one convention of the library.

use super::step::{Ranges, dense, offset, whole};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{AS_OPERAND, Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Library, PrimitiveDesc};
use ovolo::op::resize::taps;
use ovolo::op::{Lowering, OpError};

/// The ops of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering { layouts: AS_OPERAND, ..op!("onednn.resize", "resize", work) }];

/// The largest accepted difference between weights. The library computes weights in `f32`.
const WEIGHT_TOLERANCE: f64 = 1e-5;

/// Divides a resampling between threads by images, channels, or blocks of channels.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, y) = (call.inputs[0], call.output);
    let linear = match call.attrs.expect_str("mode") {
        "nearest" => false,
        "linear" => true,
        other => return Err(OpError::kernel(format!("oneDNN does not support mode \"{other}\""))),
    };
    for axis in 0..2 {
        let (input, output) = (x.shape[2 + axis], y.shape[2 + axis]);
        let wanted = taps(call.attrs, axis, input);
        let given = (0..output).map(|at| library_taps(linear, at, output, input));
        if !wanted.iter().zip(given).all(|(wanted, given)| nearly_equal(wanted, &given)) {
            return Err(OpError::kernel(
                "oneDNN supports only half-pixel coordinates with the scale of the sizes",
            ));
        }
    }
    let algorithm = if linear { Algorithm::RESAMPLING_LINEAR } else { Algorithm::RESAMPLING_NEAREST };
    let data = desc::data_type(x.dtype)?;
    let threads = threads(call, 4 * y.shape.count());
    let dim = if y.shape[0] >= threads { 0 } else { y.layout.order(4)[1] };
    let mut work = Work::new(call.threads);
    let mut known: Vec<(usize, usize)> = Vec::new();
    // Neighbouring rows of the result read the same rows of the operand, so rows are not divided.
    let threads = if dim < 2 && y.layout.order(4)[0] == 0 { threads } else { 1 };
    for thread in 0..threads {
        let mut ranges: Ranges = whole(y);
        if dim < 2 {
            ranges[dim] = part(y.shape[dim], threads, thread, y.layout.block(dim));
        }
        if ranges.iter().any(std::ops::Range::is_empty) {
            continue;
        }
        let mut input: Ranges = whole(x);
        input[..2].clone_from_slice(&ranges[..2]);
        if !dense(x, &input) || !dense(y, &ranges) {
            return Err(OpError::kernel(format!("{x} cannot be divided between threads")));
        }
        let size = ranges[0].len() * ranges[1].len();
        let variant = match known.iter().find(|(other, _)| *other == size) {
            Some((_, variant)) => *variant,
            None => {
                let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
                let src = desc::shaped(library, &sizes(&input), &x.layout, data)?;
                let dst = desc::shaped(library, &sizes(&ranges), &y.layout, data)?;
                let attr = Attr::new(library).map_err(OpError::backend)?;
                let made = PrimitiveDesc::resampling(library, algorithm, [&src, &dst], &attr)
                    .map_err(OpError::backend)?;
                let variant = work.variant(choose(made, 0)?, vec![Arg::SRC, Arg::DST, Arg::SCRATCH]);
                known.push((size, variant));
                variant
            }
        };
        let places = vec![
            ArgPlace::Input(0, offset(x, &input)),
            ArgPlace::Output(offset(y, &ranges)),
            ArgPlace::Scratch,
        ];
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// Returns the elements that the library reads for an element, with their weights (`linear_coeffs_t` and
/// `nearest_idx` in its sources): half pixels, the scale is the ratio of the sizes, and `nearest` rounds ties away
/// from zero.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn library_taps(linear: bool, at: usize, output: usize, input: usize) -> Vec<(usize, f64)> {
    let place = (at as f64 + 0.5) * input as f64 / output as f64 - 0.5;
    let last = input - 1;
    if !linear {
        return vec![((place.round().max(0.0) as usize).min(last), 1.0)];
    }
    let left = (place.floor().max(0.0) as usize).min(last);
    let right = ((place.floor() + 1.0).max(0.0) as usize).min(last);
    let weight = place - place.floor();
    if left == right { vec![(left, 1.0)] } else { vec![(left, 1.0 - weight), (right, weight)] }
}

/// Returns whether two weighted sums are equal up to rounding.
fn nearly_equal(wanted: &[(usize, f64)], given: &[(usize, f64)]) -> bool {
    let weight = |taps: &[(usize, f64)], at: usize| -> f64 {
        taps.iter().filter(|(other, _)| *other == at).map(|(_, weight)| weight).sum()
    };
    let all = wanted.iter().chain(given);
    all.into_iter().all(|(at, _)| (weight(wanted, *at) - weight(given, *at)).abs() <= WEIGHT_TOLERANCE)
}
