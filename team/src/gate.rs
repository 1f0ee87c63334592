//! The gate between the caller and the workers. One atomic number holds whether a job is open, how many workers are
//! at it, and how many workers sleep.
//!
//! All changes are read-modify-write operations on this one number, so all threads agree on their order. A worker
//! passes the gate only while it is open. A job is over when the gate is shut and the last worker has left. A worker
//! falls asleep only if no job was opened in the meantime: either the caller that opens the gate sees the sleeping
//! worker and wakes it, or the worker sees the job.

use crate::backoff::Backoff;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::thread;

/// Adds one worker that has passed the gate. The lowest bits count these workers.
const WORKER: u64 = 1;
/// Adds one sleeping worker. The bits above count these workers.
const SLEEPER: u64 = 1 << 16;
/// The bit that is set while the gate is open.
const OPEN: u64 = 1 << 32;
/// The bit that is set when the team ends.
const STOP: u64 = 1 << 33;
/// Adds one to the number of the current job, which has all remaining bits.
const JOB: u64 = 1 << 34;

const WORKERS: u64 = SLEEPER - WORKER;
const SLEEPERS: u64 = OPEN - SLEEPER;
const NUMBER: u64 = !(JOB - 1);

/// The largest number of workers that the gate can count.
pub const MOST_WORKERS: usize = WORKERS as usize;

/// The gate of a team.
pub struct Gate {
    state: AtomicU64,
    /// For each worker, whether it sleeps or is about to sleep.
    asleep: Vec<AtomicBool>,
}

impl Gate {
    /// Returns a shut gate for `workers` workers.
    pub fn new(workers: usize) -> Self {
        let asleep = (0..workers).map(|_| AtomicBool::new(false)).collect();
        Self { state: AtomicU64::new(0), asleep }
    }

    /// Opens the gate for a new job, and calls `wake` for every sleeping worker. Workers that pass the gate see
    /// everything that the caller has written before. The gate must be shut, and only one thread may open it.
    pub fn open(&self, wake: impl Fn(usize)) {
        let before = self.state.fetch_add(JOB + OPEN, Ordering::AcqRel);
        if before & SLEEPERS != 0 {
            for (worker, asleep) in self.asleep.iter().enumerate() {
                if asleep.load(Ordering::Relaxed) {
                    wake(worker);
                }
            }
        }
    }

    /// Shuts the gate and waits until all workers that have passed it have left. The caller then sees everything that
    /// they have written.
    pub fn shut(&self) {
        let mut state = self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut backoff = Backoff::endless();
        while state & WORKERS != 0 {
            backoff.wait();
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Tells all workers to end. The caller must wake them afterwards.
    pub fn stop(&self) {
        self.state.fetch_or(STOP, Ordering::Release);
    }

    /// Waits for a job other than `last` and passes the gate. Returns the number of the job, or `None` when the team
    /// ends.
    pub fn enter(&self, worker: usize, last: Option<u64>) -> Option<u64> {
        let mut backoff = Backoff::new();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & STOP != 0 {
                return None;
            }
            let number = state & NUMBER;
            if state & OPEN != 0 && Some(number) != last {
                let entered = state + WORKER;
                if self.replace(state, entered, Ordering::Acquire) {
                    return Some(number);
                }
            } else if !backoff.wait() {
                self.sleep(worker, state);
                backoff = Backoff::new();
            }
        }
    }

    /// Leaves the gate. The worker must not use the job afterwards.
    pub fn leave(&self) {
        self.state.fetch_sub(WORKER, Ordering::Release);
    }

    /// Sleeps until the state of the gate differs from `state`. Returns at once if it already does.
    fn sleep(&self, worker: usize, state: u64) {
        let asleep = &self.asleep[worker];
        asleep.store(true, Ordering::Relaxed);
        // From here on, the thread that opens the gate sees this sleeper and the store above.
        if self.replace(state, state + SLEEPER, Ordering::Release) {
            let same = |now: u64| (now ^ state) & (NUMBER | STOP) == 0;
            while same(self.state.load(Ordering::Relaxed)) {
                thread::park();
            }
            self.state.fetch_sub(SLEEPER, Ordering::Relaxed);
        }
        asleep.store(false, Ordering::Relaxed);
    }

    fn replace(&self, from: u64, to: u64, order: Ordering) -> bool {
        self.state.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}
