//! The frontier: dynamic programming that passes over the components one at a time.
//!
//! A state has one bit for each live class. For a component that has not been passed yet, the bit says that a passed
//! component *demands* the class. For a component that has been passed, the bit says that the class is *provided* to
//! components that have not been passed. To pass a component, each state is combined with each option that computes
//! what is demanded of the component and reads, of passed components, only what they provide. A state is dropped if
//! another state demands no more, provides no less and costs no more. The other state may even demand more classes,
//! if conversions can compute these from what the dropped state demands and cost no more than the difference.
//!
//! Cycles lie inside components, so a selection that is acyclic in each component is acyclic.

use super::option::{Choice, Inner, Search, bits};
use super::order::ComponentOrder;
use super::table::Table;
use std::ops::Range;

mod dominance;
mod network;
mod prune;

pub(super) use network::Network;

/// What happens if there are more states than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// The run stops.
    Stop,
    /// The most promising states are kept. The result is a selection, but not always the best one.
    Drop,
    /// The least promising states are merged into states that demand less than each and provide more. The result is a
    /// lower bound, but not always a selection.
    Merge,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// The states that are kept at one time.
    pub states: usize,
    /// The states that are made over all steps, plus the comparisons between them in thousands.
    pub work: usize,
    /// The candidates that are tried for the options of one component.
    pub options: usize,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The cost of the selection; for a run with merged states, a lower bound.
    pub cost: f64,
    /// For each class the index of its candidate; without meaning after a run with merged states.
    pub choice: Vec<Option<u32>>,
    pub states: usize,
    pub peak: usize,
}

/// The reason why a run gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There were too many states at one time.
    States,
    /// All steps together took too much work.
    Work,
    /// A component has too many classes or options.
    Options,
    /// No kept state could be completed.
    DeadEnd,
}

impl Network<'_> {
    /// Passes over all components.
    pub(crate) fn run(&self, plan: &ComponentOrder, caps: Caps, excess: Excess) -> Result<Outcome, Stop> {
        let mut run = Run::new(self, plan, caps, excess);
        for step in 0..plan.order.len() {
            run.pass(step)?;
        }
        run.finish()
    }
}

/// What is stored about a step, to find the selection at the end.
struct Trail {
    from: Vec<u32>,
    option: Vec<u32>,
    /// For each option, the bits of its classes and the indices of its candidates.
    options: Vec<(u64, Vec<u32>)>,
}

/// What passing a component does to the bits of states.
struct Crossing {
    component: usize,
    /// The slots and places of its classes that have a bit before it is passed, and afterwards.
    before: Vec<(u32, u32)>,
    after: Vec<(u32, u32)>,
    /// The places in `after`.
    keep: u64,
    /// In a merged run, the bit that says that some form of it is demanded; otherwise `NONE`.
    some: u32,
    /// Slots of classes that are live no longer.
    dead: Vec<u32>,
}

impl Crossing {
    /// Returns the bits that no state has afterwards, unless the option sets them.
    fn clear(&self, words: usize) -> Vec<u64> {
        let mut clear = vec![0; words];
        self.dead
            .iter()
            .chain(self.before.iter().map(|(slot, _)| slot))
            .for_each(|&slot| set(&mut clear, slot));
        if self.some != NONE {
            set(&mut clear, self.some);
        }
        clear
    }
}

/// What a state demands of a component.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Demand {
    /// The bits of the classes.
    wanted: u64,
    /// Whether it demands some form of the component, whichever it is.
    any: bool,
}

/// The options of a component, searched once for each demand.
struct Offers<'a> {
    search: Search<'a>,
    options: Vec<Choice>,
    known: Vec<(Demand, Range<usize>)>,
}

impl Offers<'_> {
    /// Returns the range of the options that meet a demand.
    fn range(&mut self, demand: Demand, before: &[(u32, u32)]) -> Result<Range<usize>, Stop> {
        if let Some((_, range)) = self.known.iter().find(|(other, _)| *other == demand) {
            return Ok(range.clone());
        }
        let start = self.options.len();
        if demand.any {
            for &(_, place) in before {
                self.options.extend(self.search.options(1 << place).ok_or(Stop::Options)?);
            }
        } else {
            self.options.extend(self.search.options(demand.wanted).ok_or(Stop::Options)?);
        }
        let range = start..self.options.len();
        self.known.push((demand, range.clone()));
        Ok(range)
    }
}

