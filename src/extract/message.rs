//! Messages: a bound for networks whose values have many readers.
//!
//! A component is a variable, its options are the values that it may take, and where one component reads
//! another, both must agree on the forms. Costs are moved between a component and its neighbours, over and
//! over, up and down the network, so that the sum of what each option costs at least grows: the sequential
//! tree-reweighted messages of Kolmogorov (Convergent Tree-Reweighted Message Passing for Energy
//! Minimization, PAMI 28(10), 2006). However costs are moved, no selection costs less than that sum; and
//! what an option costs beyond the cheapest of its component, a selection that has it costs beyond the sum.

use super::canonical::Work;
use super::component::Components;
use super::option::{Choice, INNER_CLASSES, Inner, Search, bits};

/// What the messages said.
pub(super) struct Messages {
    /// No selection costs less.
    pub bound: f64,
    /// For each class and candidate: a cheapest selection that has it costs this much more than the bound,
    /// at least. Infinite for those that no cheapest selection needs.
    pub beyond: Vec<Vec<f64>>,
    /// For each class the candidate of a selection that the messages speak for.
    pub choice: Vec<Option<u32>>,
    /// Options visited.
    pub steps: usize,
}

/// The most options that a component may have.
const OPTIONS: usize = 20_000;
/// Candidates tried for the options of one component.
const TRIED: usize = 200_000;
/// Passes up and down stop when one brings less than this share of the bound.
const LEAST: f64 = 1e-5;

/// Passes messages until the bound stands still or so many options were visited; `None` where a component
/// has too many classes or options.
pub(super) fn messages(work: &Work, components: &Components, limit: usize) -> Option<Messages> {
    if components.largest() > INNER_CLASSES {
        return None;
    }
    let mut roots = vec![0_u64; components.len()];
    for &root in &work.roots {
        roots[components.of[root as usize] as usize] |= 1 << components.place[root as usize];
    }
    let mut field = Field::new(work, components, &roots)?;
    let mut bound = f64::NEG_INFINITY;
    while field.steps < limit {
        for at in 0..components.len() {
            field.take(at);
            field.give(at, true);
        }
        for at in (0..components.len()).rev() {
            field.take(at);
            field.give(at, false);
        }
        if field.bound <= bound + LEAST * bound.abs() {
            break;
        }
        bound = field.bound;
    }
    Some(field.finish(components, &roots, work.classes.len()))
}

/// A selection inside a component.
struct Taken {
    computes: u64,
    /// For each class that it computes, in order, the place of the candidate.
    places: Vec<u32>,
}

/// A component and its options.
struct Variable {
    options: Vec<Taken>,
    /// What each option costs by now; infinite for one that cannot be in a selection.
    cost: Vec<f64>,
    /// The most that a selection with each option was seen to cost at least.
    beyond: Vec<f64>,
    /// Links to the components that it reads, and to those that read it.
    below: Vec<u32>,
    above: Vec<u32>,
}

/// A component reads another.
struct Link {
    /// The masks of forms that are read, and for each option of the reader which of them.
    reader: End,
    /// The same of what is computed.
    child: End,
}

/// One side of a link.
struct End {
    masks: Vec<u64>,
    of: Vec<u32>,
    /// What was moved from the link to this side, for each mask. Infinite: it cannot be.
    moved: Vec<f64>,
}

impl End {
    fn new(masks: impl Iterator<Item = u64>) -> Self {
        let mut end = Self { masks: Vec::new(), of: Vec::new(), moved: Vec::new() };
        for mask in masks {
            let place = end.masks.iter().position(|known| *known == mask).unwrap_or_else(|| {
                end.masks.push(mask);
                end.masks.len() - 1
            });
            end.of.push(place as u32);
        }
        end.moved = vec![0.0; end.masks.len()];
        end
    }
}

struct Field {
    variables: Vec<Variable>,
    links: Vec<Link>,
    bound: f64,
    steps: usize,
}

impl Field {
    fn new(work: &Work, components: &Components, roots: &[u64]) -> Option<Self> {
        let mut field = Self { variables: Vec::new(), links: Vec::new(), bound: 0.0, steps: 0 };
        let mut slot = vec![u32::MAX; work.classes.len()];
        // Links are made by the component that reads: what it reads comes before it.
        for at in 0..components.len() {
            let inner = Inner::new(work, components, at);
            let mut outer: Vec<u32> = inner.classes.iter().flatten().flat_map(|node| &node.outer).copied().collect();
            outer.sort_unstable();
            outer.dedup();
            let outer = &outer[..];
            outer.iter().zip(0..).for_each(|(&class, bit)| slot[class as usize] = bit);
            let read = |place: &usize| !components.class_readers[components.classes[at][*place] as usize].is_empty();
            let keep = (0..components.classes[at].len()).filter(read).fold(0, |keep, place| keep | 1_u64 << place);
            let words = outer.len().div_ceil(64).max(1);
            let found = Search::new(&inner, words, keep, &slot, TRIED).options(roots[at])?;
            if found.len() > OPTIONS {
                return None;
            }
            field.steps += found.len();
            let mut below = Vec::new();
            for &child in &components.children[at] {
                let forms = |choice: &Choice| {
                    let read = choice.reads.iter().enumerate();
                    let read = read.flat_map(|(word, set)| bits(*set).map(move |bit| outer[word * 64 + bit]));
                    let of = read.filter(|class| components.of[*class as usize] == child);
                    of.fold(0, |mask, class| mask | 1_u64 << components.place[class as usize])
                };
                let reader = End::new(found.iter().map(forms));
                let read = reader.masks.iter().fold(0, |all, mask| all | mask);
                let variable = &mut field.variables[child as usize];
                let child = End::new(variable.options.iter().map(|option| option.computes & read));
                variable.above.push(field.links.len() as u32);
                below.push(field.links.len() as u32);
                field.links.push(Link { reader, child });
            }
            let cost = found.iter().map(|choice| choice.cost).collect();
            let beyond = vec![0.0; found.len()];
            let option = |choice: Choice| Taken { computes: choice.computes, places: choice.places };
            let options = found.into_iter().map(option).collect();
            field.variables.push(Variable { options, cost, beyond, below, above: Vec::new() });
        }
        Some(field)
    }

