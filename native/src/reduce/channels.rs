//! `native.channel-sums`: the sum of each channel of images in blocks of channels, as a vector.

use super::super::args::{Shared, part, tasks};
use super::super::lanes::{Isa, Lanes, widened};
use super::super::{ISAS, plain_contract, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The declaration of the op.
pub(in super::super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["nChw16c"], "plain"), Form::new(&["nChw8c"], "plain")]),
    check: Some(sums_channels),
    instruction_sets: ISAS,
    ..Lowering::new("native.channel-sums", "reduce-sum", contract, kernel)
};

fn sums_channels(attrs: &Attrs, _: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    match (attrs.expect_ints("axes"), attrs.expect_int("keepdims")) {
        ([0, 2, 3], 0) => Ok(()),
        (axes, _) => {
            Err(OpError::kernel(format!("the axes are {axes:?}: the sums of channels are over 0, 2 and 3")))
        }
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Sums::new(call) {
        Ok(_) => Ok(plain_contract("channels")),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Sums::new(call) {
        Ok(sums) => Ok(Box::new(sums)),
        Err(_) => reference::kernel(call),
    }
}

struct Sums {
    images: usize,
    channels: usize,
    pixels: usize,
    block: usize,
}

impl Sums {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let x = call.inputs[0];
        let block = x.layout.block(1);
        if x.dtype != DType::F32 || (block == 16 && Isa::planned() != Isa::Avx512) {
            return Err(OpError::kernel(format!("no vector of this processor has the channels of {x}")));
        }
        Ok(Self { images: x.shape[0], channels: x.shape[1], pixels: x.shape[2] * x.shape[3], block })
    }
}

impl Kernel for Sums {
    unsafe fn run(&self, args: &Args<'_>) {
        let Self { images, channels, pixels, block } = *self;
        let (x, y) = (Shared::<f32>::input(args, 0), Shared::<f32>::output(args));
        let blocks = channels.div_ceil(block);
        let parts = tasks(images * blocks * pixels * block, blocks, args.team.threads());
        args.team.run(parts, |index| {
            for at in part(blocks, parts, index, 1) {
                let one = Planes {
                    first: x.at(at * pixels * block),
                    images,
                    image: blocks * pixels * block,
                    pixels,
                    to: y.at(at * block),
                    channels: (channels - at * block).min(block),
                };
                // SAFETY: the planes are those of one block of channels, whose sums no other task writes.
                unsafe { if block == 16 { sum_wide(&one) } else { sum_narrow(&one) } };
            }
        });
    }
}

/// The planes of one block of channels.
struct Planes {
    first: *const f32,
    images: usize,
    /// The elements of an image.
    image: usize,
    pixels: usize,
    to: *mut f32,
    channels: usize,
}

widened! {
    /// # Safety
    /// All planes and results must be in bounds; vectors must have 16 lanes.
    unsafe fn sum_wide(planes: &Planes) = sum_on;
}
widened! {
    /// # Safety
    /// As for [`sum_wide`], with vectors of 8 lanes.
    unsafe fn sum_narrow(planes: &Planes) = sum_on of 8;
}

/// # Safety
/// As for [`sum_wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn sum_on<V: Lanes>(planes: &Planes) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut total = V::splat(0.0);
        for image in 0..planes.images {
            let from = planes.first.add(image * planes.image);
            // With four partial sums, an addition need not wait for the previous one.
            let mut sums = [V::splat(0.0); 4];
            let whole = planes.pixels / 4 * 4;
            for first in (0..whole).step_by(4) {
                for (offset, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(V::load(from.add((first + offset) * V::COUNT)));
                }
            }
            for pixel in whole..planes.pixels {
                sums[0] = sums[0].add(V::load(from.add(pixel * V::COUNT)));
            }
            total = total.add(sums[0].add(sums[1]).add(sums[2].add(sums[3])));
        }
        total.store_first(planes.to, planes.channels);
    }
}
