//! The types through which threads share memory: those of the standard library, or those of the model checker.

#[cfg(not(loom))]
pub use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic};
#[cfg(not(loom))]
pub use std::thread;

#[cfg(loom)]
pub use loom::cell::UnsafeCell;
#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(loom)]
pub use loom::thread;
#[cfg(loom)]
pub use std::sync::PoisonError;

use std::cell::Cell;
use std::marker::PhantomData;

/// A cell whose caller justifies every access. The model checker's cell has the same functions, and reports
/// concurrent accesses.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer for reading.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get().cast_const())
    }

    /// Calls `write` with a pointer for writing.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

#[cfg(not(loom))]
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<bool> = const { Cell::new(false) };
}

#[cfg(loom)]
loom::thread_local! {
    static INSIDE: Cell<bool> = Cell::new(false);
    static TURN: Cell<bool> = Cell::new(false);
}

/// A guard: while it lives, the thread is at a job.
pub struct AtJob(());

impl AtJob {
    /// Returns whether the calling thread is at a job.
    pub fn get() -> bool {
        INSIDE.with(Cell::get)
    }

    /// Marks the calling thread, which must be at no job, as being at one.
    pub fn enter() -> Self {
        INSIDE.with(|inside| inside.set(true));
        Self(())
    }
}

impl Drop for AtJob {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
    }
}

/// A guard: while it lives, the thread has the turn of a team. It stays on its thread.
pub struct HasTurn(PhantomData<*const ()>);

impl HasTurn {
    /// Returns whether the calling thread has the turn of a team.
    pub fn get() -> bool {
        TURN.with(Cell::get)
    }

    /// Marks the calling thread, which must have no turn, as having one.
    pub fn enter() -> Self {
        TURN.with(|turn| turn.set(true));
        Self(PhantomData)
    }
}

impl Drop for HasTurn {
    fn drop(&mut self) {
        TURN.with(|turn| turn.set(false));
    }
}
