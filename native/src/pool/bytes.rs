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
    let down = pool.windows[0][row];
    for (across, to) in pool.windows[1].iter().zip(y.chunks_exact_mut(lanes)) {
        to.fill(0);
        for r in 0..down.taken {
            let line = (down.first + r * down.step) * width + across.first;
            for tap in 0..across.taken {
                let from = &x[(line + tap * across.step) * lanes..][..lanes];
                for (to, from) in to.iter_mut().zip(from) {
                    *to = (*to).max(*from ^ flip);
                }
            }
        }
        to.iter_mut().for_each(|to| *to ^= flip);
    }
}
