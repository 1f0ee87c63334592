//! Makes a compiled model from the settings on the command line.

use super::adding::tell_of_idle_rules;
use super::files::read;
use super::note::say;
use super::{BUILDS, Settings};
use ovolo::backend::features::InstructionSet;
use ovolo::cache::Request;
use ovolo::compile::{self, Compilation, Options, Stage};
use ovolo::cost::Basis;
use ovolo::cost::Machine;
use ovolo::cost::pricing::ByPrices;
use ovolo::error::Source;
use ovolo::extract;
use ovolo::graph::Graph;
use ovolo::graph::text::{self, Constants, Seeds};
use ovolo::onnx::{self, ImportOptions, Item, MissingWeights, UNROLL};
use ovolo::pass::choosing;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::pricing::{ByFit, ByProgram};
use ovolo::pass::{self, Extract, Resident, Scope};
use ovolo::plan::{MOST_THREADS, Plan, Unfit};
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo::session::Session;
use ovolo::setting::Folder;
use ovolo::subprocess::Invocation;
use ovolo::tensor::Tensor;
use ovolo_tune::calibrate::Calibration;
use ovolo_tune::{Tuned, Tuner};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Returns the speeds of this machine, with a note if they are not reliable; those that were measured in a short time are
/// measured again if `settled`. Speeds that were measured while the machine was busy are used as long as the process
/// lives, which may compile many models; the note is shown once.
pub(super) fn calibrated_machine(registry: &Registry, threads: usize, settled: bool) -> Calibration {
    static ROUGH: Mutex<BTreeMap<usize, Calibration>> = Mutex::new(BTreeMap::new());
    let mut rough = ROUGH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = rough.get(&threads) {
        return *known;
    }
    let measure = if settled { ovolo_tune::calibrate::settled } else { ovolo_tune::calibrate::machine };
    let calibrated = measure(registry, threads);
    if !calibrated.steady {
        rough.insert(threads, calibrated);
    }
    if let Some(set) = planned_elsewhere(registry) {
        say!(
            "note: plans are for {}, which this processor does not have: they can be shown but not run, and costs \
             are those of a nominal machine",
            set.name
        );
    } else if !ovolo_tune::calibrate::can_measure(registry) {
        say!(
            "note: no backend has kernels by which the speed of this machine is measured, so costs are those of a \
             nominal machine"
        );
    } else if !calibrated.steady {
        say!(
            "note: the machine was busy while its speed was measured, so costs are rough: {}",
            measure_again(threads)
        );
    }
    calibrated
}

/// Returns an instruction set that plans are made for and that this processor does not have.
fn planned_elsewhere(registry: &Registry) -> Option<InstructionSet> {
    registry.backends().instruction_sets().find_map(|sets| Some(sets.planned()).filter(|set| !set.runs_here))
}

/// How to measure the speeds again, so that plans that depend on them are made again.
pub(super) fn measure_again(threads: usize) -> String {
    format!("run `ovolo doctor --threads {threads}` when the machine is idle to measure it again")
}

/// Whether a pipeline prices kernels by measured times.
pub(super) fn by_times(pipeline: &Pipeline) -> bool {
    pipeline.extract().is_some_and(|extract| extract.cost.name() == "measured")
}

/// The file in which `ovolo fit` keeps its model.
pub(super) fn learned_file(threads: usize) -> Result<PathBuf, String> {
    let folder = ovolo::cache::home();
    let folder = folder.ok_or("there is no folder for the fitted model: set OVOLO_CACHE, or name a file")?;
    Ok(folder.join(format!("learned-{threads}.json")))
}

/// Returns a progress bar on the terminal, if there is one. Call it with the number done and the number of
/// all.
pub(super) fn bar(title: &'static str, of: &'static str) -> impl FnMut(usize, usize) {
    let terminal = std::io::stderr().is_terminal();
    move |done, all| {
        if terminal {
            let filled = 30 * done / all.max(1);
            let end = if done == all { "\n" } else { "" };
            eprint!("\r{title} [{:30}] {done} of {all} {of}{end}", "#".repeat(filled));
        }
    }
}

