//! Strongly connected components: sets of classes that can be computed from one another. After reduction, such a set
//! is the layouts and other forms of one value, and the condensation is the network.

use super::canonical::Work;

/// The condensation of a reduced e-graph.
#[derive(Clone, Debug)]
pub(super) struct Components {
    /// The classes of each component, sorted. A component comes after all components that it reads.
    pub classes: Vec<Vec<u32>>,
    /// The component of each class.
    pub of: Vec<u32>,
    /// The index of each class in its component.
    pub place: Vec<u32>,
    /// The components that each reads, sorted.
    pub children: Vec<Vec<u32>>,
    /// The components that read each, sorted.
    pub readers: Vec<Vec<u32>>,
    /// For each class, the other components that read it, sorted.
    pub class_readers: Vec<Vec<u32>>,
}

impl Components {
    pub(crate) fn new(work: &Work) -> Self {
        let (classes, of) = tarjan(work);
        let mut place = vec![0; of.len()];
        for classes in &classes {
            for (at, &class) in classes.iter().enumerate() {
                place[class as usize] = at as u32;
            }
        }
        let mut children = vec![Vec::new(); classes.len()];
        let mut readers = vec![Vec::new(); classes.len()];
        let mut class_readers = vec![Vec::new(); of.len()];
        for (at, members) in classes.iter().enumerate() {
            let read = members
                .iter()
                .flat_map(|&class| &work.classes[class as usize])
                .flat_map(|node| &node.children);
            let mut read: Vec<u32> = read.copied().filter(|&child| of[child as usize] != at as u32).collect();
            read.sort_unstable();
            read.dedup();
            for &child in &read {
                class_readers[child as usize].push(at as u32);
            }
            let mut values: Vec<u32> = read.iter().map(|&child| of[child as usize]).collect();
            values.sort_unstable();
            values.dedup();
            for &child in &values {
                readers[child as usize].push(at as u32);
            }
            children[at] = values;
        }
        Self { classes, of, place, children, readers, class_readers }
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Returns the number of classes in the largest component.
    pub(crate) fn largest(&self) -> usize {
        self.classes.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// Tarjan's algorithm from the roots, without recursion (SIAM Journal on Computing 1(2), 1972).
fn tarjan(work: &Work) -> (Vec<Vec<u32>>, Vec<u32>) {
    const NEW: u32 = u32::MAX;
    let size = work.classes.len();
    let (mut index, mut low) = (vec![NEW; size], vec![0; size]);
    let (mut of, mut components) = (vec![NEW; size], Vec::new());
    let (mut open, mut next) = (Vec::new(), 0);
    for &root in &work.roots {
        // Each entry is a class, a candidate and a child.
        let mut calls = vec![(root, 0, 0)];
        while let Some((class, node, child)) = calls.pop() {
            let at = class as usize;
            if node == 0 && child == 0 {
                if index[at] != NEW {
                    continue;
                }
                (index[at], low[at]) = (next, next);
                next += 1;
                open.push(class);
            }
            match work.classes[at].get(node).map(|node| node.children.get(child)) {
                Some(Some(&below)) => {
                    calls.push((class, node, child + 1));
                    if index[below as usize] == NEW {
                        calls.push((below, 0, 0));
                    } else if of[below as usize] == NEW {
                        low[at] = low[at].min(index[below as usize]);
                    }
                }
                Some(None) if node + 1 < work.classes[at].len() => calls.push((class, node + 1, 0)),
                _ => {
                    if low[at] == index[at] {
                        let start = open
                            .iter()
                            .rposition(|&other| other == class)
                            .expect("a class is open until closed");
                        let mut members = open.split_off(start);
                        members.sort_unstable();
                        members.iter().for_each(|&member| of[member as usize] = components.len() as u32);
                        components.push(members);
                    } else if let Some(&(parent, ..)) = calls.last() {
                        low[parent as usize] = low[parent as usize].min(low[at]);
                    }
                }
            }
        }
    }
    (components, of)
}
