//! Transposed convolutions, which oneDNN calls deconvolutions.

use super::step::{Ranges, offset, whole};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Arg, Attr, Library, PrimitiveDesc, Window};
use ovolo::op::transposed::Axis;
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::TensorType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    layouts: Layouts::Typed {
        infer: |op, attrs, types| Ok(op.logical_result(attrs, types)?.with_layout(types[0].layout.clone())),
        samples: &[
            Form::new(&["nhwc", "ABcd16a16b", "plain"], "nhwc"),
            Form::new(&["nChw16c", "ABcd16a16b", "plain"], "nChw16c"),
        ],
    },
    ..op!("onednn.conv-transpose", "conv-transpose", work)
}];

/// Divides a transposed convolution between threads, by images, or by channels if those are outermost in memory.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
    if call.attrs.expect_int("groups") != 1 {
        return Err(OpError::kernel("only one group is supported"));
    }
    let data = desc::data_type(x.dtype)?;
    let axes = [
        Axis::new(call.attrs, 0, x.shape[2], w.shape[2])?,
        Axis::new(call.attrs, 1, x.shape[3], w.shape[3])?,
    ];
    let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let added = call.attrs.expect_ints("output-padding");
    let window = Window {
        strides: axes.map(|axis| axis.stride).to_vec(),
        dilations: axes.map(|axis| axis.dilation).to_vec(),
        before: axes.map(|axis| signed(axis.before)).to_vec(),
        after: [0, 1].map(|at| signed(axes[at].after) - added[at]).to_vec(),
    };
    let threads = threads(call, x.shape.count().saturating_mul(w.shape[1..].iter().product()));
    // The weights of some outputs are contiguous if one block holds all inputs.
    let side_by_side = w.shape[0] <= w.layout.block(0) && !w.layout.is_plain();
    let dim = if y.shape[0] >= threads {
        0
    } else if y.layout.order(4)[1] == 1 && side_by_side {
        1
    } else {
        return one(library, call, &window);
    };
    let mut work = Work::new(call.threads);
    let mut known: Vec<(usize, usize)> = Vec::new();
    let block = y.layout.block(1).max(w.layout.block(1));
    for thread in 0..threads {
        let mut ranges: Ranges = whole(y);
        ranges[dim] = part(y.shape[dim], threads, thread, if dim == 1 { block } else { 1 });
        if ranges[dim].is_empty() {
            continue;
        }
        let mut input: Ranges = whole(x);
        input[0] = ranges[0].clone();
        let outputs = ranges[1].clone();
        let size = ranges[dim].len();
        let variant = match known.iter().find(|(other, _)| *other == size) {
            Some((_, variant)) => *variant,
            None => {
                let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
                let src = desc::shaped(library, &sizes(&input), &x.layout, data)?;
                let dst = desc::shaped(library, &sizes(&ranges), &y.layout, data)?;
                let mut shape = w.shape.to_vec();
                shape[1] = outputs.len();
                let weights = TensorType { shape: shape.as_slice().into(), ..w.clone() };
                let weights = desc::transposed(library, &weights)?;
                let bias = desc::shaped(library, &[outputs.len()], &Default::default(), data)?;
                let attr = Attr::new(library).map_err(OpError::backend)?;
                let operands = [&src, &weights, &bias, &dst];
                let made = PrimitiveDesc::deconvolution(library, operands, &window, &attr)
                    .map_err(OpError::backend)?;
                let args = vec![Arg::SRC, Arg::WEIGHTS, Arg::BIAS, Arg::DST, Arg::SCRATCH];
                let variant = work.variant(choose(made, 0)?, args);
                known.push((size, variant));
                variant
            }
        };
        let first = [0, outputs.start, 0, 0];
        let places = vec![
            ArgPlace::Input(0, offset(x, &input)),
            ArgPlace::Input(1, w.layout.offset(&w.shape, &first) * w.dtype.size()),
            ArgPlace::Input(2, outputs.start * x.dtype.size()),
            ArgPlace::Output(offset(y, &ranges)),
            ArgPlace::Scratch,
        ];
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// Creates the whole work for one thread.
fn one(library: &'static Library, call: &Call<'_>, window: &Window) -> Result<Work, OpError> {
    let (x, w, b, y) = (call.inputs[0], call.inputs[1], call.inputs[2], call.output);
    let operands = [
        desc::describe(library, x)?,
        desc::transposed(library, w)?,
        desc::describe(library, b)?,
        desc::describe(library, y)?,
    ];
    let attr = Attr::new(library).map_err(OpError::backend)?;
    let made = PrimitiveDesc::deconvolution(library, operands.each_ref(), window, &attr)
        .map_err(OpError::backend)?;
    let mut work = Work::new(call.threads);
    let variant =
        work.variant(choose(made, 0)?, vec![Arg::SRC, Arg::WEIGHTS, Arg::BIAS, Arg::DST, Arg::SCRATCH]);
    let places = vec![
        ArgPlace::Input(0, 0),
        ArgPlace::Input(1, 0),
        ArgPlace::Input(2, 0),
        ArgPlace::Output(0),
        ArgPlace::Scratch,
    ];
    work.run(0, variant, places);
    Ok(work)
}
