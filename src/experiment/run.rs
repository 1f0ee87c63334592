//! Doing the tasks of an experiment. What a task gives is plain JSON: what follows from the spec alone, and
//! under `measured` what a clock has said.

use super::spec::{SAMPLE, Spec};
use super::task::{Cell, Task};
use crate::audit::{self, ablate};
use crate::calibrate;
use crate::compile::Options;
use crate::cost::Machine;
use crate::egraph::EGraph;
use crate::error::Error;
use crate::extract::{self, Extractor};
use crate::graph::Graph;
use crate::graph::text;
use crate::onnx::{self, ImportOptions, MissingWeights};
use crate::pass::pipeline::PassSpec;
use crate::pass::{self, Chosen};
use crate::plan::Plan;
use crate::rule::{self, RuleSet};
use crate::tune::{self, Sampling, Tuner, checksum};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// Shares of an extractor's limits, for cost and bound against work.
const EFFORTS: [f64; 6] = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Does the tasks of a spec, and keeps what several of them need.
pub(super) struct Runner<'a> {
    spec: &'a Spec,
    rules: RuleSet,
    machine: Machine,
    tuner: Tuner<'a>,
    graph: Option<(usize, Graph)>,
    egraph: Option<((usize, usize), EGraph)>,
    /// The models and pipelines whose kernels have times.
    settled: BTreeSet<(usize, usize)>,
}

/// A plan of a race.
struct Entrant {
    text: String,
    pipeline: usize,
    chosen: Chosen,
    /// The cost models and extractors that chose it.
    by: Vec<(usize, String)>,
}

impl<'a> Runner<'a> {
    pub fn new(spec: &'a Spec, machine: Machine) -> Result<Self, Error> {
        let rules = RuleSet::read(rule::SHIPPED).map_err(Error::Rules)?;
        for (_, pipeline) in &spec.pipelines {
            pipeline.names(&rules).map_err(Error::Pipeline)?;
        }
        let tuner = Tuner::open(calibrate::folder().as_deref(), spec.threads, machine);
        Ok(Self { spec, rules, machine, tuner, graph: None, egraph: None, settled: BTreeSet::new() })
    }

    /// What there is to say of the table of times.
    pub fn notes(&mut self) -> Vec<String> {
        self.tuner.notes()
    }

    pub fn run(&mut self, task: &Task) -> Result<Value, Error> {
        match task {
            Task::Plan(cell, extractor) => self.plan(cell, &self.spec.extractors[*extractor].clone()),
            Task::Ablation(cell) => self.ablation(cell),
            Task::Memory(cell) => self.memory(cell),
            Task::Gap(cell, extractor) => self.gap(cell, &self.spec.extractors[*extractor].clone()),
            Task::Race { model, seed } => self.race(*model, self.spec.seeds[*seed]),
        }
    }

    /// The options of a cell, with its graph and e-graph at hand, and its kernels timed if it asks for times.
    fn ready(&mut self, cell: &Cell, extractor: &str) -> Result<Options, Error> {
        if self.graph.as_ref().is_none_or(|(model, _)| *model != cell.model) {
            let model = &self.spec.models[cell.model];
            let graph = load(&model.file, model)?;
            self.egraph = None;
            self.graph = Some((cell.model, graph));
        }
        let mut options = self.options(cell, extractor);
        if self.egraph.as_ref().is_none_or(|(of, _)| *of != (cell.model, cell.pipeline)) {
            let egraph = audit::saturated(self.graph(), &options)?;
            self.egraph = Some(((cell.model, cell.pipeline), egraph));
        }
        if self.spec.costs[cell.cost].kind == "measured" && self.settled.insert((cell.model, cell.pipeline)) {
            let Some((_, graph)) = &self.graph else { unreachable!("it was loaded") };
            tune::settle(graph, &mut options, &mut self.tuner)?;
            options = self.options(cell, extractor);
        }
        Ok(options)
    }

    fn graph(&self) -> &Graph {
        let Some((_, graph)) = &self.graph else { unreachable!("a cell is ready before it is asked about") };
        graph
    }

    fn egraph(&self) -> &EGraph {
        let Some((_, egraph)) = &self.egraph else {
            unreachable!("a cell is ready before it is asked about")
        };
        egraph
    }

