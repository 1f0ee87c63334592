//! How many bytes of each device's memory a plan may take.

use crate::tensor::Device;
use std::collections::BTreeMap;

/// The most bytes of the arena of each device; one that is not named has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit(BTreeMap<Device, usize>);

impl Limit {
    /// A limit of the host's arena alone.
    pub fn host(bytes: usize) -> Self {
        Self::default().with(Device::Host, bytes)
    }

    /// The same with a limit of this device, in place of one that it had.
    #[must_use]
    pub fn with(mut self, device: Device, bytes: usize) -> Self {
        self.0.insert(device, bytes);
        self
    }

    /// The most bytes of a device.
    pub fn of(&self, device: Device) -> Option<usize> {
        self.0.get(&device).copied()
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The devices that have one, with it, the host first.
    pub fn iter(&self) -> impl Iterator<Item = (Device, usize)> + '_ {
        self.0.iter().map(|(device, bytes)| (*device, *bytes))
    }
}

impl From<Option<usize>> for Limit {
    /// A limit of the host's arena, if there is one.
    fn from(bytes: Option<usize>) -> Self {
        bytes.map(Self::host).unwrap_or_default()
    }
}
