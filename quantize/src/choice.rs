//! The choice among layers as an extraction: what a layer saves beside the error that it costs.
//!
//! Each layer is a class with two candidates, float32 and integers. The candidate of integers reads a class for the
//! levels of each of the layer's inputs, so that layers with the same input pay once for its quantisation. The error
//! has a price, and each price gives one choice: the cheapest sum of cost and priced error.

use ovolo::extract::{Candidate, Class, ClassId, Exact, ExtractError, Extractor, Problem};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What the quantisation of one layer changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The values that the layer reads, with the cost of quantising each.
    pub inputs: BTreeMap<String, f64>,
    /// What the model costs more if this layer alone is quantised, the cost of its inputs' levels included. It is
    /// negative if the model becomes cheaper.
    pub cost: f64,
    /// The square of the relative error of the outputs if this layer alone is quantised.
    pub error: f64,
}

impl Gain {
    /// Returns the cost of quantising what the layer reads.
    fn levels(&self) -> f64 {
        self.inputs.values().sum()
    }

    /// Returns what the layer itself costs more.
    fn own(&self) -> f64 {
        self.cost - self.levels()
    }
}

/// Returns the choices that are cheapest for some price of error, from the price 0 to all layers in float32. From one
/// to the next the cost rises and the error falls, if the errors of layers add up. A price between two known choices is
/// tried where both cost the same, until no other choice is found there (M. J. Eisner and D. G. Severance,
/// "Mathematical techniques for efficient record segmentation in large shared databases", J. ACM 23(4), 1976).
///
/// # Errors
/// [`ExtractError`] if a cost is no number.
pub fn path(gains: &[Gain]) -> Result<Vec<Vec<bool>>, ExtractError> {
    let cheapest = choose(gains, 0.0)?;
    let float = vec![false; gains.len()];
    let mut path = vec![cheapest];
    let mut ends = vec![float];
    while let Some(end) = ends.last() {
        let begin = &path[path.len() - 1];
        if begin == end {
            ends.pop();
            continue;
        }
        let saved = cost(gains, end) - cost(gains, begin);
        let error = error(gains, begin) - error(gains, end);
        let between = if error > 0.0 && saved >= 0.0 { Some(choose(gains, saved / error)?) } else { None };
        match between {
            Some(between) if cheaper(gains, &between, begin, saved / error) && between != *end => {
                ends.push(between);
            }
            _ => path.extend(ends.pop()),
        }
    }
    Ok(path)
}

/// Two sums of the same costs in different orders may differ by this relative error.
const ROUNDING: f64 = 1e-9;

/// Returns whether a choice is cheaper than another one at a price of error.
fn cheaper(gains: &[Gain], one: &[bool], other: &[bool], price: f64) -> bool {
    let sum = |choice: &[bool]| cost(gains, choice) + price * error(gains, choice);
    let (one, other) = (sum(one), sum(other));
    let scale: f64 = gains.iter().map(|gain| gain.cost.abs() + gain.levels()).sum();
    one < other - ROUNDING * scale
}

/// Returns what the model costs more with a choice.
fn cost(gains: &[Gain], choice: &[bool]) -> f64 {
    let mut levels = BTreeMap::new();
    let mut sum = 0.0;
    for gain in gains.iter().zip(choice).filter_map(|(gain, chosen)| chosen.then_some(gain)) {
        sum += gain.own();
        for (input, cost) in &gain.inputs {
            levels.entry(input.as_str()).or_insert(*cost);
        }
    }
    sum + levels.values().sum::<f64>()
}

/// Returns the sum of the errors of the chosen layers.
fn error(gains: &[Gain], choice: &[bool]) -> f64 {
    gains.iter().zip(choice).filter_map(|(gain, chosen)| chosen.then_some(gain.error)).sum()
}

/// Returns the cheapest choice if a unit of error has this price.
fn choose(gains: &[Gain], price: f64) -> Result<Vec<bool>, ExtractError> {
    let mut problem = Problem::default();
    let mut rank = 0;
    let mut candidate = |cost: f64, children: Vec<ClassId>| {
        rank += 1;
        Candidate { cost, children, rank }
    };
    let mut levels: BTreeMap<&str, ClassId> = BTreeMap::new();
    for (input, cost) in gains.iter().flat_map(|gain| &gain.inputs) {
        if let Entry::Vacant(vacant) = levels.entry(input) {
            vacant.insert(id(problem.classes.len()));
            problem.classes.push(Class { nodes: vec![candidate(*cost, Vec::new())] });
        }
    }
    for gain in gains {
        // Costs are at least zero, so what integers save is a cost of float32.
        let float = candidate((-gain.own()).max(0.0), Vec::new());
        let inputs = gain.inputs.keys().map(|input| levels[input.as_str()]).collect();
        let integer = candidate(gain.own().max(0.0) + price * gain.error, inputs);
        problem.roots.push(id(problem.classes.len()));
        problem.classes.push(Class { nodes: vec![float, integer] });
    }
    let extraction = Exact::DEFAULT.extract(&problem)?;
    Ok(problem.roots.iter().map(|root| extraction.choice[root.index()] == Some(1)).collect())
}

fn id(index: usize) -> ClassId {
    ClassId(u32::try_from(index).expect("a model has fewer layers than 2^32"))
}
