//! Times the few best plans whole, in turns, and keeps the fastest.
//!
//! Extraction by measured times gives one plan. Extraction by the shipped prices, and with more or less
//! expensive conversions, gives others. Those that differ are loaded and run in turns.

use super::race::{RULE, Rounds, race};
use super::sample::{self, Sampling};
use super::tuner::{Tally, Tuner, key_of, keys_of};
use super::{clock::median, in_plan};
use crate::limit::{Phase, TimeLimit};
use crate::source::{Extracted, Source};
use ovolo::compile::{Compilation, Options};
use ovolo::cost::pricing::{ByCorrected, ByTimes};
use ovolo::cost::stored::{Decision, checksum, settled_seconds};
use ovolo::cost::{Basis, Leaning, State};
use ovolo::error::Error;
use ovolo::extract::GreedyDag;
use ovolo::graph::Graph;
use ovolo::plan::Plan;
use ovolo::stage::Planned;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A way to a plan that is timed whole. The list of them is the tuner's own: no rule makes it, and no price.
struct Way {
    name: &'static str,
    leaning: Toward,
    /// What it does, for the report.
    doc: &'static str,
}

/// By what prices a way extracts.
enum Toward {
    Times,
    Prices,
    /// The times, those of conversions multiplied.
    Conversions(f64),
}

/// The way that a model runs by without tuning.
const PRICES: &str = "fitted";

const WAYS: [Way; 4] = [
    Way { name: "measured", leaning: Toward::Times, doc: "extracted by the measured times" },
    Way { name: PRICES, leaning: Toward::Prices, doc: "by the price list at this machine's speeds" },
    Way {
        name: "dear-conversions",
        leaning: Toward::Conversions(1.2),
        doc: "by the times, with conversions between layouts 1.2 times as dear",
    },
    Way { name: "cheap-conversions", leaning: Toward::Conversions(0.8), doc: "the same, 0.8 times as dear" },
];

/// Runs of each drawn plan.
const RUNS: usize = 15;
/// In limited time, a plan by another way is only extracted if so many extractions fit into what is left.
const SHORT: u32 = 6;

/// A compiled model, and how its plan was chosen.
pub struct Tuned {
    /// The model.
    pub compilation: Compilation,
    /// What was timed for it.
    pub tally: Tally,
    /// Which plan won.
    pub decision: Decision,
    /// Whether the decision was stored before.
    pub known: bool,
    /// Whether there was time to run different plans against each other. Otherwise, the plan of the price list stays, and
    /// the decision is not stored.
    pub raced: bool,
    /// The lines of the table that the choice depends on.
    pub basis: Basis,
    /// The plans that were drawn and timed whole: their ways and median seconds.
    pub sampled: Vec<(String, f64)>,
}

impl Tuned {
    /// Describes the choice in one line.
    pub fn report(&self) -> String {
        match self.raced {
            true => report(&self.decision),
            false => {
                format!("plan by {}: there was no time to run it against others", self.decision.winner)
            }
        }
    }

    /// The plans that the tuner had to choose among, in one line.
    pub fn considered(&self) -> String {
        considered(&self.decision)
    }
}