    /// Takes to a component all that its links can give.
    fn take(&mut self, at: usize) {
        let variable = &mut self.variables[at];
        let below = variable.below.iter().map(|&link| (link, true));
        for (link, reads) in below.chain(variable.above.iter().map(|&link| (link, false))) {
            let Link { reader, child } = &mut self.links[link as usize];
            let (own, other) = if reads { (reader, &*child) } else { (child, &*reader) };
            let more: Vec<f64> = own.masks.iter().zip(&own.moved).map(|(&mask, &moved)| {
                let fits = |other: u64| if reads { mask & !other == 0 } else { other & !mask == 0 };
                let others = other.masks.iter().zip(&other.moved);
                let open = others.filter(|(other, moved)| fits(**other) && **moved < f64::INFINITY);
                // The least that is left in the link beside this mask; infinite where nothing fits it.
                let most = open.map(|(_, moved)| *moved).fold(f64::NEG_INFINITY, f64::max);
                if moved < f64::INFINITY { -most - moved } else { f64::INFINITY }
            }).collect();
            own.moved.iter_mut().zip(&more).for_each(|(moved, more)| *moved += more);
            for (cost, &mask) in variable.cost.iter_mut().zip(&own.of) {
                *cost += more[mask as usize];
            }
            self.steps += variable.cost.len();
        }
        let least = variable.cost.iter().copied().fold(f64::INFINITY, f64::min);
        self.bound += least;
        if least < f64::INFINITY {
            variable.cost.iter_mut().for_each(|cost| *cost -= least);
        }
        for (beyond, cost) in variable.beyond.iter_mut().zip(&variable.cost) {
            *beyond = beyond.max(self.bound + cost);
        }
    }

    /// Gives what a component has to its links on one side, in equal shares.
    fn give(&mut self, at: usize, up: bool) {
        let variable = &mut self.variables[at];
        let share = 1.0 / variable.below.len().max(variable.above.len()).max(1) as f64;
        let full = variable.cost.clone();
        for &link in if up { &variable.above } else { &variable.below } {
            let link = &mut self.links[link as usize];
            let own = if up { &mut link.child } else { &mut link.reader };
            let mut give = vec![f64::INFINITY; own.masks.len()];
            for (cost, &mask) in full.iter().zip(&own.of) {
                give[mask as usize] = give[mask as usize].min(cost * share);
            }
            for (moved, give) in own.moved.iter_mut().zip(&give) {
                *moved = if *give < f64::INFINITY { *moved - give } else { f64::INFINITY };
            }
            for (cost, &mask) in variable.cost.iter_mut().zip(&own.of) {
                if *cost < f64::INFINITY {
                    *cost -= give[mask as usize];
                }
            }
            self.steps += variable.cost.len();
        }
    }

    /// One more pass, from the roots down, in which each component takes its cheapest option that computes
    /// what those above it have chosen to read.
    fn finish(mut self, components: &Components, roots: &[u64], classes: usize) -> Messages {
        let mut demanded = roots.to_vec();
        let mut choice = vec![None; classes];
        for at in (0..components.len()).rev() {
            self.take(at);
            let variable = &self.variables[at];
            let enough = |option: &&usize| demanded[at] & !variable.options[**option].computes == 0;
            let cheapest = (0..variable.options.len())
                .collect::<Vec<_>>()
                .iter()
                .filter(enough)
                .min_by(|a, b| variable.cost[**a].total_cmp(&variable.cost[**b]))
                .copied();
            if let Some(option) = cheapest.filter(|_| demanded[at] != 0) {
                let chosen = &variable.options[option];
                for (place, &node) in bits(chosen.computes).zip(&chosen.places) {
                    choice[components.classes[at][place] as usize] = Some(node);
                }
                for (&link, &child) in variable.below.iter().zip(&components.children[at]) {
                    let reader = &self.links[link as usize].reader;
                    demanded[child as usize] |= reader.masks[reader.of[option] as usize];
                }
            }
            self.give(at, false);
        }
        let mut beyond: Vec<Vec<f64>> = vec![Vec::new(); classes];
        for (at, variable) in self.variables.iter().enumerate() {
            for (option, absolute) in variable.options.iter().zip(&variable.beyond) {
                for (place, &node) in bits(option.computes).zip(&option.places) {
                    let beyond = &mut beyond[components.classes[at][place] as usize];
                    beyond.resize(beyond.len().max(node as usize + 1), f64::INFINITY);
                    let least = &mut beyond[node as usize];
                    *least = least.min(absolute - self.bound);
                }
            }
        }
        Messages { bound: self.bound, beyond, choice, steps: self.steps }
    }
}
