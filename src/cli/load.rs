//! From settings on the command line to a compiled model.

use super::pack::replace;
use super::{Settings, print};
use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::Machine;
use ovolo::graph::Graph;
use ovolo::npy;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass::pipeline::{PassSpec, Pipeline, SHIPPED};
use ovolo::plan::Plan;
use ovolo::report::Page;
use ovolo::rule::{self, RuleSet};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use ovolo::tune::{self, Tuned, Tuner};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Threads that a team may have: more than any machine has processors for.
const MOST_THREADS: usize = 1024;

/// The speeds of this machine; a reading that is not worth keeping is said.
pub(super) fn calibrated_machine(threads: usize) -> Machine {
    let ovolo::calibrate::Calibration { machine, steady } = ovolo::calibrate::machine(threads);
    if !steady {
        eprintln!(
            "note: the machine was busy while its speed was measured: costs are rough, and it is measured again next time"
        );
    }
    machine
}

/// Whether a pipeline prices by measured times.
fn by_times(pipeline: &Pipeline) -> bool {
    pipeline
        .passes
        .iter()
        .any(|pass| matches!(pass, PassSpec::Extract(settings) if settings.cost == "measured"))
}

/// A bar on the terminal, if there is one: told how many of how many are done.
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

/// Compiles by measured times, after tuning what is missing, with a bar while that lasts.
pub(super) fn tuned(graph: &Graph, options: Options, refine: bool) -> Result<Tuned, String> {
    let folder = ovolo::calibrate::folder();
    if folder.is_none() {
        eprintln!("note: there is no folder for the table of times: set OVOLO_CACHE to keep it");
    }
    let mut tuner = Tuner::open(folder.as_deref(), options.threads, options.machine);
    for note in tuner.notes() {
        eprintln!("note: {note}");
    }
    tuner.refine = refine;
    let mut bar = bar("tuning", "kernels");
    tuner.progress = Box::new(move |progress| {
        bar(progress.done, progress.all);
        true
    });
    let tuned = tune::compile(graph, options, &mut tuner).map_err(|error| error.to_string())?;
    for note in tuner.notes() {
        eprintln!("note: {note}");
    }
    let tally = &tuned.tally;
    if tally.kernels > 0 {
        eprintln!(
            "tuned: {} kernels: {} known, {} timed, {} hopeless by estimate, {} wrong; {} disturbed runs left out",
            tally.kernels, tally.known, tally.timed, tally.skipped, tally.wrong, tally.disturbed
        );
    }
    eprintln!("{}", tuned.report());
    Ok(tuned)
}

impl Settings {
    pub(super) fn threads(&self) -> Result<usize, String> {
        match self.threads {
            Some(0) => Err("--threads takes 1 or more".into()),
            Some(threads) if threads > MOST_THREADS => {
                Err(format!("--threads takes up to {MOST_THREADS}, not {threads}"))
            }
            Some(threads) => Ok(threads),
            None => Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
        }
    }

    /// The graph of the model.
    pub(super) fn graph(&self) -> Result<Graph, String> {
        let mut dims = BTreeMap::new();
        for dim in &self.dims {
            let (name, size) = dim
                .split_once('=')
                .and_then(|(name, size)| Some((name, size.parse::<usize>().ok().filter(|size| *size > 0)?)))
                .ok_or_else(|| format!("--dim takes NAME=N with N at least 1, not `{dim}`"))?;
            if let Some(before) = dims.insert(name.to_owned(), size) {
                return Err(format!("--dim gives `{name}` twice: {before} and {size}"));
            }
        }
        if self.model.extension().is_some_and(|extension| extension == "ovolo") {
            let text = read(&self.model)?;
            return ovolo::graph::text::parse(&text).map_err(|error| error.to_string());
        }
        let missing_weights =
            if self.seeded_weights { MissingWeights::Seeded } else { MissingWeights::Refuse };
        let options = ImportOptions { dims, missing_weights };
        Ok(onnx::load(&self.model, &options).map_err(|error| error.to_string())?.graph)
    }

    /// A pipeline with the cost model and the extractor that were asked for.
    fn adjusted(&self, pipeline: &str) -> Result<Pipeline, String> {
        let mut pipeline = read_pipeline(pipeline)?;
        for pass in &mut pipeline.passes {
            if let PassSpec::Extract(settings) = pass {
                settings.cost = self.cost.clone().unwrap_or_else(|| settings.cost.clone());
                settings.extractor = self.extractor.clone().unwrap_or_else(|| settings.extractor.clone());
            }
        }
        Ok(pipeline)
    }

    /// The options of the compilation.
    pub(super) fn options(&self, pipeline: &str) -> Result<Options, String> {
        let pipeline = self.adjusted(pipeline)?;
        let calibrated =
            pipeline.passes.iter().any(|pass| matches!(pass, PassSpec::Extract(s) if s.cost != "flops"));
        let threads = self.threads()?;
        let machine = if calibrated { calibrated_machine(threads) } else { Machine::NOMINAL };
        let measured = by_times(&pipeline).then(|| {
            let folder = ovolo::calibrate::folder();
            Tuner::open(folder.as_deref(), threads, machine).measured()
        });
        Ok(Options {
            rules: rules(&self.rules)?,
            pipeline,
            threads,
            machine,
            measured,
            keep_egraph_after: None,
        })
    }

    pub(super) fn compile(&self) -> Result<Compilation, String> {
        let options = self.options(&self.pipeline)?;
        if by_times(&options.pipeline) {
            return Ok(tuned(&self.graph()?, options, false)?.compilation);
        }
        compile::compile(self.graph()?, &options).map_err(|error| error.to_string())
    }

