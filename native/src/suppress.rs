//! `non-max-suppression`: the classes of images are divided between threads, and a box is compared with several better
//! ones at a time.
//!
//! Shares are computed in double precision as in the definition, so the same boxes are kept.

use super::args::Shared;
use super::lanes::Isa;
use super::{plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, Lowering, OpError};
use ovolo::tensor::DType;

/// The op of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering::new("native.non-max-suppression", "non-max-suppression", contract, kernel)];

/// The boxes with which a box is compared at a time.
const BLOCK: usize = 8;
/// The numbers that are kept of a box: its corners, and its area.
const NUMBERS: usize = 5;

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(suppress) = Suppress::new(call) else { return reference::contract(call) };
    let scratch = suppress.kept() + call.threads * suppress.of_thread();
    Ok(Contract { scratch, ..plain_contract("blocks") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Suppress::new(call) {
        Some(suppress) => Ok(Box::new(suppress)),
        None => reference::kernel(call),
    }
}

struct Suppress {
    images: usize,
    classes: usize,
    number: usize,
    most: usize,
    overlap: f64,
    least: f64,
    center: bool,
}

/// The boxes of a class that are kept, each number of all of them in a line of its own.
struct Kept {
    numbers: *mut f64,
    /// The length of a line, which is a multiple of [`BLOCK`].
    line: usize,
    count: usize,
}

/// Two corners, the lower coordinates first unless the model has them otherwise, and the area.
type Measured = [f64; NUMBERS];

impl Suppress {
    fn new(call: &Call<'_>) -> Option<Self> {
        let [boxes, scores] = [0, 1].map(|at| call.inputs[at]);
        let number = scores.shape[2];
        let known = boxes.dtype == DType::F32 && scores.dtype == DType::F32 && number <= u32::MAX as usize;
        known.then(|| Self {
            images: scores.shape[0],
            classes: scores.shape[1],
            number,
            most: usize::try_from(call.attrs.expect_int("most")).unwrap_or(0).min(number),
            overlap: call.attrs.expect_float("overlap"),
            least: call.attrs.expect_float("least"),
            center: call.attrs.expect_int("center") != 0,
        })
    }

    /// Returns the bytes for the numbers of the boxes of each class that are kept, after the count of these.
    fn kept(&self) -> usize {
        (self.images * self.classes * (1 + self.most) * size_of::<u32>()).next_multiple_of(ALIGN)
    }

    /// Returns the bytes of a thread: candidates, and boxes that are kept.
    fn of_thread(&self) -> usize {
        let boxes = NUMBERS * self.most.next_multiple_of(BLOCK) * size_of::<f64>();
        (self.number * size_of::<u64>()).next_multiple_of(ALIGN) + boxes.next_multiple_of(ALIGN)
    }

    /// # Safety
    /// There must be four coordinates.
    unsafe fn measure(&self, at: *const f32) -> Measured {
        // SAFETY: as the caller promises.
        let [a, b, c, d] = unsafe { at.cast::<[f32; 4]>().read_unaligned() }.map(f64::from);
        let [top, left, bottom, right] = match self.center {
            true => [b - d / 2.0, a - c / 2.0, b + d / 2.0, a + c / 2.0],
            false => [a.min(c), b.min(d), a.max(c), b.max(d)],
        };
        [top, left, bottom, right, (bottom - top) * (right - left)]
    }

    /// Chooses the boxes of one class of an image. Writes their count and then their numbers to `kept`.
    ///
    /// # Safety
    /// The operands must have the class and the image, `kept` must have room for them, and `own` must be the scratch
    /// memory of this thread.
    unsafe fn class(&self, boxes: *const f32, scores: *const f32, kept: *mut u32, own: *mut u8) {
        // SAFETY: as the caller promises; candidates are at most as many as boxes.
        unsafe {
            let candidates = own.cast::<u64>();
            let mut found = 0;
            for at in 0..self.number {
                let score = *scores.add(at);
                if f64::from(score) > self.least {
                    // The best score comes first, and of equal ones the box with the lower number.
                    let bits = score.to_bits();
                    let order = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
                    *candidates.add(found) = u64::from(!order) << 32 | at as u64;
                    found += 1;
                }
            }
            let candidates = std::slice::from_raw_parts_mut(candidates, found);
            candidates.sort_unstable();
            let numbers = own.add((self.number * size_of::<u64>()).next_multiple_of(ALIGN)).cast::<f64>();
            let mut list = Kept { numbers, line: self.most.next_multiple_of(BLOCK), count: 0 };
            for candidate in candidates.iter() {
                if list.count == self.most {
                    break;
                }
                let at = *candidate as u32;
                let own = self.measure(boxes.add(at as usize * 4));
                if !overlaps(&list, &own, self.overlap) {
                    for (k, number) in own.iter().enumerate() {
                        *numbers.add(k * list.line + list.count) = *number;
                    }
                    list.count += 1;
                    *kept.add(list.count) = at;
                }
            }
            *kept = list.count as u32;
        }
    }
}

/// Returns whether a box shares more than `most` of its union with one of the boxes that are kept.
///
/// # Safety
/// The list must have as many boxes as its count says.
unsafe fn overlaps(kept: &Kept, own: &Measured, most: f64) -> bool {
    // SAFETY: as the caller promises; the processor has the instruction set.
    unsafe {
        match Isa::running() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => overlaps_avx2(kept, own, most),
            _ => overlaps_on(kept, own, most),
        }
    }
}

