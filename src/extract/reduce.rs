//! Reduction: less to choose from, the same best cost.
//!
//! - A class with one free candidate is replaced by what that candidate reads. Packed weights are
//!   such classes: without this the variants of a kernel have different children, and none is
//!   dominated. One that must be selected need not be free: its cost is sunk.
//! - A class with one candidate that only one candidate reads is bought together with it.
//! - A candidate is dropped if another of its class costs no more and reads nothing else, but what every
//!   selection has anyhow. That may not be in its own component: what it reads could rest on it.
//! - A candidate that reads its own class is dropped.
//! - A class that one other class reads is chosen together with it, where the candidates do not become
//!   many.
//!
//! All of it is repeated until nothing changes. Nothing that is removed needs to be chosen later:
//! whoever reads it in the problem has it inlined, and its own choice is its only candidate, or one
//! of those that dominated all others, or goes with the choice of what reads it.

use super::canonical::Work;
use super::component::Components;
use super::eliminate::{Made, eliminate};
use super::necessary::necessary;
use super::node::Node;

/// Which classes are inlined in a pass.
#[derive(Clone, Copy, PartialEq)]
enum Inline {
    /// Those that cost nothing.
    Free,
    /// Those that one candidate reads.
    ReadOnce,
}

/// What is left to choose, in the numbers of a [`Work`].
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    /// The classes, with empty ones where a class was removed. `index` is the place in the class of
    /// the working copy.
    pub work: Work,
    /// The choices of those that were removed.
    pub removed: Vec<Option<u32>>,
    /// What every selection pays in removed classes.
    pub sunk: f64,
    /// The classes that were paid for there.
    sunken: Vec<bool>,
    made: Made,
}

/// A list of children this long is inlined only where one candidate reads it.
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
            // Free ones first: what is paid once must not come into something that is copied.
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

    /// The choice in the problem for one by places in the classes that are left.
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

    /// Inlines what has no choice. Whether there was anything.
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
        // What goes, and is replaced by what its only candidate reads.
        let going = |class: usize| match &classes[class][..] {
            [only] if which == Inline::Free && only.cost == 0.0 => {
                only.children.len() <= LONG || uses[class] < 2 || self.sunken[class]
            }
            [_] => which == Inline::ReadOnce && uses[class] < 2,
            _ => false,
        };
        let fate = |class: usize| match (going(class), uses[class]) {
            (false, _) => Fate::Stays,
            // A root is in no list of children, so that it counts as read by several.
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

    /// Pays for what must be selected and has no choice, and for all below it of which the same is true: a
    /// chain of such classes in one go.
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

/// What becomes of a class in a pass.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Stays,
    /// It is inlined where it is read.
    Goes,
    /// The same, and there is one such place.
    GoesOnce,
}

/// Replaces children that are going by what they read, in one class and all that it reads and that
/// is going. Chains of such classes are not cyclic, or nothing could be selected. What is read in one place
/// is walked through there, so that a chain of such classes is gone through once, however long it is; what
/// is read in several has the list of what it stands for.
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

/// Visits what a class reads, through what goes in one place.
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

/// Drops candidates of a class that read it themselves, or that others dominate.
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

/// What every selection has, and the component of each class: nothing of another component that a class
/// reads can rest on it.
#[derive(Default)]
struct Anyhow {
    is: Vec<bool>,
    component: Vec<u32>,
}

/// Visits that may be made to find out.
const VISITS: usize = 10_000_000;

impl Anyhow {
    fn new(work: &Work) -> Self {
        Self { is: necessary(work, VISITS), component: Components::new(work).of }
    }

    /// Whether more is known.
    fn grows(&self, other: &Self) -> bool {
        let known = |class: usize| self.is.get(class).copied().unwrap_or(false);
        other.is.iter().enumerate().any(|(class, is)| *is && !known(class))
    }

    /// Whether all of one sorted list is in another or there anyhow.
    fn subset(&self, class: u32, part: &[u32], whole: &[u32]) -> bool {
        let anyhow = |child: u32| {
            self.is.get(child as usize).is_some_and(|is| *is)
                && self.component[child as usize] != self.component[class as usize]
        };
        let mut rest = whole.iter().peekable();
        part.iter().all(|child| {
            while rest.next_if(|other| **other < *child).is_some() {}
            rest.next_if(|other| *other == child).is_some() || anyhow(*child)
        })
    }
}
