//! Cost models: the cost of one run of a kernel, in seconds.
//!
//! A cost model takes a lowered op with its types and the contract of its implementation, and returns seconds. The
//! cost of a program is the sum over its distinct kernels. The extraction asks once for each distinct call.

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
mod rank;
pub mod stored;

pub use basis::{Basis, Differs};
pub use column::FEATURES;
pub use feature::Feature;
pub use feature::FeatureValue;
pub use learned::FitError;
pub(crate) use learned::Learned;
pub use learned::{Example, Fit, HeldOut, LEARNERS};
pub use machine::Machine;
pub(crate) use measured::Table;
pub use measured::{Entry, InPlans, Leaning, Measured, State, key};
pub use noise::Noise;
pub(crate) use noise::Noisy;
pub use pattern::fits;
pub use price::{PriceList, PriceModel};
pub use pricing::{Pricing, PricingError};
pub(crate) use process::Answer;
pub use process::AnswerError;
pub(crate) use process::Process;
pub use rank::{median, median_error, spearman};
pub use stored::{Decision, Stored, Validators};

use crate::op::{Call, Contract, Ops};
use std::sync::Arc;

/// The data that a cost model may use.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The op with its attributes and types.
    pub call: Call<'a>,
    /// For each operand, whether it is a constant. Constants are usually too large to stay in a cache from one run to
    /// the next.
    pub constant: &'a [bool],
    /// The contract of the implementation.
    pub contract: &'a Contract,
}

impl Query<'_> {
    /// Returns a number from the op's declaration that only some ops have; 0 if this op has no number of this name.
    pub(crate) fn own(&self, name: &str) -> f64 {
        let features = self.call.op.lowered.as_ref().map_or(&[][..], |lowered| lowered.declaration.features);
        features.iter().find(|own| own.name == name).map_or(0.0, |own| (own.value)(&self.call))
    }
}

/// A cost model, which prices kernels.
pub trait CostModel: Sync {
    /// Returns the name in pipelines and on the command line.
    fn name(&self) -> &'static str;

    /// Returns the seconds for one run, which are not negative. They are infinite for a kernel that must not be
    /// chosen, and `None` for a kernel that the model does not know; this is an error, and no price is guessed.
    fn seconds(&self, query: &Query<'_>) -> Option<f64>;

    /// Returns how the price of a kernel comes about, in lines for people; none if the model cannot say it.
    fn account(&self, query: &Query<'_>) -> Vec<String> {
        let _ = query;
        Vec::new()
    }

    /// Returns the seconds to copy `bytes` bytes from one buffer to another, for the copies that a plan adds.
    fn copy(&self, bytes: usize) -> f64;

    /// Returns whether the price of a kernel was measured, or estimated in place of a measurement; `None` if the model does
    /// not measure.
    fn is_measured(&self, query: &Query<'_>) -> Option<bool> {
        let _ = query;
        None
    }

    /// Begins a batch if the model prices many kernels at once, and returns whether it does. Until [`Self::end_batch`],
    /// the model only learns which kernels there are, and callers must not use its answers.
    fn begin_batch(&self) -> bool {
        false
    }

    /// Ends a batch: the model prices the kernels for which it was asked.
    fn end_batch(&self) {}

    /// Returns an error that occurred while kernels were priced, other than unknown kernels. Callers ask after all
    /// kernels are priced; if there is an error, they must not use the prices.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns advice for a kernel without a price.
    fn lacking(&self) -> String {
        "run `ovolo tune MODEL`".to_owned()
    }

    /// Returns the cost that an extraction adds up: the seconds, unless the model deliberately departs from them.
    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        self.seconds(query)
    }
}

/// The inputs of cost models besides their settings.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The calibrated machine.
    pub machine: &'a Machine,
    /// The table of times of the machine.
    pub measured: Option<&'a Measured>,
    /// The number of threads that the plan will run with.
    pub threads: usize,
    /// The size of the model's constants, in bytes.
    pub constants: usize,
    /// The price list of the registry, which is the same on every machine.
    pub prices: &'a Arc<PriceList>,
    /// The same with what backends know about the devices of this machine.
    pub prices_here: &'a Arc<PriceList>,
    /// All ops, to check the names in further price lists; `None` if they are not checked.
    pub ops: Option<&'a Ops>,
    /// Returns what the times of this machine depend on.
    pub validators: &'a dyn Fn() -> Validators,
}

impl<'a> Given<'a> {
    /// Returns inputs that contain only the machine.
    pub fn machine(machine: &'a Machine) -> Self {
        Self {
            machine,
            measured: None,
            threads: 1,
            constants: 0,
            prices: PriceList::shipped(),
            prices_here: PriceList::shipped(),
            ops: None,
            validators: &Validators::default,
        }
    }
}
