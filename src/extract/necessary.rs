//! The classes that every selection contains.
//!
//! These are the fact landmarks of a delete-free planning task, all of them (Keyder, Richter, Helmert: Sound and
//! Complete Landmarks for And/Or Graphs, ECAI 2010). A class needs itself and everything that all of its candidates
//! need. A candidate needs everything that any of its children needs. The answer is the greatest solution of these
//! equations.

use super::canonical::Work;

/// Returns for each class whether every selection contains it, within a limit on visits of children. A class that is
/// not visited counts as not necessary; this costs only speed.
pub(crate) fn necessary(work: &Work, visits: usize) -> Vec<bool> {
    let size = work.classes.len();
    let mut is = vec![false; size];
    for &root in &work.roots {
        is[root as usize] = true;
    }
    let edges: usize = work.classes.iter().flatten().map(|node| node.children.len() + 1).sum();
    let order = below_first(work);
    let mut left = visits;
    // Sixty-four classes at a time, those with the most readers first, because they are shared.
    let mut asked: Vec<u32> = order.clone();
    let mut reads = vec![0_u32; size];
    work.classes
        .iter()
        .flatten()
        .flat_map(|node| &node.children)
        .for_each(|&child| reads[child as usize] += 1);
    asked.sort_by_key(|&class| (std::cmp::Reverse(reads[class as usize]), class));
    let mut needs = vec![0_u64; size];
    let mut own = vec![0_u64; size];
    for some in asked.chunks(64) {
        needs.fill(u64::MAX);
        own.fill(0);
        for (bit, &class) in some.iter().enumerate() {
            own[class as usize] = 1 << bit;
        }
        loop {
            if left < edges {
                return is;
            }
            left -= edges;
            let mut settled = true;
            for &class in &order {
                let at = class as usize;
                let all = work.classes[at].iter().fold(u64::MAX, |all, node| {
                    all & node.children.iter().fold(0, |any, &child| any | needs[child as usize])
                });
                let new = all | own[at];
                settled &= new == needs[at];
                needs[at] = new;
            }
            if settled {
                break;
            }
        }
        let needed = work.roots.iter().fold(0, |any, &root| any | needs[root as usize]);
        for (bit, &class) in some.iter().enumerate() {
            is[class as usize] |= needed >> bit & 1 == 1;
        }
    }
    is
}

/// Returns the classes that are reached. Most classes come before those that read them.
fn below_first(work: &Work) -> Vec<u32> {
    let mut seen = vec![false; work.classes.len()];
    let mut order = Vec::new();
    for &root in &work.roots {
        let mut stack = vec![(root, false)];
        while let Some((class, done)) = stack.pop() {
            if done {
                order.push(class);
            } else if !std::mem::replace(&mut seen[class as usize], true) {
                stack.push((class, true));
                let children = work.classes[class as usize].iter().flat_map(|node| &node.children);
                stack.extend(children.filter(|child| !seen[**child as usize]).map(|&child| (child, false)));
            }
        }
    }
    order
}
