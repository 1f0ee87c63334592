//! What every selection has: classes that the roots cannot do without, whatever is chosen.
//!
//! The fact landmarks of a planning task without deletes, complete for it (Keyder, Richter, Helmert: Sound
//! and Complete Landmarks for And/Or Graphs, ECAI 2010): what a class needs is itself and what all of its
//! candidates need, of each what any of its children needs; the greatest solution.

use super::canonical::Work;

/// For each class whether every selection has it, as far as visits of children go; what is left out is no
/// longer known, which costs only speed.
pub(super) fn necessary(work: &Work, visits: usize) -> Vec<bool> {
    let size = work.classes.len();
    let mut is = vec![false; size];
    for &root in &work.roots {
        is[root as usize] = true;
    }
    let edges: usize = work.classes.iter().flatten().map(|node| node.children.len() + 1).sum();
    let order = below_first(work);
    let mut left = visits;
    // Sixty-four classes at a time, those that are read most first: they are shared.
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

/// The classes that are reached, what is read mostly before what reads it.
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

#[cfg(test)]
mod tests {
    use super::necessary;
    use crate::extract::canonical::Work;
    use crate::extract::node::Node;

    fn work(classes: &[&[&[u32]]]) -> Work {
        let node = |children: &&[u32]| Node { cost: 1.0, children: children.to_vec(), index: 0 };
        let classes = classes.iter().map(|nodes| nodes.iter().map(node).collect()).collect();
        Work { classes, roots: vec![0], original: Vec::new(), total: 0 }
    }

    #[test]
    fn what_all_ways_lead_through_is_necessary() {
        // Both ways from 0 come to 3, one by 1 and one by 2; 4 is of one of them.
        let work = work(&[&[&[1], &[2]], &[&[3]], &[&[3, 4]], &[&[]], &[&[]]]);
        assert_eq!(necessary(&work, 1000), [true, false, false, true, false]);
        // Without visits only the roots are known.
        assert_eq!(necessary(&work, 0), [true, false, false, false, false]);
    }

    #[test]
    fn forms_that_make_one_another_rest_on_what_makes_one_of_them() {
        let work = work(&[&[&[1]], &[&[2], &[3]], &[&[1], &[3]], &[&[]]]);
        assert_eq!(necessary(&work, 1000), [true, true, false, true]);
    }
}
