//! `native.conv-requantize` and `native.conv-requantize-coupled`: a convolution of bytes and the chain after it, from levels to
//! levels.
//!
//! The channels of a pixel are adjacent in the images and in the result. With AVX2 and more, windows are read where they
//! lie, and where the chain is a product and a sum by output, sums become levels while they are in registers; see
//! [`Tile`]. Otherwise the windows of a band of pixels are copied to be the rows of a product; those of one
//! pixel are rows already. The sums of a few rows are then still in the first-level cache when the chain makes levels of
//! them. With AMX, the products are those of [`matrix`](super::matrix), whose registers read windows [where they
//! lie](super::strips), unless too little of each is adjacent. Each group of channels has products of its own.

use super::bands::{BAND, Bands, band, tiles};
use super::chain::{AREA, Chain, EXTRAS, Place, Rows, Started};
use super::couples;
use super::direct::{Couples, Places as TapPlaces, Tile, To};
use super::geometry::Geometry;
use super::matrix::{Ahead, Begun, GRID_ROWS, Grid, Matrices, Panels, Windows};
use super::padded::{Padded, copied};
use super::pair::{PAIR_COLUMNS, PAIR_ROWS};
use super::prepared::{PreparedPair, Weights, depth, pair_columns, room, shared_room, width};
use super::quad::COLUMNS;
use super::strips::Strips;
use crate::args::{Shared, part, tasks};
use crate::{ISAS, plain_contract, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Attributes, Form, Layouts, Lowered, Lowering, OpError, Reference};
use ovolo::tensor::{DType, Layout, TensorType};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Typed {
        infer: |lowered, attrs, types| infer(lowered, attrs, types, "AcdB16a4b", true),
        samples: &[
            Form::new(&["nhwc", "AcdB16a4b", "plain", "plain", "plain", "plain"], "nhwc"),
            Form::new(&["plain", "AcdB16a4b", "plain", "plain", "plain", "plain"], "nhwc"),
        ],
    },
    instruction_sets: ISAS,
    ..Lowering::new(
        "native.conv-requantize",
        "conv-requantize",
        |call| contract_of(call, Fused::new(call)),
        |call| kernel_of(call, Fused::new(call)),
    )
};

/// The op for weights that are [couples] of quads.
pub(super) const COUPLED: Lowering = Lowering {
    doc: Some(
        "requantize(conv-integer(x, w, p, q), s, z, e..) for weights in the form of couples, which AVX2 multiplies",
    ),
    attributes: Attributes::Also(|| vec![couples::kernel_attr()]),
    layouts: Layouts::Typed {
        infer: |lowered, attrs, types| infer(lowered, attrs, types, "plain", false),
        samples: &[Form::new(&["nhwc", "plain", "plain", "plain", "plain", "plain"], "nhwc")],
    },
    makes: &[couples::MADE],
    reference: Reference::Prepared(|attrs, operands| {
        let weights = couples::uncoupled(attrs, operands[1]);
        operands
            .iter()
            .enumerate()
            .map(|(at, one)| if at == 1 { weights.clone() } else { (*one).clone() })
            .collect()
    }),
    flops: Some(coupled_flops),
    instruction_sets: ISAS,
    ..Lowering::new(
        "native.conv-requantize-coupled",
        "conv-requantize",
        |call| contract_of(call, Fused::coupled(call)),
        |call| kernel_of(call, Fused::coupled(call)),
    )
};

/// The tasks for each thread, if there are enough.
const TASKS: usize = 4;
/// Scratch memory is divided at multiples of this number of bytes.
const ALIGNMENT: usize = 64;
/// The bytes that are copied at once.
const VECTOR: usize = 32;
/// The operands before the extra operands of the chain.
const OWN: usize = 6;

/// Returns the operations of a convolution of couples, those of `conv-requantize`.
#[allow(clippy::cast_precision_loss)]
fn coupled_flops(attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let window = couples::weights(attrs, types[1]).map_or(0, |w| w.shape[1] * w.shape[2] * w.shape[3]);
    (2 * window + 5 + attrs.post().len()) as f64 * output.shape.count() as f64
}

/// Infers the type of the result, and checks the layouts. The images may be in the default one if `plain` is set.
///
/// # Errors
/// Operands in other layouts, or extra operands that differ along one axis of the images alone.
pub(super) fn infer(
    lowered: &Lowered,
    attrs: &Attrs,
    types: &[&TensorType],
    weights: &str,
    plain: bool,
) -> Result<TensorType, OpError> {
    let result = lowered.logical_result(attrs, types)?;
    let layout = |text: &str| text.parse::<Layout>().unwrap_or(Layout::PLAIN);
    let nhwc = layout("nhwc");
    let wanted = [nhwc.clone(), layout(weights), Layout::PLAIN, Layout::PLAIN, Layout::PLAIN, Layout::PLAIN];
    for (at, (ty, wanted)) in types.iter().zip(&wanted).enumerate() {
        if ty.layout != *wanted && !(plain && at == 0 && ty.layout.is_plain()) {
            return Err(OpError::operand(at, types[at], format!(", whose layout is not {wanted}")));
        }
    }
    for (at, ty) in types.iter().enumerate().skip(OWN) {
        if steps(ty, &result, &nhwc).is_none() {
            return Err(OpError::operand(
                at,
                ty,
                ", which has neither one element nor, in `nhwc`, the size of the result or of some of its axes, rows and columns together",
            ));
        }
    }
    Ok(result.with_layout(nhwc))
}