/// Returns a tuner with the table of this machine, which shows a bar while it times.
pub(super) fn tuner(options: &Options) -> Tuner<'static> {
    let folder = ovolo::cache::home();
    if folder.is_none() {
        say!("note: there is no folder for the table of times: set OVOLO_CACHE to keep it");
    }
    let mut tuner =
        Tuner::open(folder.as_deref(), options.threads, options.machine, options.registry.backends());
    for note in tuner.notes() {
        say!("note: {note}");
    }
    let (mut kernels, mut plans) = (bar("tuning", "kernels"), bar("within plans", "plans"));
    tuner.progress = Box::new(move |progress| {
        match progress.stage {
            ovolo_tune::TuningStage::Kernels => kernels(progress.done, progress.all),
            ovolo_tune::TuningStage::Plans => plans(progress.done, progress.all),
        }
        true
    });
    tuner
}

/// Compiles with tuning as [`tuned`] does, and says which plan it was and which others were considered.
pub(super) fn tuned_and_told(graph: &Graph, options: Options) -> Result<Tuned, String> {
    let tuned = tuned(graph, options, |_| {})?;
    say!("{}\n{}", tuned.report(), tuned.considered());
    Ok(tuned)
}

/// Compiles by measured times after tuning what is missing. `set` changes the tuner before.
pub(super) fn tuned(
    graph: &Graph,
    options: Options,
    set: impl FnOnce(&mut Tuner<'static>),
) -> Result<Tuned, String> {
    let mut tuner = tuner(&options);
    set(&mut tuner);
    let tuned = ovolo_tune::compile(graph, options, &mut tuner).map_err(|error| error.to_string())?;
    for note in tuner.notes() {
        say!("note: {note}");
    }
    let tally = &tuned.tally;
    if tally.kernels > 0 {
        say!(
            "tuned: {} kernels: {} known, {} timed, {} skipped as hopeless by their estimate, {} wrong; {} disturbed runs ignored",
            tally.kernels,
            tally.known,
            tally.timed,
            tally.skipped,
            tally.wrong,
            tally.disturbed
        );
    }
    if tally.untimed > 0 {
        say!(
            "tuned: {} kernels keep their estimates, because the time was up or their values take less than 1 % of the plan",
            tally.untimed
        );
    }
    if tally.in_plans > 0 {
        say!("tuned: {} kernels timed within plans", tally.in_plans);
    }
    Ok(tuned)
}

/// Reads the arguments of `--dim`.
pub(super) fn dims(list: &[String]) -> Result<BTreeMap<String, usize>, String> {
    let mut dims = BTreeMap::new();
    for dim in list {
        let (name, size) = dim
            .split_once('=')
            .and_then(|(name, size)| Some((name, size.parse::<usize>().ok()?)))
            .ok_or_else(|| format!("--dim needs NAME=N with N a whole number, not `{dim}`"))?;
        if let Some(before) = dims.insert(name.to_owned(), size) {
            return Err(format!("--dim gives `{name}` twice: {before} and {size}"));
        }
    }
    Ok(dims)
}

/// The number of processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Settings {
    pub(super) fn threads(&self) -> Result<usize, String> {
        match self.threads {
            Some(0) => Err("the threads (`--threads`) must be at least 1".into()),
            Some(threads) if threads > MOST_THREADS => {
                Err(format!("the threads (`--threads`) must be at most {MOST_THREADS}, not {threads}"))
            }
            Some(threads) => Ok(threads),
            None => Ok(processors()),
        }
    }

    /// Tells once that the threads of a run are more than the processors, which makes them wait for each other.
    pub(super) fn tell_threads(&self) -> Result<(), String> {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let (threads, processors) = (self.threads()?, processors());
        if threads > processors && !TOLD.swap(true, Ordering::Relaxed) {
            say!(
                "note: {threads} threads (`--threads`) have {processors} processor(s), so they wait for each other: \
                 {processors} would be faster"
            );
        }
        Ok(())
    }

    /// The graph of the model.
    pub(super) fn graph(&self, registry: &Registry) -> Result<Graph, String> {
        let Some(weights) = &self.weights else {
            return self.read(registry, &self.model, &Constants::none());
        };
        if !text::is_named(&self.model) {
            return Err(format!(
                "--weights {}: it gives the constants of a graph in text form, and {} is an ONNX model",
                weights.display(),
                self.model.display()
            ));
        }
        let constants = self
            .read(registry, weights, &Constants::none())
            .map_err(|why| format!("--weights {}: {why}", weights.display()))?;
        self.read(registry, &self.model, &Constants::from_graph(&constants, &weights.display().to_string()))
    }

    /// Returns the seeds of the model's constants, if it is a graph in text form.
    pub(super) fn seeds(&self, registry: &Registry, graph: &Graph) -> Result<Seeds, String> {
        if !text::is_named(&self.model) {
            return Ok(Seeds::default());
        }
        Ok(Seeds::read(registry.ops(), &read(&self.model)?, graph))
    }

    fn read(&self, registry: &Registry, model: &Path, constants: &Constants<'_>) -> Result<Graph, String> {
        if text::is_named(model) {
            // With --weights, --dim binds the dimensions of the model that has the weights.
            if let (Some(dim), None) = (self.dims.first(), &self.weights) {
                let model = model.display();
                return Err(format!(
                    "--dim {dim}: the shapes in {model} are fixed, as in every graph in text form"
                ));
            }
            return read_graph(registry, model, constants);
        }
        let options = self.import(registry)?;
        Ok(onnx::load(registry.onnx(), model, &options).map_err(|error| error.to_string())?.graph)
    }

    /// Returns how the model is imported.
    pub(super) fn import(&self, registry: &Registry) -> Result<ImportOptions, String> {
        // What is wrong with a pipeline is reported where it is compiled with.
        let unroll = read_pipeline(registry, &self.pipeline, None).map_or(UNROLL, |pipeline| pipeline.unroll);
        Ok(ImportOptions { dims: self.bound()?, missing_weights: self.missing_weights(), unroll })
    }

    /// The dimensions that `--dim` binds.
    pub(super) fn bound(&self) -> Result<BTreeMap<String, usize>, String> {
        dims(&self.dims)
    }

    /// The model of the cost model `learned`: the named one, or that of this machine if it exists.
    fn fitted(&self, threads: usize) -> Result<Option<Source>, String> {
        let file = match &self.learned {
            Some(file) => file.clone(),
            None => learned_file(threads)?,
        };
        if self.learned.is_none() && !file.exists() {
            return Ok(None);
        }
        Ok(Some(Source::new(file.display().to_string(), read(&file)?)))
    }

    /// Replaces the extractor and the cost model of a pipeline by those from the command line.
    fn choose(&self, registry: &Registry, extract: &mut Extract) -> Result<(), String> {
        if !self.costs.is_empty() {
            let source =
                |file: &PathBuf| Ok::<_, String>(Source::new(file.display().to_string(), read(file)?));
            let files = self.costs.iter().map(source).collect::<Result<_, _>>()?;
            extract.cost = Arc::new(ByPrices { files });
        }
        if let Some(command) = &self.process {
            let patience = Duration::from_secs(self.process_timeout);
            let program = Invocation { patience, ..Invocation::new(command) };
            extract.cost = Arc::new(ByProgram::new(program, self.process_batch));
        }
        if self.learned.is_some() {
            extract.cost = Arc::new(ByFit::default());
        }
        if let Some(name) = &self.cost {
            extract.price_by(name, &registry.catalog().pricings).map_err(|error| error.to_string())?;
        }
        if extract.cost.name() == "learned" {
            extract.cost = Arc::new(ByFit { fit: self.fitted(self.threads()?)? });
        }
        if let Some(name) = &self.extractor {
            let extractors = &registry.catalog().extractors;
            extract.choose_by(name, extractors).map_err(|_| extract::unknown(name, extractors))?;
        }
        if let Some(file) = &self.choices {
            let file = Source::new(file.display().to_string(), read(file)?);
            extract.extractor = Arc::new(choosing::ByFile { file: Some(file) });
        }
        if let Some(command) = &self.extractor_process {
            let patience = Duration::from_secs(self.extractor_timeout);
            let program = Invocation { patience, ..Invocation::new(command) };
            extract.extractor = Arc::new(choosing::ByProgram::new(program));
        }
        Ok(())
    }

    pub(super) fn missing_weights(&self) -> MissingWeights {
        if self.seeded_weights { MissingWeights::Seeded } else { MissingWeights::Refuse }
    }

    /// Returns the request for a compilation, with the kept calibration.
    pub(super) fn request(&self, registry: &Registry, pipeline: &str) -> Result<Request, String> {
        let shipped = registry.rules().iter().map(|(name, text)| (name.to_owned(), text.to_string()));
        let own = self.own_rules()?;
        let rules: Vec<(String, String)> = shipped.chain(own.iter().cloned()).collect();
        // Rules are parsed only if the pipeline has a mistake, to report all mistakes together, or later for
        // a compilation. A start from the cache needs no rules.
        let mut pipeline = match read_pipeline(registry, pipeline, None) {
            Ok(pipeline) => pipeline,
            Err(error) => {
                return Err(match read_rules(registry, &rules) {
                    Ok(rules) => read_pipeline(registry, pipeline, Some(&rules)).err().unwrap_or(error),
                    Err(mistakes) => format!("{mistakes}\n\n{error}"),
                });
            }
        };
        self.add_rules(&mut pipeline)?;
        if self.adds_what_is_known(registry, &own) {
            tell_of_idle_rules(registry, &own, &pipeline);
        }
        if let Some(extract) = pipeline.extract_mut() {
            self.choose(registry, extract)?;
        }
        if let Some(plan) = pipeline.plan_mut() {
            for (device, bytes) in &self.memory_limit {
                plan.limits = plan.limits.clone().with(*device, *bytes);
            }
        }
        if let Some(device) = self.resident {
            pipeline.passes.insert(0, Arc::new(Resident::new(device)));
        }
        let threads = self.threads()?;
        Ok(Request {
            model: self.model.clone(),
            weights: self.weights.clone(),
            dims: self.bound()?,
            missing_weights: self.missing_weights(),
            pipeline,
            rules,
            threads,
            calibration: ovolo_tune::calibrate::kept(registry.backends(), threads),
            builds: BUILDS,
        })
    }

    /// Checks that a compilation would not be refused, without running it.
    pub(super) fn check(&self, registry: &Registry, request: &Request) -> Result<(), String> {
        let rules = read_rules(registry, &request.rules)?;
        request.pipeline.names(&rules).map_err(|errors| errors.to_string())?;
        pass::check(&request.pipeline, registry.catalog(), registry.ops())
            .map_err(|error| error.to_string())?;
        self.graph(registry).map(|_| ())
    }

    /// Returns the options of the compilation.
    pub(super) fn options(&self, registry: &Arc<Registry>, pipeline: &str) -> Result<Options, String> {
        Ok(options(registry, &self.request(registry, pipeline)?)?.0)
    }

    pub(super) fn compile(&self, registry: &Arc<Registry>) -> Result<Compilation, String> {
        self.compile_into(registry, &mut Vec::new())
    }

    /// As [`Settings::compile`]; if a pass fails, `stages` holds the stages before it.
    pub(super) fn compile_into(
        &self,
        registry: &Arc<Registry>,
        stages: &mut Vec<Stage>,
    ) -> Result<Compilation, String> {
        let request = self.request(registry, &self.pipeline)?;
        Ok(self.build_into(registry, &request, &any, stages)?.compilation)
    }

    /// Compiles what a request describes, unless the model is refused.
    pub(super) fn build(
        &self,
        registry: &Arc<Registry>,
        request: &Request,
        accepted: Accepted<'_>,
    ) -> Result<Built, String> {
        self.build_into(registry, request, accepted, &mut Vec::new())
    }

    fn build_into(
        &self,
        registry: &Arc<Registry>,
        request: &Request,
        accepted: Accepted<'_>,
        stages: &mut Vec<Stage>,
    ) -> Result<Built, String> {
        // The options may need the speeds of the machine, which take seconds to measure.
        let graph = self.graph(registry)?;
        accepted(&graph)?;
        let (options, machine) = options(registry, request)?;
        if by_times(&options.pipeline) {
            let Tuned { compilation, basis, .. } = tuned_and_told(&graph, options)?;
            return Ok(Built { compilation, prices: Prices { machine, basis: Some(basis) } });
        }
        let compilation =
            compile::compile_into(graph, &options, stages).map_err(|error| error.to_string())?;
        Ok(Built { compilation, prices: Prices { machine, basis: None } })
    }

    /// Compiles, and returns the options with which questions about its choices can be answered.
    pub(super) fn compile_and_options(
        &self,
        registry: &Arc<Registry>,
    ) -> Result<(Compilation, Options), String> {
        let options = self.options(registry, &self.pipeline)?;
        if by_times(&options.pipeline) {
            // Read them again, with the times that tuning has added.
            let compilation = tuned_and_told(&self.graph(registry)?, options)?.compilation;
            return Ok((compilation, self.options(registry, &self.pipeline)?));
        }
        let compilation =
            compile::compile(self.graph(registry)?, &options).map_err(|error| error.to_string())?;
        Ok((compilation, options))
    }

    /// Compiles the model without the cache, unless it is refused, and returns its session and the chosen program.
    pub(super) fn session(
        &self,
        registry: &Arc<Registry>,
        accepted: Accepted<'_>,
    ) -> Result<(Session, Graph), String> {
        self.tell_threads()?;
        let request = self.request(registry, &self.pipeline)?;
        let compilation = self.build(registry, &request, accepted)?.compilation;
        for line in absent(&compilation.absent) {
            say!("{line}");
        }
        let Compilation { program, plan, .. } = compilation;
        let session = Session::new(&program, plan, registry.backends()).map_err(|error| error.to_string())?;
        for line in session.notes() {
            say!("note: {line}");
        }
        Ok((session, program))
    }
}

