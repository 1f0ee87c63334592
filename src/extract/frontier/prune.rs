//! Which states go on: dominance, and what happens beyond the cap.

use super::super::option::bits;
use super::{Excess, NONE, Run, Stop, get, set, unset};
use smallvec::SmallVec;

impl Run<'_> {
    /// Moves the states that no other dominates from `next` to `states`, cheapest first.
    pub(super) fn prune(&mut self) -> Result<(), Stop> {
        let next = &self.next;
        let mut sorted: Vec<u32> = (0..next.len() as u32).collect();
        let count = |at: u32| next.key(at as usize).iter().map(|word| word.count_ones()).sum::<u32>();
        sorted.sort_by(|&a, &b| {
            let cost = next.cost[a as usize].total_cmp(&next.cost[b as usize]);
            cost.then_with(|| count(a).cmp(&count(b)))
                .then_with(|| next.key(a as usize).cmp(next.key(b as usize)))
        });
        self.states.clear();
        let sources = if sorted.len() > 1 { self.sources() } else { Sources::default() };
        let mut compared = 0;
        let mut barred = Bits::from_elem(0, self.words);
        for &at in &sorted {
            let at = at as usize;
            let (key, cost) = (next.key(at), next.cost[at]);
            let rivals = self.states.len().min(RIVALS);
            compared += rivals;
            if rivals > 0 {
                self.bar(key, &sources, &mut barred);
            }
            if (0..rivals).any(|rival| {
                let rival_key = self.states.key(rival);
                rival_key.iter().zip(&barred).all(|(rival, barred)| rival & barred == 0)
                    && self.dominates(rival_key, key, cost - self.states.cost[rival], &sources)
            }) {
                continue;
            }
            if self.states.len() == self.caps.states && self.excess == Excess::Stop {
                return Err(Stop::States);
            }
            self.states.insert(key, cost, next.from[at], next.option[at]);
        }
        self.work += compared / 16;
        if self.states.len() > self.caps.states {
            match self.excess {
                Excess::Stop => return Err(Stop::States),
                Excess::Drop => self.drop_excess(),
                Excess::Merge => self.merge_excess(),
            }
        }
        self.peak = self.peak.max(self.states.len());
        Ok(())
    }

    /// What a rival of a state may not demand: what the state does not demand and has no source for.
    /// Most comparisons end here.
    fn bar(&self, key: &[u64], sources: &Sources, barred: &mut [u64]) {
        for word in 0..self.words {
            barred[word] = 0;
            for bit in bits(self.demanded[word] & !key[word]) {
                let source = &sources.of[word * 64 + bit];
                if source.any.iter().zip(key).all(|(from, key)| from & key == 0) {
                    barred[word] |= 1 << bit;
                }
            }
        }
    }

    /// Whether a state makes another superfluous that costs this much more: what it demands beyond
    /// the other, a completion of the other can be changed to compute for the difference.
    fn dominates(&self, rival: &[u64], key: &[u64], mut spare: f64, sources: &Sources) -> bool {
        let lacks = |word: usize| key[word] & !rival[word] & self.provided[word] != 0;
        if (0..self.words).any(lacks) {
            return false;
        }
        for word in 0..self.words {
            let mut more = bits(rival[word] & !key[word] & self.demanded[word]);
            if more.any(|bit| sources.of[word * 64 + bit].least > spare) {
                return false;
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
    fn sources(&self) -> Sources {
        let network = self.network;
        let components = network.components;
        let mut of = Vec::new();
        of.resize_with(self.words * 64, || Source {
            any: vec![0; self.words],
            least: f64::INFINITY,
            instead: Vec::new(),
            ways: Vec::new(),
        });
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
            for &(slot, price) in &source.instead {
                set(&mut source.any, slot);
                source.least = source.least.min(price);
            }
            for way in &source.ways {
                source.any.iter_mut().zip(&way.reads).for_each(|(any, reads)| *any |= reads);
                source.least = source.least.min(way.price);
            }
        }
        Sources { of }
    }

    /// States by promise: what they cost and what their demands cost about, less what they provide.
    fn promise(&self) -> Vec<u32> {
        let table = &self.states;
        let worth = |at: usize| {
            let key = table.key(at);
            let mut sum = table.cost[at];
            for (word, &key) in key.iter().enumerate() {
                let worth =
                    |bit: usize| self.network.worth.get(self.class[word * 64 + bit] as usize).unwrap_or(&0.0);
                sum += bits(key & self.demanded[word]).map(worth).sum::<f64>();
                sum -= bits(key & self.provided[word]).map(worth).sum::<f64>();
            }
            sum
        };
        let worths: Vec<f64> = (0..table.len()).map(worth).collect();
        let mut sorted: Vec<u32> = (0..table.len() as u32).collect();
        sorted.sort_by(|&a, &b| worths[a as usize].total_cmp(&worths[b as usize]).then(a.cmp(&b)));
        sorted
    }

    fn drop_excess(&mut self) {
        let sorted = self.promise();
        self.next.clear();
        for &at in &sorted[..self.caps.states] {
            let at = at as usize;
            self.next.insert(
                self.states.key(at),
                self.states.cost[at],
                self.states.from[at],
                self.states.option[at],
            );
        }
        std::mem::swap(&mut self.states, &mut self.next);
    }

    /// Keeps the more promising half of the cap as it is; of the rest each that is beyond the cap goes
    /// into the one that differs least from it.
    fn merge_excess(&mut self) {
        let mut sorted = self.promise();
        let rest = sorted.split_off(self.caps.states / 2);
        let table = &self.states;
        let mut merged: Vec<(Vec<u64>, f64, u32, u32)> = Vec::new();
        for at in rest {
            let at = at as usize;
            let (key, cost) = (table.key(at), table.cost[at]);
            if merged.len() < self.caps.states - sorted.len() {
                merged.push((key.to_vec(), cost, table.from[at], table.option[at]));
                continue;
            }
            let apart =
                |other: &[u64]| -> u32 { key.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum() };
            let near =
                merged.iter_mut().min_by_key(|(other, ..)| apart(other)).expect("a cap is at least two");
            for (word, (other, &key)) in near.0.iter_mut().zip(key).enumerate() {
                *other = *other & key & self.demanded[word] | (*other | key) & self.provided[word];
            }
            near.1 = near.1.min(cost);
        }
        self.next.clear();
        for &at in &sorted {
            let at = at as usize;
            self.next.insert(table.key(at), table.cost[at], table.from[at], table.option[at]);
        }
        for (key, cost, from, option) in merged {
            self.next.insert(&key, cost, from, option);
        }
        std::mem::swap(&mut self.states, &mut self.next);
    }
}

/// The bits of a state; most have few words.
type Bits = SmallVec<[u64; 8]>;

/// For each slot how its class may be computed.
#[derive(Default)]
struct Sources {
    of: Vec<Source>,
}

struct Source {
    /// The slots in any of its ways, and the least price of one.
    any: Vec<u64>,
    least: f64,
    /// Slots in whose place it may be computed, the cheapest first.
    instead: Vec<(u32, f64)>,
    /// Cheapest first.
    ways: Vec<Way>,
}

/// What a class may be derived from, as bits, and for how much.
struct Way {
    reads: Vec<u64>,
    price: f64,
}

/// States are compared with this many of the cheapest that were kept: more finds little.
const RIVALS: usize = 400;
