//! `native.conv-nhwc`: a convolution with contiguous channels of a pixel, and weights in panels of 32 outputs.
//!
//! For each kernel element, the pixels of an output row read pixels of an input row at a constant distance. These
//! input pixels are rows of a matrix, so the engine of `matmul` multiplies them by the weights of that element and
//! adds the product to the result, without any copy. If the kernel has one column and there are no strides, the image
//! is treated as one long row.
//! The division into tiles and the order of the sums do not depend on the number of threads.

use super::{Geometry, contract as named};
use crate::args::{Buffers, Shared, split};
use crate::chain::{Action, Area, apply};
use crate::gemm::{Micro, PANEL, Tile, micro};
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The input channels of one pass: a panel with this number of rows stays in the first-level cache.
const DEPTH: usize = 256;
/// The largest number of bytes of input and result that a task reads again for each panel.
const BAND: usize = 512 << 10;
/// The number of tasks per thread.
const TASKS: usize = 4;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(&["nhwc", "Ohwi32o", "plain"], "nhwc")]),
    check: Some(groups_fill_panels),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-nhwc", "conv", contract, kernel)
};

/// Checks that each panel of outputs belongs to one group.
fn groups_fill_panels(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1).max(1);
    let outputs = types[1].shape[0];
    if groups > 1 && !(outputs / groups).is_multiple_of(types[1].layout.block(0)) {
        return Err(OpError::kernel(format!(
            "{outputs} outputs of {groups} groups do not fill panels of 32"
        )));
    }
    Ok(())
}

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Nhwc::new(call) {
        Ok(_) => Ok(named("nhwc", 0)),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Nhwc::new(call) {
        Ok(nhwc) => Ok(Box::new(nhwc)),
        Err(_) => reference::kernel(call),
    }
}

struct Nhwc {
    geometry: Geometry,
    micro: &'static Micro,
    steps: Vec<(Action, Extra)>,
    /// The input channels and outputs of a group.
    inputs: usize,
    outputs: usize,
    /// The number of tiles in a row of the result, of rows in a band, and of tiles in a part of a row. A band has
    /// several whole rows, or a part of one row.
    tiles: usize,
    rows: usize,
    part: usize,
    /// The number of parts into which the panels of a group are divided.
    shares: usize,
}

/// How an operand of a step broadcasts to the result: the distances between images, pixels and channels, in elements.
#[derive(Clone, Copy, Debug, Default)]
struct Extra {
    operand: usize,
    image: usize,
    pixel: usize,
    channel: usize,
}

impl Extra {
    fn new(operand: usize, ty: &TensorType, output: &TensorType) -> Result<Self, OpError> {
        if ty.shape.count() == 1 && ty.layout.is_plain() {
            return Ok(Self { operand, ..Self::default() });
        }
        let (channels, pixels) = (output.shape[1], output.shape[2] * output.shape[3]);
        if ty == output {
            return Ok(Self { operand, image: pixels * channels, pixel: channels, channel: 1 });
        }
        if ty.layout == output.layout
            && ty.shape[1] == channels
            && ty.shape[2] * ty.shape[3] == 1
            && [1, output.shape[0]].contains(&ty.shape[0])
        {
            let image = if ty.shape[0] == 1 { 0 } else { channels };
            return Ok(Self { operand, image, pixel: 0, channel: 1 });
        }
        Err(OpError::kernel(format!(
            "an extra operand is {ty}: it must have the result's type, one value per channel, or one element"
        )))
    }
}

