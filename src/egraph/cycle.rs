//! Multi-output rules and order: which matches would have a value computed from itself.
//!
//! A rule with several outputs makes one op of several, which then needs the operands of all of
//! them. Where an operand of one is computed from another, no program can take that op: it would
//! wait for itself. Such a match is true and useless, and the knots that it ties into the e-graph
//! cost the extraction dear; so it is refused. (TENSAT filters the same matches: Yang et al.,
//! "Equality Saturation for Tensor Graph Superoptimization", MLSys 2021, section 5.2.) Matches of one
//! round are asked about the e-graph before the round.

use super::EGraph;
use super::matcher::Match;
use egg::Id;
use rustc_hash::FxHashMap;

/// Classes that are read, directly or not, from some that were asked for.
#[derive(Default)]
pub(super) struct Below(FxHashMap<Id, Vec<u64>>);

impl Below {
    /// Whether an operand of the match is computed from one of its roots.
    pub(crate) fn knots(&mut self, egraph: &EGraph, one: &Match) -> bool {
        let operands = one.operands.iter().flatten().chain(one.rests.iter().flatten().flat_map(|r| r.iter()));
        let operands = operands.map(|id| egraph.egg.find(*id)).filter(|id| !egraph.egg[*id].data.constant);
        let roots: Vec<usize> = one.roots.iter().map(|root| usize::from(egraph.egg.find(*root))).collect();
        operands.into_iter().any(|operand| {
            let below = self.0.entry(operand).or_insert_with(|| below(egraph, operand));
            roots.iter().any(|root| below[root / 64] >> (root % 64) & 1 == 1)
        })
    }
}

/// A bit for each class that is read from this one, itself included.
fn below(egraph: &EGraph, class: Id) -> Vec<u64> {
    let mut seen = vec![0_u64; egraph.egg.nodes().len().div_ceil(64)];
    let mut open = vec![class];
    while let Some(class) = open.pop() {
        let at = usize::from(class);
        if seen[at / 64] >> (at % 64) & 1 == 1 {
            continue;
        }
        seen[at / 64] |= 1 << (at % 64);
        let read = egraph.egg[class].iter().flat_map(|term| &term.children);
        open.extend(read.map(|child| egraph.egg.find(*child)));
    }
    seen
}
