//! Reduction: makes the problem smaller without changing the best cost.
//!
//! - A class whose only candidate is free is replaced by the classes that this candidate reads. Packed weights are
//!   such classes: without this step, the variants of a kernel have different children, and none is dominated. The
//!   candidate of a class that must be selected need not be free, because every selection pays its cost.
//! - A class with one candidate that only one candidate reads is joined with that candidate.
//! - A candidate is dropped if another of its class costs no more and reads no other classes, except classes that
//!   every selection contains. Such a class must not be in the same component, because what it reads could depend on
//!   the class in question.
//! - A candidate that reads its own class is dropped.
//! - A class that one other class reads is chosen together with that class, unless there would be too many
//!   candidates.
//!
//! All steps are repeated until nothing changes. A removed class needs no decision later: its readers in the problem
//! have it inlined, and its choice is its only candidate, or one that dominated all others, or follows from the
//! choice of its reader.

use super::canonical::Work;
use super::component::Components;
use super::eliminate::{Made, eliminate};
use super::necessary::necessary;
use super::node::Node;

/// The classes that are inlined in a pass.
#[derive(Clone, Copy, PartialEq)]
enum Inline {
    /// Those that cost nothing.
    Free,
    /// Those that only one candidate reads.
    ReadOnce,
}

/// The choices that are left, in the numbers of a [`Work`].
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    /// The classes; a removed class is empty. `index` is the index in the class of the working copy.
    pub work: Work,
    /// The choices of the removed classes.
    pub removed: Vec<Option<u32>>,
    /// The cost of removed classes that every selection pays.
    pub sunk: f64,
    /// The classes whose cost is in `sunk`.
    sunken: Vec<bool>,
    made: Made,
}

/// A longer list of children is inlined only if one candidate reads the class.
const LONG: usize = 4;

impl Reduced {
    pub(crate) fn new(work: &Work) -> Self {
        let removed = vec![None; work.classes.len()];
        let sunken = vec![false; work.classes.len()];
        let mut reduced = Self { work: work.clone(), removed, sunk: 0.0, sunken, made: Made::default() };
        for nodes in &mut reduced.work.classes {
            for (place, node) in nodes.iter_mut().enumerate() {
                node.index = place as u32;
            }
        }
        let mut anyhow = Anyhow::default();
        loop {
            reduced.drop_dominated(&anyhow);
            reduced.drop_unreached();
            // Free classes come first: a cost that is paid once must not become part of a candidate that is copied.
            if reduced.inline(Inline::Free) || reduced.inline(Inline::ReadOnce) {
                continue;
            }
            let prune = |class: u32, nodes: &mut Vec<Node>| drop_dominated(class, nodes, &anyhow);
            if eliminate(&mut reduced.work, &mut reduced.made, prune) {
                continue;
            }
            let known = Anyhow::new(&reduced.work);
            if !anyhow.grows(&known) {
                return reduced;
            }
            anyhow = known;
        }
    }

    /// Translates a choice by indices into the remaining classes to a choice in the problem.
    pub(crate) fn restore(&self, choice: &[Option<u32>]) -> Vec<Option<u32>> {
        let mut whole = vec![None; choice.len()];
        for (class, place) in self.removed.iter().enumerate() {
            if let Some(place) = place {
                self.made.restore(class as u32, *place, &mut whole);
            }
        }
        for (class, (nodes, place)) in self.work.classes.iter().zip(choice).enumerate() {
            if let Some(node) = place.and_then(|place| nodes.get(place as usize)) {
                self.made.restore(class as u32, node.index, &mut whole);
            }
        }
        whole
    }

    fn drop_dominated(&mut self, anyhow: &Anyhow) {
        for (class, nodes) in self.work.classes.iter_mut().enumerate() {
            drop_dominated(class as u32, nodes, anyhow);
        }
    }

    fn drop_unreached(&mut self) {
        let classes = &mut self.work.classes;
        let mut reached = vec![false; classes.len()];
        let mut stack = self.work.roots.clone();
        while let Some(class) = stack.pop() {
            if !std::mem::replace(&mut reached[class as usize], true) {
                for node in &classes[class as usize] {
                    stack.extend(node.children.iter().copied().filter(|&child| !reached[child as usize]));
                }
            }
        }
        for (nodes, reached) in classes.iter_mut().zip(reached) {
            if !reached {
                *nodes = Vec::new();
            }
        }
    }

    /// Inlines classes without a choice. Returns whether there was one.
    fn inline(&mut self, which: Inline) -> bool {
        self.sink();
        let classes = &mut self.work.classes;
        let mut uses = vec![0_u32; classes.len()];
        for child in classes.iter().flatten().flat_map(|node| &node.children) {
            uses[*child as usize] += 1;
        }
        for &root in &self.work.roots {
            uses[root as usize] += 2;
        }
        // Whether a class is replaced by what its only candidate reads.
        let going = |class: usize| match &classes[class][..] {
            [only] if which == Inline::Free && only.cost == 0.0 => {
                only.children.len() <= LONG || uses[class] < 2 || self.sunken[class]
            }
            [_] => which == Inline::ReadOnce && uses[class] < 2,
            _ => false,
        };
        let fate = |class: usize| match (going(class), uses[class]) {
            (false, _) => Fate::Stays,
            // A root may be in no list of children. `uses` counts it as read several times, so it never gets here.
            (true, 0 | 1) => Fate::GoesOnce,
            (true, _) => Fate::Goes,
        };
        let fates: Vec<Fate> = (0..classes.len()).map(fate).collect();
        if fates.iter().all(|fate| *fate == Fate::Stays) {
            return false;
        }
        let mut done = vec![false; classes.len()];
        for class in (0..classes.len() as u32).filter(|class| fates[*class as usize] != Fate::GoesOnce) {
            resolve(classes, &fates, &mut done, class);
        }
        let mut roots = Vec::new();
        for &root in &self.work.roots {
            match &classes[root as usize][..] {
                [only] if fates[root as usize] == Fate::Goes => roots.extend(&only.children),
                _ => roots.push(root),
            }
        }
        roots.sort_unstable();
        roots.dedup();
        self.work.roots = roots;
        for (class, nodes) in classes.iter_mut().enumerate().filter(|&(class, _)| fates[class] != Fate::Stays)
        {
            self.removed[class] = Some(nodes[0].index);
            *nodes = Vec::new();
        }
        true
    }

