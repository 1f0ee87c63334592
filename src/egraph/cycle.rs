//! Refuses matches of multi-output rules that would make a value depend on itself.
//!
//! A rule with several outputs makes one op of several, and this op needs the operands of all of them. If an operand
//! of one is computed from the result of another, no program can use that op, because the op would read its own
//! result. Such a match is correct but useless, and its cycles make the extraction much more expensive, so it is
//! refused. TENSAT filters the same matches (Yang et al., "Equality Saturation for Tensor Graph Superoptimization",
//! MLSys 2021, section 5.2). The matches of one round are checked on the e-graph as it was before the round.

use super::EGraph;
use super::matcher::Match;
use egg::Id;
use rustc_hash::FxHashMap;

/// For each class that was checked, a bit for each class that it reads, directly or through other classes.
#[derive(Default)]
pub(super) struct Below(FxHashMap<Id, Vec<u64>>);

impl Below {
    /// Returns whether an operand of the match is computed from one of the match's roots.
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

/// Returns a bit for each class that this one reads, directly or through other classes, and for itself.
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
