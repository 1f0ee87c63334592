//! The properties of a device.

use ovolo::tensor::Family;
use std::fmt;

/// The family of devices that the backend runs on.
pub const FAMILY: Family = Family::new("cuda");

/// A compute capability, such as 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture(pub u32, pub u32);

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.0, self.1)
    }
}
