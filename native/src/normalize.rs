//! `layer-norm`, `rms-norm`, `batch-norm`, `instance-norm` and `lrn` on plain `f32`.

use super::args::{Shared, part, tasks};
use super::lanes::{Lanes, widened};
use super::math;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.layer-norm", "layer-norm", contract, layer_kernel)
    },
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.rms-norm", "rms-norm", contract, rms_kernel) },
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.batch-norm", "batch-norm", contract, batch_kernel)
    },
    Lowering {
        instruction_sets: ISAS,
        ..Lowering::new("native.instance-norm", "instance-norm", contract, instance_kernel)
    },
    Lowering::new("native.lrn", "lrn", lrn_contract, lrn_kernel),
];

fn takes(call: &Call<'_>) -> bool {
    call.inputs.iter().all(|ty| ty.dtype == DType::F32 && ty.layout.is_plain())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if !takes(call) {
        return reference::contract(call);
    }
    Ok(Contract { in_place: vec![0], ..plain_contract("rows") })
}

/// Rows that are normalised each on its own.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub rows: usize,
    pub length: usize,
    pub epsilon: f32,
}

impl Rows {
    pub(super) fn new(call: &Call<'_>) -> Self {
        let shape = &call.output.shape;
        let axis = call.attrs.expect_int("axis") as usize;
        Self {
            rows: shape[..axis].iter().product(),
            length: shape[axis..].iter().product(),
            epsilon: call.attrs.expect_float("epsilon") as f32,
        }
    }

    /// Calls a function with the place of each row, on several threads.
    fn each(&self, args: &Args<'_>, row: impl Fn(usize) + Sync) {
        let parts = tasks(self.rows * self.length, self.rows, args.team.threads());
        args.team.run(parts, |index| {
            part(self.rows, parts, index, 1).for_each(|at| row(at * self.length));
        });
    }
}

fn layer_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if takes(call) { Ok(Box::new(LayerNorm(Rows::new(call)))) } else { reference::kernel(call) }
}

struct LayerNorm(Rows);

impl Kernel for LayerNorm {
    unsafe fn run(&self, args: &Args<'_>) {
        let [input, scale, bias] = [0, 1, 2].map(|operand| Shared::<f32>::input(args, operand));
        let output = Shared::<f32>::output(args);
        let Rows { length, epsilon, .. } = self.0;
        self.0.each(args, |at| {
            // SAFETY: rows are within the shape; scale and bias have the length of a row.
            unsafe { layer_row(input.at(at), output.at(at), scale.at(0), bias.at(0), length, epsilon) };
        });
    }
}

widened! {
    /// Standardises a row, multiplies it by the scale and adds the bias. Source and target may be the same.
    ///
    /// # Safety
    /// All rows must be in bounds.
    pub(super) unsafe fn layer_row(
        source: *const f32, target: *mut f32, scale: *const f32, bias: *const f32, length: usize, epsilon: f32,
    ) = layer_row_on;
}

fn rms_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if takes(call) { Ok(Box::new(RmsNorm(Rows::new(call)))) } else { reference::kernel(call) }
}

struct RmsNorm(Rows);

impl Kernel for RmsNorm {
    unsafe fn run(&self, args: &Args<'_>) {
        let [input, scale] = [0, 1].map(|operand| Shared::<f32>::input(args, operand));
        let output = Shared::<f32>::output(args);
        let Rows { length, epsilon, .. } = self.0;
        self.0.each(args, |at| {
            // SAFETY: rows are within the shape; the scale has the length of a row.
            unsafe { rms_row(input.at(at), output.at(at), scale.at(0), length, epsilon) };
        });
    }
}

widened! {
    /// Divides a row by the root of the mean of its squares, and multiplies it by the scale. Source and target may be
    /// the same.
    ///
    /// # Safety
    /// All rows must be in bounds.
    unsafe fn rms_row(
        source: *const f32, target: *mut f32, scale: *const f32, length: usize, epsilon: f32,
    ) = rms_row_on;
}

/// # Safety
/// As for [`rms_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn rms_row_on<V: Lanes>(
    source: *const f32,
    target: *mut f32,
    scale: *const f32,
    length: usize,
    epsilon: f32,
) {
    // SAFETY: as the caller promises; only lanes within the row are loaded and stored.
    unsafe {
        let load = |from: *const f32, at: usize| {
            let rest = length - at;
            if rest >= V::COUNT { V::load(from.add(at)) } else { V::load_first(from.add(at), rest) }
        };
        let mut sums = [V::splat(0.0); 4];
        let mut at = 0;
        while at + 4 * V::COUNT <= length {
            for (i, sum) in sums.iter_mut().enumerate() {
                let x = V::load(source.add(at + i * V::COUNT));
                *sum = x.mul_add(x, *sum);
            }
            at += 4 * V::COUNT;
        }
        while at < length {
            let x = load(source, at);
            sums[0] = x.mul_add(x, sums[0]);
            at += V::COUNT;
        }
        let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        let factor = V::splat(1.0 / (sum / length as f32 + epsilon).sqrt());
        at = 0;
        while at < length {
            let y = load(source, at).mul(factor).mul(load(scale, at));
            let rest = length - at;
            if rest >= V::COUNT {
                y.store(target.add(at))
            } else {
                y.store_first(target.add(at), rest)
            }
            at += V::COUNT;
        }
    }
}

