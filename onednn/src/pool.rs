//! Pools.

use super::conv::{Axis, parts};
use super::step::{Ranges, dense, offset};
use super::work::{ArgPlace, Work, choose, threads};
use super::{AS_OPERAND, Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Library, PrimitiveDesc, Window};
use ovolo::op::{Lowering, OpError};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering { layouts: AS_OPERAND, ..op!("onednn.max-pool", "max-pool", work) },
    Lowering { layouts: AS_OPERAND, ..op!("onednn.avg-pool", "avg-pool", work) },
];

/// Divides a pool between threads.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, y) = (call.inputs[0], call.output);
    let kernel: Vec<usize> =
        call.attrs.expect_ints("kernel").iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
    let algorithm = match call.op.name {
        "onednn.max-pool" => Algorithm::POOLING_MAX,
        _ if call.attrs.expect_ints("ceil-extra") != [0, 0] => {
            return Err(OpError::kernel(
                "windows extend past the padding: oneDNN counts other elements for their average",
            ));
        }
        _ if call.attrs.expect_int("count-include-pad") == 1 => Algorithm::POOLING_AVG_INCLUDE_PADDING,
        _ => Algorithm::POOLING_AVG_EXCLUDE_PADDING,
    };
    let data = desc::data_type(x.dtype)?;
    let axes = [0, 1].map(|axis| Axis::new(call, axis, kernel[axis]));
    // oneDNN does not define the result of a window that reads padding only.
    for axis in axes {
        if (0..axis.output).any(|at| axis.band(&(at..at + 1)).is_none()) {
            return Err(OpError::kernel("a window reads padding only"));
        }
    }
    let mut work = Work::new(call.threads);
    let mut known: Vec<(Vec<i64>, usize)> = Vec::new();
    let window: usize = kernel.iter().product();
    let threads = threads(call, y.shape.count().saturating_mul(window));
    for (thread, ranges) in parts(y, threads, y.layout.block(1)) {
        let [Some(rows), Some(columns)] = [0, 1].map(|axis| axes[axis].band(&ranges[2 + axis])) else {
            return Err(OpError::kernel("a part of the result is computed from padding only"));
        };
        let input: Ranges =
            vec![ranges[0].clone(), ranges[1].clone(), rows.input.clone(), columns.input.clone()];
        if !dense(x, &input) {
            return Err(OpError::kernel(format!("the input {x} cannot be divided between threads")));
        }
        let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
        let padding = [rows.before, rows.after, columns.before, columns.after];
        let key: Vec<i64> = sizes(&input)
            .into_iter()
            .chain(sizes(&ranges))
            .map(|size| i64::try_from(size).unwrap_or(i64::MAX))
            .chain(padding)
            .collect();
        let variant = match known.iter().find(|(other, _)| *other == key) {
            Some((_, variant)) => *variant,
            None => {
                let src = desc::shaped(library, &sizes(&input), &x.layout, data)?;
                let dst = desc::shaped(library, &sizes(&ranges), &y.layout, data)?;
                let window = Window {
                    strides: axes.map(|axis| axis.stride).to_vec(),
                    dilations: axes.map(|axis| axis.dilation).to_vec(),
                    before: vec![rows.before, columns.before],
                    after: vec![rows.after, columns.after],
                };
                let attr = Attr::new(library).map_err(OpError::backend)?;
                let made = PrimitiveDesc::pooling(library, algorithm, [&src, &dst], &kernel, &window, &attr)
                    .map_err(OpError::backend)?;
                let variant = work.variant(choose(made, 0)?, vec![Arg::SRC, Arg::DST, Arg::SCRATCH]);
                known.push((key, variant));
                variant
            }
        };
        let places = vec![
            ArgPlace::Input(0, offset(x, &input)),
            ArgPlace::Output(offset(y, &ranges)),
            ArgPlace::Scratch,
        ];
        work.run(thread, variant, places);
    }
    Ok(work)
}
