//! Passes, the parts of a pipeline. Each pass takes a compilation at one stage and brings it to the next.

pub mod pipeline;

mod absent;
mod check;
pub mod choosing;
mod extract;
mod kind;
mod plan;
pub mod pricing;
mod resident;
mod rewrite;
mod state;
mod timeout;

pub use check::{absent, check};
pub use extract::Extract;
pub(crate) use kind::Passes;
pub use kind::{PassKind, Scope};
pub use plan::PlanMemory;
pub use resident::Resident;
pub use rewrite::{AbsentRules, Rewrite};
pub use state::State;

use crate::backend::Backends;
use crate::cost::PriceList;
use crate::cost::pricing::PricingError;
use crate::cost::{Machine, Measured};
use crate::diagnostic::Source;
use crate::egraph::Saturation;
use crate::error::Error;
use crate::extract::{Extraction, Extractors};
use crate::memory::{self, Limit, Orders, Planners};
use crate::op::Ops;
use crate::plan::{Arena, KeptConstants};
use crate::ron;
use crate::rule::RuleSet;
use crate::session::Held;
use crate::setting::Settings;
use crate::stage::{Objective, Target};
use crate::table::Table;
use crate::tensor::{Device, Family};
use pipeline::Pipeline;
use pricing::Pricings;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// Returns ovolo's own passes. A new pass needs a file and a line here.
pub(crate) fn passes() -> &'static Passes {
    static PASSES: LazyLock<Passes> = LazyLock::new(|| {
        let kinds = [
            ("Rewrite", PassKind::with_settings::<Rewrite>()),
            ("Extract", Extract::kind()),
            ("Plan", PassKind::with_settings::<PlanMemory>()),
            ("Resident", PassKind::with_settings::<Resident>()),
        ];
        Table::from_entries("pass", kinds)
    });
    &PASSES
}

/// The parts that pipelines may name.
#[derive(Clone)]
pub struct Catalog {
    /// The kinds of passes.
    pub passes: Passes,
    /// The extractors.
    pub extractors: Extractors,
    /// The cost models.
    pub pricings: Pricings,
    /// The orders of execution.
    pub orders: Orders,
    /// The memory planners.
    pub planners: Planners,
    /// The backends.
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
    /// Returns the catalog of ovolo's own parts, without a backend.
    pub(crate) fn new() -> Self {
        Self {
            passes: passes().clone(),
            extractors: choosing::extractors().clone(),
            pricings: pricing::pricings().clone(),
            orders: memory::execution_orders(),
            planners: memory::planners(),
            backends: Table::new("backend"),
            prices: Arc::clone(PriceList::shipped()),
        }
    }

    /// Returns the price list with what the backends of these names, and those that run their kernels, know about the
    /// devices of this machine.
    ///
    /// # Errors
    /// The mistakes in the list of a backend.
    pub(crate) fn prices_here(&self, backends: &[String]) -> Result<Arc<PriceList>, PricingError> {
        let runners: BTreeSet<&str> =
            backends.iter().filter_map(|name| Some(self.backends.get(name)?.runs_with())).collect();
        let found: Vec<Source> =
            runners.into_iter().filter_map(|name| self.backends.get(name)?.prices()).collect();
        if found.is_empty() {
            return Ok(Arc::clone(&self.prices));
        }
        Ok(Arc::new(self.prices.with(&found).map_err(PricingError::Prices)?))
    }

    /// Checks that these backends have devices of all families that a memory limit names.
    ///
    /// # Errors
    /// If they do not; names the first device without a backend.
    pub(crate) fn check_limit(&self, limit: &Limit, backends: &[String]) -> Result<(), Error> {
        let named = backends.iter().filter_map(|name| self.backends.get(name));
        let lowerings = named.flat_map(|backend| backend.ops());
        let families: BTreeSet<Family> = lowerings.filter_map(|lowering| lowering.device).collect();
        for (device, _) in limit.iter() {
            if matches!(device, Device::Accelerator(family, _) if !families.contains(&family)) {
                let accelerators = families.iter().map(|family| format!("`{family}:0`"));
                let known = std::iter::once("`host`".to_owned()).chain(accelerators).collect();
                return Err(Error::UnknownDevice { device, known });
            }
        }
        Ok(())
    }
}

/// The inputs of a compilation besides the graph.
pub struct Context<'a> {
    /// The parts that the pipeline may name.
    pub catalog: &'a Catalog,
    /// All ops.
    pub ops: &'a Ops,
    /// The enabled rules: ovolo's own and the user's.
    pub rules: &'a RuleSet,
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// The number of threads that the plan will run with.
    pub threads: usize,
    /// The speeds of the machine, for the cost models that need them.
    pub machine: Machine,
    /// The times of kernels in models with as many bytes of constants, for the cost model `measured`.
    pub measured: Option<Measured>,
    /// The size of the graph's constants in bytes, for the cost model `learned`.
    pub constants: usize,
    /// Whether rules of absent backends take part.
    pub absent_rules: AbsentRules,
    /// What other plans of the model have in memory.
    pub held: Held,
}

impl Context<'_> {
    /// Returns the machine that the program shall run on.
    pub fn target(&self) -> Target {
        Target { threads: self.threads, backends: self.pipeline.backends.as_slice().into() }
    }
}

/// The report of a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum PassReport {
    /// The report of a rewriting pass.
    Rewrite(Saturation),
    /// The report of an extraction.
    Extract {
        /// The extractor's name.
        extractor: String,
        /// The cost model's name.
        cost_model: String,
        /// What was chosen. Its cost, bound and proof are of time alone, within as many bytes of the arena
        /// and of constants as its plan has.
        extraction: Extraction,
        /// The sum of time and memory, if the choice weighs memory.
        objective: Option<Objective>,
        /// The lowered ops that had no kernel: op, reason, number of nodes.
        missing: Vec<(String, String, usize)>,
    },
    /// The report of a memory plan.
    Plan {
        /// The number of steps.
        steps: usize,
        /// The arenas of the devices, the host's first.
        arenas: Vec<Arena>,
        /// The constants that are kept beside them.
        constants: Vec<KeptConstants>,
        /// The number of steps that compute a value again, and their seconds.
        again: (usize, f64),
        /// The number of inputs that steps replace by their next values in place, and their bytes.
        replaced: (usize, usize),
    },
    /// The report of a pass that is not ovolo's own: one line that says what it did.
    Custom(String),
}

/// A pass, which brings a compilation to its next stage. The value contains the settings of the pass, as a pipeline
/// writes them in parentheses.
pub trait Pass: Settings {
    /// Returns the name, which is the same in pipelines, `dump --after`, reports and benches.
    fn name(&self) -> &str;

    /// Reports settings with unknown names.
    fn check(&self, scope: &Scope<'_>, reader: &mut ron::Reader<'_>) {
        let _ = (scope, reader);
    }

    /// Runs the pass. Returns the new state of the compilation, and a report.
    ///
    /// # Errors
    /// If the pass cannot compute its result.
    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error>;
}

impl dyn Pass {
    /// Returns the pass as a value of type `T`, if it has this type.
    pub fn get<T: Pass>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
