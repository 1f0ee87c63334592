//! Orders in which the frontier may pass over the components, and the predicted work of each.
//!
//! Every order is correct. If a value is passed before all of its readers, the frontier must guess what they will
//! demand. If its readers are passed first, it knows what is demanded. In both cases the value is *live* while some
//! but not all of the components that make or read it are passed. The number of states is exponential in the number
//! of values that are live at one time. The order from the roots down is best for chains, blocks and concatenations.
//! Long skip connections, as in a U-Net, need an order that proceeds along both sides of the skips at once.

use super::canonical::Work;
use super::component::Components;
use std::collections::{BTreeSet, VecDeque};

/// An order of the components, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ComponentOrder {
    pub order: Vec<u32>,
    /// The predicted work, in states.
    pub predicted: f64,
    /// For each component, the step that passes it.
    pub step: Vec<u32>,
}

impl ComponentOrder {
    pub(crate) fn new(components: &Components, order: Vec<u32>) -> Self {
        let mut step = vec![0; components.len()];
        for (at, &component) in order.iter().enumerate() {
            step[component as usize] = at as u32;
        }
        Self { predicted: predict(components, &order), order, step }
    }

    /// Returns the first and the last step that concern a class, if other components read it.
    pub(crate) fn life(&self, components: &Components, class: u32) -> Option<(u32, u32)> {
        let own = self.step[components.of[class as usize] as usize];
        let steps = components.class_readers[class as usize].iter().map(|&reader| self.step[reader as usize]);
        let (first, last) = (steps.clone().min()?, steps.max()?);
        Some((first.min(own), last.max(own)))
    }

    /// Returns the first step that demands something of a component, if the component is passed later.
    pub(crate) fn first_demand(&self, components: &Components, component: usize) -> Option<u32> {
        let readers = components.readers[component].iter();
        let first = readers.map(|&reader| self.step[reader as usize]).min()?;
        (first < self.step[component]).then_some(first)
    }
}

/// Returns the order from the roots down, which is right for most networks and quickly made.
pub(super) fn down(work: &Work, components: &Components) -> ComponentOrder {
    ComponentOrder::new(components, greedy(work, components, Rule::Down))
}

/// Returns other orders that are worth an attempt, those with the least predicted work first.
pub(super) fn others(work: &Work, components: &Components) -> Vec<ComponentOrder> {
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
    let mut plans: Vec<ComponentOrder> =
        orders.into_iter().map(|order| ComponentOrder::new(components, order)).collect();
    plans.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
    plans.dedup();
    plans
}

/// The distances that a window extends beyond the nearest component that is left.
const WINDOWS: [u32; 3] = [1, 3, 8];

/// The components that may be passed next.
#[derive(Clone, Copy)]
enum Rule<'a> {
    /// Those whose readers were all passed.
    Down,
    /// All neighbours of passed components.
    Any,
    /// Those whose distance exceeds the least remaining distance by at most this much.
    Window(&'a [u32], u32),
}

/// Returns the components breadth first from the roots, following edges in both directions.
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

/// Builds an order: always passes the component that leaves the fewest bits live, among those that the rule allows.
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
        // Among equal components the newest is taken, which keeps to one branch.
        let end = match rule {
            Rule::Window(distance, window) => {
                let least = near.iter().map(|a: &(usize, u32)| distance[a.1 as usize]).min().unwrap_or(0);
                Some((distance, least + window))
            }
            _ => None,
        };
        let allowed =
            near.iter().rev().filter(|a| end.is_none_or(|(distance, end)| distance[a.1 as usize] <= end));
        let changes = allowed.map(|own| (state.change(own.1), *own));
        let best = changes.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, own)| own);
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
    /// For each component, the number of its readers that are not passed.
    unread: Vec<u32>,
    /// For each component, the number of its classes that others read.
    forms: Vec<f64>,
    /// For each component, the bits that its value takes while it is demanded: usually at most one of its classes is.
    demanded: Vec<f64>,
    known: BTreeSet<u32>,
}

impl<'a> Live<'a> {
    fn new(components: &'a Components) -> Self {
        let read = |class: &&u32| !components.class_readers[**class as usize].is_empty();
        let forms: Vec<f64> =
            components.classes.iter().map(|classes| classes.iter().filter(read).count() as f64).collect();
        let demanded = forms.iter().map(|forms| (1.0 + forms).log2()).collect();
        let unread = components.readers.iter().map(|readers| readers.len() as u32).collect();
        let passed = vec![false; components.len()];
        Self { components, passed, unread, forms, demanded, known: BTreeSet::new() }
    }

    /// Returns the number of bits by which the frontier grows if this component is passed next.
    fn change(&self, at: u32) -> f64 {
        let mut change = 0.0;
        let readers = self.components.readers[at as usize].len() as u32;
        if self.unread[at as usize] < readers {
            change -= self.demanded[at as usize];
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
                change += self.demanded[child as usize];
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

/// Returns the bits that a value takes while it is provided by a guess: any set of its classes may be provided.
fn provided(forms: f64) -> f64 {
    forms
}

/// Predicts the work of an order: the sum of the possible live states over its steps.
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
