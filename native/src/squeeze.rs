//! `native.squeeze-excite`: the means of the channels, two small matrix products, and a multiplication of the
//! channels by the gates, in blocks of channels. The intermediate values are a few numbers in scratch memory. The
//! result may be in place.

use super::args::{Buffers, Shared, tasks};
use super::chain::{Action, Area, apply};
use super::lanes::{Isa, Lanes, widened};
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Oihw16o", "plain", "Oihw16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Oihw8o", "plain", "Oihw8o", "plain"], "nChw8c"),
    ]),
    instruction_sets: ISAS,
    ..Lowering::new("native.squeeze-excite", "squeeze-excite", contract, kernel)
}];

/// The number of independent partial sums, so that an addition need not wait for the previous one.
const SUMS: usize = 8;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Squeeze::new(call) {
        Ok(squeeze) => Ok(Contract {
            scratch: squeeze.scratch() * size_of::<f32>(),
            in_place: vec![0],
            ..plain_contract("squeeze")
        }),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Squeeze::new(call) {
        Ok(squeeze) => Ok(Box::new(squeeze)),
        Err(_) => reference::kernel(call),
    }
}

struct Squeeze {
    images: usize,
    channels: usize,
    pixels: usize,
    /// The number of results of the first product.
    hidden: usize,
    /// The lanes of a block of channels.
    block: usize,
    inner: Vec<Action>,
    gate: Vec<Action>,
}

impl Squeeze {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, w) = (call.inputs[0], call.inputs[1]);
        let block = x.layout.block(1);
        if x.dtype != DType::F32 {
            return Err(OpError::kernel(format!("the input is {x}, not f32")));
        }
        if block == 16 && Isa::planned() != Isa::Avx512 {
            return Err(OpError::kernel("blocks of 16 channels need AVX-512"));
        }
        Ok(Self {
            images: x.shape[0],
            channels: x.shape[1],
            pixels: x.shape[2] * x.shape[3],
            hidden: w.shape[0],
            block,
            inner: Action::chain(call.attrs.steps("inner"))?,
            gate: Action::chain(call.attrs.steps("gate"))?,
        })
    }

    /// Returns the number of blocks of channels, and of blocks of results of the first product.
    fn blocks(&self) -> [usize; 2] {
        [self.channels, self.hidden].map(|count| count.div_ceil(self.block))
    }

    /// Returns the scratch elements: means and results of the first product for each image.
    fn scratch(&self) -> usize {
        let [channels, hidden] = self.blocks();
        self.images * (channels + hidden) * self.block
    }
}

impl Kernel for Squeeze {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { images, channels, pixels, hidden, block, .. } = *self;
        let [outer, inner] = self.blocks();
        let plane = pixels * block;
        let buffers = Buffers::new(args);
        let (x, y) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let means = Shared::<f32>::scratch(args);
        let between = Shared::new(means.at(images * outer * block));
        let planes = images * outer;
        let parts = tasks(planes * plane, planes, args.team.threads());
        args.team.run(parts, |part| {
            for index in planes * part / parts..planes * (part + 1) / parts {
                // SAFETY: the plane is within the input, and only this task writes its means.
                unsafe { mean(block, x.at(index * plane), pixels, means.at(index * block)) };
            }
        });
        let parts = tasks(images * hidden * channels, images * inner, args.team.threads());
        args.team.run(parts, |part| {
            for index in images * inner * part / parts..images * inner * (part + 1) / parts {
                let one = Dense {
                    from: means.at(index / inner * outer * block),
                    count: channels,
                    weights: buffers.args().inputs[1].cast(),
                    bias: buffers.args().inputs[2].cast(),
                    results: hidden,
                    to: between.at(index * block),
                };
                // SAFETY: the means have been computed, and only this task writes the block of results.
                unsafe { one.block(index % inner, block, &self.inner) };
            }
        });
        let parts = tasks(planes * plane, planes, args.team.threads());
        args.team.run(parts, |part| {
            for index in planes * part / parts..planes * (part + 1) / parts {
                let mut gates = [0.0; 16];
                let one = Dense {
                    from: between.at(index / outer * inner * block),
                    count: hidden,
                    weights: buffers.args().inputs[3].cast(),
                    bias: buffers.args().inputs[4].cast(),
                    results: channels,
                    to: gates.as_mut_ptr(),
                };
                // SAFETY: the results of the first product have been computed, and only this task writes the plane.
                unsafe {
                    one.block(index % outer, block, &self.gate);
                    // The padding stays zero even if a step maps zero to another value.
                    gates[(channels - index % outer * block).min(block)..].fill(0.0);
                    scale(block, x.at(index * plane), pixels, gates.as_ptr(), y.at(index * plane));
                }
            }
        });
    }
}

/// A product of a vector with weights in blocks of results.
struct Dense {
    from: *const f32,
    count: usize,
    weights: *const f32,
    bias: *const f32,
    results: usize,
    to: *mut f32,
}