/// Returns the mean of a row as a sum of two numbers, and the reciprocal of its standard deviation.
///
/// This is the two-pass algorithm with a correction: the differences from the first mean have a mean of their own, which
/// is what rounding took from the first. Far from zero that is as large as the row's deviation.
///
/// # Safety
/// The row must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn moments<V: Lanes>(source: *const f32, length: usize, epsilon: f32) -> (f32, f32, f32) {
    // SAFETY: as the caller promises.
    unsafe {
        let size = length as f32;
        let mean = sum::<V>(source, length) / size;
        let centre = V::splat(mean);
        let mut squares = [V::splat(0.0); 2];
        let mut rests = [V::splat(0.0); 2];
        let mut at = 0;
        while at + 2 * V::COUNT <= length {
            for (i, (square, rest)) in squares.iter_mut().zip(&mut rests).enumerate() {
                let x = V::load(source.add(at + i * V::COUNT)).sub(centre);
                *square = x.mul_add(x, *square);
                *rest = rest.add(x);
            }
            at += 2 * V::COUNT;
        }
        let mut sum = squares[0].add(squares[1]).sum();
        let mut rest = rests[0].add(rests[1]).sum();
        while at < length {
            let x = *source.add(at) - mean;
            sum += x * x;
            rest += x;
            at += 1;
        }
        let rest = rest / size;
        (mean, rest, 1.0 / ((sum / size - rest * rest).max(0.0) + epsilon).sqrt())
    }
}

/// Returns the sum of a row.
///
/// # Safety
/// The row must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn sum<V: Lanes>(source: *const f32, length: usize) -> f32 {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        let mut at = 0;
        while at + 4 * V::COUNT <= length {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add(V::load(source.add(at + i * V::COUNT)));
            }
            at += 4 * V::COUNT;
        }
        while at < length {
            let rest = length - at;
            sums[0] = sums[0].add(V::load_first(source.add(at), rest));
            at += V::COUNT;
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum()
    }
}

/// # Safety
/// As for [`layer_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn layer_row_on<V: Lanes>(
    source: *const f32,
    target: *mut f32,
    scale: *const f32,
    bias: *const f32,
    length: usize,
    epsilon: f32,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let (mean, correction, factor) = moments::<V>(source, length, epsilon);
        let (mean, correction, factor) = (V::splat(mean), V::splat(correction), V::splat(factor));
        let mut at = 0;
        while at < length {
            let rest = length - at;
            let load = |from: *const f32| {
                if rest >= V::COUNT { V::load(from.add(at)) } else { V::load_first(from.add(at), rest) }
            };
            let x = load(source).sub(mean).sub(correction).mul(factor);
            let y = x.mul_add(load(scale), load(bias));
            if rest >= V::COUNT {
                y.store(target.add(at))
            } else {
                y.store_first(target.add(at), rest)
            }
            at += V::COUNT;
        }
    }
}

/// A normalisation of the planes of each channel.
struct Planes {
    planes: usize,
    channels: usize,
    length: usize,
    epsilon: f32,
    /// Whether mean and variance are operands, and not computed from each plane.
    given: bool,
}

fn planes(call: &Call<'_>, given: bool) -> Result<Box<dyn Kernel>, OpError> {
    if !takes(call) {
        return reference::kernel(call);
    }
    let shape = &call.output.shape;
    Ok(Box::new(Planes {
        planes: shape[0] * shape[1],
        channels: shape[1],
        length: shape[2..].iter().product(),
        epsilon: call.attrs.expect_float("epsilon") as f32,
        given,
    }))
}

fn batch_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    planes(call, true)
}

fn instance_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    planes(call, false)
}

impl Kernel for Planes {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let affine = [1, 2].map(|n| Shared::<f32>::input(args, n));
        let moments = [3, 4].map(|n| Shared::<f32>::input(args, if self.given { n } else { 0 }));
        let Self { planes, channels, length, epsilon, given } = *self;
        let parts = tasks(planes * length, planes, args.team.threads());
        args.team.run(parts, |index| {
            for plane in part(planes, parts, index, 1) {
                let channel = plane % channels;
                // SAFETY: the operands after the first have an element for each channel.
                let at_channel =
                    |[first, second]: [Shared<f32>; 2]| unsafe { (*first.at(channel), *second.at(channel)) };
                let (scale, bias) = at_channel(affine);
                let fixed = given.then(|| {
                    let (mean, variance) = at_channel(moments);
                    (mean, 1.0 / (variance + epsilon).sqrt())
                });
                let at = plane * length;
                // SAFETY: planes are within the shape.
                unsafe { plane_row(input.at(at), output.at(at), (scale, bias), fixed, length, epsilon) };
            }
        });
    }
}

