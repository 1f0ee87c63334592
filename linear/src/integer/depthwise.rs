//! `native.conv-requantize-depthwise`: a convolution of bytes in which each channel has a window of its own, and the
//! chain after it.
//!
//! The channels of a pixel are adjacent, so each vector of them is computed as one number would be. There are three ways:
//! four taps at a time for common weights and chains on a processor with `vpdpbusd`, and otherwise two taps. Where the chain
//! is common, these are below each other, and the bytes of the images are made pairs of numbers once.

mod columns;
mod quads;
mod taps;
mod together;

use super::affine::Sums;
use super::chain::{AREA, Chain, Rows, Started};
use super::fused::{Extras, infer};
use super::geometry::Geometry;
use crate::args::Shared;
use crate::lanes::Isa;
use crate::{ISAS, plain_contract, reference};
use columns::Columns;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;
use quads::Quads;
use taps::{HALF, LANES, Pairs};
use together::Run;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Typed {
        infer: |lowered, attrs, types| infer(lowered, attrs, types, "hwio", false),
        samples: &[Form::new(&["nhwc", "hwio", "plain", "plain", "plain", "plain"], "nhwc")],
    },
    instruction_sets: ISAS,
    check: Some(|attrs, types, _| {
        let (channels, weights) = (types[0].shape[1], &types[1].shape);
        if usize::try_from(attrs.expect_int("groups")) == Ok(channels) && weights[0] == channels {
            return Ok(());
        }
        Err(OpError::operands("each channel must be a group of its own, with one output".to_owned()))
    }),
    ..Lowering::new("native.conv-requantize-depthwise", "conv-requantize", contract, kernel)
};

/// The tasks for each thread, if there are enough.
const TASKS: usize = 4;
/// The pixels whose sums are kept until they become levels.
const PIXELS: usize = 8;
/// The pixels whose sums are in registers at a time.
const TOGETHER: usize = 4;

const _: () = assert!(LANES * PIXELS <= AREA);

