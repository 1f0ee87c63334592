//! Injective ops: if two of them have equal results, their operands are equal.
//!
//! `unpack` is an example: in each layout a value has exactly one form, because its padding is zero. So two packed
//! values of one layout are equal if `unpack` gives the same class for both. A rule for this would need two patterns,
//! and would build every packed value again from its unpacked form. As a property of the op it is part of the closure
//! of the e-graph, like congruence, and adds no node.

use super::{EGraph, Term};
use egg::Id;

impl EGraph {
    /// Restores congruence and unites the operands of equal injective ops, until neither changes anything. Only
    /// classes that changed since the last [`super::Facts::take_changes`] are visited. The unions are counted in
    /// `closed`, because no rule made them.
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

    /// Returns pairs of operands of equal injective nodes of one class.
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
