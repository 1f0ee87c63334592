//! Attention, and what goes with it.

use crate::draft::{Draft, float, int, text};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Adds numbers that only the caller's node reads.
fn numbers(draft: &mut Draft<'_>, dims: &[usize]) -> String {
    draft.weights(DType::F32, dims).name
}

/// Adds a mask of whole numbers for each row of a batch: ones for the first elements, at least one of them.
fn mask(draft: &mut Draft<'_>, batch: usize, length: usize) -> String {
    let mask: Vec<i32> = (0..batch)
        .flat_map(|_| {
            let kept = 1 + draft.rng.below(length);
            (0..length).map(move |at| i32::from(at < kept))
        })
        .collect();
    draft.hidden(Tensor::from_elements([batch, length], &mask))
}

/// ONNX's own attention.
pub(super) fn standard(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 23 {
        return None;
    }
    let [batch, groups, queries, keys, width] = [(); 5].map(|()| 1 + draft.rng.below(3));
    let heads = groups * draft.rng.pick(&[1, 1, 2]);
    let values = 1 + draft.rng.below(4);
    let past = if draft.rng.percent(30) { 1 + draft.rng.below(3) } else { 0 };
    let flat = draft.rng.percent(40);
    let dims = |heads: usize, length: usize, width: usize| {
        if flat { vec![batch, length, heads * width] } else { vec![batch, heads, length, width] }
    };
    let q = numbers(draft, &dims(heads, queries, width));
    let k = numbers(draft, &dims(groups, keys, width));
    let v = numbers(draft, &dims(groups, keys, values));
    let masked = if draft.rng.percent(40) { numbers(draft, &[queries, past + keys]) } else { String::new() };
    let mut attributes = Vec::new();
    if flat {
        attributes.extend([int("q_num_heads", signed(heads)), int("kv_num_heads", signed(groups))]);
    }
    // ONNX Runtime masks nothing for one query after a past: `docs/CONFORMANCE.md`.
    let unmasked = past > 0 && queries == 1 && keys > 1;
    if draft.rng.percent(40) && !unmasked {
        attributes.push(int("is_causal", 1));
    }
    if draft.rng.percent(40) {
        attributes.push(float("scale", 0.4));
    }
    if draft.rng.percent(30) {
        attributes.push(float("softcap", 1.5));
    }
    let names = [q, k, v, masked];
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    if past == 0 {
        return draft.node("Attention", &names, attributes, &[DType::F32]);
    }
    let before =
        [numbers(draft, &[batch, groups, past, width]), numbers(draft, &[batch, groups, past, values])];
    names.extend(before.iter().map(String::as_str));
    draft.node("Attention", &names, attributes, &[DType::F32; 3])
}

/// ONNX Runtime's attention with one matrix of weights.
pub(super) fn packed(draft: &mut Draft<'_>) -> Option<()> {
    let [batch, heads, length, width] = [(); 4].map(|()| 1 + draft.rng.below(3));
    let (input, hidden) = (1 + draft.rng.below(5), heads * width * 2);
    let mut attributes = vec![int("num_heads", signed(heads))];
    if draft.rng.percent(40) {
        attributes.push(int("unidirectional", 1));
    }
    let masked = if draft.rng.percent(40) { mask(draft, batch, length) } else { String::new() };
    let bias = numbers(draft, &[3 * hidden]);
    if draft.rng.percent(35) {
        let right = draft.rng.pick(&[DType::U8, DType::I8]);
        let (x, w) =
            (draft.leaf(DType::U8, &[batch, length, input]), draft.leaf(right, &[input, 3 * hidden]));
        let (scale, other) = (draft.scalar(DType::F32, 0.1), draft.scalar(DType::F32, 0.05));
        let (zero, point) = (draft.scalar(DType::U8, 2.0), draft.scalar(right, 1.0));
        let inputs = [&x.name, &w.name, &bias, &scale, &other, &masked, &zero, &point].map(String::as_str);
        return draft.node("com.microsoft.QAttention", &inputs, attributes, &[DType::F32]);
    }
    let (x, w) = (numbers(draft, &[batch, length, input]), numbers(draft, &[input, 3 * hidden]));
    draft.node("com.microsoft.Attention", &[&x, &w, &bias, &masked], attributes, &[DType::F32])
}

/// ONNX Runtime's attention with queries, keys and values.
pub(super) fn many_heads(draft: &mut Draft<'_>) -> Option<()> {
    let [batch, heads, queries, keys, width, values] = [(); 6].map(|()| 1 + draft.rng.below(3));
    let q = numbers(draft, &[batch, queries, heads * width]);
    let k = numbers(draft, &[batch, keys, heads * width]);
    let v = numbers(draft, &[batch, keys, heads * values]);
    let bias =
        if draft.rng.percent(40) { numbers(draft, &[heads * (2 * width + values)]) } else { String::new() };
    let masked = if draft.rng.percent(30) { mask(draft, batch, keys) } else { String::new() };
    let added =
        if draft.rng.percent(30) { numbers(draft, &[1, heads, queries, keys]) } else { String::new() };
    let mut attributes = vec![int("num_heads", signed(heads))];
    if draft.rng.percent(30) {
        attributes.push(float("scale", 0.3));
    }
    let inputs = [&q, &k, &v, &bias, &masked, &added].map(String::as_str);
    draft.node("com.microsoft.MultiHeadAttention", &inputs, attributes, &[DType::F32])
}

