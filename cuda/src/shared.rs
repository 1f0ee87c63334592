//! Values that a process makes once and keeps until it ends: the device's context, and a handle of each library.

use std::sync::{Mutex, PoisonError};

/// A value that is made by the first call that needs it. A failure is not kept: the next call tries again.
pub(super) struct Shared<T: 'static>(Mutex<Option<&'static T>>);

impl<T> Shared<T> {
    /// Returns a place without a value.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the value, and makes it if it is absent.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<T, String>) -> Result<&'static T, String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = *kept {
            return Ok(value);
        }
        Ok(kept.insert(Box::leak(Box::new(make()?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_a_failure_is_not_kept() {
        static SHARED: Shared<usize> = Shared::new();
        assert_eq!(SHARED.get(|| Err("not yet".to_owned())), Err("not yet".to_owned()));
        assert_eq!(SHARED.get(|| Ok(3)), Ok(&3));
        assert_eq!(SHARED.get(|| Ok(4)), Ok(&3));
    }
}
