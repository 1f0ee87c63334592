//! Operators with indices.

use crate::draft::{Draft, int, text};
use ovolo::tensor::{DType, Tensor};

const DATA: &[DType] = &[DType::F32, DType::F32, DType::I64];

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Adds indices that are in range: each is below the size that belongs to its position in the last axis.
fn indices(draft: &mut Draft<'_>, dims: &[usize], sizes: &[usize]) -> String {
    let count: usize = dims.iter().product();
    let one = |draft: &mut Draft<'_>, at: usize| {
        let size = signed(sizes[at % sizes.len()]);
        let least = if draft.opset() >= 11 { -size } else { 0 };
        draft.rng.between(least, size - 1)
    };
    let values: Vec<i64> = (0..count).map(|at| one(draft, at)).collect();
    let constant = draft.rng.percent(50);
    let name = draft.add(Tensor::from_elements(dims, &values), constant).name;
    draft.pool.pop();
    name
}

pub(super) fn gather(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(DATA, 1..=4);
    let at = draft.rng.below(x.rank());
    if x.dims[at] == 0 {
        return None;
    }
    let rank = draft.rng.below(3);
    let dims = draft.dims(rank);
    let indices = indices(draft, &dims, &[x.dims[at]]);
    draft.node("Gather", &[&x.name, &indices], vec![int("axis", signed(at))], &[x.dtype])
}

pub(super) fn gather_elements(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(DATA, 1..=4);
    let at = draft.rng.below(x.rank());
    if draft.opset() < 11 || x.count() == 0 {
        return None;
    }
    let mut dims = x.dims.clone();
    dims[at] = 1 + draft.rng.below(5);
    let indices = indices(draft, &dims, &[x.dims[at]]);
    draft.node("GatherElements", &[&x.name, &indices], vec![int("axis", signed(at))], &[x.dtype])
}

pub(super) fn gather_nd(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(DATA, 1..=4);
    if draft.opset() < 12 || x.count() == 0 {
        return None;
    }
    let depth = 1 + draft.rng.below(x.rank());
    let dims = [1 + draft.rng.below(4), depth];
    let indices = indices(draft, &dims, &x.dims[..depth]);
    draft.node("GatherND", &[&x.name, &indices], Vec::new(), &[x.dtype])
}

pub(super) fn scatter_elements(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=3);
    let at = draft.rng.below(x.rank());
    if draft.opset() < 11 || x.count() == 0 {
        return None;
    }
    // One index along the axis writes each element once.
    let mut dims = x.dims.clone();
    dims[at] = 1;
    let indices = indices(draft, &dims, &[x.dims[at]]);
    let updates = draft.leaf(x.dtype, &dims);
    let mut attributes = vec![int("axis", signed(at))];
    if draft.opset() >= 16 && draft.rng.percent(40) {
        attributes.push(text("reduction", "add"));
    }
    draft.node("ScatterElements", &[&x.name, &indices, &updates.name], attributes, &[x.dtype])
}

pub(super) fn scatter_nd(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=3);
    if draft.opset() < 11 || x.count() == 0 {
        return None;
    }
    let depth = 1 + draft.rng.below(x.rank());
    let indices = indices(draft, &[1, depth], &x.dims[..depth]);
    let mut dims = vec![1];
    dims.extend(&x.dims[depth..]);
    let updates = draft.leaf(x.dtype, &dims);
    draft.node("ScatterND", &[&x.name, &indices, &updates.name], Vec::new(), &[x.dtype])
}

pub(super) fn one_hot(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let dims = [1 + draft.rng.below(4)];
    let indices = indices(draft, &dims, &[5]);
    let depth = draft.hidden(Tensor::from_elements([0_usize; 0], &[5_i64]));
    let values = draft.leaf(DType::F32, &[2]);
    let axis = int("axis", draft.rng.pick(&[-1, 0, 1]));
    draft.node("OneHot", &[&indices, &depth, &values.name], vec![axis], &[DType::F32])
}

/// Its result is as long as a run finds.
pub(super) fn nonzero(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 || draft.rng.percent(60) {
        return None;
    }
    let x = draft.any(&[DType::F32, DType::Bool], 1..=3);
    draft.node("NonZero", &[&x.name], Vec::new(), &[DType::I64])
}

/// Sequences of different lengths in one value, each turned around.
pub(super) fn reverse(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let mut dims = vec![1 + draft.rng.below(4), 1 + draft.rng.below(4)];
    dims.extend((0..draft.rng.below(3)).map(|_| 1 + draft.rng.below(3)));
    let x = draft.leaf(DType::F32, &dims);
    let (time, batch) = draft.rng.pick(&[(0, 1), (1, 0)]);
    let lengths: Vec<i64> = (0..dims[batch]).map(|_| draft.rng.between(1, signed(dims[time]))).collect();
    let lengths = draft.ints(&lengths);
    let attributes = vec![int("time_axis", signed(time)), int("batch_axis", signed(batch))];
    draft.node("ReverseSequence", &[&x.name, &lengths], attributes, &[DType::F32])
}

/// The operator of opset 9 that opset 11 renamed.
pub(super) fn scatter(draft: &mut Draft<'_>) -> Option<()> {
    let x = draft.any(&[DType::F32], 1..=3);
    let at = draft.rng.below(x.rank());
    if !(9..11).contains(&draft.opset()) || x.count() == 0 {
        return None;
    }
    let mut dims = x.dims.clone();
    dims[at] = 1;
    let indices = indices(draft, &dims, &[x.dims[at]]);
    let updates = draft.leaf(x.dtype, &dims);
    draft.node("Scatter", &[&x.name, &indices, &updates.name], vec![int("axis", signed(at))], &[x.dtype])
}

/// New steps in a buffer of keys or values.
pub(super) fn update(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 24 {
        return None;
    }
    let [batch, heads, width, room] = [(); 4].map(|()| 1 + draft.rng.below(3));
    let room = room + 2;
    let count = 1 + draft.rng.below(2);
    let cache = draft.leaf(DType::F32, &[batch, heads, room, width]).name;
    let new = draft.leaf(DType::F32, &[batch, heads, count, width]).name;
    let circular = draft.rng.percent(50);
    let most = signed(if circular { room - 1 } else { room - count });
    let starts: Vec<i64> = (0..batch).map(|_| draft.rng.between(0, most)).collect();
    let starts = draft.ints(&starts);
    let mode = text("mode", if circular { "circular" } else { "linear" });
    draft.node("TensorScatter", &[&cache, &new, &starts], vec![mode], &[DType::F32])
}

/// Its result is as long as a run finds.
pub(super) fn compress(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 || draft.rng.percent(60) {
        return None;
    }
    let x = draft.any(DATA, 1..=3);
    let at = draft.rng.below(x.rank());
    let condition = draft.leaf(DType::Bool, &[x.dims[at]]).name;
    draft.node("Compress", &[&x.name, &condition], vec![int("axis", signed(at))], &[x.dtype])
}

/// Its results are as long as a run finds.
pub(super) fn unique(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 || draft.rng.percent(60) {
        return None;
    }
    let x = draft.any(&[DType::I64, DType::F32], 1..=3);
    if x.count() == 0 || !x.finite {
        return None;
    }
    let mut attributes = vec![int("sorted", draft.rng.between(0, 1))];
    if draft.rng.percent(50) {
        attributes.push(int("axis", signed(draft.rng.below(x.rank()))));
    }
    draft.node("Unique", &[&x.name], attributes, &[x.dtype, DType::I64, DType::I64, DType::I64])
}
