//! Products of matrices, and what goes with them.

use crate::draft::{Draft, float, int, text};
use ovolo::tensor::DType;

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

pub(super) fn matmul(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32, DType::F32, DType::F32, DType::F16, DType::F64], 2..=4);
    let (rank, columns) = (x.rank(), draft.size());
    if x.dims[rank - 1] == 0 {
        return None; // ONNX Runtime leaves the result of an empty sum as its memory was.
    }
    let mut dims = vec![x.dims[rank - 1], columns];
    if draft.rng.percent(40) {
        let batch: Vec<usize> = x.dims[..rank - 2].to_vec();
        dims.splice(0..0, batch);
    }
    if draft.rng.percent(10) {
        dims = vec![x.dims[rank - 1]];
    }
    let y = draft.leaf(x.dtype, &dims);
    draft.node("MatMul", &[&x.name, &y.name], Vec::new(), &[x.dtype])
}

pub(super) fn gemm(draft: &mut Draft<'_>) -> Option<()> {
    let (m, k, n) = (draft.size().max(1), draft.size().max(1), draft.size().max(1));
    let (ta, tb) = (draft.rng.below(2), draft.rng.below(2));
    let a = draft.leaf(DType::F32, &if ta == 1 { [k, m] } else { [m, k] });
    let b = draft.leaf(DType::F32, &if tb == 1 { [n, k] } else { [k, n] });
    let shapes = [vec![n], vec![m, n], vec![1, n], vec![m, 1], vec![]];
    let shape = draft.rng.pick(&shapes[..if draft.opset() < 7 { 2 } else { 5 }]);
    let c = draft.leaf(DType::F32, &shape);
    let alpha = draft.rng.pick(&[1.0, 0.5, -2.0]);
    let attributes = vec![
        int("transA", signed(ta)),
        int("transB", signed(tb)),
        float("alpha", alpha),
        float("beta", draft.rng.pick(&[1.0, 0.25])),
    ];
    let mut attributes = attributes;
    if draft.opset() < 7 && shape != [m, n] {
        attributes.push(int("broadcast", 1));
    }
    let bias = draft.opset() < 11 || draft.rng.percent(70);
    draft.node("Gemm", &[&a.name, &b.name, if bias { &c.name } else { "" }], attributes, &[DType::F32])
}

/// One to four operands of a few letters: in any order, at times twice in one operand, with an ellipsis, or with an
/// axis of size 1 that is broadcast.
pub(super) fn einsum(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 12 {
        return None;
    }
    let letters = ['k', 'i', 'b', 'j', 'X'];
    let sizes = letters.map(|_| 1 + draft.rng.below(4));
    let further = [1 + draft.rng.below(3), 1 + draft.rng.below(3)];
    let dtype = draft.rng.pick(&[DType::F32, DType::F32, DType::F32, DType::F64, DType::I32]);
    let ellipsis = draft.rng.percent(25);
    let (mut terms, mut names, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let (mut dotted, mut finite) = (false, true);
    let mut readers = letters.map(|_| 0);
    let count = draft.rng.pick(&[1, 2, 2, 2, 2, 3, 3, 4]);
    for _ in 0..count {
        let mut own: Vec<usize> = draft.rng.order(letters.len());
        own.truncate(draft.rng.below(4));
        if !own.is_empty() && draft.rng.percent(10) {
            own.insert(draft.rng.below(own.len() + 1), own[0]);
        }
        let twice = |at: &usize| own.iter().filter(|other| *other == at).count() > 1;
        let mut dims: Vec<usize> = own.iter().map(|at| sizes[*at]).collect();
        for (at, dim) in own.iter().zip(&mut dims) {
            if !twice(at) && draft.rng.percent(5) {
                *dim = 1;
            }
        }
        let mut term: String = own.iter().map(|at| letters[*at]).collect();
        (0..letters.len()).filter(|at| own.contains(at)).for_each(|at| readers[at] += 1);
        all.extend(own);
        if ellipsis && draft.rng.percent(70) {
            let at = draft.rng.below(term.len() + 1);
            term.insert_str(at, "...");
            dims.splice(at..at, further[draft.rng.below(3)..].iter().copied());
            dotted = true;
        }
        terms.push(term);
        let leaf = draft.leaf(dtype, &dims);
        finite &= leaf.finite;
        names.push(leaf.name);
    }
    // Where sums are factored out, or three operands are multiplied in another order, zero may meet infinity or not.
    if !finite && (count > 2 || count == 2 && readers.contains(&1)) {
        return None;
    }
    all.sort_unstable();
    all.dedup();
    let order = draft.rng.order(all.len());
    let keep = draft.rng.pick(&[30, 60, 100]);
    let mut result: String =
        order.into_iter().filter(|_| draft.rng.percent(keep)).map(|at| letters[all[at]]).collect();
    if dotted {
        result.insert_str(draft.rng.below(result.len() + 1), "...");
    }
    let blank = if draft.rng.percent(20) { " " } else { "" };
    let mut equation = terms.join(&format!(",{blank}"));
    if draft.rng.percent(85) {
        equation = format!("{equation}{blank}->{blank}{result}");
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    draft.node("Einsum", &names, vec![text("equation", &equation)], &[dtype])
}

pub(super) fn layer_norm(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 17 {
        return None;
    }
    let x = draft.any(&[DType::F32], 2..=4);
    let at = x.rank() - 1 - draft.rng.below(2).min(x.rank() - 2);
    if x.dims[at..].iter().product::<usize>() < 2 {
        return None; // The deviation of one element is zero, and rounding alone would be compared.
    }
    let scale = draft.leaf(DType::F32, &x.dims[at..]);
    let bias = draft.leaf(DType::F32, &x.dims[at..]);
    let bias = if draft.rng.percent(70) { bias.name } else { String::new() };
    let attributes = vec![int("axis", signed(at)), float("epsilon", 1e-3)];
    draft.node("LayerNormalization", &[&x.name, &scale.name, &bias], attributes, &[DType::F32])
}

/// Of finite numbers alone: ONNX Runtime's activations give numbers for NaN.
pub(super) fn recurrent(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 7 {
        return None; // Before it, an attribute said whether there is the first result.
    }
    let (op, gates) = draft.rng.pick(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
    let direction = draft.rng.pick(&["forward", "reverse", "bidirectional"]);
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let (length, batch, input, hidden) =
        (1 + draft.rng.below(4), 1 + draft.rng.below(2), 1 + draft.rng.below(5), 1 + draft.rng.below(5));
    let x = draft.weights(DType::F32, &[length, batch, input]);
    let w = draft.weights(DType::F32, &[directions, gates * hidden, input]);
    let r = draft.weights(DType::F32, &[directions, gates * hidden, hidden]);
    let b = draft.weights(DType::F32, &[directions, 2 * gates * hidden]);
    let bias = if draft.rng.percent(70) { b.name } else { String::new() };
    let mut attributes = vec![text("direction", direction), int("hidden_size", signed(hidden))];
    if op == "GRU" && draft.rng.percent(50) {
        attributes.push(int("linear_before_reset", 1));
    }
    draft.node(op, &[&x.name, &w.name, &r.name, &bias], attributes, &[DType::F32, DType::F32])
}
