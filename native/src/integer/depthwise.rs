//! `native.conv-requantize-depthwise`: a convolution of bytes in which each channel has a window of its own, and the
//! chain after it.
//!
//! The channels of a pixel are adjacent, so each vector of them is computed as one number would be. The compiler makes
//! vectors of the loops over lanes.

use super::chain::{AREA, Chain, Rows, Started};
use super::fused::{Extras, infer};
use super::geometry::Geometry;
use crate::args::Shared;
use crate::lanes::Isa;
use crate::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Typed {
        infer: |lowered, attrs, types| infer(lowered, attrs, types, "hwio"),
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

/// The channels that are computed at once, and the pixels whose sums are kept until they become levels.
const LANES: usize = 32;
const PIXELS: usize = 8;

const _: () = assert!(LANES * PIXELS <= AREA);

struct Depthwise {
    geometry: Geometry,
    chain: Chain,
    extras: Extras,
    by_output: bool,
    signed: [bool; 2],
}

impl Depthwise {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, w, _, q] = call.inputs.first_chunk()?;
        let chain = Chain::new(call, 4, DType::I32)?;
        Some(Self {
            geometry: Geometry::new(call.attrs, &x.shape, &w.shape, &call.output.shape)?,
            extras: Extras::new(&chain, call)?,
            chain,
            by_output: q.shape.count() > 1,
            signed: [x.dtype == DType::I8, w.dtype == DType::I8],
        })
    }

    /// The elements of a window.
    fn taps(&self) -> usize {
        self.geometry.window[0] * self.geometry.window[1]
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(depthwise) = Depthwise::new(call) else { return reference::contract(call) };
    let (taps, channels) = (depthwise.taps(), depthwise.geometry.channels);
    // The weights minus their zero points, and what the zero point of the images adds to each channel.
    let scratch =
        channels * (taps * size_of::<i16>()).next_multiple_of(size_of::<i32>()) + channels * size_of::<i32>();
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
        let constants = Shared::<i32>::scratch(args);
        let weights = Shared::<i16>::new(constants.at(one.channels).cast());
        // SAFETY: the scratch memory has room for both, and the operands are those of the call.
        let (point, fits, started) = unsafe {
            let point = *operands[2].at(0);
            let fits =
                self.prepare(operands[1].at(0), operands[3].at(0), point, constants.at(0), weights.at(0));
            (point, fits, self.chain.start(args))
        };
        let output = Shared::<u8>::output(args);
        let (lanes, blocks) = match one.channels {
            LANES.. => (LANES, one.channels.div_ceil(LANES)),
            16.. => (16, one.channels.div_ceil(16)),
            8.. => (8, one.channels.div_ceil(8)),
            channels => (1, channels),
        };
        args.team.run(one.images * one.pixels[0], |row| {
            for block in 0..blocks {
                let strip = Strip {
                    depthwise: self,
                    started: &started,
                    images: operands[0].at(0),
                    constants: constants.at(0),
                    weights: weights.at(0),
                    point,
                    output: output.at(0),
                    image: row / one.pixels[0],
                    row: row % one.pixels[0],
                    // The last channels are computed twice if they fill no block.
                    channel: (block * lanes).min(one.channels - lanes),
                };
                // SAFETY: only this task writes this row.
                unsafe { strip.run(lanes, fits) };
            }
        });
    }
}

impl Depthwise {
    /// Writes the weights minus their zero points, and what the zero point of the images adds to the sums of each
    /// channel. Returns whether all products of bytes with the weights fit into 16 bits.
    ///
    /// # Safety
    /// The operands must be those of the call, and there must be room for the results.
    unsafe fn prepare(
        &self,
        given: *const u8,
        points: *const u8,
        image: u8,
        constants: *mut i32,
        to: *mut i16,
    ) -> bool {
        let channels = self.geometry.channels;
        let wide = |byte: u8, signed: bool| match signed {
            true => i16::from(byte.cast_signed()),
            false => i16::from(byte),
        };
        let image = i32::from(wide(image, self.signed[0]));
        let mut fits = true;
        // SAFETY: as the caller promises.
        unsafe {
            for channel in 0..channels {
                let own = if self.by_output { channel } else { 0 };
                let point = wide(*points.add(own), self.signed[1]);
                let mut sum = 0;
                for tap in 0..self.taps() {
                    let at = tap * channels + channel;
                    let weight = wide(*given.add(at), self.signed[1]) - point;
                    *to.add(at) = weight;
                    sum += i32::from(weight);
                    fits &= (-128..=128).contains(&weight);
                }
                *constants.add(channel) = sum.wrapping_mul(-image);
            }
        }
        fits
    }
}

