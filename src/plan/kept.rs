//! The constants that a plan keeps: weights in the form that its kernels read.
//!
//! They are not part of an arena, because they stay in memory as long as the plan is loaded. A limit of memory counts
//! both.

use super::{Base, Plan};
use crate::graph::{CONST, Graph, INPUT, NodeId};
use crate::memory::Limit;
use crate::tensor::{Device, TensorType};
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// The constants of a device that a plan keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptConstants {
    /// The device.
    pub device: Device,
    /// Their bytes, including the padding of layouts.
    pub bytes: usize,
    /// Those of these bytes that are not constants of the model, but are computed from some when the plan is loaded,
    /// such as packed weights and folded norms.
    pub computed: usize,
}

impl Plan {
    /// Returns the bytes of the constants that the plan reads, by device. Each constant counts once.
    pub fn constants(&self) -> BTreeMap<Device, usize> {
        self.sum(|_| true)
    }

    /// Returns the bytes of the constants that the plan reads on a device.
    pub fn constants_of(&self, device: Device) -> usize {
        self.constants().get(&device).copied().unwrap_or(0)
    }

    /// Returns the bytes that the plan takes of a device's memory: its arena and its constants.
    pub fn memory_of(&self, device: Device) -> usize {
        self.arena_of(device) + self.constants_of(device)
    }

    /// Returns the first device of which the plan takes more memory than the limit, with that limit.
    pub fn above(&self, limit: &Limit) -> Option<(Device, usize)> {
        if limit.is_none() {
            return None;
        }
        let constants = self.constants();
        let taken = |device| self.arena_of(device) + constants.get(&device).copied().unwrap_or(0);
        limit.iter().find(|(device, most)| taken(*device) > *most)
    }

    /// Returns the constants of each device, and how many bytes of them are computed. `program` is the program of the
    /// plan.
    pub fn kept(&self, program: &Graph) -> Vec<KeptConstants> {
        let computed = self.sum(|node| program[node].op != CONST);
        let one = |(device, bytes)| KeptConstants {
            device,
            bytes,
            computed: computed.get(&device).copied().unwrap_or(0),
        };
        self.constants().into_iter().map(one).collect()
    }

    fn sum(&self, counts: impl Fn(NodeId) -> bool) -> BTreeMap<Device, usize> {
        let read = self.steps.iter().flat_map(|step| step.inputs.iter().zip(&step.input_types));
        let given = self.outputs.iter().map(|(_, ty, place)| (place, ty));
        let constants = read.chain(given).filter_map(|(place, ty)| match place.base {
            Base::Constant(node) if counts(node) => Some((node, ty)),
            _ => None,
        });
        sum(constants)
    }
}

/// Returns the bytes of the constants that a plan of a program reads, by device.
pub fn constant_bytes(program: &Graph) -> BTreeMap<Device, usize> {
    let constant = super::constants(program);
    let steps = program.nodes().filter(|(id, node)| node.op != INPUT && !constant[id.index()]);
    let read = steps.flat_map(|(_, node)| node.inputs.iter().copied());
    let all = read.chain(program.outputs().map(|(_, id)| id)).filter(|id| constant[id.index()]);
    sum(all.map(|id| (id, &program[id].ty)))
}

fn sum<'a>(constants: impl Iterator<Item = (NodeId, &'a TensorType)>) -> BTreeMap<Device, usize> {
    let mut seen = BTreeSet::new();
    let mut sum = BTreeMap::new();
    for (node, ty) in constants {
        if seen.insert(node) {
            *sum.entry(ty.device).or_default() += ty.bytes();
        }
    }
    sum
}