/// The distances in an extra operand between images, pixels and outputs.
struct Steps {
    image: usize,
    pixel: usize,
    output: usize,
}

/// Returns the steps of an extra operand of a result with channels innermost; `None` if it has another layout, or
/// if it differs along rows or along columns alone.
fn steps(extra: &TensorType, result: &TensorType, nhwc: &Layout) -> Option<Steps> {
    if extra.shape.count() == 1 {
        return Some(Steps { image: 0, pixel: 0, output: 0 });
    }
    if extra.layout != *nhwc || extra.shape.rank() != 4 {
        return None;
    }
    let (theirs, ours) = (&extra.shape, &result.shape);
    let step = |count: usize, whole: usize, step: usize| match count {
        1 => Some(0),
        count if count == whole => Some(step),
        _ => None,
    };
    let outputs = theirs[1];
    let (area, whole) = (theirs[2] * theirs[3], ours[2] * ours[3]);
    if area == whole && theirs[2] != ours[2] {
        return None;
    }
    Some(Steps {
        image: step(theirs[0], ours[0], area * outputs)?,
        pixel: step(area, whole, outputs)?,
        output: step(outputs, ours[1], 1)?,
    })
}

/// The extra operands of a chain on images with channels innermost.
pub(super) struct Extras(Vec<Steps>);

impl Extras {
    /// Returns `None` if an operand has none of the supported shapes.
    pub(super) fn new(chain: &Chain, call: &Call<'_>) -> Option<Self> {
        let nhwc = &call.output.layout;
        chain.types(call).iter().map(|ty| steps(ty, call.output, nhwc)).collect::<Option<_>>().map(Self)
    }

    /// Returns where the operands of a pixel and an output begin.
    pub(super) fn places(&self, image: usize, pixel: usize, output: usize) -> [Place; EXTRAS] {
        let mut places = [Place::default(); EXTRAS];
        for (place, steps) in places.iter_mut().zip(&self.0) {
            let first = image * steps.image + pixel * steps.pixel + output * steps.output;
            *place = Place { first, row: steps.pixel, column: steps.output };
        }
        places
    }
}

struct Fused {
    geometry: Geometry,
    groups: usize,
    /// The sizes of a group.
    group: Geometry,
    /// The images that windows are read from: those of the call, or a copy of them.
    source: Geometry,
    copies: bool,
    /// Whether the channels of a pixel are apart in the images.
    apart: bool,
    /// Whether windows are read where they lie.
    direct: bool,
    /// Whether matrices are multiplied.
    by_matrices: bool,
    /// If the weights are [couples], the bytes of eight outputs.
    couples: Option<usize>,
    /// How matrices read windows where they lie.
    strips: Option<Strips>,
    chain: Chain,
    extras: Extras,
    by_output: bool,
    signed: [bool; 2],
    /// The bands of pixels of an image, for windows that are not read by strips.
    bands: Bands,
    threads: usize,
}

/// The pixels whose sums are kept in the first-level cache until they become levels.
const SUMS: usize = 32;

const _: () = assert!(SUMS * PAIR_COLUMNS <= AREA && GRID_ROWS * PAIR_COLUMNS <= AREA);

impl Fused {
    fn new(call: &Call<'_>) -> Option<Self> {
        Self::of(call, call.inputs[1])
    }

    /// Returns the convolution of weights that are [couples]; `None` if the processor does not multiply by them.
    fn coupled(call: &Call<'_>) -> Option<Self> {
        let couples = call.inputs[1];
        let one = Self::of(call, &couples::weights(call.attrs, couples)?)?;
        (couples::is_supported() && one.direct).then(|| Self { couples: Some(couples.shape[1]), ..one })
    }

