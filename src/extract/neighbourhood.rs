//! Local search in large neighbourhoods: most of a selection is fixed, and a few classes and everything that they may
//! read are chosen again, exactly.
//!
//! Shaw: Using Constraint Programming and Local Search Methods to Solve Vehicle Routing Problems, CP 1998. A fixed
//! class has one candidate, so after reduction little more than the neighbourhood is left.

use super::canonical::{Work, price, reach};
use super::component::Components;
use super::frontier::{Caps, Excess, Network};
use super::node::Node;
use super::order;
use super::ready::Ready;
use super::reduce::Reduced;
use crate::random::Random;

/// The number of classes with several candidates in the first neighbourhoods, and in the smallest and the largest
/// ones.
const FREE: usize = 40;
const LEAST: usize = 8;
const MOST: usize = 400;
/// The limits of states, work and candidates for one neighbourhood.
const CAPS: Caps = Caps { states: 400, work: 60_000, options: 20_000 };
/// The approximate work of a neighbourhood that turns out to be too large.
const GIVEN_UP: usize = 5_000;
/// The search ends after so many neighbourhoods without a gain that each class was in this many of them on average.
const PATIENCE: usize = 6;

/// The extent of a search.
pub(super) struct Searched {
    /// The number of visited candidates and states.
    pub steps: usize,
    /// Whether it ended at its limit; otherwise it found no more improvements.
    pub limited: bool,
}

/// Makes an acyclic selection cheaper, or leaves it unchanged.
pub(super) fn improve(work: &Work, choice: &mut Vec<Option<u32>>, limit: usize) -> Searched {
    let open = |class: &u32| work.classes[*class as usize].len() > 1;
    let open: Vec<u32> = (0..work.classes.len() as u32).filter(open).collect();
    let readers = work.readers();
    if open.is_empty() {
        return Searched { steps: 0, limited: false };
    }
    *choice = used(work, choice);
    let mut best = price(&work.classes, &work.roots, choice);
    let mut rest = complete(&work.classes, choice);
    let mut random = Random(1);
    let (mut size, mut steps, mut idle) = (FREE, 0, 0);
    while steps < limit && idle * size < PATIENCE * open.len() + PATIENCE * MOST {
        // A class that is not used has nothing to gain.
        let Some(start) =
            (0..8).map(|_| open[random.below(open.len())]).find(|&class| choice[class as usize].is_some())
        else {
            idle += 1;
            steps += 1;
            continue;
        };
        let free = around(work, &readers, start, size, &mut random);
        let part = restricted(work, &rest, &free);
        let (found, done) = solve(&part);
        steps += done + part.classes.iter().map(Vec::len).sum::<usize>();
        match found {
            None => {
                size = (size * 3 / 4).max(LEAST);
                idle += 1;
            }
            Some(found) => {
                let found = widened(&found, &rest, &free);
                let cost = price(&work.classes, &work.roots, &found);
                if cost < best * (1.0 - LITTLE) {
                    best = cost;
                    *choice = used(work, &found);
                    rest = complete(&work.classes, choice);
                    idle = 0;
                } else {
                    idle += 1;
                    size = (size + size / 16 + 1).min(MOST);
                }
            }
        }
    }
    Searched { steps, limited: steps >= limit }
}

/// A relative gain below this may be rounding.
const LITTLE: f64 = 1e-12;

/// Returns about `size` classes with several candidates near a class, and those between them, in random directions.
fn around(work: &Work, readers: &[Vec<u32>], start: u32, size: usize, random: &mut Random) -> Vec<bool> {
    let mut free = vec![false; work.classes.len()];
    let mut queue = vec![start];
    let mut count = 0;
    while count < size && !queue.is_empty() {
        // This is between breadth-first search and a random walk.
        let at = random.below(queue.len().min(SPREAD));
        let class = queue.remove(at);
        if std::mem::replace(&mut free[class as usize], true) {
            continue;
        }
        count += usize::from(work.classes[class as usize].len() > 1);
        let below = work.classes[class as usize].iter().flat_map(|node| &node.children);
        for &next in below.chain(&readers[class as usize]) {
            if !free[next as usize] && queue.len() < WAITING {
                queue.push(next);
            }
        }
    }
    free
}

/// The next class is one of the first classes in the queue, of which there are this many.
const SPREAD: usize = 6;
/// The most classes in the queue. Without this limit, a class that everything reads would add everything.
const WAITING: usize = 2000;

/// Returns a choice for every class: that of the selection, and for other classes the cheapest tree that uses it.
/// Together they are acyclic.
fn complete(classes: &[Vec<Node>], choice: &[Option<u32>]) -> Vec<u32> {
    let mut ready = Ready::new(classes, choice.iter().map(Option::is_some).collect());
    let mut rest: Vec<Option<u32>> = choice.to_vec();
    let mut cost = vec![0.0; classes.len()];
    let mut given = (0..classes.len() as u32).rev().filter(|class| choice[*class as usize].is_some());
    loop {
        let class = match given.next() {
            Some(class) => class,
            None => match ready.settle() {
                Some((price, class, place)) => {
                    rest[class as usize] = Some(place);
                    cost[class as usize] = price;
                    class
                }
                None => break,
            },
        };
        ready.release(class, |node| {
            let sum: f64 = node.children.iter().map(|&child| cost[child as usize]).sum();
            Some((node.cost + sum).min(f64::MAX))
        });
    }
    // Classes that reduction emptied have no candidates, and nothing reads their choice.
    rest.into_iter().map(|place| place.unwrap_or(0)).collect()
}

/// Returns the problem in which only the free classes have a choice.
fn restricted(work: &Work, rest: &[u32], free: &[bool]) -> Work {
    let mut classes = vec![Vec::new(); work.classes.len()];
    let mut stack = work.roots.clone();
    let mut seen = vec![false; work.classes.len()];
    while let Some(class) = stack.pop() {
        let at = class as usize;
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        classes[at] = if free[at] {
            work.classes[at].clone()
        } else {
            work.classes[at].get(rest[at] as usize).cloned().into_iter().collect()
        };
        stack.extend(
            classes[at].iter().flat_map(|node: &Node| &node.children).filter(|child| !seen[**child as usize]),
        );
    }
    Work { classes, roots: work.roots.clone(), original: Vec::new(), total: 0 }
}

/// Returns the cheapest selection of a small problem, by indices into its classes, and the work. The selection is
/// `None` if it takes too much work.
fn solve(part: &Work) -> (Option<Vec<Option<u32>>>, usize) {
    let reduced = Reduced::new(part);
    let components = Components::new(&reduced.work);
    let worth = vec![0.0; part.classes.len()];
    let Some(network) = Network::new(&reduced.work, &components, &worth) else { return (None, 0) };
    let plan = order::down(&reduced.work, &components);
    let Ok(outcome) = network.run(&plan, CAPS, Excess::Stop) else { return (None, GIVEN_UP) };
    (Some(reduced.restore(&outcome.choice)), outcome.states)
}

/// Translates a choice of a restricted problem to indices into the full classes.
fn widened(found: &[Option<u32>], rest: &[u32], free: &[bool]) -> Vec<Option<u32>> {
    let place = |(class, place): (usize, &Option<u32>)| {
        place.map(|place| if free[class] { place } else { rest[class] })
    };
    found.iter().enumerate().map(place).collect()
}

/// Returns the part of a choice that the roots reach.
fn used(work: &Work, choice: &[Option<u32>]) -> Vec<Option<u32>> {
    let used = reach(&work.classes, &work.roots, choice);
    choice.iter().zip(used).map(|(place, used)| place.filter(|_| used)).collect()
}
