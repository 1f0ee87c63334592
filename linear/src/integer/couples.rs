//! Weights for `vpmaddubsw` whose quads are multiplied two at a time, so that two vectors of products are added in 16 bits.
//!
//! `vpmaddubsw` multiplies 32 unsigned bytes by 32 signed ones, and adds adjacent products in 16 bits. As bytes are at most 255,
//! 16 bits hold a sum of products if the positive weights add up to at most 128, and the negative ones to at least -128: we
//! call such weights *light*. With four products in a sum in place of two, 32 sums take five instructions and not six. So we
//! look for *couples* of quads (four channels of a tap, for eight outputs) that are light together. Quads of a tap are added
//! in any order, so that each may have one of many as its partner.
//!
//! Two weights of one sign may be heavy alone. For any byte `x` and weight `w`, `x w = (255 - x) (-w) + 255 w`. So the second
//! weight of each such pair is *turned*: it gets the other sign, and a mask inverts the bits of its byte. The terms `255 w`
//! are the same for all windows; they are part of what is added to the sums of the output. A quad with a mask takes one
//! instruction more. A quad that is still heavy (a signed byte cannot hold 128, so -128 is not turned) becomes two quads with
//! halves of its weights. All sums are exact.
//!
//! `couple-weights` makes this form from constant weights, once. For each eight outputs it has the sums of their weights, what
//! is added for weights that were turned, and then the taps: how many records of each [kind](Kind) a tap has, and the records.
//! A record has for each of its quads the mask, if there is one, and the weights, and then the quads' places in a pixel, in
//! bytes. What follows the last record is zero.

use super::quad::{COLUMNS, has_avx_vnni, has_vnni};
use crate::lanes::Isa;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::op::{Arity, AttrDef, Draw, Flags, Made, OpDef, OpError, Sample};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

/// The outputs whose weights lie together: half a panel.
pub(super) const OUTPUTS: usize = COLUMNS / 2;
/// The channels of a quad.
const CHANNELS: usize = 4;
/// The bytes of a vector.
const VECTOR: usize = OUTPUTS * CHANNELS;
/// The bytes of eight numbers for the outputs.
const NUMBERS: usize = OUTPUTS * size_of::<i32>();
/// The bytes before the first tap: the sums of the weights, and what is added for weights that were turned.
pub(super) const SUMS: usize = 2 * NUMBERS;
/// The bytes at the beginning of a tap: how many records of each kind there are, as numbers of 16 bits.
pub(super) const HEADER: usize = 12;
/// The most bytes of a quad: those of two records, if it was halved.
const QUAD: usize = 2 * KINDS[4].bytes();
/// The largest sum of the weights of one sign that are added in 16 bits.
const LIGHT: u8 = 128;
/// The quads that are tried as a partner of another one.
const TRIES: usize = 24;

/// A kind of records. Of the quads of a record, the first ones have a mask.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub quads: usize,
    pub masks: usize,
}

/// The kinds, in the order of their records.
pub(super) const KINDS: [Kind; 5] = [
    Kind { quads: 2, masks: 0 },
    Kind { quads: 2, masks: 1 },
    Kind { quads: 2, masks: 2 },
    Kind { quads: 1, masks: 1 },
    Kind { quads: 1, masks: 0 },
];

impl Kind {
    /// The bytes of a record.
    pub(super) const fn bytes(self) -> usize {
        (self.quads + self.masks) * VECTOR + self.quads * size_of::<u32>()
    }
}

const _: () = assert!(KINDS[3].bytes() <= QUAD && KINDS[2].bytes() <= 2 * QUAD);
const _: () = assert!(KINDS.len() * size_of::<u16>() <= HEADER);

/// Returns whether kernels multiply by couples: with AVX2 and without `vpdpbusd`.
pub(super) fn is_supported() -> bool {
    cfg!(target_arch = "x86_64") && Isa::running() >= Isa::Avx2 && !has_vnni() && !has_avx_vnni()
}

/// Returns the bytes of the weights of eight outputs.
fn bytes(taps: usize, quads: usize) -> usize {
    SUMS + taps * (HEADER + quads * QUAD)
}