    fn options(&self, cell: &Cell, extractor: &str) -> Options {
        let cost = &self.spec.costs[cell.cost];
        let mut pipeline = self.spec.pipelines[cell.pipeline].1.clone();
        for pass in &mut pipeline.passes {
            if let PassSpec::Extract(settings) = pass {
                settings.cost.clone_from(&cost.kind);
                settings.extractor = extractor.to_owned();
                settings.process.clone_from(&cost.command);
                settings.formula = cost.text.clone().filter(|_| cost.kind == "formula");
                settings.learned = cost.text.clone().filter(|_| cost.kind == "learned");
            }
        }
        Options {
            rules: self.rules.clone(),
            pipeline,
            threads: self.spec.threads,
            machine: self.machine,
            measured: (cost.kind == "measured").then(|| self.tuner.measured()),
            keep_egraph_after: None,
        }
    }

    fn plan(&mut self, cell: &Cell, extractor: &str) -> Result<Value, Error> {
        let options = self.ready(cell, extractor)?;
        let start = Instant::now();
        let Chosen { extraction, plan, .. } = pass::planned(self.egraph(), &options.context(self.graph()))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({
            "cost": extraction.cost, "bound": extraction.bound, "gap": gap(extraction.cost, extraction.bound),
            "proven": extraction.proven, "method": extraction.report.method, "states": extraction.report.states,
            "steps": plan.steps.len(), "arena": plan.arena, "lower_bound": plan.lower_bound,
            "plan": checksum(&plan.to_string()), "measured": {"seconds": seconds},
        }))
    }

    fn ablation(&mut self, cell: &Cell) -> Result<Value, Error> {
        let mut options = self.ready(cell, "exact")?;
        let (whole, worths) = ablate::rules(self.graph(), &mut options, &mut |_, _, _| {})?;
        let rules: Vec<Value> = worths
            .into_iter()
            .map(|worth| match worth.without {
                Ok(cost) => json!({"rule": worth.rule, "without": cost}),
                Err(why) => json!({"rule": worth.rule, "error": why}),
            })
            .collect();
        Ok(json!({"with": whole, "rules": rules}))
    }

    fn memory(&mut self, cell: &Cell) -> Result<Value, Error> {
        let options = self.ready(cell, "exact")?;
        let curve = pass::curve(self.egraph(), &options.context(self.graph()), &mut |_, _| {})?;
        let points: Vec<Value> = curve
            .points
            .iter()
            .map(|point| json!({"seconds": point.seconds, "arena": point.arena, "proven": point.proven}))
            .collect();
        Ok(json!({"points": points, "complete": curve.complete}))
    }

    fn gap(&mut self, cell: &Cell, extractor: &str) -> Result<Value, Error> {
        let options = self.ready(cell, extractor)?;
        let problem =
            pass::priced(self.egraph(), &options.context(self.graph()), |pick| pick.problem.clone())?;
        let known = extract::find(extractor)
            .ok_or_else(|| Error::setting(format!("there is no extractor `{extractor}`")))?;
        // One without limits has one point.
        let limited: Vec<Box<dyn Extractor>> =
            EFFORTS.iter().filter_map(|share| known.with_effort(*share)).collect();
        let whole: Vec<Box<dyn Extractor>> = if limited.is_empty() { vec![Box::new(known)] } else { limited };
        let (mut points, mut times) = (Vec::new(), Vec::new());
        for extractor in &whole {
            let start = Instant::now();
            let found = extractor.extract(&problem).map_err(|error| Error::Extract(error.to_string()))?;
            times.push(start.elapsed().as_secs_f64());
            points.push(json!({
                "states": found.report.states, "cost": found.cost, "bound": found.bound,
                "gap": gap(found.cost, found.bound), "proven": found.proven,
            }));
        }
        Ok(json!({"points": points, "measured": {"seconds": times}}))
    }

    fn race(&mut self, model: usize, seed: u64) -> Result<Value, Error> {
        let spec = self.spec;
        let mut entrants: Vec<Entrant> = Vec::new();
        let mut add = |pipeline: usize, cost: usize, extractor: &str, text: String, chosen: Chosen| {
            let by = (cost, extractor.to_owned());
            match entrants.iter_mut().find(|known| known.text == text && known.pipeline == pipeline) {
                Some(known) if known.by.contains(&by) => {}
                Some(known) => known.by.push(by),
                None => entrants.push(Entrant { text, pipeline, chosen, by: vec![by] }),
            }
        };
        for pipeline in 0..spec.pipelines.len() {
            for cost in 0..spec.costs.len() {
                let cell = Cell { model, pipeline, cost };
                for extractor in &spec.extractors {
                    if extractor == SAMPLE {
                        let mut options = self.ready(&cell, "exact")?;
                        let sampling = Sampling { plans: spec.sample, seed };
                        for drawn in tune::draw(self.egraph(), self.graph(), &mut options, sampling)? {
                            add(pipeline, cost, SAMPLE, drawn.text, drawn.chosen);
                        }
                    } else {
                        let options = self.ready(&cell, extractor)?;
                        let chosen = pass::planned(self.egraph(), &options.context(self.graph()))?;
                        add(pipeline, cost, extractor, checksum(&chosen.plan.to_string()), chosen);
                    }
                }
            }
        }
        let estimates = self.estimates(model, &entrants)?;
        let plans: Vec<Value> = entrants
            .iter()
            .zip(&estimates)
            .map(|(entrant, of_plan)| {
                let by: Vec<[&str; 2]> = entrant
                    .by
                    .iter()
                    .map(|(cost, extractor)| [&*spec.costs[*cost].name, extractor])
                    .collect();
                let plan = &entrant.chosen.plan;
                let whole = |steps: &Vec<Option<f64>>| steps.iter().copied().sum::<Option<f64>>();
                json!({
                    "plan": entrant.text, "pipeline": spec.pipelines[entrant.pipeline].0, "by": by,
                    "steps": plan.steps.len(), "arena": plan.arena,
                    "estimates": named(spec, of_plan.iter().map(|steps| whole(steps).into()).collect()),
                })
            })
            .collect();
        let programs: Vec<_> =
            entrants.iter().map(|entrant| (&entrant.chosen.program, &entrant.chosen.plan)).collect();
        let timed = tune::time(&programs, spec.rounds, &mut |_| {})?;
        let (mut kernels, mut seconds) = (Vec::new(), Vec::new());
        for (at, entrant) in entrants.iter().enumerate() {
            // Drawn plans have mostly the same kernels.
            if entrant.by.iter().all(|(_, extractor)| extractor == SAMPLE) {
                continue;
            }
            let times = tune::profile(&entrant.chosen, spec.rounds)?;
            for (step, (one, time)) in entrant.chosen.plan.steps.iter().zip(times).enumerate() {
                let of_step = estimates[at].iter().map(|steps| steps[step].into()).collect();
                kernels.push(json!({
                    "plan": entrant.text, "op": one.op, "value": &*one.name, "estimates": named(spec, of_step),
                }));
                seconds.push(time);
            }
        }
        Ok(json!({
            "seed": seed, "plans": plans, "kernels": kernels,
            "measured": {"seconds": timed.seconds, "spread": timed.spread, "kernels": seconds},
        }))
    }

    /// For each plan and cost model, what it says of each step.
    fn estimates(&mut self, model: usize, entrants: &[Entrant]) -> Result<Vec<Vec<Vec<Option<f64>>>>, Error> {
        let mut found: Vec<Vec<Vec<Option<f64>>>> = vec![Vec::new(); entrants.len()];
        for pipeline in 0..self.spec.pipelines.len() {
            for cost in 0..self.spec.costs.len() {
                let options = self.ready(&Cell { model, pipeline, cost }, "exact")?;
                let places: Vec<usize> =
                    (0..entrants.len()).filter(|at| entrants[*at].pipeline == pipeline).collect();
                let plans: Vec<&Plan> = places.iter().map(|at| &entrants[*at].chosen.plan).collect();
                let estimates = pass::estimates(&plans, &options.context(self.graph()))?;
                for (at, steps) in places.into_iter().zip(estimates) {
                    found[at].push(steps);
                }
            }
        }
        Ok(found)
    }
}

/// Values by the names of the cost models.
fn named(spec: &Spec, values: Vec<Value>) -> Value {
    let names = spec.costs.iter().map(|cost| cost.name.clone());
    names.zip(values).collect::<Map<String, Value>>().into()
}

fn gap(cost: f64, bound: f64) -> f64 {
    if cost > 0.0 { (1.0 - bound / cost).max(0.0) } else { 0.0 }
}

fn load(file: &Path, model: &super::spec::Model) -> Result<Graph, Error> {
    if file.extension().is_some_and(|extension| extension == "ovolo") {
        let content = std::fs::read_to_string(file).map_err(Error::io(file))?;
        let source = crate::error::Source::new(file.display().to_string(), content);
        return text::parse_source(&source, &|_| None).map_err(Error::Graph);
    }
    let missing_weights = if model.seeded { MissingWeights::Seeded } else { MissingWeights::Refuse };
    let options = ImportOptions { dims: model.dims.clone(), missing_weights };
    Ok(onnx::load(file, &options).map_err(|error| Error::Onnx(error.to_string()))?.graph)
}
