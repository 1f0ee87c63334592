//! `ovolo bench`.

mod sizes;

use super::amount;
use super::caching::Caching;
use super::dynamic::{directory_or_zeros, dynamic, is_dynamic};
use super::load::{self, check_inputs, inputs};
use super::page;
use super::run::flattened;
use super::value::{Format, write_outputs};
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::cost::Machine;
use ovolo::graph::Graph;
use ovolo::onnx::Item;
use ovolo::plan::{Base, Plan, Step};
use ovolo::registry::Registry;
use ovolo::session::{Session, SessionError};
use ovolo::tensor::{Tensor, TensorType};
use ovolo_lab::report::{Page, Profile, Timing};
use ovolo_tune::calibrate;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(super) struct Bench {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    caching: Caching,
    /// Run one session on inputs of several sizes, one after another, and report for each how long its plan took to make
    /// and to run, and the memory of the process. All sizes share packed weights. `--seconds 0` makes the plans and runs
    /// none of them.
    #[arg(long, value_name = "NAME=N,N,…", value_parser = amount::sizes, conflicts_with_all = ["inputs", "output_dir", "profile"])]
    sizes: Option<(String, Vec<usize>)>,
    /// How long to run, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// A directory with NAME.npy for each input (a `/` in a name becomes `_`). Default: zeros.
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Write the outputs of the last run to this directory. With --json, the default is a temporary one.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print one JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// Show where the time goes, step by step, the longest first.
    #[arg(long)]
    profile: bool,
    /// With --profile: also write it as a page with pictures to this file.
    #[arg(long, value_name = "FILE", requires = "profile")]
    html: Option<PathBuf>,
}

