//! Losses, and the steps of optimisers.

use crate::draft::{Draft, float, int, text};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

pub(super) fn loss(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 12 {
        return None;
    }
    let op = draft.rng.pick(&["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]);
    let (batch, classes) = (1 + draft.rng.below(4), 2 + draft.rng.below(4));
    let mut dims = vec![batch, classes];
    dims.extend((0..draft.rng.below(3)).map(|_| 1 + draft.rng.below(3)));
    let x = draft.weights(DType::F32, &dims).name;
    dims.remove(1);
    let labels: Vec<i64> =
        (0..dims.iter().product()).map(|_| draft.rng.between(0, signed(classes) - 1)).collect();
    let labels = draft.hidden(Tensor::from_elements(dims, &labels));
    let weights = if draft.rng.percent(50) {
        let values: Vec<f64> = (0..classes).map(|_| 0.2 + draft.rng.unit()).collect();
        draft.hidden(Tensor::from_f64(DType::F32, [classes], &values))
    } else {
        String::new()
    };
    let mut attributes = vec![text("reduction", draft.rng.pick(&["none", "sum", "mean"]))];
    if draft.rng.percent(30) {
        // A class that no label has, so that a mean is over at least one element.
        attributes.push(int("ignore_index", signed(classes)));
    }
    let both = op == "SoftmaxCrossEntropyLoss" && draft.rng.percent(40);
    let results: &[DType] = if both { &[DType::F32, DType::F32] } else { &[DType::F32] };
    draft.node(op, &[&x, &labels, &weights], attributes, results)
}

/// One step of an optimiser with one tensor.
pub(super) fn optimiser(draft: &mut Draft<'_>) -> Option<()> {
    let rank = 1 + draft.rng.below(2);
    let dims = draft.dims(rank);
    let (op, states) = draft.rng.pick(&[("Adagrad", 1), ("Adam", 2), ("Momentum", 1)]);
    let rate = draft.scalar(DType::F32, 0.1);
    let turn = draft.rng.between(0, 3);
    let turn = draft.hidden(Tensor::from_elements([0_usize; 0], &[turn]));
    let mut names = vec![rate, turn];
    names.extend((0..2).map(|_| draft.weights(DType::F32, &dims).name));
    for _ in 0..states {
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| draft.rng.unit()).collect();
        names.push(draft.add(Tensor::from_f64(DType::F32, dims.clone(), &values), false).name);
    }
    let mut attributes = vec![float("norm_coefficient", 0.01)];
    match op {
        "Adagrad" => attributes.extend([float("epsilon", 1e-3), float("decay_factor", 0.1)]),
        "Adam" => attributes.extend([float("alpha", 0.9), float("beta", 0.8), float("epsilon", 1e-3)]),
        _ => attributes.extend([
            float("alpha", 0.9),
            float("beta", 0.8),
            text("mode", draft.rng.pick(&["standard", "nesterov"])),
        ]),
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let results = vec![DType::F32; 1 + states];
    draft.node(&format!("ai.onnx.preview.training.{op}"), &names, attributes, &results)
}
