//! Improves a selection by classes that several others could share.
//!
//! Two classes may be parts of a third one, as two values are rows of one larger product. The third one costs more
//! than either alone, and is worth it only if both are taken from it, so no step that changes one class at a time finds it.
//! A step here moves all readers of a class to it together, and is kept if the whole selection becomes cheaper. The
//! steps that save the most come first, until none saves anything.

use super::node::{Key, Node};

/// The number of classes that may be visited to price selections: about a tenth of a second.
const VISITS: usize = 20_000_000;

/// Makes an acyclic selection cheaper, or leaves it unchanged.
pub(super) fn improve(classes: &[Vec<Node>], roots: &[u32], choice: &mut [Option<u32>]) {
    let mut pricing = Pricing { state: vec![Visit::New; classes.len()], left: VISITS };
    let Some(mut cost) = pricing.price(classes, roots, choice) else { return };
    let sharers = sharers(classes);
    loop {
        let before = cost;
        let mut steps: Vec<(Key, usize)> = Vec::new();
        for shared in (0..classes.len()).filter(|&shared| sharers[shared].len() > 1) {
            if let Some(old) = step(classes, &sharers[shared], shared, choice) {
                if let Some(new) = pricing.price(classes, roots, choice).filter(|new| *new < cost) {
                    steps.push((Key(new), shared));
                }
                undo(&sharers[shared], old, choice);
            }
        }
        // A step that helps alone may not help after another step, so each one is priced again.
        steps.sort_unstable();
        for (_, shared) in steps {
            if let Some(old) = step(classes, &sharers[shared], shared, choice) {
                match pricing.price(classes, roots, choice) {
                    Some(new) if new < cost => cost = new,
                    _ => undo(&sharers[shared], old, choice),
                }
            }
        }
        if cost >= before || pricing.left == 0 {
            return;
        }
    }
}

/// Moves all readers of a class to it. Returns their choices before, or `None` if all of them already read it.
fn step(
    classes: &[Vec<Node>],
    readers: &[(u32, u32)],
    shared: usize,
    choice: &mut [Option<u32>],
) -> Option<Vec<Option<u32>>> {
    choice[shared]?;
    let old: Vec<Option<u32>> = readers.iter().map(|&(reader, _)| choice[reader as usize]).collect();
    let mut moved = false;
    for &(reader, place) in readers {
        let nodes = &classes[reader as usize];
        let apart = |now: u32| !nodes[now as usize].children.contains(&(shared as u32));
        if choice[reader as usize].is_some_and(apart) {
            choice[reader as usize] = Some(place);
            moved = true;
        }
    }
    moved.then_some(old)
}

fn undo(readers: &[(u32, u32)], old: Vec<Option<u32>>, choice: &mut [Option<u32>]) {
    for (&(reader, _), old) in readers.iter().zip(old) {
        choice[reader as usize] = old;
    }
}

/// Returns for each class the classes that can read it, each with its cheapest candidate that does.
fn sharers(classes: &[Vec<Node>]) -> Vec<Vec<(u32, u32)>> {
    let mut sharers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); classes.len()];
    for (reader, nodes) in classes.iter().enumerate() {
        for (place, node) in nodes.iter().enumerate() {
            for &child in &node.children {
                match sharers[child as usize].last_mut() {
                    Some((known, best)) if *known == reader as u32 => {
                        if node.cost < nodes[*best as usize].cost {
                            *best = place as u32;
                        }
                    }
                    _ => sharers[child as usize].push((reader as u32, place as u32)),
                }
            }
        }
    }
    sharers
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Open,
    Done,
}

/// Prices selections that may have cycles or use classes without a choice.
struct Pricing {
    state: Vec<Visit>,
    left: usize,
}

impl Pricing {
    /// Returns the cost; `None` for a selection that cannot be run, and if no visits are left.
    fn price(&mut self, classes: &[Vec<Node>], roots: &[u32], choice: &[Option<u32>]) -> Option<f64> {
        self.state.fill(Visit::New);
        let mut cost = 0.0;
        let mut calls: Vec<(u32, usize)> = roots.iter().map(|&root| (root, 0)).collect();
        while let Some((class, child)) = calls.pop() {
            let at = class as usize;
            let node = &classes[at][choice[at]? as usize];
            if child == 0 {
                match self.state[at] {
                    Visit::Done => continue,
                    Visit::Open => return None,
                    Visit::New => {}
                }
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    return None;
                }
                self.state[at] = Visit::Open;
                cost += node.cost;
            }
            match node.children.get(child) {
                Some(&below) => {
                    calls.push((class, child + 1));
                    match self.state[below as usize] {
                        Visit::New => calls.push((below, 0)),
                        Visit::Open => return None,
                        Visit::Done => {}
                    }
                }
                None => self.state[at] = Visit::Done,
            }
        }
        Some(cost)
    }
}
