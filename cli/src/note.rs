//! Notes: what a user should know of a command that goes on, such as an absent backend.

use std::sync::OnceLock;

/// What is done with a note.
type Listener = Box<dyn Fn(&str) + Send + Sync>;

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Sets what is done with notes, instead of printing them to standard error. Only the first call has an effect.
///
/// A text that begins with `note: ` is about something that the user may want to change; others only inform.
pub fn on_note(listener: impl Fn(&str) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// Tells a note.
pub(crate) fn tell(text: &str) {
    match LISTENER.get() {
        Some(listener) => listener(text),
        None => eprintln!("{text}"),
    }
}

/// Formats a note and tells it.
macro_rules! say {
    ($($text:tt)*) => { $crate::note::tell(&format!($($text)*)) };
}
pub(crate) use say;
