//! Runs the tasks of an experiment. The result of a task is plain JSON: what follows from the spec alone, and
//! measured times under `measured`.

use super::spec::{Chooser, SAMPLE, Spec};
use super::task::{Cell, Task};
use ovolo::cache::home;
use ovolo::compile::Options;
use ovolo::cost::stored::checksum;
use ovolo::cost::{Machine, Measured};
use ovolo::error::Error;
use ovolo::extract::Extractor;
use ovolo::graph::Graph;
use ovolo::graph::text;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::pass;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo::stage::{Planned, Saturated};
use ovolo::tensor::Device;
use ovolo_proof::ablate;
use ovolo_tune::{Sampling, Tuner};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The shares of an extractor's limits for which cost and bound are shown.
const EFFORTS: [f64; 6] = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Runs the tasks of a spec, and keeps data that several of them need.
pub(super) struct Runner<'a> {
    spec: &'a Spec,
    registry: Arc<Registry>,
    rules: RuleSet,
    machine: Machine,
    tuner: Tuner<'a>,
    graph: Option<(usize, Graph)>,
    /// The e-graph of a model and a pipeline.
    saturated: Option<((usize, usize), Saturated)>,
    /// The times that all prices come from.
    measured: Option<Measured>,
    /// The models and pipelines whose kernels have no times, with the reason.
    untimed: BTreeMap<(usize, usize), String>,
}

/// A plan in a race.
struct Entrant {
    text: String,
    pipeline: usize,
    planned: Planned,
    /// The cost models and extractors that chose it.
    by: Vec<(usize, String)>,
}

impl<'a> Runner<'a> {
    pub fn new(spec: &'a Spec, registry: &Arc<Registry>, machine: Machine) -> Result<Self, Error> {
        let rules = registry.rule_set().map_err(Error::Rules)?;
        for (_, pipeline) in &spec.pipelines {
            pipeline.names(&rules).map_err(Error::Pipeline)?;
        }
        let tuner = Tuner::open(home().as_deref(), spec.threads, machine, registry.backends());
        Ok(Self {
            spec,
            registry: Arc::clone(registry),
            rules,
            machine,
            tuner,
            graph: None,
            saturated: None,
            measured: None,
            untimed: BTreeMap::new(),
        })
    }

    /// Returns messages about the table of times, and about backends none of whose kernels is a candidate.
    pub fn notes(&mut self) -> Vec<String> {
        let mut notes = self.tuner.notes();
        for (at, (name, pipeline)) in self.spec.pipelines.iter().enumerate() {
            let absent = pass::absent(pipeline, self.registry.backends());
            let say =
                |(backend, why): &(String, String), by: String| format!("backend {backend}: {why} ({by})");
            notes.extend(absent.iter().map(|one| say(one, format!("pipeline `{name}`"))));
            for cost in 0..self.spec.costs.len() {
                let cell = Cell { model: 0, pipeline: at, cost };
                let by = || format!("pipeline `{name}`, cost model `{}`", self.spec.costs[cost].name);
                let more = pass::absent(&self.options(&cell, "exact").pipeline, self.registry.backends());
                notes.extend(more.iter().filter(|one| !absent.contains(one)).map(|one| say(one, by())));
            }
        }
        notes
    }

    /// Times the kernels of all models and pipelines that the table lacks, so that every task uses the same
    /// times in any order. Returns a digest of the lines that they use; `None` if `told`, which is called
    /// with each model and pipeline, returns `false`.
    pub fn settle(&mut self, told: &mut dyn FnMut(String) -> bool) -> Result<Option<String>, Error> {
        let spec = self.spec;
        let Some(cost) = spec.costs.iter().position(|cost| cost.kind == "measured") else { return Ok(None) };
        loop {
            let (mut asked, mut timed) = (BTreeSet::new(), 0);
            self.untimed.clear();
            for (model, of) in spec.models.iter().enumerate() {
                // If one cannot be loaded, its tasks report that.
                let Ok(graph) = load(&of.file, of, &self.registry) else { continue };
                for (pipeline, (name, _)) in spec.pipelines.iter().enumerate() {
                    if !told(format!("times {} {name}", of.name)) {
                        return Ok(None);
                    }
                    let mut options = self.options(&Cell { model, pipeline, cost }, "exact");
                    match ovolo_tune::settle(&graph, &mut options, &mut self.tuner) {
                        Ok((_, tally)) => {
                            timed += tally.timed + tally.wrong + tally.in_plans;
                            asked.extend(options.measured.iter().flat_map(|measured| measured.asked.keys()));
                        }
                        Err(error) => {
                            self.untimed.insert((model, pipeline), error.to_string());
                        }
                    }
                }
            }
            // A kernel that was timed for one may be a kernel of another, which used an estimate so far.
            if timed == 0 {
                self.measured = Some(self.tuner.measured());
                return Ok(Some(self.tuner.digest(&asked)));
            }
        }
    }

