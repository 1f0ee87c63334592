//! The few best plans, timed whole in turns.
//!
//! Extraction by the times alone gives one plan; by the roofline, and with conversions dearer or cheaper,
//! others. Those that differ are loaded and run in turns, and the fastest is kept.

use super::store::{Decision, checksum, settled_seconds};
use super::{Basis, Tally, Tuner, clock::median};
use crate::compile::{self, Compilation, Options};
use crate::contract::{Call, Contract};
use crate::cost::{Leaning, Query, State};
use crate::error::Error;
use crate::graph::Graph;
use crate::op;
use crate::pass::pipeline::PassSpec;
use crate::plan::Base;
use crate::session::Session;
use crate::tensor::{Tensor, TensorType};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long plans are timed in all, and the fewest and the most runs of each.
const TIME: Duration = Duration::from_secs(4);
const RUNS: [usize; 2] = [5, 101];
/// A plan takes the place of one before it where the median of their ratios is below this.
const FASTER: f64 = 0.98;

/// A compiled model, and how it was chosen.
pub struct Tuned {
    /// The model.
    pub compilation: Compilation,
    /// What was timed for it.
    pub tally: Tally,
    /// Which plan won.
    pub decision: Decision,
    /// Whether the decision was stored already.
    pub known: bool,
    /// What of the table the choice rests on.
    pub basis: Basis,
}

impl Tuned {
    /// The report of the choice, in one line.
    pub fn report(&self) -> String {
        let Decision { winner, times, .. } = &self.decision;
        let time = |way: &str| times.iter().find(|(known, _)| known == way).map(|(_, seconds)| *seconds);
        let list: Vec<String> =
            times.iter().map(|(way, seconds)| format!("{way} {:.3} ms", seconds * 1e3)).collect();
        match (times.len(), time(winner), time("measured")) {
            (2.., Some(best), Some(first)) if winner != "measured" => format!(
                "plan by {winner}, {:.1} % faster than by measured; of {}",
                (first / best - 1.0) * 100.0,
                list.join(", ")
            ),
            (2.., ..) => format!("plan by {winner}; of {}", list.join(", ")),
            _ => format!("plan by {winner}: every way gives the same"),
        }
    }
}

/// Compiles a graph by measured costs: times what the table lacks, and picks among the best plans.
///
/// # Errors
/// As compiling and tuning.
pub fn compile(graph: &Graph, mut options: Options, tuner: &mut Tuner<'_>) -> Result<Tuned, Error> {
    for pass in &mut options.pipeline.passes {
        if let PassSpec::Extract(settings) = pass {
            settings.cost = "measured".to_owned();
        }
    }
    let ways = [
        ("measured", Leaning::None),
        ("roofline", Leaning::Roofline(tuner.machine)),
        ("dear-conversions", Leaning::Conversions(1.2)),
        ("cheap-conversions", Leaning::Conversions(0.8)),
    ];
    options.measured = Some(tuner.measured());
    // One compilation tells whether anything is missing, without a second saturation where nothing is.
    let mut tally = if tuner.refine { tuner.fill(graph, &options)? } else { Tally::default() };
    options.measured = Some(tuner.measured());
    let mut filled = tuner.refine;
    let mut chosen = BTreeSet::new();
    let mut first = compile::compile(graph.clone(), &options);
    loop {
        let Ok(compilation) = &first else {
            if filled {
                break;
            }
            filled = true;
            tally = tuner.fill(graph, &options)?;
            options.measured = Some(tuner.measured());
            first = compile::compile(graph.clone(), &options);
            continue;
        };
        // An estimate that wins after all, as another pipeline lacks its rivals, is no time to go by.
        let guessed = guessed(graph, compilation, &options);
        if guessed.is_empty() || guessed.is_subset(&chosen) {
            break;
        }
        chosen.extend(guessed);
        let before = tally;
        tally = tuner.fill_with(graph, &options, &chosen)?;
        tally.known = tally.known.saturating_sub(before.timed + before.wrong);
        tally.timed += before.timed;
        tally.wrong += before.wrong;
        tally.rough += before.rough;
        tally.disturbed += before.disturbed;
        options.measured = Some(tuner.measured());
        first = compile::compile(graph.clone(), &options);
    }
    let first = first?;
    let key = checksum(&first.plan.to_string());
    let by = |leaning: Leaning, options: &mut Options| {
        if let Some(measured) = &mut options.measured {
            measured.leaning = leaning;
        }
        compile::compile(graph.clone(), options)
    };
    let afresh = tuner.refine && tally.timed > 0;
    if let Some(decision) = tuner.stored.decisions.get(&key).cloned().filter(|_| !afresh) {
        if decision.plan == key {
            let basis = Basis::new(&tuner.stored, options.measured.as_ref(), &key);
            return Ok(Tuned { compilation: first, tally, decision, known: true, basis });
        }
        if let Some((_, leaning)) = ways.iter().find(|(way, _)| *way == decision.winner) {
            let compilation = by(*leaning, &mut options)?;
            if checksum(&compilation.plan.to_string()) == decision.plan {
                let basis = Basis::new(&tuner.stored, options.measured.as_ref(), &key);
                return Ok(Tuned { compilation, tally, decision, known: true, basis });
            }
        }
    }
    let mut plans = vec![(ways[0].0, key.clone(), first)];
    for (way, leaning) in &ways[1..] {
        let compilation = by(*leaning, &mut options)?;
        let text = checksum(&compilation.plan.to_string());
        if plans.iter().all(|(_, known, _)| *known != text) {
            plans.push((way, text, compilation));
        }
    }
    let runs = if plans.len() > 1 { race(&plans)? } else { vec![Vec::new()] };
    let times: Vec<f64> = runs.iter().map(|runs| median(runs).0).collect();
    let mut winner = 0;
    for at in 1..runs.len() {
        if beats(&runs[at], &runs[winner]) {
            winner = at;
        }
    }
    let (way, text, _) = &plans[winner];
    let decision = Decision {
        winner: (*way).to_owned(),
        plan: text.clone(),
        times: plans
            .iter()
            .zip(&times)
            .filter(|(_, seconds)| seconds.is_finite())
            .map(|((way, ..), seconds)| ((*way).to_owned(), settled_seconds(*seconds)))
            .collect(),
    };
    tuner.stored.decisions.insert(key.clone(), decision.clone());
    tuner.keep();
    let basis = Basis::new(&tuner.stored, options.measured.as_ref(), &key);
    let (_, _, compilation) = plans.swap_remove(winner);
    Ok(Tuned { compilation, tally, decision, known: false, basis })
}

