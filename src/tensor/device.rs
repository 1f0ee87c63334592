//! Devices: the memories in which values lie.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Where a value lies.
///
/// Text form: `host`, or a family and a number, such as `gpu:0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// The memory of the host's processors.
    #[default]
    Host,
    /// The memory of one accelerator, given by its family and its number in the family.
    Accelerator(Family, u8),
}

/// The name of a family of accelerators, which a backend declares. It consists of letters, digits and hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(&'static str);

impl Family {
    /// Makes the family of this name.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        self.0
    }

    /// Returns the family of a name that was read from a text. Each new name is kept for as long as the process
    /// lives.
    fn intern(name: &str) -> Option<Self> {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(letter) || name == "host"
        {
            return None;
        }
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return Some(Self(known));
        }
        let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.insert(kept);
        Some(Self(kept))
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Accelerator(family, index) => write!(f, "{family}:{index}"),
        }
    }
}

/// A text that is not the name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device: a device is `host`, or a family and a number such as `gpu:0`")]
pub struct NoDevice(String);

impl FromStr for Device {
    type Err = NoDevice;

    fn from_str(text: &str) -> Result<Self, NoDevice> {
        let accelerator = || {
            let (family, index) = text.split_once(':')?;
            // Leading zeros are refused, so that each device has only one name.
            let index = index.parse().ok().filter(|number: &u8| number.to_string() == index)?;
            Some(Self::Accelerator(Family::intern(family)?, index))
        };
        match text {
            "host" => Ok(Self::Host),
            _ => accelerator().ok_or_else(|| NoDevice(text.to_owned())),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Both owned and borrowed texts must work: a stored plan is decoded from memory that it borrows, an
        // experiment's results are not.
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
