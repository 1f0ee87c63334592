//! Cost models: what one run of a kernel costs, in seconds.
//!
//! Takes a lowered op with its types and the contract of its implementation, gives seconds. The cost
//! of a program is the sum over its distinct kernels; the extraction asks once per distinct call.

mod measured;
mod roofline;

pub use measured::{Asked, Entry, Leaning, Measured, State, Table, key};
pub use roofline::{Machine, Roofline};

use crate::contract::{Call, Contract};
use crate::op::OpDef;

/// What a cost model may look at.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The op.
    pub def: &'static OpDef,
    /// Its attributes and types.
    pub call: Call<'a>,
    /// For each operand, whether it is a constant: constants are too many to stay in a cache
    /// from one run to the next.
    pub constant: &'a [bool],
    /// The implementation's contract.
    pub contract: &'a Contract,
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

    /// What an extraction adds up: the seconds, unless the model leans.
    fn weight(&self, query: &Query<'_>) -> Option<f64> {
        self.seconds(query)
    }
}

/// Makes a cost model for a machine and a table of times; or says what it lacks.
pub type Make = fn(&Machine, Option<&Measured>) -> Result<Box<dyn CostModel>, String>;

/// The cost models by name, made for the calibrated machine and its table of times.
pub const COST_MODELS: &[(&str, Make)] = &[
    ("flops", |_, _| Ok(Box::new(Roofline::new("flops", Machine::NOMINAL)))),
    ("roofline", |machine, _| Ok(Box::new(Roofline::new("roofline", *machine)))),
    ("measured", |machine, measured| match measured {
        Some(measured) => Ok(Box::new(Measured { machine: *machine, ..measured.clone() })),
        None => Err("the cost model `measured` needs a table of times: run `ovolo tune MODEL`".into()),
    }),
];

/// The cost model with this name.
///
/// # Errors
/// If there is none, or it lacks what it is made of.
pub fn find(
    name: &str,
    machine: &Machine,
    measured: Option<&Measured>,
) -> Result<Box<dyn CostModel>, String> {
    let (_, make) = COST_MODELS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = COST_MODELS.iter().map(|(name, _)| *name).collect();
        format!("there is no cost model `{name}`: there are {}", known.join(", "))
    })?;
    make(machine, measured)
}