impl Bench {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let least = if self.sizes.is_some() { 0.0 } else { f64::MIN_POSITIVE };
        if !(self.seconds >= least && self.seconds.is_finite()) {
            return Err("--seconds needs a positive number, or with --sizes also 0".into());
        }
        if let Some(directory) = self.inputs.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(format!("--inputs {}: there is no such directory", directory.display()));
        }
        if let Some((name, sizes)) = &self.sizes {
            return self.sizes(registry, name, sizes);
        }
        if let Some(file) = &self.html {
            page::writable("--html ", file, &self.settings.inputs())?;
        }
        let accepted = |graph: &Graph| {
            let names = graph.inputs().map(|(_, node)| node.name.to_string());
            let given = self.inputs.as_ref().map(|directory| read_files(&files(directory, names)));
            given.map_or(Ok(()), |given| check_inputs(graph, &given?))
        };
        // The page shows the graph, which the cache does not contain.
        let (mut session, cached, program) = match self.html {
            Some(_) => {
                let (session, program) = self.settings.session(registry, &accepted)?;
                (session, false, Some(program))
            }
            None => match self.caching.session(registry, &self.settings, &accepted) {
                Ok(ready) => {
                    let cached = ready.cached;
                    (ready.kept(registry), cached, None)
                }
                Err(_) if is_dynamic(&self.settings, registry)? => return self.dynamic(registry),
                Err(why) => return Err(why),
            },
        };
        let mut read = self.settings.inputs();
        let mut inputs = self.read_inputs(session.plan(), &mut read)?;
        let directory = match (&self.output_dir, self.json) {
            (Some(directory), _) => Some(directory.clone()),
            (None, true) => Some(std::env::temp_dir().join(format!("ovolo-outputs-{}", std::process::id()))),
            (None, false) => None,
        };
        // Files are written before times are measured: the outputs of a step that replaces its inputs are those of the
        // first one, and nobody else has their bytes afterwards. On a device the inputs of this run stay there.
        let outputs = first(&mut session, &mut inputs)?.to_vec();
        if let Some(directory) = &directory {
            let names = session.plan().outputs.iter().map(|(name, ..)| name.to_string());
            write_outputs(&names.zip(outputs).collect::<Vec<_>>(), directory, &read)?;
        }
        let times = match self.settings.resident {
            None if session.plan().replaced().0 > 0 => {
                measure(&mut session, self.seconds, &mut |session| session.advance(&mut inputs).map(drop))?
            }
            None => {
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                measure(&mut session, self.seconds, &mut |session| session.run(&inputs).map(drop))?
            }
            Some(_) => measure(&mut session, self.seconds, &mut Session::run_on_device)?,
        };
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        if self.profile {
            let whole = times.usual().unwrap_or(times.median());
            let profile = profile(registry, &mut session, &inputs, times.all.len().clamp(3, 200), whole)?;
            print(&table(session.plan(), &profile));
            if let (Some(file), Some(program)) = (&self.html, &program) {
                let shown = Page {
                    title: &self.settings.title(),
                    settings: &self.settings.account(registry, session.plan())?,
                    imported: None,
                    program,
                    plan: session.plan(),
                    runner_ups: None,
                    profile: Some(profile),
                };
                page::write_page(file, &shown)?;
            }
        }
        if self.json {
            let line = serde_json::json!({
                "median_ms": milliseconds(times.median()), "min_ms": milliseconds(times.all[0]),
                "runs": times.all.len(), "estimate_ms": session.plan().seconds() * 1e3,
                "well_placed_median_ms": times.usual().map(milliseconds), "well_placed_runs": times.well_placed.len(),
                "outputs": directory, "cached": cached,
            });
            print(&format!("{line}\n"));
        } else {
            print(&times.line(session.plan()));
        }
        Ok(())
    }

    /// Returns the inputs, from files or zeros, and adds the files to those that are read.
    fn read_inputs(&self, plan: &Plan, read: &mut Vec<PathBuf>) -> Result<Vec<Tensor>, String> {
        let Some(directory) = &self.inputs else {
            let zeros = |(name, ty): &(_, TensorType)| {
                Tensor::try_zeros(ty.clone()).ok_or_else(|| {
                    format!("the system cannot provide {} bytes for input `{name}`", ty.bytes())
                })
            };
            return plan.given_inputs().iter().map(zeros).collect();
        };
        let files = files(directory, plan.inputs.iter().map(|(name, _)| name.to_string()));
        read.extend(files.iter().map(|(_, file)| file.clone()));
        inputs(plan, read_files(&files)?)
    }

    /// Times a model that is compiled while it runs.
    fn dynamic(&self, registry: &Arc<Registry>) -> Outcome {
        let mut session = dynamic(&self.settings, &self.caching, registry)?;
        // This says first which dimensions have no size; with sizes, most models have one plan.
        let given = directory_or_zeros(&self.settings, &session, self.inputs.as_deref())?;
        if self.profile {
            return Err(
                "--profile shows the steps of one plan, and this model runs as several regions".to_owned()
            );
        }
        let mut run = || session.run(&given).map_err(|error| error.to_string());
        let outputs = flattened(run()?);
        let (mut times, begin) = (Vec::new(), Instant::now());
        while times.len() < 3 || begin.elapsed().as_secs_f64() < self.seconds {
            let start = Instant::now();
            run()?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        if let Some(directory) = &self.output_dir {
            write_outputs(&outputs, directory, &self.settings.inputs())?;
        }
        let (median, fastest, runs) =
            (milliseconds(times[times.len() / 2]), milliseconds(times[0]), times.len());
        if self.json {
            let line = serde_json::json!({
                "median_ms": median, "min_ms": fastest, "runs": runs, "plans": session.plans(),
                "outputs": self.output_dir, "cached": false,
            });
            print(&format!("{line}\n"));
        } else {
            let plans = session.plans();
            print(&format!("median {median:.3} ms, fastest {fastest:.3} ms, {runs} runs, {plans} plan(s)\n"));
        }
        Ok(())
    }
}

