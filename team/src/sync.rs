//! What threads share memory with: the standard library's, or the model checker's in its place.

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

/// A cell whose every use is justified by its caller; the model checker's has the same functions and finds uses that
/// happen at the same time.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Gives a pointer to read from.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get().cast_const())
    }

    /// Gives a pointer to write to.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

#[cfg(not(loom))]
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[cfg(loom)]
loom::thread_local! {
    static INSIDE: Cell<bool> = Cell::new(false);
}

/// While this lives, the thread is at a job.
pub struct Inside(());

impl Inside {
    /// Whether the calling thread is at a job.
    pub fn get() -> bool {
        INSIDE.with(Cell::get)
    }

    /// The thread begins with a job; it is at none.
    pub fn enter() -> Self {
        INSIDE.with(|inside| inside.set(true));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
    }
}
