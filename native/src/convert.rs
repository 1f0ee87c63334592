//! `pack`, `unpack` and `reorder`: copies to another layout.
//!
//! In a layout, an offset is a sum over the dimensions, and for each dimension a sum over the digits into which its
//! blocks divide the index. Dividing each dimension at the blocks of both layouts gives loops with constant strides
//! on both sides. Elements that do not fill a block become separate regions.

use super::strided::{Copy, Loop, Region, fill, offset};
use super::{plain_contract, reference, view_contract};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::TensorType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.pack", "pack", contract, kernel),
    Lowering::new("native.unpack", "unpack", contract, kernel),
    Lowering::new("native.reorder", "reorder", contract, kernel),
];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let (source, target) = (call.inputs[0], call.output);
    let Some(regions) = regions(source, target) else {
        return reference::contract(call);
    };
    match regions.as_slice() {
        [only] if only.is_run() == Some(0) && source.bytes() == target.bytes() => Ok(view_contract(0)),
        _ => Ok(plain_contract("strided")),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let Some(regions) = regions(call.inputs[0], call.output) else {
        return reference::kernel(call);
    };
    let pads = call.output.layout.pads(&call.output.shape);
    Ok(Box::new(Convert {
        copy: Copy::new(regions, call.output.dtype.size(), call.threads)?,
        zero: if pads { call.output.bytes() } else { 0 },
    }))
}

struct Convert {
    copy: Copy,
    /// The number of bytes to zero first if the result has padding.
    zero: usize,
}

impl Kernel for Convert {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the regions were computed from the types of these buffers.
        unsafe {
            fill(args.output, &[0], self.zero, args.team);
            self.copy.run(args.inputs[0], args.output, args.team);
        }
    }
}

/// Returns the copies that together change the layout; `None` if the blocks of the layouts do not nest, or one is
/// sparse.
fn regions(source: &TensorType, target: &TensorType) -> Option<Vec<Region>> {
    if [source, target].into_iter().any(|ty| ty.layout.stored().is_some()) {
        return None;
    }
    let shape = &source.shape;
    let mut nests: Vec<(isize, isize, Vec<Loop>)> = vec![(0, 0, Vec::new())];
    for dim in 0..shape.rank() {
        let mut units = vec![1];
        for layout in [&source.layout, &target.layout] {
            let mut unit = 1;
            for &(_, size) in layout.blocks().iter().rev().filter(|block| block.0 == dim) {
                unit *= size;
                units.push(unit);
            }
        }
        units.sort_unstable();
        units.dedup();
        if units.windows(2).any(|pair| pair[1] % pair[0] != 0) {
            return None;
        }
        units.reverse();
        let from = |index| offset(&source.layout, shape, dim, index);
        let to = |index| offset(&target.layout, shape, dim, index);
        let pieces = pieces(shape[dim], &units);
        let mut next = Vec::with_capacity(nests.len() * pieces.len());
        for (first, second, loops) in &nests {
            for (base, digits) in &pieces {
                let digits =
                    digits.iter().map(|&(count, unit)| Loop { count, source: from(unit), target: to(unit) });
                next.push((
                    first + from(*base),
                    second + to(*base),
                    loops.iter().copied().chain(digits).collect(),
                ));
            }
        }
        nests = next;
    }
    Some(nests.into_iter().filter_map(|(from, to, loops)| Region::new(loops, from, to)).collect())
}

/// A first index, and the loops (count, unit) that start there.
type Piece = (usize, Vec<(usize, usize)>);

/// Divides `0..count` into loops over digits of these units (descending, each a multiple of the next).
fn pieces(count: usize, units: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut base = 0;
    for (level, &unit) in units.iter().enumerate() {
        let whole = (count - base) / unit;
        if whole > 0 {
            let mut digits = vec![(whole, unit)];
            digits.extend(units[level..].windows(2).map(|pair| (pair[0] / pair[1], pair[1])));
            pieces.push((base, digits));
        }
        base += whole * unit;
    }
    pieces
}