    /// Compiles, and gives the options that its choices can be questioned with.
    pub(super) fn compile_and_options(&self) -> Result<(Compilation, Options), String> {
        let options = self.options(&self.pipeline)?;
        if by_times(&options.pipeline) {
            // Read again, with the times that the tuning has added.
            let compilation = tuned(&self.graph()?, options, false)?.compilation;
            return Ok((compilation, self.options(&self.pipeline)?));
        }
        let compilation = compile::compile(self.graph()?, &options).map_err(|error| error.to_string())?;
        Ok((compilation, options))
    }

    pub(super) fn session(&self) -> Result<(Session, Graph), String> {
        let compilation = self.compile()?;
        for line in absent(&compilation) {
            eprintln!("{line}");
        }
        let Compilation { program, plan, .. } = compilation;
        Ok((Session::new(&program, plan).map_err(|error| error.to_string())?, program))
    }
}

impl Settings {
    /// The name of the model's file.
    pub(super) fn title(&self) -> String {
        self.model.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// How a plan came about, for a reader: names and values.
    pub(super) fn account(&self, plan: &Plan) -> Result<Vec<(&'static str, String)>, String> {
        let pipeline = self.adjusted(&self.pipeline)?;
        let mut account = vec![("ovolo", env!("CARGO_PKG_VERSION").to_owned()), ("pipeline", pipeline.name)];
        for pass in pipeline.passes {
            if let PassSpec::Extract(settings) = pass {
                account.extend([("cost model", settings.cost), ("extractor", settings.extractor)]);
            }
        }
        account.push(("threads", plan.threads.to_string()));
        if !self.dims.is_empty() {
            account.push(("dim", self.dims.join(" ")));
        }
        Ok(account)
    }
}

/// Refuses a file that cannot be written, before the work for it is done.
pub(super) fn writable(file: &Path) -> Result<(), String> {
    let said = |why: &str| Err(format!("--html {}: {why}", file.display()));
    if file.is_dir() || file.file_name().is_none() {
        return said("is a directory");
    }
    // It would be replaced, not written to.
    if std::fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return said("is there, and is no plain file");
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            said(&format!("there is no directory {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a page, and says so.
pub(super) fn write_page(file: &Path, page: &Page<'_>) -> Result<(), String> {
    let html = page.html();
    replace(file, &html).map_err(|why| format!("--html {why}"))?;
    print(&format!("{}: {} steps, {} bytes\n", file.display(), page.plan.steps.len(), html.len()));
    Ok(())
}

/// A line for each backend of the pipeline that was not there.
pub(super) fn absent(compilation: &Compilation) -> Vec<String> {
    compilation.absent.iter().map(|(name, why)| format!("backend {name}: {why}")).collect()
}

pub(super) fn read_pipeline(name: &str) -> Result<Pipeline, String> {
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == format!("passes/{name}.ron")) {
        return Pipeline::read(name, text).map_err(|errors| errors.to_string());
    }
    let path = Path::new(name);
    if !path.exists() {
        let shipped: Vec<&str> = SHIPPED
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("passes/")?.strip_suffix(".ron"))
            .collect();
        return Err(format!(
            "--pipeline {name}: no such file, and the shipped pipelines are {}",
            shipped.join(", ")
        ));
    }
    Pipeline::read(name, &read(path)?).map_err(|errors| errors.to_string())
}

/// The shipped rules and those of some directories.
pub(super) fn rules(directories: &[PathBuf]) -> Result<RuleSet, String> {
    let mut files: Vec<(String, String)> =
        rule::SHIPPED.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    for directory in directories {
        files.extend(rule_files(directory)?);
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    RuleSet::read(&files).map_err(|errors| errors.to_string())
}

/// The rule files of a directory: names and texts.
pub(super) fn rule_files(directory: &Path) -> Result<Vec<(String, String)>, String> {
    let listed =
        std::fs::read_dir(directory).map_err(|error| format!("--rules {}: {error}", directory.display()))?;
    let mut found: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "ron"));
    found.sort();
    if found.is_empty() {
        return Err(format!("--rules {}: there is no .ron file in it", directory.display()));
    }
    found.into_iter().map(|path| Ok((path.display().to_string(), read(&path)?))).collect()
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of the file that holds a value: a `/` becomes a `_`.
pub(super) fn file_name(name: &str) -> String {
    format!("{}.npy", name.replace('/', "_"))
}

/// Writes outputs as `NAME.npy`; none of them if two would be one file.
pub(super) fn write_outputs(session: &Session, outputs: &[Tensor], directory: &Path) -> Result<(), String> {
    let mut files = BTreeMap::new();
    for (name, ..) in &session.plan().outputs {
        if let Some(other) = files.insert(file_name(name), name) {
            return Err(format!(
                "outputs `{other}` and `{name}` would both be {}: rename one of them in the model",
                file_name(name)
            ));
        }
    }
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for ((name, _, _), tensor) in session.plan().outputs.iter().zip(outputs) {
        npy::write(directory.join(file_name(name)), tensor).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The model's inputs in order, from files by name. Every input is needed, and no other is taken.
pub(super) fn inputs(program: &Graph, files: &[(String, PathBuf)]) -> Result<Vec<Tensor>, String> {
    let mut given = Vec::new();
    for (name, path) in files {
        given.push((name.clone(), npy::read(path).map_err(|error| error.to_string())?));
    }
    onnx::check_inputs(program, &given).map_err(|error| error.to_string())?;
    let find = |name: &str| given.iter().find(|(given, _)| given == name).map(|(_, tensor)| tensor.clone());
    program
        .inputs()
        .map(|(_, node)| find(&node.name).ok_or_else(|| format!("input `{}` is missing", node.name)))
        .collect()
}
