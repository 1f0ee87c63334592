//! Cost models: what one run of a kernel costs, in seconds.
//!
//! Takes a lowered op with its types and the contract of its implementation, gives seconds. The cost
//! of a program is the sum over its distinct kernels; the extraction asks once per distinct call.

mod basis;
mod column;
mod feature;
mod learned;
mod machine;
mod measured;
mod noise;
mod pattern;
pub mod price;
pub mod pricing;
mod process;
mod random;
mod rank;
pub mod stored;

pub use basis::Basis;
pub use column::FEATURES;
pub use feature::Feature;
pub use feature::Value;
pub use learned::FitError;
pub use learned::{Example, Fit, HeldOut, LEARNERS, Learned};
pub use machine::Machine;
pub use measured::{Asked, Entry, InPlans, Leaning, Measured, State, Table, key};
pub use noise::Noise;
pub(crate) use noise::Noisy;
pub use pattern::fits;
pub use price::{PriceList, Priced};
pub use pricing::{Pricing, PricingError};
pub(crate) use process::Answer;
pub use process::AnswerError;
pub use process::Process;
pub use rank::{median, median_error, spearman};
pub use stored::{Decision, Stored, Validators};

use crate::op::{Call, Contract, Ops};
use std::sync::Arc;

/// What a cost model may look at.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The op with its attributes and types.
    pub call: Call<'a>,
    /// For each operand, whether it is a constant: constants are too many to stay in a cache
    /// from one run to the next.
    pub constant: &'a [bool],
    /// The implementation's contract.
    pub contract: &'a Contract,
}

impl Query<'_> {
    /// A number that the op's declaration has beside what is known of every op; zero where it has none of the name.
    pub(crate) fn own(&self, name: &str) -> f64 {
        let features = self.call.op.lowered.as_ref().map_or(&[][..], |lowered| lowered.declaration.features);
        features.iter().find(|own| own.name == name).map_or(0.0, |own| (own.value)(&self.call))
    }
}

/// Prices kernels.
pub trait CostModel: Sync {
    /// Its name in pipelines and on the command line.
    fn name(&self) -> &'static str;

    /// Seconds for one run, not negative; infinite for a kernel that must not be chosen, and `None` for
    /// one that the model knows nothing of, which is then an error and not a guess.
    fn seconds(&self, query: &Query<'_>) -> Option<f64>;

    /// Seconds to copy so many bytes from one buffer to another, for what the memory plan adds.
    fn copy(&self, bytes: usize) -> f64;

    /// What went wrong while kernels were priced, beside kernels that the model knows nothing of. To be asked
    /// once all are priced: what was said of them is not to be used then.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What to do where there is no price.
    fn lacking(&self) -> String {
        "run `ovolo tune MODEL`".to_owned()
    }

    /// What an extraction adds up: the seconds, unless the model leans.
    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        self.seconds(query)
    }
}

/// What cost models are made of, beside their settings.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The calibrated machine.
    pub machine: &'a Machine,
    /// Its table of times.
    pub measured: Option<&'a Measured>,
    /// Threads that the plan will run with.
    pub threads: usize,
    /// Bytes of the model's constants.
    pub constants: usize,
    /// The price list of the registry.
    pub prices: &'a Arc<PriceList>,
    /// The ops that there are, to which further price lists are held; `None` where that is not asked.
    pub ops: Option<&'a Ops>,
    /// What times of this machine depend on.
    pub validators: &'a dyn Fn() -> Validators,
}

impl<'a> Given<'a> {
    /// The machine alone.
    pub fn machine(machine: &'a Machine) -> Self {
        Self {
            machine,
            measured: None,
            threads: 1,
            constants: 0,
            prices: PriceList::shipped(),
            ops: None,
            validators: &Validators::default,
        }
    }
}