    pub fn run(&mut self, task: &Task) -> Result<Value, Error> {
        match task {
            Task::Plan(cell, extractor) => self.plan(cell, &self.spec.extractors[*extractor].name),
            Task::Ablation(cell) => self.ablation(cell),
            Task::Memory(cell) => self.memory(cell),
            Task::Gap(cell, extractor) => self.gap(cell, &self.spec.extractors[*extractor].name),
            Task::Race { model, seed } => self.race(*model, self.spec.seeds[*seed]),
        }
    }

    /// Returns the options of a cell, with its graph and e-graph ready.
    fn ready(&mut self, cell: &Cell, extractor: &str) -> Result<Options, Error> {
        if self.graph.as_ref().is_none_or(|(model, _)| *model != cell.model) {
            let model = &self.spec.models[cell.model];
            let graph = load(&model.file, model, &self.registry)?;
            self.saturated = None;
            self.graph = Some((cell.model, graph));
        }
        let options = self.options(cell, extractor);
        if self.saturated.as_ref().is_none_or(|(of, _)| *of != (cell.model, cell.pipeline)) {
            let saturated = options.saturate(self.graph())?;
            self.saturated = Some(((cell.model, cell.pipeline), saturated));
        }
        match self.untimed.get(&(cell.model, cell.pipeline)) {
            Some(why) if self.spec.costs[cell.cost].kind == "measured" => Err(Error::other(why.clone())),
            _ => Ok(options),
        }
    }

    fn graph(&self) -> &Graph {
        let Some((_, graph)) = &self.graph else { unreachable!("a cell is prepared before it is used") };
        graph
    }

    fn saturated(&self) -> &Saturated {
        let Some((_, saturated)) = &self.saturated else {
            unreachable!("a cell is prepared before it is used")
        };
        saturated
    }

    fn options(&self, cell: &Cell, extractor: &str) -> Options {
        let cost = &self.spec.costs[cell.cost];
        let mut pipeline = self.spec.pipelines[cell.pipeline].1.clone();
        if let Some(extract) = pipeline.extract_mut() {
            extract.cost = cost.pricing(self.registry.catalog());
            extract.extractor = self.chooser(extractor);
        }
        Options {
            threads: self.spec.threads,
            machine: self.machine,
            measured: self.measured.clone().filter(|_| cost.kind == "measured"),
            ..Options::from_parts(&self.registry, self.rules.clone(), pipeline)
        }
    }

    /// Returns the extractor with this name in the spec, or else in the list of extractors.
    fn chooser(&self, name: &str) -> Arc<dyn Extractor> {
        let listed = || Chooser { name: name.to_owned(), program: None };
        let chooser = self.spec.extractors.iter().find(|one| one.name == name).cloned();
        chooser.unwrap_or_else(listed).extractor(self.registry.catalog())
    }