/// Returns the file of each input in a directory.
fn files(directory: &Path, names: impl Iterator<Item = String>) -> Vec<(String, PathBuf)> {
    let file = |name: String| {
        let file = directory.join(Format::Npy.file_name(&name));
        (name, file)
    };
    names.map(file).collect()
}

/// Reads inputs from their files.
fn read_files(files: &[(String, PathBuf)]) -> Result<BTreeMap<String, Item<Tensor>>, String> {
    let read = |(name, file): &(String, PathBuf)| {
        let tensor = ovolo::npy::read(file).map_err(|error| error.to_string())?;
        Ok((name.clone(), Item::Tensor(tensor)))
    };
    files.iter().map(read).collect()
}

/// The fewest runs with a good placement of the threads from which a median is taken.
const ENOUGH_WELL_PLACED: usize = 3;

/// Times of runs, sorted.
#[derive(Default)]
struct Times {
    /// Times of all runs.
    all: Vec<Duration>,
    /// Times of the runs in which the placement of the threads was good.
    well_placed: Vec<Duration>,
}

impl Times {
    fn median(&self) -> Duration {
        self.all[self.all.len() / 2]
    }

    /// Returns the median of the runs with a good placement of the threads, for which estimates hold.
    fn usual(&self) -> Option<Duration> {
        self.well_placed
            .get(self.well_placed.len() / 2)
            .copied()
            .filter(|_| self.well_placed.len() >= ENOUGH_WELL_PLACED)
    }

    /// Returns the times of a plan in one line.
    fn line(&self, plan: &Plan) -> String {
        format!(
            "median {:.3} ms, fastest {:.3} ms, {} runs, {} thread(s), estimate {:.3} ms{}\n",
            milliseconds(self.median()),
            milliseconds(self.all[0]),
            self.all.len(),
            plan.threads,
            plan.seconds() * 1e3,
            match self.usual() {
                _ if self.well_placed.len() == self.all.len() => String::new(),
                Some(usual) => format!(
                    "; median {:.3} ms of the {} runs in which {}",
                    milliseconds(usual),
                    self.well_placed.len(),
                    if plan.threads == 1 {
                        "the thread had its own core"
                    } else {
                        "each thread had its own core, close to the others"
                    }
                ),
                None => "; in all runs, threads shared a core or were far from each other".to_owned(),
            }
        )
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A run that is timed.
type Run<'a> = &'a mut dyn FnMut(&mut Session) -> Result<(), SessionError>;

/// Runs a session once. A step that replaces its inputs does so.
fn first<'s>(session: &'s mut Session, inputs: &mut [Tensor]) -> Result<&'s [Tensor], String> {
    let outputs = match session.plan().replaced() {
        (0, _) => session.run(&inputs.iter().collect::<Vec<_>>()),
        _ => session.advance(inputs),
    };
    outputs.map_err(|error| error.to_string())
}

/// Times runs, after a first one that is not counted.
fn measure(session: &mut Session, seconds: f64, run: Run<'_>) -> Result<Times, String> {
    run(session).map_err(|error| error.to_string())?;
    let mut placement = calibrate::placement(session.team());
    let begin = Instant::now();
    let mut times = Times::default();
    while times.all.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        run(session).map_err(|error| error.to_string())?;
        let time = start.elapsed();
        times.all.push(time);
        if placement.holds(session.team()) {
            times.well_placed.push(time);
        }
    }
    calibrate::keep_placement(session.team(), &placement);
    times.all.sort_unstable();
    times.well_placed.sort_unstable();
    Ok(times)
}

