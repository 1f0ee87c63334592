//! Operators that move elements.

use crate::draft::{Draft, Known, int, list, text};
use ovolo::tensor::{DType, Tensor};

/// The types of elements that are moved.
const ANY: &[DType] = &[DType::F32, DType::F32, DType::F32, DType::I64, DType::I32, DType::F16, DType::Bool];
const PLAIN: &[DType] = &[DType::F32, DType::F32, DType::F32, DType::I64, DType::F64];

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Axes are an attribute before an opset, and an operand since then.
fn with_axes(draft: &mut Draft<'_>, op: &str, x: &Known, axes: &[i64], since: i64) -> Option<()> {
    if draft.opset() < since {
        return draft.node(op, &[&x.name], vec![list("axes", axes)], &[x.dtype]);
    }
    let axes = draft.ints(axes);
    draft.node(op, &[&x.name, &axes], Vec::new(), &[x.dtype])
}

pub(super) fn reshape(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(ANY, 0..=4);
    let mut shape: Vec<i64> = x.dims.iter().map(|&dim| signed(dim)).collect();
    match draft.rng.below(5) {
        0 => shape = vec![-1],
        1 if x.count() > 0 => shape.insert(draft.rng.below(shape.len() + 1), 1),
        2 if shape.len() > 1 && x.count() > 0 => {
            let first = shape.remove(0);
            shape[0] *= first;
        }
        3 if !shape.is_empty() && x.count() > 0 => {
            let at = draft.rng.below(shape.len());
            shape[at] = 0;
        }
        _ if x.count() > 0 => shape.reverse(),
        _ => {}
    }
    if shape != [-1] && !shape.contains(&0) && !shape.is_empty() && draft.rng.percent(40) {
        let at = draft.rng.below(shape.len());
        shape[at] = -1;
    }
    if draft.opset() < 5 {
        return draft.node("Reshape", &[&x.name], vec![list("shape", &shape)], &[x.dtype]);
    }
    let shape = draft.ints(&shape);
    draft.node("Reshape", &[&x.name, &shape], Vec::new(), &[x.dtype])
}

pub(super) fn transpose(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(ANY, 0..=4);
    let order: Vec<i64> = draft.rng.order(x.rank()).into_iter().map(signed).collect();
    let attributes = if draft.rng.percent(20) { Vec::new() } else { vec![list("perm", &order)] };
    draft.node("Transpose", &[&x.name], attributes, &[x.dtype])
}

pub(super) fn squeeze(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(ANY, 1..=4);
    let axes: Vec<i64> = (0..x.rank()).filter(|&at| x.dims[at] == 1).map(signed).collect();
    if axes.is_empty() {
        return None;
    }
    with_axes(draft, "Squeeze", &x, &axes, 13)
}

pub(super) fn unsqueeze(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(ANY, 0..=3);
    let at = draft.rng.between(0, signed(x.rank()));
    let at = if draft.opset() >= 11 && draft.rng.percent(30) { at - signed(x.rank()) - 1 } else { at };
    with_axes(draft, "Unsqueeze", &x, &[at], 13)
}

