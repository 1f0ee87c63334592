//! Operators on sequences and optional values, which end in a tensor.

use crate::draft::{Draft, Known, graph, int};
use crate::model::declaration;
use ovolo::onnx::proto::{GraphProto, NodeProto};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

fn place(draft: &mut Draft<'_>, count: usize) -> String {
    let at = draft.rng.between(-signed(count), signed(count) - 1);
    draft.hidden(Tensor::from_elements([0_usize; 0], &[at]))
}

/// Makes a sequence of tensors with the same shape; returns its name, its length and one of its elements.
fn sequence(draft: &mut Draft<'_>) -> (String, usize, Known) {
    let x = draft.any(&[DType::F32, DType::I64], 1..=3);
    if draft.rng.percent(30) && x.dims[0] > 0 {
        let at = int("axis", 0);
        let kept = int("keepdims", 1);
        let name = draft.step("SplitToSequence", &[&x.name], vec![at, kept], 1).remove(0);
        let mut dims = x.dims.clone();
        dims[0] = 1;
        let count = x.dims[0];
        return (name, count, Known { dims, ..x });
    }
    let count = 1 + draft.rng.below(3);
    let mut names = vec![x.name.clone()];
    for _ in 1..count {
        names.push(draft.leaf(x.dtype, &x.dims).name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut name = draft.step("SequenceConstruct", &names, Vec::new(), 1).remove(0);
    let mut count = count;
    if draft.rng.percent(40) {
        let more = draft.leaf(x.dtype, &x.dims).name;
        let at = place(draft, count);
        let inputs: &[&str] = if draft.rng.percent(50) { &[&name, &more, &at] } else { &[&name, &more] };
        name = draft.step("SequenceInsert", inputs, Vec::new(), 1).remove(0);
        count += 1;
    }
    if count > 1 && draft.rng.percent(40) {
        let at = place(draft, count);
        name = draft.step("SequenceErase", &[&name, &at], Vec::new(), 1).remove(0);
        count -= 1;
    }
    (name, count, x)
}

pub(super) fn sequences(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    if draft.rng.percent(15) {
        let x = draft.any(&[DType::F32], 1..=3);
        let empty = draft.step("SequenceEmpty", &[], vec![int("dtype", 1)], 1).remove(0);
        let one = draft.step("SequenceInsert", &[&empty, &x.name], Vec::new(), 1).remove(0);
        let first = draft.hidden(Tensor::from_elements([0_usize; 0], &[0_i64]));
        return draft.node("SequenceAt", &[&one, &first], Vec::new(), &[DType::F32]);
    }
    let (name, count, x) = sequence(draft);
    if draft.opset() >= 17 && draft.rng.percent(25) && x.dtype == DType::F32 {
        let mapped = mapped(draft, &name);
        return draft.node("ConcatFromSequence", &[&mapped], vec![int("axis", 0)], &[x.dtype]);
    }
    match draft.rng.below(3) {
        0 => {
            let at = place(draft, count);
            draft.node("SequenceAt", &[&name, &at], Vec::new(), &[x.dtype])
        }
        1 => draft.node("SequenceLength", &[&name], Vec::new(), &[DType::I64]),
        _ => {
            let new = draft.rng.between(0, 1);
            let least = -signed(x.rank()) - new;
            let most = signed(x.rank()) - 1 + new;
            let attributes = vec![int("axis", draft.rng.between(least, most)), int("new_axis", new)];
            draft.node("ConcatFromSequence", &[&name], attributes, &[x.dtype])
        }
    }
}

/// Applies a function to each element of a sequence.
fn mapped(draft: &mut Draft<'_>, name: &str) -> String {
    let number = draft.model.nodes.len();
    let (input, output) = (format!("element{number}"), format!("mapped{number}"));
    let node = NodeProto {
        op_type: draft.rng.pick(&["Neg", "Tanh", "Abs"]).to_owned(),
        input: vec![input.clone()],
        output: vec![output.clone()],
        ..NodeProto::default()
    };
    let body = GraphProto {
        name: "body".to_owned(),
        node: vec![node],
        input: vec![declaration(&input, DType::F32, None)],
        output: vec![declaration(&output, DType::F32, None)],
        ..GraphProto::default()
    };
    draft.step("SequenceMap", &[name], vec![graph("body", body)], 1).remove(0)
}

pub(super) fn optional(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 15 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64], 0..=3);
    let some = draft.step("Optional", &[&x.name], Vec::new(), 1).remove(0);
    if draft.rng.percent(40) {
        return draft.node("OptionalHasElement", &[&some], Vec::new(), &[DType::Bool]);
    }
    draft.node("OptionalGetElement", &[&some], Vec::new(), &[x.dtype])
}