/// Compiles a graph by measured costs: times the kernels that the table lacks, and chooses among the best
/// plans.
///
/// # Errors
/// The errors of compiling and tuning.
pub fn compile(graph: &Graph, mut options: Options, tuner: &mut Tuner<'_>) -> Result<Tuned, Error> {
    let source = Source::new(graph, &options)?;
    if let Some(limit) = tuner.limit {
        let plan = by_prices(&source, &options)?;
        let entrant = Rounds::USUAL.seconds(&plan.chosen.program, &plan.plan);
        tuner.limit = Some(limit.for_plan(plan.plan.seconds(), entrant));
        tuner.planned = keys_of(&plan.plan, &tuner.measured().for_graph(graph));
    }
    if let Some(extract) = options.pipeline.extract_mut() {
        extract.cost = Arc::new(ByTimes);
    }
    let leaning = |way: &Way| match way.leaning {
        Toward::Times => Leaning::None,
        Toward::Prices => Leaning::Prices(tuner.machine),
        Toward::Conversions(factor) => Leaning::Conversions(factor),
    };
    let ways: Vec<(&str, Leaning)> = WAYS.iter().map(|way| (way.name, leaning(way))).collect();
    let (first, tally) = settle_from(&source, &mut options, tuner)?;
    let (first, tally) = go_on(&source, &mut options, tuner, first, tally)?;
    let text = checksum(&first.planned.plan.to_string());
    // The same plan may have different rivals if other libraries are present.
    let key = checksum(&format!("{}{text}", tuner.validators.describe(&options.pipeline.backends)));
    let afresh = tuner.refine && tally.timed + tally.in_plans > 0 || tuner.sampling.is_some();
    if let Some(decision) = tuner.stored.decisions.get(&key).cloned().filter(|_| !afresh) {
        let recalled = match decision.plan == text {
            true => None,
            false => recall(&source, &mut options, &ways, &decision)?,
        };
        if decision.plan == text || recalled.is_some() {
            let basis = Basis::new(&tuner.stored, options.measured.as_ref(), &key);
            let compilation = source.compilation(&options, recalled.unwrap_or(first))?;
            return Ok(Tuned {
                compilation,
                tally,
                decision,
                known: true,
                raced: true,
                basis,
                sampled: Vec::new(),
            });
        }
    }
    let took = first.took;
    let mut plans = vec![(ways[0].0, text, first)];
    for (way, leaning) in &ways[1..] {
        // In limited time, only the plan by prices is certain to be compared, because it runs without tuning.
        let short = tuner.limit.is_some_and(|limit| limit.left(Phase::Race) < SHORT * took);
        if short && *way != PRICES {
            continue;
        }
        let extracted = extract_by(&source, *leaning, &mut options)?;
        let text = checksum(&extracted.planned.plan.to_string());
        if plans.iter().all(|(_, known, _)| *known != text) {
            plans.push((way, text, extracted));
        }
    }
    // The plans by times and by prices come first; the others only lean to one of them.
    plans.truncate(tuner.limit.map_or(usize::MAX, |limit| limit.entrants().max(2)));
    let (winner, times) = fastest(&plans, &options, tuner)?;
    let raced = plans.len() == 1 || times.iter().any(|seconds| seconds.is_finite());
    let (way, text, _) = &plans[winner];
    let mut decision = Decision {
        winner: (*way).to_owned(),
        plan: text.clone(),
        times: plans
            .iter()
            .zip(&times)
            .filter(|(_, seconds)| seconds.is_finite())
            .map(|((way, ..), seconds)| ((*way).to_owned(), settled_seconds(*seconds)))
            .collect(),
    };
    let (_, _, mut extracted) = plans.swap_remove(winner);
    let mut sampled = Vec::new();
    if let Some(sampling) = tuner.sampling {
        if let Some(measured) = &mut options.measured {
            measured.leaning = Leaning::None;
        }
        sampled = sample(&source, &mut options, sampling, &mut extracted, &mut decision)?;
    }
    if raced {
        tuner.stored.decisions.insert(key.clone(), decision.clone());
    }
    tuner.keep();
    let basis = Basis::new(&tuner.stored, options.measured.as_ref(), &key);
    let compilation = source.compilation(&options, extracted)?;
    Ok(Tuned { compilation, tally, decision, known: false, raced, basis, sampled })
}

/// Times more kernels within a limit of time, as long as the times lead to the plan of the price list, so that no race is
/// necessary and there is time.
fn go_on(
    source: &Source<'_>,
    options: &mut Options,
    tuner: &mut Tuner<'_>,
    mut first: Extracted,
    mut tally: Tally,
) -> Result<(Extracted, Tally), Error> {
    while let Some(longer) = tuner.limit.and_then(TimeLimit::longer) {
        let by_prices = extract_by(source, Leaning::Prices(tuner.machine), options)?;
        options.measured = Some(tuner.measured());
        if by_prices.planned.plan.to_string() != first.planned.plan.to_string() {
            break;
        }
        tuner.limit = Some(longer);
        let more = tuner.fill_with(source, options, &BTreeSet::new())?;
        if more.timed == 0 {
            break;
        }
        tally.untimed = more.untimed;
        tally.add_runs(&more);
        options.measured = Some(tuner.measured());
        let (again, more) = settle_alone(source, options, tuner, false)?;
        first = again;
        tally.add_runs(&more);
    }
    Ok((first, tally))
}

/// Returns about the plan by the price list, as a quick extractor finds it.
fn by_prices(source: &Source<'_>, options: &Options) -> Result<Planned, Error> {
    let mut options = options.clone();
    if let Some(extract) = options.pipeline.extract_mut() {
        (extract.cost, extract.extractor) = (Arc::new(ByCorrected), Arc::new(GreedyDag));
    }
    Ok(source.extract(&options)?.planned)
}

