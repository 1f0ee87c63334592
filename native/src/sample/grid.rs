//! `grid-sample`: for some points at a time, the pixels that count and their weights, and then all channels.

mod axis;

use self::axis::GridAxis;
use super::super::args::{Shared, part, tasks};
use super::super::lanes::Isa;
use super::super::{ISAS, plain_contract, reference};
use super::{Coordinates, Float, takes};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

pub(super) const OP: Lowering = Lowering {
    instruction_sets: ISAS,
    ..Lowering::new("native.grid-sample", "grid-sample", contract, kernel)
};

/// The points whose pixels are found at a time.
const POINTS: usize = 64;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let scratch = match call.output.dtype {
        DType::F32 => Grid::<f32>::new(call).map(|grid| grid.of_thread()),
        _ => Grid::<f64>::new(call).map(|grid| grid.of_thread()),
    };
    let Some(scratch) = scratch else { return reference::contract(call) };
    Ok(Contract { scratch: call.threads * scratch, ..plain_contract("points") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F32 => match Grid::<f32>::new(call) {
            Some(grid) => Box::new(grid),
            None => return reference::kernel(call),
        },
        _ => match Grid::<f64>::new(call) {
            Some(grid) => Box::new(grid),
            None => return reference::kernel(call),
        },
    })
}

struct Grid<T> {
    axes: Vec<GridAxis>,
    space: Vec<usize>,
    batch: usize,
    channels: usize,
    points: usize,
    coordinates: DType,
    element: PhantomData<T>,
}

impl<T: Float> Grid<T> {
    fn new(call: &Call<'_>) -> Option<Self> {
        let (x, grid) = (call.inputs[0], call.inputs[1]);
        let space = x.shape[2..].to_vec();
        let small = space.iter().product::<usize>() <= u32::MAX as usize;
        (takes(x.dtype) && takes(grid.dtype) && small).then(|| Self {
            axes: space.iter().map(|size| GridAxis::new(call.attrs, *size)).collect(),
            space,
            batch: x.shape[0],
            channels: x.shape[1],
            points: call.output.shape[2..].iter().product(),
            coordinates: grid.dtype,
            element: PhantomData,
        })
    }

    /// Returns the pixels of a point.
    fn taps(&self) -> usize {
        self.axes.iter().map(GridAxis::count).product()
    }

    /// Returns the bytes of the indices of a thread, and those of its indices and weights.
    fn indices(&self) -> usize {
        (self.taps() * POINTS * size_of::<u32>()).next_multiple_of(ALIGN)
    }

    fn of_thread(&self) -> usize {
        self.indices() + (self.taps() * POINTS * size_of::<T>()).next_multiple_of(ALIGN)
    }

    /// Finds the pixels and weights of a point, which begin at `index` and `weight` and are [`POINTS`] apart.
    ///
    /// # Safety
    /// The grid must have the point, and there must be room for all its pixels.
    unsafe fn find(&self, grid: Coordinates, point: usize, index: *mut u32, weight: *mut T) {
        // The product over the axes is made in place: first one pixel, then those of each further axis for each of them.
        // SAFETY: as the caller promises; no product has more pixels than that of all axes.
        unsafe {
            (*index, *weight) = (0, T::from_f64(1.0));
            let mut found = 1;
            for (at, axis) in self.axes.iter().enumerate() {
                // The coordinate of the last axis comes first.
                let taps = axis.taps(grid.get((point + 1) * self.axes.len() - 1 - at));
                // From the last one, so that nothing is overwritten before it is read.
                for old in (0..found).rev() {
                    let (base, share) = (*index.add(old * POINTS), *weight.add(old * POINTS));
                    for (new, (pixel, more)) in taps.iter().enumerate().rev() {
                        // A pixel that does not count has no weight, and the place of one that exists.
                        let share = if pixel.is_some() { share * T::from_f64(*more) } else { T::ZERO };
                        let place = base * self.space[at] as u32 + pixel.unwrap_or(0) as u32;
                        let to = (old * taps.len() + new) * POINTS;
                        (*index.add(to), *weight.add(to)) = (place, share);
                    }
                }
                found *= taps.len();
            }
        }
    }
}

