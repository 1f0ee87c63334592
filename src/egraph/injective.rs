//! Injective ops: where two of them are equal, so are their operands.
//!
//! `unpack` is one: a value has one form in each layout, its padding holding zero. So when two
//! packed values unpack to one class, and are in one layout, they are one. As a rule this would need
//! two patterns and every packed value made again from its unpacked form; as a property of the op
//! it is part of the e-graph's closure, beside congruence, and adds no node.

use super::{EGraph, Term};
use egg::Id;

impl EGraph {
    /// Restores congruence, and unites the operands of equal injective ops, until neither changes
    /// anything. Looks only at classes that changed since [`super::Facts`] was last asked. What was united is counted:
    /// no rule did it.
    pub(super) fn close(&mut self) {
        self.egg.rebuild();
        let mut from = 0;
        loop {
            let touched = &self.egg.analysis.touched()[from..];
            let mut classes: Vec<Id> = touched.iter().map(|id| self.egg.find(*id)).collect();
            from += classes.len();
            classes.sort_unstable();
            classes.dedup();
            let pairs: Vec<(Id, Id)> = classes.iter().flat_map(|class| self.equal_operands(*class)).collect();
            if pairs.is_empty() {
                return;
            }
            for (left, right) in pairs {
                self.closed += usize::from(self.egg.union(left, right));
            }
            self.egg.rebuild();
        }
    }

    /// Pairs of classes that are operands of equal injective nodes of one class.
    fn equal_operands(&self, class: Id) -> Vec<(Id, Id)> {
        let injective: Vec<&Term> =
            self.egg[class].iter().filter(|term| !term.is_leaf() && term.op.flags.injective).collect();
        let mut pairs = Vec::new();
        for (at, one) in injective.iter().enumerate() {
            let twin = injective[..at].iter().find(|other| {
                other.op == one.op
                    && other.attrs == one.attrs
                    && self.egg.find(other.children[0]) != self.egg.find(one.children[0])
                    && self.ty(other.children[0]) == self.ty(one.children[0])
            });
            if let Some(twin) = twin {
                pairs.push((twin.children[0], one.children[0]));
            }
        }
        pairs
    }
}
