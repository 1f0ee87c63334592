//! Conversions between layouts.

use super::step::{Ranges, dense, offset, whole};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Arg, Attr, Library, PrimitiveDesc};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::Layout;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    op!("onednn.pack", "pack", work),
    op!("onednn.unpack", "unpack", work),
    op!("onednn.reorder", "reorder", work),
];

/// Divides a conversion between threads, by a dimension that is outermost in both layouts if there is one.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let (x, y) = (call.inputs[0], call.output);
    let data = desc::data_type(y.dtype)?;
    let block = |dim: usize| x.layout.block(dim).max(y.layout.block(dim));
    let threads = threads(call, 4 * y.shape.count());
    let some = |dim: usize, thread: usize| {
        let mut ranges: Ranges = whole(y);
        ranges[dim] = part(y.shape[dim], threads, thread, block(dim));
        ranges
    };
    let divides = |dim: &usize| {
        let [a, b] = [x.layout.block(*dim), y.layout.block(*dim)];
        (a % b == 0 || b % a == 0)
            && y.shape[*dim].div_ceil(block(*dim)) >= threads
            && (0..threads).all(|thread| {
                let ranges = some(*dim, thread);
                dense(x, &ranges) && dense(y, &ranges)
            })
    };
    let cut = (0..y.shape.rank()).find(divides);
    let mut work = Work::new(call.threads);
    let attr = Attr::new(library).map_err(OpError::backend)?;
    for thread in 0..if cut.is_some() { threads } else { 1 } {
        let ranges = cut.map_or_else(|| whole(y), |dim| some(dim, thread));
        let sizes: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
        let src = desc::shaped(library, &sizes, &canonical(&x.layout, &sizes), data)?;
        let dst = desc::shaped(library, &sizes, &canonical(&y.layout, &sizes), data)?;
        let made = PrimitiveDesc::reorder(library, [&src, &dst], &attr).map_err(OpError::backend)?;
        let variant = work.variant(choose(made, 0)?, vec![Arg::SRC, Arg::DST, Arg::SCRATCH]);
        let places = vec![
            ArgPlace::Input(0, offset(x, &ranges)),
            ArgPlace::Output(offset(y, &ranges)),
            ArgPlace::Scratch,
        ];
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// Returns the default layout if `layout` differs from it only by dimensions of one element.
///
/// The library's primitive cache does not distinguish such layouts: it returns what it made for either of them. So
/// the implementation would depend on earlier calls.
fn canonical(layout: &Layout, sizes: &[usize]) -> Layout {
    let order = layout.order(sizes.len());
    let long = order.iter().filter(|dim| sizes[**dim] > 1);
    if layout.blocks().is_empty() && long.is_sorted() { Layout::PLAIN } else { layout.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_that_differ_only_in_dimensions_of_one_element_are_equal() {
        let canonical =
            |layout: &str, sizes: &[usize]| canonical(&layout.parse().unwrap(), sizes).to_string();
        assert_eq!(canonical("nhwc", &[1, 8, 1, 1]), "plain");
        assert_eq!(canonical("nhwc", &[1, 1, 5, 7]), "plain");
        assert_eq!(canonical("nhwc", &[1, 8, 2, 1]), "nhwc");
        assert_eq!(canonical("nChw8c", &[1, 8, 1, 1]), "nChw8c");
    }
}
