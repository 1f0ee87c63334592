//! The error of what other programs ask of this crate.

/// Why something could not be done: the message that the command line would print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    message: String,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        // Diagnostics contain the word `error` themselves.
        let message = message.trim_end();
        Self { message: message.strip_prefix("error: ").unwrap_or(message).to_owned() }
    }
}
