//! `deform-conv`: a convolution whose taps are moved by offsets, as a product of matrices.
//!
//! The image is first copied with the channels of a pixel next to each other. Then, for some pixels of the result at a
//! time, each tap reads vectors of channels at its place, which become columns of a matrix. The weights, as they are,
//! times this matrix are these pixels of the result.

use super::args::{Buffers, Shared, part, tasks};
use super::gemm::{PANEL, Tile, micro};
use super::lanes::{Lanes, widened};
use super::prefetch::Prefetch;
use super::tile::transpose;
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    instruction_sets: ISAS,
    ..Lowering::new("native.deform-conv", "deform-conv", contract, kernel)
}];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(deform) = Deform::new(call) else { return reference::contract(call) };
    let scratch = (deform.image() + call.threads * deform.of_thread()) * size_of::<f32>();
    Ok(Contract { scratch, ..plain_contract("columns") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Deform::new(call) {
        Some(deform) => Ok(Box::new(deform)),
        None => reference::kernel(call),
    }
}

struct Deform {
    batch: usize,
    channels: usize,
    image: [usize; 2],
    filters: usize,
    groups: usize,
    offset_groups: usize,
    window: [usize; 2],
    strides: [usize; 2],
    /// Before the rows and before the columns.
    pads: [usize; 2],
    dilations: [usize; 2],
    output: [usize; 2],
}

/// Where a tap reads: four pixels of the copied image, with their weights. Outside of the image it reads zeros.
#[derive(Clone, Copy)]
struct Point {
    pixels: [usize; 4],
    weights: [f32; 4],
    mask: f32,
}

impl Deform {
    fn new(call: &Call<'_>) -> Option<Self> {
        if call.inputs.iter().any(|ty| ty.dtype != DType::F32) {
            return None;
        }
        let pair = |name: &str| {
            let list = call.attrs.expect_ints(name);
            [0, 1].map(|at| usize::try_from(list[at]).unwrap_or(0))
        };
        let whole = |name: &str| usize::try_from(call.attrs.expect_int(name)).unwrap_or(1).max(1);
        let (x, w, y) = (&call.inputs[0].shape, &call.inputs[1].shape, &call.output.shape);
        Some(Self {
            batch: x[0],
            channels: x[1],
            image: [x[2], x[3]],
            filters: w[0],
            groups: whole("groups"),
            offset_groups: whole("offset-groups"),
            window: [w[2], w[3]],
            strides: pair("strides"),
            pads: pair("pads"),
            dilations: pair("dilations"),
            output: [y[2], y[3]],
        })
    }

    fn taps(&self) -> usize {
        self.window[0] * self.window[1]
    }

    fn pixels(&self) -> usize {
        self.image[0] * self.image[1]
    }

    /// Returns the channels that share offsets.
    fn sharing(&self) -> usize {
        self.channels / self.offset_groups
    }

    /// Returns the elements of the copied image, with a pixel of zeros at its end.
    fn image(&self) -> usize {
        ((self.batch * self.pixels() + 1) * self.channels).next_multiple_of(ALIGN)
    }

    /// Returns the elements of the matrix of columns, and those of it and of the samples of a tap, which a thread needs.
    fn columns(&self) -> usize {
        (self.channels * self.taps() * PANEL).next_multiple_of(ALIGN)
    }

    fn of_thread(&self) -> usize {
        self.columns() + (self.sharing() * PANEL).next_multiple_of(ALIGN)
    }

    /// Copies the image, with the channels of a pixel next to each other.
    fn copy(&self, args: &Args<'_>, image: Shared<f32>) {
        let x = Shared::<f32>::input(args, 0);
        let (pixels, channels) = (self.pixels(), self.channels);
        let blocks = pixels.div_ceil(PANEL);
        let parts = tasks(self.batch * pixels * channels, self.batch * blocks, args.team.threads());
        args.team.run(parts, |index| {
            for block in part(self.batch * blocks, parts, index, 1) {
                let (batch, first) = (block / blocks, block % blocks * PANEL);
                // SAFETY: the pixels are within the operand and the copy, and only this task writes them.
                unsafe {
                    transpose(
                        x.at(batch * channels * pixels + first).cast_const(),
                        pixels as isize,
                        image.at((batch * pixels + first) * channels),
                        channels as isize,
                        PANEL.min(pixels - first),
                        channels,
                    );
                }
            }
        });
        let end = image.at(self.batch * pixels * channels);
        // SAFETY: the copy has another pixel at its end.
        unsafe { std::ptr::write_bytes(end, 0, channels) };
    }

    /// Returns where a tap reads for a pixel of the result at a row and a column, moved by an offset.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn point(&self, batch: usize, place: [usize; 2], tap: usize, offset: [f32; 2], mask: f32) -> Point {
        let step = [tap / self.window[1], tap % self.window[1]];
        let [y, x] = [0, 1].map(|axis| {
            let index = place[axis] * self.strides[axis] + step[axis] * self.dilations[axis];
            f64::from(offset[axis]) + (index as f64 - self.pads[axis] as f64)
        });
        let (top, left) = (y.floor(), x.floor());
        let (mut pixels, mut weights) = ([self.batch * self.pixels(); 4], [0.0; 4]);
        for (at, (row, column)) in
            [(top, left), (top, left + 1.0), (top + 1.0, left), (top + 1.0, left + 1.0)]
                .into_iter()
                .enumerate()
        {
            let inside = |index: f64, size: usize| index >= 0.0 && index < size as f64;
            if inside(row, self.image[0]) && inside(column, self.image[1]) {
                pixels[at] = batch * self.pixels() + row as usize * self.image[1] + column as usize;
                weights[at] = ((1.0 - (y - row).abs()) * (1.0 - (x - column).abs())) as f32;
            }
        }
        Point { pixels, weights, mask }
    }

    /// Computes the columns of some pixels of an image of the batch.
    ///
    /// # Safety
    /// The pixels must be in bounds, and `columns` must be this thread's scratch memory.
    unsafe fn fill(
        &self,
        args: &Args<'_>,
        image: *const f32,
        columns: *mut f32,
        batch: usize,
        first: usize,
        count: usize,
    ) {
        let (offsets, masks) = (args.inputs[2].cast::<f32>(), args.inputs[3].cast::<f32>());
        let (taps, plane, sharing) = (self.taps(), self.output[0] * self.output[1], self.sharing());
        let samples = columns.wrapping_add(self.columns());
        let nothing = Point { pixels: [0; 4], weights: [0.0; 4], mask: 0.0 };
        for (group, tap) in (0..self.offset_groups * taps).map(|at| (at / taps, at % taps)) {
            let map = (batch * self.offset_groups + group) * taps + tap;
            let mut points = [nothing; PANEL];
            for (at, point) in points.iter_mut().enumerate().take(count) {
                let pixel = first + at;
                let place = [pixel / self.output[1], pixel % self.output[1]];
                // SAFETY: each tap of each group of offsets has two planes of offsets, and one of masks.
                let (offset, mask) = unsafe {
                    let offset = [0, 1].map(|axis| *offsets.add((2 * map + axis) * plane + pixel));
                    (offset, *masks.add(map * plane + pixel))
                };
                *point = self.point(batch, place, tap, offset, mask);
            }
            // SAFETY: points are within the image, which has these channels, and the samples and the rows of the
            // columns are within the scratch memory.
            unsafe {
                let image = image.add(group * sharing);
                read(image, self.channels, sharing, &points[..count], samples);
                let rows = columns.add((group * sharing * taps + tap) * PANEL);
                transpose(
                    samples.cast_const(),
                    sharing as isize,
                    rows,
                    (taps * PANEL) as isize,
                    sharing,
                    count,
                );
            }
        }
    }
}

