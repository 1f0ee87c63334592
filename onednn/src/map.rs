//! Elementwise chains: the first step is a primitive, and the others are post steps of it.

use super::step::{Chain, Ranges, binary, dense, function, offset, view, whole};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Arg, Attr, Library, PrimitiveDesc};
use ovolo::op::post;
use ovolo::op::{Lowering, OpError};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[op!("onednn.map", "map", work)];

/// Divides an elementwise chain between threads.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, y) = (call.inputs[0], call.output);
    let [step, rest @ ..] = call.attrs.post() else {
        return Err(OpError::kernel("the post chain is empty"));
    };
    if x != y {
        return Err(OpError::operand(0, x, format!(", but the result is {y}: they must have the same type")));
    }
    let data = desc::data_type(y.dtype)?;
    let two = post::is_binary(step);
    let chain = Chain { steps: rest, inputs: call.inputs, first: 1 + usize::from(two), sum: 0 };
    let threads = threads(call, 4 * y.shape.count());
    // The dimension that is divided is the outermost one in memory that has more than one index.
    let order = y.layout.order(y.shape.rank());
    let cut = order.iter().copied().find(|dim| y.shape[*dim] > 1);
    let mut work = Work::new(call.threads);
    work.in_place = vec![0];
    for thread in 0..threads {
        let mut ranges: Ranges = whole(y);
        if let Some(dim) = cut {
            ranges[dim] = part(y.shape[dim], threads, thread, y.layout.block(dim));
            if ranges[dim].is_empty() {
                continue;
            }
        } else if thread > 0 {
            continue;
        }
        if !dense(y, &ranges) {
            return Err(OpError::kernel(format!("{y} cannot be divided between threads")));
        }
        let sizes: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
        let at = offset(y, &ranges);
        let own = desc::shaped(library, &sizes, &y.layout, data)?;
        let mut args = vec![Arg::SRC, Arg::DST, Arg::SCRATCH];
        let mut places = vec![ArgPlace::Input(0, at), ArgPlace::Output(at), ArgPlace::Scratch];
        let made = if two {
            let (algorithm, negated) = binary(step)?;
            if negated {
                return Err(OpError::kernel(format!(
                    "oneDNN does not support `{}` as the first step",
                    step.op
                )));
            }
            let ty = call.inputs[1];
            let (shape, from) = view(ty, &ranges)?;
            let layout = if ty.shape.rank() == ranges.len() { ty.layout.clone() } else { Default::default() };
            let right = desc::shaped(library, &shape, &layout, data)?;
            args.push(Arg::SRC_1);
            places.push(ArgPlace::Input(1, from));
            let attr = chain.attr(library, &ranges, &mut args, &mut places)?;
            PrimitiveDesc::binary(library, algorithm, [&own, &right, &own], &attr)
        } else {
            let (algorithm, alpha, beta) = function(step)?;
            let attr: Attr = chain.attr(library, &ranges, &mut args, &mut places)?;
            PrimitiveDesc::eltwise(library, algorithm, [&own, &own], [alpha, beta], &attr)
        };
        let variant = work.variant(choose(made.map_err(OpError::backend)?, 0)?, args);
        work.run(thread, variant, places);
    }
    Ok(work)
}