/// ONNX Runtime's attention in which several queries share a key: a prompt, or a step after it.
pub(super) fn grouped(draft: &mut Draft<'_>) -> Option<()> {
    let (batch, groups) = (1 + draft.rng.below(2), 1 + draft.rng.below(2));
    let heads = groups * (1 + draft.rng.below(2));
    let (width, prompt) = (16, draft.rng.percent(50));
    let (length, past) = if prompt { (1 + draft.rng.below(4), 0) } else { (1, 1 + draft.rng.below(4)) };
    let total = length + past;
    let q = numbers(draft, &[batch, length, heads * width]);
    let [k, v] = [(); 2].map(|()| numbers(draft, &[batch, length, groups * width]));
    let [past_k, past_v] = [(); 2].map(|()| numbers(draft, &[batch, groups, past, width]));
    let last = i32::try_from(total - 1).unwrap_or(0);
    let lengths = draft.hidden(Tensor::from_elements([batch], &vec![last; batch]));
    let total = draft.hidden(Tensor::from_elements([0_usize; 0], &[last + 1]));
    let mut attributes = vec![int("num_heads", signed(heads)), int("kv_num_heads", signed(groups))];
    let mut inputs = vec![q, k, v, past_k, past_v, lengths, total];
    if draft.rng.percent(50) {
        inputs.extend([(); 2].map(|()| numbers(draft, &[12, width / 2])));
        attributes.extend([int("do_rotary", 1), int("rotary_interleaved", draft.rng.between(0, 1))]);
    }
    if draft.rng.percent(30) {
        attributes.push(int("local_window_size", draft.rng.between(1, 3)));
    }
    if draft.rng.percent(30) {
        attributes.push(float("softcap", 2.0));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    draft.node("com.microsoft.GroupQueryAttention", &inputs, attributes, &[DType::F32; 3])
}

/// Rotated queries or keys.
pub(super) fn rotary(draft: &mut Draft<'_>) -> Option<()> {
    let [batch, heads, length] = [(); 3].map(|()| 1 + draft.rng.below(3));
    let width = 2 * (1 + draft.rng.below(4));
    let own = draft.opset() >= 23 && draft.rng.percent(60);
    let four = draft.rng.percent(50);
    let dims = if four { vec![batch, heads, length, width] } else { vec![batch, length, heads * width] };
    let x = numbers(draft, &dims);
    let [cos, sin] = [(); 2].map(|()| numbers(draft, &[length + 3, width / 2]));
    let places: Vec<i64> = (0..batch * length).map(|_| draft.rng.between(0, signed(length) + 2)).collect();
    let places = draft.hidden(Tensor::from_elements([batch, length], &places));
    let mut attributes = vec![int("interleaved", draft.rng.between(0, 1))];
    if own {
        if !four {
            attributes.push(int("num_heads", signed(heads)));
        }
        return draft.node("RotaryEmbedding", &[&x, &cos, &sin, &places], attributes, &[DType::F32]);
    }
    draft.node("com.microsoft.RotaryEmbedding", &[&x, &places, &cos, &sin], attributes, &[DType::F32])
}

/// The product of a gated half with the other one.
pub(super) fn swiglu(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 27 {
        return None;
    }
    let rank = 1 + draft.rng.below(3);
    let dims = draft.dims(rank);
    let [gate, value] = [(); 2].map(|()| numbers(draft, &dims));
    let attributes = if draft.rng.percent(50) { vec![float("alpha", 1.702)] } else { Vec::new() };
    draft.node("SwiGLU", &[&gate, &value], attributes, &[DType::F32])
}

/// A convolution of each channel with elements before it.
pub(super) fn causal(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 27 {
        return None;
    }
    let [batch, channels, length, kernel] = [(); 4].map(|()| 1 + draft.rng.below(4));
    let x = numbers(draft, &[batch, channels, length]);
    let w = numbers(draft, &[channels, 1, kernel]);
    let bias = if draft.rng.percent(50) { numbers(draft, &[channels]) } else { String::new() };
    let past = if draft.rng.percent(50) && kernel > 1 {
        numbers(draft, &[batch, channels, kernel - 1])
    } else {
        String::new()
    };
    let activation = text("activation", draft.rng.pick(&["none", "silu"]));
    let results = &[DType::F32; 2];
    draft.node("CausalConvWithState", &[&x, &w, &bias, &past], vec![activation], results)
}

/// Attention without a softmax, which carries a matrix from step to step.
pub(super) fn linear(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 27 {
        return None;
    }
    let [batch, heads, steps, key, value] = [(); 5].map(|()| 1 + draft.rng.below(3));
    let [q, k] = [(); 2].map(|()| numbers(draft, &[batch, steps, heads * key]));
    let v = numbers(draft, &[batch, steps, heads * value]);
    let past =
        if draft.rng.percent(50) { numbers(draft, &[batch, heads, key, value]) } else { String::new() };
    let rule = draft.rng.pick(&["linear", "gated", "delta", "gated_delta"]);
    let decay =
        if rule.starts_with("gated") { numbers(draft, &[batch, steps, heads]) } else { String::new() };
    let beta = if rule.ends_with("delta") { numbers(draft, &[batch, steps, heads]) } else { String::new() };
    let attributes = vec![
        int("q_num_heads", signed(heads)),
        int("kv_num_heads", signed(heads)),
        text("update_rule", rule),
    ];
    let inputs = [&q, &k, &v, &past, &decay, &beta].map(String::as_str);
    draft.node("LinearAttention", &inputs, attributes, &[DType::F32; 2])
}