    fn plan(&mut self, cell: &Cell, extractor: &str) -> Result<Value, Error> {
        let options = self.ready(cell, extractor)?;
        let choice = options.choice(self.graph())?;
        let priced = options.price(self.saturated())?;
        // The choice is timed by itself: to price the kernels and to plan memory takes as long with any extractor.
        let start = Instant::now();
        let chosen = priced.choose(&choice)?;
        let seconds = start.elapsed().as_secs_f64();
        let Planned { chosen, plan } = chosen.plan(&choice.planning)?;
        let extraction = &chosen.extraction;
        Ok(json!({
            "cost": extraction.cost, "bound": extraction.bound, "gap": extraction.gap(),
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
                Err(why) => json!({"rule": worth.rule, "error": why.to_string()}),
            })
            .collect();
        Ok(json!({"with": whole, "rules": rules}))
    }

    fn memory(&mut self, cell: &Cell) -> Result<Value, Error> {
        let options = self.ready(cell, "exact")?;
        let choice = options.choice(self.graph())?;
        let curve = options.price(self.saturated())?.curve(&choice, Device::Host, &mut |_, _| {})?;
        let points: Vec<Value> = curve
            .points
            .iter()
            .map(|point| {
                json!({
                    "seconds": point.seconds, "bytes": point.bytes(), "arena": point.arena,
                    "constants": point.constants, "proven": point.proven,
                })
            })
            .collect();
        Ok(json!({"points": points, "complete": curve.complete}))
    }

    fn gap(&mut self, cell: &Cell, extractor: &str) -> Result<Value, Error> {
        let options = self.ready(cell, extractor)?;
        let priced = options.price(self.saturated())?;
        let known = self.chooser(extractor);
        // An extractor without limits has one point.
        let limited =
            EFFORTS.iter().filter_map(|share| Some((Some(*share), Arc::from(known.with_effort(*share)?))));
        let mut tries: Vec<(Option<f64>, Arc<dyn Extractor>)> = limited.collect();
        if tries.is_empty() {
            tries.push((None, known));
        }
        let (mut points, mut times) = (Vec::new(), Vec::new());
        for (effort, extractor) in &tries {
            let start = Instant::now();
            let found = extractor.extract(priced.problem())?;
            times.push(start.elapsed().as_secs_f64());
            points.push(json!({
                "effort": effort, "states": found.report.states, "cost": found.cost, "bound": found.bound,
                "gap": found.gap(), "proven": found.proven,
            }));
        }
        Ok(json!({"points": points, "measured": {"seconds": times}}))
    }

    fn race(&mut self, model: usize, seed: u64) -> Result<Value, Error> {
        let spec = self.spec;
        let mut entrants: Vec<Entrant> = Vec::new();
        let mut add = |pipeline: usize, cost: usize, extractor: &str, text: String, planned: Planned| {
            let by = (cost, extractor.to_owned());
            match entrants.iter_mut().find(|known| known.text == text && known.pipeline == pipeline) {
                Some(known) if known.by.contains(&by) => {}
                Some(known) => known.by.push(by),
                None => entrants.push(Entrant { text, pipeline, planned, by: vec![by] }),
            }
        };
        // If a cell fails, the other cells race without it.
        let mut failed = Vec::new();
        for pipeline in 0..spec.pipelines.len() {
            for cost in 0..spec.costs.len() {
                for extractor in spec.extractors.iter().map(|one| one.name.as_str()) {
                    match self.entrants(&Cell { model, pipeline, cost }, extractor, seed) {
                        Ok(found) => {
                            found
                                .into_iter()
                                .for_each(|(text, one)| add(pipeline, cost, extractor, text, one));
                        }
                        Err(error) => failed.push(Lacking { pipeline, cost, extractor, error }),
                    }
                }
            }
        }
        if entrants.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0).error);
        }
        let estimates = self.estimates(model, &entrants, &mut failed);
        let plans: Vec<Value> = entrants
            .iter()
            .zip(&estimates)
            .map(|(entrant, of_plan)| {
                let by: Vec<[&str; 2]> = entrant
                    .by
                    .iter()
                    .map(|(cost, extractor)| [&*spec.costs[*cost].name, extractor])
                    .collect();
                let plan = &entrant.planned.plan;
                let whole = |steps: &Vec<Option<f64>>| steps.iter().copied().sum::<Option<f64>>();
                json!({
                    "plan": entrant.text, "pipeline": spec.pipelines[entrant.pipeline].0, "by": by,
                    "steps": plan.steps.len(), "arena": plan.arena,
                    "estimates": named(spec, of_plan.iter().map(|steps| whole(steps).into()).collect()),
                })
            })
            .collect();
        let programs: Vec<_> =
            entrants.iter().map(|one| (&one.planned.chosen.program, &one.planned.plan)).collect();
        let timed = ovolo_tune::time(&programs, self.registry.backends(), spec.rounds, &mut |_| {})?;
        let (mut kernels, mut seconds) = (Vec::new(), Vec::new());
        for (at, entrant) in entrants.iter().enumerate() {
            // Drawn plans have mostly the same kernels.
            if entrant.by.iter().all(|(_, extractor)| extractor == SAMPLE) {
                continue;
            }
            let times = ovolo_tune::profile(&entrant.planned, self.registry.backends(), spec.rounds)?;
            for (step, (one, time)) in entrant.planned.plan.steps.iter().zip(times).enumerate() {
                let of_step = estimates[at].iter().map(|steps| steps[step].into()).collect();
                kernels.push(json!({
                    "plan": entrant.text, "op": one.op, "value": &*one.name, "estimates": named(spec, of_step),
                }));
                seconds.push(time);
            }
        }
        Ok(json!({
            "seed": seed, "plans": plans, "kernels": kernels,
            "failed": failed.iter().map(|one| one.json(spec)).collect::<Vec<_>>(),
            "measured": {
                "seconds": timed.seconds, "spread": timed.spread, "halves": timed.halves, "kernels": seconds,
            },
        }))
    }

    /// Returns the plans of a cell: one, or those that are drawn with a seed.
    fn entrants(&mut self, cell: &Cell, extractor: &str, seed: u64) -> Result<Vec<(String, Planned)>, Error> {
        if extractor == SAMPLE {
            let mut options = self.ready(cell, "exact")?;
            let sampling = Sampling { plans: self.spec.sample, seed };
            let Spec { spread, among, .. } = *self.spec;
            let drawn = ovolo_tune::draw_evenly(self.saturated(), &mut options, sampling, spread, among)?;
            return Ok(drawn.into_iter().map(|one| (one.text, one.planned)).collect());
        }
        let options = self.ready(cell, extractor)?;
        let planned = options.plan(self.saturated())?;
        Ok(vec![(checksum(&planned.plan.to_string()), planned)])
    }

    /// Returns, for each plan and cost model, its estimate of each step; nothing if it fails.
    fn estimates<'f>(
        &mut self,
        model: usize,
        entrants: &[Entrant],
        failed: &mut Vec<Lacking<'f>>,
    ) -> Vec<Vec<Vec<Option<f64>>>> {
        let mut found: Vec<Vec<Vec<Option<f64>>>> = vec![Vec::new(); entrants.len()];
        for pipeline in 0..self.spec.pipelines.len() {
            for cost in 0..self.spec.costs.len() {
                let places: Vec<usize> =
                    (0..entrants.len()).filter(|at| entrants[*at].pipeline == pipeline).collect();
                let plans: Vec<&Plan> = places.iter().map(|at| &entrants[*at].planned.plan).collect();
                let options = self.ready(&Cell { model, pipeline, cost }, "exact");
                let estimates = options.and_then(|options| options.estimates(self.graph(), &plans));
                let estimates = estimates.unwrap_or_else(|error| {
                    // A failure is reported once.
                    if !failed.iter().any(|one| (one.pipeline, one.cost) == (pipeline, cost)) {
                        failed.push(Lacking { pipeline, cost, extractor: "", error });
                    }
                    plans.iter().map(|plan| vec![None; plan.steps.len()]).collect()
                });
                for (at, steps) in places.into_iter().zip(estimates) {
                    found[at].push(steps);
                }
            }
        }
        found
    }
}

