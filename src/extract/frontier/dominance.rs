//! When one state makes another superfluous.

use super::super::option::bits;
use super::{NONE, Run, get, set, unset};
use smallvec::SmallVec;

impl Run<'_> {
    /// Whether one of the cheapest states that were kept dominates a state.
    pub(super) fn superfluous(
        &self,
        key: &[u64],
        cost: f64,
        rivals: usize,
        sources: &Sources,
        rivalry: &mut Rivalry,
    ) -> bool {
        let spare = |rival: usize| cost - self.states.cost[rival];
        rivalry.meet(key, &self.demanded, &self.provided, spare(0), sources);
        (0..rivals).step_by(PACK).any(|start| {
            rivalry.bar(spare(start));
            let fitting = rivalry.fitting(self.states.keys(start..rivals.min(start + PACK)));
            bits(fitting).any(|at| {
                let rival = start + at;
                self.dominates(self.states.key(rival), key, spare(rival), sources, rivalry)
            })
        })
    }

    /// Whether a state that provides as much makes another superfluous that costs this much more: what
    /// it demands beyond the other, a completion of the other can be changed to compute for the
    /// difference.
    fn dominates(
        &self,
        rival: &[u64],
        key: &[u64],
        mut spare: f64,
        sources: &Sources,
        rivalry: &Rivalry,
    ) -> bool {
        let mut least = 0.0;
        for word in 0..self.words {
            for bit in bits(rival[word] & !key[word] & self.demanded[word]) {
                least += rivalry.least[word * 64 + bit];
                if least > spare {
                    return false;
                }
            }
        }
        // What is replaced is not there to derive from, and what was derived from is not replaced.
        let mut left = Bits::from_slice(key);
        let mut kept = Bits::from_slice(rival);
        for word in 0..self.words {
            for bit in bits(rival[word] & !key[word] & self.demanded[word]) {
                let source = &sources.of[word * 64 + bit];
                let free = |slot: u32| get(&left, slot) && !get(&kept, slot);
                let instead = source.instead.iter().find(|(slot, price)| *price <= spare && free(*slot));
                if let Some((slot, price)) = instead {
                    unset(&mut left, *slot);
                    spare -= price;
                    continue;
                }
                let holds = |way: &&Way| way.reads.iter().zip(&left).all(|(reads, left)| reads & !left == 0);
                match source.ways.iter().take_while(|way| way.price <= spare).find(holds) {
                    Some(way) => {
                        spare -= way.price;
                        kept.iter_mut().zip(&way.reads).for_each(|(kept, reads)| *kept |= reads);
                    }
                    None => return false,
                }
            }
        }
        true
    }

    /// How each demanded class may be computed out of what else a state may demand or provide.
    ///
    /// *Derived*: by conversions or one candidate. A completion that computes the class already needs
    /// nothing; any other has no node that reads it, so the node that is added closes no cycle.
    /// *Instead* of another class, whichever way that is computed, if nothing but this class that is
    /// still to come reads the other.
    pub(super) fn sources(&self) -> Sources {
        let network = self.network;
        let components = network.components;
        let mut of = Vec::new();
        of.resize_with(self.words * 64, || Source { instead: Vec::new(), ways: Vec::new() });
        for (slot, source) in of.iter_mut().enumerate() {
            let class = self.class[slot];
            if !get(&self.demanded, slot as u32) || class == NONE {
                continue;
            }
            let component = components.of[class as usize] as usize;
            let members = &components.classes[component];
            let place = components.place[class as usize] as usize;
            let mut way = |classes: &mut dyn Iterator<Item = u32>, price: f64| {
                let mut reads = vec![0; self.words];
                for class in classes {
                    match self.slot[class as usize] {
                        NONE => return,
                        slot => set(&mut reads, slot),
                    }
                }
                source.ways.push(Way { reads, price });
            };
            for (other, price) in &network.conversions[component][place] {
                way(&mut [members[*other as usize]].into_iter(), *price);
            }
            for node in &network.inner[component].classes[place] {
                let inner = bits(node.inner).map(|at| members[at]);
                way(&mut inner.chain(node.outer.iter().copied()), node.cost);
            }
            source.ways.sort_by(|a, b| a.price.total_cmp(&b.price));
            for &(other, price) in &network.replaces[class as usize] {
                let mut readers = components.class_readers[other as usize].iter();
                let settled =
                    |&reader: &u32| self.plan.step[reader as usize] <= self.at || reader == component as u32;
                let slot = self.slot[other as usize];
                if slot != NONE && get(&self.demanded, slot) && readers.all(settled) {
                    source.instead.push((slot, price));
                }
            }
            source.instead.sort_by(|a, b| a.1.total_cmp(&b.1));
        }
        Sources { of }
    }
}

