//! Orders in which the frontier may pass over the components, and the work that each predicts.
//!
//! Any order is correct. A value that was passed before all of its readers must guess what they will
//! want; a value whose readers were passed before it knows what is demanded. Either way it is *live*
//! while some of the components that it concerns are passed and some are not, and the number of
//! states is exponential in what is live at once. From the root down is best for chains, blocks and
//! concatenations; long skips (the ladder of a U-Net) want an order that eats both rails at once.

use super::canonical::Work;
use super::component::Components;
use std::collections::{BTreeSet, VecDeque};

/// An order of the components, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub order: Vec<u32>,
    /// The work to expect, in states.
    pub predicted: f64,
    /// For each component the step that passes it.
    pub step: Vec<u32>,
}

impl Plan {
    pub(crate) fn new(components: &Components, order: Vec<u32>) -> Self {
        let mut step = vec![0; components.len()];
        for (at, &component) in order.iter().enumerate() {
            step[component as usize] = at as u32;
        }
        Self { predicted: predict(components, &order), order, step }
    }

    /// The first and the last step that concern a class, if other components read it.
    pub(crate) fn life(&self, components: &Components, class: u32) -> Option<(u32, u32)> {
        let own = self.step[components.of[class as usize] as usize];
        let steps = components.class_readers[class as usize].iter().map(|&reader| self.step[reader as usize]);
        let (first, last) = (steps.clone().min()?, steps.max()?);
        Some((first.min(own), last.max(own)))
    }

    /// The step that first demands something of a component that is not passed by then.
    pub(crate) fn first_demand(&self, components: &Components, component: usize) -> Option<u32> {
        let readers = components.readers[component].iter();
        let first = readers.map(|&reader| self.step[reader as usize]).min()?;
        (first < self.step[component]).then_some(first)
    }
}

/// From the root down: right for most networks, and quickly made.
pub(super) fn down(work: &Work, components: &Components) -> Plan {
    Plan::new(components, greedy(work, components, Rule::Down))
}

/// The other orders worth a try, least predicted work first.
pub(super) fn others(work: &Work, components: &Components) -> Vec<Plan> {
    let near = breadth(work, components);
    let mut orders = vec![greedy(work, components, Rule::Any)];
    let far = near.last().map(|&last| walk(components, [last]));
    for order in [Some(near), far].into_iter().flatten() {
        let mut distance = vec![0; components.len()];
        for &at in &order {
            let around = components.children[at as usize].iter().chain(&components.readers[at as usize]);
            for &other in around {
                if distance[other as usize] == 0 && other != order[0] {
                    distance[other as usize] = distance[at as usize] + 1;
                }
            }
        }
        orders.extend(WINDOWS.map(|window| greedy(work, components, Rule::Window(&distance, window))));
        orders.push(order);
    }
    let mut plans: Vec<Plan> = orders.into_iter().map(|order| Plan::new(components, order)).collect();
    plans.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
    plans.dedup();
    plans
}

/// How far a window looks ahead of the nearest component that is left.
const WINDOWS: [u32; 3] = [1, 3, 8];

/// Which components may be passed next.
#[derive(Clone, Copy)]
enum Rule<'a> {
    /// Those whose readers were all passed.
    Down,
    /// Any beside what was passed.
    Any,
    /// Those whose distance is at most so much more than the least one left.
    Window(&'a [u32], u32),
}

/// Breadth first from the roots, edges taken both ways.
fn breadth(work: &Work, components: &Components) -> Vec<u32> {
    walk(components, work.roots.iter().map(|&root| components.of[root as usize]))
}

fn walk(components: &Components, start: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut seen = vec![false; components.len()];
    let mut queue: VecDeque<u32> = start.into_iter().collect();
    let mut order = Vec::new();
    let mut rest = 0..components.len() as u32;
    loop {
        while let Some(at) = queue.pop_front() {
            if !std::mem::replace(&mut seen[at as usize], true) {
                order.push(at);
                queue.extend(components.children[at as usize].iter().chain(&components.readers[at as usize]));
            }
        }
        match rest.find(|&at| !seen[at as usize]) {
            Some(at) => queue.push_back(at),
            None => return order,
        }
    }
}

