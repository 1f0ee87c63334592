//! Candidates in the order of their costs, each as soon as all of its children are settled (Knuth, "A generalization
//! of Dijkstra's algorithm", IPL 6(1), 1977).

use super::node::{Key, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Settles classes one after the other, and keeps the candidates that wait for them.
pub(super) struct Ready<'a> {
    classes: &'a [Vec<Node>],
    /// For each class, the candidates that read it, once for each time they read it.
    readers: Vec<Vec<(u32, u32)>>,
    /// For each candidate, the number of its children that are not settled.
    waiting: Vec<Vec<u32>>,
    heap: BinaryHeap<Reverse<(Key, u32, u32)>>,
    settled: Vec<bool>,
}

impl<'a> Ready<'a> {
    /// Starts with the candidates that have no children. A class that is settled from the start needs no candidate;
    /// call [`Ready::release`] for the candidates that read it.
    pub(crate) fn new(classes: &'a [Vec<Node>], settled: Vec<bool>) -> Self {
        let mut readers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); classes.len()];
        let mut waiting: Vec<Vec<u32>> = classes.iter().map(|nodes| vec![0; nodes.len()]).collect();
        let mut heap = BinaryHeap::new();
        for (class, nodes) in classes.iter().enumerate().filter(|(class, _)| !settled[*class]) {
            for (place, node) in nodes.iter().enumerate() {
                waiting[class][place] = node.children.len() as u32;
                for &child in &node.children {
                    readers[child as usize].push((class as u32, place as u32));
                }
                if node.children.is_empty() {
                    heap.push(Reverse((Key(node.cost), class as u32, place as u32)));
                }
            }
        }
        Self { classes, readers, waiting, heap, settled }
    }

    /// Settles the class of the cheapest candidate that is ready. Returns its price, its class and its index.
    pub(crate) fn settle(&mut self) -> Option<(f64, u32, u32)> {
        loop {
            let Reverse((Key(price), class, place)) = self.heap.pop()?;
            if !std::mem::replace(&mut self.settled[class as usize], true) {
                return Some((price, class, place));
            }
        }
    }

    /// Prices the candidates for which this settled class was the last one that they waited for. A candidate is
    /// skipped if `price` returns `None`.
    pub(crate) fn release(&mut self, class: u32, mut price: impl FnMut(&Node) -> Option<f64>) -> Option<()> {
        for &(reader, place) in &self.readers[class as usize] {
            let left = &mut self.waiting[reader as usize][place as usize];
            *left -= 1;
            if *left == 0 && !self.settled[reader as usize] {
                let price = price(&self.classes[reader as usize][place as usize])?;
                self.heap.push(Reverse((Key(price), reader, place)));
            }
        }
        Some(())
    }
}
