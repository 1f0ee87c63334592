//! Compilation: takes a graph through the passes of a pipeline to a plan.
//!
//! All compilations run the same code. [`compile`] runs all passes. A question about a compilation runs the same
//! passes up to the extraction ([`Options::saturate`]), and is then answered by the next stage ([`Options::price`]).

use crate::cost::{Machine, Measured};
use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::host;
use crate::memory::Limit;
use crate::pass::pipeline::Pipeline;
use crate::pass::{self, AbsentRules, Context, Extract, Pass, PassReport, State};
use crate::plan::{MOST_THREADS, Plan};
use crate::registry::Registry;
use crate::rule::RuleSet;
use crate::session::Held;
use crate::stage::{self, Choice, Chosen, Curve, Imported, Planned, Priced, Saturated};
use crate::tensor::Device;
use crate::verify;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The inputs of a compilation besides the graph.
#[derive(Clone)]
pub struct Options {
    /// The ops, backends and other parts that the compilation may use.
    pub registry: Arc<Registry>,
    /// The enabled rules.
    pub rules: RuleSet,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The number of threads that the plan runs with.
    pub threads: usize,
    /// The speeds of the machine.
    pub machine: Machine,
    /// The table of times, for the cost model `measured`.
    pub measured: Option<Measured>,
    /// The name of the pass after which the text of the e-graph is kept.
    pub keep_egraph_after: Option<String>,
    /// What other plans of the model have in memory. The plan takes the same forms of weights unless others save more.
    pub held: Held,
}

impl Options {
    /// Makes options from rules and a pipeline, with one thread, the speeds of a nominal machine and no table of times.
    /// [`Options::new`] takes a pipeline of the registry by its name.
    ///
    /// ```
    /// # use ovolo::{Options, Pipeline, Registry};
    /// # use std::sync::Arc;
    /// # fn options(registry: &Arc<Registry>, pipeline: Pipeline) -> Result<Options, ovolo::Diagnostics> {
    /// Ok(Options { threads: 2, ..Options::from_parts(registry, registry.rule_set()?, pipeline) })
    /// # }
    /// ```
    pub fn from_parts(registry: &Arc<Registry>, rules: RuleSet, pipeline: Pipeline) -> Self {
        Self {
            registry: Arc::clone(registry),
            rules,
            pipeline,
            threads: 1,
            machine: Machine::NOMINAL,
            measured: None,
            keep_egraph_after: None,
            held: Held::default(),
        }
    }

