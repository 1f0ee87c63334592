//! Passes: what a pipeline is made of. Each takes the state of a compilation and advances it.

pub mod pipeline;

mod extract;
mod kind;
mod plan;
pub mod pricing;
mod rewrite;

pub use extract::{
    Chosen, Curve, Extract, Kernel, Objective, Point, Supposed, check, chosen, curve, estimates, features,
    planned, priced, supposed,
};
pub use kind::{Kind, Passes, Scope, passes};
pub use plan::PlanMemory;
pub use rewrite::Rewrite;

use crate::backend::Backends;
use crate::cost::PriceList;
use crate::cost::{CostModel, Fit, Machine, Measured};
use crate::egraph::{EGraph, Saturation};
use crate::error::Error;
use crate::extract::{self as extraction, Extraction, Extractors};
use crate::graph::Graph;
use crate::memory::{self, Limit, Orders, Planners};
use crate::op::{Call, Contract};
use crate::plan::{Arena, Kept, Plan, Source};
use crate::ron;
use crate::rule::RuleSet;
use crate::setting::Settings;
use crate::table::Table;
use crate::tensor::{Device, Family};
use pipeline::Pipeline;
use pricing::{ByFit, Pricings};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What pipelines choose among, each by its name.
#[derive(Clone)]
pub struct Catalog {
    /// Kinds of passes.
    pub passes: Passes,
    /// Extractors.
    pub extractors: Extractors,
    /// Cost models.
    pub pricings: Pricings,
    /// Orders of execution.
    pub orders: Orders,
    /// Memory planners.
    pub planners: Planners,
    /// Backends.
    pub backends: Backends,
    /// The price list.
    pub prices: Arc<PriceList>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// What ovolo has, without a backend.
    pub fn new() -> Self {
        Self {
            passes: passes().clone(),
            extractors: extraction::extractors().clone(),
            pricings: pricing::pricings().clone(),
            orders: memory::execution_orders(),
            planners: memory::planners(),
            backends: Table::new("backend"),
            prices: Arc::clone(PriceList::shipped()),
        }
    }

    /// Whether a backend has devices of the families that a limit of memory names.
    ///
    /// # Errors
    /// The first device of another family.
    pub fn check_limit(&self, limit: &Limit) -> Result<(), Error> {
        let lowerings = self.backends.iter().flat_map(|(_, backend)| backend.ops());
        let families: BTreeSet<Family> = lowerings.filter_map(|lowering| lowering.device).collect();
        for (device, _) in limit.iter() {
            if matches!(device, Device::Accelerator(family, _) if !families.contains(&family)) {
                let known = families
                    .iter()
                    .fold("`host`".to_owned(), |known, family| format!("{known}, `{family}:0`"));
                return Err(Error::setting(format!(
                    "the limit of `{device}`: no backend has such a device; there are {known}"
                )));
            }
        }
        Ok(())
    }
}

/// What a compilation is given beside the graph.
pub struct Context<'a> {
    /// What the pipeline chooses among.
    pub catalog: &'a Catalog,
    /// The rules in play: shipped ones and the user's.
    pub rules: &'a RuleSet,
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// Threads that the plan will run with.
    pub threads: usize,
    /// The speeds of the machine, for the cost models that need them.
    pub machine: Machine,
    /// Times of kernels in a model with so many constants, for the cost model `measured`.
    pub measured: Option<Measured>,
    /// Bytes of the graph's constants, for the cost model `learned`.
    pub constants: usize,
}

impl Context<'_> {
    /// The contract of a call's kernel, if its backend is in play.
    ///
    /// # Errors
    /// The backend's reason, or that the backend is not in play.
    pub fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        let Some(name) = call.op.backend() else { return call.contract() };
        if !self.pipeline.backends.iter().any(|backend| backend == name) {
            return Err(format!("backend `{name}` is not in this pipeline"));
        }
        call.contract()
    }
}