/// A plan: the way that led to it, its checksum, and itself.
type Candidate<'a> = (&'a str, String, Extracted);

/// Extracts a plan by measured times that lean in some way.
fn extract_by(source: &Source<'_>, leaning: Leaning, options: &mut Options) -> Result<Extracted, Error> {
    if let Some(measured) = &mut options.measured {
        measured.leaning = leaning;
    }
    source.extract(options)
}

/// Returns the plan of an earlier decision; `None` if the same way now leads to another plan.
fn recall(
    source: &Source<'_>,
    options: &mut Options,
    ways: &[(&str, Leaning)],
    decision: &Decision,
) -> Result<Option<Extracted>, Error> {
    let noise = sample::noise(&decision.winner);
    let leaning = ways.iter().find(|(way, _)| *way == decision.winner).map(|(_, leaning)| *leaning);
    let Some(leaning) = leaning.or(noise.map(|_| Leaning::None)) else { return Ok(None) };
    sample::disturb(options, noise);
    let extracted = extract_by(source, leaning, options)?;
    sample::disturb(options, None);
    Ok(Some(extracted).filter(|one| checksum(&one.planned.plan.to_string()) == decision.plan))
}

/// Runs plans in turns. Returns the position of the fastest one and the time of each; a single plan is not run.
fn fastest(
    plans: &[Candidate<'_>],
    options: &Options,
    tuner: &Tuner<'_>,
) -> Result<(usize, Vec<f64>), Error> {
    let programs: Vec<_> =
        plans.iter().map(|(_, _, one)| (&one.planned.chosen.program, &one.planned.plan)).collect();
    let entrants = if plans.len() > 1 { &programs[..] } else { &[] };
    let rounds = tuner.limit.map_or(Rounds::USUAL, |limit| Rounds::USUAL.limited(limit));
    let race = race(entrants, options.registry.backends(), rounds)?;
    let times: Vec<f64> = (0..entrants.len()).map(|at| median(&race.times(at)).0).collect();
    // The plan of the price list, which runs without tuning, stays unless another one is clearly faster.
    let by_prices = plans.iter().position(|(way, ..)| *way == PRICES);
    Ok((race.winner(by_prices.unwrap_or(0), entrants.len()), times))
}

/// Draws plans, times each with the best so far, and replaces the winner if a drawn plan is faster. Returns
/// the time of each.
fn sample(
    source: &Source<'_>,
    options: &mut Options,
    sampling: Sampling,
    extracted: &mut Extracted,
    decision: &mut Decision,
) -> Result<Vec<(String, f64)>, Error> {
    let mut drawn = sample::draw(&source.saturated, options, sampling, 1)?;
    drawn.retain(|one| one.draw.is_some() && one.text != decision.plan);
    let mut plans = vec![(&extracted.planned.chosen.program, &extracted.planned.plan)];
    plans.extend(drawn.iter().map(|one| (&one.planned.chosen.program, &one.planned.plan)));
    if plans.len() == 1 {
        return Ok(Vec::new());
    }
    let timed = sample::time(&plans, options.registry.backends(), RUNS, &mut |_| {})?;
    let way = |at: usize| match at.checked_sub(1).and_then(|at| drawn.get(at)) {
        Some(one) => one.way(sampling.seed),
        None => decision.winner.clone(),
    };
    let seconds = |at: usize| settled_seconds(timed.seconds[at]);
    let sampled: Vec<(String, f64)> = (0..plans.len()).map(|at| (way(at), seconds(at))).collect();
    let (way, before) = (way(timed.best), seconds(0));
    if let Some(best) = timed.best.checked_sub(1).and_then(|at| drawn.get(at)) {
        sample::disturb(options, sample::noise(&way));
        let found = source.extract(options);
        sample::disturb(options, None);
        decision.times.retain(|(known, _)| *known != decision.winner);
        decision.times.extend([(decision.winner.clone(), before), (way.clone(), seconds(timed.best))]);
        (decision.winner, decision.plan) = (way, best.text.clone());
        *extracted = found?;
    }
    Ok(sampled)
}

/// Extracts a plan by measured times alone, after timing what is missing: kernels without a time, kernels that a
/// plan uses although they only have an estimate, and kernels of the plan that were in no plan before.
/// `options` holds the times afterwards.
///
/// # Errors
/// The errors of compiling and tuning.
pub fn settle(
    graph: &Graph,
    options: &mut Options,
    tuner: &mut Tuner<'_>,
) -> Result<(Planned, Tally), Error> {
    let (extracted, tally) = settle_from(&Source::new(graph, options)?, options, tuner)?;
    Ok((extracted.planned, tally))
}

/// Does the same with an e-graph that is there.
fn settle_from(
    source: &Source<'_>,
    options: &mut Options,
    tuner: &mut Tuner<'_>,
) -> Result<(Extracted, Tally), Error> {
    let (first, tally) = settle_alone(source, options, tuner, tuner.refine)?;
    let measured = tuner.measured().for_graph(source.graph);
    let known = tuner.within.is_none() && in_plan::is_known(&first.planned.plan, &measured);
    if !tuner.shard.whole() || known || tuner.late(Phase::Plans) {
        return Ok((first, tally));
    }
    // Kernels that were timed above are not timed again between the plans.
    let refine = std::mem::replace(&mut tuner.refine, false);
    let settled = settle_in_plans(source, options, tuner, first, tally);
    tuner.refine = refine;
    settled
}

/// Continues with the times of kernels within plans.
fn settle_in_plans(
    source: &Source<'_>,
    options: &mut Options,
    tuner: &mut Tuner<'_>,
    mut first: Extracted,
    mut tally: Tally,
) -> Result<(Extracted, Tally), Error> {
    let asked = |options: &Options| {
        options.measured.as_ref().map(|measured| measured.asked.keys()).unwrap_or_default()
    };
    let mut within = tuner.within.unwrap_or(in_plan::NEXT);
    let budget = match (tuner.within, tuner.limit) {
        (Some(_), None) => Duration::MAX,
        (_, Some(limit)) => in_plan::BUDGET.min(limit.left(Phase::Plans)),
        (None, None) => in_plan::BUDGET,
    };
    let mut around = in_plan::Around::new(budget, tuner.limit.is_some());
    for round in 0.. {
        let measured = tuner.measured().for_graph(source.graph);
        let asked_for = round == 0 && tuner.within.is_some();
        let lacks = asked_for || !in_plan::lacking(&first.planned.plan, &measured).is_empty();
        let left = around.left_after(&first.planned);
        let Some(left) = left.filter(|_| lacks && (round == 0 || !around.late())) else { break };
        let sampling = Sampling { plans: within.plans, seed: in_plan::SEED };
        let end = tuner.limit.map(|_| Instant::now() + left / 2);
        let drawn = sample::draw_until(&source.saturated, options, sampling, within.spread, end)?;
        within.plans = 0;
        let drawn = drawn.into_iter().map(|one| one.planned).collect();
        let timed = around.time(tuner, source.graph, drawn)?;
        tally.in_plans += timed;
        around.guess(tuner, &asked(options));
        // Kernels that an extraction had timed are priced like the others, so that the plan follows from the table.
        loop {
            let (again, more) = settle_alone(source, options, tuner, false)?;
            first = again;
            tally.add_runs(&more);
            if !around.guess(tuner, &asked(options)) {
                break;
            }
        }
        // No kernel got a time, so running the same plan once more would not help.
        if timed == 0 {
            break;
        }
    }
    Ok((first, tally))
}

/// Does the same with the times of kernels alone, except for those that have a time within plans.
fn settle_alone(
    source: &Source<'_>,
    options: &mut Options,
    tuner: &mut Tuner<'_>,
    refine: bool,
) -> Result<(Extracted, Tally), Error> {
    let mut chosen = BTreeSet::new();
    let mut tally = if refine { tuner.fill_with(source, options, &chosen)? } else { Tally::default() };
    options.measured = Some(tuner.measured());
    let mut filled = refine;
    let mut first = source.extract(options);
    loop {
        let Ok(extracted) = &first else {
            if filled {
                break;
            }
            filled = true;
            tally = tuner.fill_with(source, options, &chosen)?;
            options.measured = Some(tuner.measured());
            first = source.extract(options);
            continue;
        };
        // A kernel whose estimate wins, because its rivals are absent from this pipeline, needs a real time.
        let guessed = guessed(source.graph, &extracted.planned.plan, options, tuner.limit.is_some());
        if guessed.is_empty() || guessed.is_subset(&chosen) || tuner.late(Phase::Kernels) {
            break;
        }
        chosen.extend(guessed);
        let before = tally;
        tally = tuner.fill_with(source, options, &chosen)?;
        tally.known = tally.known.saturating_sub(before.timed + before.wrong);
        tally.add_runs(&before);
        options.measured = Some(tuner.measured());
        first = source.extract(options);
    }
    Ok((first?, tally))
}

/// The plans that the tuner had to choose among, whatever their times.
fn considered(decision: &Decision) -> String {
    let ways: Vec<String> = WAYS.iter().map(|way| format!("{} ({})", way.name, way.doc)).collect();
    let drawn: Vec<&str> = std::iter::once(&decision.winner)
        .chain(decision.times.iter().map(|(way, _)| way))
        .map(String::as_str)
        .filter(|way| sample::noise(way).is_some())
        .collect();
    let drawn: BTreeSet<&str> = drawn.into_iter().collect();
    let drawn: String = drawn.iter().map(|way| format!(", {way} (drawn)")).collect();
    format!(
        "plans considered, by the tuner's own list: {}{drawn}; equal ones are timed once",
        ways.join(", ")
    )
}

fn report(decision: &Decision) -> String {
    let Decision { winner, times, .. } = decision;
    let time = |way: &str| times.iter().find(|(known, _)| known == way).map(|(_, seconds)| *seconds);
    let list: Vec<String> =
        times.iter().map(|(way, seconds)| format!("{way} {:.3} ms", seconds * 1e3)).collect();
    let faster = |seconds: f64| times.iter().any(|(_, other)| *other < seconds);
    // A plan whose median is smaller may be faster by chance.
    let kept = match time(winner) {
        Some(best) if faster(best) => format!(" (not clearly faster: {RULE})"),
        _ => String::new(),
    };
    match (times.len(), time(winner), time("measured")) {
        (2.., Some(best), Some(first)) if winner != "measured" => format!(
            "plan by {winner}, {:.1} % {} than by measured; candidates: {}{kept}",
            (first / best - 1.0).abs() * 100.0,
            if best <= first { "faster" } else { "slower" },
            list.join(", ")
        ),
        (2.., ..) => format!("plan by {winner}; candidates: {}{kept}", list.join(", ")),
        _ => format!("plan by {winner}: every way gives the same plan"),
    }
}

/// The kernels of a plan that only have an estimate.
/// Those that only lacked time count where there is time again.
fn guessed(graph: &Graph, plan: &Plan, options: &Options, limited: bool) -> BTreeSet<String> {
    let Some(measured) = options.measured.as_ref().map(|measured| measured.for_graph(graph)) else {
        return BTreeSet::new();
    };
    let keys = plan.steps.iter().filter_map(|step| key_of(step, plan.threads, &measured));
    keys.filter(|(_, state)| *state == State::Skipped || limited && *state == State::Untimed)
        .map(|(key, _)| key)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_that_were_considered_are_named() {
        let decision = |winner: &str| Decision {
            winner: winner.to_owned(),
            plan: String::new(),
            times: vec![("measured".to_owned(), 1e-3)],
        };
        let text = considered(&decision("measured"));
        for way in WAYS {
            assert!(text.contains(&format!("{} ({})", way.name, way.doc)), "{text}");
        }
        assert!(!text.contains("(drawn)"), "{text}");
        let drawn = "sample-7.3";
        assert!(considered(&decision(drawn)).contains(&format!(", {drawn} (drawn)")));
    }

    #[test]
    fn a_plan_that_is_slower_in_its_median_says_why_it_stays() {
        let times = |fitted: f64| vec![("measured".to_owned(), 1e-3), ("fitted".to_owned(), fitted)];
        let report = |winner: &str, times: Vec<(String, f64)>| {
            report(&Decision { winner: winner.to_owned(), plan: String::new(), times })
        };
        let kept = report("measured", times(0.99e-3));
        assert!(
            kept.contains("candidates: measured 1.000 ms, fitted 0.990 ms (not clearly faster: "),
            "{kept}"
        );
        assert!(kept.contains("by 2 % in the median") && kept.contains("three of four rounds"), "{kept}");
        assert!(!report("measured", times(1.1e-3)).contains("clearly"));
        let won = report("fitted", times(0.5e-3));
        assert!(won.contains("plan by fitted, 100.0 % faster") && !won.contains("clearly"), "{won}");
    }
}