    /// Returns the inputs of the passes besides this graph.
    pub fn context(&self, graph: &Graph) -> Context<'_> {
        Context {
            ops: self.registry.ops(),
            catalog: self.registry.catalog(),
            rules: &self.rules,
            pipeline: &self.pipeline,
            threads: self.threads,
            machine: self.machine,
            measured: self.measured.as_ref().map(|measured| measured.for_graph(graph)),
            constants: graph.constant_bytes(),
            absent_rules: AbsentRules::LeftOut,
            held: self.held.clone(),
        }
    }

    /// Runs all passes before the extraction, and returns the stage from which the extraction starts.
    ///
    /// # Errors
    /// As for [`compile`].
    pub fn saturate(&self, graph: &Graph) -> Result<Saturated, Error> {
        self.saturate_by_phases(graph, AbsentRules::LeftOut, &mut |_| Ok(()))
    }

    /// As [`Options::saturate`], with a choice whether rules of absent backends take part. `after` is called with the
    /// e-graph after each phase of rewriting; that phase is the last one of [`Saturated::growth`].
    ///
    /// # Errors
    /// As for [`Options::saturate`], and the errors of `after`.
    pub fn saturate_by_phases(
        &self,
        graph: &Graph,
        absent_rules: AbsentRules,
        after: &mut dyn FnMut(&mut Saturated) -> Result<(), Error>,
    ) -> Result<Saturated, Error> {
        let context = Context { absent_rules, ..self.context(graph) };
        let mut phases = 0;
        let state = start(graph.clone(), &context, &mut |_, _, _, _| Ok(()))?;
        let state = walk(state, self.before_extraction(), &context, &mut |_, state, _, _| {
            if let State::Saturated(saturated) = state
                && saturated.growth().len() > phases
            {
                phases = saturated.growth().len();
                after(saturated)?;
            }
            Ok(())
        })?;
        state.into_saturated("extract")
    }

    /// As [`Options::saturate`], and adds the stages of these passes to `stages`, as [`compile_into`] does. After
    /// [`Options::plan`], [`Options::finish`] makes a [`Compilation`] of them. So several programs can be chosen from one
    /// e-graph, and one of them be compiled.
    ///
    /// # Errors
    /// As for [`Options::saturate`].
    pub fn saturate_into(&self, graph: &Graph, stages: &mut Vec<Stage>) -> Result<Saturated, Error> {
        self.check_threads()?;
        let (context, mut keep) = (self.context(graph), self.keep(stages));
        let state = start(graph.clone(), &context, &mut keep)?;
        walk(state, self.before_extraction(), &context, &mut keep)?.into_saturated("extract")
    }

    /// Runs the passes after the extraction on a program that was chosen by [`Options::plan`] in `took`, and returns the
    /// compilation. `stages` contains the stages before the extraction.
    ///
    /// # Errors
    /// As for [`compile`].
    pub fn finish(
        &self,
        mut stages: Vec<Stage>,
        chosen: Chosen,
        took: Duration,
    ) -> Result<Compilation, Error> {
        let extraction = self.pipeline.extraction()?;
        let context = self.context(stages.first().map_or(&chosen.program, |stage| &stage.graph));
        let report = extraction.report(&chosen);
        let mut state = State::Chosen(Box::new(chosen));
        let mut keep = self.keep(&mut stages);
        keep(Some(extraction), &mut state, Some(report), took)?;
        let passes = self.pipeline.passes.iter().skip(self.before_extraction().count() + 1);
        let state = walk(state, passes, &context, &mut keep)?;
        drop(keep);
        self.compilation(state, stages)
    }

    /// Prices the e-graph by the pipeline's cost model.
    ///
    /// # Errors
    /// As for [`Saturated::price`]; also if the cost model lacks something.
    pub fn price<'s>(&self, saturated: &'s Saturated) -> Result<Priced<'s>, Error> {
        let context = self.context(saturated.graph());
        saturated.price(self.pipeline.extraction()?.model(&context)?, &context.target())
    }

    /// Returns the plans of a graph from the fastest to the smallest on a device, as [`Priced::curve`] does.
    ///
    /// # Errors
    /// As for [`Options::price`]; also if no backend of the pipeline has such a device.
    pub fn curve(
        &self,
        graph: &Graph,
        device: Device,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Curve, Error> {
        let any = Limit::default().with(device, usize::MAX);
        self.registry.catalog().check_limit(&any, &self.pipeline.backends)?;
        let saturated = self.saturate(graph)?;
        self.price(&saturated)?.curve(&self.choice(graph)?, device, progress)
    }

    /// Returns the settings by which the pipeline chooses a program.
    ///
    /// # Errors
    /// If the pipeline has no `Extract`, or names an unknown order or planner.
    pub fn choice(&self, graph: &Graph) -> Result<Choice, Error> {
        self.pipeline.extraction()?.choice(&self.context(graph))
    }

    /// Returns the program that the pipeline chooses from an e-graph, with its plan. Both are the same as after
    /// [`compile`].
    ///
    /// # Errors
    /// As for [`compile`].
    pub fn plan(&self, saturated: &Saturated) -> Result<Planned, Error> {
        let choice = self.choice(saturated.graph())?;
        self.price(saturated)?.choose(&choice)?.plan(&choice.planning)
    }

    /// Returns the features of each distinct kernel that the pipeline may choose, with its price if it has one.
    ///
    /// # Errors
    /// If the pipeline has no `Extract`, or if the cost model lacks something.
    pub fn features(&self, saturated: &Saturated) -> Result<Vec<stage::PricedKernel>, Error> {
        let context = self.context(saturated.graph());
        saturated.features(&*self.pipeline.extraction()?.model(&context)?, &context.target())
    }

    /// Returns the price of each step of some plans of a graph by the pipeline's cost model, which need not be the
    /// model that chose the plans. A step without a price is `None`.
    ///
    /// # Errors
    /// If the cost model lacks something, or if no enabled backend has a kernel.
    pub fn estimates(&self, graph: &Graph, plans: &[&Plan]) -> Result<Vec<Vec<Option<f64>>>, Error> {
        let context = self.context(graph);
        stage::estimates(plans, &*self.pipeline.extraction()?.model(&context)?, &context.target())
    }

    /// The passes before the extraction.
    fn before_extraction(&self) -> impl Iterator<Item = &Arc<dyn Pass>> {
        self.pipeline.passes.iter().take_while(|pass| pass.get::<Extract>().is_none())
    }

    /// Checks the number of threads.
    fn check_threads(&self) -> Result<(), Error> {
        let (threads, most) = (self.threads, MOST_THREADS);
        if (1..=most).contains(&threads) { Ok(()) } else { Err(Error::Threads { threads, most }) }
    }

    /// Returns a function that adds a stage after each pass.
    fn keep<'a>(&'a self, stages: &'a mut Vec<Stage>) -> impl After + use<'a> {
        |pass, state, report, time| {
            let name = pass.map_or("import", |pass| pass.name());
            let text = self.keep_egraph_after.as_deref() == Some(name);
            stages.push(Stage {
                name: name.to_owned(),
                graph: state.graph().clone(),
                egraph: state.egraph().filter(|_| text).map(EGraph::to_text),
                report,
                time,
            });
            Ok(())
        }
    }

    /// Returns the compilation whose last state and stages these are.
    fn compilation(&self, state: State, stages: Vec<Stage>) -> Result<Compilation, Error> {
        let Some(Planned { chosen, plan }) = state.into_planned() else {
            return Err(self.pipeline.without("Plan", "there is nothing to run"));
        };
        host::return_freed_memory();
        let absent = pass::absent(&self.pipeline, &self.registry.catalog().backends);
        Ok(Compilation { absent, stages, program: chosen.program, plan })
    }
}