struct Run<'a> {
    network: &'a Network<'a>,
    plan: &'a ComponentOrder,
    caps: Caps,
    excess: Excess,
    words: usize,
    slot: Vec<u32>,
    /// The class of each slot.
    class: Vec<u32>,
    free: Vec<u32>,
    /// The slots of live classes that are demanded.
    demanded: Vec<u64>,
    provided: Vec<u64>,
    roots: Vec<u64>,
    /// In a run with merged states, for each component the bit that says that some class of it is demanded. A merge
    /// of states that demand different classes keeps this bit, so that the component is still paid for.
    some: Vec<u32>,
    states: Table,
    next: Table,
    trail: Vec<Trail>,
    /// The number of the current step.
    at: u32,
    work: usize,
    made: usize,
    peak: usize,
}

const NONE: u32 = u32::MAX;

impl<'a> Run<'a> {
    fn new(network: &'a Network<'a>, plan: &'a ComponentOrder, caps: Caps, excess: Excess) -> Self {
        let components = network.components;
        // The largest number of classes that are live at one time gives the width of a state.
        let mut change = vec![0_i64; plan.order.len() + 2];
        for class in 0..components.of.len() as u32 {
            if components.of[class as usize] != NONE
                && let Some((first, last)) = plan.life(components, class)
            {
                change[first as usize] += 1;
                change[last as usize + 1] -= 1;
            }
        }
        if excess == Excess::Merge {
            for component in 0..components.len() {
                if let Some(first) = plan.first_demand(components, component) {
                    change[first as usize] += 1;
                    change[plan.step[component] as usize + 1] -= 1;
                }
            }
        }
        let peak = change.iter().scan(0, |live, change| {
            *live += change;
            Some(*live)
        });
        let slots = peak.max().unwrap_or(0) as usize;
        let words = slots.div_ceil(64).max(1);
        let mut roots = vec![0; components.len()];
        for &root in &network.work.roots {
            roots[components.of[root as usize] as usize] |= 1 << components.place[root as usize];
        }
        let mut states = Table::new(words);
        states.insert(&vec![0; words], 0.0, 0, 0);
        Self {
            network,
            plan,
            caps,
            excess,
            words,
            slot: vec![NONE; components.of.len()],
            class: vec![NONE; words * 64],
            free: (0..slots as u32).rev().collect(),
            demanded: vec![0; words],
            provided: vec![0; words],
            roots,
            some: vec![NONE; components.len()],
            states,
            next: Table::new(words),
            trail: Vec::with_capacity(plan.order.len()),
            at: 0,
            work: 0,
            made: 0,
            peak: 1,
        }
    }

    /// Passes over one component.
    fn pass(&mut self, step: usize) -> Result<(), Stop> {
        self.at = step as u32;
        let crossing = self.enter(step);
        let options = self.extend(&crossing)?;
        self.leave(crossing);
        self.made += self.next.len();
        self.prune()?;
        let options = options.into_iter().map(|choice| (choice.computes, choice.places)).collect();
        self.trail.push(Trail {
            from: self.states.from.clone(),
            option: self.states.option.clone(),
            options,
        });
        if self.states.len() == 0 {
            return Err(Stop::DeadEnd);
        }
        if self.work > self.caps.work {
            return Err(Stop::Work);
        }
        Ok(())
    }

    /// Gives a bit to each class that becomes live at this step.
    fn enter(&mut self, step: usize) -> Crossing {
        let (network, plan) = (self.network, self.plan);
        let components = network.components;
        let component = plan.order[step] as usize;
        let touched = touched(&network.inner[component]);
        let mut dead = Vec::new();
        let mut keep = 0_u64;
        // The bits of its own classes before and after the step.
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for &class in touched.iter().chain(&components.classes[component]) {
            let Some((first, last)) = plan.life(components, class) else {
                continue;
            };
            if first == step as u32 {
                let slot = self.free.pop().expect("there are as many slots as live classes");
                self.slot[class as usize] = slot;
                self.class[slot as usize] = class;
            }
            let slot = self.slot[class as usize];
            if last == step as u32 {
                dead.push(slot);
            }
            if components.of[class as usize] == component as u32 {
                let place = components.place[class as usize];
                if first < step as u32 {
                    before.push((slot, place));
                }
                if last > step as u32 {
                    after.push((slot, place));
                    keep |= 1 << place;
                }
            } else if plan.step[components.of[class as usize] as usize] > step as u32 {
                set(&mut self.demanded, slot);
            }
        }
        if self.excess == Excess::Merge {
            self.enter_components(step, &touched);
        }
        Crossing { component, before, after, keep, some: self.some[component], dead }
    }