    /// Counts the cost of classes that must be selected and have one candidate as sunk, and goes on to the classes
    /// that these read.
    fn sink(&mut self) {
        let mut stack = self.work.roots.clone();
        while let Some(class) = stack.pop() {
            let [only] = &mut self.work.classes[class as usize][..] else { continue };
            if !std::mem::replace(&mut self.sunken[class as usize], true) {
                self.sunk += std::mem::take(&mut only.cost);
                stack.extend(&only.children);
            }
        }
    }
}

/// What happens to a class in a pass.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Stays,
    /// It is inlined into its readers.
    Goes,
    /// It is inlined into its only reader.
    GoesOnce,
}

/// Replaces the children of a class that are inlined by what they read, and does the same in the inlined classes that
/// it reads. These classes form no cycle, because then nothing could be selected. A class with one reader is expanded
/// within that reader, so that a chain of such classes is walked once, whatever its length. A class with several
/// readers keeps the list of what replaces it.
fn resolve(classes: &mut [Vec<Node>], fates: &[Fate], done: &mut [bool], class: u32) {
    let mut stack = vec![class];
    while let Some(&class) = stack.last() {
        if done[class as usize] {
            stack.pop();
            continue;
        }
        let before = stack.len();
        through(classes, fates, class, |child| {
            if fates[child as usize] == Fate::Goes && !done[child as usize] {
                stack.push(child);
            }
        });
        if stack.len() > before {
            continue;
        }
        let mut nodes = std::mem::take(&mut classes[class as usize]);
        for node in &mut nodes {
            if node.children.iter().all(|&child| fates[child as usize] == Fate::Stays) {
                continue;
            }
            let (mut children, mut left) = (Vec::new(), std::mem::take(&mut node.children));
            while let Some(child) = left.pop() {
                match (&classes[child as usize][..], fates[child as usize]) {
                    ([only], Fate::GoesOnce) => {
                        node.cost += only.cost;
                        left.extend(&only.children);
                    }
                    ([only], Fate::Goes) => {
                        node.cost += only.cost;
                        children.extend(&only.children);
                    }
                    _ => children.push(child),
                }
            }
            children.sort_unstable();
            children.dedup();
            node.children = children;
        }
        classes[class as usize] = nodes;
        done[class as usize] = true;
        stack.pop();
    }
}

/// Visits the classes that a class reads. A class that is inlined into one reader is replaced by what it reads.
fn through(classes: &[Vec<Node>], fates: &[Fate], class: u32, mut visit: impl FnMut(u32)) {
    let mut stack = vec![class];
    while let Some(class) = stack.pop() {
        for &child in classes[class as usize].iter().flat_map(|node| &node.children) {
            match fates[child as usize] {
                Fate::GoesOnce => stack.push(child),
                _ => visit(child),
            }
        }
    }
}

/// Drops the candidates of a class that read the class itself, or that others dominate.
fn drop_dominated(class: u32, nodes: &mut Vec<Node>, anyhow: &Anyhow) {
    nodes.retain(|node| node.children.binary_search(&class).is_err());
    if nodes.len() < 2 {
        return;
    }
    let mut keep = vec![true; nodes.len()];
    for second in 0..nodes.len() {
        keep[second] = !(0..nodes.len()).any(|first| {
            let (a, b) = (&nodes[first], &nodes[second]);
            first != second
                && keep[first]
                && (a.cost < b.cost
                    || a.cost == b.cost && (first < second || a.children.len() < b.children.len()))
                && anyhow.subset(class, &a.children, &b.children)
        });
    }
    let mut at = 0;
    nodes.retain(|_| {
        at += 1;
        keep[at - 1]
    });
}

/// The classes that every selection contains, and the component of each class. A class of another component that a
/// class reads cannot depend on the reader.
#[derive(Default)]
struct Anyhow {
    is: Vec<bool>,
    component: Vec<u32>,
}

/// The most visits for finding the classes that every selection contains.
const VISITS: usize = 10_000_000;

impl Anyhow {
    fn new(work: &Work) -> Self {
        Self { is: necessary(work, VISITS), component: Components::new(work).of }
    }

    /// Returns whether `other` knows more classes.
    fn grows(&self, other: &Self) -> bool {
        let known = |class: usize| self.is.get(class).copied().unwrap_or(false);
        other.is.iter().enumerate().any(|(class, is)| *is && !known(class))
    }

    /// Returns whether each class of a sorted list is in another list, or in every selection anyway.
    fn subset(&self, class: u32, part: &[u32], whole: &[u32]) -> bool {
        let anyhow = |child: u32| {
            self.is.get(child as usize).is_some_and(|is| *is)
                && self.component[child as usize] != self.component[class as usize]
        };
        let mut at = 0;
        for &child in part {
            while at < whole.len() && whole[at] < child {
                at += 1;
            }
            if at < whole.len() && whole[at] == child {
                at += 1;
            } else if !anyhow(child) {
                return false;
            }
        }
        true
    }
}
