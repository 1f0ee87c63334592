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
