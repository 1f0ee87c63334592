//! Convolutions.
//!
//! Two things that the library has are left out, each tried with oneDNN 3.1 (2023.1.0) in f32 on a
//! processor with AVX-512 and 2 MiB of second-level cache a core, one thread, fastest of 25 to 60 runs
//! in turn with the alternative:
//!
//! - **Winograd** (`CONVOLUTION_WINOGRAD`) exists, as `jit_fp32_wino_2x3` and `jit_wino_4x3` in
//!   `nChw16c`, up to 3.1; 3.2 has removed it. It takes less time than the library's direct kernels on
//!   17 of the 23 shapes of 3x3 convolutions in four networks (0.41 to 0.91 of it), and more on those with
//!   few channels or few pixels. But it takes weights in one format only, which the library keeps to
//!   itself (a descriptor without strides and blocks): no layout can say where they lie, so they could be
//!   neither packed by a rule nor compared with a reference, and its scratch is up to 50 MB. The native
//!   Winograd kernels have the same layout, and take 0.60 to 0.83 of its time on the six shapes tried that
//!   are below a millisecond (their median against its fastest; of five larger ones, timed while other
//!   processes used the memory, nothing can be said).
//! - **A depthwise convolution as a step of a 1x1 convolution.** Of the 16 such pairs of mobilenet_v2 one
//!   has an implementation of its own (`jit_1x1`): the first with an expansion, 16 to 96 channels at
//!   112x112, where it takes 0.6 to 0.7 of the time (0.15 ms less). It is given where the value in between
//!   is larger than twice the second-level cache, and so no longer when two threads share the channels.
//!   All others are `ref_fused_convolution`: the two kernels one after another, with the whole value in
//!   between in scratch (0.9 to 1.02 of the time of two primitives, in which their calls are counted).

use super::step::{Chain, Ranges, dense, offset};
use super::work::{Place, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Algorithm, Arg, Library, PrimitiveDesc, Window};
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::op::{AttrDef, Attributes, Form, Layouts, Lowered, Lowering, OpError, post};
use ovolo::tensor::{Layout, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    attributes: Attributes::Also(attributes),
    layouts: Layouts::Typed {
        infer,
        samples: &[
            Form::new(&["nhwc", "OIhw16i16o", "plain"], "nhwc"),
            Form::new(&["nChw16c", "OIhw16i16o", "plain"], "nChw16c"),
        ],
    },
    ..op!("onednn.conv", "conv", work)
}];

fn attributes() -> Vec<AttrDef> {
    let int = |name, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(0)), doc);
    let plain = Some(Attr::Layout(Layout::PLAIN));
    vec![
        AttrDef::new("layout", AttrKind::Layout, plain, "the layout of the result"),
        int("sum", "which binary step, counted from 1, adds to its operand where that lies; 0: none"),
        int("implementation", "which of the library's implementations"),
    ]
}

/// A convolution in any layouts: which of them have a kernel, the library says.
fn infer(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let layout = attrs.expect_layout("layout");
    if layout.rank().is_some_and(|rank| rank != 4) {
        return Err(OpError::attribute("layout", format!("is {layout}, not that of an image")));
    }
    let result = op.logical_result(attrs, types)?.with_layout(layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    let sum = attrs.expect_int("sum");
    if sum == 0 {
        return Ok(result);
    }
    let mut extras = attrs.post().iter().filter(|step| post::is_binary(step)).zip(&types[3..]);
    match usize::try_from(sum).ok().and_then(|sum| extras.nth(sum - 1)) {
        Some((step, ty)) if step.op == "add" && **ty == result => Ok(result),
        Some((step, ty)) => Err(OpError::attribute(
            "sum",
            format!("names step `{}` with {ty}: it adds an operand of the result's type, {result}", step.op),
        )),
        None => Err(OpError::attribute("sum", format!("is {sum}, and there is no such binary step"))),
    }
}

/// A window along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
}

/// What a band of outputs reads: a band of inputs, and padding before and after it.
pub(super) struct Band {
    pub input: std::ops::Range<usize>,
    pub before: i64,
    pub after: i64,
}