/// The couples among the operands of a convolution.
pub(super) const MADE: Made = Made {
    operand: 1,
    maker: "couple-weights",
    source: |attrs, made| Some((weights(attrs, made)?, Attrs::new())),
    sample: |draw| {
        let window = [1 + draw.below(3), 1 + draw.below(3)];
        (Attrs::new().sizes("kernel", &window), drawn(draw, window))
    },
};

/// Declares the attribute by which a convolution knows its window.
pub(super) fn kernel_attr() -> AttrDef {
    AttrDef::new("kernel", AttrKind::Ints, None, "rows and columns of the window")
}

/// Returns the type of the weights of which couples were made; `None` if there are none of this type.
pub(super) fn weights(attrs: &Attrs, made: &TensorType) -> Option<TensorType> {
    let Some(Attr::Ints(window)) = attrs.get("kernel") else { return None };
    let [rows, columns] = window[..] else { return None };
    let window = [usize::try_from(rows).ok()?, usize::try_from(columns).ok()?];
    let [parts, bytes] = made.shape[..] else { return None };
    let of_tap = bytes.checked_sub(SUMS)?.checked_div(window[0].checked_mul(window[1])?)?;
    let quads = of_tap.checked_sub(HEADER)? / QUAD;
    Some(TensorType::plain(DType::I8, [OUTPUTS * parts, CHANNELS * quads, window[0], window[1]]))
}

/// Draws weights that have couples.
fn drawn(draw: &mut dyn Draw, window: [usize; 2]) -> TensorType {
    let sizes = [OUTPUTS, CHANNELS].map(|unit| unit * (1 + draw.below(3)));
    TensorType::plain(DType::I8, [sizes[0], sizes[1], window[0], window[1]])
}

/// Returns the op that makes couples. It is only evaluated for constants, as `winograd-weights` is.
pub(super) fn definition() -> OpDef {
    OpDef {
        name: "couple-weights",
        doc: "weights w[O,C,r,s] of i8 in the form of couples, whose products are added in 16 bits: u8[O/8,bytes], for O and C that are multiples of 8 and 4",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags::default(),
        infer: |_, types| {
            let w = types[0];
            let [outputs, channels, rows, columns] = w.shape[..] else {
                return Err(OpError::operand(0, w, ", not weights of four dimensions"));
            };
            if w.dtype != DType::I8 || !w.layout.is_plain() {
                return Err(OpError::operand(0, w, ", not i8 in the default layout"));
            }
            let whole = outputs % OUTPUTS + channels % CHANNELS == 0;
            if !whole || rows * columns == 0 {
                return Err(OpError::operand(
                    0,
                    w,
                    format!(
                        ": {outputs} outputs and {channels} channels are not multiples of 8 and 4, or the window is empty"
                    ),
                ));
            }
            Ok(TensorType::plain(DType::U8, [outputs / OUTPUTS, bytes(rows * columns, channels / CHANNELS)]))
        },
        eval: |_, operands, ty| {
            let w = operands[0].to_layout(&Layout::PLAIN);
            let [_, channels, rows, columns] = w.ty().shape[..] else {
                unreachable!("inference has checked it")
            };
            let (taps, size) = (rows * columns, channels * rows * columns);
            let mut result = Tensor::zeros(ty.clone());
            let parts = w.elements::<i8>().chunks_exact((OUTPUTS * size).max(1));
            for (weights, to) in parts.zip(result.elements_mut::<u8>().chunks_exact_mut(ty.shape[1])) {
                couple(
                    |output, channel, tap| weights[output * size + channel * taps + tap],
                    channels,
                    taps,
                    to,
                );
            }
            result
        },
        flops: |_, _, _| 0.0,
        sample: Some(|draw| {
            let window = [1 + draw.below(3), 1 + draw.below(3)];
            Some(Sample::new(Attrs::new(), [drawn(draw, window)]))
        }),
        lowered: None,
    }
}

/// For each pair of weights the sum of its positive weights, and minus the sum of its negative ones. Those above 255 are 255.
type Loads = [u8; VECTOR];

/// A quad of a tap, or a half of its weights.
struct Quad {
    place: u32,
    weights: [i8; VECTOR],
    mask: [u8; VECTOR],
    loads: Loads,
}