/// # Safety
/// As for [`overlaps`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn overlaps_avx2(kept: &Kept, own: &Measured, most: f64) -> bool {
    // SAFETY: as the caller promises.
    unsafe { overlaps_on(kept, own, most) }
}

#[inline(always)]
unsafe fn overlaps_on(kept: &Kept, own: &Measured, most: f64) -> bool {
    for first in (0..kept.count).step_by(BLOCK) {
        let block: [[f64; BLOCK]; NUMBERS] = std::array::from_fn(|number| {
            // SAFETY: a line has room for whole blocks, and any bytes are floats.
            unsafe { *kept.numbers.add(number * kept.line + first).cast::<[f64; BLOCK]>() }
        });
        let mut within = [false; BLOCK];
        for (at, within) in within.iter_mut().enumerate() {
            let height = (own[2].min(block[2][at]) - own[0].max(block[0][at])).max(0.0);
            let width = (own[3].min(block[3][at]) - own[1].max(block[1][at])).max(0.0);
            let both = height * width;
            let either = own[4] + block[4][at] - both;
            let share = if either > 0.0 { both / either } else { 0.0 };
            *within = share <= most;
        }
        if within[..BLOCK.min(kept.count - first)].contains(&false) {
            return true;
        }
    }
    false
}

impl Kernel for Suppress {
    unsafe fn run(&self, args: &Args<'_>) {
        let (boxes, scores) = (Shared::<f32>::input(args, 0), Shared::<f32>::input(args, 1));
        let (kept, output) = (Shared::<u32>::scratch(args), Shared::<i64>::output(args));
        let threads = Shared::<u8>::new(args.scratch.wrapping_add(self.kept()));
        let lines = self.images * self.classes;
        args.team.share(args.team.threads(), lines, |thread, line| {
            let own = threads.at(thread * self.of_thread());
            // SAFETY: the line is within both operands, only this task has its place in `kept`, and each thread has
            // scratch memory of its own.
            unsafe {
                self.class(
                    boxes.at(line / self.classes * self.number * 4),
                    scores.at(line * self.number),
                    kept.at(line * (1 + self.most)),
                    own,
                );
            }
        });
        let rows = lines * self.most;
        let mut row = 0;
        // SAFETY: each class has kept at most `most` boxes, and the result has a row for each of them.
        unsafe {
            for line in 0..lines {
                let own = kept.at(line * (1 + self.most));
                for at in 0..*own as usize {
                    let of = [line / self.classes, line % self.classes, *own.add(1 + at) as usize];
                    for (k, number) in of.into_iter().enumerate() {
                        *output.at(row * 3 + k) = number as i64;
                    }
                    row += 1;
                }
            }
            std::slice::from_raw_parts_mut(output.at(row * 3), (rows - row) * 3).fill(-1);
        }
    }
}