    fn of(call: &Call<'_>, w: &TensorType) -> Option<Self> {
        let [x, _, _, q] = call.inputs.first_chunk()?;
        let chain = Chain::new(call, 4, DType::I32)?;
        let geometry = Geometry::new(call.attrs, &x.shape, &w.shape, &call.output.shape)?;
        let groups = usize::try_from(call.attrs.expect_int("groups")).ok()?;
        let signed = [x.dtype == DType::I8, w.dtype == DType::I8];
        let apart = x.layout.is_plain();
        let group =
            Geometry { channels: geometry.channels / groups, outputs: geometry.outputs / groups, ..geometry };
        // The panels of a group are whole, and its channels are quads of their own.
        let whole = group.channels.is_multiple_of(4) && group.outputs.is_multiple_of(COLUMNS) && !apart;
        if groups > 1 && !whole {
            return None;
        }
        let padded = copied(&geometry);
        let as_given = width(&geometry) == geometry.channels && !signed[0] && !apart;
        let source = if as_given { geometry } else { padded };
        let threads = call.threads.max(1);
        // Matrices read only what is in an image.
        let inside = if padded.fits_in(&source) { source } else { padded };
        let strips = match source.is_whole() {
            true => None,
            false => Strips::new(&inside, &group, groups),
        };
        let (source, as_given) = match strips.is_some() && !padded.fits_in(&source) {
            true => (padded, false),
            false => (source, as_given),
        };
        // Windows that are copied have few pixels, to be in a cache together.
        let most = if source.is_whole() { band(group.channels) } else { BAND };
        let even = Bands::even(geometry.area(), most, threads);
        let rows = even.range(0).len();
        // Windows that are copied can be filled up.
        let fills = !source.is_whole() && strips.is_none();
        let filling = if fills { 4 * Matrices::filling(rows, depth(&group) / 4) } else { 0 };
        let group = Geometry { filling, ..group };
        let by_matrices = strips.is_some() || Matrices::new(rows, depth(&group) / 4).is_some();
        Some(Self {
            geometry,
            groups,
            group,
            source,
            copies: !as_given,
            apart,
            direct: Tile::is_supported() && !by_matrices,
            by_matrices,
            couples: None,
            extras: Extras::new(&chain, call)?,
            chain,
            by_output: q.shape.count() > 1,
            signed,
            bands: if by_matrices { even } else { Bands::new(geometry.area()) },
            strips,
            threads,
        })
    }

    fn places(&self) -> Places {
        let windows = if self.source.is_whole() { 0 } else { BAND * depth(&self.group) };
        let windows = windows.next_multiple_of(ALIGNMENT);
        let shared = if self.shares() { self.panels() * shared_room(&self.group) } else { 0 };
        let panel = if self.shares() || self.couples.is_some() {
            0
        } else {
            room(&self.group).next_multiple_of(ALIGNMENT)
        };
        // The last piece of a window may be copied as a vector.
        let copy = if self.copies { self.source.images * bytes(&self.source) + VECTOR } else { 0 };
        let copy = copy.next_multiple_of(ALIGNMENT);
        let outside = width(&self.geometry).next_multiple_of(ALIGNMENT);
        let taps = if self.direct { BAND / PAIR_ROWS * self.taps().0 * size_of::<TapPlaces>() } else { 0 };
        Places { copy, outside, shared, windows, taps, panel, of_thread: windows + taps + 2 * panel }
    }

    /// Returns how images are copied, if they are.
    fn padded(&self) -> Padded<'_> {
        Padded { from: &self.geometry, to: &self.source, apart: self.apart }
    }

    /// Returns the number of panels of all groups.
    fn panels(&self) -> usize {
        self.groups * self.group.outputs.div_ceil(COLUMNS)
    }

    /// Returns whether panels are prepared once for all bands. With `vpdpbusd` there is little to prepare, and the products of
    /// a band take longer than with matrices. Couples are prepared already.
    fn shares(&self) -> bool {
        self.couples.is_none()
            && (self.by_matrices || !Tile::has_vnni())
            && self.geometry.images * self.bands.count > 1
    }

    /// Returns the taps of a window and the quads of each. If the pixels of a row of the window are next to each other and
    /// none of them is outside of the image, the row is one tap. Couples are those of a pixel.
    fn taps(&self) -> (usize, usize) {
        let [rows, columns] = self.source.window;
        let quads = width(&self.group) / 4;
        let adjacent = self.copies && self.groups == 1 && self.source.dilations[1] == 1;
        match adjacent && self.couples.is_none() {
            true => (rows, columns * quads),
            false => (rows * columns, quads),
        }
    }
}

/// Copies a few bytes, a multiple of four.
///
/// # Safety
/// There must be as many bytes as there is room for.
#[inline(always)]
unsafe fn copy(from: *const u8, to: &mut [u8]) {
    /// Up to this number of bytes, a call takes longer than the copy.
    const FEW: usize = 32;
    // SAFETY: as the caller promises.
    unsafe {
        match to.len() {
            count if count.is_multiple_of(16) && count <= 4 * FEW => pieces::<16>(from, to),
            count if count <= FEW => pieces::<4>(from, to),
            count => std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), count),
        }
    }
}

/// Copies bytes in pieces of so many.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn pieces<const N: usize>(from: *const u8, to: &mut [u8]) {
    let (pieces, _) = to.as_chunks_mut::<N>();
    for (at, to) in pieces.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *to = unsafe { from.add(N * at).cast::<[u8; N]>().read() };
    }
}

