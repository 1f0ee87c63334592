//! Convolutions, most of them in blocked channels.
//!
//! The blocked kernels compute tiles of a few pixels by a few blocks of output channels in registers. When they store
//! a tile they apply the bias, a residual and bounds. Other post steps run in a second pass over data that is still
//! in the cache.

mod depthwise;
mod depthwise_nhwc;
mod direct;
mod first;
mod gate;
mod gradient;
mod narrow;
mod nhwc;
mod plain;
mod pointwise;
mod rows;
mod sparse;
mod strassen;
mod tile;
mod transposed;
mod winograd;

use self::gate::Gate;
use super::chain::{Action, Area, apply};
use super::lanes::Isa;
use super::padding::Padding;
use super::plain_contract;
use ovolo::attr::{Attrs, Step};
use ovolo::backend::{Args, Call, Contract};
use ovolo::op::post;
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::{DType, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    direct::OP,
    depthwise::OP,
    depthwise_nhwc::OP,
    first::OP,
    gradient::OP,
    narrow::OP,
    nhwc::OP,
    plain::OP,
    pointwise::OP,
    sparse::OP,
    strassen::OP,
    transposed::OP,
    transposed::depthwise::OP,
    winograd::OP,
];

/// The number of outputs from which on pixels are worth their gathering.
const OFTEN: usize = 32;

/// The sizes of a convolution, in elements.
#[derive(Clone, Debug)]
struct Geometry {
    batch: usize,
    /// The number of channels in a block.
    block: usize,
    groups: usize,
    /// The input and output channels of the model, without padding.
    channels: usize,
    outputs: usize,
    /// The rows and columns of the input, the kernel and the output.
    input: [usize; 2],
    kernel: [usize; 2],
    output: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// The padding at the top and on the left.
    pads: [usize; 2],
    /// The padding at the bottom and on the right.
    pads_after: [usize; 2],
}

