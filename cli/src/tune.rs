//! `ovolo tune`.

use super::load::{by_times, tuned, tuner};
use super::{Outcome, Settings, amount, print};
use clap::Args;
use ovolo::compile::Options;
use ovolo::graph::Graph;
use ovolo::registry::Registry;
use ovolo_tune::{Sampling, Shard, Tally, TimeLimit, Within};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(super) struct Tune {
    #[command(flatten)]
    settings: Settings,
    /// Draw this many plans around the extracted one, time them whole, and keep the fastest.
    #[arg(long, value_name = "PLANS", default_value_t = 0)]
    sample: usize,
    /// The seed for drawing.
    #[arg(long, default_value_t = 1, requires = "sample")]
    seed: u64,
    /// Time kernels within this many plans around the extracted one, however long that takes.
    #[arg(long, value_name = "PLANS", conflicts_with = "shard", value_parser = clap::value_parser!(u16).range(1..))]
    within: Option<u16>,
    /// How far these plans are from the extracted one: a multiple of the usual disturbance of prices.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "within", value_parser = clap::value_parser!(u16).range(1..))]
    spread: u16,
    /// Begin nothing new after this time, for example 10s, 500ms or 2min. Kernels for the values on which the plan spends
    /// most time are timed first; the others keep their estimates. What has begun is finished, which takes some seconds
    /// more for a model with large weights.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["shard", "within", "sample"], value_parser = amount::duration)]
    budget: Option<Duration>,
    /// Only time the kernels of one of several shards, such as 2/4; `ovolo merge-times` merges the tables.
    #[arg(long, value_name = "N/COUNT", conflicts_with = "sample")]
    shard: Option<Shard>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Tune {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let settings = Settings { cost: Some("measured".into()), ..self.settings.clone() };
        let options = settings.options(registry, &settings.pipeline)?;
        let asked = self.settings.request(registry, &self.settings.pipeline)?;
        let graph = settings.graph(registry)?;
        let start = Instant::now();
        if let Some(shard) = self.shard {
            return self.part(&graph, &options, shard);
        }
        let sampling = (self.sample > 0).then_some(Sampling { plans: self.sample, seed: self.seed });
        let within = self.within.map(|plans| Within { plans: plans.into(), spread: self.spread.into() });
        let limit = self.budget.map(TimeLimit::from_now);
        let tuned = tuned(&graph, options, |tuner| {
            (tuner.refine, tuner.sampling, tuner.within) = (limit.is_none(), sampling, within);
            tuner.limit = limit;
        })?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(budget) = self.budget.filter(|budget| seconds > 1.2 * budget.as_secs_f64()) {
            eprintln!(
                "note: this took {seconds:.1} s, beyond the --budget of {:.1} s, since what had begun was finished",
                budget.as_secs_f64()
            );
        }
        let (tally, plan) = (&tuned.tally, &tuned.compilation.plan);
        if self.json {
            let times: serde_json::Map<String, serde_json::Value> =
                tuned.decision.times.iter().map(|(way, time)| (way.clone(), (*time).into())).collect();
            let value = serde_json::json!({
                "seconds": seconds, "kernels": tally.kernels, "known": tally.known, "timed": tally.timed, "rough": tally.rough,
                "skipped": tally.skipped, "untimed": tally.untimed, "wrong": tally.wrong, "disturbed": tally.disturbed,
                "in_plans": tally.in_plans,
                "plan": tuned.decision.winner, "sampled": tuned.sampled, "times": times, "known_plan": tuned.known, "raced": tuned.raced,
                "estimate": plan.seconds(),
            });
            print(&format!("{value}\n"));
        } else {
            print(&format!(
                "{} kernels timed, {} within plans, in {seconds:.1} s; {}; estimate {:.3} ms\n",
                tally.timed,
                tally.in_plans,
                tuned.report(),
                plan.seconds() * 1e3
            ));
            print(&format!("{}\n", tuned.considered()));
            if !by_times(&asked.pipeline) {
                eprintln!(
                    "note: other commands choose plans by these times where `--cost measured` is given"
                );
            }
            if let Some(((_, first), rest)) = tuned.sampled.split_first() {
                let least = rest.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
                print(&format!(
                    "{} plans drawn and timed whole: the fastest takes {:.3} ms, the first plan {:.3} ms\n",
                    rest.len(),
                    least * 1e3,
                    first * 1e3
                ));
            }
        }
        Ok(())
    }

    /// Times a shard of the kernels into the table, and chooses no plan.
    fn part(&self, graph: &Graph, options: &Options, shard: Shard) -> Outcome {
        let mut tuner = tuner(options);
        tuner.shard = shard;
        let tally = tuner.fill(graph, options).map_err(|error| error.to_string())?;
        for note in tuner.notes() {
            eprintln!("note: {note}");
        }
        let Tally { kernels, known, timed, rough, skipped, wrong, disturbed, .. } = tally;
        print(&if self.json {
            let value = serde_json::json!({
                "shard": shard.to_string(), "kernels": kernels, "known": known, "timed": timed, "rough": rough,
                "skipped": skipped, "wrong": wrong, "disturbed": disturbed,
            });
            format!("{value}\n")
        } else {
            format!("shard {shard}: {timed} of {kernels} kernels timed, {known} known, {wrong} wrong\n")
        });
        Ok(())
    }
}