/// The backends of a pipeline none of whose kernels is a candidate, each with the reason: those that are absent, and
/// those that a fitted model has no prices for.
pub fn absent(pipeline: &Pipeline, backends: &Backends) -> Vec<(String, String)> {
    let mut found = missing(pipeline, backends);
    found.extend(unseen(pipeline, backends));
    found
}

/// The backends of a pipeline that are there, and of which a fitted model has seen no kernel.
fn unseen(pipeline: &Pipeline, backends: &Backends) -> Vec<(String, String)> {
    let cost: Option<&dyn Any> = pipeline.extract().map(|extract| &*extract.cost as &dyn Any);
    let fit = cost.and_then(|cost| cost.downcast_ref::<ByFit>()).and_then(|by| by.fit.as_ref());
    // What is no fit is told by who prices by it.
    let Some(seen) = fit.and_then(|source| Fit::backends(&source.text).ok()) else { return Vec::new() };
    let there = |name: &&String| backends.get(name).is_some_and(|backend| backend.found().is_ok());
    let unseen = pipeline.backends.iter().filter(there).filter(|name| !seen.contains(*name));
    unseen.map(|name| (name.clone(), format!("its kernels are no candidates: {UNSEEN}"))).collect()
}

const UNSEEN: &str = "the model of `learned` was fitted on none of them; run `ovolo tune` and `ovolo fit` with a pipeline that has it";

/// The backends of a pipeline that are absent, each with the reason.
fn missing(pipeline: &Pipeline, backends: &Backends) -> Vec<(String, String)> {
    let why = |name: &String| match backends.get(name) {
        Some(backend) => backend.found().err().map(|why| (name.clone(), why)),
        None => Some((name.clone(), "there is no such backend".to_owned())),
    };
    pipeline.backends.iter().filter_map(why).collect()
}

/// Whether the rules of a backend that is absent are in play all the same.
pub fn plans_elsewhere(backend: &str, backends: &Backends) -> bool {
    backends.get(backend).is_some_and(|backend| backend.plans_elsewhere())
}

/// A compilation between two passes.
pub struct State {
    /// The graph: as imported, or as extracted.
    pub graph: Graph,
    /// The e-graph, from the first rewriting pass to the extraction.
    pub egraph: Option<EGraph>,
    /// For each node of an extracted graph, where it came from.
    pub sources: Vec<Source>,
    /// The cost model of the extraction.
    pub cost: Option<Box<dyn CostModel>>,
    /// The plan by which the extraction chose the graph.
    pub chosen: Option<Plan>,
    /// The plan.
    pub plan: Option<Plan>,
}

/// What a pass has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum PassReport {
    /// Of a rewriting pass.
    Rewrite(Saturation),
    /// Of an extraction.
    Extract {
        /// The extractor's name.
        extractor: String,
        /// The cost model's name.
        cost_model: String,
        /// What was chosen. Its cost, bound and proof are of time alone, within as many bytes of the arena
        /// and of constants as its plan has.
        extraction: Extraction,
        /// What time and memory come to together, where memory is weighed.
        objective: Option<Objective>,
        /// Lowered ops that had no kernel: op, reason, how often.
        missing: Vec<(String, String, usize)>,
    },
    /// Of a memory plan.
    Plan {
        /// Steps.
        steps: usize,
        /// The arena of each device, the host's first.
        arenas: Vec<Arena>,
        /// The constants that are kept beside them.
        constants: Vec<Kept>,
    },
    /// Of a pass that is none of ovolo's own: what it did, in one line.
    Custom(String),
}

/// Advances a compilation. A pass is its own settings: what a pipeline writes in its parentheses.
pub trait Pass: Settings {
    /// The name: the same in pipelines, `dump --after`, reports and benches.
    fn name(&self) -> &str;

    /// Reports settings that name what there is not.
    fn check(&self, scope: &Scope<'_>, reader: &mut ron::Reader<'_>) {
        let _ = (scope, reader);
    }

    /// Runs the pass.
    ///
    /// # Errors
    /// What keeps it from its result; the state is then not to be used.
    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error>;
}

impl dyn Pass {
    /// The pass as one of this type, if it is one.
    pub fn get<T: Pass>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
