//! Sessions for models whose shapes are not fixed.
//!
//! A [`DynamicSession`] runs a model region by region ([`onnx::region`](crate::onnx::Region)); a model in which nothing
//! but the sizes of inputs decides shapes is one region. A region is compiled when a run first comes to it with tensors
//! of these types, and for small values that decide shapes, with these elements; later runs use it again. Regions that
//! are equal, such as the iterations of a loop, share one plan. All plans share what was made of the model's weights
//! ([`Store`]) and the memory that they run in.
//!
//! One thread at a time uses a session. [`DynamicSession::beside`] makes another one for another thread, which shares
//! the model and its packed weights.

mod bucket;
mod padding;
mod plans;
mod region;
mod route;

pub use padding::Beyond;
pub(crate) use region::RegionKey;
pub use region::{Compiled, Found, RegionReport, RegionRequest};

use crate::backend::Unkept;
use crate::compile::{self, Options};
use crate::digest::Digest;
use crate::error::Error;
use crate::onnx::{Dynamic, Item, LiveFrom, MissingWeights, OnnxError, Region, Then};
use crate::plan::Plan;
use crate::registry::Registry;
use crate::session::{Held, Session, Store, Workspace};
use crate::team::Team;
use crate::tensor::Tensor;
use padding::Padding;
use plans::Plans;
use route::{Next, PointId, Route, Variant};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Compiles regions, or reads their plans from a cache.
pub type Compile<'c> = Arc<dyn Fn(&RegionRequest<'_>) -> Result<Compiled, Error> + Send + Sync + 'c>;

/// A model that runs for inputs of any size.
pub struct DynamicSession<'c> {
    model: Arc<Dynamic>,
    registry: Arc<Registry>,
    compile: Compile<'c>,
    store: Arc<Store>,
    workspace: Arc<Workspace>,
    /// The threads of all plans, once there is a plan.
    team: Option<Arc<Team>>,
    route: Route,
    plans: Plans,
    made: usize,
    padding: Padding,
}

/// The most regions that a session remembers, unless [`DynamicSession::keep_at_most`] sets another limit.
pub(crate) const REGIONS: usize = 4096;
/// The most plans that a session keeps, unless [`DynamicSession::keep_at_most`] sets another limit.
pub(crate) const PLANS: usize = 256;

impl DynamicSession<'static> {
    /// Opens an ONNX model whose regions are compiled by these options. No dimension needs a size.
    ///
    /// # Errors
    /// [`Error::Onnx`] if the model cannot be read, or if an operator is not known.
    pub fn open(file: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let registry = Arc::clone(&options.registry);
        let model = Dynamic::load(registry.onnx(), file.as_ref(), MissingWeights::Refuse)?
            .with_unroll(options.pipeline.unroll);
        let compile = move |region: &RegionRequest<'_>| {
            let options = Options { held: region.held.clone(), ..options.clone() };
            let compilation = compile::compile(region.graph.clone(), &options)?;
            let (program, backends) = (&compilation.program, options.registry.backends());
            let session =
                Session::sharing(program, compilation.plan.clone(), backends, &Unkept, region.store)?;
            Ok(Compiled { session, cached: false })
        };
        Self::new(model, &registry, Arc::new(compile))
    }
}

impl<'c> DynamicSession<'c> {
    /// Makes a session that compiles nothing yet.
    ///
    /// # Errors
    /// [`Error::Session`] if the system has no memory left.
    pub fn new(model: Dynamic, registry: &Arc<Registry>, compile: Compile<'c>) -> Result<Self, Error> {
        let store = Store::new();
        model.weights().for_each(|(name, weight)| store.name(weight, name));
        Self::with(Arc::new(model), Arc::clone(registry), compile, Arc::new(store))
    }

