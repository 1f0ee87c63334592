//! Takes a model that fails apart, as long as it fails in the same way.

use crate::bench::{Bench, Kind, Verdict};
use crate::model::{Leaf, Model, reads};
use crate::runtime::Runtime;
use ovolo::tensor::Tensor;

/// The most models that are tried.
const TRIES: usize = 300;

/// Returns a smaller model that fails in the same way; nothing in it can be taken away by one of the steps.
pub fn shrink(bench: &Bench, model: &Model, kind: Kind, mut runtime: Option<&mut Runtime>) -> Model {
    let mut best = model.clone();
    let mut tries = if kind == Kind::Endless { 20 } else { TRIES };
    let mut fails = |model: &Model| {
        let judged = bench.judge(model, runtime.as_deref_mut());
        matches!(judged, Verdict::Wrong(failure) if failure.kind == kind)
    };
    loop {
        let smaller = candidates(bench, &best).into_iter().find(|candidate| {
            tries = usize::saturating_sub(tries, 1);
            tries > 0 && fails(candidate)
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Returns models that are simpler by one step each, the boldest steps first.
fn candidates(bench: &Bench, model: &Model) -> Vec<Model> {
    let mut all = Vec::new();
    if model.outputs.len() > 1 {
        for output in &model.outputs {
            let mut one = Model { outputs: vec![output.clone()], ..model.clone() };
            one.sweep();
            all.push(one);
        }
    }
    let values = bench.values(model);
    for (at, node) in model.nodes.iter().enumerate().rev() {
        if node.output.iter().any(|name| model.outputs.iter().any(|(output, _)| output == name)) {
            continue;
        }
        let value =
            |name: &String| values.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let leaves: Option<Vec<Leaf>> = node
            .output
            .iter()
            .filter(|name| model.nodes.iter().any(|other| reads(other).contains(name)))
            .map(|name| Some(Leaf { name: name.clone(), tensor: value(name)?, constant: false }))
            .collect();
        let Some(leaves) = leaves else { continue };
        let mut one = model.clone();
        one.nodes.remove(at);
        one.leaves.extend(leaves);
        one.sweep();
        all.push(one);
    }
    for (at, leaf) in model.leaves.iter().enumerate() {
        let mut with = |leaf: Leaf| {
            let mut one = model.clone();
            one.leaves[at] = leaf;
            all.push(one);
        };
        let ty = leaf.tensor.ty();
        if !ty.dtype.is_float() {
            continue;
        }
        let old = leaf.tensor.to_f64();
        let simple =
            |new: &[f64]| Leaf { tensor: Tensor::from_f64(ty.dtype, ty.shape.clone(), new), ..leaf.clone() };
        let rounded: Vec<f64> = old.iter().map(|value| value.round()).collect();
        if old.iter().any(|value| *value != 1.0) {
            with(simple(&vec![1.0; old.len()]));
        }
        // A scale must not become zero.
        let scale = old.len() == 1 && rounded[0] == 0.0;
        if !scale && rounded.iter().zip(&old).any(|(new, old)| new != old && old.is_finite()) {
            with(simple(&rounded));
        }
    }
    all
}
