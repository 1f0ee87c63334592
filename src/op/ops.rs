//! The table of ops.

use super::{Op, lowered};
use crate::table::{Duplicate, Table, Unknown};
use std::sync::LazyLock;

/// The ops that texts may name, by name: graphs, rules, stored plans, imported models.
///
/// The leaves ([`super::INPUT`] and [`super::CONST`]) are none of them: no text names them as it names ops.
#[derive(Clone, Debug)]
pub struct Ops(Table<Op>);

/// The definitions that ovolo has, made once.
static BUILT_IN: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let families = super::LOGICAL.iter().flat_map(|family| family()).map(Op::define);
    let logical: Vec<Op> = families.chain([super::scalar()]).collect();
    let lowered = lowered::ops(&logical);
    logical.into_iter().chain(lowered.into_iter().map(Op::define)).collect()
});

impl Default for Ops {
    fn default() -> Self {
        Self::new()
    }
}

/// The table of the ops that ovolo has.
pub fn built_in() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(Ops::new);
    &OPS
}

impl Ops {
    /// The ops that ovolo has.
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
    pub fn add(&mut self, op: Op) -> Result<(), Duplicate> {
        self.0.add(op.name, op)
    }

    /// The op of this name.
    pub fn get(&self, name: &str) -> Option<Op> {
        self.0.get(name).copied()
    }

    /// The op of this name.
    ///
    /// # Errors
    /// That there is none, with the nearest name.
    pub fn find(&self, name: &str) -> Result<Op, Unknown> {
        self.0.find(name).copied()
    }

    /// All ops, sorted by name.
    pub fn all(&self) -> Vec<Op> {
        let mut ops: Vec<Op> = self.0.iter().map(|(_, op)| *op).collect();
        ops.sort_unstable();
        ops
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        self.all().into_iter().map(|op| op.name).collect()
    }
}
