//! How much memory a plan may take of each device.

use crate::Plan;
use crate::memory::Limit;
use crate::tensor::Device;
use std::collections::BTreeMap;

/// What of a device's memory is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stage) enum Measure {
    /// The arena and the constants that are kept beside it.
    Whole,
    /// The arena alone: where constants have a price of their own.
    Arena,
}

impl Measure {
    /// Bytes that a plan takes of a device.
    pub fn bytes(self, plan: &Plan, device: Device) -> usize {
        match self {
            Self::Whole => plan.memory_of(device),
            Self::Arena => plan.arena_of(device),
        }
    }
}

/// Limits of both kinds. A plan must keep to all of them.
#[derive(Clone, Debug, Default)]
pub(in crate::stage) struct Room {
    /// Of the arena and the constants.
    pub whole: Limit,
    /// Of the arena alone.
    pub arena: Limit,
}

impl Room {
    /// Limits of the arena and the constants.
    pub fn new(whole: &Limit) -> Self {
        Self { whole: whole.clone(), arena: Limit::default() }
    }

    /// The same with one more limit, in place of one that the device had of this kind.
    pub fn with(&self, measure: Measure, device: Device, bytes: usize) -> Self {
        let mut room = self.clone();
        match measure {
            Measure::Whole => room.whole = room.whole.with(device, bytes),
            Measure::Arena => room.arena = room.arena.with(device, bytes),
        }
        room
    }

    /// Whether a plan is within all limits.
    pub fn holds(&self, plan: &Plan) -> bool {
        self.whole.iter().all(|(device, most)| plan.memory_of(device) <= most)
            && self.arena.iter().all(|(device, most)| plan.arena_of(device) <= most)
    }

    /// What is left for the arenas of a program that keeps so many bytes of constants.
    pub fn beside(&self, constants: &BTreeMap<Device, usize>) -> Limit {
        let whole = self.whole.less(constants);
        self.arena.iter().fold(whole, |least, (device, most)| {
            let most = least.get(device).map_or(most, |other| other.min(most));
            least.with(device, most)
        })
    }

    /// Bytes that a plan takes of the devices that have a limit.
    pub fn bytes(&self, plan: &Plan) -> usize {
        let of = |limit: &Limit, measure: Measure| -> usize {
            limit.iter().map(|(device, _)| measure.bytes(plan, device)).sum()
        };
        of(&self.whole, Measure::Whole) + of(&self.arena, Measure::Arena)
    }

    /// Whether a device has a limit.
    pub fn limits(&self, device: Device) -> bool {
        self.whole.get(device).or(self.arena.get(device)).is_some()
    }
}
