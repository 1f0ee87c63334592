//! Elimination: a class that only one other class reads is chosen together with that class.
//!
//! Each candidate that reads the class is replaced by one candidate for each candidate of the class. The new
//! candidate costs as much as both and reads what both read. This is exact, because at most one candidate of a class
//! is chosen. Bucket elimination does the same with a variable that is in one bucket (Dechter: Bucket Elimination,
//! Artificial Intelligence 113, 1999). Choices that depend on one another come together in one class, where most of
//! them are dominated.

use super::canonical::Work;
use super::node::Node;

/// Candidates that were made of two: the index of the reader, the class that it read, and the index of that class's
/// candidate. Indices from [`MADE`] on refer to this list.
#[derive(Clone, Debug, Default)]
pub(super) struct Made(Vec<(u32, u32, u32)>);

/// Smaller indices are those of original candidates.
const MADE: u32 = 1 << 31;

impl Made {
    /// Notes the choice of a candidate, and of all candidates of which it was made.
    pub(crate) fn restore(&self, class: u32, place: u32, choice: &mut [Option<u32>]) {
        let mut stack = vec![(class, place)];
        while let Some((class, place)) = stack.pop() {
            match place.checked_sub(MADE).map(|at| self.0[at as usize]) {
                None => choice[class as usize] = Some(place),
                Some((reader, below, candidate)) => stack.extend([(class, reader), (below, candidate)]),
            }
        }
    }

    fn join(&mut self, reader: u32, below: u32, candidate: u32) -> u32 {
        self.0.push((reader, below, candidate));
        MADE + (self.0.len() - 1) as u32
    }
}

/// Eliminates classes that have several candidates and one reader, unless there would be too many candidates. `prune`
/// drops the dominated candidates of a class. Returns whether a class was eliminated.
pub(super) fn eliminate(work: &mut Work, made: &mut Made, prune: impl Fn(u32, &mut Vec<Node>)) -> bool {
    let mut readers = readers(work);
    let mut changed = false;
    for class in 0..work.classes.len() as u32 {
        let Reader::One(reader) = readers[class as usize] else { continue };
        if reader == class || work.classes[class as usize].is_empty() {
            continue;
        }
        let (upper, lower) = (&work.classes[reader as usize], &work.classes[class as usize]);
        let reading = upper.iter().filter(|node| node.children.binary_search(&class).is_ok()).count();
        let before = upper.len() + lower.len();
        if upper.len() - reading + reading * lower.len() > TRIED * before {
            continue;
        }
        let undo = made.0.len();
        let mut joined = Vec::new();
        for node in upper {
            if node.children.binary_search(&class).is_err() {
                joined.push(node.clone());
                continue;
            }
            for below in lower {
                let others = node.children.iter().filter(|child| **child != class);
                let mut children: Vec<u32> = others.chain(&below.children).copied().collect();
                children.sort_unstable();
                children.dedup();
                let index = made.join(node.index, class, below.index);
                joined.push(Node { cost: node.cost + below.cost, children, index });
            }
        }
        prune(reader, &mut joined);
        if joined.len() > before {
            made.0.truncate(undo);
            continue;
        }
        let below = work.classes[class as usize].iter().flat_map(|node| &node.children).copied();
        for child in below.collect::<Vec<_>>() {
            readers[child as usize] = match readers[child as usize] {
                Reader::One(one) if one == class || one == reader => Reader::One(reader),
                _ => Reader::Several,
            };
        }
        work.classes[class as usize] = Vec::new();
        work.classes[reader as usize] = joined;
        changed = true;
    }
    changed
}

/// The most new candidates that are tried, as a multiple of the number before.
const TRIED: usize = 4;

/// The classes that read a class.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    None,
    One(u32),
    Several,
}

fn readers(work: &Work) -> Vec<Reader> {
    let mut readers = vec![Reader::None; work.classes.len()];
    for (class, nodes) in work.classes.iter().enumerate() {
        for &child in nodes.iter().flat_map(|node| &node.children) {
            readers[child as usize] = match readers[child as usize] {
                Reader::None => Reader::One(class as u32),
                Reader::One(one) if one == class as u32 => Reader::One(one),
                _ => Reader::Several,
            };
        }
    }
    for &root in &work.roots {
        readers[root as usize] = Reader::Several;
    }
    readers
}
