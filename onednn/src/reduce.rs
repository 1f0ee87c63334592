//! Reductions, divided between threads by the outermost dimension if it is not reduced.

use super::step::{Ranges, dense, offset, whole};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{AS_OPERAND, Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Library, PrimitiveDesc};
use ovolo::op::{Lowering, OpError, image};
use ovolo::tensor::TensorType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    op!("onednn.reduce-sum", "reduce-sum", work),
    Lowering {
        layouts: AS_OPERAND,
        check: Some(image::reduces_pixels),
        ..op!("onednn.reduce-mean", "reduce-mean", work)
    },
    op!("onednn.reduce-max", "reduce-max", work),
    op!("onednn.reduce-min", "reduce-min", work),
    op!("onednn.reduce-prod", "reduce-prod", work),
];

/// Divides a reduction between threads.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let x = call.inputs[0];
    let axes: Vec<usize> =
        call.attrs.expect_ints("axes").iter().filter_map(|axis| usize::try_from(*axis).ok()).collect();
    if axes.is_empty() {
        return Err(OpError::kernel("no axis is reduced"));
    }
    let algorithm = match call.op.name {
        "onednn.reduce-sum" => Algorithm::REDUCTION_SUM,
        "onednn.reduce-mean" => Algorithm::REDUCTION_MEAN,
        "onednn.reduce-max" => Algorithm::REDUCTION_MAX,
        "onednn.reduce-min" => Algorithm::REDUCTION_MIN,
        _ => Algorithm::REDUCTION_MUL,
    };
    // In oneDNN the result keeps the reduced axes, with size 1.
    let kept: Vec<usize> =
        x.shape.iter().enumerate().map(|(dim, size)| if axes.contains(&dim) { 1 } else { *size }).collect();
    let y = TensorType { shape: kept.as_slice().into(), layout: x.layout.clone(), ..call.output.clone() };
    let data = desc::data_type(x.dtype)?;
    let cut = x.layout.order(x.shape.rank()).into_iter().find(|dim| x.shape[*dim] > 1);
    let cut = cut.filter(|dim| !axes.contains(dim));
    let threads = if cut.is_some() { threads(call, 4 * x.shape.count()) } else { 1 };
    let mut work = Work::new(call.threads);
    let attr = Attr::new(library).map_err(OpError::backend)?;
    for thread in 0..threads {
        let mut ranges: Ranges = whole(x);
        if let Some(dim) = cut {
            ranges[dim] = part(x.shape[dim], threads, thread, x.layout.block(dim));
            if ranges[dim].is_empty() {
                continue;
            }
        }
        let own: Ranges = ranges
            .iter()
            .enumerate()
            .map(|(dim, range)| if axes.contains(&dim) { 0..1 } else { range.clone() })
            .collect();
        if !dense(x, &ranges) || !dense(&y, &own) {
            return Err(OpError::kernel(format!("{x} cannot be divided between threads")));
        }
        let sizes = |ranges: &Ranges| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
        let src = desc::shaped(library, &sizes(&ranges), &x.layout, data)?;
        let dst = desc::shaped(library, &sizes(&own), &x.layout, data)?;
        let made =
            PrimitiveDesc::reduction(library, algorithm, [&src, &dst], &attr).map_err(OpError::backend)?;
        let variant = work.variant(choose(made, 0)?, vec![Arg::SRC, Arg::DST, Arg::SCRATCH]);
        let places = vec![
            ArgPlace::Input(0, offset(x, &ranges)),
            ArgPlace::Output(offset(&y, &own)),
            ArgPlace::Scratch,
        ];
        work.run(thread, variant, places);
    }
    Ok(work)
}