impl Axis {
    /// Rows (0) or columns (1) of a call with attributes as a convolution or a pool has them.
    pub(super) fn new(call: &Call<'_>, axis: usize, kernel: usize) -> Self {
        let pair = |name: &str, otherwise: usize| match call.attrs.get(name) {
            None => otherwise,
            Some(_) => usize::try_from(call.attrs.expect_ints(name)[axis]).unwrap_or(otherwise),
        };
        Self {
            input: call.inputs[0].shape[2 + axis],
            output: call.output.shape[2 + axis],
            kernel,
            stride: pair("strides", 1),
            dilation: pair("dilations", 1),
            before: pair("pads", 0),
        }
    }

    /// What some outputs read; `None` where that is padding alone.
    pub(super) fn band(&self, outputs: &std::ops::Range<usize>) -> Option<Band> {
        let first = signed(outputs.start * self.stride) - signed(self.before);
        let end = signed((outputs.end - 1) * self.stride + (self.kernel - 1) * self.dilation + 1)
            - signed(self.before);
        let from = first.clamp(0, signed(self.input));
        let to = if outputs.start == 0 && outputs.end == self.output {
            // Of the whole axis, all is given, read or not.
            signed(self.input)
        } else {
            end.clamp(0, signed(self.input))
        };
        let input = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
        (!input.is_empty()).then_some(Band { input, before: from - first, after: end - to })
    }
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The parts that threads compute: ranges of images, channels, rows and columns of the result, each
/// for the thread with its number.
pub(super) fn parts(output: &TensorType, threads: usize, unit: usize) -> Vec<(usize, Ranges)> {
    let [images, channels, rows, columns] = [0, 1, 2, 3].map(|dim| output.shape[dim]);
    let all = || vec![0..images, 0..channels, 0..rows, 0..columns];
    let order = output.layout.order(4);
    let mut parts = Vec::new();
    if threads < 2 || order[0] != 0 {
        return vec![(0, all())];
    }
    if images >= threads {
        for thread in 0..threads {
            let mut ranges = all();
            ranges[0] = part(images, threads, thread, 1);
            parts.push((thread, ranges));
        }
        return parts;
    }
    let dim = order[1];
    let unit = if dim == 1 { unit } else { 1 };
    for image in 0..images {
        for thread in 0..threads {
            let mut ranges = all();
            ranges[0] = image..image + 1;
            ranges[dim] = part(output.shape[dim], threads, thread, unit);
            if !ranges[dim].is_empty() {
                parts.push((thread, ranges));
            }
        }
    }
    parts
}

/// Channels of the result that can be computed apart from others, with the inputs that they read.
fn unit(call: &Call<'_>, groups: usize) -> usize {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    let block = least_common(y.layout.block(1), w.layout.block(0));
    if groups == 1 {
        return block;
    }
    // Whole groups, whose channels fill blocks on both sides.
    let (inputs, outputs) = (x.shape[1] / groups, y.shape[1] / groups);
    let fits = |count: &usize| {
        (count * inputs).is_multiple_of(x.layout.block(1)) && (count * outputs).is_multiple_of(block)
    };
    let count = (1..=groups).find(fits).unwrap_or(groups);
    count * outputs
}

fn least_common(a: usize, b: usize) -> usize {
    (1..=b).map(|times| a * times).find(|multiple| multiple.is_multiple_of(b)).unwrap_or(a * b)
}

/// Divides a convolution.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    let number = |name: &str| usize::try_from(call.attrs.expect_int(name)).unwrap_or(0);
    let (groups, index) = (number("groups"), number("implementation"));
    let of_groups = w.layout.order(4)[..2] == [0, 1] && w.layout.block(0) > 1 && w.layout.block(1) == 1;
    if groups == 1 && w.shape[1] == 1 && of_groups {
        // The library cannot tell these strides from those of `Ohwi`, of which its cache then decides: it takes them
        // once it has made a kernel for the others.
        return Err(OpError::kernel(format!("weights in {} are of groups, and there is one", w.layout)));
    }
    let chain = Chain { steps: call.attrs.post(), inputs: call.inputs, first: 3, sum: number("sum") };
    let data = desc::data_type(x.dtype)?;
    let axes = [0, 1].map(|axis| Axis::new(call, axis, w.shape[2 + axis]));
    let depth: usize = w.shape[1..].iter().product();
    let mut threads = threads(call, y.shape.count().saturating_mul(depth));
    if w.layout.order(4)[0] != 0 && y.layout.order(4)[1] == 1 && y.shape[0] < threads {
        threads = 1; // The weights of some outputs do not lie side by side.
    }
    let mut parts = parts(y, threads, unit(call, groups));
    if parts.iter().any(|(_, ranges)| axes[0].band(&ranges[2]).is_none()) {
        parts = self::parts(y, 1, 1);
    }
    let mut work = Work::new(call.threads);
    work.alias = chain.alias();
    let mut known: Vec<(Vec<i64>, usize)> = Vec::new();
    for (thread, ranges) in parts {
        let bands = [0, 1].map(|axis| axes[axis].band(&ranges[2 + axis]));
        let [Some(rows), Some(columns)] = bands else {
            return Err(OpError::kernel("the input is padding alone"));
        };
        let outputs = ranges[1].clone();
        let (read, own) = if groups == 1 {
            (0..x.shape[1], 1)
        } else {
            let (inputs, width) = (x.shape[1] / groups, y.shape[1] / groups);
            let count = outputs.len() / width;
            (outputs.start / width * inputs..(outputs.start / width + count) * inputs, count)
        };
        let input: Ranges = vec![ranges[0].clone(), read.clone(), rows.input.clone(), columns.input.clone()];
        if !dense(x, &input) {
            return Err(OpError::kernel(format!("the input {x} cannot be divided as the result {y} is")));
        }
        let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
        let first = [outputs.start, 0, 0, 0];
        let mut places = vec![
            Place::Input(0, offset(x, &input)),
            Place::Input(1, w.layout.offset(&w.shape, &first) * w.dtype.size()),
            Place::Input(2, outputs.start * x.dtype.size()),
            Place::Output(offset(y, &ranges)),
            Place::Scratch,
        ];
        let mut args = vec![Arg::SRC, Arg::WEIGHTS, Arg::BIAS, Arg::DST, Arg::SCRATCH];
        let attr = chain.attr(library, &ranges, &mut args, &mut places)?;
        let key: Vec<i64> = sizes(&input)
            .into_iter()
            .chain(sizes(&ranges))
            .map(signed)
            .chain([rows.before, rows.after, columns.before, columns.after])
            .collect();
        let variant = match known.iter().find(|(other, _)| *other == key) {
            Some((_, variant)) => *variant,
            None => {
                let src = desc::shaped(library, &sizes(&input), &x.layout, data)?;
                let dst = desc::shaped(library, &sizes(&ranges), &y.layout, data)?;
                let mut shape = w.shape.to_vec();
                shape[0] = outputs.len();
                let weights = TensorType { shape: shape.as_slice().into(), ..w.clone() };
                let weights = desc::weights(library, &weights, own.max(1).min(groups))?;
                let bias = desc::shaped(library, &[outputs.len()], &Default::default(), data)?;
                let window = Window {
                    strides: axes.map(|axis| axis.stride).to_vec(),
                    dilations: axes.map(|axis| axis.dilation).to_vec(),
                    before: vec![rows.before, columns.before],
                    after: vec![rows.after, columns.after],
                };
                let operands = [&src, &weights, &bias, &dst];
                let made = PrimitiveDesc::convolution(
                    library,
                    Algorithm::CONVOLUTION_DIRECT,
                    operands,
                    &window,
                    &attr,
                )
                .map_err(OpError::backend)?;
                let variant = work.variant(choose(made, index)?, args);
                known.push((key, variant));
                variant
            }
        };
        work.run(thread, variant, places);
    }
    Ok(work)
}