impl Dense {
    /// Computes the results of a block and applies a chain of steps.
    ///
    /// # Safety
    /// All pointers must be to as many elements as the sizes say.
    unsafe fn block(&self, index: usize, block: usize, steps: &[Action]) {
        let first = index * block;
        // SAFETY: as the caller promises.
        unsafe {
            let one = Dense {
                weights: self.weights.add(first * self.count),
                bias: self.bias.add(first),
                results: (self.results - first).min(block),
                ..*self
            };
            if block == 16 {
                dense_wide(&one)
            } else {
                dense_narrow(&one)
            }
            for step in steps {
                let area = Area {
                    source: self.to,
                    source_row: block,
                    target: self.to,
                    target_row: block,
                    rows: 1,
                    columns: block,
                    ..Area::NONE
                };
                apply(step, &area);
            }
        }
    }
}

/// Computes the means of a plane of `pixels` pixels of a block of channels.
///
/// # Safety
/// The plane and a block of results must be in bounds.
unsafe fn mean(block: usize, plane: *const f32, pixels: usize, to: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe { if block == 16 { mean_wide(plane, pixels, to) } else { mean_narrow(plane, pixels, to) } }
}

/// Multiplies a plane by a block of gates.
///
/// # Safety
/// Both planes and the gates must be in bounds.
unsafe fn scale(block: usize, plane: *const f32, pixels: usize, gates: *const f32, to: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        if block == 16 {
            scale_wide(plane, pixels, gates, to)
        } else {
            scale_narrow(plane, pixels, gates, to)
        }
    }
}

widened! {
    /// # Safety
    /// As for [`mean`]; vectors must have 16 lanes.
    unsafe fn mean_wide(plane: *const f32, pixels: usize, to: *mut f32) = mean_on;
}
widened! {
    /// # Safety
    /// As for [`mean`]; vectors must have 8 lanes.
    unsafe fn mean_narrow(plane: *const f32, pixels: usize, to: *mut f32) = mean_on of 8;
}
widened! {
    /// # Safety
    /// As for [`scale`]; vectors must have 16 lanes.
    unsafe fn scale_wide(plane: *const f32, pixels: usize, gates: *const f32, to: *mut f32) = scale_on;
}
widened! {
    /// # Safety
    /// As for [`scale`]; vectors must have 8 lanes.
    unsafe fn scale_narrow(plane: *const f32, pixels: usize, gates: *const f32, to: *mut f32) = scale_on of 8;
}
widened! {
    /// # Safety
    /// As for [`Dense::block`]; vectors must have 16 lanes.
    unsafe fn dense_wide(one: &Dense) = dense_on;
}
widened! {
    /// # Safety
    /// As for [`Dense::block`]; vectors must have 8 lanes.
    unsafe fn dense_narrow(one: &Dense) = dense_on of 8;
}

/// # Safety
/// As for [`mean`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn mean_on<V: Lanes>(plane: *const f32, pixels: usize, to: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        let sum = total::<V>(pixels, |sum, pixel| sum.add(V::load(plane.add(pixel * V::COUNT))));
        #[allow(clippy::cast_precision_loss)]
        sum.div(V::splat(pixels as f32)).store(to);
    }
}

/// # Safety
/// As for [`Dense::block`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn dense_on<V: Lanes>(one: &Dense) {
    // SAFETY: as the caller promises.
    unsafe {
        let sum = total::<V>(one.count, |sum, at| {
            V::splat(*one.from.add(at)).mul_add(V::load(one.weights.add(at * V::COUNT)), sum)
        });
        sum.add(V::load_first(one.bias, one.results)).store(one.to);
    }
}

/// # Safety
/// As for [`scale`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn scale_on<V: Lanes>(plane: *const f32, pixels: usize, gates: *const f32, to: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        let gates = V::load(gates);
        for pixel in 0..pixels {
            V::load(plane.add(pixel * V::COUNT)).mul(gates).store(to.add(pixel * V::COUNT));
        }
    }
}

/// Returns the sum of `terms` terms, computed as [`SUMS`] partial sums.
///
/// # Safety
/// The processor must have the instruction set of `V`, and `add` must be sound for every term.
#[inline(always)]
unsafe fn total<V: Lanes>(terms: usize, add: impl Fn(V, usize) -> V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [V::splat(0.0); SUMS];
        let whole = terms / SUMS * SUMS;
        for first in (0..whole).step_by(SUMS) {
            for (offset, sum) in sums.iter_mut().enumerate() {
                *sum = add(*sum, first + offset);
            }
        }
        for at in whole..terms {
            sums[at - whole] = add(sums[at - whole], at);
        }
        let mut half = SUMS / 2;
        while half > 0 {
            for at in 0..half {
                sums[at] = sums[at].add(sums[at + half]);
            }
            half /= 2;
        }
        sums[0]
    }
}