struct Depthwise {
    geometry: Geometry,
    chain: Chain,
    extras: Extras,
    by_output: bool,
    signed: [bool; 2],
    /// The way of four taps at a time, if it is open.
    quads: Option<Quads>,
    /// The way of two taps below each other, if it is open.
    columns: Option<Columns>,
    threads: usize,
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, w, _, q] = call.inputs.first_chunk()?;
        let chain = Chain::new(call, 4, DType::I32)?;
        let geometry = Geometry::new(call.attrs, &x.shape, &w.shape, &call.output.shape)?;
        let signed = [x.dtype == DType::I8, w.dtype == DType::I8];
        let by_output = q.shape.count() > 1;
        Some(Self {
            geometry,
            quads: signed[1].then(|| Quads::new(&geometry, signed[0])).flatten(),
            columns: Columns::new(&geometry, signed, by_output),
            threads: call.threads.max(1),
            extras: Extras::new(&chain, call)?,
            chain,
            by_output,
            signed,
        })
    }

    /// The elements of a window.
    fn taps(&self) -> usize {
        self.geometry.window[0] * self.geometry.window[1]
    }

    /// The pairs of weights of all channels.
    fn pairs(&self) -> usize {
        self.taps().div_ceil(2) * self.geometry.channels
    }

    /// Writes the weights minus their zero points, in pairs of taps, and what the zero point of the images adds to the
    /// sums of each channel.
    ///
    /// # Safety
    /// The operands must be those of the call, and there must be room for the results.
    unsafe fn prepare(&self, weights: &Weights) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if Isa::running() >= Isa::Avx512 && is_x86_feature_detected!("avx512bw") {
                return self.prepare_avx512(weights);
            } else if Isa::running() >= Isa::Avx2 {
                return self.prepare_avx2(weights);
            }
            self.prepare_on(weights);
        }
    }

    /// # Safety
    /// As for [`Depthwise::prepare`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn prepare_avx512(&self, weights: &Weights) {
        // SAFETY: as the caller promises.
        unsafe { self.prepare_on(weights) }
    }

    /// # Safety
    /// As for [`Depthwise::prepare`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn prepare_avx2(&self, weights: &Weights) {
        // SAFETY: as the caller promises.
        unsafe { self.prepare_on(weights) }
    }

    /// # Safety
    /// As for [`Depthwise::prepare`].
    #[inline(always)]
    unsafe fn prepare_on(&self, weights: &Weights) {
        // A loop for each case has no condition inside, so the compiler uses vectors for it.
        // SAFETY: as the caller promises.
        unsafe {
            match (self.signed[1], self.by_output) {
                (true, true) => self.prepare_each::<true, true>(weights),
                (true, false) => self.prepare_each::<true, false>(weights),
                (false, true) => self.prepare_each::<false, true>(weights),
                (false, false) => self.prepare_each::<false, false>(weights),
            }
        }
    }

    /// # Safety
    /// As for [`Depthwise::prepare`].
    #[inline(always)]
    unsafe fn prepare_each<const SIGNED: bool, const BY_OUTPUT: bool>(&self, weights: &Weights) {
        let channels = self.geometry.channels;
        let image = i32::from(if self.signed[0] {
            i16::from(weights.image.cast_signed())
        } else {
            i16::from(weights.image)
        });
        let wide = |byte: u8| if SIGNED { i16::from(byte.cast_signed()) } else { i16::from(byte) };
        // SAFETY: as the caller promises.
        unsafe {
            let points = std::slice::from_raw_parts(weights.points, if BY_OUTPUT { channels } else { 1 });
            let constants = std::slice::from_raw_parts_mut(weights.constants, channels);
            constants.fill(0);
            for pair in 0..self.taps().div_ceil(2) {
                let taps = [2 * pair, (2 * pair + 1).min(self.taps() - 1)];
                let first = std::slice::from_raw_parts(weights.given.add(taps[0] * channels), channels);
                let second = std::slice::from_raw_parts(weights.given.add(taps[1] * channels), channels);
                // The second weight of the last pair is zero if the number of taps is odd.
                let mask = if taps[0] == taps[1] { 0 } else { -1 };
                let to = weights.pairs.add(pair * channels);
                for channel in 0..channels {
                    let point = wide(points[if BY_OUTPUT { channel } else { 0 }]);
                    let both = [wide(first[channel]) - point, (wide(second[channel]) - point) & mask];
                    to.add(channel).write(both);
                    constants[channel] -= (i32::from(both[0]) + i32::from(both[1])) * image;
                }
            }
        }
    }
}

