//! Shows the progress of a long command on a terminal, and nothing if standard error is not a terminal.

use super::print;
use std::io::IsTerminal;

/// A line on standard error that is overwritten again and again.
pub struct Progress {
    done: usize,
    all: usize,
    shown: bool,
}

impl Progress {
    /// Returns the progress of `all` steps.
    pub fn new(all: usize) -> Self {
        Self { done: 0, all, shown: std::io::stderr().is_terminal() }
    }

    /// The same if some steps are done already.
    pub fn from(done: usize, all: usize) -> Self {
        Self { done, ..Self::new(all) }
    }

    /// A step begins after `done` others.
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

impl Progress {
    /// Prints a line of results above the progress.
    pub fn print(&mut self, line: &str) {
        if self.shown {
            eprint!("\r{:80}\r", "");
        }
        print(&format!("{line}\n"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown && self.done > 0 {
            eprintln!();
        }
    }
}
