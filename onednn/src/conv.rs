//! Convolutions.
//!
//! Two features of the library are not used. Both were measured with oneDNN 3.1 (2023.1.0) in f32 on a processor with
//! AVX-512 and 2 MiB of second-level cache per core, with one thread; times are the fastest of 25 to 60 runs, taken
//! in turn with the alternative.
//!
//! - **Winograd** (`CONVOLUTION_WINOGRAD`) exists up to version 3.1, as `jit_fp32_wino_2x3` and, for `nChw16c`,
//!   `jit_wino_4x3`; version 3.2 removed it. It takes less time than the library's direct kernels on 17 of the 23
//!   shapes of 3x3 convolutions in four networks (factors 0.41 to 0.91), and more time on shapes with few channels or
//!   few pixels. But it takes weights in one format only, which is internal to the library (a descriptor without
//!   strides and blocks). No layout describes that format, so a rule could not pack the weights and a test could not
//!   compare them with a reference. Its scratch memory is up to 50 MB. The native Winograd kernels use the same
//!   layout for images and take 0.60 to 0.83 of its time on the six measured shapes that take less than a millisecond
//!   (native median against its fastest run). For five larger shapes other processes used the memory during the
//!   measurement, so their times are not usable.
//! - **A depthwise convolution as a post step of a 1x1 convolution.** Of the 16 such pairs in mobilenet_v2, one has
//!   an implementation of its own (`jit_1x1`): the first with an expansion, 16 to 96 channels at 112x112, where it
//!   takes 0.6 to 0.7 of the time (0.15 ms less). The library offers it only if the intermediate value is larger than
//!   twice the second-level cache, so it disappears as soon as two threads share the channels. All other pairs get
//!   `ref_fused_convolution`, which runs the two kernels one after the other with the whole intermediate value in
//!   scratch memory (0.9 to 1.02 of the time of two primitives, including the cost of their calls).

use super::step::{Chain, Ranges, dense, offset};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Algorithm, Arg, DataType, Library, PrimitiveDesc, Window};
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
        int("sum", "the binary step, counted from 1, whose operand's buffer the result takes; 0 for none"),
        int("implementation", "the number of the library's implementation"),
    ]
}

/// Returns the type of a convolution in any layouts. The library decides later which layouts have a kernel.
fn infer(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let layout = attrs.expect_layout("layout");
    if layout.rank().is_some_and(|rank| rank != 4) {
        return Err(OpError::attribute("layout", format!("is {layout}: it must be the layout of an image")));
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
            format!(
                "selects step `{}` with {ty}: it must select an `add` of the result's type, {result}",
                step.op
            ),
        )),
        None => Err(OpError::attribute("sum", format!("is {sum}, but the chain has no such binary step"))),
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

/// What a range of outputs reads: a range of inputs, and padding before and after it.
pub(super) struct Band {
    pub input: std::ops::Range<usize>,
    pub before: i64,
    pub after: i64,
}

impl Axis {
    /// Returns the window along the rows (`axis` 0) or the columns (1) of a call with the attributes of a convolution
    /// or a pool.
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

