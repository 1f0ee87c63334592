//! `native.conv-depthwise`: a convolution with one filter per channel, in blocks of channels.

use super::rows::{Rows, rows};
use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, tasks};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Oihw16o", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Oihw8o", "plain"], "nChw8c"),
    ]),
    check: Some(one_filter_a_channel),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-depthwise", "conv", contract, kernel)
};

pub(super) fn one_filter_a_channel(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let (x, w) = (types[0], types[1]);
    if (w.shape[0], w.shape[1]) != (x.shape[1], 1) {
        return Err(OpError::kernel(format!(
            "the weights are {w} for the input {x}: they must have one filter per channel"
        )));
    }
    Ok(())
}

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Depthwise::new(call) {
        Ok(_) => Ok(named("depthwise", 0)),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Depthwise::new(call) {
        Ok(depthwise) => Ok(Box::new(depthwise)),
        Err(_) => reference::kernel(call),
    }
}

struct Depthwise {
    geometry: Geometry,
    finish: Finish,
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        Ok(Self { geometry: Geometry::new(call)?, finish })
    }
}

impl Kernel for Depthwise {
    unsafe fn run(&self, args: &Args<'_>) {
        let geometry = &self.geometry;
        let (blocks, block) = (geometry.output_blocks(), geometry.block);
        let [height, width] = geometry.input;
        let [oh, ow] = geometry.output;
        let planes = geometry.batch * blocks;
        let work = planes * oh * ow * block * geometry.kernel[0] * geometry.kernel[1] / 8;
        let threads = args.team.threads();
        let wanted = tasks(work, planes * oh, threads);
        // The pointwise convolutions before and after mostly have six times fewer channels on their other side. If
        // those are divided by pixels, each thread gets a range of rows of every plane here as well; otherwise it
        // gets whole planes. So a thread finds in its cache what the previous layer left there.
        let by_pixels = 12 * oh * ow > geometry.outputs;
        let stretches = if by_pixels { threads.min(wanted).min(oh).max(1) } else { 1 };
        let bands = wanted.div_ceil(planes.max(1)).next_multiple_of(stretches).clamp(1, oh.max(1));
        let each = bands / stretches;
        let bands = each * stretches;
        let buffers = Buffers::new(args);
        let run = |task: usize| {
            let args = buffers.args();
            let (rest, piece) = (task / each, task % each);
            let (stretch, plane) = (rest / planes, rest % planes);
            let band = stretch * each + piece;
            let index = plane % blocks;
            let (first, end) = (oh * band / bands, oh * (band + 1) / bands);
            let at = plane * oh * ow * block;
            let one = Rows {
                geometry,
                x: args.inputs[0].cast::<f32>().wrapping_add(plane * height * width * block),
                mask: usize::MAX,
                w: args.inputs[1]
                    .cast::<f32>()
                    .wrapping_add(index * geometry.kernel[0] * geometry.kernel[1] * block),
                bias: args.inputs[2].cast::<f32>().wrapping_add(index * block),
                biases: geometry.outputs - index * block,
                y: args.output.cast::<f32>().wrapping_add(at),
                residual: self
                    .finish
                    .residual
                    .map_or(std::ptr::null(), |operand| args.inputs[operand].cast::<f32>().wrapping_add(at)),
                low: self.finish.low,
                high: self.finish.high,
                first,
                end,
            };
            // SAFETY: the rows are in bounds, and no other task uses them.
            unsafe {
                rows(&one);
                self.finish.second_pass(
                    args,
                    geometry,
                    plane / blocks,
                    index,
                    first * ow,
                    (end - first) * ow,
                );
            }
        };
        let total = planes * bands;
        let chunk = total.div_ceil(wanted.max(1)).max(1);
        args.team
            .run(total.div_ceil(chunk), |slot| (slot * chunk..((slot + 1) * chunk).min(total)).for_each(run));
        self.finish.pad(args);
    }
}