impl Geometry {
    /// Returns the sizes of a call. The error says why no vector kernel supports it.
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        Self::between(call.attrs, call.inputs[0], call.inputs[1], call.output)
    }

    /// Returns the sizes of a convolution of `x` with `w` to `y`. The error says why no vector kernel supports it.
    fn between(attrs: &Attrs, x: &TensorType, w: &TensorType, y: &TensorType) -> Result<Self, OpError> {
        if x.dtype != DType::F32 {
            return Err(OpError::kernel(format!("the input is {x}, not f32")));
        }
        let block = y.layout.block(1);
        if block == 16 && Isa::planned() != Isa::Avx512 {
            return Err(OpError::kernel("blocks of 16 channels need AVX-512"));
        }
        let pair = |name: &str| -> [usize; 2] {
            let values = attrs.expect_ints(name);
            [0, 1].map(|at| usize::try_from(values[at]).unwrap_or(0))
        };
        let pads: Vec<usize> =
            attrs.expect_ints("pads").iter().map(|pad| usize::try_from(*pad).unwrap_or(0)).collect();
        Ok(Self {
            batch: x.shape[0],
            block,
            groups: usize::try_from(attrs.expect_int("groups")).unwrap_or(1),
            channels: x.shape[1],
            outputs: w.shape[0],
            input: [x.shape[2], x.shape[3]],
            kernel: [w.shape[2], w.shape[3]],
            output: [y.shape[2], y.shape[3]],
            strides: pair("strides"),
            dilations: pair("dilations"),
            pads: [pads[0], pads[1]],
            pads_after: [pads[2], pads[3]],
        }
        .lying())
    }

    /// Returns the same convolution with an image of one column as an image of one row. Their elements are in the
    /// same order in every layout, and kernels compute neighbouring columns together.
    fn lying(mut self) -> Self {
        let one = [self.input[1], self.kernel[1], self.output[1]] == [1; 3];
        if one && [self.pads[1], self.pads_after[1]] == [0; 2] {
            for pair in [
                &mut self.input,
                &mut self.kernel,
                &mut self.output,
                &mut self.strides,
                &mut self.dilations,
                &mut self.pads,
                &mut self.pads_after,
            ] {
                pair.swap(0, 1);
            }
        }
        self
    }

    /// Returns the same convolution with all rows as one long row, if the kernel has one column and moves in steps of
    /// one pixel: its rows are then columns of that row, as far apart as the image is wide.
    fn in_one_row(mut self) -> Self {
        let Self { input: [height, width], kernel: [taps, 1], output: [rows, columns], .. } = self else {
            return self;
        };
        if self.strides == [1, 1] && [self.pads[1], self.pads_after[1]] == [0, 0] {
            (self.input, self.output) = ([1, height * width], [1, rows * columns]);
            (self.kernel, self.dilations) = ([1, taps], [1, self.dilations[0] * width]);
            (self.pads, self.pads_after) = ([0, self.pads[0] * width], [0, self.pads_after[0] * width]);
        }
        self
    }

    /// Returns the convolution without strides of the pixels that a 1x1 convolution with strides reads, if each is
    /// read often enough to be worth its gathering. Blocks of 16 channels fill cache lines, and are not gathered.
    fn without_strides(&self) -> Option<Self> {
        let alone = self.kernel == [1, 1] && self.pads == [0, 0] && self.pads_after == [0, 0];
        let often = self.block < 16 && self.outputs / self.groups >= OFTEN;
        (alone && often && self.strides != [1, 1]).then(|| Self {
            input: self.output,
            strides: [1, 1],
            ..self.clone()
        })
    }

    /// Returns the number of blocks of output channels.
    fn output_blocks(&self) -> usize {
        self.outputs.div_ceil(self.block)
    }

    /// Returns the kernel rows that overlap the input at an output row.
    fn rows(&self, output: usize) -> std::ops::Range<usize> {
        let at = |tap: usize| output * self.strides[0] + tap * self.dilations[0];
        let first = (0..self.kernel[0]).find(|tap| at(*tap) >= self.pads[0]).unwrap_or(self.kernel[0]);
        let end = (0..self.kernel[0])
            .rev()
            .find(|tap| at(*tap) < self.pads[0] + self.input[0])
            .map_or(0, |tap| tap + 1);
        first..end.max(first)
    }

    /// Returns the number of input rows that the kernel spans.
    fn reach(&self) -> usize {
        (self.kernel[0] - 1) * self.dilations[0] + 1
    }

    /// Returns the output columns for which all kernel columns overlap the input.
    fn inner_columns(&self) -> std::ops::Range<usize> {
        let reach = (self.kernel[1] - 1) * self.dilations[1];
        let last = (self.pads[1] + self.input[1]).checked_sub(reach + 1);
        let end = last.map_or(0, |last| last / self.strides[1] + 1);
        let first = self.pads[1].div_ceil(self.strides[1]).min(self.output[1]);
        first..end.clamp(first, self.output[1])
    }

    /// Returns whether all kernel columns overlap the input for these output columns.
    fn inside(&self, first: usize, count: usize) -> bool {
        let last = (first + count - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilations[1];
        first * self.strides[1] >= self.pads[1] && last < self.pads[1] + self.input[1]
    }

    /// Returns the kernel columns that overlap the input at an output column.
    fn taps(&self, output: usize) -> std::ops::Range<usize> {
        let (at, dilation) = (output * self.strides[1], self.dilations[1].max(1));
        let first = self.pads[1].saturating_sub(at).div_ceil(dilation).min(self.kernel[1]);
        let end = (self.pads[1] + self.input[1]).saturating_sub(at).div_ceil(dilation).min(self.kernel[1]);
        first..end.max(first)
    }

    /// Returns the number of multiply-adds for one output element.
    fn depth(&self) -> usize {
        self.channels / self.groups * self.kernel[0] * self.kernel[1]
    }
}

fn contract(name: &str, scratch: usize) -> Contract {
    Contract { scratch, ..plain_contract(&format!("{name}-{}", Isa::planned())) }
}

/// The operations on a sum when it is stored and afterwards.
#[derive(Debug)]
struct Finish {
    /// The operand that is added when the sum is stored.
    residual: Option<usize>,
    /// The bounds of the stored values.
    low: f32,
    high: f32,
    /// The first step of the second pass, if it is a gate.
    gate: Option<Gate>,
    /// The steps of the second pass, with the operands of binary steps.
    steps: Vec<(Action, Extra)>,
    padding: Padding,
}

/// How an extra operand broadcasts to the result.
#[derive(Clone, Copy, Debug)]
struct Extra {
    operand: usize,
    /// The distances between images, blocks of channels and pixels, in elements. The channels of a pixel's block are
    /// contiguous.
    image: usize,
    block: usize,
    pixel: usize,
    /// 0 if one element is used for all channels.
    lane: usize,
}

