//! `native.conv-depthwise-nhwc`: a convolution with one filter per channel, where the channels of a pixel are adjacent.
//!
//! A vector of channels is computed as one number would be, and a tile has several pixels of a row. The weights are in
//! blocks of 16 channels: those of a vector are then next to each other, whatever number of channels there is, and do not
//! take each other's place in the cache.

mod tiles;

use super::depthwise::one_filter_a_channel;
use super::{Finish, Geometry, contract as named};
use crate::args::{Buffers, part, tasks};
use crate::chain::{Area, apply};
use crate::{ISAS, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use std::ops::Range;
use tiles::{Tiles, tiles};

/// The number of channels in a block of weights.
const BLOCK: usize = 16;
/// The least number of channels that a task has, where there are so many: these are whole cache lines.
const SHARE: usize = 64;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["nhwc", "Oihw16o", "plain"], "nhwc")]),
    check: Some(one_filter_a_channel),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-depthwise-nhwc", "conv", contract, kernel)
};

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Depthwise::new(call) {
        Ok(_) => Ok(named("depthwise-nhwc", 0)),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Depthwise::new(call) {
        Ok(depthwise) => Ok(Box::new(depthwise)),
        Err(_) => reference::kernel(call),
    }
}

struct Depthwise {
    geometry: Geometry,
    finish: Finish,
    /// The number of bands of rows of an image, and of shares of its channels.
    bands: usize,
    shares: usize,
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let finish = Finish::new(call.attrs.post(), &call.inputs[3..], 3, call.output)?;
        let geometry = Geometry::new(call)?;
        let Geometry { batch, channels, output: [height, width], kernel: [rows, columns], .. } = geometry;
        let most = channels.div_ceil(SHARE).max(1);
        let work = batch * height * width * channels * rows * columns / 8;
        let wanted = tasks(work, batch * height * most, call.threads).div_ceil(batch.max(1));
        // A thread gets whole rows where there are enough, because the ops before and after divide pixels as well.
        let bands = wanted.clamp(1, height.max(1));
        let shares = wanted.div_ceil(bands).clamp(1, most);
        Ok(Self { geometry, finish, bands, shares })
    }

    /// Computes some rows of one image, for some channels.
    ///
    /// # Safety
    /// No other task may use this part of the result.
    unsafe fn task(&self, args: &Args<'_>, image: usize, rows: Range<usize>, channels: Range<usize>) {
        let geometry = &self.geometry;
        let Geometry { input: [height, width], output: [oh, ow], channels: all, .. } = *geometry;
        let operand = |index: usize| args.inputs[index].cast::<f32>();
        let at = image * oh * ow * all;
        let result = args.output.cast::<f32>().wrapping_add(at);
        let residual = self.finish.residual;
        let one = Tiles {
            geometry,
            x: operand(0).wrapping_add(image * height * width * all),
            w: operand(1),
            bias: operand(2),
            y: result,
            residual: residual.map_or(std::ptr::null(), |index| operand(index).wrapping_add(at)),
            low: self.finish.low,
            high: self.finish.high,
            rows: rows.clone(),
            channels: channels.clone(),
        };
        // SAFETY: rows and channels are in bounds, and no other task uses this part of the result.
        unsafe {
            tiles(&one);
            for (action, extra) in &self.finish.steps {
                let target = result.add(rows.start * ow * all + channels.start);
                let from = image * extra.image + rows.start * ow * extra.pixel + channels.start * extra.lane;
                let extra_operand = action.binary.then(|| operand(extra.operand).wrapping_add(from));
                let area = Area {
                    source: target,
                    source_row: all,
                    target,
                    target_row: all,
                    rows: rows.len() * ow,
                    columns: channels.len(),
                    extra: extra_operand.unwrap_or(std::ptr::null()),
                    extra_row: extra.pixel,
                    extra_column: extra.lane,
                };
                apply(action, &area);
            }
        }
    }
}

impl Kernel for Depthwise {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, channels, output: [height, _], .. } = self.geometry;
        let buffers = Buffers::new(args);
        args.team.run(batch * self.bands * self.shares, |task| {
            let (rest, share) = (task % (self.bands * self.shares), task % self.shares);
            let rows = part(height, self.bands, rest / self.shares, 1);
            let channels = part(channels, self.shares, share, SHARE);
            // SAFETY: no other task has this part of the result.
            unsafe { self.task(buffers.args(), task / (self.bands * self.shares), rows, channels) };
        });
    }
}