widened! {
    /// Standardises a row with the given moments or its own, and applies the scale and the bias in `affine`.
    ///
    /// # Safety
    /// Both rows must be in bounds.
    unsafe fn plane_row(
        source: *const f32, target: *mut f32, affine: (f32, f32), fixed: Option<(f32, f32)>, length: usize, epsilon: f32,
    ) = plane_row_on;
}

/// # Safety
/// As for [`plane_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn plane_row_on<V: Lanes>(
    source: *const f32,
    target: *mut f32,
    (scale, bias): (f32, f32),
    fixed: Option<(f32, f32)>,
    length: usize,
    epsilon: f32,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let (mean, correction, factor) = match fixed {
            Some((mean, factor)) => (mean, 0.0, factor),
            None => moments::<V>(source, length, epsilon),
        };
        let factor = factor * scale;
        let (mean, bias) = (V::splat(mean), V::splat(bias - correction * factor));
        let factor = V::splat(factor);
        let mut at = 0;
        while at < length {
            let rest = length - at;
            if rest >= V::COUNT {
                V::load(source.add(at)).sub(mean).mul_add(factor, bias).store(target.add(at));
            } else {
                let x = V::load_first(source.add(at), rest);
                x.sub(mean).mul_add(factor, bias).store_first(target.add(at), rest);
            }
            at += V::COUNT;
        }
    }
}

fn lrn_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if takes(call) { Ok(plain_contract("planes")) } else { reference::contract(call) }
}

fn lrn_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if !takes(call) {
        return reference::kernel(call);
    }
    let shape = &call.output.shape;
    let size = call.attrs.expect_int("size") as usize;
    Ok(Box::new(Lrn {
        images: shape[0],
        channels: shape[1],
        length: shape[2..].iter().product(),
        size,
        alpha: (call.attrs.expect_float("alpha") / size as f64) as f32,
        beta: call.attrs.expect_float("beta") as f32,
        bias: call.attrs.expect_float("bias") as f32,
    }))
}

struct Lrn {
    images: usize,
    channels: usize,
    length: usize,
    size: usize,
    /// The attribute `alpha` divided by the size of the window.
    alpha: f32,
    beta: f32,
    bias: f32,
}

impl Kernel for Lrn {
    unsafe fn run(&self, args: &Args<'_>) {
        let (input, output) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let units = self.images * self.channels;
        let parts = tasks(units * self.length * 8, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let channel = unit % self.channels;
                let first = channel.saturating_sub((self.size - 1) / 2);
                let last = (channel + self.size / 2).min(self.channels - 1);
                let near = input.at((unit - channel + first) * self.length);
                let at = unit * self.length;
                // SAFETY: planes are within the shape.
                unsafe { lrn_plane(input.at(at), output.at(at), near, last + 1 - first, self) };
            }
        });
    }
}

widened! {
    /// Normalises one plane by the `count` planes from `near` on.
    ///
    /// # Safety
    /// All planes must be in bounds.
    unsafe fn lrn_plane(source: *const f32, target: *mut f32, near: *const f32, count: usize, lrn: &Lrn) = lrn_plane_on;
}

/// # Safety
/// As for [`lrn_plane`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn lrn_plane_on<V: Lanes>(
    source: *const f32,
    target: *mut f32,
    near: *const f32,
    count: usize,
    lrn: &Lrn,
) {
    // SAFETY: as the caller promises; only lanes within the plane are loaded and stored.
    unsafe {
        let mut at = 0;
        while at < lrn.length {
            let rest = lrn.length - at;
            let mut sum = V::splat(0.0);
            for plane in 0..count {
                let from = near.add(plane * lrn.length + at);
                let x = if rest >= V::COUNT { V::load(from) } else { V::load_first(from, rest) };
                sum = x.mul_add(x, sum);
            }
            let base = sum.mul_add(V::splat(lrn.alpha), V::splat(lrn.bias));
            let divisor = if lrn.beta == 0.75 {
                let root = base.sqrt();
                root.mul(root.sqrt())
            } else {
                math::exp(math::log(base).mul(V::splat(lrn.beta)))
            };
            let from = source.add(at);
            let x = if rest >= V::COUNT { V::load(from) } else { V::load_first(from, rest) };
            let y = x.div(divisor);
            if rest >= V::COUNT {
                y.store(target.add(at))
            } else {
                y.store_first(target.add(at), rest)
            }
            at += V::COUNT;
        }
    }
}
