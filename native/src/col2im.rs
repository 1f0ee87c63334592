//! `col2im`: the sum of blocks of pixels at their places in an image.
//!
//! A line of the operand holds one pixel of all blocks. Which blocks have it within the image is computed for each axis in
//! advance, so the loops over a line have no conditions. Tasks are bands of rows of the channels' images.

use super::args::{Shared, part, tasks};
use super::{plain_contract, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;
use std::ops::{AddAssign, Range};

/// The op of this family.
pub(super) const OPS: &[Lowering] = &[Lowering::new("native.col2im", "col2im", contract, kernel)];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if takes(call) { Ok(plain_contract("bands")) } else { reference::contract(call) }
}

/// Returns whether there is code for the type, and the image has axes.
fn takes(call: &Call<'_>) -> bool {
    matches!(call.output.dtype, DType::F32 | DType::F64) && call.output.shape.rank() > 2
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F32 if takes(call) => Box::new(Blocks::<f32>::new(call)),
        DType::F64 if takes(call) => Box::new(Blocks::<f64>::new(call)),
        _ => return reference::kernel(call),
    })
}

/// One axis of the image.
struct Axis {
    image: usize,
    block: usize,
    stride: usize,
    begin: usize,
    dilation: usize,
    /// The number of blocks along the axis.
    count: usize,
}

impl Axis {
    /// Returns the blocks whose pixel number `tap` lies within these pixels of the image.
    fn blocks(&self, tap: usize, within: &Range<usize>) -> Range<usize> {
        // Block `at` has its pixel at `at * stride + from - begin`.
        let from = tap * self.dilation;
        let first = |pixel: usize| (pixel + self.begin).saturating_sub(from).div_ceil(self.stride);
        let end = first(within.end).min(self.count);
        first(within.start).min(end)..end
    }

    /// Returns the pixel of the image at which a block has its pixel number `tap`, which must be within the image.
    fn pixel(&self, block: usize, tap: usize) -> usize {
        block * self.stride + tap * self.dilation - self.begin
    }
}

struct Blocks<T> {
    /// Images times channels.
    planes: usize,
    axes: Vec<Axis>,
    element: PhantomData<T>,
}

impl<T> Blocks<T> {
    fn new(call: &Call<'_>) -> Self {
        let list = |name: &str| sizes(call.attrs, name);
        let (image, block) = (list("image"), list("block"));
        let (strides, pads, dilations) = (list("strides"), list("pads"), list("dilations"));
        let rank = image.len();
        let axis = |at: usize| {
            let spanned = (block[at] - 1) * dilations[at] + 1;
            let rest = (image[at] + pads[at] + pads[rank + at]).checked_sub(spanned);
            Axis {
                image: image[at],
                block: block[at],
                stride: strides[at],
                begin: pads[at],
                dilation: dilations[at],
                count: rest.map_or(0, |rest| rest / strides[at] + 1),
            }
        };
        let planes = call.output.shape[..2].iter().product();
        Self { planes, axes: (0..rank).map(axis).collect(), element: PhantomData }
    }
}

fn sizes(attrs: &Attrs, name: &str) -> Vec<usize> {
    attrs.expect_ints(name).iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect()
}

impl<T: Copy + AddAssign + bytemuck::Zeroable + Send + Sync> Kernel for Blocks<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, y) = (Shared::<T>::input(args, 0), Shared::<T>::output(args));
        let Some(outer) = self.axes.first() else { return };
        let product = |of: fn(&Axis) -> usize| self.axes.iter().map(of).product::<usize>();
        let (taps, blocks, pixels) =
            (product(|axis| axis.block), product(|axis| axis.count), product(|axis| axis.image));
        if self.planes * pixels == 0 {
            return;
        }
        let rows = self.planes * outer.image;
        let row = pixels / outer.image;
        let parts = tasks(self.planes * (taps * blocks).max(pixels), rows, args.team.threads());
        args.team.run(parts, |index| {
            let mut rows = part(rows, parts, index, 1);
            while !rows.is_empty() {
                let (plane, first) = (rows.start / outer.image, rows.start % outer.image);
                let count = rows.len().min(outer.image - first);
                rows.start += count;
                // SAFETY: the rows are within the result, and no other task has them; the plane is within the operand.
                unsafe {
                    let to = std::slice::from_raw_parts_mut(
                        y.at((plane * outer.image + first) * row),
                        count * row,
                    );
                    let from = std::slice::from_raw_parts(x.at(plane * taps * blocks), taps * blocks);
                    self.band(from, &(first..first + count), to);
                }
            }
        });
    }
}

/// Where a tap of the blocks lies along an axis.
#[derive(Clone, Default)]
struct Place {
    /// The blocks that have it within the image.
    blocks: Range<usize>,
    /// The pixel at which the first of these has it, and the distance to that of the next one.
    first: usize,
    stride: usize,
    /// The elements between neighbours along the axis, of the line and of the image.
    step: usize,
    row: usize,
}

impl<T: Copy + AddAssign + bytemuck::Zeroable> Blocks<T> {
    /// Writes some rows of the image of a channel, given its blocks.
    fn band(&self, from: &[T], rows: &Range<usize>, to: &mut [T]) {
        let blocks: usize = self.axes.iter().map(|axis| axis.count).product();
        to.fill(T::zeroed());
        if blocks == 0 {
            return;
        }
        let mut places = vec![Place::default(); self.axes.len()];
        for (tap, line) in from.chunks_exact(blocks).enumerate() {
            let (mut tap, mut step, mut row) = (tap, 1, 1);
            for (at, (axis, place)) in self.axes.iter().zip(&mut places).enumerate().rev() {
                let within = if at == 0 { rows.clone() } else { 0..axis.image };
                let blocks = axis.blocks(tap % axis.block, &within);
                let first = match blocks.is_empty() {
                    true => 0,
                    false => axis.pixel(blocks.start, tap % axis.block) - within.start,
                };
                *place = Place { blocks, first, stride: axis.stride, step, row };
                (tap, step, row) = (tap / axis.block, step * axis.count, row * axis.image);
            }
            add(&places, line, to);
        }
    }
}

/// Adds a line to the pixels of an image.
fn add<T: Copy + AddAssign>(places: &[Place], line: &[T], to: &mut [T]) {
    match places {
        [] => {}
        [axis] if axis.blocks.is_empty() => {}
        [Place { blocks, first, stride: 1, .. }] => {
            to[*first..].iter_mut().zip(&line[blocks.clone()]).for_each(|(to, from)| *to += *from);
        }
        [Place { blocks, first, stride, .. }] => {
            let to = to[*first..].iter_mut().step_by(*stride);
            to.zip(&line[blocks.clone()]).for_each(|(to, from)| *to += *from);
        }
        [axis, inner @ ..] => {
            for (at, block) in axis.blocks.clone().enumerate() {
                let to = &mut to[(axis.first + at * axis.stride) * axis.row..][..axis.row];
                add(inner, &line[block * axis.step..][..axis.step], to);
            }
        }
    }
}
