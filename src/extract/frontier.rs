//! The frontier: dynamic programming over the components, one at a time.
//!
//! A state holds, for each class that is live, one bit. Of a component that was not passed yet the
//! bit says that the class is *demanded* by one that was; of a component that was passed, that the
//! class is *provided* to those that were not. Passing a component extends each state by each option
//! that computes what is demanded of it and reads, of passed components, only what they provide. A
//! state is dropped if another demands no more, provides no less and costs no more; what it demands
//! beyond the other may also be made by conversions out of what the other demands, if those cost no
//! more than the difference.
//!
//! Cycles live inside components, so selections that are acyclic there are acyclic.

use super::option::{Choice, Inner, Search, bits};
use super::order::Plan;
use super::table::Table;
use std::ops::Range;

mod dominance;
mod network;
mod prune;

pub(super) use network::Network;

/// What to do when there are more states than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// Give up.
    Stop,
    /// Keep the most promising: the result is a selection, not always the best.
    Drop,
    /// Merge the least promising into states that demand less than each and provide more: the result
    /// is a bound, not always a selection.
    Merge,
}

/// How far a run may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// States kept at once.
    pub states: usize,
    /// States made, and comparisons between them in thousands, over all steps.
    pub work: usize,
    /// Candidates tried for the options of one component.
    pub options: usize,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The cost of the selection; of a merged run, a bound.
    pub cost: f64,
    /// For each class the place of its candidate; meaningless after a merged run.
    pub choice: Vec<Option<u32>>,
    pub states: usize,
    pub peak: usize,
}

/// Why a run gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Too many states at once.
    States,
    /// Too much work over all steps.
    Work,
    /// A component has too many classes or options.
    Options,
    /// The kept states led nowhere.
    DeadEnd,
}

impl Network<'_> {
    /// Runs over all components.
    pub(crate) fn run(&self, plan: &Plan, caps: Caps, excess: Excess) -> Result<Outcome, Stop> {
        let mut run = Run::new(self, plan, caps, excess);
        for step in 0..plan.order.len() {
            run.pass(step)?;
        }
        run.finish()
    }
}

/// What a step leaves behind, to find the way back.
struct Trail {
    from: Vec<u32>,
    option: Vec<u32>,
    /// For each option the class bits and candidate places.
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
    plan: &'a Plan,
    caps: Caps,
    excess: Excess,
    words: usize,
    slot: Vec<u32>,
    /// The class in each slot.
    class: Vec<u32>,
    free: Vec<u32>,
    /// Slots of live classes that are demanded, and of those that are provided.
    demanded: Vec<u64>,
    provided: Vec<u64>,
    roots: Vec<u64>,
    /// In a merged run, for each component the bit that says that some form of it is demanded. It
    /// outlives a merge of states that demand different forms, so that no value comes for nothing.
    some: Vec<u32>,
    states: Table,
    next: Table,
    trail: Vec<Trail>,
    /// The step that is being made.
    at: u32,
    work: usize,
    made: usize,
    peak: usize,
}

const NONE: u32 = u32::MAX;

impl<'a> Run<'a> {
    fn new(network: &'a Network<'a>, plan: &'a Plan, caps: Caps, excess: Excess) -> Self {
        let components = network.components;
        // Live classes at once, at most, give the width of a state.
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

    /// Passes one component.
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
        // The bits of its own classes before and after.
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
                // It may read of passed components what they provide.
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

    /// Adds to what an option demands the bits of the components it demands something of.
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

    /// The way back from the last state.
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
