//! Limits on the memory that a plan may take of each device.

use crate::ron::Entries;
use crate::tensor::Device;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The most bytes that a plan may take of the memory of each device, for its arena and its kept constants. A device
/// without an entry has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit(BTreeMap<Device, usize>);

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(device, bytes)| (device.to_string(), bytes)))
    }
}

/// Reads a map of devices and bytes, such as `{"host": 1048576, "gpu:0": 1073741824}`.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limits = Entries::<Named, usize>::deserialize(deserializer)?;
        Ok(limits
            .0
            .into_iter()
            .fold(Self::default(), |limit, (Named(device), bytes)| limit.with(device, bytes)))
    }
}

/// A device, which is written by its name.
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
    /// Returns a limit of the host's memory alone.
    pub fn host(bytes: usize) -> Self {
        Self::default().with(Device::Host, bytes)
    }

    /// Returns the same limits with this limit of a device, which replaces an earlier one.
    #[must_use]
    pub fn with(mut self, device: Device, bytes: usize) -> Self {
        self.0.insert(device, bytes);
        self
    }

    /// Returns what is left of each limit after this number of bytes was taken.
    #[must_use]
    pub fn less(&self, taken: &BTreeMap<Device, usize>) -> Self {
        let left = |(device, bytes): (Device, usize)| {
            (device, bytes.saturating_sub(taken.get(&device).copied().unwrap_or(0)))
        };
        Self(self.iter().map(left).collect())
    }

    /// Returns the most bytes of a device, if it has a limit.
    pub(crate) fn get(&self, device: Device) -> Option<usize> {
        self.0.get(&device).copied()
    }

    /// Returns whether no device has a limit.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the devices that have a limit, with the limit, the host first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Device, usize)> + '_ {
        self.0.iter().map(|(device, bytes)| (*device, *bytes))
    }
}

impl From<Option<usize>> for Limit {
    /// Returns a limit of the host's memory, if `bytes` is given.
    fn from(bytes: Option<usize>) -> Self {
        bytes.map(Self::host).unwrap_or_default()
    }
}
