//! Compiles and runs versions of the model.

use super::data::Batch;
use super::error::QuantizeError;
use ovolo::compile::{self, Options};
use ovolo::onnx::{self, ImportOptions};
use ovolo::plan::{Plan, Step};
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use std::time::Instant;

/// How versions of a model are compiled.
pub struct Engine<'a> {
    /// The pipeline, rules and prices.
    pub options: &'a Options,
    /// How the model is imported.
    pub import: &'a ImportOptions,
    /// The name of the model in messages.
    pub name: &'a str,
}

/// A version of a model that can be run.
pub struct Runnable {
    session: Session,
}

/// The number of runs of which the fastest is the measured time.
const RUNS: usize = 10;

impl Engine<'_> {
    /// Compiles a version of the model.
    ///
    /// # Errors
    /// It cannot be imported or compiled.
    pub fn compile(&self, bytes: &[u8]) -> Result<Runnable, QuantizeError> {
        let registry = &self.options.registry;
        let graph = onnx::from_bytes(registry.onnx(), bytes.to_vec(), self.name, self.import)?.graph;
        let session = compile::compile(graph, self.options)?.session(registry.backends())?;
        Ok(Runnable { session })
    }
}

impl Runnable {
    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        self.session.plan()
    }

    /// Returns the price of the step that computes the levels of a value, in seconds; 0 if they are computed within
    /// another step. The import calls the levels by their name in the model, or by that with an ending.
    pub fn price_of_levels(&self, name: &str) -> f64 {
        let ending = |rest: &str| rest.is_empty() || rest.starts_with('.');
        let is_wanted = |step: &&Step| {
            step.output_type.dtype == DType::U8 && step.name.strip_prefix(name).is_some_and(ending)
        };
        self.plan().steps.iter().find(is_wanted).map_or(0.0, |step| step.seconds)
    }

    /// Runs the model on a batch, and returns its outputs in the order of the plan.
    ///
    /// # Errors
    /// The batch does not fit the model, or a kernel refuses its values.
    pub fn run(&mut self, batch: &Batch) -> Result<Vec<Tensor>, QuantizeError> {
        let inputs = batch.in_order(self.session.plan())?;
        Ok(self.session.run(&inputs)?.to_vec())
    }

    /// Returns the seconds of the fastest of some runs.
    ///
    /// # Errors
    /// As [`Runnable::run`].
    pub fn time(&mut self, batch: &Batch) -> Result<f64, QuantizeError> {
        let inputs = batch.in_order(self.session.plan())?;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let start = Instant::now();
            self.session.run(&inputs)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    }
}
