//! `ovolo tune`.

use super::load::tuned;
use super::{Outcome, Settings, print};
use clap::Args;
use std::time::Instant;

#[derive(Args)]
pub(super) struct Tune {
    #[command(flatten)]
    settings: Settings,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Tune {
    pub(super) fn run(&self) -> Outcome {
        let settings = Settings { cost: Some("measured".into()), ..self.settings.clone() };
        let options = settings.options(&settings.pipeline)?;
        let graph = settings.graph()?;
        let start = Instant::now();
        let tuned = tuned(&graph, options, true)?;
        let seconds = start.elapsed().as_secs_f64();
        let (tally, plan) = (&tuned.tally, &tuned.compilation.plan);
        if self.json {
            let times: serde_json::Map<String, serde_json::Value> =
                tuned.decision.times.iter().map(|(way, time)| (way.clone(), (*time).into())).collect();
            let value = serde_json::json!({
                "seconds": seconds, "kernels": tally.kernels, "known": tally.known, "timed": tally.timed, "rough": tally.rough,
                "skipped": tally.skipped, "wrong": tally.wrong, "disturbed": tally.disturbed,
                "plan": tuned.decision.winner, "times": times, "known_plan": tuned.known,
                "estimate": plan.seconds(),
            });
            print(&format!("{value}\n"));
        } else {
            print(&format!(
                "{} kernels timed in {seconds:.1} s; {}; estimate {:.3} ms\n",
                tally.timed,
                tuned.report(),
                plan.seconds() * 1e3
            ));
        }
        Ok(())
    }
}