impl Nhwc {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let geometry = Geometry::new(call)?.in_one_row();
        let mut operand = 2;
        let mut steps = Vec::new();
        for action in Action::chain(call.attrs.post())? {
            let mut extra = Extra::default();
            if action.binary {
                operand += 1;
                extra = Extra::new(operand, call.inputs[operand], call.output)?;
            }
            steps.push((action, extra));
        }
        let micro = micro();
        let [height, width] = geometry.output;
        let tiles = width.div_ceil(micro.rows()).max(1);
        let groups = geometry.groups;
        let (inputs, outputs) = (geometry.channels / groups, geometry.outputs / groups);
        let panels = outputs.div_ceil(PANEL).max(1);
        // Bands are small enough to be read from memory only once, and there are enough tasks for the threads.
        let tile =
            micro.rows() * (inputs * geometry.strides[0] * geometry.strides[1] + outputs) * size_of::<f32>();
        let most = (BAND / tile.max(1)).max(1);
        let wanted = if call.threads == 1 { 1 } else { TASKS * call.threads };
        let wanted = wanted.div_ceil((geometry.batch * groups).max(1));
        let (rows, part) = if height == 1 {
            (1, most.min(tiles.div_ceil(wanted)).max(1))
        } else {
            ((most / tiles).min(height.div_ceil(wanted)).max(1), tiles)
        };
        let bands = height.div_ceil(rows).max(1) * tiles.div_ceil(part);
        let shares = wanted.div_ceil(bands).clamp(1, panels);
        Ok(Self { geometry, micro, steps, inputs, outputs, tiles, rows, part, shares })
    }

    /// Returns the part of `columns` whose input under a kernel column is not padding.
    fn columns(&self, tap: usize, columns: &Range<usize>) -> Range<usize> {
        let Geometry { strides: [_, stride], dilations: [_, dilation], pads: [_, left], .. } = self.geometry;
        let at = tap * dilation;
        let strides = |columns: usize| if stride == 1 { columns } else { columns.div_ceil(stride) };
        let first = strides(left.saturating_sub(at));
        let end = strides((left + self.geometry.input[1]).saturating_sub(at));
        let first = first.clamp(columns.start, columns.end);
        first..end.clamp(first, columns.end)
    }

    /// Returns the first pixel of a tile of a row.
    fn cut(&self, tile: usize) -> usize {
        self.geometry.output[1] * tile / self.tiles
    }

    /// Computes some rows, or some tiles of one row, for some panels of one group of one image.
    ///
    /// # Safety
    /// No other thread may write this part of the result.
    unsafe fn task(
        &self,
        args: &Args<'_>,
        image: usize,
        group: usize,
        panels: Range<usize>,
        rows: Range<usize>,
        tiles: Range<usize>,
    ) {
        let Geometry { channels, outputs, input: [height, width], output: [oh, ow], .. } = self.geometry;
        let first = group * self.outputs + panels.start * PANEL;
        let end = group * self.outputs + self.outputs.min(panels.end * PANEL);
        let columns = self.cut(tiles.start)..self.cut(tiles.end);
        let input = Shared::<f32>::input(args, 0).at(image * height * width * channels + group * self.inputs);
        let result = Shared::<f32>::output(args).at(image * oh * ow * outputs);
        // SAFETY: rows, columns and panels are in bounds, and no other task uses them.
        unsafe {
            let bias = std::slice::from_raw_parts(Shared::<f32>::input(args, 2).at(first), end - first);
            for row in rows.clone() {
                for pixel in columns.clone() {
                    let to = result.add((row * ow + pixel) * outputs + first);
                    std::slice::from_raw_parts_mut(to, end - first).copy_from_slice(bias);
                }
            }
            for panel in panels.clone() {
                let from = group * self.outputs + panel * PANEL;
                let lanes = PANEL.min(self.outputs - panel * PANEL);
                // After its last panel a thread mostly begins with the first one again, for other pixels.
                let next = if panel + 1 < panels.end { panel + 1 } else { panels.start };
                let next = group * self.outputs + next * PANEL;
                self.panel(args, input, result, [from, lanes, next], &rows, &tiles);
            }
            let pixels = rows.len() * columns.len();
            let start = rows.start * ow + columns.start;
            for (action, extra) in &self.steps {
                let target = result.add(start * outputs + first);
                let at = image * extra.image + start * extra.pixel + first * extra.channel;
                let area = Area {
                    source: target,
                    source_row: outputs,
                    target,
                    target_row: outputs,
                    rows: pixels,
                    columns: end - first,
                    extra: if action.binary {
                        Shared::<f32>::input(args, extra.operand).at(at)
                    } else {
                        std::ptr::null()
                    },
                    extra_row: extra.pixel,
                    extra_column: extra.channel,
                };
                apply(action, &area);
            }
        }
    }

    /// Accumulates one panel of outputs, which starts at `from` and has `lanes` outputs, and requests the one that starts
    /// at `next`.
    ///
    /// # Safety
    /// As for [`Nhwc::task`]; `input` must be the group's first channel, and `result` the image's first element.
    unsafe fn panel(
        &self,
        args: &Args<'_>,
        input: *const f32,
        result: *mut f32,
        [from, lanes, next]: [usize; 3],
        rows: &Range<usize>,
        tiles: &Range<usize>,
    ) {
        let Geometry { channels, outputs, input: [_, width], output: [_, ow], kernel, strides, .. } =
            self.geometry;
        let taps = kernel[0] * kernel[1];
        let [weights, next] = [from, next].map(|first| {
            Shared::<f32>::input(args, 1).at(first / PANEL * PANEL * taps * self.inputs).cast_const()
        });
        let block = |tap: usize, done: usize| (tap * self.inputs + done) * PANEL;
        let calls = rows.len() * tiles.len();
        for done in (0..self.inputs).step_by(DEPTH) {
            for tap in 0..taps {
                let (above, beside) = (tap / kernel[1], tap % kernel[1]);
                let b = weights.wrapping_add(block(tap, done));
                let (ahead, after) = if tap + 1 < taps {
                    (weights.wrapping_add(block(tap + 1, done)), done)
                } else if done + DEPTH < self.inputs {
                    (weights.wrapping_add(block(0, done + DEPTH)), done + DEPTH)
                } else {
                    (next, 0)
                };
                let ahead = Prefetch::new(ahead, DEPTH.min(self.inputs - after) * PANEL).among(calls);
                let mut call = 0;
                for row in rows.clone().filter(|row| self.geometry.rows(*row).contains(&above)) {
                    let line = row * strides[0] + above * self.geometry.dilations[0] - self.geometry.pads[0];
                    for tile in split(ow, self.tiles, tiles.clone()) {
                        let columns = self.columns(beside, &tile);
                        if columns.is_empty() {
                            continue;
                        }
                        let left = columns.start * strides[1] + beside * self.geometry.dilations[1]
                            - self.geometry.pads[1];
                        let block = Tile {
                            a: input.wrapping_add((line * width + left) * channels + done),
                            a_stride: strides[1] * channels,
                            b,
                            b_stride: PANEL,
                            c: result.wrapping_add((row * ow + columns.start) * outputs + from),
                            c_stride: outputs,
                            depth: DEPTH.min(self.inputs - done),
                            columns: lanes,
                            accumulate: true,
                            ahead: ahead.units(call, call + 1),
                        };
                        call += 1;
                        // SAFETY: the pixels are within the input, the weights within the panel, and the results
                        // belong to this task.
                        unsafe { self.micro.block(&block, columns.len()) };
                    }
                }
            }
        }
    }
}

impl Kernel for Nhwc {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, groups, output: [height, _], .. } = self.geometry;
        let (bands, parts) = (height.div_ceil(self.rows), self.tiles.div_ceil(self.part));
        let panels = self.outputs.div_ceil(PANEL);
        let buffers = Buffers::new(args);
        args.team.run(batch * groups * bands * parts * self.shares, |task| {
            let (rest, share) = (task / self.shares, task % self.shares);
            let (rest, part) = (rest / parts, rest % parts);
            let (rest, band) = (rest / bands, rest % bands);
            let panels = panels * share / self.shares..panels * (share + 1) / self.shares;
            let rows = band * self.rows..((band + 1) * self.rows).min(height);
            let tiles = part * self.part..((part + 1) * self.part).min(self.tiles);
            // SAFETY: no other task has this part of the result.
            unsafe { self.task(buffers.args(), rest / groups, rest % groups, panels, rows, tiles) };
        });
    }
}