impl Finish {
    fn new(
        steps: &[Step],
        extras: &[&TensorType],
        first: usize,
        output: &TensorType,
    ) -> Result<Self, OpError> {
        let mut next = first;
        let mut list: Vec<(&Step, Option<usize>)> = Vec::new();
        for step in steps {
            let operand = post::is_binary(step).then(|| {
                next += 1;
                next - 1
            });
            list.push((step, operand));
        }
        let mut rest = &list[..];
        let mut finish = Self {
            residual: None,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
            gate: None,
            steps: Vec::new(),
            padding: Padding::new(output),
        };
        if let Some((step, Some(operand))) = rest.first()
            && step.op == "add"
            && extras[operand - first] == output
        {
            finish.residual = Some(*operand);
            rest = &rest[1..];
        }
        #[allow(clippy::cast_possible_truncation)]
        match rest.first().map(|(step, _)| (step.op.name(), &step.parameters[..])) {
            Some(("relu", _)) => {
                finish.low = 0.0;
                rest = &rest[1..];
            }
            Some(("clip", [low, high])) => {
                (finish.low, finish.high) = (low.0 as f32, high.0 as f32);
                rest = &rest[1..];
            }
            _ => {}
        }
        if let Some((step, Some(operand))) = rest.first()
            && step.op == "gate"
            && extras[operand - first] == output
            && let [low, high] = step.parameters[..]
        {
            #[allow(clippy::cast_possible_truncation)]
            let bounds = [low.0 as f32, high.0 as f32];
            finish.gate = Some(Gate { operand: *operand, bounds });
        }
        // Where channels are innermost, all of them are one block.
        let innermost = output.layout.order(output.shape.rank()).last() == Some(&1);
        let block = if innermost { output.shape[1].max(1) } else { output.layout.block(1) };
        let blocks = output.shape[1].div_ceil(block);
        let pixels = output.shape[2] * output.shape[3];
        for (step, operand) in rest {
            let action = Action::chain(std::slice::from_ref(*step))?.remove(0);
            let extra = match operand {
                None => Extra { operand: 0, image: 0, block: 0, pixel: 0, lane: 0 },
                Some(operand) => {
                    let ty = extras[operand - first];
                    if ty.shape.count() == 1 && ty.layout.is_plain() {
                        Extra { operand: *operand, image: 0, block: 0, pixel: 0, lane: 0 }
                    } else if ty == output {
                        Extra {
                            operand: *operand,
                            image: blocks * pixels * block,
                            block: pixels * block,
                            pixel: block,
                            lane: 1,
                        }
                    } else if ty.layout == output.layout
                        && ty.shape[2] * ty.shape[3] == 1
                        && ty.shape[1] == output.shape[1]
                    {
                        let image = if ty.shape[0] == 1 { 0 } else { blocks * block };
                        Extra { operand: *operand, image, block, pixel: 0, lane: 1 }
                    } else {
                        return Err(OpError::kernel(format!(
                            "an extra operand is {ty}: it must have the result's type, one value per channel, or one \
                             element"
                        )));
                    }
                }
            };
            finish.steps.push((action, extra));
        }
        Ok(finish)
    }

    /// Takes the gate out of the second pass, for a kernel that applies it to sums before it stores them.
    fn take_gate(&mut self) -> Option<Gate> {
        let gate = self.gate.take();
        if gate.is_some() {
            self.steps.remove(0);
        }
        gate
    }

    /// Runs the second pass over some rows of one block of channels of one image.
    ///
    /// # Safety
    /// The rows must be part of the result, and no other task may use them.
    unsafe fn second_pass(
        &self,
        args: &Args<'_>,
        geometry: &Geometry,
        image: usize,
        block: usize,
        first: usize,
        pixels: usize,
    ) {
        let width = geometry.block;
        let plane = geometry.output[0] * geometry.output[1];
        let at = ((image * geometry.output_blocks() + block) * plane + first) * width;
        let target = args.output.cast::<f32>().wrapping_add(at);
        for (action, extra) in &self.steps {
            let from = if action.binary {
                args.inputs[extra.operand]
                    .cast::<f32>()
                    .wrapping_add(image * extra.image + block * extra.block + first * extra.pixel)
            } else {
                std::ptr::null()
            };
            let area = Area {
                source: target,
                source_row: width,
                target,
                target_row: width,
                rows: pixels,
                columns: width,
                extra: from,
                extra_row: extra.pixel,
                extra_column: extra.lane,
            };
            // SAFETY: the rows of the result and of the operand are in bounds, as the caller promises.
            unsafe { apply(action, &area) };
        }
    }

    /// Zeroes the padding of the result if some step may have changed it.
    fn pad(&self, args: &Args<'_>) {
        if self.low > 0.0 || self.high < 0.0 || !self.steps.is_empty() {
            self.padding.zero(args);
        }
    }
}
