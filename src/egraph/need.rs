//! The memory that each candidate needs at least, whatever else is chosen.

use super::{Contracts, Pick};
use crate::graph::INPUT;
use crate::op::{Call, Contract};
use crate::tensor::{Device, TensorType};

/// The memory that a candidate needs on the device of its result, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The device.
    pub device: Device,
    /// Its scratch, and its result unless that may take the memory of an operand.
    pub own: usize,
    /// These and the operands that are in memory at the same time. In every plan that runs the candidate, the arena
    /// of the device has at least this size.
    pub least: usize,
    /// The constants that it reads on that device. Every plan that runs the candidate keeps them.
    pub constants: usize,
}

impl Pick<'_> {
    /// Returns the needs of every candidate, class by class.
    pub(crate) fn needs(&self, threads: usize, contracts: Contracts<'_>) -> Vec<Vec<Need>> {
        let known: Vec<Vec<Option<Contract>>> = (0..self.classes.len())
            .map(|class| {
                (0..self.terms[class].len())
                    .map(|place| self.contract(class, place, threads, contracts))
                    .collect()
            })
            .collect();
        // A value that may be part of another value may lie in memory that is already counted.
        let mut part = vec![false; self.classes.len()];
        for (class, contracts) in known.iter().enumerate() {
            for (node, contract) in self.problem.classes[class].nodes.iter().zip(contracts) {
                if contract.as_ref().is_some_and(|contract| !contract.parts.is_empty()) {
                    node.children.iter().for_each(|child| part[child.index()] = true);
                }
            }
        }
        // The same is true of a view. Inputs lie in the caller's memory.
        let counted: Vec<usize> = (0..self.classes.len())
            .map(|class| {
                let elsewhere = self.egraph.egg[self.classes[class]].data.constant
                    || part[class]
                    || self.terms[class].iter().any(|term| term.op == INPUT)
                    || known[class].iter().flatten().any(|contract| contract.view_of.is_some());
                if elsewhere { 0 } else { self.egraph.ty(self.classes[class]).bytes() }
            })
            .collect();
        let need = |class: usize, place: usize| {
            let Some(contract) = &known[class][place] else { return Need::default() };
            if contract.view_of.is_some() {
                return Need::default();
            }
            let ty = self.egraph.ty(self.classes[class]);
            let (device, bytes) = (ty.device, ty.bytes());
            let mut operands: Vec<usize> =
                self.problem.classes[class].nodes[place].children.iter().map(|child| child.index()).collect();
            operands.sort_unstable();
            operands.dedup();
            let there = |operand: &&usize| self.egraph.ty(self.classes[**operand]).device == device;
            let constants = operands
                .iter()
                .filter(there)
                .filter_map(|operand| self.constant(*operand))
                .map(|(_, bytes)| bytes);
            let constants = constants.sum();
            if !contract.parts.is_empty() {
                let whole = bytes + contract.scratch;
                return Need { device, own: whole, least: whole, constants };
            }
            let shares = contract.alias.is_some() || !contract.in_place.is_empty();
            let own = contract.scratch + if shares { 0 } else { bytes };
            let beside: usize = operands.iter().filter(there).map(|operand| counted[*operand]).sum();
            Need { device, own, least: (own + beside).max(contract.scratch + bytes), constants }
        };
        (0..self.classes.len())
            .map(|class| (0..self.terms[class].len()).map(|place| need(class, place)).collect())
            .collect()
    }

    /// Returns the device and the bytes of a class that depends only on constants, so that a plan that reads it keeps
    /// it; `None` for other classes.
    pub fn constant(&self, class: usize) -> Option<(Device, usize)> {
        let data = &self.egraph.egg[self.classes[class]].data;
        data.constant.then(|| (data.ty.device, data.ty.bytes()))
    }

    /// Returns the contract of a candidate; `None` for leaves and constants.
    pub(super) fn contract(
        &self,
        class: usize,
        place: usize,
        threads: usize,
        contracts: Contracts<'_>,
    ) -> Option<Contract> {
        let term = self.terms[class][place];
        let id = self.classes[class];
        if term.is_leaf() || self.egraph.egg[id].data.constant {
            return None;
        }
        let inputs: Vec<&TensorType> =
            term.children.iter().map(|child| &self.egraph.egg[*child].data.ty).collect();
        let output = self.egraph.ty(id);
        contracts(&Call { op: term.op, attrs: &term.attrs, inputs: &inputs, output, threads }).ok()
    }
}