/// A function that refuses an imported model, before anything is measured or compiled, if it cannot be used as intended:
/// inputs may not fit it.
pub(super) type Accepted<'a> = &'a dyn Fn(&Graph) -> Result<(), String>;

/// Accepts every model.
pub(super) fn any(_: &Graph) -> Result<(), String> {
    Ok(())
}

/// A compiled model, and what its prices depend on.
pub(super) struct Built {
    pub(super) compilation: Compilation,
    pub(super) prices: Prices,
}

/// What the prices of a compilation depend on.
pub(super) struct Prices {
    /// The speeds of the machine, if the cost model used them and they are kept.
    pub(super) machine: Option<Machine>,
    /// The lines of the table of times that the plan depends on.
    pub(super) basis: Option<Basis>,
}

/// Returns the options of a compilation, and the speeds of the machine if they are needed and kept.
pub(super) fn options(
    registry: &Arc<Registry>,
    request: &Request,
) -> Result<(Options, Option<Machine>), String> {
    let settled = by_times(&request.pipeline);
    let calibrated =
        request.calibrated().then(|| calibrated_machine(registry, request.threads, settled).machine);
    let machine = calibrated.unwrap_or(Machine::NOMINAL);
    let measured = settled.then(|| {
        let folder = ovolo::cache::home();
        Tuner::open(folder.as_deref(), request.threads, machine, registry.backends()).measured()
    });
    let options = Options { measured, ..options_for(registry, request, machine)? };
    let kept = calibrated.filter(|machine| {
        ovolo_tune::calibrate::kept(registry.backends(), request.threads) == Some(*machine)
    });
    Ok((options, kept))
}

