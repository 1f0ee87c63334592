//! Lower bounds that hold for any e-graph, for results without a proof.

use super::canonical::{Key, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The dearest chain: what a root costs if of all that a candidate reads only the dearest is paid.
pub(super) fn chain(classes: &[Vec<Node>], roots: &[u32]) -> f64 {
    let mut readers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); classes.len()];
    let mut waiting: Vec<Vec<u32>> = classes.iter().map(|nodes| vec![0; nodes.len()]).collect();
    let mut heap = BinaryHeap::new();
    for (class, nodes) in classes.iter().enumerate() {
        for (place, node) in nodes.iter().enumerate() {
            waiting[class][place] = node.children.len() as u32;
            for &child in &node.children {
                readers[child as usize].push((class as u32, place as u32));
            }
            if node.children.is_empty() {
                heap.push(Reverse((Key(node.cost), class as u32)));
            }
        }
    }
    let mut cost = vec![f64::INFINITY; classes.len()];
    while let Some(Reverse((Key(price), class))) = heap.pop() {
        if cost[class as usize] < f64::INFINITY {
            continue;
        }
        cost[class as usize] = price;
        for &(reader, place) in &readers[class as usize] {
            let left = &mut waiting[reader as usize][place as usize];
            *left -= 1;
            if *left == 0 {
                // Children are settled in the order of their cost: this one is the dearest.
                heap.push(Reverse((Key(classes[reader as usize][place as usize].cost + price), reader)));
            }
        }
    }
    roots.iter().map(|&root| cost[root as usize]).fold(0.0, f64::max)
}

/// What each class costs about if a class that is read by several is paid by each in part.
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

/// Rounds of improving shares: they need not be right, only telling.
const ROUNDS: usize = 8;
