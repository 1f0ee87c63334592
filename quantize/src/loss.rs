//! What quantisation costs: how far the outputs depart from those in float32, and how many labels are lost.

use super::error::QuantizeError;
use ovolo::plan::Plan;
use ovolo::tensor::{DType, Tensor};

/// By which number a loss is bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Metric {
    /// The relative error of the outputs. For an output `y` that is `z` after quantisation it is
    /// `|z - y| / |y|` in the Euclidean norm over all data; of several outputs it is the root of the mean square.
    #[default]
    Outputs,
    /// The share of rows of the first output in which the class with the highest score was that of the label, and is not
    /// any more: accuracy before minus accuracy after. It is negative where quantisation helps.
    Labels(Vec<i64>),
}

/// The outputs of the model in float32, for each batch.
pub(crate) struct Reference {
    outputs: Vec<Vec<Tensor>>,
    /// The sum of the squares of each output.
    norms: Vec<f64>,
    /// The accuracy, if there are labels.
    pub accuracy: Option<f64>,
    metric: Metric,
}

/// The loss of a version of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Loss {
    /// The square of the relative error of the outputs. Errors of layers that do not depend on each other add up in it.
    pub square: f64,
    /// The loss by the metric.
    pub loss: f64,
    /// The accuracy, if there are labels.
    pub accuracy: Option<f64>,
}

impl Reference {
    /// Takes the outputs of the model in float32.
    ///
    /// # Errors
    /// No output is of floats, an output is not finite, or the labels are not as many as the rows of the first output.
    pub fn new(outputs: Vec<Vec<Tensor>>, plan: &Plan, metric: Metric) -> Result<Self, QuantizeError> {
        let mut norms = vec![0.0; plan.outputs.len()];
        for tensors in &outputs {
            for ((tensor, norm), (name, ..)) in tensors.iter().zip(&mut norms).zip(&plan.outputs) {
                if is_float(tensor) {
                    *norm += tensor.to_f64().iter().map(|value| value * value).sum::<f64>();
                }
                if !norm.is_finite() {
                    return Err(QuantizeError::Loss(format!("output `{name}` is not finite in float32")));
                }
            }
        }
        if !outputs.iter().flatten().any(is_float) {
            return Err(QuantizeError::Loss("no output of the model is of floats".to_owned()));
        }
        let accuracy = match &metric {
            Metric::Outputs => None,
            Metric::Labels(labels) => Some(accuracy(&first(&outputs), labels)?),
        };
        Ok(Self { outputs, norms, accuracy, metric })
    }

    /// Returns the loss of a version with these outputs, for each batch.
    ///
    /// # Errors
    /// As [`accuracy`].
    pub fn loss(&self, outputs: &[Vec<Tensor>]) -> Result<Loss, QuantizeError> {
        let mut errors = vec![0.0; self.norms.len()];
        for (before, after) in self.outputs.iter().zip(outputs) {
            for ((before, after), error) in before.iter().zip(after).zip(&mut errors) {
                if is_float(before) {
                    let pairs = before.to_f64().into_iter().zip(after.to_f64());
                    *error += pairs.map(|(before, after)| (before - after).powi(2)).sum::<f64>();
                }
            }
        }
        let floats =
            self.outputs.first().map_or(0, |tensors| tensors.iter().filter(|one| is_float(one)).count());
        let relative = |(error, norm): (&f64, &f64)| if *norm > 0.0 { error / norm } else { *error };
        #[allow(clippy::cast_precision_loss)]
        let square = errors.iter().zip(&self.norms).map(relative).sum::<f64>() / floats.max(1) as f64;
        // A version that overflows has no finite error, and every bound excludes it.
        let square = if square.is_finite() { square } else { f64::MAX.sqrt() };
        let accuracy = match &self.metric {
            Metric::Outputs => None,
            Metric::Labels(labels) => Some(accuracy(&first(outputs), labels)?),
        };
        let loss = match (self.accuracy, accuracy) {
            (Some(before), Some(after)) => before - after,
            _ => square.sqrt(),
        };
        Ok(Loss { square, loss, accuracy })
    }
}

/// Returns the share of rows in which the label's class has the highest score; of equal scores the last one counts. The
/// rows are along the first axis of the tensors, and go on from one tensor to the next.
///
/// # Errors
/// There are not as many labels as rows, or no rows, or a label that no row has a class for. Negative labels, which some
/// data sets have for unknown classes, count as wrong.
pub fn accuracy(scores: &[&Tensor], labels: &[i64]) -> Result<f64, QuantizeError> {
    let rows: usize = scores.iter().map(|tensor| tensor.ty().shape.first().copied().unwrap_or(1)).sum();
    if rows == 0 || rows != labels.len() {
        let count = labels.len();
        return Err(QuantizeError::Loss(format!(
            "there are {count} labels for {rows} rows of the first output"
        )));
    }
    let mut labels = labels.iter();
    let mut right = 0_usize;
    for tensor in scores {
        let values = tensor.to_f64();
        let count = tensor.ty().shape.first().copied().unwrap_or(1);
        let classes = (values.len() / count.max(1)).max(1);
        for (row, label) in values.chunks(classes).zip(labels.by_ref().take(count)) {
            if usize::try_from(*label).is_ok_and(|class| class >= classes) {
                return Err(QuantizeError::Loss(format!(
                    "a label is {label}, and a row of the first output has {classes} classes, from 0 on"
                )));
            }
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(class, _)| class);
            right += usize::from(best.and_then(|class| i64::try_from(class).ok()) == Some(*label));
        }
    }
    #[allow(clippy::cast_precision_loss)]
    Ok(right as f64 / rows as f64)
}

fn first(outputs: &[Vec<Tensor>]) -> Vec<&Tensor> {
    outputs.iter().filter_map(|tensors| tensors.first()).collect()
}

fn is_float(tensor: &Tensor) -> bool {
    matches!(tensor.ty().dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}
