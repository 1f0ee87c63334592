//! Cost models: what one run of a kernel costs, in seconds.
//!
//! Takes a lowered op with its types and the contract of its implementation, gives seconds. The cost
//! of a program is the sum over its distinct kernels; the extraction asks once per distinct call.

mod basis;
mod device;
mod feature;
mod formula;
mod learned;
mod measured;
mod noise;
mod pattern;
mod process;
mod random;
mod rank;
mod roofline;
pub mod stored;

pub use basis::Basis;
pub use feature::{FEATURES, Feature, Value};
pub use formula::Formula;
pub use learned::{Example, Fit, HeldOut, LEARNERS, Learned};
pub use measured::{Asked, Entry, InPlans, Leaning, Measured, State, Table, key};
pub use noise::{Noise, Noisy};
pub use pattern::fits;
pub use process::{Answer, Process};
pub use rank::{median, median_error, spearman};
pub use roofline::{Machine, Roofline};
pub use stored::{Decision, Stored, Validators};

use crate::contract::{Call, Contract};
use crate::error::Source;
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

/// What cost models are made of.
#[derive(Clone)]
pub struct Given<'a> {
    /// The calibrated machine.
    pub machine: &'a Machine,
    /// Its table of times.
    pub measured: Option<&'a Measured>,
    /// The text of a formula.
    pub formula: Option<&'a Source>,
    /// A program that answers.
    pub program: Option<Arc<dyn Answer>>,
    /// What was fitted.
    pub fit: Option<Arc<Fit>>,
    /// Bytes of the model's constants.
    pub constants: usize,
}

impl<'a> Given<'a> {
    /// The machine alone.
    pub fn machine(machine: &'a Machine) -> Self {
        Self { machine, measured: None, formula: None, program: None, fit: None, constants: 0 }
    }
}

/// Makes a cost model; or says what it lacks.
pub type Make = fn(&Given<'_>) -> Result<Box<dyn CostModel>, String>;

/// The cost models by name.
pub const COST_MODELS: &[(&str, Make)] = &[
    ("flops", |_| Ok(Box::new(Roofline::new("flops", Machine::NOMINAL)))),
    ("roofline", |given| Ok(Box::new(Roofline::new("roofline", *given.machine)))),
    ("measured", |given| match given.measured {
        Some(measured) => Ok(Box::new(Measured { machine: *given.machine, ..measured.clone() })),
        None => Err("the cost model `measured` needs a table of times: run `ovolo tune MODEL`".into()),
    }),
    ("formula", |given| match given.formula {
        Some(source) => match Formula::read(source, given.machine) {
            Ok(formula) => Ok(Box::new(formula)),
            Err(mistakes) => Err(mistakes.to_string()),
        },
        None => {
            Err("the cost model `formula` needs a formula: name its file with `--formula FILE.ron`".into())
        }
    }),
    ("process", |given| match &given.program {
        Some(program) => Ok(Box::new(Process::new(given.machine, Arc::clone(program)))),
        None => Err("the cost model `process` needs a program: name it with `--process COMMAND`".into()),
    }),
    ("learned", |given| match &given.fit {
        Some(fit) => Ok(Box::new(Learned::new(Arc::clone(fit), given.constants))),
        None => Err("the cost model `learned` needs a fitted model: run `ovolo fit MODEL`".into()),
    }),
];

/// The cost model with this name.
///
/// # Errors
/// If there is none, or it lacks what it is made of.
pub fn find(name: &str, given: &Given<'_>) -> Result<Box<dyn CostModel>, String> {
    let (_, make) = COST_MODELS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = COST_MODELS.iter().map(|(name, _)| *name).collect();
        format!("there is no cost model `{name}`: there are {}", known.join(", "))
    })?;
    make(given)
}
