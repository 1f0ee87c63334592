//! Reads and sets the processors that a thread may run on, where the system supports it.

#[cfg(all(target_os = "linux", not(loom)))]
pub use linux::{allowed, pin};

#[cfg(not(all(target_os = "linux", not(loom))))]
pub use other::{allowed, pin};

#[cfg(all(target_os = "linux", not(loom)))]
mod linux {
    /// Returns the processors that the calling thread may run on; empty if the system does not tell.
    pub fn allowed() -> Vec<usize> {
        // SAFETY: a processor set consists of plain bits, so all zeros is a valid value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the size that is passed is the size of the set.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
            return Vec::new();
        }
        let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
        // SAFETY: the number is below the size of the set.
        (0..most).filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect()
    }

    /// Restricts the calling thread to one processor. If the system refuses, nothing changes.
    pub fn pin(processor: usize) {
        // SAFETY: as in `allowed`.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `CPU_SET` checks the number against the size of the set, and the size that is passed is that of the
        // set.
        unsafe {
            libc::CPU_SET(processor, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod other {
    /// Returns no processors, because they are not known on this system.
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }

    /// Does nothing: this system has no such setting.
    pub fn pin(_: usize) {}
}