    /// Returns what `outputs` read; `None` if they read padding only.
    pub(super) fn band(&self, outputs: &std::ops::Range<usize>) -> Option<Band> {
        let first = signed(outputs.start * self.stride) - signed(self.before);
        let end = signed((outputs.end - 1) * self.stride + (self.kernel - 1) * self.dilation + 1)
            - signed(self.before);
        let from = first.clamp(0, signed(self.input));
        let to = if outputs.start == 0 && outputs.end == self.output {
            // A primitive for the whole axis gets all inputs, also those that no window reads.
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

/// Divides the result between threads. Returns the number of a thread with its ranges of images, channels, rows and
/// columns.
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

/// Returns the smallest number of result channels that can be computed separately, together with the inputs that they
/// read.
fn unit(call: &Call<'_>, groups: usize) -> usize {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    let block = least_common(y.layout.block(1), w.layout.block(0));
    if groups == 1 {
        return block;
    }
    // Whole groups are separate if their channels fill blocks of the operand and of the result.
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

/// What convolutions of floats and of integers do differently.
pub(super) struct Kind<'a> {
    /// The element types of the image, the weights and the result.
    pub data: [DataType; 3],
    /// Whether the third operand is a bias of the image's type.
    pub biased: bool,
    /// The steps after the convolution.
    pub chain: Chain<'a>,
    /// Selects one of the library's implementations.
    pub choose: &'a dyn Fn(PrimitiveDesc) -> Result<PrimitiveDesc, OpError>,
}

/// Describes the primitive for a part of a convolution: the sizes of what it reads and of what it writes, and the number of
/// groups.
fn describe(
    library: &'static Library,
    call: &Call<'_>,
    kind: &Kind<'_>,
    [read, written]: [Vec<usize>; 2],
    groups: usize,
    window: &Window,
    attr: &onednn_sys::Attr,
) -> Result<PrimitiveDesc, OpError> {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    let src = desc::shaped(library, &read, &x.layout, kind.data[0])?;
    let dst = desc::shaped(library, &written, &y.layout, kind.data[2])?;
    let outputs = written[1];
    let mut shape = w.shape.to_vec();
    shape[0] = outputs;
    let weights = TensorType { shape: shape.as_slice().into(), ..w.clone() };
    let weights = desc::weights(library, &weights, groups, kind.data[1])?;
    let bias = match kind.biased {
        true => Some(desc::shaped(library, &[outputs], &Default::default(), kind.data[0])?),
        false => None,
    };
    let operands = [&src, &weights, &dst];
    let direct = Algorithm::CONVOLUTION_DIRECT;
    PrimitiveDesc::convolution(library, direct, operands, bias.as_ref(), window, attr)
        .map_err(OpError::backend)
}

/// Divides a convolution of floats between threads.
fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let number = |name: &str| usize::try_from(call.attrs.expect_int(name)).unwrap_or(0);
    let index = number("implementation");
    let kind = Kind {
        data: [desc::data_type(call.inputs[0].dtype)?; 3],
        biased: true,
        chain: Chain { steps: call.attrs.post(), inputs: call.inputs, first: 3, sum: number("sum") },
        choose: &|made| choose(made, index),
    };
    divided(library, call, &kind)
}

/// Divides a convolution between threads.
pub(super) fn divided(library: &'static Library, call: &Call<'_>, kind: &Kind<'_>) -> Result<Work, OpError> {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    let groups = usize::try_from(call.attrs.expect_int("groups")).unwrap_or(0);
    let chain = &kind.chain;
    let of_groups = w.layout.order(4)[..2] == [0, 1] && w.layout.block(0) > 1 && w.layout.block(1) == 1;
    if groups == 1 && w.shape[1] == 1 && of_groups {
        // The library's primitive cache cannot tell these strides from those of `Ohwi`: it accepts them only after it
        // has made a kernel for the others. So the result would depend on earlier calls.
        return Err(OpError::kernel(format!(
            "the weights are in {}, a layout for several groups, but there is one group",
            w.layout
        )));
    }
    let axes = [0, 1].map(|axis| Axis::new(call, axis, w.shape[2 + axis]));
    let depth: usize = w.shape[1..].iter().product();
    let mut threads = threads(call, y.shape.count().saturating_mul(depth));
    if w.layout.order(4)[0] != 0 && y.layout.order(4)[1] == 1 && y.shape[0] < threads {
        threads = 1; // The weights of a part of the outputs are not contiguous.
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
            return Err(OpError::kernel("a part of the result is computed from padding only"));
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
            return Err(OpError::kernel(format!(
                "the input {x} cannot be divided between threads like the result {y}"
            )));
        }
        let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
        let first = [outputs.start, 0, 0, 0];
        let mut places = vec![
            ArgPlace::Input(0, offset(x, &input)),
            ArgPlace::Input(1, w.layout.offset(&w.shape, &first) * w.dtype.size()),
            ArgPlace::Output(offset(y, &ranges)),
            ArgPlace::Scratch,
        ];
        let mut args = vec![Arg::SRC, Arg::WEIGHTS, Arg::DST, Arg::SCRATCH];
        if kind.biased {
            args.push(Arg::BIAS);
            places.push(ArgPlace::Input(2, outputs.start * x.dtype.size()));
        }
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
                let window = Window {
                    strides: axes.map(|axis| axis.stride).to_vec(),
                    dilations: axes.map(|axis| axis.dilation).to_vec(),
                    before: vec![rows.before, columns.before],
                    after: vec![rows.after, columns.after],
                };
                let own = own.max(1).min(groups);
                let made =
                    describe(library, call, kind, [sizes(&input), sizes(&ranges)], own, &window, &attr)?;
                let variant = work.variant((kind.choose)(made)?, args);
                known.push((key, variant));
                variant
            }
        };
        work.run(thread, variant, places);
    }
    Ok(work)
}