widened! {
    /// Reads `count` channels at points of an image whose pixels have `channels` channels, into adjacent memory.
    ///
    /// # Safety
    /// The points must be within the image, and the memory must have room for their channels.
    unsafe fn read(image: *const f32, channels: usize, count: usize, points: &[Point], to: *mut f32) = read_on;
}

/// # Safety
/// As for [`read`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn read_on<V: Lanes>(
    image: *const f32,
    channels: usize,
    count: usize,
    points: &[Point],
    to: *mut f32,
) {
    for (at, point) in points.iter().enumerate() {
        let mut lane = 0;
        while lane < count {
            let lanes = (count - lane).min(V::COUNT);
            // SAFETY: as the caller promises.
            unsafe {
                let mut sum = V::splat(0.0);
                for (pixel, weight) in point.pixels.iter().zip(point.weights) {
                    let from = image.add(pixel * channels + lane);
                    let values = if lanes == V::COUNT { V::load(from) } else { V::load_first(from, lanes) };
                    sum = values.mul_add(V::splat(weight), sum);
                }
                let sum = sum.mul(V::splat(point.mask));
                let to = to.add(at * count + lane);
                if lanes == V::COUNT { sum.store(to) } else { sum.store_first(to, lanes) }
            }
            lane += V::COUNT;
        }
    }
}

impl Kernel for Deform {
    unsafe fn run(&self, args: &Args<'_>) {
        let plane = self.output[0] * self.output[1];
        let image = Shared::<f32>::scratch(args);
        self.copy(args, image);
        let (weights, output) = (Shared::<f32>::input(args, 1), Shared::<f32>::output(args));
        let threads = Shared::<f32>::new(image.at(self.image()));
        let (bands, depth) = (plane.div_ceil(PANEL), self.channels / self.groups * self.taps());
        let outputs = self.filters / self.groups;
        let buffers = Buffers::new(args);
        args.team.share(args.team.threads(), self.batch * bands, |thread, task| {
            let (batch, first) = (task / bands, task % bands * PANEL);
            let count = PANEL.min(plane - first);
            let columns = threads.at(thread * self.of_thread());
            // SAFETY: each thread has its own columns; the pixels are those of this task.
            unsafe { self.fill(buffers.args(), image.at(0), columns, batch, first, count) };
            for group in 0..self.groups {
                let filter = group * outputs;
                let tile = Tile {
                    a: weights.at(filter * depth),
                    a_stride: depth,
                    b: columns.wrapping_add(group * depth * PANEL),
                    b_stride: PANEL,
                    c: output.at((batch * self.filters + filter) * plane + first),
                    c_stride: plane,
                    depth,
                    columns: count,
                    accumulate: false,
                    ahead: Prefetch::NONE,
                };
                // SAFETY: the filters of the group have `depth` weights each, and only this task writes these pixels.
                unsafe { micro().block(&tile, outputs) };
            }
        });
    }
}
