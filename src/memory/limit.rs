//! How many bytes of each device's memory a plan may take.

use crate::ron::Entries;
use crate::tensor::Device;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The most bytes that a plan may take of the memory of each device, for its arena and the constants that it keeps;
/// one that is not named has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit(BTreeMap<Device, usize>);

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(device, bytes)| (device.to_string(), bytes)))
    }
}

/// From a map of devices and bytes: `{"host": 1048576, "gpu:0": 1073741824}`.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limits = Entries::<Named, usize>::deserialize(deserializer)?;
        Ok(limits
            .0
            .into_iter()
            .fold(Self::default(), |limit, (Named(device), bytes)| limit.with(device, bytes)))
    }
}

/// A device by its name.
struct Named(Device);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let device = name.parse().map_err(|_| {
            D::Error::custom(format!("`{name}` is not a device\nwrite \"host\", or \"gpu:0\" and so on"))
        })?;
        Ok(Self(device))
    }
}

impl Limit {
    /// A limit of the host's memory alone.
    pub fn host(bytes: usize) -> Self {
        Self::default().with(Device::Host, bytes)
    }

    /// The same with a limit of this device, in place of one that it had.
    #[must_use]
    pub fn with(mut self, device: Device, bytes: usize) -> Self {
        self.0.insert(device, bytes);
        self
    }

    /// What is left of each limit when so many bytes are taken.
    #[must_use]
    pub fn less(&self, taken: &BTreeMap<Device, usize>) -> Self {
        let left = |(device, bytes): (Device, usize)| {
            (device, bytes.saturating_sub(taken.get(&device).copied().unwrap_or(0)))
        };
        Self(self.iter().map(left).collect())
    }

    /// The most bytes of a device.
    pub(crate) fn of(&self, device: Device) -> Option<usize> {
        self.0.get(&device).copied()
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The devices that have one, with it, the host first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Device, usize)> + '_ {
        self.0.iter().map(|(device, bytes)| (*device, *bytes))
    }
}

impl From<Option<usize>> for Limit {
    /// A limit of the host's memory, if there is one.
    fn from(bytes: Option<usize>) -> Self {
        bytes.map(Self::host).unwrap_or_default()
    }
}