/// Of the components that the rule allows always the one that leaves the least live.
fn greedy(work: &Work, components: &Components, rule: Rule<'_>) -> Vec<u32> {
    let mut state = Live::new(components);
    let mut near = BTreeSet::new();
    let mut order = Vec::new();
    let down = matches!(rule, Rule::Down);
    let ready = |state: &Live<'_>, at: u32| !down || state.unread[at as usize] == 0;
    let mut starts: Vec<u32> = work.roots.iter().map(|&root| components.of[root as usize]).collect();
    starts.extend((0..components.len() as u32).rev());
    let mut starts = starts.into_iter();
    while order.len() < components.len() {
        // The newest among equals: it keeps to one branch.
        let end = match rule {
            Rule::Window(distance, window) => {
                let least = near.iter().map(|a: &(usize, u32)| distance[a.1 as usize]).min().unwrap_or(0);
                Some((distance, least + window))
            }
            _ => None,
        };
        let allowed =
            near.iter().rev().filter(|a| end.is_none_or(|(distance, end)| distance[a.1 as usize] <= end));
        let best = allowed.min_by(|a, b| state.change(a.1).total_cmp(&state.change(b.1))).copied();
        let at = match best {
            Some(best) => {
                near.remove(&best);
                best.1
            }
            None => match starts.find(|&at| !state.passed[at as usize] && ready(&state, at)) {
                Some(at) => at,
                None => break,
            },
        };
        if state.passed[at as usize] {
            continue;
        }
        state.pass(at);
        order.push(at);
        let around = components.children[at as usize].iter().chain(if down {
            &[][..]
        } else {
            &components.readers[at as usize]
        });
        for &other in around {
            if !state.passed[other as usize] && ready(&state, other) && state.known.insert(other) {
                near.insert((order.len(), other));
            }
        }
    }
    order
}

/// What is live while components are passed one by one.
struct Live<'a> {
    components: &'a Components,
    passed: Vec<bool>,
    /// Readers that are not passed.
    unread: Vec<u32>,
    /// Classes that others read.
    forms: Vec<f64>,
    known: BTreeSet<u32>,
}

impl<'a> Live<'a> {
    fn new(components: &'a Components) -> Self {
        let read = |class: &&u32| !components.class_readers[**class as usize].is_empty();
        let forms =
            components.classes.iter().map(|classes| classes.iter().filter(read).count() as f64).collect();
        let unread = components.readers.iter().map(|readers| readers.len() as u32).collect();
        Self { components, passed: vec![false; components.len()], unread, forms, known: BTreeSet::new() }
    }

    /// Bits by which the frontier grows if this component is passed next.
    fn change(&self, at: u32) -> f64 {
        let mut change = 0.0;
        let readers = self.components.readers[at as usize].len() as u32;
        if self.unread[at as usize] < readers {
            change -= demanded(self.forms[at as usize]);
        }
        if self.unread[at as usize] > 0 {
            change += provided(self.forms[at as usize]);
        }
        for &child in &self.components.children[at as usize] {
            let unread = self.unread[child as usize];
            if self.passed[child as usize] {
                if unread == 1 {
                    change -= provided(self.forms[child as usize]);
                }
            } else if unread == self.components.readers[child as usize].len() as u32 {
                change += demanded(self.forms[child as usize]);
            }
        }
        change
    }

    fn pass(&mut self, at: u32) {
        self.passed[at as usize] = true;
        for &child in &self.components.children[at as usize] {
            self.unread[child as usize] -= 1;
        }
    }
}

/// Bits that a value takes while it is demanded: mostly one form is, if any.
fn demanded(forms: f64) -> f64 {
    (1.0 + forms).log2()
}

/// Bits that a value takes while what was guessed is provided: any set of forms may be.
fn provided(forms: f64) -> f64 {
    forms
}

/// The work that an order predicts: the sum over its steps of the states that may be live.
fn predict(components: &Components, order: &[u32]) -> f64 {
    let mut state = Live::new(components);
    let (mut bits, mut work) = (0.0_f64, 0.0_f64);
    for &at in order {
        bits += state.change(at);
        state.pass(at);
        work += bits.min(1000.0).exp2();
    }
    work
}
