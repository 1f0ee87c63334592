//! `native.conv-weight-gradient`: the gradient of a convolution's weights, from its image and the gradient of its result.
//!
//! The gradient of the result is in blocks of channels, which are the lanes of a vector. A vector of it, at one pixel,
//! is multiplied with each of several elements of the image, and the products are added to as many sums in registers
//! while the pixels pass. These elements are the channels of a block of the image (`channels`), the columns of the window
//! of one channel, if the image is in the default layout (`columns`), or these columns of the same block, if each channel
//! has its own filter (`depthwise`). The pixels come in bands, of which the second-level cache holds both operands. The
//! sums are in scratch memory between bands and are transposed to the default layout at the end. Threads divide the
//! sums, so that the result does not depend on their number.

mod sweep;

use self::sweep::Sweep;
use super::{Geometry, contract as named};
use crate::args::{Shared, part, tasks};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;
use std::ops::Range;

/// The bytes of both operands in a band of pixels.
const BAND: usize = 384 << 10;

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "nChw16c"], "plain"),
        Form::new(&["nChw8c", "nChw8c"], "plain"),
        Form::new(&["plain", "nChw16c"], "plain"),
        Form::new(&["plain", "nChw8c"], "plain"),
    ]),
    check: Some(fits),
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-weight-gradient", "conv-weight-gradient", contract, kernel)
};

/// Checks that the groups and the window fit the layouts.
fn fits(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1).max(1);
    let block = types[1].layout.block(1);
    let [outputs, inputs, _, width] = result.shape[..] else { return Ok(()) };
    if types[0].layout.is_plain() {
        if groups > 1 || width > block || attrs.expect_ints("dilations")[1] != 1 {
            return Err(OpError::kernel(format!(
                "an image in the default layout takes one group, and windows of up to {block} columns side by side"
            )));
        }
        return Ok(());
    }
    let depthwise = inputs == 1 && outputs == groups && width <= block;
    if groups > 1 && !depthwise && (inputs % block != 0 || outputs / groups % block != 0) {
        return Err(OpError::kernel(format!(
            "{groups} groups of {inputs} channels do not fill blocks of {block}"
        )));
    }
    Ok(())
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Gradient::new(call) {
        Ok(gradient) => {
            let sums = gradient.outputs() * gradient.units * gradient.lanes * gradient.geometry.block;
            Ok(named(gradient.kind.name(), sums * size_of::<f32>()))
        }
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Gradient::new(call) {
        Ok(gradient) => Ok(Box::new(gradient)),
        Err(_) => reference::kernel(call),
    }
}

/// What the elements are with which a vector is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Channels,
    Columns,
    Depthwise,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Channels => "gradient-channels",
            Self::Columns => "gradient-columns",
            Self::Depthwise => "gradient-depthwise",
        }
    }
}

/// Some rows of some images.
#[derive(Clone, Debug, PartialEq)]
struct Band {
    images: Range<usize>,
    rows: Range<usize>,
}

struct Gradient {
    kind: Kind,
    geometry: Geometry,
    /// The sets of sums of a block of outputs, and the sums of a set.
    units: usize,
    lanes: usize,
    bands: Vec<Band>,
}

