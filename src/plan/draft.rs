//! Decides where the bytes of each value lie: views, results in place, and operands that are computed within a
//! result.

use super::update::{Update, Updates};
use super::{Base, Place};
use crate::graph::{Graph, INPUT, NodeId};
use crate::memory::Buffer;
use crate::op::{ALIGN, Contract};
use crate::tensor::Device;
use std::collections::BTreeMap;

/// The place of a value for the planner.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    Fixed(Place),
    /// In storage `.0`, at byte `.1`.
    Storage(usize, usize),
}

/// Bytes that belong to one or more values, one after the other in time or adjacent in memory.
#[derive(Clone, Copy)]
pub(super) struct Storage {
    /// The device of the memory.
    pub device: Device,
    pub size: usize,
    /// The first and the last position at which it is live.
    pub first: usize,
    pub last: usize,
    /// The storage of which it is a part, and the offset in it.
    within: Option<(usize, usize)>,
    /// The position of the input whose bytes these are; the caller has them.
    input: Option<usize>,
}

/// The slots of values and their storages, which are filled in step by step.
pub(super) struct Draft {
    slots: Vec<Option<Slot>>,
    storages: Vec<Storage>,
    /// The last position that reads a node or a view of it.
    last_read: Vec<usize>,
    /// For each next value of an input, the storage of the input.
    updates: BTreeMap<NodeId, usize>,
}

impl Draft {
    pub(crate) fn new(graph: &Graph, constant: &[bool], updates: &Updates, sequence: &[NodeId]) -> Self {
        let mut slots = vec![None; graph.len()];
        let mut input = 0;
        for (id, node) in graph.nodes() {
            let base = if node.op == INPUT {
                input += 1;
                Base::Input(input - 1)
            } else if constant[id.index()] {
                Base::Constant(id)
            } else {
                continue;
            };
            slots[id.index()] = Some(Slot::Fixed(Place { base, offset: 0 }));
        }
        let mut last_read = vec![0; graph.len()];
        for (position, id) in sequence.iter().enumerate() {
            for operand in &graph[*id].inputs {
                last_read[operand.index()] = last_read[operand.index()].max(position);
            }
        }
        for (_, id) in graph.outputs() {
            last_read[id.index()] = sequence.len();
        }
        let mut draft = Self { slots, storages: Vec::new(), last_read, updates: BTreeMap::new() };
        for (next, Update { input, position, .. }) in updates {
            let node = &graph[*input];
            draft.updates.insert(*next, draft.storages.len());
            draft.slots[input.index()] = Some(Slot::Storage(draft.storages.len(), 0));
            draft.storages.push(Storage {
                device: node.ty.device,
                size: node.ty.bytes(),
                first: 0,
                last: draft.last_read[input.index()],
                within: None,
                input: Some(*position),
            });
        }
        draft
    }

    /// Keeps the storage of a node alive as long as the node is read.
    fn extend(&mut self, id: NodeId) {
        if let Some(Slot::Storage(storage, _)) = self.whole(id) {
            self.storages[storage].last = self.storages[storage].last.max(self.last_read[id.index()]);
        }
    }

    pub(crate) fn view(&mut self, of: NodeId, id: NodeId, offset: usize) {
        self.slots[id.index()] = match self.whole(of) {
            Some(Slot::Fixed(place)) => Some(Slot::Fixed(Place { offset: place.offset + offset, ..place })),
            Some(Slot::Storage(storage, at)) => Some(Slot::Storage(storage, at + offset)),
            None => None,
        };
        self.extend(id);
    }

    /// Gives a result its storage. Returns the operand whose storage it took.
    pub(crate) fn result(
        &mut self,
        graph: &Graph,
        id: NodeId,
        contract: &Contract,
        position: usize,
    ) -> Option<usize> {
        let node = &graph[id];
        let bytes = node.ty.bytes();
        if let Some(in_place) = self.replace(graph, id, contract, position) {
            return in_place;
        }
        let wanted = contract.alias.iter().chain(&contract.in_place);
        let taken = wanted.copied().find(|&operand| {
            let Some(Slot::Storage(storage, 0)) = self.slot(node.inputs[operand]) else {
                return false;
            };
            let others = node.inputs.iter().enumerate().any(|(other, input)| {
                other != operand && matches!(self.slot(*input), Some(Slot::Storage(s, _)) if s == storage)
            });
            let Storage { device, size, last, .. } = self.storages[storage];
            !others
                && device == node.ty.device
                && last <= position
                && size >= bytes
                && graph[node.inputs[operand]].ty.bytes() == bytes
        });
        self.slots[id.index()] = Some(match taken {
            Some(operand) => match self.slot(node.inputs[operand]) {
                Some(slot) => slot,
                None => unreachable!("the operand has a storage"),
            },
            None => {
                self.storages.push(Storage {
                    device: node.ty.device,
                    size: bytes.max(1).next_multiple_of(ALIGN),
                    first: position,
                    last: position,
                    within: None,
                    input: None,
                });
                Slot::Storage(self.storages.len() - 1, 0)
            }
        });
        self.extend(id);
        taken
    }