/// The state after one pass, as a compilation keeps it.
#[derive(Debug)]
pub struct Stage {
    /// The name of the pass; `import` for the graph before all passes.
    pub name: String,
    /// The graph after the pass. Rewriting passes do not change it: their result is in the e-graph.
    pub graph: Graph,
    /// The text of the e-graph, if it was requested.
    pub egraph: Option<String>,
    /// The report of the pass.
    pub report: Option<PassReport>,
    /// The time that the pass took.
    pub time: Duration,
}

/// A compiled model.
#[derive(Debug)]
pub struct Compilation {
    /// The backends of the pipeline without candidates, each with the reason.
    pub absent: Vec<(String, String)>,
    /// The stages, from `import` on.
    pub stages: Vec<Stage>,
    /// The chosen program.
    pub program: Graph,
    /// The plan.
    pub plan: Plan,
}

impl Compilation {
    /// Returns the report of the extraction.
    pub fn extraction(&self) -> Option<&PassReport> {
        self.stages
            .iter()
            .filter_map(|stage| stage.report.as_ref())
            .find(|r| matches!(r, PassReport::Extract { .. }))
    }
}

/// Compiles a graph.
///
/// # Errors
/// If the graph does not verify or a pass fails.
pub fn compile(graph: Graph, options: &Options) -> Result<Compilation, Error> {
    compile_into(graph, options, &mut Vec::new())
}

/// As [`compile`]. If a pass fails, `stages` contains the stages before it; otherwise it is empty.
///
/// # Errors
/// As for [`compile`].
pub fn compile_into(graph: Graph, options: &Options, stages: &mut Vec<Stage>) -> Result<Compilation, Error> {
    options.check_threads()?;
    let context = options.context(&graph);
    let mut keep = options.keep(stages);
    let state = start(graph, &context, &mut keep)?;
    let state = walk(state, options.pipeline.passes.iter(), &context, &mut keep)?;
    drop(keep);
    let compilation = options.compilation(state, Vec::new())?;
    Ok(Compilation { stages: std::mem::take(stages), ..compilation })
}

/// A function that is called after each pass, with the pass, the new state, the report and the time of the pass. For the
/// import there is no pass.
trait After: FnMut(Option<&dyn Pass>, &mut State, Option<PassReport>, Duration) -> Result<(), Error> {}

impl<F: FnMut(Option<&dyn Pass>, &mut State, Option<PassReport>, Duration) -> Result<(), Error>> After for F {}

/// Verifies a graph, which is the state before all passes.
fn start(graph: Graph, context: &Context<'_>, after: &mut impl After) -> Result<State, Error> {
    if let Some(plan) = context.pipeline.plan() {
        context.catalog.check_limit(&plan.limits, &context.pipeline.backends)?;
    }
    let mut state = State::Imported(Imported::new(graph)?);
    after(None, &mut state, None, Duration::ZERO)?;
    Ok(state)
}

/// Takes a state through passes.
fn walk<'p>(
    mut state: State,
    passes: impl Iterator<Item = &'p Arc<dyn Pass>>,
    context: &Context<'_>,
    after: &mut impl After,
) -> Result<State, Error> {
    for pass in passes {
        let start = Instant::now();
        let (next, report) = pass.run(state, context)?;
        let time = start.elapsed();
        state = next;
        if cfg!(debug_assertions) {
            verify::verify(state.graph().clone())?;
        }
        after(Some(&**pass), &mut state, Some(report), time)?;
    }
    Ok(state)
}
