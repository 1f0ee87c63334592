//! `native.conv-strassen`: a 1x1 convolution by Strassen's algorithm, in blocks of channels.
//!
//! The pixels are the rows of a matrix product, and half of the channels must be whole blocks.

use super::{Finish, Geometry, contract as named};
use crate::ISAS;
use crate::args::{Buffers, Shared};
use crate::lanes::{Lanes, widened};
use crate::reference;
use crate::strassen::{Left, Part, Strassen, definition};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Arity, Form, Layouts, Lowering, OpError, Reference};

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    doc: Some("1x1 convolution by Strassen's algorithm, with sums of weights; then a post chain"),
    arity: Some(Arity::Post(3)),
    attributes: definition::ATTRIBUTES,
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Cab16c", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Cab8c", "plain"], "nChw8c"),
    ]),
    makes: &[definition::OF_CONV],
    reference: Reference::Own(definition::eval_conv),
    flops: Some(definition::flops),
    instruction_sets: ISAS,
    choices: |call| Pointwise::new(call).map_or_else(|_| Vec::new(), |one| one.strassen.choices()),
    ..Lowering::new("native.conv-strassen", "conv", contract, kernel)
};

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Pointwise::new(call) {
        Ok(one) => Ok(named("strassen", one.strassen.scratch() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Pointwise::new(call) {
        Ok(one) => Ok(Box::new(one)),
        Err(_) => reference::kernel(call),
    }
}

struct Pointwise {
    strassen: Strassen,
    geometry: Geometry,
    finish: Finish,
}

impl Pointwise {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, u, y) = (call.inputs[0], call.inputs[1], call.output);
        let block = y.layout.block(1);
        let (channels, outputs) = (x.shape[1], y.shape[1]);
        if channels % (2 * block) + outputs % (2 * block) != 0 {
            return Err(OpError::kernel(format!(
                "half of {channels} or half of {outputs} channels does not fill blocks of {block}"
            )));
        }
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, y)?;
        let size = [y.shape[2], y.shape[3]];
        let geometry = Geometry {
            batch: x.shape[0],
            block,
            groups: 1,
            channels,
            outputs,
            input: size,
            kernel: [1, 1],
            output: size,
            strides: [1, 1],
            dilations: [1, 1],
            pads: [0, 0],
            pads_after: [0, 0],
        };
        let strassen = Strassen::new([x.shape[0], size[0] * size[1]], u, call.threads)?;
        Ok(Self { strassen, geometry, finish })
    }

    fn pixels(&self) -> usize {
        self.geometry.output[0] * self.geometry.output[1]
    }

    /// Applies the bias, the residual, the bounds and the post chain to a part of the product, and stores it.
    ///
    /// # Safety
    /// The part must be within the result, and no other thread may write it.
    unsafe fn take(&self, args: &Args<'_>, part: &Part) {
        let (lanes, pixels) = (self.geometry.block, self.pixels());
        for block in 0..part.columns / lanes {
            let output = part.column / lanes + block;
            let (image, pixel) = (part.row / pixels, part.row % pixels);
            let at = ((image * self.geometry.output_blocks() + output) * pixels + pixel) * lanes;
            let run = Run {
                from: part.from.wrapping_add(block * lanes),
                stride: part.stride,
                pixels: part.rows,
                bias: args.inputs[2].cast::<f32>().wrapping_add(output * lanes),
                residual: self
                    .finish
                    .residual
                    .map_or(std::ptr::null(), |operand| args.inputs[operand].cast::<f32>().wrapping_add(at)),
                low: self.finish.low,
                high: self.finish.high,
                to: args.output.cast::<f32>().wrapping_add(at),
            };
            // SAFETY: the run is within the part.
            unsafe {
                if lanes == 16 {
                    wide(&run)
                } else {
                    narrow(&run)
                }
                self.finish.second_pass(args, &self.geometry, image, output, pixel, part.rows);
            }
        }
    }
}

/// Pixels of a block of channels. Distances are in elements.
struct Run {
    /// The sums, and the distance between those of neighbouring pixels.
    from: *const f32,
    stride: usize,
    pixels: usize,
    bias: *const f32,
    /// The operand that is added; null for none.
    residual: *const f32,
    low: f32,
    high: f32,
    to: *mut f32,
}

widened! {
    /// # Safety
    /// All memory of the run must be in bounds, and blocks must have 16 channels.
    unsafe fn wide(run: &Run) = store;
}
widened! {
    /// # Safety
    /// As for [`wide`], but blocks must have 8 channels.
    unsafe fn narrow(run: &Run) = store of 8;
}

/// # Safety
/// As for [`wide`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn store<V: Lanes>(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe {
        let bias = V::load(run.bias);
        let (low, high) = (V::splat(run.low), V::splat(run.high));
        for pixel in 0..run.pixels {
            let mut sum = V::load(run.from.add(pixel * run.stride)).add(bias);
            if !run.residual.is_null() {
                sum = sum.add(V::load(run.residual.add(pixel * V::COUNT)));
            }
            high.min(low.max(sum)).store(run.to.add(pixel * V::COUNT));
        }
    }
}

impl Kernel for Pointwise {
    unsafe fn run(&self, args: &Args<'_>) {
        let (buffers, lanes) = (Buffers::new(args), self.geometry.block);
        let left = Left {
            from: args.inputs[0].cast(),
            image: self.geometry.channels * self.pixels(),
            row: lanes,
            block: self.pixels() * lanes,
        };
        // SAFETY: the operands have the sizes for which the product was created, and parts do not overlap.
        unsafe {
            self.strassen.run(args, left, Shared::<f32>::input(args, 1).at(0), |part| {
                self.take(buffers.args(), part);
            });
        }
        self.finish.pad(args);
    }
}
