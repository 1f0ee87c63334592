//! Reads and sets the processors that a thread may run on, where the system supports it.

#[cfg(all(target_os = "linux", not(loom)))]
pub use linux::{Away, allowed, away_from, pin};

#[cfg(not(all(target_os = "linux", not(loom))))]
pub use other::{Away, allowed, away_from, pin};

#[cfg(all(target_os = "linux", not(loom)))]
mod linux {
    use libc::cpu_set_t;

    /// Returns the processors that the calling thread may run on; empty if the system does not tell.
    pub fn allowed() -> Vec<usize> {
        let Some(set) = affinity() else { return Vec::new() };
        let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
        // SAFETY: the number is below the size of the set.
        (0..most).filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect()
    }

    /// Restricts the calling thread to one processor. If the system refuses, nothing changes.
    pub fn pin(processor: usize) {
        // SAFETY: as in `affinity`.
        let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `CPU_SET` checks the number against the size of the set.
        unsafe { libc::CPU_SET(processor, &mut set) };
        set_affinity(&set);
    }

    /// A guard: when it is dropped, the thread that made it may run again where it could before.
    pub struct Away(cpu_set_t);

    impl Drop for Away {
        fn drop(&mut self) {
            set_affinity(&self.0);
        }
    }

    /// Keeps the calling thread off some processors, unless there is no other one that it may run on.
    pub fn away_from(processors: &[usize]) -> Option<Away> {
        let before = affinity()?;
        let mut set = before;
        for processor in processors {
            // SAFETY: `CPU_CLR` checks the number against the size of the set.
            unsafe { libc::CPU_CLR(*processor, &mut set) };
        }
        // SAFETY: both are sets.
        let [all, left] = unsafe { [libc::CPU_COUNT(&before), libc::CPU_COUNT(&set)] };
        (0 < left && left < all && set_affinity(&set)).then_some(Away(before))
    }

    fn affinity() -> Option<cpu_set_t> {
        // SAFETY: a processor set consists of plain bits, so all zeros is a valid value.
        let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the size that is passed is the size of the set.
        let code = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) };
        (code == 0).then_some(set)
    }

    /// Returns whether the system accepts the set.
    fn set_affinity(set: &cpu_set_t) -> bool {
        // SAFETY: the size that is passed is the size of the set.
        unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), set) == 0 }
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

    /// A guard that no function makes here.
    pub enum Away {}

    /// Does nothing, as `pin`.
    pub fn away_from(_: &[usize]) -> Option<Away> {
        None
    }
}
