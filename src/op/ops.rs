//! The table of ops.

use super::{LowerError, Lowering, Op};
use crate::attr::StepOp;
use crate::scalar::Function;
use crate::table::{Duplicate, Table, Unknown};
use crate::tensor::Family;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The ops that graphs, rules, stored plans and imported models may name, by name.
///
/// The leaves ([`super::INPUT`] and [`super::CONST`]) are not among them, since texts write them in a different
/// way.
#[derive(Clone, Debug)]
pub struct Ops(Table<Op>);

/// The definitions of ovolo's own logical ops, made once.
static BUILT_IN: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let families = super::LOGICAL.iter().flat_map(|family| family()).map(Op::define);
    families.chain([super::scalar()]).collect()
});

impl Default for Ops {
    fn default() -> Self {
        Self::new()
    }
}

impl Ops {
    /// Returns ovolo's own logical ops.
    pub fn new() -> Self {
        let mut ops = Self(Table::new("op"));
        for op in BUILT_IN.iter() {
            ops.add(*op).expect("ovolo's own ops have different names");
        }
        ops
    }

    /// Adds an op.
    ///
    /// # Errors
    /// If another op has its name.
    pub(crate) fn add(&mut self, op: Op) -> Result<(), Duplicate> {
        self.0.add(op.name, op)
    }

    /// Defines a lowered op, whose definition is kept for as long as the process lives, and adds it.
    ///
    /// # Errors
    /// If an op that the declaration names is absent, or another op has its name.
    pub(crate) fn lower(&mut self, declaration: &Lowering) -> Result<Op, LowerError> {
        let op = declaration.define(|name| self.find(name))?;
        self.add(op)?;
        Ok(op)
    }

    /// Returns the op of this name.
    pub fn get(&self, name: &str) -> Option<Op> {
        self.0.get(name).copied()
    }

    /// Returns the op of this name.
    ///
    /// # Errors
    /// There is no such op. The error has the nearest name.
    pub(crate) fn find(&self, name: &str) -> Result<Op, Unknown> {
        self.0.find(name).copied()
    }

    /// Returns the step of this name, for a chain or a tree.
    pub fn step(&self, name: &str) -> Option<StepOp> {
        StepOp::find(name, |name| self.get(name)?.function())
    }

    /// Returns the names of the steps of chains, sorted.
    pub fn step_names(&self) -> Vec<&'static str> {
        let steps = self.functions().filter(|function| function.is_step());
        let mut names: Vec<&'static str> =
            steps.flat_map(|function| [Some(function.name()), function.reversed_name()]).flatten().collect();
        names.sort_unstable();
        names
    }

    /// Returns the functions of one or two operands, in the order in which they were added.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        self.0.iter().filter_map(|(_, op)| op.function())
    }

    /// Returns the families of devices that ops run on, sorted by name.
    pub(crate) fn families(&self) -> Vec<Family> {
        let families: BTreeSet<Family> = self.0.iter().filter_map(|(_, op)| op.device()).collect();
        families.into_iter().collect()
    }

    /// Returns all ops, sorted by name.
    pub fn all(&self) -> Vec<Op> {
        let mut ops: Vec<Op> = self.0.iter().map(|(_, op)| *op).collect();
        ops.sort_unstable();
        ops
    }

    /// Returns all names, sorted.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.all().into_iter().map(|op| op.name).collect()
    }
}