/// Returns the median time of each step over some runs, the machine's peaks, and the whole plan's time.
fn profile(
    registry: &Registry,
    session: &mut Session,
    inputs: &[&Tensor],
    runs: usize,
    whole: Duration,
) -> Result<Profile, String> {
    let machine = load::calibrated_machine(registry, session.plan().threads, false).machine;
    let stream = if session.constant_bytes() > CACHED { machine.memory } else { machine.cache };
    let (mut all, mut well_placed) = (Vec::new(), Vec::new());
    let mut placement = calibrate::placement(session.team());
    for _ in 0..runs {
        let times = session.profile(inputs).map_err(|error| error.to_string())?;
        if placement.holds(session.team()) {
            well_placed.push(times.clone());
        }
        all.push(times);
    }
    // If the placement was rarely good, all runs count.
    let counted = if well_placed.len() < ENOUGH_WELL_PLACED { all } else { well_placed };
    let timing = |(at, step): (usize, &Step)| {
        let mut times: Vec<Duration> = counted.iter().map(|times| times[at]).collect();
        times.sort_unstable();
        let seconds = times[times.len() / 2].as_secs_f64();
        let types: Vec<_> = step.input_types.iter().collect();
        let flops = (step.op.flops)(&step.attrs, &types, &step.output_type);
        let (peak, bound) = of_peak(step, flops, &machine, stream, seconds);
        Ok(Timing { seconds, flops, peak, bound })
    };
    let steps = session.plan().steps.iter().enumerate().map(timing).collect::<Result<_, String>>()?;
    Ok(Profile { seconds: whole.as_secs_f64(), steps })
}

/// Prints the steps, the longest first, then the whole plan.
fn table(plan: &Plan, profile: &Profile) -> String {
    let mut rows: Vec<(&Timing, &Step)> = profile.steps.iter().zip(&plan.steps).collect();
    rows.sort_by(|a, b| b.0.seconds.total_cmp(&a.0.seconds));
    let total: f64 = rows.iter().map(|row| row.0.seconds).sum();
    let mut text = String::from("      us  share  estimate us   off  of peak              step\n");
    for (timing, step) in rows {
        let Timing { seconds, flops, peak, bound } = timing;
        // It may exceed 100 %: the data may be in a closer cache, or the machine was busy during calibration.
        let peak = if *peak > 1.0 { ">100.0%".to_owned() } else { format!("{:6.1}%", peak * 100.0) };
        let _ = writeln!(
            text,
            "{:8.1} {:5.1}%  {:11.1} {:+4.0}% {peak} {bound:10}  {} {} [{}] {} {:.1} GFLOP/s",
            seconds * 1e6,
            seconds / total * 100.0,
            step.seconds * 1e6,
            (step.seconds / seconds - 1.0) * 100.0,
            step.op,
            step.name,
            step.implementation,
            step.output_type,
            flops / seconds / 1e9
        );
    }
    let (whole, estimate) = (profile.seconds, plan.seconds());
    let _ = writeln!(
        text,
        "the whole plan: {:.1} us measured, {:.1} us estimated ({:+.1} %); sum of the steps: {:.1} us",
        whole * 1e6,
        estimate * 1e6,
        (estimate / whole - 1.0) * 100.0,
        total * 1e6
    );
    text
}

/// The most bytes of a model's constants that are still in the cache when they are read again. It is the size
/// that the calibration copies to measure the speed of the cache.
const CACHED: usize = 1 << 20;

/// The share of the machine's peak that a step reaches, and the limit it is compared with: arithmetic, or
/// memory traffic if that takes longer (constants at the speed `stream`, everything else from the cache).
#[allow(clippy::cast_precision_loss)]
fn of_peak(step: &Step, flops: f64, machine: &Machine, stream: f64, time: f64) -> (f64, &'static str) {
    let mut traffic = step.output_type.bytes() as f64 / machine.cache;
    for (ty, place) in step.input_types.iter().zip(&step.inputs) {
        let speed = if matches!(place.base, Base::Constant(_)) { stream } else { machine.cache };
        traffic += ty.bytes() as f64 / speed;
    }
    let arithmetic = flops / machine.flops;
    let (least, what) = if arithmetic >= traffic { (arithmetic, "arithmetic") } else { (traffic, "memory") };
    (least / time, what)
}
