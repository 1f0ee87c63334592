//! Norms of vectors and lines.

use crate::draft::{Draft, float, int, list};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Adds a scale or a shift of each element of a line.
fn line(draft: &mut Draft<'_>, width: usize) -> String {
    draft.weights(DType::F32, &[width]).name
}

pub(super) fn length(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=4);
    if !x.finite || x.count() == 0 {
        return None;
    }
    let at = signed(draft.rng.below(x.rank()));
    let attributes = vec![int("axis", at), int("p", draft.rng.between(1, 2))];
    draft.node("LpNormalization", &[&x.name], attributes, &[DType::F32])
}

pub(super) fn variance(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    let dims =
        [1 + draft.rng.below(2), 1 + draft.rng.below(3), 2 + draft.rng.below(3), 2 + draft.rng.below(3)];
    let x = draft.weights(DType::F32, &dims).name;
    let attributes = match draft.rng.below(3) {
        0 => Vec::new(),
        1 => vec![list("axes", &[2, 3])],
        _ => vec![list("axes", &[1, 2, 3])],
    };
    draft.node("MeanVarianceNormalization", &[&x], attributes, &[DType::F32])
}

pub(super) fn root(draft: &mut Draft<'_>) -> Option<()> {
    let own = draft.opset() >= 23 && draft.rng.percent(60);
    let x = draft.any(&[DType::F32], 2..=4);
    let at = x.rank() - 1 - if own { draft.rng.below(2) } else { 0 };
    if x.count() == 0 || !x.finite {
        return None;
    }
    let scale = draft.weights(DType::F32, &x.dims[at..]).name;
    let attributes = vec![int("axis", signed(at)), float("epsilon", 1e-3)];
    let op = if own { "RMSNormalization" } else { "SimplifiedLayerNormalization" };
    draft.node(op, &[&x.name, &scale], attributes, &[DType::F32])
}

/// The norms of a residual branch.
pub(super) fn skip(draft: &mut Draft<'_>) -> Option<()> {
    let dims = [1 + draft.rng.below(2), 1 + draft.rng.below(4), 2 + draft.rng.below(9)];
    let (x, other) = (draft.weights(DType::F32, &dims).name, draft.weights(DType::F32, &dims).name);
    let [scale, shift, bias] = [(); 3].map(|()| line(draft, dims[2]));
    let bias = if draft.rng.percent(50) { bias } else { String::new() };
    let epsilon = vec![float("epsilon", 1e-3)];
    if draft.rng.percent(40) {
        let op = "com.microsoft.SkipSimplifiedLayerNormalization";
        return draft.node(op, &[&x, &other, &scale, &bias], epsilon, &[DType::F32]);
    }
    let shift = if draft.rng.percent(70) { shift } else { String::new() };
    let op = "com.microsoft.SkipLayerNormalization";
    draft.node(op, &[&x, &other, &scale, &shift, &bias], epsilon, &[DType::F32])
}

/// The sum of three embeddings, and its norm.
pub(super) fn embed(draft: &mut Draft<'_>) -> Option<()> {
    let (batch, length, width) = (1 + draft.rng.below(2), 1 + draft.rng.below(4), 2 + draft.rng.below(7));
    let places = |draft: &mut Draft<'_>, below: i64| {
        let values: Vec<i32> = (0..batch * length)
            .map(|_| i32::try_from(draft.rng.between(0, below - 1)).unwrap_or(0))
            .collect();
        draft.add(Tensor::from_elements([batch, length], &values), false).name
    };
    let (ids, kinds) = (places(draft, 7), places(draft, 2));
    let mask: Vec<i32> = (0..batch)
        .flat_map(|_| {
            let kept = 1 + draft.rng.below(length);
            (0..length).map(move |at| i32::from(at < kept))
        })
        .collect();
    let mask = draft.hidden(Tensor::from_elements([batch, length], &mask));
    let [words, positions, segments] =
        [7, length + 2, 2].map(|rows| draft.weights(DType::F32, &[rows, width]).name);
    let (scale, shift) = (line(draft, width), line(draft, width));
    let (kinds, segments) =
        if draft.rng.percent(70) { (kinds, segments) } else { (String::new(), String::new()) };
    let inputs = [&ids, &kinds, &words, &positions, &segments, &scale, &shift, &mask].map(String::as_str);
    let results = &[DType::F32, DType::I32];
    draft.node("com.microsoft.EmbedLayerNormalization", &inputs, vec![float("epsilon", 1e-3)], results)
}

/// Norms of groups of channels, which come last.
pub(super) fn groups(draft: &mut Draft<'_>) -> Option<()> {
    let groups = 1 + draft.rng.below(2);
    let channels = groups * (1 + draft.rng.below(3));
    let dims = [1 + draft.rng.below(2), 2 + draft.rng.below(3), 2 + draft.rng.below(3), channels];
    let x = draft.weights(DType::F32, &dims).name;
    let (scale, shift) = (line(draft, channels), line(draft, channels));
    let attributes = vec![
        int("groups", signed(groups)),
        int("activation", draft.rng.between(0, 1)),
        float("epsilon", 1e-3),
    ];
    if draft.rng.percent(50) {
        let op = "com.microsoft.GroupNorm";
        return draft.node(op, &[&x, &scale, &shift], attributes, &[DType::F32]);
    }
    let (other, bias) = (draft.weights(DType::F32, &dims).name, line(draft, channels));
    let inputs = [&x, &scale, &shift, &other, &bias].map(String::as_str);
    draft.node("com.microsoft.SkipGroupNorm", &inputs, attributes, &[DType::F32])
}
