//! A bound and a selection for problems in which widely read classes make the frontier too wide: each reader pays its
//! own part of such a class, and the rest is solved exactly.
//!
//! This is Lagrangian relaxation (Geoffrion: Lagrangean relaxation for integer programming, Mathematical Programming
//! Study 2, 1974) of one constraint: that a class which reads a shared class must select it. Instead, each reader
//! pays a part of its price. If the parts add up to no more than the price, the cheapest selection of the relaxed
//! problem is a lower bound. If all possible readers of a class read it, or none does, the selection is the cheapest
//! one of the original problem.

use super::canonical::{Trees, Work, price, reach};
use super::component::Components;
use super::necessary::necessary;
use super::node::Node;
use super::order::ComponentOrder;

/// The result of all rounds.
pub(super) struct Relaxed {
    /// The cheapest selection that was found.
    pub choice: Vec<Option<u32>>,
    /// The cost of this selection.
    pub cost: f64,
    /// No selection costs less.
    pub bound: f64,
}

impl Relaxed {
    /// Returns whether the bound equals the cost.
    pub(crate) fn proven(&self) -> bool {
        self.bound >= self.cost * (1.0 - CLOSE)
    }
}

/// Solves a problem without its shared leaves several times, each time with parts that are closer to the actual
/// readers. `solve` returns the cheapest selection of a problem, if it can. Returns `None` if no class is shared, or
/// if `solve` fails in the first round.
pub(super) fn relax(
    work: &Work,
    shared: &Shared,
    mut solve: impl FnMut(&Work) -> Option<Vec<Option<u32>>>,
) -> Option<Relaxed> {
    let shared = shared.sure();
    if shared.leaves.is_empty() {
        return None;
    }
    let trees = Trees::new(&work.classes).choice;
    let mut parts: Vec<Vec<f64>> = shared.leaves.iter().map(Leaf::evenly).collect();
    let mut best: Option<Relaxed> = None;
    for _ in 0..ROUNDS {
        let left = shared.priced(work, &parts);
        let found = solve(&left)?;
        let bound = price(&left.classes, &left.roots, &found);
        // The relaxed problem reads no leaves, so their choices come from the cheapest trees.
        let choice: Vec<Option<u32>> =
            found.iter().zip(&trees).map(|(found, tree)| found.or(*tree)).collect();
        let cost = price(&work.classes, &work.roots, &choice);
        let known = best.get_or_insert(Relaxed { choice: choice.clone(), cost, bound });
        known.bound = known.bound.max(bound);
        if cost < known.cost {
            (known.choice, known.cost) = (choice.clone(), cost);
        }
        if known.proven() {
            break;
        }
        let used = reach(&work.classes, &work.roots, &choice);
        for (leaf, parts) in shared.leaves.iter().zip(&mut parts) {
            let reads = |reader: &u32| {
                let place = choice[*reader as usize].filter(|_| used[*reader as usize]);
                place.is_some_and(|place| {
                    work.classes[*reader as usize][place as usize].children.binary_search(&leaf.class).is_ok()
                })
            };
            let reading: Vec<bool> = leaf.readers.iter().map(reads).collect();
            let count = reading.iter().filter(|reads| **reads).count();
            if count > 0 && count < reading.len() {
                for (part, reads) in parts.iter_mut().zip(reading) {
                    let fair = if reads { leaf.cost / count as f64 } else { 0.0 };
                    *part = f64::midpoint(*part, fair);
                }
            }
        }
    }
    best
}

/// The number of times that the parts are changed. If cost and bound do not meet soon, they mostly never do.
const ROUNDS: usize = 6;
/// A bound that is closer to the cost than this is equal to it, except for rounding.
const CLOSE: f64 = 1e-11;
/// A class that is live for less than this part of all steps hardly widens the frontier.
const LONG: usize = 3;

/// A class that several others read, with a candidate that needs only classes that every selection contains.
#[derive(Clone)]
struct Leaf {
    class: u32,
    /// The cost of the cheapest such candidate.
    cost: f64,
    /// Whether no candidate of the class is cheaper. Only then do parts of the cost give a bound.
    sure: bool,
    /// The classes that read it.
    readers: Vec<u32>,
}

impl Leaf {
    #[allow(clippy::cast_precision_loss)]
    fn evenly(&self) -> Vec<f64> {
        vec![self.cost / self.readers.len() as f64; self.readers.len()]
    }
}

/// The shared leaves: classes that are live over a large part of the frontier.
pub(super) struct Shared {
    leaves: Vec<Leaf>,
    /// For each class, its index among the leaves.
    leaf: Vec<Option<u32>>,
}

impl Shared {
    /// Finds the shared leaves of a problem. `visits` limits the search for classes that every selection contains.
    pub(crate) fn new(work: &Work, plan: &ComponentOrder, components: &Components, visits: usize) -> Self {
        let anyhow = necessary(work, visits);
        let mut leaves = Vec::new();
        for (class, readers) in work.readers().into_iter().enumerate() {
            let alone =
                components.classes.get(components.of[class] as usize).is_some_and(|all| all.len() == 1);
            // The cost of the cheapest candidate that needs nothing else, and the cost of the cheapest candidate.
            let cost = |node: &Node| node.cost;
            let nodes = || work.classes[class].iter();
            let needs_nothing = |node: &&Node| node.children.iter().all(|&child| anyhow[child as usize]);
            let most = nodes().filter(needs_nothing).map(cost).fold(f64::INFINITY, f64::min);
            let least = nodes().map(cost).fold(f64::INFINITY, f64::min);
            if most < f64::INFINITY
                && plan
                    .life(components, class as u32)
                    .is_some_and(|(first, last)| (last - first) as usize * LONG >= plan.order.len())
                && alone
                && !anyhow[class]
            {
                leaves.push(Leaf { class: class as u32, cost: most, sure: least >= most, readers });
            }
        }
        Self::from_leaves(leaves, work.classes.len())
    }

    fn from_leaves(leaves: Vec<Leaf>, classes: usize) -> Self {
        let mut leaf = vec![None; classes];
        for (at, one) in leaves.iter().enumerate() {
            leaf[one.class as usize] = Some(at as u32);
        }
        Self { leaves, leaf }
    }

    /// Returns only the leaves for which no candidate is cheaper than their price.
    fn sure(&self) -> Self {
        Self::from_leaves(self.leaves.iter().filter(|leaf| leaf.sure).cloned().collect(), self.leaf.len())
    }

    /// Returns the problem in which every reader of a leaf pays the same part, if there is a leaf. With these prices,
    /// a greedy choice finds classes that are worth sharing.
    pub(crate) fn eased(&self, work: &Work) -> Option<Work> {
        let parts: Vec<Vec<f64>> = self.leaves.iter().map(Leaf::evenly).collect();
        (!parts.is_empty()).then(|| self.priced(work, &parts))
    }

    /// Returns the problem in which readers pay their parts. The shared classes stay, but nothing reads them.
    fn priced(&self, work: &Work, parts: &[Vec<f64>]) -> Work {
        let mut left = work.clone();
        for (class, nodes) in left.classes.iter_mut().enumerate() {
            for node in nodes {
                for &child in &node.children {
                    if let Some(leaf) = self.leaf[child as usize] {
                        let readers = &self.leaves[leaf as usize].readers;
                        let reader = readers.binary_search(&(class as u32)).expect("every reader is listed");
                        node.cost += parts[leaf as usize][reader];
                    }
                }
                node.children.retain(|&child| self.leaf[child as usize].is_none());
            }
        }
        left
    }
}
