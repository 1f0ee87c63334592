//! Fast extractors without a proof: the cheapest tree, and a version that takes sharing below a class into account.

use super::bound::chain;
use super::canonical::{Trees, Work};
use super::node::Node;
use super::ready::Ready;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report};
use serde::{Deserialize, Serialize};

/// Prices a class by the sum over its tree, so that a shared class is paid at each use. It is fast, and optimal if
/// nothing is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreedyTree;

impl Extractor for GreedyTree {
    fn name(&self) -> &'static str {
        "greedy-tree"
    }

    fn claim(&self) -> Claim {
        Claim::OptimalForTrees
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let work = Work::new(problem)?;
        let report = Report {
            method: "cheapest trees".to_owned(),
            size: work.size(),
            reduced: work.size(),
            ..Report::default()
        };
        let choice = Trees::new(&work.classes).choice;
        Ok(work.finish(&choice, chain(&work.classes, &work.roots), false, report))
    }
}

/// Prices a class by the sum over the distinct classes below it, and settles the cheapest class first. It finds
/// sharing below a class, but not that a more expensive class could be shared further up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreedyDag;

impl Extractor for GreedyDag {
    fn name(&self) -> &'static str {
        "greedy-dag"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let work = Work::new(problem)?;
        let mut report = Report { size: work.size(), reduced: work.size(), ..Report::default() };
        let choice = match settle(&work.classes, SETTLE_STEPS) {
            Some(choice) => {
                report.method = "cheapest DAGs".to_owned();
                choice
            }
            None => {
                report.method = "cheapest trees".to_owned();
                report.limit = Some(format!("{SETTLE_STEPS} steps of pricing DAGs"));
                Trees::new(&work.classes).choice
            }
        };
        Ok(work.finish(&choice, chain(&work.classes, &work.roots), false, report))
    }
}

/// The work that is allowed for pricing DAGs, in visited classes: about two seconds. The work is quadratic in the
/// depth of a network.
pub(super) const SETTLE_STEPS: usize = 2_000_000_000;

/// Returns the greedy choice, or `None` if it takes more steps than allowed.
///
/// Classes are settled in the order of their cost, as in Dijkstra's algorithm. All classes that a class depends on
/// are settled before it, so choices are acyclic and the cost of a class is that of its choices.
pub(super) fn settle(classes: &[Vec<Node>], mut steps: usize) -> Option<Vec<Option<u32>>> {
    let mut ready = Ready::new(classes, vec![false; classes.len()]);
    let mut choice: Vec<Option<u32>> = vec![None; classes.len()];
    let mut own = vec![0.0; classes.len()];
    // For each settled class, the classes with a cost that it depends on, and itself.
    let mut below: Vec<Vec<u32>> = vec![Vec::new(); classes.len()];
    let mut stamps = vec![u32::MAX; classes.len()];
    let mut stamp = 0;
    while let Some((_, class, place)) = ready.settle() {
        let at = class as usize;
        choice[at] = Some(place);
        let node = &classes[at][place as usize];
        own[at] = node.cost;
        let mut rests = if node.cost > 0.0 { vec![class] } else { Vec::new() };
        union(node, &below, &mut stamps, stamp, |below| rests.push(below));
        stamp += 1;
        below[at] = rests;
        ready.release(class, |node| {
            let work: usize = node.children.iter().map(|&child| below[child as usize].len() + 1).sum();
            steps = steps.checked_sub(work)?;
            let mut cost = node.cost;
            union(node, &below, &mut stamps, stamp, |below| cost += own[below as usize]);
            stamp += 1;
            Some(cost)
        })?;
    }
    Some(choice)
}

/// Visits once each class that the children of a node depend on.
fn union(node: &Node, below: &[Vec<u32>], stamps: &mut [u32], stamp: u32, mut visit: impl FnMut(u32)) {
    for &child in &node.children {
        for &class in &below[child as usize] {
            if std::mem::replace(&mut stamps[class as usize], stamp) != stamp {
                visit(class);
            }
        }
    }
}