pub(super) fn concat(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(ANY, 1..=4);
    let at = draft.rng.below(x.rank());
    let mut names = vec![x.name.clone()];
    for _ in 0..=draft.rng.below(2) {
        let mut dims = x.dims.clone();
        dims[at] = draft.size();
        names.push(if draft.rng.percent(20) { x.name.clone() } else { draft.leaf(x.dtype, &dims).name });
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    draft.node("Concat", &names, vec![int("axis", signed(at))], &[x.dtype])
}

pub(super) fn slice(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(PLAIN, 1..=4);
    let at = draft.rng.below(x.rank());
    let size = signed(x.dims[at]);
    let start = draft.rng.between(-size - 1, size + 1);
    let end = draft.rng.between(-size - 1, size + 2);
    if draft.opset() < 10 {
        let attributes = vec![list("starts", &[start]), list("ends", &[end]), list("axes", &[signed(at)])];
        return draft.node("Slice", &[&x.name], attributes, &[x.dtype]);
    }
    let step = draft.rng.pick(&[1, 1, 2, -1, -2, 3]);
    let [start, end, axis, step] =
        [start, if step > 0 && draft.rng.percent(20) { i64::MAX } else { end }, signed(at), step]
            .map(|value| draft.ints(&[value]));
    draft.node("Slice", &[&x.name, &start, &end, &axis, &step], Vec::new(), &[x.dtype])
}

pub(super) fn split(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(PLAIN, 1..=4);
    let at = draft.rng.below(x.rank());
    if x.dims[at] < 2 {
        return None;
    }
    let first = draft.rng.between(1, signed(x.dims[at]) - 1);
    let sizes = [first, signed(x.dims[at]) - first];
    let axis = int("axis", signed(at));
    if draft.opset() < 13 {
        return draft.node("Split", &[&x.name], vec![axis, list("split", &sizes)], &[x.dtype, x.dtype]);
    }
    let sizes = draft.ints(&sizes);
    draft.node("Split", &[&x.name, &sizes], vec![axis], &[x.dtype, x.dtype])
}

pub(super) fn pad(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32, DType::F64], 1..=4);
    let mode = draft.rng.pick(&["constant", "constant", "reflect", "edge"]);
    let most = |dim: usize| if mode == "reflect" { signed(dim).saturating_sub(1).clamp(0, 2) } else { 2 };
    if x.count() == 0 {
        return None;
    }
    let pads: Vec<i64> = x.dims.iter().chain(&x.dims).map(|&dim| draft.rng.between(0, most(dim))).collect();
    if draft.opset() < 11 {
        let name = if draft.opset() < 2 { "paddings" } else { "pads" };
        return draft.node("Pad", &[&x.name], vec![text("mode", mode), list(name, &pads)], &[x.dtype]);
    }
    let pads = draft.ints(&pads);
    let value = if draft.rng.percent(50) {
        draft.hidden(Tensor::from_f64(x.dtype, [0_usize; 0], &[0.5]))
    } else {
        String::new()
    };
    draft.node("Pad", &[&x.name, &pads, &value], vec![text("mode", mode)], &[x.dtype])
}

pub(super) fn expand(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 8 {
        return None;
    }
    let x = draft.any(ANY, 0..=3);
    let mut dims: Vec<i64> = x
        .dims
        .iter()
        .map(|&dim| {
            if dim == 1 {
                draft.rng.between(1, 4)
            } else if draft.rng.percent(30) {
                1
            } else {
                signed(dim)
            }
        })
        .collect();
    if draft.rng.percent(40) {
        dims.insert(0, draft.rng.between(1, 3));
    }
    let dims = draft.ints(&dims);
    draft.node("Expand", &[&x.name, &dims], Vec::new(), &[x.dtype])
}

pub(super) fn tile(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(PLAIN, 1..=4);
    if x.count() > 600 || draft.opset() < 6 {
        return None;
    }
    let repeats: Vec<i64> = x.dims.iter().map(|_| draft.rng.pick(&[1, 1, 2, 3])).collect();
    let repeats = draft.ints(&repeats);
    draft.node("Tile", &[&x.name, &repeats], Vec::new(), &[x.dtype])
}

pub(super) fn flatten(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(PLAIN, 1..=4);
    let at = draft.rng.between(0, signed(x.rank()));
    draft.node("Flatten", &[&x.name], vec![int("axis", at)], &[x.dtype])
}

pub(super) fn depth(draft: &mut Draft<'_>) -> Option<()> {
    let mut dims =
        [draft.rng.below(2) + 1, draft.rng.below(3) + 1, draft.rng.below(3) + 1, draft.rng.below(3) + 1];
    if draft.rng.percent(50) {
        dims[1] *= 4;
        let x = draft.leaf(DType::F32, &dims);
        let mut attributes = vec![int("blocksize", 2)];
        if draft.opset() >= 11 {
            attributes.push(text("mode", draft.rng.pick(&["DCR", "CRD"])));
        }
        return draft.node("DepthToSpace", &[&x.name], attributes, &[x.dtype]);
    }
    dims[2] *= 2;
    dims[3] *= 2;
    let x = draft.leaf(DType::F32, &dims);
    draft.node("SpaceToDepth", &[&x.name], vec![int("blocksize", 2)], &[x.dtype])
}

pub(super) fn triangle(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 14 {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::I64], 2..=4);
    let shift = draft.rng.between(-2, 2);
    let shift = draft.hidden(Tensor::from_elements([0_usize; 0], &[shift]));
    let upper = int("upper", draft.rng.between(0, 1));
    draft.node("Trilu", &[&x.name, &shift], vec![upper], &[x.dtype])
}
