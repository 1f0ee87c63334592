//! `native.conv`: any convolution in the default layout, computed by matrix products.
//!
//! A task computes some pixels of some outputs of one group. It copies the inputs that each pixel reads into panels
//! of 32 pixels, for only some channels at a time so that the panels stay in the second-level cache. The engine of
//! `matmul` then multiplies the weights by these panels. The order of the sums over channels and kernel elements, and
//! the division into tiles, do not depend on the number of threads.

use super::{Geometry, contract as named};
use crate::args::{Buffers, Shared};
use crate::chain::{Action, Area, apply};
use crate::gemm::{Micro, PANEL, Tile, micro};
use crate::prefetch::Prefetch;
use crate::{ISAS, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The largest number of rows in a panel: a tile of weights of that depth fits into the first-level cache.
const DEPTH: usize = 512;
/// The bytes of panels that a task fills before it multiplies.
const PANELS: usize = 512 << 10;
/// The number of tasks per thread.
const TASKS: usize = 4;

/// The declaration of the op.
pub(super) const OP: Lowering =
    Lowering { instruction_sets: ISAS, ..Lowering::new("native.conv", "conv", contract, kernel) };

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Plain::new(call) {
        Ok(plain) => Ok(named("panels", plain.slots * plain.panels() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Plain::new(call) {
        Ok(plain) => Ok(Box::new(plain)),
        Err(_) => reference::kernel(call),
    }
}

struct Plain {
    geometry: Geometry,
    micro: &'static Micro,
    steps: Steps,
    /// The number of multiply-adds for an element of the result, and how many of them one pass accumulates.
    depth: usize,
    pass: usize,
    /// The outputs of a group, and the number of tiles into which they are divided.
    outputs: usize,
    tiles: usize,
    /// The pixels of a task, a multiple of a panel, and the number of parts into which the tiles are divided.
    pixels: usize,
    parts: usize,
    /// The number of tasks that run at the same time, each with its own panels.
    slots: usize,
}

/// How an operand of a step broadcasts to the result: the distances between images, channels and pixels, in elements.
#[derive(Clone, Copy, Debug, Default)]
struct Extra {
    operand: usize,
    image: usize,
    channel: usize,
    pixel: usize,
}

impl Extra {
    fn new(operand: usize, ty: &TensorType, output: &TensorType) -> Result<Self, OpError> {
        let refuse = || {
            OpError::kernel(format!(
                "an extra operand is {ty}: it must have one element, or one plane per channel"
            ))
        };
        if !ty.layout.is_plain() || ty.shape.rank() > 4 {
            return Err(refuse());
        }
        let mut dims = vec![1; 4 - ty.shape.rank()];
        dims.extend(ty.shape.iter().copied());
        let plane = dims[2] * dims[3];
        if plane != 1 && dims[2..] != output.shape[2..] {
            return Err(refuse());
        }
        let step = |size: usize, elements: usize| if size == 1 { 0 } else { elements };
        Ok(Self {
            operand,
            image: step(dims[0], dims[1] * plane),
            channel: step(dims[1], plane),
            pixel: step(plane, 1),
        })
    }
}

/// The steps of a chain on the result, with their operands.
pub(super) struct Steps(Vec<(Action, Extra)>);

impl Steps {
    /// Returns the steps of a call. The error says why no kernel has them.
    pub(super) fn new(call: &Call<'_>) -> Result<Self, OpError> {
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
        Ok(Self(steps))
    }

    /// Runs the steps on some pixels of some outputs of an image.
    ///
    /// # Safety
    /// They must be in bounds, and no other thread may use them.
    pub(super) unsafe fn apply(
        &self,
        args: &Args<'_>,
        image: usize,
        outputs: Range<usize>,
        pixels: Range<usize>,
        geometry: &Geometry,
    ) {
        let plane = geometry.output[0] * geometry.output[1];
        let first = (image * geometry.outputs + outputs.start) * plane + pixels.start;
        let result = Shared::<f32>::output(args).at(first);
        for (action, extra) in &self.0 {
            let at = image * extra.image + outputs.start * extra.channel + pixels.start * extra.pixel;
            let area = Area {
                source: result,
                source_row: plane,
                target: result,
                target_row: plane,
                rows: outputs.len(),
                columns: pixels.len(),
                extra: if action.binary {
                    Shared::<f32>::input(args, extra.operand).at(at)
                } else {
                    std::ptr::null()
                },
                extra_row: extra.channel,
                extra_column: extra.pixel,
            };
            // SAFETY: as the caller promises; the operand broadcasts to the result.
            unsafe { apply(action, &area) };
        }
    }
}

impl Geometry {
    /// Fills panels with the inputs that some pixels of a group read, for some channels and kernel elements.
    ///
    /// # Safety
    /// The buffer must belong to this task and be large enough.
    pub(super) unsafe fn fill(
        &self,
        input: *const f32,
        buffer: *mut f32,
        rows: Range<usize>,
        pixels: Range<usize>,
    ) {
        let Self { input: [height, width], output: [_, ow], kernel, pads, .. } = *self;
        let [down, right] = self.strides;
        let depth = rows.len();
        for (index, row) in rows.enumerate() {
            let (channel, tap) = (row / (kernel[0] * kernel[1]), row % (kernel[0] * kernel[1]));
            let top = tap / kernel[1] * self.dilations[0];
            let left = tap % kernel[1] * self.dilations[1];
            let plane = input.wrapping_add(channel * height * width);
            let mut pixel = pixels.start;
            while pixel < pixels.end {
                // These are the next pixels that are in one row of the result and in one panel.
                let at = pixel - pixels.start;
                let (y, x) = (pixel / ow, pixel % ow);
                let count = (ow - x).min(PANEL - at % PANEL).min(pixels.end - pixel);
                let to = buffer.wrapping_add((at / PANEL * depth + index) * PANEL + at % PANEL);
                // SAFETY: the pixels are in one row of a panel of the buffer.
                let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
                pixel += count;
                let line = (y * down + top).checked_sub(pads[0]).filter(|line| *line < height);
                let Some(line) = line else {
                    to.fill(0.0);
                    continue;
                };
                // The first pixel that is not in the left padding, and the end of those that read inputs.
                let first = (pads[1].saturating_sub(left + x * right)).div_ceil(right).min(count);
                let end =
                    (pads[1] + width).saturating_sub(left + x * right).div_ceil(right).clamp(first, count);
                to[..first].fill(0.0);
                to[end..].fill(0.0);
                if first == end {
                    continue;
                }
                let from = plane.wrapping_add(line * width + (x + first) * right + left - pads[1]);
                let taken = &mut to[first..end];
                // SAFETY: the first and the last of these elements are in the row of the input.
                let from = unsafe { std::slice::from_raw_parts(from, (taken.len() - 1) * right + 1) };
                match right {
                    1 => taken.copy_from_slice(from),
                    // With a constant stride the compiler generates vector code.
                    2 => taken.iter_mut().zip(from.chunks(2)).for_each(|(to, pair)| *to = pair[0]),
                    _ => taken.iter_mut().zip(from.iter().step_by(right)).for_each(|(to, from)| *to = *from),
                }
            }
        }
    }
}

impl Plain {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let geometry = Geometry::new(call)?;
        if !call.inputs[..2].iter().all(|ty| ty.layout.is_plain()) {
            return Err(OpError::kernel("the operands must be in the default layout"));
        }
        let steps = Steps::new(call)?;
        let micro = micro();
        let depth = geometry.depth();
        let pass = depth.div_ceil(depth.div_ceil(DEPTH).max(1)).max(1);
        let outputs = geometry.outputs / geometry.groups;
        let tiles = outputs.div_ceil(micro.rows());
        let panels = (geometry.output[0] * geometry.output[1]).div_ceil(PANEL);
        let (most, wanted) = if call.threads == 1 {
            (panels.max(1), 1)
        } else {
            let wanted = (TASKS * call.threads).div_ceil((geometry.batch * geometry.groups).max(1));
            (panels.div_ceil(wanted).max(1), wanted)
        };
        let taken = (PANELS / (pass * PANEL * size_of::<f32>())).clamp(1, most);
        let parts = wanted.div_ceil(panels.div_ceil(taken).max(1)).min(tiles).max(1);
        let (pixels, slots) = (taken * PANEL, call.threads);
        Ok(Self { geometry, micro, steps, depth, pass, outputs, tiles, pixels, parts, slots })
    }

    /// Returns the elements of the panels of a task.
    fn panels(&self) -> usize {
        self.pass * self.pixels
    }

    /// Computes some pixels of some tiles of outputs of one group of one image.
    ///
    /// # Safety
    /// No other thread may write this part of the result or of the scratch memory.
    unsafe fn task(
        &self,
        args: &Args<'_>,
        image: usize,
        group: usize,
        tiles: Range<usize>,
        pixels: Range<usize>,
        buffer: *mut f32,
    ) {
        let Geometry { channels, groups, input: [height, width], output: [oh, ow], .. } = self.geometry;
        let plane = oh * ow;
        let cut = |tile: usize| self.outputs * tile / self.tiles;
        let first = group * self.outputs + cut(tiles.start);
        let outputs = cut(tiles.end) - cut(tiles.start);
        let taken = channels / groups;
        let input = Shared::<f32>::input(args, 0).at((image * channels + group * taken) * height * width);
        let result =
            Shared::<f32>::output(args).at((image * groups * self.outputs + first) * plane + pixels.start);
        // SAFETY: outputs and pixels are in bounds, and no other task uses them.
        unsafe {
            for output in 0..outputs {
                let bias = *Shared::<f32>::input(args, 2).at(first + output);
                std::slice::from_raw_parts_mut(result.add(output * plane), pixels.len()).fill(bias);
            }
            for done in (0..self.depth).step_by(self.pass) {
                let rows = done..(done + self.pass).min(self.depth);
                let depth = rows.len();
                self.geometry.fill(input, buffer, rows, pixels.clone());
                for tile in tiles.clone() {
                    let output = cut(tile) - cut(tiles.start);
                    for column in (0..pixels.len()).step_by(PANEL) {
                        let one = Tile {
                            a: Shared::<f32>::input(args, 1).at((first + output) * self.depth + done),
                            a_stride: self.depth,
                            b: buffer.add(column * depth),
                            b_stride: PANEL,
                            c: result.add(output * plane + column),
                            c_stride: plane,
                            depth,
                            columns: PANEL.min(pixels.len() - column),
                            accumulate: true,
                            ahead: Prefetch::NONE,
                        };
                        self.micro.block(&one, cut(tile + 1) - cut(tile));
                    }
                }
            }
            self.steps.apply(args, image, first..first + outputs, pixels, &self.geometry);
        }
    }
}

impl Kernel for Plain {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, groups, output: [oh, ow], .. } = self.geometry;
        let plane = oh * ow;
        let (chunks, parts) = (plane.div_ceil(self.pixels), self.parts);
        let total = batch * groups * chunks * parts;
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        args.team.share(self.slots, total, |slot, task| {
            let (rest, part) = (task / parts, task % parts);
            let (rest, chunk) = (rest / chunks, rest % chunks);
            let tiles = self.tiles * part / parts..self.tiles * (part + 1) / parts;
            let pixels = chunk * self.pixels..((chunk + 1) * self.pixels).min(plane);
            let buffer = space.at(slot * self.panels());
            // SAFETY: no other task has this part of the result, and no other thread has this buffer.
            unsafe { self.task(buffers.args(), rest / groups, rest % groups, tiles, pixels, buffer) };
        });
    }
}