impl Gradient {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let geometry = Geometry::between(call.attrs, call.inputs[0], call.output, call.inputs[1])?;
        let Geometry { block, groups, channels, outputs, kernel: [height, width], .. } = geometry;
        let kind = match call.inputs[0].layout.is_plain() {
            true => Kind::Columns,
            false if groups > 1 && channels == groups && outputs == groups && width <= block => {
                Kind::Depthwise
            }
            false => Kind::Channels,
        };
        let (units, lanes) = match kind {
            Kind::Channels => ((channels / groups).div_ceil(block) * height * width, block),
            Kind::Columns => (channels * height, width),
            Kind::Depthwise => (height, width),
        };
        if kind == Kind::Columns && (groups > 1 || width > block || geometry.dilations[1] != 1) {
            return Err(OpError::kernel("the columns of a window are not side by side in a vector"));
        }
        let bands = bands(&geometry, units * lanes);
        Ok(Self { kind, geometry, units, lanes, bands })
    }

    /// Returns the number of blocks of outputs.
    fn outputs(&self) -> usize {
        self.geometry.output_blocks()
    }

    /// Returns the channel or the block of channels of the image that a set of sums reads, in an image, the row of the
    /// window, and its column if that is one of the set.
    fn place(&self, output: usize, unit: usize) -> (usize, usize, usize) {
        let Geometry { block, groups, channels, kernel: [height, width], .. } = self.geometry;
        match self.kind {
            Kind::Channels => {
                let inputs = (channels / groups).div_ceil(block);
                let group = output / (self.outputs() / groups).max(1);
                (group * inputs + unit / (height * width), unit / width % height, unit % width)
            }
            Kind::Columns => (unit / height, unit % height, 0),
            Kind::Depthwise => (output, unit, 0),
        }
    }

    /// Returns the number of elements of an image, of a row and of a pixel of the image.
    fn steps(&self) -> [usize; 3] {
        let Geometry { block, groups, channels, input: [height, width], .. } = self.geometry;
        let (planes, pixel) = match self.kind {
            Kind::Channels => (groups * (channels / groups).div_ceil(block), block),
            Kind::Columns => (channels, 1),
            Kind::Depthwise => (channels.div_ceil(block), block),
        };
        [planes * height * width * pixel, width * pixel, pixel]
    }

    /// Returns the columns of the result for which a column of the window lies in the image.
    fn columns(&self, tap: usize) -> Range<usize> {
        let Geometry { input, output, strides, dilations, pads, .. } = self.geometry;
        let reach = tap * dilations[1];
        let end = (input[1] + pads[1]).saturating_sub(reach).div_ceil(strides[1]).min(output[1]);
        pads[1].saturating_sub(reach).div_ceil(strides[1]).min(end)..end
    }

    /// Returns the rows of a band for which a row of the window lies in the image.
    fn rows(&self, tap: usize, band: &Range<usize>) -> Range<usize> {
        let Geometry { input, strides, dilations, pads, .. } = self.geometry;
        let reach = tap * dilations[0];
        let end = (input[0] + pads[0]).saturating_sub(reach).div_ceil(strides[0]).min(band.end);
        pads[0].saturating_sub(reach).div_ceil(strides[0]).max(band.start).min(end)..end
    }

    /// Adds the pixels of a band to a set of sums.
    ///
    /// # Safety
    /// No other task may use these sums.
    unsafe fn add(&self, args: &Args<'_>, band: &Band, output: usize, unit: usize, sums: *mut f32) {
        let Geometry { block, input, output: [oh, ow], strides, dilations, pads, .. } = self.geometry;
        let (plane, tap, column) = self.place(output, unit);
        let [image, line, pixel] = self.steps();
        let rows = self.rows(tap, &band.rows);
        if rows.is_empty() {
            return;
        }
        let above = self.outputs() * oh * ow * block;
        let top = rows.start * strides[0] + tap * dilations[0] - pads[0];
        let first = plane * input[0] * input[1] * pixel + top * line + band.images.start * image;
        let whole = Sweep {
            x: args.inputs[0].cast::<f32>().wrapping_add(first),
            x_image: image,
            x_row: strides[0] * line,
            x_pixel: strides[1] * pixel,
            x_lane: if self.kind == Kind::Depthwise { dilations[1] * block } else { 1 },
            d: args.inputs[1]
                .cast::<f32>()
                .wrapping_add(band.images.start * above + (output * oh + rows.start) * ow * block),
            d_image: above,
            d_row: ow * block,
            images: band.images.len(),
            rows: rows.len(),
            columns: 0,
            lanes: self.lanes,
            sums,
        };
        let run = |columns: Range<usize>, tap: usize, lane: usize, lanes: usize| {
            if columns.is_empty() {
                return;
            }
            let left = (columns.start * strides[1] + tap * dilations[1]) - pads[1];
            let one = Sweep {
                x: whole.x.wrapping_add(left * pixel),
                d: whole.d.wrapping_add(columns.start * block),
                columns: columns.len(),
                lanes,
                sums: whole.sums.wrapping_add(lane * block),
                ..whole
            };
            let one = one.in_one_row(block);
            // SAFETY: rows and columns are those for which the window lies in the image, and the sums are the caller's.
            unsafe { one.run(block, self.kind == Kind::Depthwise) };
        };
        if self.kind == Kind::Channels {
            run(self.columns(column), column, 0, self.filled(plane));
            return;
        }
        // The columns of the result for which the whole row of the window lies in the image, and for each column of the
        // window those before and after them.
        let [left, right] = [self.columns(0), self.columns(self.lanes - 1)];
        let inner = left.start..right.end.max(left.start).min(left.end);
        run(inner.clone(), 0, 0, self.lanes);
        for tap in 0..self.lanes {
            let own = self.columns(tap);
            run(own.start..own.end.min(inner.start), tap, tap, 1);
            run(own.start.max(inner.end)..own.end, tap, tap, 1);
        }
    }

    /// Returns the channels in a block of channels of the image.
    fn filled(&self, plane: usize) -> usize {
        let Geometry { block, groups, channels, .. } = self.geometry;
        let of_group = channels / groups;
        (of_group - plane % of_group.div_ceil(block) * block).min(block)
    }

    /// Writes the weights of a block of outputs in the default layout.
    ///
    /// # Safety
    /// The sums must be complete, and no other task may write these weights.
    unsafe fn write(&self, sums: *const f32, target: *mut f32, output: usize) {
        let Geometry { block, groups, channels, outputs, kernel: [height, width], .. } = self.geometry;
        let inputs = channels / groups;
        for lane in 0..(outputs - output * block).min(block) {
            let filter = target.wrapping_add((output * block + lane) * inputs * height * width);
            for at in 0..inputs * height * width {
                let (input, tap) = (at / (height * width), at % (height * width));
                let sum = match self.kind {
                    Kind::Channels => (input / block * height * width + tap) * block + input % block,
                    Kind::Columns | Kind::Depthwise => at,
                };
                // SAFETY: as the caller promises; there is a sum for each weight.
                unsafe { *filter.add(at) = *sums.add(sum * block + lane) };
            }
        }
    }
}