fn loads(weights: &[i8; VECTOR]) -> Loads {
    let mut loads = [0; VECTOR];
    let (positive, negative) = loads.split_at_mut(VECTOR / 2);
    for (pair, (positive, negative)) in weights.as_chunks().0.iter().zip(positive.iter_mut().zip(negative)) {
        let [one, other]: [i8; 2] = *pair;
        *positive = one.max(0).cast_unsigned() + other.max(0).cast_unsigned();
        *negative = one.min(0).unsigned_abs().saturating_add(other.min(0).unsigned_abs());
    }
    loads
}

/// Returns whether quads are light together.
fn are_light(one: &Loads, other: &Loads) -> bool {
    let sums = one.iter().zip(other).map(|(one, other)| one.saturating_add(*other));
    sums.fold(0, u8::max) <= LIGHT
}

impl Quad {
    fn new(place: u32, weights: [i8; VECTOR]) -> Self {
        Self { place, weights, mask: [0; VECTOR], loads: loads(&weights) }
    }

    fn is_light(&self) -> bool {
        are_light(&self.loads, &[0; VECTOR])
    }

    /// Turns the second weight of each pair of one sign. Adds the terms that are then missing to those of the outputs.
    fn turned(mut self, terms: &mut [i32; OUTPUTS]) -> Self {
        for at in (1..VECTOR).step_by(2) {
            let [one, other] = [self.weights[at - 1], self.weights[at]];
            let turns = (one >= 0 && other >= 0 || one <= 0 && other <= 0) && other != i8::MIN;
            if turns {
                (self.mask[at], self.weights[at]) = (u8::MAX, -other);
                terms[at / CHANNELS] += 255 * i32::from(other);
            }
        }
        self.loads = loads(&self.weights);
        self
    }
}

/// Makes the couples of eight outputs from their weights by output, channel and tap.
fn couple(weight: impl Fn(usize, usize, usize) -> i8, channels: usize, taps: usize, to: &mut [u8]) {
    let (mut totals, mut turned) = ([0_i32; OUTPUTS], [0_i32; OUTPUTS]);
    let mut end = SUMS;
    for tap in 0..taps {
        let (mut plain, mut masked) = (Vec::new(), Vec::new());
        for channel in (0..channels).step_by(CHANNELS) {
            let weights: [i8; VECTOR] =
                std::array::from_fn(|at| weight(at / CHANNELS, channel + at % CHANNELS, tap));
            for (total, weights) in totals.iter_mut().zip(weights.as_chunks::<CHANNELS>().0) {
                *total += weights.iter().map(|weight| i32::from(*weight)).sum::<i32>();
            }
            let place = u32::try_from(channel).expect("a pixel has fewer channels");
            let quad = Quad::new(place, weights);
            if quad.is_light() {
                plain.push(quad);
                continue;
            }
            let mut terms = turned;
            let quad = quad.turned(&mut terms);
            if quad.is_light() {
                masked.push(quad);
                turned = terms;
            } else {
                let half = weights.map(|weight| weight >> 1);
                let other = std::array::from_fn(|at| weights[at] - half[at]);
                plain.extend([half, other].map(|weights| Quad::new(place, weights)));
            }
        }
        end += write(&records(plain, masked), &mut to[end..]);
    }
    for (number, to) in totals.iter().chain(&turned).zip(to.as_chunks_mut().0) {
        *to = number.to_le_bytes();
    }
}

/// Removes one of the last quads of a list that is light together with this one, and returns it.
fn partner(of: &Quad, list: &mut Vec<Quad>) -> Option<Quad> {
    let found = list.iter().rev().take(TRIES).position(|other| are_light(&of.loads, &other.loads))?;
    Some(list.swap_remove(list.len() - 1 - found))
}

/// Returns the records of a tap, by their kinds.
fn records(mut plain: Vec<Quad>, mut masked: Vec<Quad>) -> [Vec<[Option<Quad>; 2]>; KINDS.len()] {
    let mut records: [Vec<[Option<Quad>; 2]>; KINDS.len()] = Default::default();
    let mut alone = Vec::new();
    // Quads with masks are the first to look for partners without one, because a couple with two masks takes longer.
    while let Some(one) = masked.pop() {
        match partner(&one, &mut plain) {
            Some(other) => records[1].push([Some(one), Some(other)]),
            None => alone.push(one),
        }
    }
    for (mut list, [couple, single]) in [(plain, [0, 4]), (alone, [2, 3])] {
        while let Some(one) = list.pop() {
            let other = partner(&one, &mut list);
            records[if other.is_some() { couple } else { single }].push([Some(one), other]);
        }
    }
    records
}

