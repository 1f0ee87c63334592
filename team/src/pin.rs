//! Which processors a thread may run on, where the system can say and set it.

#[cfg(all(target_os = "linux", not(loom)))]
pub use linux::{allowed, pin};

#[cfg(not(all(target_os = "linux", not(loom))))]
pub use other::{allowed, pin};

#[cfg(all(target_os = "linux", not(loom)))]
mod linux {
    /// The processors that the calling thread may run on.
    pub fn allowed() -> Vec<usize> {
        // SAFETY: a set of processors is plain bits, and zeros are a value of it.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set has the size that is passed.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
            return Vec::new();
        }
        let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
        // SAFETY: the number is below the size of the set.
        (0..most).filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect()
    }

    /// Lets the calling thread run on one processor only. If the system refuses, nothing changes.
    pub fn pin(processor: usize) {
        // SAFETY: as in `allowed`.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `CPU_SET` checks the number against the size of the set, which is passed as it is.
        unsafe {
            libc::CPU_SET(processor, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod other {
    /// No processors: none is known.
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }

    /// Does nothing.
    pub fn pin(_: usize) {}
}
