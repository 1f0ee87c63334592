//! Maxima of windows of bytes.

use super::Pool;
use crate::args::{Buffers, tasks};
use crate::lanes::Isa;
use ovolo::backend::{Args, Kernel};

/// A pool of maxima of bytes, with a sign or without.
pub(super) struct Bytes {
    pub pool: Pool,
    pub signed: bool,
}

impl Kernel for Bytes {
    unsafe fn run(&self, args: &Args<'_>) {
        let pool = &self.pool;
        let ([height, width], [oh, ow]) = (pool.input, pool.output);
        let total = pool.planes * oh;
        let work = total * ow * pool.lanes * pool.kernel[0] * pool.kernel[1] / 16;
        let parts = tasks(work, total, args.team.threads());
        let buffers = Buffers::new(args);
        args.team.run(parts, |part| {
            let args = buffers.args();
            for index in total * part / parts..total * (part + 1) / parts {
                let plane = height * width * pool.lanes;
                let x = args.inputs[0].cast::<u8>().wrapping_add(index / oh * plane);
                let y = args.output.cast::<u8>().wrapping_add(index * ow * pool.lanes);
                // SAFETY: the plane and the row have these elements, and only this task writes the row.
                unsafe {
                    let x = std::slice::from_raw_parts(x, plane);
                    let y = std::slice::from_raw_parts_mut(y, ow * pool.lanes);
                    // Adding 128 makes a sign of the highest bit, and keeps the order.
                    row(pool, x, y, index % oh, if self.signed { 128 } else { 0 });
                }
            }
        });
    }
}

/// Writes a row of maxima.
///
/// # Safety
/// The slices must be a plane and a row of the pool.
unsafe fn row(pool: &Pool, x: &[u8], y: &mut [u8], row: usize, flip: u8) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(pool: &Pool, x: &[u8], y: &mut [u8], row: usize, flip: u8) {
        body(pool, x, y, row, flip);
    }
    #[cfg(target_arch = "x86_64")]
    if Isa::running() >= Isa::Avx2 {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2(pool, x, y, row, flip) };
    }
    body(pool, x, y, row, flip);
}

#[inline(always)]
fn body(pool: &Pool, x: &[u8], y: &mut [u8], row: usize, flip: u8) {
    let (lanes, width) = (pool.lanes, pool.input[1]);
    let down = &pool.windows[0][row];
    for (across, to) in pool.windows[1].iter().zip(y.chunks_exact_mut(lanes)) {
        let window = Window {
            from: &x[(down.first * width + across.first) * lanes..],
            taken: [down.taken, across.taken],
            apart: [down.step * width * lanes, across.step * lanes],
        };
        let mut lane = 0;
        /// The maxima of a window are in registers until all its elements are taken.
        macro_rules! pieces {
            ($bytes:literal) => {
                while lanes - lane >= $bytes {
                    window.maxima::<$bytes>(lane, flip, &mut to[lane..]);
                    lane += $bytes;
                }
            };
        }
        pieces!(64);
        pieces!(16);
        pieces!(1);
    }
}

/// The elements of a window.
struct Window<'a> {
    /// The input from the first element on.
    from: &'a [u8],
    /// Rows and columns.
    taken: [usize; 2],
    /// The bytes from a row to the next, and from a column to the next.
    apart: [usize; 2],
}

impl Window<'_> {
    /// Writes the maxima of some lanes.
    #[inline(always)]
    fn maxima<const N: usize>(&self, lane: usize, flip: u8, to: &mut [u8]) {
        let mut maxima = [0; N];
        for row in 0..self.taken[0] {
            for column in 0..self.taken[1] {
                let from = &self.from[row * self.apart[0] + column * self.apart[1] + lane..][..N];
                for (most, from) in maxima.iter_mut().zip(from) {
                    *most = (*most).max(*from ^ flip);
                }
            }
        }
        to[..N].iter_mut().zip(maxima).for_each(|(to, most)| *to = most ^ flip);
    }
}
