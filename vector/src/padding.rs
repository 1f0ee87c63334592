//! The padding of blocked layouts, which every kernel must leave at zero.

use super::strided::{Copy, Loop, Region, offset};
use ovolo::backend::Args;
use ovolo::tensor::TensorType;

/// The padding of one type, to be zeroed after a kernel that has written to it.
#[derive(Debug)]
pub struct Padding(Option<Copy>);

impl Padding {
    /// Returns the padding of a type; it is empty for layouts without padding.
    pub fn new(ty: &TensorType) -> Self {
        if !ty.layout.pads(&ty.shape) {
            return Self(None);
        }
        let padded = ty.layout.padded_shape(&ty.shape);
        let mut regions = Vec::new();
        for dim in 0..ty.shape.rank() {
            for index in ty.shape[dim]..padded[dim] {
                let mut loops = Vec::new();
                for other in (0..ty.shape.rank()).filter(|&other| other != dim) {
                    let mut unit = ty.layout.block(other);
                    let mut count = padded[other] / unit;
                    let sizes =
                        ty.layout.blocks().iter().filter(|block| block.0 == other).map(|block| block.1);
                    for size in sizes.chain([1]) {
                        loops.push(Loop {
                            count,
                            source: 0,
                            target: offset(&ty.layout, &ty.shape, other, unit),
                        });
                        unit /= size;
                        count = size;
                    }
                }
                regions.extend(Region::new(loops, 0, offset(&ty.layout, &ty.shape, dim, index)));
            }
        }
        Self(Copy::new(regions, ty.dtype.size(), 1).ok())
    }

    /// Zeroes the padding of the result.
    pub fn zero(&self, args: &Args<'_>) {
        if let Some(copy) = &self.0 {
            let zero = 0_u64;
            // SAFETY: the regions are within the result's type, and they read only element 0 of the source.
            unsafe { copy.run((&raw const zero).cast(), args.output, args.team) };
        }
    }
}
