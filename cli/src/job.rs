//! What other programs ask of the command line: the same settings, cache and reports, with results instead of printed
//! text.

use super::caching::Caching;
use super::dynamic::{Prepared, dynamic, prepare};
use super::explain::{runner_up_text, runner_ups, show, supposed_text, text};
use super::load::{absent, any, imported, inputs, unfit};
use super::note::say;
use super::page::writable;
use super::rules::why_not;
use super::{Refusal, Settings};
use ovolo::backend::{Artifacts, Unkept};
use ovolo::cache::KeptArtifacts;
use ovolo::compile::{Compilation, Options};
use ovolo::dynamic::DynamicSession;
use ovolo::egraph::RunnerUp;
use ovolo::extract::Problem;
use ovolo::onnx::{ImportOptions, Item};
use ovolo::pass::pipeline::Pipeline;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::session::Session;
use ovolo::stage::{Curve, PricedKernel, Scale};
use ovolo::team::Team;
use ovolo::tensor::{Device, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model with the settings by which it is compiled.
pub struct Job {
    registry: Arc<Registry>,
    settings: Settings,
    caching: Caching,
}

/// A model that is ready to run.
pub enum Runnable {
    /// All its shapes are fixed, and it has one plan.
    Fixed(Box<Session>),
    /// It is compiled while it runs.
    Dynamic(Box<DynamicSession<'static>>),
}

impl Job {
    /// Makes a job. With `cached`, plans are read from the cache and kept in it, if there is a folder for it.
    pub fn new(registry: Arc<Registry>, settings: Settings, cached: bool) -> Self {
        Self { registry, settings, caching: Caching { no_cache: !cached } }
    }

    /// Returns the registry.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the pipeline by which the model is compiled, with what the settings change in it.
    ///
    /// # Errors
    /// The pipeline or another file has mistakes.
    pub fn pipeline(&self) -> Result<Pipeline, Refusal> {
        Ok(self.settings.request(&self.registry, &self.settings.pipeline)?.pipeline)
    }

    /// Returns how the model is imported: the sizes of its dimensions, and how far loops are written out.
    ///
    /// # Errors
    /// A dimension is bound to no number, or twice.
    pub fn import(&self) -> Result<ImportOptions, Refusal> {
        Ok(self.settings.import(&self.registry)?)
    }

    /// Returns the settings by which a graph is compiled, for versions of the model that are in no file.
    ///
    /// # Errors
    /// As [`Job::pipeline`]; also if rules have mistakes.
    pub fn options(&self) -> Result<Options, Refusal> {
        Ok(self.settings.options(&self.registry, &self.settings.pipeline)?)
    }

    /// Refuses a file that cannot be written before the work for it is done. `option` is where it is named, and `read`
    /// are the files that a command reads besides those of the compilation.
    ///
    /// # Errors
    /// The file is one that is read, its folder does not exist, or it is there and no regular file.
    pub fn check_output(&self, option: &str, file: &Path, read: Vec<PathBuf>) -> Result<(), Refusal> {
        let mut inputs = self.settings.inputs();
        inputs.extend(read);
        Ok(writable(&format!("{option} "), file, &inputs)?)
    }

    /// Calls a function with the store in which backends keep what they compile for a device. It keeps nothing if plans
    /// are not cached, or if there is no folder for it.
    pub fn with_artifacts<T>(&self, call: impl FnOnce(&dyn Artifacts) -> T) -> T {
        match self.caching.cache(&self.registry) {
            Some(cache) => call(&KeptArtifacts::new(cache.folder())),
            None => call(&Unkept),
        }
    }

    /// Makes the model ready to run, as `ovolo run` does: its plan comes from the cache or is compiled now, unless a
    /// size or a branch depends on the inputs. All models of a process with the same number of threads share a team.
    ///
    /// # Errors
    /// The model, a pipeline or another file has mistakes, or the model cannot be compiled.
    pub fn session(&self) -> Result<Runnable, Refusal> {
        match prepare(&self.settings, &self.caching, &self.registry, &BTreeMap::new(), &any)? {
            Prepared::Fixed(ready) => {
                let session = ready.kept(&self.registry);
                unfit(session.plan()).iter().for_each(|line| say!("{line}"));
                let team = Team::shared(session.plan().threads);
                Ok(Runnable::Fixed(Box::new(session.on(&team))))
            }
            Prepared::Dynamic(session) => Ok(Runnable::Dynamic(self.on_shared_team(session)?)),
        }
    }

    /// Makes the model ready to run for inputs of any size that it declares, and for other values than those that it has for
    /// its optional inputs. It is compiled while it runs, also if all its shapes are fixed.
    ///
    /// # Errors
    /// As [`Job::session`].
    pub fn dynamic(&self) -> Result<Box<DynamicSession<'static>>, Refusal> {
        self.on_shared_team(dynamic(&self.settings, &self.caching, &self.registry)?)
    }

    fn on_shared_team(
        &self,
        session: Box<DynamicSession<'static>>,
    ) -> Result<Box<DynamicSession<'static>>, Refusal> {
        Ok(Box::new(session.on(&Team::shared(self.settings.threads()?))))
    }

    /// Compiles the model, whose shapes must be fixed, without the cache. The options can answer questions about what
    /// was chosen.
    ///
    /// # Errors
    /// As [`Job::session`]; also if a size depends on the inputs.
    pub fn compile(&self) -> Result<(Compilation, Options), Refusal> {
        let (compilation, options) = self.settings.compile_and_options(&self.registry)?;
        absent(&compilation.absent).iter().for_each(|line| say!("{line}"));
        Ok((compilation, options))
    }

    /// Returns the inputs of a plan in order, of those that are given by name.
    ///
    /// # Errors
    /// An input is missing, has another type, or is none of the plan's.
    pub fn inputs(plan: &Plan, given: BTreeMap<String, Item<Tensor>>) -> Result<Vec<Tensor>, Refusal> {
        Ok(inputs(plan, given)?)
    }

    /// Explains each step of a plan, as `ovolo explain` does.
    pub fn explain(plan: &Plan) -> String {
        text(plan)
    }

    /// Returns what would be chosen instead of each step: the closest choice first.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn runner_ups(compilation: &Compilation, options: &Options) -> Result<Vec<RunnerUp>, Refusal> {
        Ok(runner_ups(imported(compilation)?, options, &mut |_, _| {})?)
    }

    /// Tells in words what would be chosen instead of a step.
    pub fn tell_runner_up(one: &RunnerUp) -> String {
        runner_up_text(one)
    }

    /// Tells what would be chosen if kernels cost more or less, as `ovolo explain --what-if` does.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn what_if(
        compilation: &Compilation,
        options: &Options,
        scales: &[Scale],
    ) -> Result<String, Refusal> {
        let graph = imported(compilation)?;
        let found = options
            .saturate(graph)
            .and_then(|saturated| options.price(&saturated)?.what_if(&options.choice(graph)?, scales));
        Ok(supposed_text(&found.map_err(|error| error.to_string())?))
    }

    /// Returns the plans from the fastest to the smallest on a device.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn memory_curve(
        compilation: &Compilation,
        options: &Options,
        device: Device,
    ) -> Result<Curve, Refusal> {
        let curve = options.curve(imported(compilation)?, device, &mut |_, _| {});
        Ok(curve.map_err(|error| error.to_string())?)
    }

    /// Returns the e-graph that the extraction chooses from, with its prices.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn problem(compilation: &Compilation, options: &Options) -> Result<Problem, Refusal> {
        let saturated = options.saturate(imported(compilation)?).map_err(|error| error.to_string())?;
        let priced = options.price(&saturated).map_err(|error| error.to_string())?;
        Ok(priced.problem().clone())
    }

    /// Returns the features of each kernel that may be chosen, with its price.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn features(compilation: &Compilation, options: &Options) -> Result<Vec<PricedKernel>, Refusal> {
        let saturated = options.saturate(imported(compilation)?).map_err(|error| error.to_string())?;
        Ok(options.features(&saturated).map_err(|error| error.to_string())?)
    }

    /// Returns the same e-graph with its names, in the JSON form of the crate `egraph-serialize`.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn egraph(compilation: &Compilation, options: &Options) -> Result<String, Refusal> {
        let saturated = options.saturate(imported(compilation)?).map_err(|error| error.to_string())?;
        let priced = options.price(&saturated).map_err(|error| error.to_string())?;
        Ok(priced.named().to_json())
    }

    /// Returns the price of each step of a plan of the same model by the cost model of these options. A step without a
    /// price is `None`.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn estimates(
        compilation: &Compilation,
        options: &Options,
        plan: &Plan,
    ) -> Result<Vec<Option<f64>>, Refusal> {
        let estimates = options.estimates(imported(compilation)?, &[plan]);
        Ok(estimates.map_err(|error| error.to_string())?.pop().unwrap_or_default())
    }

    /// Returns the page with pictures that `ovolo explain --html` writes.
    ///
    /// # Errors
    /// As [`Job::compile`].
    pub fn html(&self, compilation: &Compilation, options: &Options) -> Result<String, Refusal> {
        let (settings, registry) = (&self.settings, &self.registry);
        let page =
            show(settings, registry, compilation, options, &mut |_, _| {}, &mut |page| Ok(page.html()));
        Ok(page?)
    }

    /// Tells why a rule does not fire on the model, or on one value of it, as `ovolo rules why-not` does.
    ///
    /// # Errors
    /// No rule or phase has this name, or the model cannot be imported.
    pub fn why_not(&self, rule: &str, node: Option<&str>) -> Result<String, Refusal> {
        Ok(why_not(&self.registry, &self.settings, rule, node, false)?)
    }
}
