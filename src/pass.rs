//! Passes: what a pipeline is made of. Each takes a compilation at one stage and brings it to the next.

pub mod pipeline;

mod absent;
mod check;
mod extract;
mod kind;
mod plan;
pub mod pricing;
mod rewrite;
mod state;

pub use check::{absent, check};
pub use extract::Extract;
pub use kind::{Kind, Passes, Scope};
pub use plan::PlanMemory;
pub use rewrite::{AbsentRules, Rewrite};
pub use state::State;

use crate::backend::Backends;
use crate::cost::PriceList;
use crate::cost::{Machine, Measured};
use crate::egraph::Saturation;
use crate::error::Error;
use crate::extract::{self as extraction, Extraction, Extractors};
use crate::memory::{self, Limit, Orders, Planners};
use crate::op::Ops;
use crate::plan::{Arena, Kept};
use crate::ron;
use crate::rule::RuleSet;
use crate::setting::Settings;
use crate::stage::{Objective, Target};
use crate::table::Table;
use crate::tensor::{Device, Family};
use pipeline::Pipeline;
use pricing::Pricings;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// The passes that ship with ovolo. A new one is a file and a line here.
pub fn passes() -> &'static Passes {
    static PASSES: LazyLock<Passes> = LazyLock::new(|| {
        let kinds = [
            ("Rewrite", Kind::of::<Rewrite>()),
            ("Extract", Extract::kind()),
            ("Plan", Kind::of::<PlanMemory>()),
        ];
        Table::of("pass", kinds)
    });
    &PASSES
}

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
    /// The ops that there are.
    pub ops: &'a Ops,
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
    /// Whether rules that lead to absent backends take part.
    pub absent_rules: AbsentRules,
}

impl Context<'_> {
    /// What the program is to run on.
    pub fn target(&self) -> Target {
        Target { threads: self.threads, backends: self.pipeline.backends.as_slice().into() }
    }
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

/// Brings a compilation to its next stage. A pass is its own settings: what a pipeline writes in its parentheses.
pub trait Pass: Settings {
    /// The name: the same in pipelines, `dump --after`, reports and benches.
    fn name(&self) -> &str;

    /// Reports settings that name what there is not.
    fn check(&self, scope: &Scope<'_>, reader: &mut ron::Reader<'_>) {
        let _ = (scope, reader);
    }

    /// Runs the pass: gives what the compilation has come to, and what there is to report.
    ///
    /// # Errors
    /// What keeps the pass from its result.
    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error>;
}

impl dyn Pass {
    /// The pass as one of this type, if it is one.
    pub fn get<T: Pass>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
