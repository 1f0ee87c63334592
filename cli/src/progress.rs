//! How far a long command is, on a terminal; nothing where standard error goes elsewhere.

use std::io::IsTerminal;

/// A line on standard error that is written over and over.
pub(super) struct Progress {
    done: usize,
    all: usize,
    shown: bool,
}

impl Progress {
    /// Of so many steps.
    pub fn new(all: usize) -> Self {
        Self { done: 0, all, shown: std::io::stderr().is_terminal() }
    }

    /// The same where some are done.
    pub fn from(done: usize, all: usize) -> Self {
        Self { done, ..Self::new(all) }
    }

    /// A step begins, so many being done.
    pub fn at(&mut self, done: usize, what: &str) {
        self.done = done;
        self.step(what);
    }

    /// The next step begins.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        if self.shown {
            eprint!("\r{}/{} {what:70}", self.done, self.all);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown && self.done > 0 {
            eprintln!();
        }
    }
}
