//! Lower bounds that hold for every e-graph, for results without a proof.

use super::node::Node;
use super::ready::Ready;

/// Returns the cost of the most expensive chain: the largest cost of a root if each candidate pays only for the most
/// expensive class that it reads.
pub(super) fn chain(classes: &[Vec<Node>], roots: &[u32]) -> f64 {
    let mut ready = Ready::new(classes, vec![false; classes.len()]);
    let mut cost = vec![f64::INFINITY; classes.len()];
    while let Some((price, class, _)) = ready.settle() {
        cost[class as usize] = price;
        // Children are settled in the order of their cost, so this one is the most expensive.
        ready.release(class, |node| Some(node.cost + price));
    }
    roots.iter().map(|&root| cost[root as usize]).fold(0.0, f64::max)
}

/// Estimates the cost of each class if all its readers share its price equally.
pub(super) fn shares(classes: &[Vec<Node>], tree: &[f64]) -> Vec<f64> {
    let mut readers = vec![0_u32; classes.len()];
    for nodes in classes {
        let mut read: Vec<u32> = nodes.iter().flat_map(|node| &node.children).copied().collect();
        read.sort_unstable();
        read.dedup();
        read.into_iter().for_each(|child| readers[child as usize] += 1);
    }
    let mut worth = tree.to_vec();
    for _ in 0..ROUNDS {
        for (class, nodes) in classes.iter().enumerate() {
            let price = |node: &Node| {
                let part = |&child: &u32| worth[child as usize] / f64::from(readers[child as usize]);
                node.cost + node.children.iter().map(part).sum::<f64>()
            };
            if let Some(best) = nodes.iter().map(price).min_by(f64::total_cmp) {
                worth[class] = worth[class].min(best);
            }
        }
    }
    worth
}

/// The number of rounds that improve these estimates. They only rank states, so they need not be exact.
const ROUNDS: usize = 8;