/// The weights of a call, and what is made of them.
struct Weights {
    given: *const u8,
    points: *const u8,
    /// The zero point of the images.
    image: u8,
    constants: *mut i32,
    pairs: *mut [i16; 2],
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(depthwise) = Depthwise::new(call) else { return reference::contract(call) };
    let channels = depthwise.geometry.channels;
    // What is added to each channel, the pairs of weights, and a pixel outside of the images.
    let pairs = channels * size_of::<i32>() + depthwise.pairs() * size_of::<[i16; 2]>() + channels;
    let quads = |quads: &Quads| quads.prepared() + depthwise.threads * quads.of_thread() + channels;
    let columns = |columns: &Columns| columns.prepared() + depthwise.threads * columns.of_thread() + channels;
    let scratch = pairs
        .max(depthwise.quads.as_ref().map_or(0, quads))
        .max(depthwise.columns.as_ref().map_or(0, columns));
    Ok(Contract { scratch, ..plain_contract("lanes") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Depthwise::new(call) {
        Some(depthwise) => Ok(Box::new(depthwise)),
        None => reference::kernel(call),
    }
}

impl Kernel for Depthwise {
    unsafe fn run(&self, args: &Args<'_>) {
        let one = &self.geometry;
        let operands = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        // SAFETY: the operands are those of the call.
        let started = unsafe { self.chain.start(args) };
        // SAFETY: as the caller promises.
        if unsafe { self.run_quads(args, &started) || self.run_columns(args, &started) } {
            return;
        }
        let constants = Shared::<i32>::scratch(args);
        let pairs = Shared::<[i16; 2]>::new(constants.at(one.channels).cast());
        let outside = Shared::<u8>::new(pairs.at(self.pairs()).cast());
        // SAFETY: the scratch memory has room for all of this, and the operands are those of the call.
        unsafe {
            let point = *operands[2].at(0);
            self.prepare(&Weights {
                given: operands[1].at(0),
                points: operands[3].at(0),
                image: point,
                constants: constants.at(0),
                pairs: pairs.at(0),
            });
            outside.at(0).write_bytes(point, one.channels);
        }
        let output = Shared::<u8>::output(args);
        args.team.run(one.images * one.pixels[0], |row| {
            let pairs = Pairs {
                from: pairs.at(0),
                channels: one.channels,
                taps: self.taps(),
                constants: constants.at(0),
                signed: self.signed[0],
            };
            let (image, y) = (row / one.pixels[0], row % one.pixels[0]);
            let images = operands[0].at(image * one.image[0] * one.image[1] * one.channels);
            let taps = self.taps_of(images, y, outside.at(0));
            let row =
                Row { depthwise: self, started: &started, pairs, taps, outside: outside.at(0), image, y };
            // SAFETY: only this task writes this row.
            unsafe { row.run(output.at(0)) };
        });
    }
}

impl Depthwise {
    /// Returns how sums become bytes, if the chain is a product and a sum by channel, and where those of the first pixel go.
    fn sums(&self, args: &Args<'_>, started: &Started<'_>) -> Option<Sums> {
        let one = &self.geometry;
        let of_image = |image: usize| Rows {
            source: std::ptr::null(),
            source_row: 0,
            target: Shared::<u8>::output(args).at(0),
            target_row: one.channels,
            rows: 1,
            columns: one.channels,
            places: self.extras.places(image, 0, 0),
        };
        let sums = started.bytes(&of_image(0))?;
        // All images have the same operands.
        let last = started.bytes(&of_image(one.images - 1))?;
        (last.operands == sums.operands).then_some(sums)
    }

    /// Computes the levels by two taps below each other at a time, and returns whether it did.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    unsafe fn run_columns(&self, args: &Args<'_>, started: &Started<'_>) -> bool {
        let channels = self.geometry.channels;
        let Some(columns) = &self.columns else { return false };
        let Some(sums) = self.sums(args, started) else { return false };
        let [images, weights, point, points] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let scratch = Shared::<u8>::scratch(args);
        let prepared = scratch.at(0);
        let outside = Shared::<u8>::new(scratch.at(columns.prepared()));
        let buffers = Shared::<u8>::new(outside.at(channels));
        // SAFETY: the scratch memory has room for all of this, the operands are those of the call, and each thread has a
        // buffer of its own.
        unsafe {
            let image_point = *point.at(0);
            let given = columns::Given { weights: weights.at(0), points: points.at(0), image_point };
            columns.prepare(&given, &sums, prepared);
            outside.at(0).write_bytes(image_point, channels);
            let run = Run { images: images.at(0), outside: outside.at(0), prepared, sums: &sums };
            let [rows, parts] = columns.tasks(TASKS * self.threads);
            args.team.share(self.threads, rows * parts, |slot, task| {
                let buffer = buffers.at(slot * columns.of_thread());
                columns.row(&run, task / parts, [task % parts, parts], buffer);
            });
        }
        true
    }

    /// Computes the levels by four taps at a time, and returns whether it did: weights must have no zero points, and the chain
    /// must be a product and a sum by channel.
    ///
    /// # Safety
    /// The buffers must be those of the call.
    unsafe fn run_quads(&self, args: &Args<'_>, started: &Started<'_>) -> bool {
        let one = &self.geometry;
        let Some(quads) = &self.quads else { return false };
        let Some(sums) = self.sums(args, started) else { return false };
        let [images, weights, point, points] = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let scratch = Shared::<u8>::scratch(args);
        let prepared = scratch.at(0);
        let outside = Shared::<u8>::new(scratch.at(quads.prepared()));
        let buffers = Shared::<u8>::new(outside.at(one.channels));
        // SAFETY: the scratch memory has room for all of this, the operands are those of the call, and each thread has a
        // buffer of its own.
        unsafe {
            let points =
                std::slice::from_raw_parts(points.at(0), if self.by_output { one.channels } else { 1 });
            if points.iter().any(|point| *point != 0) {
                return false;
            }
            let point = *point.at(0);
            quads.prepare(weights.at(0), point, &sums, prepared);
            outside.at(0).write_bytes(point, one.channels);
            let run = Run { images: images.at(0), outside: outside.at(0), prepared, sums: &sums };
            let [rows, parts] = quads.tasks(TASKS * self.threads);
            args.team.share(self.threads, rows * parts, |slot, task| {
                let buffer = buffers.at(slot * quads.of_thread());
                quads.row(&run, task / parts, [task % parts, parts], buffer);
            });
        }
        true
    }
}

/// Where a tap of the first pixel of a row lies, and the distance between pixels.
#[derive(Clone, Copy)]
struct Tap {
    from: *const u8,
    step: usize,
    /// The column of the image in which it lies, modulo 2^64: columns before the first one are greater than all others.
    column: usize,
}

impl Depthwise {
    /// Returns the taps of a row. They lie on one pixel where their row is outside of the image.
    fn taps_of(&self, image: *const u8, y: usize, outside: *const u8) -> Vec<Tap> {
        let one = &self.geometry;
        let tap = |tap: usize| {
            let [row, column] = [tap / one.window[1], tap % one.window[1] * one.dilations[1]];
            let row = (y * one.strides[0] + row * one.dilations[0]).checked_sub(one.begin[0]);
            match row.filter(|row| *row < one.image[0]) {
                Some(row) => {
                    let first = row * one.image[1] + column;
                    let from =
                        image.wrapping_add(first * one.channels).wrapping_sub(one.begin[1] * one.channels);
                    let step = one.strides[1] * one.channels;
                    Tap { from, step, column: column.wrapping_sub(one.begin[1]) }
                }
                None => Tap { from: outside, step: 0, column: 0 },
            }
        };
        (0..self.taps()).map(tap).collect()
    }
}

/// A row of the result.
struct Row<'a> {
    depthwise: &'a Depthwise,
    started: &'a Started<'a>,
    pairs: Pairs,
    taps: Vec<Tap>,
    outside: *const u8,
    image: usize,
    y: usize,
}

