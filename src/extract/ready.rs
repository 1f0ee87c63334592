//! Candidates in the order in which they can be had: each once all of its children are settled, the
//! cheapest first (Knuth, "A generalization of Dijkstra's algorithm", IPL 6(1), 1977).

use super::node::{Key, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Classes that are settled one after the other, and candidates that wait for them.
pub(super) struct Ready<'a> {
    classes: &'a [Vec<Node>],
    /// For each class the candidates that read it, once for each time they do.
    readers: Vec<Vec<(u32, u32)>>,
    /// For each candidate how many of its children are not settled.
    waiting: Vec<Vec<u32>>,
    heap: BinaryHeap<Reverse<(Key, u32, u32)>>,
    settled: Vec<bool>,
}

impl<'a> Ready<'a> {
    /// With the candidates that have no children. Classes that are settled already need no candidate; say
    /// so to those that read them by [`Ready::release`].
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

    /// Settles the class of the cheapest candidate that can be had: its price, the class and its place.
    pub(crate) fn settle(&mut self) -> Option<(f64, u32, u32)> {
        loop {
            let Reverse((Key(price), class, place)) = self.heap.pop()?;
            if !std::mem::replace(&mut self.settled[class as usize], true) {
                return Some((price, class, place));
            }
        }
    }

    /// Prices the candidates for which a settled class was the last that they waited for; `None` where no
    /// price is given.
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
