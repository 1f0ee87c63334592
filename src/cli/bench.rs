//! `ovolo bench`.

use super::caching::{Caching, Ready};
use super::load::{self, inputs, write_outputs};
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::cost::Machine;
use ovolo::plan::{Base, Step};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(super) struct Bench {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    caching: Caching,
    /// How long to run, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// A directory with NAME.npy for each input (a `/` in a name becomes `_`). Default: zeros.
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Write the outputs of the last run to this directory. With --json and without it: a temporary one.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print one JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// Show where the time goes, step by step, the longest first.
    #[arg(long)]
    profile: bool,
}

impl Bench {
    pub(super) fn run(&self) -> Outcome {
        if !(self.seconds > 0.0 && self.seconds.is_finite()) {
            return Err("--seconds takes a positive number".into());
        }
        let Ready { mut session, cached } = self.caching.session(&self.settings)?;
        let inputs = match &self.inputs {
            Some(directory) => {
                let files: Vec<_> = session
                    .plan()
                    .inputs
                    .iter()
                    .map(|(name, _)| (name.to_string(), directory.join(load::file_name(name))))
                    .collect();
                inputs(session.plan(), &files)?
            }
            None => session.plan().inputs.iter().map(|(_, ty)| Tensor::zeros(ty.clone())).collect(),
        };
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let times = measure(&mut session, &inputs, self.seconds)?;
        let median = times[times.len() / 2];
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?.to_vec();
        if self.profile {
            print(&profile(&mut session, &inputs, times.len().clamp(3, 200), median)?);
        }
        let directory = match (&self.output_dir, self.json) {
            (Some(directory), _) => Some(directory.clone()),
            (None, true) => Some(std::env::temp_dir().join(format!("ovolo-outputs-{}", std::process::id()))),
            (None, false) => None,
        };
        if let Some(directory) = &directory {
            write_outputs(&session, &outputs, directory)?;
        }
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        if self.json {
            let line = serde_json::json!({
                "median_ms": milliseconds(median), "min_ms": milliseconds(times[0]), "runs": times.len(),
                "estimate_ms": session.plan().seconds() * 1e3,
                "outputs": directory, "cached": cached,
            });
            print(&format!("{line}\n"));
        } else {
            print(&format!(
                "median {:.3} ms, fastest {:.3} ms, {} runs, {} thread(s), estimate {:.3} ms\n",
                milliseconds(median),
                milliseconds(times[0]),
                times.len(),
                session.plan().threads,
                session.plan().seconds() * 1e3
            ));
        }
        Ok(())
    }
}

/// Times of runs, sorted, after one that is not counted.
fn measure(session: &mut Session, inputs: &[&Tensor], seconds: f64) -> Result<Vec<Duration>, String> {
    session.run(inputs).map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut times = Vec::new();
    while times.len() < 3 || Instant::now() < end {
        let start = Instant::now();
        session.run(inputs).map_err(|error| error.to_string())?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// The median time of each step over some runs, the longest first, beside the plan's estimate and the
/// machine's peak; then the whole plan's.
fn profile(
    session: &mut Session,
    inputs: &[&Tensor],
    runs: usize,
    whole: Duration,
) -> Result<String, String> {
    let machine = load::calibrated_machine(session.plan().threads).machine;
    let mut samples: Vec<Vec<Duration>> = vec![Vec::new(); session.plan().steps.len()];
    for _ in 0..runs {
        for (sample, time) in
            samples.iter_mut().zip(session.profile(inputs).map_err(|error| error.to_string())?)
        {
            sample.push(time);
        }
    }
    let mut rows: Vec<(f64, usize)> = samples
        .iter_mut()
        .enumerate()
        .map(|(step, times)| {
            times.sort_unstable();
            (times[times.len() / 2].as_secs_f64(), step)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = rows.iter().map(|row| row.0).sum();
    let mut text = String::from("      us  share  estimate us   off  of peak              step\n");
    for (time, index) in rows {
        let step = &session.plan().steps[index];
        let def = ovolo::op::find(step.op).ok_or("an op of the plan is not in the registry")?;
        let types: Vec<_> = step.input_types.iter().collect();
        let flops = (def.flops)(&step.attrs, &types, &step.output_type);
        let (share, what) = of_peak(step, flops, &machine, time);
        let _ = writeln!(
            text,
            "{:8.1} {:5.1}%  {:11.1} {:+4.0}%  {share:5.1}% {what:10}  {} {} [{}] {} {:.1} GFLOP/s",
            time * 1e6,
            time / total * 100.0,
            step.seconds * 1e6,
            (step.seconds / time - 1.0) * 100.0,
            step.op,
            step.name,
            step.implementation,
            step.output_type,
            flops / time / 1e9
        );
    }
    let estimate = session.plan().seconds();
    let _ = writeln!(
        text,
        "the whole plan: {:.1} us measured, {:.1} us estimated ({:+.1} %); the steps alone {:.1} us",
        whole.as_secs_f64() * 1e6,
        estimate * 1e6,
        (estimate / whole.as_secs_f64() - 1.0) * 100.0,
        total * 1e6
    );
    Ok(text)
}

/// The share of the machine's peak that a step reaches, in percent: of its arithmetic, or of its traffic
/// where that takes longer (constants from memory, all else from cache).
#[allow(clippy::cast_precision_loss)]
fn of_peak(step: &Step, flops: f64, machine: &Machine, time: f64) -> (f64, &'static str) {
    let mut traffic = step.output_type.bytes() as f64 / machine.cache;
    for (ty, place) in step.input_types.iter().zip(&step.inputs) {
        let speed = if matches!(place.base, Base::Constant(_)) { machine.memory } else { machine.cache };
        traffic += ty.bytes() as f64 / speed;
    }
    let arithmetic = flops / machine.flops;
    let (least, what) = if arithmetic >= traffic { (arithmetic, "arithmetic") } else { (traffic, "memory") };
    (least / time * 100.0, what)
}