/// A cell that is missing in a race. Without an extractor, the estimates of its cost model are missing.
struct Lacking<'a> {
    pipeline: usize,
    cost: usize,
    extractor: &'a str,
    error: Error,
}

impl Lacking<'_> {
    fn json(&self, spec: &Spec) -> Value {
        json!({
            "pipeline": spec.pipelines[self.pipeline].0, "cost": spec.costs[self.cost].name,
            "extractor": self.extractor, "error": self.error.to_string(),
        })
    }
}

/// Returns values by the names of the cost models.
fn named(spec: &Spec, values: Vec<Value>) -> Value {
    let names = spec.costs.iter().map(|cost| cost.name.clone());
    names.zip(values).collect::<Map<String, Value>>().into()
}

fn load(file: &Path, model: &super::spec::Model, registry: &Registry) -> Result<Graph, Error> {
    if text::is_named(file) {
        let content = std::fs::read_to_string(file).map_err(Error::io(file))?;
        let source = ovolo::error::Source::new(file.display().to_string(), content);
        return text::parse_source(registry.ops(), &source, &text::Constants::none()).map_err(Error::Graph);
    }
    let missing_weights = if model.seeded { MissingWeights::Seeded } else { MissingWeights::Refuse };
    let options = ImportOptions { dims: model.dims.clone(), missing_weights, ..ImportOptions::default() };
    Ok(onnx::load(registry.onnx(), file, &options)?.graph)
}
