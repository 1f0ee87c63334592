//! Copies outputs to the caller, where no step writes them where the caller reads them.

pub(super) use crate::plan::output::{Direct, direct, next_values};
use crate::team::Team;

/// Copies of at least this many bytes are divided between the threads. A thread alone is limited by the misses that it
/// can have at one time.
const SHARED: usize = 1 << 20;

/// Copies bytes, by all threads if there are many.
///
/// # Safety
/// `length` bytes can be read at `source` and written at `target`, and the two are apart.
pub(super) unsafe fn copy(team: &Team, source: *const u8, target: *mut u8, length: usize) {
    let part = if length < SHARED { length.max(1) } else { length.div_ceil(team.threads()) };
    let ends = Ends { source, target };
    team.run(length.div_ceil(part), |at| {
        let start = at * part;
        // SAFETY: the caller's promise, and the tasks copy different parts of it.
        unsafe { ends.copy(start, part.min(length - start)) };
    });
}

/// Where bytes come from and where they go.
struct Ends {
    source: *const u8,
    target: *mut u8,
}

// SAFETY: threads only use them for parts that are apart.
unsafe impl Sync for Ends {}

impl Ends {
    /// # Safety
    /// The bytes lie within what can be read and written, and no other thread writes them.
    unsafe fn copy(&self, start: usize, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.source.add(start), self.target.add(start), length) }
    }
}
