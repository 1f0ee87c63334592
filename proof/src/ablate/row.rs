//! What was measured on several models, added up.

use super::Measured;
use std::collections::BTreeMap;

/// One model with one pipeline, and what was measured on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The names of the model and of the pipeline.
    pub name: String,
    /// The parts.
    pub measured: Vec<Measured>,
}

/// By how much one case costs more without a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The case.
    pub case: String,
    /// The additional cost as a share of the cost with the part: 0.1 for 10 %.
    pub share: f64,
}

/// What a part is worth on all cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The name of the part.
    pub name: String,
    /// The number of cases in which it was measured.
    pub met: usize,
    /// The number of cases whose best plan has it.
    pub used: usize,
    /// The number of cases that cost more without it, or that have no plan without it.
    pub wins: usize,
    /// The first case that has no plan without it.
    pub needed: Option<String>,
    /// The number of cases in which it gives no plan itself.
    pub refused: usize,
    /// The largest gain; of several equal ones that of the first case.
    pub gain: Option<Gain>,
    /// The largest additional cost with it as a share of the cost without it: of an extractor, an order or a planner.
    /// A rule or a kernel has one only where a search ends at its limits, and finds more when it has less to search.
    pub loss: Option<Gain>,
    /// The time of all extractions together in seconds, for an extractor.
    pub seconds: Option<f64>,
}

/// A smaller relative difference between two sums of prices is due to rounding.
const ROUNDING: f64 = 1e-9;

/// Returns a row for each part, in alphabetical order.
pub fn rows(cases: &[Case]) -> Vec<Row> {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for case in cases {
        for one in &case.measured {
            let row = rows.entry(&one.name).or_default();
            row.name.clone_from(&one.name);
            row.add(&case.name, one);
        }
    }
    rows.into_values().collect()
}

impl Row {
    fn add(&mut self, case: &str, one: &Measured) {
        self.met += 1;
        self.used += usize::from(one.used);
        if let Some(seconds) = one.seconds {
            *self.seconds.get_or_insert(0.0) += seconds;
        }
        match (&one.with, &one.without) {
            (Err(_), _) => self.refused += 1,
            (Ok(_), Err(_)) => {
                self.wins += 1;
                self.needed.get_or_insert_with(|| case.to_owned());
            }
            (Ok(with), Ok(without)) => {
                let share = |more: f64, than: f64| if than > 0.0 { more / than - 1.0 } else { more - than };
                let gain = share(*without, *with);
                self.wins += usize::from(gain > ROUNDING);
                larger(&mut self.gain, case, gain);
                larger(&mut self.loss, case, share(*with, *without));
            }
        }
    }
}

/// Keeps the larger one of two shares.
fn larger(kept: &mut Option<Gain>, case: &str, share: f64) {
    if share > ROUNDING && kept.as_ref().is_none_or(|kept| share > kept.share) {
        *kept = Some(Gain { case: case.to_owned(), share });
    }
}
