//! Operators on signals.

use crate::draft::{Draft, int};
use crate::model::number;
use ovolo::onnx::proto::AttributeProto;
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Adds a node whose result is not for other nodes: its zeros come from sums, so that rounding decides whether they are.
fn last(draft: &mut Draft<'_>, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> Option<()> {
    draft.node(op, inputs, attributes, &[DType::F32])?;
    if !draft.closed {
        draft.pool.pop();
    }
    Some(())
}

pub(super) fn transform(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 17 {
        return None;
    }
    let (batch, length) = (1 + draft.rng.below(3), 1 + draft.rng.below(9));
    let (inverse, onesided) = (draft.rng.percent(30), draft.rng.percent(40));
    let parts = if onesided && !inverse { 1 } else { 2 - usize::from(!inverse && draft.rng.percent(40)) };
    if inverse && onesided {
        return None; // The standard has a real result for it since opset 26 only.
    }
    let x = draft.weights(DType::F32, &[batch, length, parts]).name;
    let attributes = |more: Option<i64>| {
        let both = [int("inverse", i64::from(inverse)), int("onesided", i64::from(onesided))];
        both.into_iter().chain(more.map(|axis| int("axis", axis))).collect::<Vec<_>>()
    };
    let size = if draft.rng.percent(40) {
        let size = 1 + draft.rng.below(10);
        draft.hidden(Tensor::from_elements([0_usize; 0], &[signed(size)]))
    } else {
        String::new()
    };
    if draft.opset() < 20 {
        return last(draft, "DFT", &[&x, &size], attributes(Some(1)));
    }
    let axis = draft.rng.pick(&[1_i64, -2]);
    let axis = draft.hidden(Tensor::from_elements([0_usize; 0], &[axis]));
    last(draft, "DFT", &[&x, &size, &axis], attributes(None))
}

pub(super) fn short_time(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 17 {
        return None;
    }
    let (batch, frame, step) = (1 + draft.rng.below(2), 2 + draft.rng.below(5), 1 + draft.rng.below(3));
    let length = frame + step * draft.rng.below(4) + draft.rng.below(step);
    let x = draft.weights(DType::F32, &[batch, length, 1]).name;
    let step = draft.hidden(Tensor::from_elements([0_usize; 0], &[signed(step)]));
    let size = draft.hidden(Tensor::from_elements([0_usize; 0], &[signed(frame)]));
    let window = if draft.rng.percent(60) { draft.weights(DType::F32, &[frame]).name } else { String::new() };
    let onesided = int("onesided", draft.rng.between(0, 1));
    last(draft, "STFT", &[&x, &step, &window, &size], vec![onesided])
}

pub(super) fn window(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 17 {
        return None;
    }
    let op = draft.rng.pick(&["HannWindow", "HammingWindow", "BlackmanWindow"]);
    let size = draft.rng.between(2, 12);
    let size = draft.hidden(Tensor::from_elements([0_usize; 0], &[size]));
    let dtype = draft.rng.pick(&[DType::F32, DType::F32, DType::F64]);
    let mut attributes = vec![int("periodic", draft.rng.between(0, 1))];
    if dtype != DType::F32 {
        attributes.push(int("output_datatype", i64::from(number(dtype))));
    }
    draft.node(op, &[&size], attributes, &[dtype])
}

pub(super) fn mel(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 17 {
        return None;
    }
    let bins = draft.rng.between(2, 6);
    let length = draft.rng.pick(&[16_i64, 32, 64]);
    let integers =
        [bins, length, 8192].map(|value| draft.hidden(Tensor::from_elements([0_usize; 0], &[value])));
    let ends = [0.0, 3000.0].map(|value| draft.scalar(DType::F32, value));
    let [bins, length, rate] = &integers;
    draft.node("MelWeightMatrix", &[bins, length, rate, &ends[0], &ends[1]], Vec::new(), &[DType::F32])
}