/// The pixels of some points: indices and weights of the first pixel of each point, then those of the second, and so on.
struct Found<T> {
    taps: usize,
    index: *const u32,
    weight: *const T,
}

/// Computes an element for each of `count` points of a plane.
///
/// # Safety
/// The plane must have these pixels, and there must be room for the results.
unsafe fn plane<T: Float>(found: &Found<T>, image: *const T, to: *mut T, count: usize) {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => plane_avx512(found, image, to, count),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => plane_avx2(found, image, to, count),
            _ => plane_on(found, image, to, count),
        }
    }
}

/// # Safety
/// As for [`plane`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn plane_avx2<T: Float>(found: &Found<T>, image: *const T, to: *mut T, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { plane_on(found, image, to, count) }
}

/// # Safety
/// As for [`plane`]; the processor must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
unsafe fn plane_avx512<T: Float>(found: &Found<T>, image: *const T, to: *mut T, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { plane_on(found, image, to, count) }
}

#[inline(always)]
unsafe fn plane_on<T: Float>(found: &Found<T>, image: *const T, to: *mut T, count: usize) {
    let mut sums = [T::ZERO; POINTS];
    // SAFETY: all indices are of pixels of the plane, and there are as many sums as points.
    unsafe {
        for tap in 0..found.taps {
            let index = &*found.index.add(tap * POINTS).cast::<[u32; POINTS]>();
            let weight = &*found.weight.add(tap * POINTS).cast::<[T; POINTS]>();
            for at in 0..POINTS {
                let value = *image.add(index[at] as usize) * weight[at];
                // Without a weight, not even an infinity counts.
                sums[at] = sums[at] + if weight[at] == T::ZERO { T::ZERO } else { value };
            }
        }
        std::ptr::copy_nonoverlapping(sums.as_ptr(), to, count);
    }
}

impl<T: Float> Kernel for Grid<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, output) = (Shared::<T>::input(args, 0), Shared::<T>::output(args));
        let grid = Coordinates::new(Shared::input(args, 1), self.coordinates);
        let (pixels, taps) = (self.space.iter().product::<usize>(), self.taps());
        let elements = self.batch * self.channels * self.points;
        if pixels == 0 {
            // SAFETY: the result has these elements, and zero bytes are the number zero.
            unsafe { std::ptr::write_bytes(output.at(0), 0, elements) };
            return;
        }
        let scratch = Shared::<u8>::scratch(args);
        let blocks = self.points.div_ceil(POINTS);
        let parts = tasks(elements * taps, self.batch * blocks, args.team.threads());
        args.team.share(args.team.threads(), parts, |thread, index| {
            let own = scratch.at(thread * self.of_thread());
            let (indices, weights) = (own.cast::<u32>(), own.wrapping_add(self.indices()).cast::<T>());
            for block in part(self.batch * blocks, parts, index, 1) {
                let (batch, first) = (block / blocks, block % blocks * POINTS);
                let count = POINTS.min(self.points - first);
                // SAFETY: the points are within the grid and the result, only this task has them, and the thread's
                // scratch memory has room for their pixels.
                unsafe {
                    for at in 0..count {
                        let point = batch * self.points + first + at;
                        self.find(grid, point, indices.add(at), weights.add(at));
                    }
                    // Points past the end read the first pixel, and have no weight.
                    for (tap, at) in (0..taps).flat_map(|tap| (count..POINTS).map(move |at| (tap, at))) {
                        *indices.add(tap * POINTS + at) = 0;
                        *weights.add(tap * POINTS + at) = T::ZERO;
                    }
                    let found = Found { taps, index: indices, weight: weights };
                    for channel in batch * self.channels..(batch + 1) * self.channels {
                        let to = output.at(channel * self.points + first);
                        plane(&found, x.at(channel * pixels), to, count);
                    }
                }
            }
        });
    }
}