/// Some channels of a row of the result.
struct Strip<'a> {
    depthwise: &'a Depthwise,
    started: &'a Started<'a>,
    images: *const u8,
    constants: *const i32,
    weights: *const i16,
    point: u8,
    output: *mut u8,
    image: usize,
    row: usize,
    channel: usize,
}

impl Strip<'_> {
    /// Computes the levels of this many channels; `fits` says whether products fit into 16 bits.
    ///
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self, lanes: usize, fits: bool) {
        // SAFETY: as the caller promises, and the processor has the instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                if Isa::running() >= Isa::Avx512 && is_x86_feature_detected!("avx512bw") {
                    return self.avx512(lanes, fits);
                }
                if Isa::running() >= Isa::Avx2 {
                    return self.avx2(lanes, fits);
                }
            }
            self.with(lanes, fits);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx2,fma")]
    unsafe fn avx512(&self, lanes: usize, fits: bool) {
        // SAFETY: as the caller of `run` promises.
        unsafe { self.with(lanes, fits) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, lanes: usize, fits: bool) {
        // SAFETY: as the caller of `run` promises.
        unsafe { self.with(lanes, fits) }
    }

    #[inline(always)]
    unsafe fn with(&self, lanes: usize, fits: bool) {
        let signed = self.depthwise.signed[0];
        // SAFETY: as the caller of `run` promises.
        unsafe {
            match (lanes, fits && !signed) {
                (LANES, true) => self.tiles::<LANES>(|x, w| i32::from(i16::from(x).wrapping_mul(w))),
                (16, true) => self.tiles::<16>(|x, w| i32::from(i16::from(x).wrapping_mul(w))),
                (LANES, false) if signed => {
                    self.tiles::<LANES>(|x, w| i32::from(x.cast_signed()) * i32::from(w))
                }
                (LANES, false) => self.tiles::<LANES>(|x, w| i32::from(x) * i32::from(w)),
                (16, false) if signed => self.tiles::<16>(|x, w| i32::from(x.cast_signed()) * i32::from(w)),
                (16, false) => self.tiles::<16>(|x, w| i32::from(x) * i32::from(w)),
                (8, _) if signed => self.tiles::<8>(|x, w| i32::from(x.cast_signed()) * i32::from(w)),
                (8, _) => self.tiles::<8>(|x, w| i32::from(x) * i32::from(w)),
                _ if signed => self.tiles::<1>(|x, w| i32::from(x.cast_signed()) * i32::from(w)),
                _ => self.tiles::<1>(|x, w| i32::from(x) * i32::from(w)),
            }
        }
    }

    #[inline(always)]
    unsafe fn tiles<const L: usize>(&self, product: impl Fn(u8, i16) -> i32) {
        let one = &self.depthwise.geometry;
        let (channels, area) = (one.channels, one.area());
        let outside = [self.point; L];
        // SAFETY: as the caller of `run` promises.
        unsafe {
            let image = self.images.add(self.image * one.image[0] * one.image[1] * channels + self.channel);
            let constants = self.constants.add(self.channel).cast::<[i32; L]>().read_unaligned();
            let weights = self.weights.add(self.channel);
            for first in (0..one.pixels[1]).step_by(PIXELS) {
                let count = PIXELS.min(one.pixels[1] - first);
                let mut sums = [[0_i32; L]; PIXELS];
                for (at, sums) in sums[..count].iter_mut().enumerate() {
                    let mut own = constants;
                    for y in 0..one.window[0] {
                        let row = self.row * one.strides[0] + y * one.dilations[0];
                        let row = row.checked_sub(one.begin[0]).filter(|row| *row < one.image[0]);
                        for x in 0..one.window[1] {
                            let column = (first + at) * one.strides[1] + x * one.dilations[1];
                            let column =
                                column.checked_sub(one.begin[1]).filter(|column| *column < one.image[1]);
                            let from = match (row, column) {
                                (Some(row), Some(column)) => {
                                    image.add((row * one.image[1] + column) * channels)
                                }
                                _ => outside.as_ptr(),
                            };
                            let from = &*from.cast::<[u8; L]>();
                            let weights = weights.add((y * one.window[1] + x) * channels);
                            let weights = weights.cast::<[i16; L]>().read_unaligned();
                            for lane in 0..L {
                                own[lane] += product(from[lane], weights[lane]);
                            }
                        }
                    }
                    *sums = own;
                }
                let pixel = self.row * one.pixels[1] + first;
                self.started.run(&Rows {
                    source: sums.as_ptr().cast(),
                    source_row: L,
                    target: self.output.add((self.image * area + pixel) * channels + self.channel),
                    target_row: channels,
                    rows: count,
                    columns: L,
                    places: self.depthwise.extras.places(self.image, pixel, self.channel),
                });
            }
        }
    }
}