/// Divides the rows of all images into bands. Each is as large as fits into the cache, or as large as the sums of an
/// output block of `sums` vectors are, which are loaded and stored for each band.
fn bands(geometry: &Geometry, sums: usize) -> Vec<Band> {
    let Geometry { batch, block, channels, outputs, input, output: [rows, columns], strides, .. } = *geometry;
    let row = (channels * input[1] * strides[0].min(input[0]) + outputs * columns) * size_of::<f32>();
    let least = 2 * sums * block * geometry.output_blocks() * size_of::<f32>();
    let most = (BAND.max(least) / row.max(1)).max(1);
    let mut bands = Vec::new();
    if most >= rows {
        let images = (most / rows.max(1)).max(1);
        for first in (0..batch).step_by(images) {
            bands.push(Band { images: first..(first + images).min(batch), rows: 0..rows });
        }
        return bands;
    }
    let pieces = rows.div_ceil(most);
    for image in 0..batch {
        for piece in 0..pieces {
            let rows = rows * piece / pieces..rows * (piece + 1) / pieces;
            bands.push(Band { images: image..image + 1, rows });
        }
    }
    bands
}

impl Kernel for Gradient {
    unsafe fn run(&self, args: &Args<'_>) {
        let (outputs, block) = (self.outputs(), self.geometry.block);
        let set = self.lanes * block;
        let total = outputs * self.units;
        let (sums, target) = (Shared::<f32>::scratch(args), Shared::<f32>::output(args));
        let buffers = crate::args::Buffers::new(args);
        let threads = args.team.threads();
        let run = |band: Option<&Band>, parts: usize| {
            args.team.run(parts, |index| {
                for at in part(total, parts, index, 1) {
                    let to = sums.at(at * set);
                    // SAFETY: only this task uses these sums, of which the scratch memory has `total` sets.
                    unsafe {
                        match band {
                            Some(band) => {
                                self.add(buffers.args(), band, at / self.units, at % self.units, to);
                            }
                            None => std::slice::from_raw_parts_mut(to, set).fill(0.0),
                        }
                    }
                }
            });
        };
        run(None, tasks(total * set, total, threads));
        let [_, columns] = self.geometry.output;
        for band in &self.bands {
            let work = total * set / 8 * band.images.len() * band.rows.len() * columns;
            run(Some(band), tasks(work, total, threads));
        }
        let parts = tasks(total * set, outputs, threads);
        args.team.run(parts, |index| {
            for output in part(outputs, parts, index, 1) {
                // SAFETY: the sums are complete, and only this task writes the weights of the block.
                unsafe { self.write(sums.at(output * self.units * set), target.at(0), output) };
            }
        });
    }
}
