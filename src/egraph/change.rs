//! What changed since the last search, and which classes a rule must search again.
//!
//! A match is new only if one of the classes that its pattern's ops match is new, got new nodes, or was merged. The
//! root of the match is then at most as many levels above that class as the pattern is deep. This is semi-naive
//! evaluation for e-graphs (Zhang et al., "Better Together: Unifying Datalog and Equality Saturation", PLDI 2023).

use super::EGraph;
use crate::rule::{OperandVar, Pattern, RestVar, Rule};
use egg::Id;

/// The classes that changed, by the ids they had at that time.
#[derive(Default)]
pub(super) struct Changes {
    /// Classes that are new, got new nodes, or whose facts became more precise.
    pub touched: Vec<Id>,
    /// Those of them whose facts may have become more precise, so that a guard may decide otherwise than before.
    pub sharpened: Vec<Id>,
}

/// The classes from which a changed class can be reached within a number of levels downwards.
pub(super) struct Reach {
    /// `touched[n]`: whether a touched class is at most `n` levels below.
    touched: Vec<Vec<bool>>,
    /// The same for sharpened classes.
    sharpened: Vec<Vec<bool>>,
}

impl Reach {
    /// Computes the reach of changes for the deepest of `rules`.
    pub(crate) fn new(egraph: &EGraph, changes: &Changes, rules: &[impl AsRef<Rule>]) -> Self {
        let heights = rules.iter().map(|rule| Depth::new(rule.as_ref()));
        let (mut looks, mut guards) = (0, 0);
        for depth in heights {
            looks = looks.max(depth.looks);
            guards = guards.max(depth.guards);
        }
        Self {
            touched: levels(egraph, &changes.touched, looks),
            sharpened: if changes.sharpened.is_empty() {
                Vec::new()
            } else {
                levels(egraph, &changes.sharpened, guards)
            },
        }
    }

    /// Returns whether a new match of a rule of this depth may have its root in this class.
    pub(crate) fn holds(&self, class: Id, depth: Depth) -> bool {
        let at = usize::from(class);
        self.touched[depth.looks][at] || self.sharpened.get(depth.guards).is_some_and(|level| level[at])
    }
}

/// Returns for each level which classes are reached: first the classes themselves, then also those that read one of
/// them, and so on.
fn levels(egraph: &EGraph, classes: &[Id], depth: usize) -> Vec<Vec<bool>> {
    let mut seen = vec![false; egraph.egg.nodes().len()];
    let mut last: Vec<Id> = Vec::new();
    for class in classes {
        let class = egraph.egg.find(*class);
        if !std::mem::replace(&mut seen[usize::from(class)], true) {
            last.push(class);
        }
    }
    let mut levels = vec![seen.clone()];
    for _ in 0..depth {
        let mut next = Vec::new();
        for class in last {
            for parent in egraph.egg[class].parents() {
                let parent = egraph.egg.find(parent);
                if !std::mem::replace(&mut seen[usize::from(parent)], true) {
                    next.push(parent);
                }
            }
        }
        last = next;
        levels.push(seen.clone());
    }
    levels
}

/// How many levels below its root a rule reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depth {
    /// The deepest level at which the nodes or the identity of a class decide whether the left side matches.
    pub looks: usize,
    /// The deepest level at which a guard may read facts.
    pub guards: usize,
}

impl Depth {
    /// Computes the depth of a rule's left sides.
    pub(crate) fn new(rule: &Rule) -> Self {
        let mut times =
            Times { operands: vec![0; rule.operand_vars.len()], rests: vec![0; rule.rest_vars.len()] };
        rule.from.iter().for_each(|pattern| times.count(pattern));
        let mut depth = Self::default();
        rule.from.iter().for_each(|pattern| depth.walk(pattern, 0, &times));
        depth
    }

    fn walk(&mut self, pattern: &Pattern, level: usize, times: &Times) {
        let looks = match pattern {
            // A variable that occurs twice compares two classes.
            Pattern::Operand(OperandVar(var)) => times.operands[*var] > 1,
            Pattern::Number(..) => true,
            Pattern::Rest(RestVar(var)) | Pattern::Optional(RestVar(var)) => times.rests[*var] > 1,
            Pattern::Op { children, .. } => {
                children.iter().for_each(|child| self.walk(child, level + 1, times));
                true
            }
        };
        self.guards = self.guards.max(level);
        if looks {
            self.looks = self.looks.max(level);
        }
    }
}

/// How often each variable occurs in the left sides.
struct Times {
    operands: Vec<usize>,
    rests: Vec<usize>,
}

impl Times {
    fn count(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Operand(var) => self.operands[var.0] += 1,
            Pattern::Number(_, var) => var.iter().for_each(|var| self.operands[var.0] += 1),
            Pattern::Rest(var) | Pattern::Optional(var) => self.rests[var.0] += 1,
            Pattern::Op { children, .. } => children.iter().for_each(|child| self.count(child)),
        }
    }
}
