//! Dominance: when one state makes another one superfluous.

use super::super::option::bits;
use super::{NONE, Run, get, set, unset};
use smallvec::SmallVec;

impl Run<'_> {
    /// Returns whether one of the cheapest kept states dominates a state.
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

    /// Returns whether a rival that provides as much makes a state superfluous. The state costs `spare` more than the
    /// rival. If the rival demands classes that the state does not, every completion of the state must be changeable
    /// so that it computes these for at most `spare`.
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
        // A class that was replaced cannot be read any more, and a class that is read must not be replaced.
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
                let holds = |way: &&Way| within(&way.reads, &left);
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

    /// Returns the ways to compute each demanded class from other classes that a state demands or provides.
    ///
    /// *Derived*: by conversions or by one candidate. If a completion already computes the class, nothing is needed.
    /// If it does not, no node of it reads the class, so the added node closes no cycle.
    ///
    /// *Instead* of another class, in whatever way that class is computed, if only this class still reads the other
    /// one.
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

/// The bits of a state. Most states have few words.
type Bits = SmallVec<[u64; 8]>;

/// The conditions on another state that makes a state superfluous.
pub(super) struct Rivalry {
    /// The classes that it must provide.
    must: Bits,
    /// The classes that it must not demand.
    barred: Bits,
    /// For each slot that it may demand although the state does not, the lowest additional cost.
    least: Vec<f64>,
    /// Those slots, the most expensive last.
    more: Vec<u32>,
}

impl Rivalry {
    pub(super) fn new(words: usize) -> Self {
        let none = Bits::from_elem(0, words);
        Self { must: none.clone(), barred: none, least: vec![0.0; words * 64], more: Vec::new() }
    }

    /// Sets the conditions for one state, which costs `spare` more than the cheapest state.
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

    /// Forbids demands that cost more than `spare`, which only decreases, because rivals come in the order of their
    /// costs.
    fn bar(&mut self, spare: f64) {
        while let Some(slot) = self.more.pop_if(|slot| self.least[*slot as usize] > spare) {
            set(&mut self.barred, slot);
        }
    }

    /// Returns which of up to 64 rivals fulfil the conditions. Most comparisons end here.
    fn fitting(&self, keys: &[u64]) -> u64 {
        let fits = |rival: u64, must: u64, barred: u64| must & !rival | rival & barred == 0;
        if let (&[must], &[barred]) = (&self.must[..], &self.barred[..]) {
            let each = keys.iter().enumerate();
            return each
                .fold(0, |fitting, (at, &rival)| fitting | u64::from(fits(rival, must, barred)) << at);
        }
        let each = keys.chunks_exact(self.must.len()).enumerate();
        let (must, barred) = (&self.must[..], &self.barred[..self.must.len()]);
        each.fold(0, |fitting, (at, rival)| {
            // Indices, as the compiler does not inline the adapters of iterators here.
            let all = (0..must.len()).all(|word| fits(rival[word], must[word], barred[word]));
            fitting | u64::from(all) << at
        })
    }
}

/// For each slot, the ways to compute its class.
#[derive(Default)]
pub(super) struct Sources {
    of: Vec<Source>,
}

struct Source {
    /// The slots of the classes instead of which it may be computed, the cheapest first.
    instead: Vec<(u32, f64)>,
    /// The ways to derive it, the cheapest first.
    ways: Vec<Way>,
}

impl Source {
    /// Returns the lowest additional cost of the class for a state, if this is at most `spare`.
    fn least(&self, key: &[u64], spare: f64) -> Option<f64> {
        let holds = |way: &&Way| within(&way.reads, key);
        let way = self.ways.iter().take_while(|way| way.price <= spare).find(holds).map(|way| way.price);
        let dear = way.unwrap_or(spare);
        let mut cheaper = self.instead.iter().take_while(|(_, price)| *price <= dear);
        cheaper.find(|(slot, _)| get(key, *slot)).map(|(_, price)| *price).or(way)
    }
}

/// The classes from which a class may be derived, as bits, and the cost.
struct Way {
    reads: Vec<u64>,
    price: f64,
}

/// Returns whether all bits of `part` are in `whole`.
fn within(part: &[u64], whole: &[u64]) -> bool {
    // A loop over indices, as the compiler does not inline the adapters of iterators here.
    let words = part.len().min(whole.len());
    let (part, whole) = (&part[..words], &whole[..words]);
    let mut word = 0;
    while word < words {
        if part[word] & !whole[word] != 0 {
            return false;
        }
        word += 1;
    }
    true
}

/// The conditions on rivals are made stricter after this many of them.
const PACK: usize = 32;