/// Returns the bytes of an image.
fn bytes(one: &Geometry) -> usize {
    one.image[0] * one.image[1] * one.channels
}

/// The scratch memory, in bytes: the copies of all images, a pixel outside of them, and panels for all threads; then for
/// each thread the windows of a band, the places of their taps, and two prepared panels.
struct Places {
    copy: usize,
    outside: usize,
    shared: usize,
    windows: usize,
    taps: usize,
    panel: usize,
    of_thread: usize,
}

fn contract_of(call: &Call<'_>, fused: Option<Fused>) -> Result<Contract, OpError> {
    let Some(fused) = fused else { return reference::contract(call) };
    let places = fused.places();
    let implementation = match (fused.by_matrices, fused.groups > 1) {
        _ if fused.couples.is_some() => "couples",
        (true, true) => "groups of matrices",
        (true, false) => "matrices",
        (false, true) => "groups",
        (false, false) => "panels",
    };
    let scratch = places.copy + places.outside + places.shared + fused.threads * places.of_thread;
    Ok(Contract { scratch, ..plain_contract(implementation) })
}

fn kernel_of(call: &Call<'_>, fused: Option<Fused>) -> Result<Box<dyn Kernel>, OpError> {
    match fused {
        Some(fused) => Ok(Box::new(fused)),
        None => reference::kernel(call),
    }
}

impl Kernel for Fused {
    unsafe fn run(&self, args: &Args<'_>) {
        let places = self.places();
        let flip = if self.signed[0] { 128 } else { 0 };
        let operands = [0, 1, 2, 3].map(|at| Shared::<u8>::input(args, at));
        let (scratch, output) = (Shared::<u8>::scratch(args), Shared::<u8>::output(args));
        // SAFETY: the zero point has one element, and the operands are those of the call.
        let (point, started) = unsafe { (*operands[2].at(0) ^ flip, self.chain.start(args)) };
        let mut images = operands[0];
        if self.copies {
            let copy = Shared::<u8>::new(scratch.at(0));
            let rows = self.source.images * self.source.image[0];
            let parts = rows.min(TASKS * args.team.threads());
            args.team.run(parts, |index| {
                for row in part(rows, parts, index, 1) {
                    // SAFETY: only this task writes this row of the copy.
                    unsafe { self.padded().copy_row(operands[0].at(0), row, (flip, point), copy.at(0)) };
                }
            });
            images = copy;
        }
        let outside = Shared::<u8>::new(scratch.at(places.copy));
        // SAFETY: the scratch memory has room for the channels of a pixel.
        unsafe { outside.at(0).write_bytes(point, width(&self.geometry)) };
        let weights = || Weights {
            panels: operands[1].at(0),
            points: operands[3].at(0),
            by_output: self.by_output,
            signed: self.signed[1],
            image_point: i32::from(point),
        };
        // Zero points of weights add to the sums what only other products compute.
        let points = if self.by_output { self.geometry.outputs } else { 1 };
        // SAFETY: there are as many zero points.
        let has_points = || (0..points).any(|output| unsafe { weights().has_point(output) });
        let shared = Shared::<u8>::new(scratch.at(places.copy + places.outside));
        // Where panels are used as they are, another round of tasks takes longer than what each task does for its panels.
        let shares = self.shares() && !weights().needs_no_totals(&self.group);
        if shares {
            let (panels, room) = (self.panels(), shared_room(&self.group));
            let (of_group, parts) = (panels / self.groups, tasks(panels * room, panels, args.team.threads()));
            args.team.run(parts, |index| {
                for panel in part(panels, parts, index, 1) {
                    let weights = weights().of_group(&self.group, panel / of_group);
                    // SAFETY: only this task writes this panel, and the operands are those of the call.
                    unsafe { weights.share(&self.group, panel % of_group, shared.at(panel * room)) };
                }
            });
        }
        let strips = self.strips.as_ref().filter(|_| !has_points());
        let bands = strips.map_or(self.bands, |strips| strips.bands(&self.group, self.threads));
        let pairs = self.groups * self.group.outputs.div_ceil(PAIR_COLUMNS);
        // Where there are few bands, the outputs are divided as well. But each part copies the windows of its band.
        let copied = self.by_matrices && !self.source.is_whole() && strips.is_none();
        let wanted = if copied { 1 } else { TASKS } * args.team.threads();
        let parts = wanted.div_ceil(self.geometry.images * bands.count).clamp(1, pairs);
        args.team.share(self.threads, self.geometry.images * bands.count * parts, |slot, task| {
            let (band, pairs) = (task / parts, part(pairs, parts, task % parts, 1));
            let own = places.copy + places.outside + places.shared + slot * places.of_thread;
            let range = bands.range(band % bands.count);
            let (strips, pixels) = match strips {
                Some(strips) => (Some((strips, range.clone())), strips.pixels(&range)),
                None => (None, range),
            };
            let panels = own + places.windows + places.taps;
            let one = Band {
                fused: self,
                started: &started,
                images: images.at(0),
                windows: scratch.at(own),
                taps: scratch.at(own + places.windows).cast(),
                outside: outside.at(0),
                panels: [0, 1].map(|at| scratch.at(panels + at * places.panel)),
                weights: weights(),
                shared: shares.then(|| shared.at(0).cast_const()),
                point,
                output: output.at(0),
                image: band / bands.count,
                bands: bands.count,
                pixels,
                strips,
            };
            // SAFETY: only this thread uses its part of the scratch memory, and only this task writes these outputs of
            // these pixels.
            unsafe { one.run(pairs) };
        });
    }
}

