//! Compiling: a graph through the passes of a pipeline to a plan.
//!
//! There is one road. [`compile`] takes a graph through all passes; a question about a compilation takes it through the
//! same passes up to the extraction ([`Options::saturate`]) and is asked of the stage that comes next
//! ([`Options::price`]).

use crate::cost::{Machine, Measured};
use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::pipeline::Pipeline;
use crate::pass::{self, AbsentRules, Context, Extract, Pass, PassReport, State};
use crate::plan::Plan;
use crate::registry::Registry;
use crate::rule::RuleSet;
use crate::stage::{self, Choice, Imported, Planned, Priced, Saturated};
use crate::verify;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a compilation is told.
pub struct Options {
    /// What the compilation chooses among.
    pub registry: Arc<Registry>,
    /// The rules in play.
    pub rules: RuleSet,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Threads that the plan runs with.
    pub threads: usize,
    /// The speeds of the machine.
    pub machine: Machine,
    /// The table of times, for the cost model `measured`.
    pub measured: Option<Measured>,
    /// Keep the e-graph's text after this pass.
    pub keep_egraph_after: Option<String>,
}

impl Options {
    /// What the passes are told beside this graph.
    pub fn context(&self, graph: &Graph) -> Context<'_> {
        Context {
            ops: self.registry.ops(),
            catalog: self.registry.catalog(),
            rules: &self.rules,
            pipeline: &self.pipeline,
            threads: self.threads,
            machine: self.machine,
            measured: self.measured.as_ref().map(|measured| measured.of(graph)),
            constants: graph.constant_bytes(),
            absent_rules: AbsentRules::LeftOut,
        }
    }

    /// The stage that the pipeline's extraction starts from: the graph after all passes before it.
    ///
    /// # Errors
    /// As of [`compile`].
    pub fn saturate(&self, graph: &Graph) -> Result<Saturated, Error> {
        self.saturate_by_phases(graph, AbsentRules::LeftOut, &mut |_| Ok(()))
    }

    /// As [`Options::saturate`], with a say on rules that lead to absent backends. `after` is told of the e-graph after
    /// each phase of rewriting, the last of [`Saturated::growth`].
    ///
    /// # Errors
    /// As of [`Options::saturate`], and those of `after`.
    pub fn saturate_by_phases(
        &self,
        graph: &Graph,
        absent_rules: AbsentRules,
        after: &mut dyn FnMut(&mut Saturated) -> Result<(), Error>,
    ) -> Result<Saturated, Error> {
        let context = Context { absent_rules, ..self.context(graph) };
        let mut phases = 0;
        let state =
            walk(graph.clone(), &context, &|pass| pass.get::<Extract>().is_some(), &mut |_, state, _, _| {
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

    /// The e-graph with the prices of the pipeline's cost model.
    ///
    /// # Errors
    /// As of [`Saturated::price`]; the cost model lacks something.
    pub fn price<'s>(&self, saturated: &'s Saturated) -> Result<Priced<'s>, Error> {
        let context = self.context(saturated.graph());
        saturated.price(self.pipeline.extraction()?.model(&context)?, &context.target())
    }

    /// How the pipeline chooses a program.
    ///
    /// # Errors
    /// The pipeline has no `Extract`, or names an order or a planner that there is not.
    pub fn choice(&self, graph: &Graph) -> Result<Choice, Error> {
        self.pipeline.extraction()?.choice(&self.context(graph))
    }

    /// The program that the pipeline chooses of an e-graph, with its plan, as compiling has it.
    ///
    /// # Errors
    /// As of [`compile`].
    pub fn plan(&self, saturated: &Saturated) -> Result<Planned, Error> {
        let choice = self.choice(saturated.graph())?;
        self.price(saturated)?.choose(&choice)?.plan(&choice.planning)
    }

    /// The features of each distinct kernel that the pipeline may choose, with its price where it has one.
    ///
    /// # Errors
    /// The pipeline has no `Extract`; the cost model lacks something.
    pub fn features(&self, saturated: &Saturated) -> Result<Vec<stage::Kernel>, Error> {
        let context = self.context(saturated.graph());
        saturated.features(&*self.pipeline.extraction()?.model(&context)?, &context.target())
    }

    /// What the pipeline's cost model says of each step of some plans of a graph, which others may have chosen. `None`
    /// for a step that it has no price for.
    ///
    /// # Errors
    /// The cost model lacks something; a kernel that no backend in play has.
    pub fn estimates(&self, graph: &Graph, plans: &[&Plan]) -> Result<Vec<Vec<Option<f64>>>, Error> {
        let context = self.context(graph);
        stage::estimates(plans, &*self.pipeline.extraction()?.model(&context)?, &context.target())
    }
}