/// Returns the options of a compilation for a machine of these speeds, without a table of times.
pub(super) fn options_for(
    registry: &Arc<Registry>,
    request: &Request,
    machine: Machine,
) -> Result<Options, String> {
    let rules = read_rules(registry, &request.rules)?;
    request.pipeline.names(&rules).map_err(|errors| errors.to_string())?;
    Ok(Options {
        threads: request.threads,
        machine,
        ..Options::from_parts(registry, rules, request.pipeline.clone())
    })
}

/// Returns one line on the steps of a plan that have no kernel of their own, if there are some.
pub(super) fn unfit(plan: &Plan) -> Option<String> {
    let Unfit { reference, converting } = plan.unfit()?;
    let part = |(count, ops): &(usize, BTreeSet<&str>), what: &str| {
        let ops = ops.iter().copied().collect::<Vec<_>>().join(", ");
        (*count > 0).then(|| format!("{count} {what} ({ops})"))
    };
    let parts = [
        part(&reference, "by the reference evaluation, which is slow and has one thread"),
        part(&converting, "by kernels for f32 that convert their operands and results inside"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(format!(
        "note: not all of {} step(s) have a kernel of their own: {}",
        plan.steps.len(),
        parts.join("; ")
    ))
}

/// Returns a line for each absent backend.
pub(super) fn absent(missing: &[(String, String)]) -> Vec<String> {
    missing.iter().map(|(name, why)| format!("backend {name}: {why}")).collect()
}

/// Reads a pipeline: a shipped one by its name, or a file. If rules are given, the rule names in it are
/// checked as well.
pub(super) fn read_pipeline(
    registry: &Registry,
    name: &str,
    rules: Option<&RuleSet>,
) -> Result<Pipeline, String> {
    let read_text = |name: &str, text: &str, folder: Option<&Path>| {
        let folder = Folder { path: folder, read: &|path: &Path| std::fs::read_to_string(path) };
        let scope = Scope { rules, folder, ..registry.scope() };
        Pipeline::read(&scope, name, text).map_err(|errors| errors.to_string())
    };
    if let Some((name, text)) = registry.pipeline(name) {
        return read_text(name, text, None);
    }
    let path = Path::new(name);
    if !path.exists() {
        let shipped: Vec<&str> = registry.pipeline_names().collect();
        return Err(format!(
            "--pipeline {name}: there is no such file; the shipped pipelines are {}",
            shipped.join(", ")
        ));
    }
    read_text(name, &read(path)?, path.parent())
}

fn read_rules(registry: &Registry, files: &[(String, String)]) -> Result<RuleSet, String> {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    RuleSet::read(registry.vocabulary(), &files).map_err(|errors| errors.to_string())
}

/// Reads a graph in text form; error messages name the file.
pub(super) fn read_graph(
    registry: &Registry,
    path: &Path,
    constants: &Constants<'_>,
) -> Result<Graph, String> {
    let source = Source::new(path.display().to_string(), read(path)?);
    text::parse_source(registry.ops(), &source, constants).map_err(|error| error.to_string())
}

/// Returns the graph that a model was imported as.
pub(super) fn imported(compilation: &Compilation) -> Result<&Graph, String> {
    let first = compilation.stages.first().ok_or("a compilation starts with the import")?;
    Ok(&first.graph)
}

/// Returns the tensors of inputs that must be tensors.
pub(super) fn tensors(given: BTreeMap<String, Item<Tensor>>) -> Result<Vec<(String, Tensor)>, String> {
    let tensor = |(name, item)| match item {
        Item::Tensor(tensor) => Ok((name, tensor)),
        Item::Sequence(_) | Item::Maps(..) | Item::Absent => Err(format!("input `{name}` must be a tensor")),
    };
    given.into_iter().map(tensor).collect()
}

/// Checks inputs that are given by name against an imported model, as [`inputs`] does against its plan.
pub(super) fn check_inputs(graph: &Graph, given: &BTreeMap<String, Item<Tensor>>) -> Result<(), String> {
    onnx::check_inputs(graph, &tensors(given.clone())?).map_err(|error| error.to_string())
}

/// Returns the plan's inputs in order, of those that are given by name. Every input is needed, and no other is
/// accepted.
pub(super) fn inputs(plan: &Plan, given: BTreeMap<String, Item<Tensor>>) -> Result<Vec<Tensor>, String> {
    let given = tensors(given)?;
    onnx::check_types(&plan.given_inputs(), &given).map_err(|error| error.to_string())?;
    let find = |name: &str| given.iter().find(|(given, _)| given == name).map(|(_, tensor)| tensor.clone());
    plan.inputs
        .iter()
        .map(|(name, _)| {
            find(name).ok_or_else(|| format!("input `{name}` is missing: give --input {name}=FILE.npy"))
        })
        .collect()
}
