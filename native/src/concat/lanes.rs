//! The copy of channels whose blocks are not filled: a block of the result consists of lanes of two or more blocks of
//! the operands.

use super::super::args::{Shared, part, tasks};
use ovolo::backend::{Args, Call, Kernel};
use ovolo::tensor::TensorType;
use std::marker::PhantomData;
use std::ops::Range;

/// The most pixels of a plane that are copied at a time, so that lanes of the same cache line are written soon after
/// each other.
const PIXELS: usize = 256;

/// Whether all values have the channels of each pixel in blocks of one of the usual sizes, and otherwise the default
/// order of axes.
pub(super) fn takes(call: &Call<'_>) -> bool {
    let usual = |ty: &TensorType| {
        let order = ty.layout.order(ty.shape.rank());
        matches!(ty.layout.blocks(), [(1, 8 | 16)]) && order.is_sorted() && order.len() == 4
    };
    call.attrs.expect_int("axis") == 1 && usual(call.output) && call.inputs.iter().all(|ty| usual(ty))
}

/// Lanes of an operand's block that become adjacent lanes of a block of the result.
struct Lanes {
    operand: usize,
    /// The operand's block, and its first lane.
    from: [usize; 2],
    /// The first lane in the result's block.
    to: usize,
    count: usize,
}

/// The copy of elements of the size of `T`.
struct Joined<T> {
    images: usize,
    pixels: usize,
    /// The lanes of a block.
    lanes: usize,
    /// The number of blocks of each operand.
    operands: Vec<usize>,
    /// For each block of the result, where its lanes come from. What is left over at the end is padding.
    blocks: Vec<Vec<Lanes>>,
    element: PhantomData<T>,
}

/// Returns the kernel of a call that [`takes`] accepts.
pub(super) fn kernel(call: &Call<'_>) -> Box<dyn Kernel> {
    match call.output.dtype.size() {
        1 => Box::new(Joined::<u8>::new(call)),
        2 => Box::new(Joined::<u16>::new(call)),
        4 => Box::new(Joined::<u32>::new(call)),
        8 => Box::new(Joined::<u64>::new(call)),
        _ => Box::new(Joined::<u128>::new(call)),
    }
}

impl<T: bytemuck::Pod + Send + Sync> Joined<T> {
    fn new(call: &Call<'_>) -> Self {
        let shape = &call.output.shape;
        let lanes = call.output.layout.block(1);
        let mut blocks: Vec<Vec<Lanes>> = (0..shape[1].div_ceil(lanes)).map(|_| Vec::new()).collect();
        let mut channel = 0;
        for (operand, ty) in call.inputs.iter().enumerate() {
            let mut own = 0;
            while own < ty.shape[1] {
                let (from, to) = (own % lanes, channel % lanes);
                let count = (ty.shape[1] - own).min(lanes - from).min(lanes - to);
                blocks[channel / lanes].push(Lanes { operand, from: [own / lanes, from], to, count });
                own += count;
                channel += count;
            }
        }
        Self {
            images: shape[0],
            pixels: shape[2] * shape[3],
            lanes,
            operands: call.inputs.iter().map(|ty| ty.shape[1].div_ceil(lanes)).collect(),
            blocks,
            element: PhantomData,
        }
    }

    /// Writes a range of pixels of a block of the result, of which there is one for each image and block.
    ///
    /// # Safety
    /// The buffers must have the types of the call.
    unsafe fn block(&self, inputs: &[Shared<T>], output: Shared<T>, plane: usize, pixels: Range<usize>) {
        let (image, block) = (plane / self.blocks.len(), plane % self.blocks.len());
        let to = output.at((plane * self.pixels + pixels.start) * self.lanes);
        let mut end = 0;
        for one in &self.blocks[block] {
            let plane = image * self.operands[one.operand] + one.from[0];
            let from =
                inputs[one.operand].at((plane * self.pixels + pixels.start) * self.lanes + one.from[1]);
            end = one.to + one.count;
            // SAFETY: as the caller promises; the lanes are within the blocks of both.
            unsafe { copy(from, to.wrapping_add(one.to), one.count, self.lanes, pixels.len()) };
        }
        for pixel in 0..pixels.len() {
            for lane in end..self.lanes {
                // SAFETY: as above.
                unsafe { *to.add(pixel * self.lanes + lane) = T::zeroed() };
            }
        }
    }
}

impl<T: bytemuck::Pod + Send + Sync> Kernel for Joined<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let inputs: Vec<Shared<T>> =
            (0..self.operands.len()).map(|operand| Shared::input(args, operand)).collect();
        let output = Shared::<T>::output(args);
        let chunks = self.pixels.div_ceil(PIXELS);
        let units = self.images * self.blocks.len() * chunks;
        let parts = tasks(units * PIXELS.min(self.pixels) * self.lanes, units, args.team.threads());
        args.team.run(parts, |index| {
            for unit in part(units, parts, index, 1) {
                let first = unit % chunks * PIXELS;
                let pixels = first..(first + PIXELS).min(self.pixels);
                // SAFETY: the caller promises the buffers, and only this task writes these pixels of the block.
                unsafe { self.block(&inputs, output, unit / chunks, pixels) };
            }
        });
    }
}

/// Copies `count` lanes of each of `pixels` pixels that are `lanes` elements apart.
///
/// # Safety
/// All lanes must be in bounds of both buffers, which must not overlap.
unsafe fn copy<T: bytemuck::Pod>(from: *const T, to: *mut T, count: usize, lanes: usize, pixels: usize) {
    // A copy of a number of lanes that is known to the compiler takes one or two instructions.
    macro_rules! of {
        ($($known:literal)*) => {
            match count {
                // SAFETY: as the caller promises.
                $($known => unsafe { copy_of::<T, $known>(from, to, lanes, pixels) },)*
                _ => unreachable!("a block has at most 16 lanes"),
            }
        };
    }
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

/// # Safety
/// As for [`copy`].
unsafe fn copy_of<T: bytemuck::Pod, const COUNT: usize>(
    from: *const T,
    to: *mut T,
    lanes: usize,
    pixels: usize,
) {
    for pixel in 0..pixels {
        let at = pixel * lanes;
        // SAFETY: as the caller promises.
        unsafe {
            let some = from.add(at).cast::<[T; COUNT]>().read_unaligned();
            to.add(at).cast::<[T; COUNT]>().write_unaligned(some);
        }
    }
}