/// The state after one pass, as a compilation keeps it.
#[derive(Debug)]
pub struct Stage {
    /// The pass; `import` for the graph as it came.
    pub name: String,
    /// The graph after it. Rewriting passes leave it as it is: their result is in the e-graph.
    pub graph: Graph,
    /// The e-graph's text, where it was asked for.
    pub egraph: Option<String>,
    /// What the pass has to say.
    pub report: Option<PassReport>,
    /// How long it took.
    pub time: Duration,
}

/// A compiled model.
#[derive(Debug)]
pub struct Compilation {
    /// Backends of the pipeline none of whose kernels was a candidate, each with the reason.
    pub absent: Vec<(String, String)>,
    /// The stages, from `import` on.
    pub stages: Vec<Stage>,
    /// The extracted program.
    pub program: Graph,
    /// The plan.
    pub plan: Plan,
}

impl Compilation {
    /// The report of the extraction.
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

/// As [`compile`]; where a pass fails, `stages` holds those before it, and is empty elsewhere.
///
/// # Errors
/// As of [`compile`].
pub fn compile_into(graph: Graph, options: &Options, stages: &mut Vec<Stage>) -> Result<Compilation, Error> {
    let context = options.context(&graph);
    let keep = |pass: Option<&dyn Pass>, state: &State, report: Option<PassReport>, time: Duration| {
        let name = pass.map_or("import", |pass| pass.name());
        let text = options.keep_egraph_after.as_deref() == Some(name);
        Stage {
            name: name.to_owned(),
            graph: state.graph().clone(),
            egraph: state.egraph().filter(|_| text).map(EGraph::to_text),
            report,
            time,
        }
    };
    let state = walk(graph, &context, &|_| false, &mut |pass, state, report, time| {
        stages.push(keep(pass, state, report, time));
        Ok(())
    })?;
    let Some(Planned { chosen, plan }) = state.into_planned() else {
        return Err(Error::setting(format!(
            "pipeline `{}` has no `Plan` pass, so there is nothing to run",
            options.pipeline.name
        )));
    };
    let stages = std::mem::take(stages);
    let absent = pass::absent(&options.pipeline, &options.registry.catalog().backends);
    Ok(Compilation { absent, stages, program: chosen.program, plan })
}

/// What is told of each state on the road: the pass that led to it, which is none for the import, its report, and the
/// time that it took.
type After<'a> =
    &'a mut dyn FnMut(Option<&dyn Pass>, &mut State, Option<PassReport>, Duration) -> Result<(), Error>;

/// The road: verifies a graph, and takes it through the passes of a pipeline, or as far as the first pass that `ends` it.
fn walk(
    graph: Graph,
    context: &Context<'_>,
    ends: &dyn Fn(&dyn Pass) -> bool,
    after: After<'_>,
) -> Result<State, Error> {
    if let Some(plan) = context.pipeline.plan() {
        context.catalog.check_limit(&plan.limits)?;
    }
    let mut state = State::Imported(Imported::new(graph)?);
    after(None, &mut state, None, Duration::ZERO)?;
    for pass in context.pipeline.passes.iter().take_while(|pass| !ends(&***pass)) {
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
