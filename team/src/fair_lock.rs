//! A lock that callers get in the order in which they arrived.

use crate::backoff::Backoff;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The lock. Taking and releasing it costs one atomic operation each if no other caller wants it.
pub struct FairLock {
    /// The number of callers that have the turn or wait for it.
    inside: AtomicUsize,
    /// How often the turn was passed to a caller that waited.
    passed: AtomicUsize,
    queue: Mutex<Queue>,
    /// How a caller waits before it sleeps.
    patience: fn() -> Backoff,
}

/// The callers that wait.
struct Queue {
    /// How many callers have waited so far. They get the turn in this order.
    arrived: usize,
    /// The callers that sleep, each with its number.
    asleep: Vec<(usize, Thread)>,
}

/// A guard: its owner has the turn until it is dropped.
pub struct FairLockGuard<'a>(&'a FairLock);

impl FairLock {
    /// Returns a lock that nobody has taken, whose callers wait in this way before they sleep.
    pub fn new(patience: fn() -> Backoff) -> Self {
        let queue = Mutex::new(Queue { arrived: 0, asleep: Vec::new() });
        Self { inside: AtomicUsize::new(0), passed: AtomicUsize::new(0), queue, patience }
    }

    /// Waits for the caller's turn. The caller then sees everything that earlier callers have written.
    pub fn lock(&self) -> FairLockGuard<'_> {
        self.lock_prepared(|| ()).0
    }

    /// As [`FairLock::lock`], and does something before it waits, if it must.
    pub fn lock_prepared<T>(&self, prepare: impl FnOnce() -> T) -> (FairLockGuard<'_>, Option<T>) {
        let waits = self.inside.fetch_add(1, Ordering::Acquire) != 0;
        let prepared = waits.then(prepare);
        if waits {
            self.wait();
        }
        (FairLockGuard(self), prepared)
    }

    fn wait(&self) {
        let number = {
            let mut queue = self.queue();
            queue.arrived = queue.arrived.wrapping_add(1);
            queue.arrived
        };
        // The turn is not passed on until this caller has had it, so equality is enough.
        let is_my_turn = || self.passed.load(Ordering::Acquire) == number;
        let mut backoff = (self.patience)();
        while !is_my_turn() {
            if !backoff.wait() {
                let mut queue = self.queue();
                if is_my_turn() {
                    return;
                }
                queue.asleep.push((number, thread::current()));
                drop(queue);
                while !is_my_turn() {
                    thread::park();
                }
            }
        }
    }

    fn pass_on(&self) {
        let mut queue = self.queue();
        let number = self.passed.load(Ordering::Relaxed).wrapping_add(1);
        self.passed.store(number, Ordering::Release);
        let sleeper = queue.asleep.iter().position(|(one, _)| *one == number);
        let sleeper = sleeper.map(|at| queue.asleep.swap_remove(at).1);
        drop(queue);
        if let Some(thread) = sleeper {
            thread.unpark();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FairLockGuard<'_> {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::Release) != 1 {
            self.0.pass_on();
        }
    }
}
