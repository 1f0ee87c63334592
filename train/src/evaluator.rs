//! Runs the model with the parameters of a trainer.

use super::data::Data;
use super::error::TrainError;
use super::network::Network;
use super::step::chosen;
use super::trainer::Trainer;
use ovolo::compile::{Options, compile};
use ovolo::onnx::ImportOptions;
use ovolo::session::Session;
use ovolo::tensor::{Tensor, TensorType};
use std::collections::BTreeMap;

/// The model as it is used after training, with parameters and statistics as inputs.
pub struct Evaluator {
    session: Session,
    inputs: Vec<(String, TensorType)>,
    output: usize,
}

impl Evaluator {
    /// Compiles the model. `output` is the value that the loss takes; the first output if there is none.
    ///
    /// # Errors
    /// The model cannot be imported or compiled.
    pub fn new(
        network: &Network,
        import: &ImportOptions,
        trainer: &Trainer,
        output: Option<&str>,
        options: &Options,
    ) -> Result<Self, TrainError> {
        let step = trainer.step();
        let changed: Vec<String> =
            step.parameters.iter().chain(&step.statistics).map(|kept| kept.name.to_string()).collect();
        let mut graph = network.graph(&options.registry, import, &changed)?;
        let output = chosen(&graph, output, network)?;
        let place = graph.outputs().len();
        graph.add_output("evaluated", output);
        let inputs = graph.inputs().map(|(_, node)| (node.name.to_string(), node.ty.clone())).collect();
        let session = compile(graph, options)?.session(options.registry.backends())?;
        Ok(Self { session, inputs, output: place })
    }

    /// Returns the number of rows of data whose label has the highest score, batch by batch. The last batch is filled up with
    /// the first rows, which do not count.
    ///
    /// # Errors
    /// The data do not fit the model, the labels are no integers, or a run fails.
    pub fn right(&mut self, trainer: &Trainer, data: &Data, labels: &str) -> Result<usize, TrainError> {
        let kept: BTreeMap<&str, &Tensor> = trainer.kept().collect();
        let size =
            trainer.step().inputs.first().and_then(|input| input.ty.shape.first().copied()).unwrap_or(1);
        let wrong = |why: &str| TrainError::Data { file: data.file().to_owned(), why: why.to_owned() };
        let all = data.first(labels, data.rows())?;
        let all = all.to_i64().ok_or_else(|| wrong("labels must be integers to count what is right"))?;
        let mut right = 0;
        for start in (0..data.rows()).step_by(size.max(1)) {
            let rows: Vec<usize> = (start..start + size).map(|row| row % data.rows()).collect();
            let mut values = Vec::with_capacity(self.inputs.len());
            for (name, ty) in &self.inputs {
                values.push(match kept.get(name.as_str()) {
                    Some(value) => (*value).clone(),
                    None => data.batch(name, ty, &rows)?,
                });
            }
            let values: Vec<&Tensor> = values.iter().collect();
            let scores = self.session.run_owned(&values)?[self.output].to_f64();
            let classes = scores.len() / size.max(1);
            if classes == 0 {
                return Err(wrong("the output has no scores of classes"));
            }
            for (row, scores) in rows.iter().zip(scores.chunks(classes)).take(data.rows() - start) {
                let best =
                    scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(class, _)| class);
                right +=
                    usize::from(best.and_then(|class| i64::try_from(class).ok()) == all.get(*row).copied());
            }
        }
        Ok(right)
    }
}
