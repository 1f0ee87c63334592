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

/// The channels that are computed at once, and the pixels whose sums are kept until they become levels.
const LANES: usize = 32;
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
        // Sums of more channels do not fit into the registers of AVX2.
        let (lanes, blocks) = match one.channels {
            LANES.. if Isa::running() >= Isa::Avx512 => (LANES, one.channels.div_ceil(LANES)),
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
    unsafe fn tiles<const L: usize>(&self, product: impl Fn(u8, i16) -> i32 + Copy) {
        let one = &self.depthwise.geometry;
        let (channels, area) = (one.channels, one.area());
        // The pixels whose windows lie between the left and the right end of the image.
        let spanned = (one.window[1] - 1) * one.dilations[1];
        let first_inside = one.begin[1].div_ceil(one.strides[1]);
        let end_inside = match (one.image[1] + one.begin[1]).checked_sub(spanned + 1) {
            Some(last) => last / one.strides[1] + 1,
            None => 0,
        };
        let mut sums = [[0_i32; L]; PIXELS];
        // SAFETY: as the caller of `run` promises.
        unsafe {
            for first in (0..one.pixels[1]).step_by(PIXELS) {
                let count = PIXELS.min(one.pixels[1] - first);
                let mut at = 0;
                while at < count {
                    let pixel = first + at;
                    let inside = pixel >= first_inside && pixel + TOGETHER <= end_inside;
                    if inside && at + TOGETHER <= count {
                        let to = sums[at..].first_chunk_mut::<TOGETHER>().expect("there are as many");
                        self.inside::<L>(pixel, to, product);
                        at += TOGETHER;
                    } else {
                        self.single::<L>(pixel, &mut sums[at], product);
                        at += 1;
                    }
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

    /// Returns the first of these channels in the row of the image that a row of the window reads; `None` outside of the
    /// image.
    #[inline(always)]
    fn line(&self, y: usize) -> Option<*const u8> {
        let one = &self.depthwise.geometry;
        let row = (self.row * one.strides[0] + y * one.dilations[0]).checked_sub(one.begin[0])?;
        let rows = self.image * one.image[0] + row;
        (row < one.image[0])
            .then(|| self.images.wrapping_add(rows * one.image[1] * one.channels + self.channel))
    }

    /// Computes the sums of adjacent pixels whose windows lie between the ends of a row.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn inside<const L: usize>(
        &self,
        pixel: usize,
        sums: &mut [[i32; L]; TOGETHER],
        product: impl Fn(u8, i16) -> i32,
    ) {
        let one = &self.depthwise.geometry;
        let outside = [self.point; L];
        // SAFETY: as the caller promises.
        unsafe {
            let mut own = [self.constants.add(self.channel).cast::<[i32; L]>().read_unaligned(); TOGETHER];
            let mut weights = self.weights.add(self.channel);
            for y in 0..one.window[0] {
                let (mut from, step, next) = match self.line(y) {
                    Some(line) => (
                        line.add((pixel * one.strides[1] - one.begin[1]) * one.channels),
                        one.strides[1] * one.channels,
                        one.dilations[1] * one.channels,
                    ),
                    None => (outside.as_ptr(), 0, 0),
                };
                for _ in 0..one.window[1] {
                    let factors = weights.cast::<[i16; L]>().read_unaligned();
                    for at in 0..TOGETHER {
                        let bytes = &*from.add(at * step).cast::<[u8; L]>();
                        for lane in 0..L {
                            own[at][lane] += product(bytes[lane], factors[lane]);
                        }
                    }
                    from = from.wrapping_add(next);
                    weights = weights.wrapping_add(one.channels);
                }
            }
            *sums = own;
        }
    }

    /// Computes the sums of a pixel.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn single<const L: usize>(
        &self,
        pixel: usize,
        sums: &mut [i32; L],
        product: impl Fn(u8, i16) -> i32,
    ) {
        let one = &self.depthwise.geometry;
        let outside = [self.point; L];
        // SAFETY: as the caller promises.
        unsafe {
            let mut own = self.constants.add(self.channel).cast::<[i32; L]>().read_unaligned();
            let mut weights = self.weights.add(self.channel);
            for y in 0..one.window[0] {
                let line = self.line(y);
                for x in 0..one.window[1] {
                    let column = (pixel * one.strides[1] + x * one.dilations[1]).checked_sub(one.begin[1]);
                    let from = match (line, column) {
                        (Some(line), Some(column)) if column < one.image[1] => {
                            line.add(column * one.channels)
                        }
                        _ => outside.as_ptr(),
                    };
                    let (bytes, factors) =
                        (&*from.cast::<[u8; L]>(), weights.cast::<[i16; L]>().read_unaligned());
                    for lane in 0..L {
                        own[lane] += product(bytes[lane], factors[lane]);
                    }
                    weights = weights.wrapping_add(one.channels);
                }
            }
            *sums = own;
        }
    }
}
