//! A file that is cut short while it is mapped: there is nothing to read in its place, and the system ends the
//! process. It ends with a message.

/// Has a read beyond the end of a mapped file end this process with a message and the exit code of a failed
/// request.
#[cfg(target_os = "linux")]
pub(super) fn say() {
    extern "C" fn ended(_: libc::c_int) {
        const SAID: &[u8] =
            b"error: a file that is being read where it lies (a model, its external data, or a weight of the \
              cache) was cut short by another program; run again once it is whole: `ovolo cache verify` finds \
              damage in the cache\n";
        // SAFETY: both calls are among those that a handler of signals may make; the text is as long as said.
        unsafe {
            let _ = libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len());
            libc::_exit(1)
        }
    }
    let handler: extern "C" fn(libc::c_int) = ended;
    // SAFETY: the handler is a function of the type that the system calls, and reads nothing of the process.
    unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
}

/// Elsewhere the signal has other causes as well, or there is none.
#[cfg(not(target_os = "linux"))]
pub(super) fn say() {}
