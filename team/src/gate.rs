//! The gate between the caller and the workers: one number that says whether a job may be begun, who is at it, and
//! who sleeps.
//!
//! All changes are read-modify-write operations on this one number, so they have one order that every thread agrees
//! on. A worker passes the gate only while it is open, and a job is over when the gate is shut and the last worker
//! has left. A worker falls asleep only by a change that fails if a job was opened meanwhile; so whoever opens the
//! gate sees either that the worker sleeps, and wakes it, or the worker sees the job.

use crate::patience::Patience;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::thread;

/// One worker behind the gate. Their number has the lowest bits.
const WORKER: u64 = 1;
/// One sleeping worker. Their number has the bits above.
const SLEEPER: u64 = 1 << 16;
/// Whether the gate is open.
const OPEN: u64 = 1 << 32;
/// Whether the team ends.
const STOP: u64 = 1 << 33;
/// One job. The number of the present one has all other bits.
const JOB: u64 = 1 << 34;

const WORKERS: u64 = SLEEPER - WORKER;
const SLEEPERS: u64 = OPEN - SLEEPER;
const NUMBER: u64 = !(JOB - 1);

/// The most workers that can be counted.
pub const MOST_WORKERS: usize = WORKERS as usize;

/// The gate of a team.
pub struct Gate {
    state: AtomicU64,
    /// Whether each worker sleeps, or is about to.
    asleep: Vec<AtomicBool>,
}

impl Gate {
    /// A gate for so many workers, shut.
    pub fn new(workers: usize) -> Self {
        let asleep = (0..workers).map(|_| AtomicBool::new(false)).collect();
        Self { state: AtomicU64::new(0), asleep }
    }

    /// Opens the gate for a new job, and calls `wake` with every worker that sleeps. Whoever passes the gate sees
    /// what the caller has written before. The gate is shut, and nobody else opens it.
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

    /// Shuts the gate, and waits until all who have passed it have left. What they have written is seen afterwards.
    pub fn shut(&self) {
        let mut state = self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut patience = Patience::endless();
        while state & WORKERS != 0 {
            patience.wait();
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Lets all workers end. They have to be woken.
    pub fn stop(&self) {
        self.state.fetch_or(STOP, Ordering::Release);
    }

    /// Waits for a job other than the `last`, and passes the gate; the number of the job, or `None` when the team
    /// ends.
    pub fn enter(&self, worker: usize, last: Option<u64>) -> Option<u64> {
        let mut patience = Patience::new();
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
            } else if !patience.wait() {
                self.sleep(worker, state);
                patience = Patience::new();
            }
        }
    }

    /// Leaves the gate: the job is not used any more.
    pub fn leave(&self) {
        self.state.fetch_sub(WORKER, Ordering::Release);
    }

    /// Sleeps until something happens, unless it has happened since the gate was in this state.
    fn sleep(&self, worker: usize, state: u64) {
        let asleep = &self.asleep[worker];
        asleep.store(true, Ordering::Relaxed);
        // From here on, whoever opens the gate sees the sleeper and the line before.
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