/// The bits of a state; most have few words.
type Bits = SmallVec<[u64; 8]>;

/// What another state must have to make a state superfluous, and what it may not have.
pub(super) struct Rivalry {
    /// What it must provide.
    must: Bits,
    /// What it may not demand.
    barred: Bits,
    /// For each slot that it may demand and the state does not, the least that costs.
    least: Vec<f64>,
    /// Those slots, the dearest last.
    more: Vec<u32>,
}

impl Rivalry {
    pub(super) fn new(words: usize) -> Self {
        let none = Bits::from_elem(0, words);
        Self { must: none.clone(), barred: none, least: vec![0.0; words * 64], more: Vec::new() }
    }

    /// The rivalry around one state that costs this much more than the cheapest.
    fn meet(&mut self, key: &[u64], demanded: &[u64], provided: &[u64], spare: f64, sources: &Sources) {
        self.more.clear();
        for (word, &key_word) in key.iter().enumerate() {
            self.must[word] = key_word & provided[word];
            self.barred[word] = demanded[word] & !key_word;
            for bit in bits(self.barred[word]) {
                let slot = word * 64 + bit;
                if let Some(least) = sources.of[slot].least(key, spare) {
                    self.barred[word] &= !(1 << bit);
                    self.least[slot] = least;
                    self.more.push(slot as u32);
                }
            }
        }
        self.more.sort_unstable_by(|&a, &b| self.least[a as usize].total_cmp(&self.least[b as usize]));
    }

    /// Bars what costs more than what is left to spend. It only ever gets less: rivals come cheapest
    /// first.
    fn bar(&mut self, spare: f64) {
        while let Some(slot) = self.more.pop_if(|slot| self.least[*slot as usize] > spare) {
            set(&mut self.barred, slot);
        }
    }

    /// Of up to 64 rivals those that have what they must and nothing that they may not. Most comparisons
    /// end here.
    fn fitting(&self, keys: &[u64]) -> u64 {
        let fits = |rival: u64, must: u64, barred: u64| must & !rival | rival & barred == 0;
        if let (&[must], &[barred]) = (&self.must[..], &self.barred[..]) {
            let each = keys.iter().enumerate();
            return each
                .fold(0, |fitting, (at, &rival)| fitting | u64::from(fits(rival, must, barred)) << at);
        }
        let each = keys.chunks_exact(self.must.len()).enumerate();
        each.fold(0, |fitting, (at, rival)| {
            let mut words = rival.iter().zip(self.must.iter().zip(&self.barred));
            fitting | u64::from(words.all(|(&rival, (&must, &barred))| fits(rival, must, barred))) << at
        })
    }
}

/// For each slot how its class may be computed.
#[derive(Default)]
pub(super) struct Sources {
    of: Vec<Source>,
}

struct Source {
    /// Slots in whose place it may be computed, the cheapest first.
    instead: Vec<(u32, f64)>,
    /// Cheapest first.
    ways: Vec<Way>,
}

impl Source {
    /// The least it may cost beside what a state has, if that is no more than what may be spent.
    fn least(&self, key: &[u64], spare: f64) -> Option<f64> {
        let holds = |way: &&Way| way.reads.iter().zip(key).all(|(reads, key)| reads & !key == 0);
        let way = self.ways.iter().take_while(|way| way.price <= spare).find(holds).map(|way| way.price);
        let dear = way.unwrap_or(spare);
        let mut cheaper = self.instead.iter().take_while(|(_, price)| *price <= dear);
        cheaper.find(|(slot, _)| get(key, *slot)).map(|(_, price)| *price).or(way)
    }
}

/// What a class may be derived from, as bits, and for how much.
struct Way {
    reads: Vec<u64>,
    price: f64,
}

/// What a rival may not demand is made stricter after so many of them.
const PACK: usize = 32;