    fn with(
        model: Arc<Dynamic>,
        registry: Arc<Registry>,
        compile: Compile<'c>,
        store: Arc<Store>,
    ) -> Result<Self, Error> {
        Ok(Self {
            model,
            registry,
            compile,
            store,
            workspace: Arc::new(Workspace::new(0)?),
            team: None,
            route: Route::new(REGIONS),
            plans: Plans::new(PLANS),
            made: 0,
            padding: Padding::default(),
        })
    }

    /// Makes another session of the same model, for another thread. The two share the model and what is made of its
    /// weights. Each has its own plans, threads and memory to run in.
    ///
    /// # Errors
    /// [`Error::Session`] if the system has no memory left.
    pub fn beside(&self) -> Result<Self, Error> {
        let (model, registry) = (Arc::clone(&self.model), Arc::clone(&self.registry));
        Self::with(model, registry, Arc::clone(&self.compile), Arc::clone(&self.store))
    }

    /// Runs the plans that are made from now on on a given team, if they are for as many threads. Other sessions may run
    /// on the same team, from any thread; their runs take turns.
    #[must_use]
    pub fn on(mut self, team: &Arc<Team>) -> Self {
        self.team = Some(Arc::clone(team));
        self
    }

    /// Limits the memory that the session takes over time. When there are more plans, or when runs have passed more
    /// regions, those are dropped that were used longest ago. A region that comes again is imported and compiled again,
    /// or read from the cache.
    pub fn keep_at_most(&mut self, plans: usize, regions: usize) {
        self.plans.limit(plans);
        self.route.limit(regions);
    }

    /// Rounds the sizes of a dimension up to these sizes, so that few plans serve all sizes. Inputs are filled with copies
    /// of their last slice along the dimension, and outputs are cut back. Sizes beyond the largest bucket stay as they are.
    ///
    /// A run is refused if it cannot be proved that its outputs do not depend on the copies.
    ///
    /// # Errors
    /// [`Error::NoDimension`] if no input has the dimension, [`Error::NoBucket`] if there is no size.
    pub fn bucket(&mut self, dim: &str, sizes: &[usize]) -> Result<(), Error> {
        if self.model.places(dim).is_empty() {
            return Err(Error::NoDimension { dim: dim.to_owned() });
        }
        self.padding.bucket(dim, sizes)
    }

    /// Proves that the outputs at one position of a dimension do not depend on the inputs at another one, so that requests can
    /// be run together, up to `rows` of them: for inputs of these types, whatever their sizes along the dimension.
    /// Nothing is compiled.
    ///
    /// # Errors
    /// [`Error::Bucket`] with the first operator for which there is no proof; [`Error::NoDimension`]; or the inputs do not fit
    /// the model.
    pub fn separates(
        &self,
        dim: &str,
        rows: usize,
        inputs: &BTreeMap<String, Item<Tensor>>,
    ) -> Result<(), Error> {
        if self.model.places(dim).is_empty() {
            return Err(Error::NoDimension { dim: dim.to_owned() });
        }
        padding::separates(&self.model, self.registry.onnx(), dim, rows, inputs)
    }

    /// Returns the model.
    pub fn model(&self) -> &Dynamic {
        &self.model
    }

    /// Returns the constants that all plans of the model share.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the number of plans that the session has now.
    pub fn plans(&self) -> usize {
        self.plans.len()
    }

    /// Returns the number of plans that were made up to now, or read from a cache.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Returns the number of regions that the session remembers.
    pub fn regions(&self) -> usize {
        self.route.regions()
    }

    /// Returns a plan by its name in a report; `None` if it was dropped.
    pub fn plan(&self, name: &Digest) -> Option<&Plan> {
        self.plans.look(name).map(Session::plan)
    }

    /// Returns the dimensions whose sizes in these inputs are beyond the largest sizes given by
    /// [`DynamicSession::bucket`].
    pub fn beyond_buckets(&self, inputs: &BTreeMap<String, Item<Tensor>>) -> Vec<Beyond> {
        self.padding.beyond(&self.model, inputs)
    }

