//! The measured model: a table of timed kernels.
//!
//! A kernel is known by the text of its call, and where it reads constants also by how many the model
//! has: weights of a small network stay in the caches from one run to the next, those of a large one
//! do not. The table is plain data; who fills it is no matter here.

use super::{CostModel, Machine, PriceList, Priced, Query};
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// What came of timing a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was timed.
    Timed,
    /// It was timed while other processes took the processors: the time holds until there is a better.
    Rough,
    /// Its result was wrong: it is never chosen.
    Wrong,
    /// It was not timed, since its estimate is many times that of another way: the estimate stands.
    Skipped,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Timed, Self::Rough, Self::Wrong, Self::Skipped];

    /// The name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Rough => "rough",
            Self::Wrong => "wrong",
            Self::Skipped => "skipped",
        }
    }
}

/// What a kernel takes within whole plans, where others ran before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InPlans {
    /// Nothing is known of it.
    Unknown,
    /// Seconds, if it departs from its time alone as kernels like it do.
    Likely(f64),
    /// Seconds, of plans that were timed step by step.
    Timed(f64),
}

/// A kernel's line in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What came of it.
    pub state: State,
    /// The median of one run's seconds by itself; for what was skipped, the estimate.
    pub seconds: f64,
    /// What one run takes within whole plans.
    pub in_plans: InPlans,
    /// Runs that were timed.
    pub samples: usize,
    /// Half the distance between the quartiles, as a share of the median.
    pub spread: f64,
    /// The implementation that was timed.
    pub implementation: String,
    /// The relative error of the result (L2), where it was compared.
    pub error: Option<f64>,
}

impl Entry {
    /// Seconds that a plan is to count: those within plans, where they are known.
    pub fn price(&self) -> f64 {
        match self.state {
            State::Wrong => f64::INFINITY,
            _ => match self.in_plans {
                InPlans::Timed(seconds) | InPlans::Likely(seconds) => seconds,
                InPlans::Unknown => self.seconds,
            },
        }
    }
}

/// Timed kernels by the text of their calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The entries, sorted.
    pub entries: BTreeMap<String, Entry>,
}

/// How an extraction departs from the times, to have other good plans to try whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Leaning {
    /// It does not.
    #[default]
    None,
    /// It goes by the roofline of this machine. What is wrong stays forbidden.
    Roofline(Machine),
    /// Conversions between layouts cost this many times what was measured.
    Conversions(f64),
}

/// The model `measured`.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The times.
    pub table: Arc<Table>,
    /// The bytes of the model's constants.
    pub constants: usize,
    /// The speeds of the machine, for copies that no call stands for.
    pub machine: Machine,
    /// What prices such copies, and the roofline that extraction may lean on.
    pub prices: Arc<PriceList>,
    /// How extraction leans.
    pub leaning: Leaning,
    /// The kernels whose lines were asked for, of this model and its copies.
    pub asked: Asked,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            constants: 0,
            machine: Machine::default(),
            prices: Arc::clone(PriceList::shipped()),
            leaning: Leaning::default(),
            asked: Asked::default(),
        }
    }
}

/// The keys of the lines that were asked for; copies share them.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<Mutex<BTreeSet<String>>>);

impl Asked {
    /// The keys so far.
    pub fn keys(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, key: &str) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains(key) {
            keys.insert(key.to_owned());
        }
    }
}

impl Measured {
    /// The same for a model: with its constants.
    #[must_use]
    pub fn of(&self, graph: &Graph) -> Self {
        Self { constants: graph.constant_bytes(), ..self.clone() }
    }

    /// The line of a kernel, if it is of the same implementation.
    pub fn entry(&self, query: &Query<'_>) -> Option<&Entry> {
        let key = self.key(query);
        self.asked.note(&key);
        self.table.entries.get(&key).filter(|entry| entry.implementation == query.contract.implementation)
    }

    /// The key of a kernel in the table.
    pub fn key(&self, query: &Query<'_>) -> String {
        let mut key = key(query);
        if query.constant.contains(&true) {
            // In steps of two: whether they stay in a cache does not hang on the last byte.
            let _ = write!(key, " among {} MiB", (self.constants >> 20).max(1).next_power_of_two());
        }
        key
    }
}

impl CostModel for Measured {
    fn name(&self) -> &'static str {
        "measured"
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        self.entry(query).map(Entry::price)
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.prices.copy(&self.machine, bytes)
    }

    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        let seconds = self.seconds(query)?;
        match self.leaning {
            Leaning::Roofline(machine) if seconds.is_finite() => {
                Priced::new("roofline", machine, Arc::clone(&self.prices)).seconds(query)
            }
            Leaning::Conversions(factor)
                if matches!(query.call.op.meaning(), "pack" | "unpack" | "reorder") =>
            {
                Some(seconds * factor)
            }
            _ => Some(seconds),
        }
    }
}

/// The text of a call: op, attributes, operands (constants say so), result, threads.
pub fn key(query: &Query<'_>) -> String {
    let call = &query.call;
    let operands: Vec<String> = call
        .inputs
        .iter()
        .zip(query.constant)
        .map(|(ty, constant)| if *constant { format!("const {ty}") } else { ty.to_string() })
        .collect();
    format!("{}{}({}) -> {} x{}", call.op, call.attrs, operands.join(", "), call.output, call.threads)
}
