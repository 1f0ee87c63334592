//! Cost models: what one run of a kernel costs, in seconds.
//!
//! Takes a lowered op with its types and the contract of its implementation, gives seconds. The cost
//! of a program is the sum over its distinct kernels; the extraction asks once per distinct call.

mod roofline;

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

    /// Seconds for one run; finite and not negative.
    fn seconds(&self, query: &Query<'_>) -> f64;
}

/// Makes a cost model for a machine.
pub type Make = fn(&Machine) -> Box<dyn CostModel>;

/// The cost models by name, made for the calibrated machine.
pub const COST_MODELS: &[(&str, Make)] = &[
    ("flops", |_| Box::new(Roofline::new("flops", Machine::NOMINAL))),
    ("roofline", |machine| Box::new(Roofline::new("roofline", *machine))),
];

/// The cost model with this name.
pub fn find(name: &str, machine: &Machine) -> Option<Box<dyn CostModel>> {
    COST_MODELS.iter().find(|(known, _)| *known == name).map(|(_, make)| make(machine))
}