/// Writes the records of a tap, and returns their bytes.
fn write(records: &[Vec<[Option<Quad>; 2]>; KINDS.len()], to: &mut [u8]) -> usize {
    for (of_kind, to) in records.iter().zip(to.as_chunks_mut().0) {
        *to = u16::try_from(of_kind.len()).expect("a tap has fewer quads").to_le_bytes();
    }
    let mut end = HEADER;
    let mut put = |bytes: &[u8]| {
        to[end..][..bytes.len()].copy_from_slice(bytes);
        end += bytes.len();
    };
    for (kind, of_kind) in KINDS.iter().zip(records) {
        for record in of_kind {
            for (at, quad) in record.iter().flatten().enumerate() {
                if at < kind.masks {
                    put(&quad.mask);
                }
                put(&quad.weights.map(i8::cast_unsigned));
            }
            record.iter().flatten().for_each(|quad| put(&quad.place.to_le_bytes()));
        }
    }
    end
}

/// Returns whether all records of the weights of eight outputs lie in their bytes, and read no channel beyond the last one.
/// So it is for what `couple-weights` makes; but a graph in text form may have anything here.
pub(super) fn are_readable(part: &[u8], taps: usize, channels: usize) -> bool {
    let Some(mut rest) = part.get(SUMS..) else { return false };
    let mut end = 0;
    for _ in 0..taps {
        let Some((header, mut records)) = rest.split_at_checked(HEADER) else { return false };
        for (kind, count) in KINDS.iter().zip(header.as_chunks().0) {
            let bytes = usize::from(u16::from_le_bytes(*count)) * kind.bytes();
            let Some((of_kind, after)) = records.split_at_checked(bytes) else { return false };
            for record in of_kind.chunks_exact(kind.bytes()) {
                let (_, places) = record.split_at((kind.quads + kind.masks) * VECTOR);
                for place in places.as_chunks().0 {
                    end = end.max(u32::from_le_bytes(*place) as usize + CHANNELS);
                }
            }
            records = after;
        }
        rest = records;
    }
    end <= channels
}

/// Returns the weights of which couples were made. Those of parts that are [no couples](are_readable) are zero.
pub(super) fn uncoupled(attrs: &Attrs, couples: &Tensor) -> Tensor {
    let ty = weights(attrs, couples.ty()).expect("inference has checked the couples");
    let [_, channels, rows, columns] = ty.shape[..] else { unreachable!("weights have four dimensions") };
    let (taps, size) = (rows * columns, channels * rows * columns);
    let mut result = Tensor::zeros(ty);
    let parts = couples.elements::<u8>().chunks_exact(couples.ty().shape[1]);
    for (part, to) in parts.zip(result.elements_mut::<i8>().chunks_exact_mut((OUTPUTS * size).max(1))) {
        if !are_readable(part, taps, channels) {
            continue;
        }
        let mut rest = &part[SUMS..];
        for tap in 0..taps {
            let (header, mut records) = rest.split_at(HEADER);
            for (kind, count) in KINDS.iter().zip(header.as_chunks().0) {
                for _ in 0..u16::from_le_bytes(*count) {
                    let (record, after) = records.split_at(kind.bytes());
                    records = after;
                    let (vectors, places) = record.split_at((kind.quads + kind.masks) * VECTOR);
                    let mut vectors = vectors.chunks_exact(VECTOR);
                    for (at, place) in places.as_chunks().0.iter().enumerate() {
                        let mask = if at < kind.masks { vectors.next() } else { None };
                        let first = u32::from_le_bytes(*place) as usize;
                        for (lane, weight) in vectors.next().into_iter().flatten().enumerate() {
                            let turned = mask.is_some_and(|mask| mask[lane] != 0);
                            let weight = if turned { weight.wrapping_neg() } else { *weight };
                            let channel = first + lane % CHANNELS;
                            let to = &mut to[lane / CHANNELS * size + channel * taps + tap];
                            *to = to.wrapping_add(weight.cast_signed());
                        }
                    }
                }
            }
            rest = records;
        }
    }
    result
}
