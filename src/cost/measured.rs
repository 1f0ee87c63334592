//! The model `measured`: a table of timed kernels.
//!
//! A kernel is identified by the text of its call. If it reads constants, their total size in the model is also part
//! of its key: the weights of a small network stay in the caches from one run to the next, and those of a large one
//! do not. The table is plain data, and this module does not depend on who fills it.

use super::{CostModel, Machine, PriceList, PriceModel, Query};
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of timing a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was timed.
    Timed,
    /// It was timed while other processes used the processors. The time is used until there is a better one.
    Rough,
    /// Its result was wrong, so it is never chosen.
    Wrong,
    /// It was not timed, because its estimate is many times that of another candidate. The estimate is used.
    Skipped,
    /// It was not timed, because the time for tuning was limited. The estimate is used until a tuning has the time.
    Untimed,
}

impl State {
    /// All states.
    pub(crate) const ALL: [Self; 5] = [Self::Timed, Self::Rough, Self::Wrong, Self::Skipped, Self::Untimed];

    /// Returns the name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Rough => "rough",
            Self::Wrong => "wrong",
            Self::Skipped => "skipped",
            Self::Untimed => "untimed",
        }
    }
}

/// The time of a kernel within whole plans, where other kernels run before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InPlans {
    /// The time is unknown.
    Unknown,
    /// Estimated seconds, if its time within plans differs from its time alone in the same way as for similar
    /// kernels.
    Likely(f64),
    /// Measured seconds, from plans that were timed step by step.
    Timed(f64),
}

/// The line of a kernel in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The result of timing.
    pub state: State,
    /// The median seconds of one run alone; for a kernel that was not timed, the estimate.
    pub seconds: f64,
    /// The time of one run within whole plans.
    pub in_plans: InPlans,
    /// The number of timed runs.
    pub samples: usize,
    /// Half of the distance between the quartiles, relative to the median.
    pub spread: f64,
    /// The implementation that was timed.
    pub implementation: String,
    /// The relative error of the result (L2), if it was compared.
    pub error: Option<f64>,
}

impl Entry {
    /// Returns the seconds that count for a plan: those within plans if they are known.
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

/// How an extraction departs from the times, to find different good plans that are then timed whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Leaning {
    /// It does not depart from them.
    #[default]
    None,
    /// It uses the price list at the speeds of this machine. Kernels with wrong results stay forbidden.
    Prices(Machine),
    /// The measured times of conversions between layouts are multiplied by this factor.
    Conversions(f64),
}

/// The model `measured`.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The times.
    pub table: Arc<Table>,
    /// The size of the model's constants, in bytes.
    pub constants: usize,
    /// The speeds of the machine, for copies without a call.
    pub machine: Machine,
    /// The price list for such copies, and for the roofline that an extraction may use.
    pub prices: Arc<PriceList>,
    /// How the extraction departs from the times.
    pub leaning: Leaning,
    /// The kernels whose lines were requested from this model and its copies.
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

/// The keys of the requested lines. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<Mutex<BTreeSet<String>>>);

impl Asked {
    /// Returns the keys so far.
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
    /// Returns the cost model for a graph, with the size of its constants.
    #[must_use]
    pub fn for_graph(&self, graph: &Graph) -> Self {
        Self { constants: graph.constant_bytes(), ..self.clone() }
    }

    /// Returns the line of a kernel, if it has the same implementation.
    pub fn entry(&self, query: &Query<'_>) -> Option<&Entry> {
        let key = self.key(query);
        self.asked.note(&key);
        self.table.entries.get(&key).filter(|entry| entry.implementation == query.contract.implementation)
    }

    /// Returns the key of a kernel in the table.
    pub fn key(&self, query: &Query<'_>) -> String {
        let mut key = key(query);
        if query.constant.contains(&true) {
            // The size is rounded to a power of two, because a few bytes do not decide whether constants stay in a
            // cache.
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

    fn is_measured(&self, query: &Query<'_>) -> Option<bool> {
        let timed = |entry: &Entry| matches!(entry.in_plans, InPlans::Timed(_)) || entry.samples > 0;
        Some(query.contract.view_of.is_none() && self.entry(query).is_some_and(timed))
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.prices.copy(&self.machine, bytes)
    }

    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        let seconds = self.seconds(query)?;
        match self.leaning {
            Leaning::Prices(machine) if seconds.is_finite() => {
                let model = PriceModel::new("fitted", machine, Arc::clone(&self.prices));
                model.among(self.constants).corrected().seconds(query)
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

/// Returns the text of a call: op, attributes, operands (constants are marked), result, threads.
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