    /// Puts the next value of an input in the place of the input, if nothing else reads the input any more. Returns the
    /// operand on which the step then works in place, if it reads the input.
    fn replace(
        &mut self,
        graph: &Graph,
        id: NodeId,
        contract: &Contract,
        position: usize,
    ) -> Option<Option<usize>> {
        let storage = *self.updates.get(&id)?;
        let operands = graph[id].inputs.iter().enumerate();
        let read: Vec<usize> = operands
            .filter(|(_, input)| matches!(self.whole(**input), Some(Slot::Storage(of, _)) if of == storage))
            .map(|(operand, _)| operand)
            .collect();
        let last = self.storages[storage].last;
        let in_place = match read[..] {
            [] if last < position => None,
            [operand] if last <= position => {
                contract.alias.iter().chain(&contract.in_place).find(|at| **at == operand)?;
                Some(operand)
            }
            _ => return None,
        };
        self.slots[id.index()] = Some(Slot::Storage(storage, 0));
        self.extend(id);
        Some(in_place)
    }

    /// Places operands within a result that consists of their bytes, if `wanted` accepts them. Returns these
    /// operands, and the same operands in the order in which they were computed. Other operands must be copied:
    /// inputs and constants, operands that occur twice or are part of another result, and those whose begin or end is
    /// not aligned.
    pub(crate) fn join(
        &mut self,
        graph: &Graph,
        id: NodeId,
        contract: &Contract,
        wanted: &dyn Fn(usize) -> bool,
    ) -> (Vec<usize>, Vec<usize>) {
        let Some(Slot::Storage(whole, start)) = self.slot(id) else { return Default::default() };
        let (mut joined, mut ages) = (Vec::new(), Vec::new());
        for (operand, part) in contract.parts.iter().enumerate().filter(|(operand, _)| wanted(*operand)) {
            let input = graph[id].inputs[operand];
            let Some(Slot::Storage(storage, 0)) = self.slot(input) else { continue };
            let Storage { device, size, first, last, .. } = self.storages[storage];
            let fits = device == self.storages[whole].device
                && size == graph[input].ty.bytes()
                && contract.joins(operand, size);
            // The operand is the last value of its storage so far, because it is read here. A later value that takes
            // the storage of the whole result waits for the last reader of the operand too.
            if storage != whole && fits {
                self.storages[storage].within = Some((whole, start + part));
                let Storage { first: from, last: to, .. } = &mut self.storages[whole];
                (*from, *to) = ((*from).min(first), (*to).max(last));
                joined.push(operand);
                ages.push((first, operand));
            }
        }
        ages.sort_unstable();
        (joined, ages.into_iter().map(|(_, operand)| operand).collect())
    }

    /// Returns the storage of a value: the largest one of which it is a part.
    pub(crate) fn storage(&self, id: NodeId) -> Option<usize> {
        match self.slot(id) {
            Some(Slot::Storage(storage, _)) => Some(storage),
            _ => None,
        }
    }

    /// Returns the place of a value. The storage of an input is a fixed place.
    pub(crate) fn slot(&self, id: NodeId) -> Option<Slot> {
        let slot = self.whole(id);
        if let Some(Slot::Storage(storage, offset)) = slot
            && let Some(input) = self.storages[storage].input
        {
            return Some(Slot::Fixed(Place { base: Base::Input(input), offset }));
        }
        slot
    }

    /// Returns the largest storage of which a value is a part, or its fixed place.
    fn whole(&self, id: NodeId) -> Option<Slot> {
        let mut slot = self.slots[id.index()];
        while let Some(Slot::Storage(storage, offset)) = slot
            && let Some((whole, part)) = self.storages[storage].within
        {
            slot = Some(Slot::Storage(whole, part + offset));
        }
        slot
    }

    /// Returns the buffers to place, the device of each, and for each storage the index of its buffer.
    pub(crate) fn buffers(&self) -> (Vec<Buffer>, Vec<Device>, Vec<usize>) {
        let (mut buffers, mut devices, mut index) = (Vec::new(), Vec::new(), Vec::new());
        for storage in &self.storages {
            index.push(buffers.len());
            if storage.within.is_none() && storage.input.is_none() {
                let Storage { device, size, first, last, .. } = *storage;
                devices.push(device);
                buffers.push(Buffer { lower: first, upper: last + 1, size, align: ALIGN });
            }
        }
        (buffers, devices, index)
    }
}
