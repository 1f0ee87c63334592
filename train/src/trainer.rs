//! Runs steps of training.

use super::dropout::SEED;
use super::error::TrainError;
use super::initial;
use super::network::Network;
use super::step::{Kept, RATE, Step};
use ovolo::compile::{Options, compile};
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use std::collections::BTreeMap;

/// A compiled step with the values that it keeps from one run to the next.
pub struct Trainer {
    step: Step,
    session: Session,
    /// The value of each input of the step; those of a batch are replaced in each run.
    values: Vec<Tensor>,
    /// For each value that is kept, its place among the inputs.
    kept: Vec<usize>,
    /// The places of the model's inputs, of the labels and of the learning rate.
    batch: Vec<usize>,
    labels: usize,
    rate: usize,
}

impl Trainer {
    /// Compiles a step. The parameters begin with the model's values, the state with zeros.
    ///
    /// # Errors
    /// The step has no optimiser; it cannot be compiled by these options; or memory is lacking.
    pub fn new(step: Step, network: &Network, options: &Options) -> Result<Self, TrainError> {
        let names: Vec<String> = step.graph.inputs().map(|(_, node)| node.name.to_string()).collect();
        let rate = names.iter().position(|name| name == RATE).ok_or_else(|| TrainError::Model {
            model: network.name().to_owned(),
            why: "a step without an optimiser gives gradients and trains nothing: choose an optimiser"
                .to_owned(),
        })?;
        let compiled = compile(step.graph.clone(), options)?;
        let session = compiled.session(options.registry.backends())?;
        let place = |kept: &Kept| names.iter().position(|name| **name == *kept.name).expect("it is an input");
        let own: BTreeMap<&str, &Tensor> = network.values().collect();
        let values = step
            .graph
            .inputs()
            .map(|(_, node)| match own.get(&*node.name) {
                Some(value) if value.ty() == &node.ty => (*value).clone(),
                _ => Tensor::zeros(node.ty.clone()),
            })
            .collect();
        let kept = step.kept().map(place).collect();
        let batch = step.inputs.iter().map(place).collect();
        let labels = place(&step.labels);
        Ok(Self { step, session, values, kept, batch, labels, rate })
    }

    /// Returns the step.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Gives the parameters values that are drawn anew, the same for each seed, and the running statistics of batch norms
    /// those of a network that is not trained.
    pub fn draw(&mut self, seed: u64, network: &Network) {
        let begin: BTreeMap<&str, f64> =
            network.statistics().iter().map(|(name, _, begin)| (name.as_str(), *begin)).collect();
        let parameters = self.step.parameters.iter().map(|kept| initial::value(&self.step.graph, kept, seed));
        let statistics = self.step.statistics.iter().map(|kept| {
            let value = begin.get(&*kept.name).copied().unwrap_or(0.0);
            Tensor::from_f64(kept.ty.dtype, kept.ty.shape.clone(), &vec![value; kept.ty.shape.count()])
        });
        let drawn: Vec<Tensor> = parameters.chain(statistics).collect();
        for (value, input) in drawn.into_iter().zip(&self.kept) {
            self.values[*input] = value;
        }
    }

    /// Decides which elements are dropped. Two seeds give sequences of their own.
    pub fn seed(&mut self, seed: u64) {
        let place = self.step.kept().position(|kept| *kept.name == *SEED);
        if let Some(input) = place.and_then(|place| self.kept.get(place)) {
            // The seed grows by one with each step: those of two trainings must not be neighbours.
            let spread = (seed ^ seed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            self.values[*input] = Tensor::scalar(spread);
        }
    }

    /// Runs the step on a batch, whose inputs are in the model's order, and returns the loss.
    ///
    /// # Errors
    /// A value of the batch has another type than the step takes, or the run fails.
    pub fn run(&mut self, batch: Vec<Tensor>, labels: Tensor, rate: f64) -> Result<f64, TrainError> {
        for (place, value) in self.batch.iter().zip(batch) {
            self.values[*place] = value;
        }
        self.values[self.labels] = labels;
        self.values[self.rate] = Tensor::from_f64(DType::F32, Vec::new(), &[rate]);
        let outputs = self.session.advance(&mut self.values)?;
        Ok(outputs[0].to_f64().first().copied().unwrap_or(f64::NAN))
    }

    /// Returns what the step keeps, by name: parameters, then state.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.step.kept().zip(&self.kept).map(|(kept, input)| (&*kept.name, &self.values[*input]))
    }

    /// Replaces some of the values that the step keeps.
    ///
    /// # Errors
    /// The step keeps no value of a name, or one of another type.
    pub fn replace(&mut self, file: &str, values: &BTreeMap<&str, &Tensor>) -> Result<(), TrainError> {
        let before: BTreeMap<String, Tensor> =
            self.kept().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        if let Some(name) = values.keys().find(|name| !before.contains_key(**name)) {
            let known = self.step.kept().take(8).map(|kept| &*kept.name).collect::<Vec<_>>().join(", ");
            let why = format!("the step keeps no value `{name}`; there are {known}");
            return Err(TrainError::Data { file: file.to_owned(), why });
        }
        let before = before.iter().map(|(name, value)| (name.as_str(), value));
        self.restore(file, &before.chain(values.iter().map(|(name, value)| (*name, *value))).collect())
    }

    /// Replaces what the step keeps.
    ///
    /// # Errors
    /// A value is missing, or has another type.
    pub fn restore(&mut self, file: &str, values: &BTreeMap<&str, &Tensor>) -> Result<(), TrainError> {
        let wrong = |why: String| TrainError::Data { file: file.to_owned(), why };
        let mut found = Vec::with_capacity(self.kept.len());
        for (kept, input) in self.step.kept().zip(&self.kept) {
            let value = values.get(&*kept.name).ok_or_else(|| {
                wrong(format!("it has no array `{}`: it is of another model or another optimiser", kept.name))
            })?;
            if *value.ty() != kept.ty {
                return Err(wrong(format!("array `{}` is {}, not {}", kept.name, value.ty(), kept.ty)));
            }
            found.push((*input, (*value).clone()));
        }
        for (input, value) in found {
            self.values[input] = value;
        }
        Ok(())
    }
}