/// The kernels of a plan that go by an estimate.
fn guessed(graph: &Graph, compilation: &Compilation, options: &Options) -> BTreeSet<String> {
    let Some(measured) = options.measured.as_ref().map(|measured| measured.of(graph)) else {
        return BTreeSet::new();
    };
    let plan = &compilation.plan;
    let keys = plan.steps.iter().filter_map(|step| {
        let inputs: Vec<&TensorType> = step.input_types.iter().collect();
        let constant: Vec<bool> =
            step.inputs.iter().map(|place| matches!(place.base, Base::Constant(_))).collect();
        let contract = Contract { implementation: step.implementation.clone(), ..Contract::default() };
        let call = Call {
            op: step.op,
            attrs: &step.attrs,
            inputs: &inputs,
            output: &step.output_type,
            threads: plan.threads,
        };
        let query = Query { def: op::find(step.op)?, call, constant: &constant, contract: &contract };
        let entry = measured.entry(&query)?;
        (entry.state == State::Skipped).then(|| measured.key(&query))
    });
    keys.collect()
}

/// Seconds of the runs of plans that take turns, round by round.
fn race(plans: &[(&str, String, Compilation)]) -> Result<Vec<Vec<f64>>, Error> {
    let mut sessions = Vec::with_capacity(plans.len());
    for (_, _, compilation) in plans {
        let session = Session::new(&compilation.program, compilation.plan.clone());
        sessions.push(session.map_err(|error| Error::setting(error.to_string()))?);
    }
    let inputs: Vec<Tensor> = plans
        .first()
        .map(|(_, _, one)| one.plan.inputs.iter().map(|(_, ty)| Tensor::zeros(ty.clone())).collect())
        .unwrap_or_default();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut times = vec![Vec::new(); sessions.len()];
    let start = Instant::now();
    for round in 0..=RUNS[1] {
        if round > RUNS[0] && start.elapsed() > TIME {
            break;
        }
        for (session, times) in sessions.iter_mut().zip(&mut times) {
            let start = Instant::now();
            session.run(&inputs).map_err(|error| Error::setting(error.to_string()))?;
            // The first round warms caches and threads.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    Ok(times)
}

/// Whether a plan is faster than another, round by round: clearly in the middle, and in three of four
/// rounds at all, so that noise does not decide.
fn beats(plan: &[f64], other: &[f64]) -> bool {
    let mut ratios: Vec<f64> = plan.iter().zip(other).map(|(plan, other)| plan / other).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |quarters: usize| ratios.get(ratios.len() * quarters / 4).copied().unwrap_or(f64::INFINITY);
    at(2) < FASTER && at(3) < 1.0
}
