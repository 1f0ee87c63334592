//! Signals, such as that of Ctrl-C, while Rust code works.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a signal waits at most.
const PAUSE: Duration = Duration::from_millis(10);

/// Does work on another thread, while this one looks for signals: Python's handlers run on the main thread alone, and only
/// when it asks. If a handler raises, as that of Ctrl-C does, the work is told to stop, and its end is waited for.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&stop));
        let mut raised = None;
        while !worker.is_finished() {
            py.detach(|| std::thread::sleep(PAUSE));
            if let Err(why) = py.check_signals() {
                stop.store(true, Ordering::Relaxed);
                raised.get_or_insert(why);
            }
        }
        let made = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        raised.map_or(Ok(made), Err)
    })
}
