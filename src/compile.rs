//! Compiling: a graph through the passes of a pipeline to a plan, every stage kept.

pub mod curve;
pub mod exchange;
pub mod feature;
pub mod runner_up;
pub mod what_if;

use crate::cost::{Machine, Measured};
use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::pipeline::Pipeline;
use crate::pass::{self, Context, PassReport, State};
use crate::plan::Plan;
use crate::registry::Registry;
use crate::rule::RuleSet;
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
        }
    }
}

/// The state after one pass.
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
    if let Some(plan) = options.pipeline.plan() {
        context.catalog.check_limit(&plan.limits)?;
    }
    let graph = verify::verify(graph)?.into_inner();
    stages.push(Stage {
        name: "import".into(),
        graph: graph.clone(),
        egraph: None,
        report: None,
        time: Duration::ZERO,
    });
    let mut state = State { graph, egraph: None, sources: Vec::new(), cost: None, chosen: None, plan: None };
    for pass in &options.pipeline.passes {
        let start = Instant::now();
        let report = pass.run(&mut state, &context)?;
        let time = start.elapsed();
        if cfg!(debug_assertions) {
            verify::verify(state.graph.clone())?;
        }
        let keep = options.keep_egraph_after.as_deref() == Some(pass.name());
        stages.push(Stage {
            name: pass.name().to_owned(),
            graph: state.graph.clone(),
            egraph: state.egraph.as_ref().filter(|_| keep).map(EGraph::to_text),
            report: Some(report),
            time,
        });
    }
    let plan = state.plan.ok_or_else(|| {
        Error::setting(format!(
            "pipeline `{}` has no `Plan` pass, so there is nothing to run",
            options.pipeline.name
        ))
    })?;
    let stages = std::mem::take(stages);
    let absent = pass::absent(&options.pipeline, &options.registry.catalog().backends);
    Ok(Compilation { absent, stages, program: state.graph, plan })
}

/// The e-graph of a model after all rewriting phases of a pipeline.
///
/// # Errors
/// If the graph does not verify or a rule fails.
pub fn saturated(graph: &Graph, options: &Options) -> Result<EGraph, Error> {
    let graph = verify::verify(graph.clone())?.into_inner();
    let mut egraph = EGraph::new(&graph);
    for phase in options.pipeline.rewrites() {
        let rules = options.pipeline.select(phase, &options.rules).map_err(Error::Pipeline)?;
        egraph.saturate(&rules, phase.limits(graph.len()), &|| Duration::ZERO)?;
    }
    Ok(egraph)
}
