//! Resampling, where the library's one convention gives what the op's attributes ask for.

use super::step::{Ranges, dense, offset, whole};
use super::work::{Place, Work, choose, part, threads};
use super::{AS_OPERAND, Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Library, PrimitiveDesc};
use ovolo::op::resize::taps;
use ovolo::op::{Lowering, OpError};

/// The ops of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering { layouts: AS_OPERAND, ..op!("onednn.resize", "resize", work) }];

/// How far weights may differ: the library computes them in `f32`.
const CLOSE: f64 = 1e-5;

/// Divides a resampling by images, channels, or blocks of these.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, y) = (call.inputs[0], call.output);
    let linear = match call.attrs.expect_str("mode") {
        "nearest" => false,
        "linear" => true,
        other => return Err(OpError::kernel(format!("oneDNN has no mode \"{other}\""))),
    };
    for axis in 0..2 {
        let (input, output) = (x.shape[2 + axis], y.shape[2 + axis]);
        let wanted = taps(call.attrs, axis, input);
        let given = (0..output).map(|at| library_taps(linear, at, output, input));
        if !wanted.iter().zip(given).all(|(wanted, given)| alike(wanted, &given)) {
            return Err(OpError::kernel("oneDNN places elements by half pixels and the sizes"));
        }
    }
    let algorithm = if linear { Algorithm::RESAMPLING_LINEAR } else { Algorithm::RESAMPLING_NEAREST };
    let data = desc::data_type(x.dtype)?;
    let threads = threads(call, 4 * y.shape.count());
    let dim = if y.shape[0] >= threads { 0 } else { y.layout.order(4)[1] };
    let mut work = Work::new(call.threads);
    let mut known: Vec<(usize, usize)> = Vec::new();
    // Rows of the result read rows of the operand that others read as well.
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
            return Err(OpError::kernel(format!("{x} cannot be divided")));
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
        let places =
            vec![Place::Input(0, offset(x, &input)), Place::Output(offset(y, &ranges)), Place::Scratch];
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// What the library reads for an element (`linear_coeffs_t` and `nearest_idx` in its sources): half
/// pixels, the scale being that of the sizes, and the nearest with ties away from zero.
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

/// Whether sums are the same up to rounding.
fn alike(wanted: &[(usize, f64)], given: &[(usize, f64)]) -> bool {
    let weight = |taps: &[(usize, f64)], at: usize| -> f64 {
        taps.iter().filter(|(other, _)| *other == at).map(|(_, weight)| weight).sum()
    };
    let all = wanted.iter().chain(given);
    all.into_iter().all(|(at, _)| (weight(wanted, *at) - weight(given, *at)).abs() <= CLOSE)
}