    /// Makes the plan of the first region for these inputs without running it. Where the model is one region, a run on
    /// inputs of the same types then compiles nothing.
    ///
    /// # Errors
    /// As [`DynamicSession::run`].
    pub fn prepare(&mut self, inputs: &BTreeMap<String, Item<Tensor>>) -> Result<RegionReport, Error> {
        let filled = self.padding.fill(&self.model, self.registry.onnx(), inputs)?;
        let (at, live) = self.begin(filled.as_ref().map_or(inputs, |filled| &filled.inputs))?;
        self.ready(at, &live)
    }

    /// Runs the model on inputs by their names, and returns its outputs in the model's order.
    ///
    /// # Errors
    /// If the inputs do not fit the model, a region cannot be imported or compiled, or a step fails.
    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Item<Tensor>>,
    ) -> Result<Vec<(String, Item<Tensor>)>, Error> {
        self.run_and_report(inputs, &mut |_, _| {})
    }

    /// As [`DynamicSession::run`]; calls `passed` after each region, with the region's plan if it computes anything.
    ///
    /// # Errors
    /// As [`DynamicSession::run`].
    pub fn run_and_report(
        &mut self,
        inputs: &BTreeMap<String, Item<Tensor>>,
        passed: &mut dyn FnMut(&RegionReport, Option<&Plan>),
    ) -> Result<Vec<(String, Item<Tensor>)>, Error> {
        let Some(filled) = self.padding.fill(&self.model, self.registry.onnx(), inputs)? else {
            return self.run_whole(inputs, passed).map_err(|why| self.with_sizes(inputs, why));
        };
        let outputs = self.run_whole(&filled.inputs, passed)?;
        Ok(filled.cut(outputs))
    }

    /// Puts the dimensions that have several sizes in the inputs before the error of a node, whose operands do not fit each
    /// other then.
    fn with_sizes(&self, inputs: &BTreeMap<String, Item<Tensor>>, why: Error) -> Error {
        let dims = self.model.unequal(inputs);
        if dims.is_empty() || !matches!(why, Error::Onnx(OnnxError::Node { .. })) {
            return why;
        }
        Error::Unequal { dims, why: Box::new(why) }
    }

    /// Runs the model on inputs whose sizes are those of plans.
    fn run_whole(
        &mut self,
        inputs: &BTreeMap<String, Item<Tensor>>,
        passed: &mut dyn FnMut(&RegionReport, Option<&Plan>),
    ) -> Result<Vec<(String, Item<Tensor>)>, Error> {
        let (mut at, mut live) = self.begin(inputs)?;
        loop {
            let report = self.ready(at, &live)?;
            let variant = self.route.find(at, &live).ok_or_else(lost)?;
            let outputs: Vec<Tensor> = match &variant.plan {
                None => Vec::new(),
                Some(plan) => {
                    let session = self.plans.get(plan).ok_or_else(lost)?;
                    let operands: Vec<&Tensor> = variant.inputs.iter().map(|slot| &live[*slot]).collect();
                    match variant.next {
                        // What leaves the model belongs to the caller alone.
                        Next::Finished(_) => session.run_owned(&operands)?,
                        Next::Point(_) => session.run(&operands)?.to_vec(),
                    }
                }
            };
            passed(&report, report.plan.as_ref().and_then(|plan| self.plans.look(plan)).map(Session::plan));
            live = variant
                .live
                .iter()
                .map(|from| match from {
                    LiveFrom::Output(output) => outputs[*output].clone(),
                    LiveFrom::Before(slot) => live[*slot].clone(),
                    LiveFrom::Constant(tensor) => tensor.clone(),
                })
                .collect();
            match &variant.next {
                Next::Point(next) => at = *next,
                Next::Finished(outputs) => {
                    let value = |item: &Item<usize>| item.map(&mut |slot| live[*slot].clone());
                    return Ok(outputs.iter().map(|(name, item)| (name.clone(), value(item))).collect());
                }
            }
        }
    }

    /// Begins a run. Returns the point at which it begins, and the live tensors there.
    fn begin(&mut self, inputs: &BTreeMap<String, Item<Tensor>>) -> Result<(PointId, Vec<Tensor>), Error> {
        let (position, live) = self.model.start(inputs)?;
        let mut form = String::new();
        for (name, item) in inputs {
            let _ = write!(form, "{name:?}={:?};", item.map(&mut |tensor| tensor.ty().to_string()));
        }
        Ok((self.route.begin(form, position), live))
    }

    /// Makes the region and the plan that run from a point for live tensors, if they are not there.
    fn ready(&mut self, at: PointId, live: &[Tensor]) -> Result<RegionReport, Error> {
        let start = Instant::now();
        let known = self.route.find(at, live).map(|variant| (variant.plan, variant.report.clone()));
        if let Some((plan, mut report)) = known {
            report.found = match plan {
                None => Found::Empty,
                Some(plan) if self.plans.look(&plan).is_some() => Found::Known,
                Some(_) => {
                    let region = self.import(at, live)?;
                    self.make(&region, &report.key)?.1.after(start)
                }
            };
            return Ok(report);
        }
        let region = self.import(at, live)?;
        let names = region.graph.inputs().map(|(_, node)| node.name.to_string());
        let types = region.inputs.iter().map(|slot| live[*slot].ty().clone());
        let asked = region.asked.iter().map(|(slot, name)| region::elements(name, &live[*slot]));
        let key = RegionKey { inputs: names.zip(types).collect(), asked: asked.collect() };
        let mut report = RegionReport { steps: 0, key, plan: None, found: Found::Empty, why: None };
        if region.graph.outputs().len() > 0 {
            let (plan, source) = self.make(&region, &report.key)?;
            report.steps = self.plan(&plan).map_or(0, |plan| plan.steps.len());
            (report.plan, report.found) = (Some(plan), source.after(start));
        }
        self.route.make_room(at);
        let next = match region.then {
            Then::Finished(outputs) => Next::Finished(outputs),
            Then::Cut { position, why } => {
                report.why = Some(why);
                Next::Point(self.route.point(position))
            }
        };
        let asked = region.asked.into_iter().map(|(slot, _)| (slot, live[slot].owned())).collect();
        let types = live.iter().map(|tensor| tensor.ty().clone()).collect();
        let (plan, inputs, live) = (report.plan, region.inputs, region.live);
        let told = report.clone();
        self.route.add(at, Variant { types, asked, plan, inputs, live, next, report, used: 0 });
        Ok(told)
    }

    fn import(&self, at: PointId, live: &[Tensor]) -> Result<Region, Error> {
        let position = self.route.position(at).ok_or_else(lost)?;
        Ok(self.model.region(self.registry.onnx(), position, live)?)
    }

    /// Makes the plan of a region, unless an equal region has one.
    fn make(&mut self, region: &Region, key: &RegionKey) -> Result<(Digest, Source), Error> {
        let digest = RegionRequest::digest_of(&region.graph, &self.model);
        if self.plans.look(&digest).is_some() {
            return Ok((digest, Source::Known));
        }
        let (store, held) = (&self.store, Held::new(&self.store, self.plans.all()));
        let request = RegionRequest { graph: &region.graph, digest, held: &held, key, store };
        let Compiled { session, cached } = (self.compile)(&request)?;
        let mut session = session.within(&self.workspace)?;
        let team = self.team.get_or_insert_with(|| session.shared_team());
        if team.threads() == session.plan().threads {
            session = session.on(team);
        }
        self.plans.insert(digest, session);
        self.made += 1;
        Ok((digest, if cached { Source::Cache } else { Source::Compiler }))
    }
}

/// Where a plan came from.
enum Source {
    Known,
    Cache,
    Compiler,
}

impl Source {
    fn after(self, start: Instant) -> Found {
        match self {
            Self::Known => Found::Known,
            Self::Cache => Found::Cached(start.elapsed()),
            Self::Compiler => Found::Compiled(start.elapsed()),
        }
    }
}

fn lost() -> Error {
    Error::Dropped
}