    /// Gives a bit to each component of which some form is demanded from this step on.
    fn enter_components(&mut self, step: usize, touched: &[u32]) {
        for &class in touched {
            let below = self.network.components.of[class as usize] as usize;
            if self.some[below] == NONE && self.plan.step[below] > step as u32 {
                let slot = self.free.pop().expect("there are as many slots as live components");
                self.some[below] = slot;
                self.class[slot as usize] = NONE;
                set(&mut self.demanded, slot);
            }
        }
    }

    /// Extends each state by each option that meets its demand. Returns all options.
    fn extend(&mut self, crossing: &Crossing) -> Result<Vec<Choice>, Stop> {
        let Crossing { component, before, after, some, .. } = crossing;
        let inner = &self.network.inner[*component];
        let search = Search::new(inner, self.words, crossing.keep, &self.slot, self.caps.options);
        let mut offers = Offers { search, options: Vec::new(), known: Vec::new() };
        let clear = crossing.clear(self.words);
        self.next.clear();
        let mut key = vec![0; self.words];
        for state in 0..self.states.len() {
            let old = self.states.key(state);
            let wanted = before
                .iter()
                .filter(|(slot, _)| get(old, *slot))
                .fold(0, |wanted, (_, place)| wanted | 1 << place);
            let wanted = wanted | self.roots[*component];
            let any = wanted == 0 && *some != NONE && get(old, *some);
            let fresh = offers.options.len();
            let range = offers.range(Demand { wanted, any }, before)?;
            if self.excess == Excess::Merge {
                for choice in &mut offers.options[fresh..] {
                    self.note_components(&mut choice.reads);
                }
            }
            self.work += range.len();
            for option in range {
                let choice = &offers.options[option];
                // Of passed components it may read only what they provide.
                let lacks = |word: usize| choice.reads[word] & self.provided[word] & !old[word] != 0;
                if (0..self.words).any(lacks) {
                    continue;
                }
                for word in 0..self.words {
                    key[word] = (old[word] | choice.reads[word]) & !clear[word];
                }
                for &(slot, place) in after {
                    if choice.computes >> place & 1 == 1 {
                        set(&mut key, slot);
                    }
                }
                self.next.insert(&key, self.states.cost[state] + choice.cost, state as u32, option as u32);
            }
        }
        self.work += offers.search.steps / 8;
        Ok(offers.options)
    }

    /// Takes back the bits of classes that are live no longer.
    fn leave(&mut self, crossing: Crossing) {
        let Crossing { component, before, after, some, dead, .. } = crossing;
        for &(slot, _) in &before {
            unset(&mut self.demanded, slot);
        }
        for &(slot, _) in &after {
            set(&mut self.provided, slot);
        }
        if some != NONE {
            unset(&mut self.demanded, some);
            self.free.push(some);
            self.some[component] = NONE;
        }
        for slot in dead {
            unset(&mut self.demanded, slot);
            unset(&mut self.provided, slot);
            self.free.push(slot);
            self.slot[self.class[slot as usize] as usize] = NONE;
        }
    }

    /// Adds the bits of the components of which an option demands a class.
    fn note_components(&self, reads: &mut [u64]) {
        for word in 0..self.words {
            for bit in bits(reads[word] & self.demanded[word]) {
                let class = self.class[word * 64 + bit];
                if class != NONE {
                    set(reads, self.some[self.network.components.of[class as usize] as usize]);
                }
            }
        }
    }

    /// Finds the selection by going back from the last state.
    fn finish(self) -> Result<Outcome, Stop> {
        let components = self.network.components;
        let mut choice = vec![None; components.of.len()];
        let cost = *self.states.cost.first().ok_or(Stop::DeadEnd)?;
        let mut state = 0;
        for (step, trail) in self.trail.iter().enumerate().rev() {
            let (computes, places) = &trail.options[trail.option[state] as usize];
            let members = &components.classes[self.plan.order[step] as usize];
            for (at, &place) in bits(*computes).zip(places) {
                choice[members[at] as usize] = Some(place);
            }
            state = trail.from[state] as usize;
        }
        Ok(Outcome { cost, choice, states: self.made, peak: self.peak })
    }
}

/// Returns the classes of other components that a component may read, in ascending order.
fn touched(inner: &Inner) -> Vec<u32> {
    let mut touched: Vec<u32> =
        inner.classes.iter().flatten().flat_map(|node| &node.outer).copied().collect();
    touched.sort_unstable();
    touched.dedup();
    touched
}

fn set(words: &mut [u64], slot: u32) {
    words[slot as usize / 64] |= 1 << (slot % 64);
}

fn unset(words: &mut [u64], slot: u32) {
    words[slot as usize / 64] &= !(1 << (slot % 64));
}

fn get(words: &[u64], slot: u32) -> bool {
    words[slot as usize / 64] >> (slot % 64) & 1 == 1
}