impl Row<'_> {
    /// Computes the levels of the row.
    ///
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self, output: *mut u8) {
        let channels = self.depthwise.geometry.channels;
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                let signed = self.depthwise.signed[0];
                if channels >= LANES && Isa::running() >= Isa::Avx512 && is_x86_feature_detected!("avx512bw")
                {
                    return match signed {
                        true => self.avx512::<true>(output),
                        false => self.avx512::<false>(output),
                    };
                }
                if channels >= HALF && Isa::running() >= Isa::Avx2 {
                    return match signed {
                        true => self.avx2::<true>(output),
                        false => self.avx2::<false>(output),
                    };
                }
            }
            for channel in (0..channels).step_by(LANES) {
                let lanes = LANES.min(channels - channel);
                self.channels(output, channel, lanes, |pixel, sums, together| {
                    if together {
                        let place = |tap, at| self.inside(pixel + at, tap, channel);
                        self.pairs.portable::<TOGETHER>(channel, lanes, place, sums);
                    } else {
                        self.pairs.portable::<1>(
                            channel,
                            lanes,
                            |tap, _| self.any(pixel, tap, channel),
                            sums,
                        );
                    }
                });
            }
        }
    }

    /// # Safety
    /// As for [`Row::run`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn avx512<const SIGNED: bool>(&self, output: *mut u8) {
        let channels = self.depthwise.geometry.channels;
        for block in 0..channels.div_ceil(LANES) {
            // The last channels are computed twice if they fill no block.
            let channel = (block * LANES).min(channels - LANES);
            // SAFETY: as the caller promises.
            unsafe {
                self.channels(output, channel, LANES, |pixel, sums, together| {
                    if together {
                        let place = |tap, at| self.inside(pixel + at, tap, channel);
                        self.pairs.avx512::<TOGETHER, SIGNED>(channel, place, sums);
                    } else {
                        let place = |tap, _| self.any(pixel, tap, channel);
                        self.pairs.avx512::<1, SIGNED>(channel, place, sums);
                    }
                });
            }
        }
    }

    /// # Safety
    /// As for [`Row::run`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const SIGNED: bool>(&self, output: *mut u8) {
        let channels = self.depthwise.geometry.channels;
        for block in 0..channels.div_ceil(HALF) {
            let channel = (block * HALF).min(channels - HALF);
            // SAFETY: as the caller promises.
            unsafe {
                self.channels(output, channel, HALF, |pixel, sums, together| {
                    if together {
                        let place = |tap, at| self.inside(pixel + at, tap, channel);
                        self.pairs.avx2::<TOGETHER, SIGNED>(channel, place, sums);
                    } else {
                        let place = |tap, _| self.any(pixel, tap, channel);
                        self.pairs.avx2::<1, SIGNED>(channel, place, sums);
                    }
                });
            }
        }
    }

    /// Returns where a channel of a tap lies, for a pixel whose window lies between the ends of the image's rows.
    #[inline(always)]
    fn inside(&self, pixel: usize, tap: usize, channel: usize) -> *const u8 {
        let Tap { from, step, .. } = self.taps[tap];
        from.wrapping_add(pixel * step + channel)
    }

    /// Returns where a channel of a tap lies, for any pixel.
    #[inline(always)]
    fn any(&self, pixel: usize, tap: usize, channel: usize) -> *const u8 {
        let one = &self.depthwise.geometry;
        let column = self.taps[tap].column.wrapping_add(pixel * one.strides[1]);
        if column < one.image[1] {
            self.inside(pixel, tap, channel)
        } else {
            self.outside.wrapping_add(channel)
        }
    }

    /// Computes the levels of this many channels. `compute` writes the sums of a pixel, or of [`TOGETHER`] pixels whose
    /// windows lie between the ends of the image's rows.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[inline(always)]
    unsafe fn channels(
        &self,
        output: *mut u8,
        channel: usize,
        lanes: usize,
        compute: impl Fn(usize, &mut [[i32; LANES]], bool),
    ) {
        let one = &self.depthwise.geometry;
        let spanned = (one.window[1] - 1) * one.dilations[1];
        let first_inside = one.begin[1].div_ceil(one.strides[1]);
        let end_inside = match (one.image[1] + one.begin[1]).checked_sub(spanned + 1) {
            Some(last) => last / one.strides[1] + 1,
            None => 0,
        };
        let mut sums = [[0_i32; LANES]; PIXELS];
        for first in (0..one.pixels[1]).step_by(PIXELS) {
            let count = PIXELS.min(one.pixels[1] - first);
            let mut at = 0;
            while at < count {
                let pixel = first + at;
                let inside = pixel >= first_inside && pixel + TOGETHER <= end_inside;
                let together = inside && at + TOGETHER <= count;
                compute(pixel, &mut sums[at..], together);
                at += if together { TOGETHER } else { 1 };
            }
            let pixel = self.y * one.pixels[1] + first;
            let target = (self.image * one.area() + pixel) * one.channels + channel;
            // SAFETY: as the caller promises.
            unsafe {
                self.started.run(&Rows {
                    source: sums.as_ptr().cast(),
                    source_row: LANES,
                    target: output.add(target),
                    target_row: one.channels,
                    rows: count,
                    columns: lanes,
                    places: self.depthwise.extras.places(self.image, pixel, channel),
                });
            }
        }
    }
}
