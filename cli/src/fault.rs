//! Handles a file that is truncated while it is mapped: there is nothing to read in its place, so the system
//! ends the process. It prints a message first.

/// Installs a handler: a read beyond the end of a mapped file ends the process with a message and the exit
/// code of a failed request.
#[cfg(target_os = "linux")]
pub(super) fn say() {
    extern "C" fn ended(_: libc::c_int) {
        const SAID: &[u8] =
            b"error: a file that is mapped into memory (a model, its external data, or a weight of the \
              cache) was truncated by another program; restore it and run again: `ovolo cache verify` finds \
              damage in the cache\n";
        // SAFETY: both calls are allowed in a signal handler, and the text has the given length.
        unsafe {
            let _ = libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len());
            libc::_exit(1)
        }
    }
    let handler: extern "C" fn(libc::c_int) = ended;
    // SAFETY: the handler is a function of the type that the system calls, and it reads no data of the
    // process.
    unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
}

/// On other systems the signal has other causes as well, or does not exist.
#[cfg(not(target_os = "linux"))]
pub(super) fn say() {}
