//! Tests that run many whole plans, which takes a long time. They count as ignored unless `OVOLO_SLOW_TESTS` is set, as
//! in CI.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "tune/fixture.rs"]
mod fixture;
#[path = "../../tests/common/need.rs"]
mod need;

use fixture::{folder, graph, options, tuner};
use libtest_mimic::{Arguments, Trial};
use ovolo::compile::Options;
use ovolo::cost::{Entry, InPlans};
use ovolo_tune::{TuningStage, Within};

fn main() {
    let slow = |name: &str, test: fn()| -> Trial {
        need::trial(name, &[need::patience()], move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        slow(
            "kernels_of_a_plan_are_priced_by_their_time_within_plans",
            kernels_of_a_plan_are_priced_by_their_time_within_plans,
        ),
        slow(
            "plans_are_drawn_and_the_fastest_can_be_compiled_again",
            plans_are_drawn_and_the_fastest_can_be_compiled_again,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn kernels_of_a_plan_are_priced_by_their_time_within_plans() {
    let at = folder("in-plans");
    let mut first = tuner(&at);
    // Whoever asks for plans gets them however long they take, so that a busy machine changes nothing here.
    first.within = Some(Within { plans: 12, spread: 1 });
    let mut settings = options();
    let (chosen, tally) = ovolo_tune::settle(&graph(), &mut settings, &mut first).unwrap();
    assert!(tally.in_plans > 0);
    let stored = first.stored().clone();
    let timed = |entry: &Entry| matches!(entry.in_plans, InPlans::Timed(_));
    let likely = stored.table.entries.values().filter(|entry| matches!(entry.in_plans, InPlans::Likely(_)));
    assert!(likely.count() > 0, "not all candidates are in some plan");
    // Each step of the plan costs what it took in one.
    for step in &chosen.plan.steps {
        let of_step = |(key, entry): &(&String, &Entry)| {
            key.starts_with(step.op.name) && timed(entry) && (entry.price() - step.seconds).abs() < 1e-12
        };
        let view = step.seconds == 0.0;
        assert!(view || stored.table.entries.iter().any(|line| of_step(&line)), "{}: {step:?}", step.name);
    }
    // If all of that is known, nothing is timed, and the plan is the same.
    let mut second = tuner(&at);
    let (again, tally) = ovolo_tune::settle(&graph(), &mut options(), &mut second).unwrap();
    assert_eq!((tally.timed, tally.in_plans), (0, 0));
    assert_eq!(again.plan.to_string(), chosen.plan.to_string());
    assert_eq!(*second.stored(), stored);
    drop(second);
    // Plans farther away have other kernels, which are timed if they are asked for; known times stay.
    let mut seen = Vec::new();
    let mut third = tuner(&at);
    third.within = Some(Within { plans: 20, spread: 4 });
    third.progress = Box::new(|progress| {
        seen.extend((progress.stage == TuningStage::Plans).then_some((progress.done, progress.all)));
        true
    });
    let (_, tally) = ovolo_tune::settle(&graph(), &mut options(), &mut third).unwrap();
    assert!(tally.in_plans > 0, "{tally:?}");
    for (key, entry) in stored.table.entries.iter().filter(|(_, entry)| timed(entry)) {
        assert_eq!(third.stored().table.entries.get(key), Some(entry), "{key} is not timed again");
    }
    drop(third);
    assert!(matches!(seen[..], [(0, _), ..]), "{seen:?}");
    let (done, all) = *seen.last().unwrap();
    assert!(done == all && all > 0, "{seen:?}");
    // If it is stopped between plans, it says so.
    let mut fourth = tuner(&folder("in-plans-stopped"));
    fourth.progress = Box::new(|progress| progress.stage == TuningStage::Kernels);
    let stopped = ovolo_tune::settle(&graph(), &mut options(), &mut fourth).unwrap_err().to_string();
    assert!(stopped.contains("kept"), "{stopped}");
}

fn plans_are_drawn_and_the_fastest_can_be_compiled_again() {
    let at = folder("sampled");
    let mut first = tuner(&at);
    first.sampling = Some(ovolo_tune::Sampling { plans: 6, seed: 3 });
    let tuned = ovolo_tune::compile(&graph(), options(), &mut first).unwrap();
    let ways: Vec<&str> = tuned.sampled.iter().map(|(way, _)| way.as_str()).collect();
    assert!(ways.len() > 3 && ways[1..].iter().all(|way| way.starts_with("sample-3.")), "{ways:?}");
    let time = |way: &str| tuned.sampled.iter().find(|(known, _)| known == way).unwrap().1;
    assert!(time(&tuned.decision.winner) <= time(ways[0]), "it is not slower than the first plan");
    // The same seed draws the same plans; the winner is compiled again without timing anything.
    let mut second = tuner(&at);
    let again = ovolo_tune::compile(&graph(), options(), &mut second).unwrap();
    assert!(again.known && again.sampled.is_empty());
    assert_eq!(again.compilation.plan.to_string(), tuned.compilation.plan.to_string());
    let draw = |seed: u64| -> Vec<String> {
        let mut options = Options { measured: Some(second.measured()), ..options() };
        let sampling = ovolo_tune::Sampling { plans: 6, seed };
        let drawn = ovolo_tune::draw(&saturated(&options), &mut options, sampling, 1).unwrap();
        drawn.into_iter().map(|one| one.text).collect()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
    let distinct: std::collections::BTreeSet<String> = draw(3).into_iter().collect();
    assert_eq!(distinct.len(), draw(3).len(), "plans differ from each other");
    // Of more plans, those whose prices are farther apart stay, including the extracted one.
    let drawn = |plans: usize, among: usize| -> Vec<(Option<usize>, f64)> {
        let mut options = Options { measured: Some(second.measured()), ..options() };
        let sampling = ovolo_tune::Sampling { plans, seed: 3 };
        let drawn = ovolo_tune::draw_evenly(&saturated(&options), &mut options, sampling, 2, among).unwrap();
        drawn.into_iter().map(|one| (one.draw, one.planned.plan.seconds().ln())).collect()
    };
    let (all, kept) = (drawn(20, 1), drawn(4, 5));
    assert!(kept.len() == 5 && kept[0].0.is_none() && kept.iter().all(|one| all.contains(one)), "{kept:?}");
    assert_eq!(kept, drawn(4, 5));
    // A plan that is left out is not farther from all that stay than any two of these are from each other.
    let mut prices: Vec<f64> = kept.iter().map(|(_, price)| *price).collect();
    prices.sort_by(f64::total_cmp);
    let closest = prices.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let away = |price: f64| prices.iter().map(|kept| (kept - price).abs()).fold(f64::INFINITY, f64::min);
    let farthest = all.iter().map(|(_, price)| away(*price)).fold(0.0, f64::max);
    assert!(all.len() > 5 && farthest <= closest + 1e-12, "{farthest} {closest}");
}

/// Returns the graph after all rewriting.
fn saturated(options: &Options) -> ovolo::stage::Saturated {
    options.saturate(&graph()).unwrap()
}
