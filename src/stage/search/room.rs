//! Limits on the memory that a plan may use on each device.

use crate::Plan;
use crate::memory::Limit;
use crate::tensor::Device;
use std::collections::BTreeMap;

/// Which part of a device's memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stage) enum Measure {
    /// The arena and the constants.
    Whole,
    /// The arena only. The search uses this if constants have a price of their own.
    Arena,
}

impl Measure {
    /// Returns the bytes of this part that a plan uses.
    pub fn bytes(self, plan: &Plan, device: Device) -> usize {
        match self {
            Self::Whole => plan.memory_of(device),
            Self::Arena => plan.arena_of(device),
        }
    }
}

/// Limits of both kinds. A plan must be within all of them.
#[derive(Clone, Debug, Default)]
pub(in crate::stage) struct Room {
    /// The limits on the arena and the constants together.
    pub whole: Limit,
    /// The limits on the arena only.
    pub arena: Limit,
}

impl Room {
    /// Makes limits on the arena and the constants together.
    pub fn new(whole: &Limit) -> Self {
        Self { whole: whole.clone(), arena: Limit::default() }
    }

    /// Returns these limits and one more. It replaces the limit of this kind that the device had.
    pub fn with(&self, measure: Measure, device: Device, bytes: usize) -> Self {
        let mut room = self.clone();
        match measure {
            Measure::Whole => room.whole = room.whole.with(device, bytes),
            Measure::Arena => room.arena = room.arena.with(device, bytes),
        }
        room
    }

    /// Returns whether a plan is within all limits.
    pub fn holds(&self, plan: &Plan) -> bool {
        self.whole.iter().all(|(device, most)| plan.memory_of(device) <= most)
            && self.arena.iter().all(|(device, most)| plan.arena_of(device) <= most)
    }

    /// Returns the limits that remain for the arenas of a program that keeps these bytes of constants.
    pub fn beside(&self, constants: &BTreeMap<Device, usize>) -> Limit {
        let whole = self.whole.less(constants);
        self.arena.iter().fold(whole, |least, (device, most)| {
            let most = least.get(device).map_or(most, |other| other.min(most));
            least.with(device, most)
        })
    }

    /// Returns the bytes that a plan uses on the devices that have a limit.
    pub fn bytes(&self, plan: &Plan) -> usize {
        let of = |limit: &Limit, measure: Measure| -> usize {
            limit.iter().map(|(device, _)| measure.bytes(plan, device)).sum()
        };
        of(&self.whole, Measure::Whole) + of(&self.arena, Measure::Arena)
    }

    /// Returns whether a device has a limit.
    pub fn limits(&self, device: Device) -> bool {
        self.whole.get(device).or(self.arena.get(device)).is_some()
    }
}
