//! The time limit of a subprocess, as pipelines write it.

use serde::Deserialize;
use std::time::Duration;

/// The largest time limit: one day, in seconds.
const DAY: u64 = 86_400;

/// A time limit in seconds, which may be left out.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Timeout(Option<u64>);

impl Timeout {
    /// Returns the limit, or so many seconds if it is left out.
    pub(super) fn or(self, seconds: u64) -> Duration {
        Duration::from_secs(self.0.unwrap_or(seconds))
    }
}

/// No time to wait for an answer. The second line is advice.
#[derive(Debug, thiserror::Error)]
#[error("must be 1 to {DAY}\nwrite a number of seconds")]
pub(super) struct BadTimeout;

impl TryFrom<u64> for Timeout {
    type Error = BadTimeout;

    fn try_from(seconds: u64) -> Result<Self, BadTimeout> {
        match (1..=DAY).contains(&seconds) {
            true => Ok(Self(Some(seconds))),
            false => Err(BadTimeout),
        }
    }
}