/// Some adjacent pixels of an image's result.
struct Band<'a> {
    fused: &'a Fused,
    started: &'a Started<'a>,
    images: *const u8,
    windows: *mut u8,
    /// Room for the places of the taps, and a pixel outside of the images.
    taps: *mut TapPlaces,
    outside: *const u8,
    panels: [*mut u8; 2],
    weights: Weights,
    /// The panels of all groups, if they were prepared for all bands.
    shared: Option<*const u8>,
    /// What lies outside of an image.
    point: u8,
    output: *mut u8,
    image: usize,
    /// The bands of an image.
    bands: usize,
    pixels: Range<usize>,
    /// The tiles of these pixels, if there are strips.
    strips: Option<(&'a Strips, Range<usize>)>,
}

impl Band<'_> {
    /// Computes the levels of some pairs of panels. The pairs of all groups are counted together.
    ///
    /// # Safety
    /// All elements must be in bounds.
    unsafe fn run(&self, pairs: Range<usize>) {
        let one = &self.fused.source;
        let of_group = self.fused.group.outputs.div_ceil(PAIR_COLUMNS);
        // SAFETY: as the caller promises.
        unsafe {
            let image = self.images.add(self.image * bytes(one));
            if self.fused.direct {
                self.find_taps(image);
            }
            let matrices = match &self.strips {
                Some((strips, _)) => Some(strips.matrices()),
                None => Matrices::new(self.pixels.len(), depth(&self.fused.group) / 4),
            };
            let begun = matrices.filter(|_| self.fused.by_matrices).map(Matrices::begin);
            let mut pair = pairs.start;
            while pair < pairs.end {
                let group = pair / of_group;
                let end = pairs.end.min((group + 1) * of_group);
                let image = image.add(group * self.fused.group.channels);
                let mut rows = None;
                for pair in pair..end {
                    self.pair(image, &mut rows, begun.as_ref(), group, pair - group * of_group);
                }
                pair = end;
            }
        }
    }

    /// Returns the rows of the products of a group, and the distance between them; `image` is its first channel.
    unsafe fn rows(&self, image: *const u8) -> (*const u8, usize) {
        let (one, depth, filling) = (&self.fused.source, depth(&self.fused.group), self.fused.group.filling);
        // SAFETY: as the caller of `run` promises.
        unsafe {
            if one.is_whole() {
                (image.add(self.pixels.start * one.channels), one.channels)
            } else {
                let columns = one.pixels[1];
                let (mut row, mut column) = (self.pixels.start / columns, self.pixels.start % columns);
                for at in 0..self.pixels.len() {
                    let (place, to) =
                        ([row * one.strides[0], column * one.strides[1]], self.windows.add(at * depth));
                    // A copy has all pixels of all windows.
                    match self.fused.copies && one.dilations[1] == 1 && self.fused.groups == 1 {
                        true => self.gather_inside(image, place, to),
                        false => self.gather(image, place, to),
                    }
                    to.add(depth - filling).write_bytes(0, filling);
                    column += 1;
                    if column == columns {
                        (row, column) = (row + 1, 0);
                    }
                }
                (self.windows.cast_const(), depth)
            }
        }
    }

    /// Copies a window that begins at a row and a column, and lies in the image.
    unsafe fn gather_inside(&self, image: *const u8, [y, x]: [usize; 2], to: *mut u8) {
        let one = &self.fused.source;
        let (row, piece) = (one.image[1] * one.channels, one.window[1] * one.channels);
        // A whole vector is copied faster than a short piece. What it writes after the piece is replaced by the next piece or
        // by the filling.
        let more = piece <= VECTOR && piece + self.fused.group.filling >= VECTOR;
        for step in 0..one.window[0] {
            // SAFETY: the window is in the image, and there is room for it.
            unsafe {
                let from = image.add((y + step * one.dilations[0]) * row + x * one.channels);
                if more {
                    let bytes = from.cast::<[u8; VECTOR]>().read();
                    to.add(step * piece).cast::<[u8; VECTOR]>().write(bytes);
                } else {
                    copy(from, std::slice::from_raw_parts_mut(to.add(step * piece), piece));
                }
            }
        }
    }

    /// Copies a window that begins at a row and a column, counted from the padding, with the zero point where it lies
    /// outside of the image.
    unsafe fn gather(&self, image: *const u8, [y, x]: [usize; 2], to: *mut u8) {
        let one = &self.fused.source;
        let channels = width(&self.fused.group);
        let inside = |at: usize, step: usize, axis: usize| {
            (at + step * one.dilations[axis]).checked_sub(one.begin[axis]).filter(|at| *at < one.image[axis])
        };
        let adjacent = one.dilations[1] == 1 && self.fused.groups == 1;
        // The first column, if all columns are in the image.
        let whole = inside(x, one.window[1] - 1, 1).is_some();
        let first = inside(x, 0, 1).filter(|_| whole);
        // SAFETY: the window has this many elements, and the pixels that are read lie in the image.
        unsafe {
            let filled = depth(&self.fused.group) - self.fused.group.filling;
            let window = std::slice::from_raw_parts_mut(to, filled);
            for (step, line) in window.chunks_exact_mut(one.window[1] * channels).enumerate() {
                let Some(row) = inside(y, step, 0) else {
                    line.fill(self.point);
                    continue;
                };
                let row = image.add(row * one.image[1] * one.channels);
                if let Some(first) = first {
                    let from = row.add(first * one.channels);
                    if adjacent {
                        copy(from, line);
                        continue;
                    }
                    let apart = one.dilations[1] * one.channels;
                    for (step, pixel) in line.chunks_exact_mut(channels).enumerate() {
                        copy(from.add(step * apart), pixel);
                    }
                    continue;
                }
                for (step, pixel) in line.chunks_exact_mut(channels).enumerate() {
                    match inside(x, step, 1) {
                        Some(column) => copy(row.add(column * one.channels), pixel),
                        None => pixel.fill(self.point),
                    }
                }
            }
        }
    }

    /// Writes where the taps of the windows lie in an image, for all groups.
    unsafe fn find_taps(&self, image: *const u8) {
        let one = &self.fused.source;
        let (taps, _) = self.fused.taps();
        // Taps of a row that are one have the place of the first.
        let columns = taps / one.window[0];
        let row = one.image[1] * one.channels;
        if one.is_whole() {
            for (at, tile) in tiles(self.pixels.len()).enumerate() {
                let first = image.wrapping_add((self.pixels.start + tile.start) * one.channels);
                let places = std::array::from_fn(|at| first.wrapping_add(at * one.channels));
                // SAFETY: there is room for the taps of all tiles of a band.
                unsafe { self.taps.add(at).write(places) };
            }
            return;
        }
        let mut place = [self.pixels.start / one.pixels[1], self.pixels.start % one.pixels[1]];
        for (at, tile) in tiles(self.pixels.len()).enumerate() {
            // SAFETY: there is room for the taps of all tiles of a band.
            let to = unsafe { std::slice::from_raw_parts_mut(self.taps.add(at * taps), taps) };
            for at in 0..tile.len() {
                // Places before the image are greater than all places in it.
                let [y, x] =
                    [0, 1].map(|axis| (place[axis] * one.strides[axis]).wrapping_sub(one.begin[axis]));
                let first =
                    image.wrapping_add(y.wrapping_mul(row)).wrapping_add(x.wrapping_mul(one.channels));
                let mut to = to.iter_mut();
                for step in 0..one.window[0] {
                    let down = step * one.dilations[0];
                    let inside = y.wrapping_add(down) < one.image[0];
                    let first = first.wrapping_add(down * row);
                    for (step, to) in (0..columns).zip(&mut to) {
                        let right = step * one.dilations[1];
                        let inside = inside && x.wrapping_add(right) < one.image[1];
                        to[at] = if inside { first.wrapping_add(right * one.channels) } else { self.outside };
                    }
                }
                place[1] += 1;
                if place[1] == one.pixels[1] {
                    place = [place[0] + 1, 0];
                }
            }
        }
    }

    /// Multiplies the windows of the band by a pair of panels, and makes levels of the sums. The weights must have no zero
    /// points.
    unsafe fn direct(&self, prepared: &PreparedPair, output: usize, columns: usize) {
        let (weights, constants, unknown) = prepared.without_points();
        // SAFETY: the scratch memory of the panels is written again after all windows of the band.
        let rests = unsafe { prepared.rests() };
        let tile = Tile { weights, rests, unknown, ..self.tile(output, columns) };
        // SAFETY: as the caller promises.
        unsafe { self.tiles(tile, constants, None, output, columns) };
    }

    /// Multiplies the windows of the band by a pair of panels of [couples], and makes levels of the sums.
    unsafe fn coupled(&self, output: usize, columns: usize, bytes: usize) {
        let first = |panel: usize| (output + panel * COLUMNS) / couples::OUTPUTS * bytes;
        let weights = [0, 1].map(|panel| self.weights.panels.wrapping_add(first(panel)).cast());
        let (taps, quads) = self.fused.taps();
        let readable = std::array::from_fn(|part| {
            let at = output + part * couples::OUTPUTS;
            let from = self.weights.panels.wrapping_add(at / couples::OUTPUTS * bytes);
            // SAFETY: as the caller of `run` promises.
            let part = || unsafe { std::slice::from_raw_parts(from, bytes) };
            at < output + columns && couples::are_readable(part(), taps, 4 * quads)
        });
        let sizes = Couples { bytes, outputs: columns, readable };
        let tile = Tile { weights, couples: Some(sizes), ..self.tile(output, columns) };
        let (mut constants, mut points) = ([[0; COLUMNS]; 2], [[0; COLUMNS]; 2]);
        for panel in 0..tile.panels {
            let (output, columns) = (output + panel * COLUMNS, (columns - panel * COLUMNS).min(COLUMNS));
            // SAFETY: as the caller of `run` promises.
            (constants[panel], points[panel]) =
                unsafe { self.weights.of_couples(&self.fused.group, output, columns, bytes) };
        }
        let points = (points != [[0; COLUMNS]; 2]).then_some(points);
        // SAFETY: as the caller of `run` promises.
        unsafe { self.tiles(tile, constants, points, output, columns) };
    }

    /// Returns a tile of these outputs, without windows and weights.
    fn tile(&self, output: usize, columns: usize) -> Tile<'_> {
        let (_, quads) = self.fused.taps();
        Tile {
            taps: &[],
            windows: 0,
            quads,
            weights: [std::ptr::null(); 2],
            rests: [[&[]; 2]; 2],
            couples: None,
            panels: columns.div_ceil(COLUMNS),
            channel: output / self.fused.group.outputs * self.fused.group.channels,
            unknown: None,
        }
    }

    /// Multiplies the windows of the band by the weights of a tile, and makes levels of the sums. From these, the given zero
    /// points of the weights times the sums of the windows are subtracted.
    unsafe fn tiles(
        &self,
        mut tile: Tile<'_>,
        mut constants: [[i32; COLUMNS]; 2],
        points: Option<[[i32; COLUMNS]; 2]>,
        output: usize,
        columns: usize,
    ) {
        let all = &self.fused.geometry;
        let (taps, quads) = self.fused.taps();
        let mut sums = [[0; PAIR_COLUMNS]; PAIR_ROWS];
        let first =
            self.output.wrapping_add((self.image * all.area() + self.pixels.start) * all.outputs + output);
        let mut rows = Rows {
            source: sums.as_ptr().cast(),
            source_row: PAIR_COLUMNS,
            target: first,
            target_row: all.outputs,
            rows: self.pixels.len(),
            columns,
            places: self.fused.extras.places(self.image, self.pixels.start, output),
        };
        // Its operands are those of the outputs, and the same for all pixels.
        let mut bytes = if points.is_some() { None } else { self.started.bytes(&rows) };
        for (at, pixels) in tiles(self.pixels.len()).enumerate() {
            let target = first.wrapping_add(pixels.start * all.outputs);
            // SAFETY: as the caller of `run` promises; the taps were written by `find_taps`.
            unsafe {
                tile.taps = std::slice::from_raw_parts(self.taps.add(at * taps), taps);
                tile.windows = pixels.len();
                if let Some(bytes) = &mut bytes {
                    bytes.target = target;
                    tile.run(&mut constants, To::Bytes(bytes, columns));
                } else {
                    tile.run(&mut constants, To::Sums(sums.as_mut_ptr()));
                    for (window, sums) in sums.iter_mut().enumerate().take(pixels.len()) {
                        let Some(points) = &points else { break };
                        let pixel = |places: &TapPlaces| {
                            std::slice::from_raw_parts(places[window].add(tile.channel), 4 * quads)
                        };
                        let total: i32 = tile
                            .taps
                            .iter()
                            .flat_map(pixel)
                            .fold(0_i32, |sum, byte| sum.wrapping_add(i32::from(*byte)));
                        for (sum, point) in sums.iter_mut().zip(points.as_flattened()) {
                            *sum = sum.wrapping_sub(point.wrapping_mul(total));
                        }
                    }
                    (rows.target, rows.rows) = (target, pixels.len());
                    rows.places =
                        self.fused.extras.places(self.image, self.pixels.start + pixels.start, output);
                    self.started.run(&rows);
                }
            }
            tile.unknown = None;
        }
    }

    /// Returns the weights of the pair after this one, if they are read as they are given, and come from memory: where the
    /// image has few bands, weights are read about once in a run.
    fn next(&self, prepared: &PreparedPair, pair: usize) -> Option<[*const i8; 2]> {
        let fused = self.fused;
        let few = fused.geometry.images * self.bands <= 2 * fused.threads;
        let more = (pair + 2) * PAIR_COLUMNS <= fused.group.outputs;
        let (weights, ..) = prepared.without_points();
        let distance = PAIR_COLUMNS * depth(&fused.group);
        (few && more && prepared.is_given()).then(|| weights.map(|panel| panel.wrapping_add(distance)))
    }

    /// Multiplies the rows of the band by a pair of panels of a group, and makes levels of the sums.
    /// `image` is the first channel of the group in an image, and `rows` are the rows of its products once they are needed.
    unsafe fn pair(
        &self,
        image: *const u8,
        rows: &mut Option<(*const u8, usize)>,
        matrices: Option<&Begun>,
        group: usize,
        pair: usize,
    ) {
        let (all, one) = (&self.fused.geometry, &self.fused.group);
        let area = one.area();
        let columns: usize = pair_columns(one.outputs, pair).iter().sum();
        let output = group * one.outputs + pair * PAIR_COLUMNS;
        let count = self.pixels.len();
        // SAFETY: as the caller of `run` promises.
        unsafe {
            if let Some(bytes) = self.fused.couples {
                return self.coupled(output, columns, bytes);
            }
            let mut prepared = match self.shared {
                Some(panels) => {
                    let first = group * one.outputs.div_ceil(COLUMNS) + pair * (PAIR_COLUMNS / COLUMNS);
                    PreparedPair::shared(one, pair, panels.add(first * shared_room(one)))
                }
                None => {
                    self.weights.of_group(one, group).pair(one, pair, self.fused.by_matrices, self.panels)
                }
            };
            if self.fused.direct && !prepared.has_points() {
                return self.direct(&prepared, output, columns);
            }
            let levels = |source: *const i32, pixels: Range<usize>| {
                let pixel = pixels.start;
                Rows {
                    source: source.cast(),
                    source_row: PAIR_COLUMNS,
                    target: self.output.wrapping_add((self.image * area + pixel) * all.outputs + output),
                    target_row: all.outputs,
                    rows: pixels.len(),
                    columns,
                    places: self.fused.extras.places(self.image, pixel, output),
                }
            };
            let inside = |part: Range<usize>| self.pixels.start + part.start..self.pixels.start + part.end;
            let matrices = matrices.filter(|_| !prepared.has_points());
            if let Some(matrices) = matrices {
                let (weights, constants, _) = prepared.without_points();
                let next = self.next(&prepared, pair);
                let mut sums = MaybeUninit::<Grid>::uninit();
                // The operands of the steps are mostly those of the outputs, and the same for all pixels.
                let mut bytes = self.started.bytes(&levels(std::ptr::null(), 0..0));
                let mut write = |source: *const i32, pixels: Range<usize>| {
                    let Some(bytes) = &mut bytes else { return self.started.run(&levels(source, pixels)) };
                    bytes.source = source;
                    bytes.target =
                        self.output.wrapping_add((self.image * area + pixels.start) * all.outputs + output);
                    bytes.rows = pixels.len();
                    let done = bytes.write(columns);
                    if done < columns {
                        self.started.finish(&levels(source, pixels), done);
                    }
                };
                let products =
                    |number: usize, parts: usize, windows: &Windows<'_>, to: &mut MaybeUninit<Grid>| {
                        let ahead = next.map(|next| Ahead::new(next, number, parts));
                        let both = columns > COLUMNS;
                        let panels = Panels { weights, constants: constants.each_ref(), both, ahead };
                        matrices.products(windows, &panels, to.as_mut_ptr().cast());
                    };
                if let Some((strips, tiles)) = &self.strips {
                    let parts = strips.parts(tiles);
                    let count = parts.len();
                    for (number, part) in parts.enumerate() {
                        products(number, count, &strips.windows(image, &part), &mut sums);
                        for (row, pixels) in strips.sums(&part) {
                            write(sums.as_ptr().cast::<i32>().add(row * PAIR_COLUMNS), pixels);
                        }
                    }
                } else {
                    let (rows, stride) = *rows.get_or_insert_with(|| self.rows(image));
                    let count = matrices.parts().count();
                    for (number, part) in matrices.parts().enumerate() {
                        let windows = matrices.rows(rows.add(part.start * stride), stride, part.len());
                        products(number, count, &windows, &mut sums);
                        write(sums.as_ptr().cast(), inside(part));
                    }
                }
                return;
            }
            let (rows, stride) = *rows.get_or_insert_with(|| self.rows(image));
            let mut sums = [[0; PAIR_COLUMNS]; SUMS];
            for start in (0..count).step_by(SUMS) {
                let sums = &mut sums[..SUMS.min(count - start)];
                for tile in tiles(sums.len()) {
                    let from = rows.add((start + tile.start) * stride);
                    prepared.products(from, stride, tile.len(), &mut sums[tile]);
                }
                self.started.run(&levels(sums.as_ptr().cast(), inside(start..start + sums.len())));
            }
        }
    }
}
