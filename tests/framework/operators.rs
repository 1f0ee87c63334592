//! Stored models of single operators give the results that ONNX Runtime 1.31 gave, by the reference evaluation.
//!
//! A folder of `tests/operators/` holds `model.onnx`, and its inputs and outputs as ONNX writes tensors. Some operators
//! of ONNX Runtime run only on its other devices: `BiasAdd`, `BiasSoftmax`, `BiasSplitGelu`, `GroupNorm`,
//! `NhwcFusedConv`, `QLinearReduceMean`, `SkipGroupNorm`, packed keys of `MultiHeadAttention`, and the norms of
//! `GroupQueryAttention`. Their outputs, and those of `FlexAttention`, were computed by NumPy from what their
//! descriptions say; those of `gqa_normed` by ONNX Runtime from inputs that NumPy had normalised.

#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::Value;
use ovolo::graph::{CONST, INPUT};
use ovolo::onnx::{Interface, decode_value, load};
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folders() -> Vec<PathBuf> {
    let root = common::root().join("tests/operators");
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn read(folder: &Path, file: &str, ty: &ovolo::ValueType) -> Tensor {
    match decode_value(&std::fs::read(folder.join(file)).unwrap(), ty).unwrap() {
        Value::Tensor(tensor) => tensor,
        other => panic!("{file} is {}", other.kind()),
    }
}

/// Returns how a result differs from the wanted one.
fn difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if got.ty() != want.ty() {
        return Some(format!("is {}, not {}", got.ty(), want.ty()));
    }
    if got.to_texts() != want.to_texts() {
        return Some(format!("is {:?}, not {:?}", got.to_texts(), want.to_texts()));
    }
    let near =
        |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-4 * (1.0 + b.abs());
    let (got, want) = (got.to_f64(), want.to_f64());
    (want.iter().any(|value| !value.is_nan()) && !got.iter().zip(&want).all(near))
        .then(|| format!("is {got:?}, not {want:?}"))
}

fn wrong(folder: &Path) -> Option<String> {
    let path = folder.join("model.onnx");
    let interface = Interface::read(&path).unwrap();
    let inputs: BTreeMap<String, Tensor> = interface
        .inputs
        .iter()
        .enumerate()
        .map(|(at, (name, ty))| (name.clone(), read(folder, &format!("input_{at}.pb"), ty)))
        .collect();
    // Classifiers have a dimension `n` without a size, which is the number of rows.
    let rows = inputs.values().next().and_then(|input| input.ty().shape.first().copied()).unwrap_or(1);
    let options = ovolo::onnx::ImportOptions::default();
    let bound = options.clone().with_dim("n", rows);
    let operators = common::registry().onnx();
    let imported = match load(operators, &path, &options).or_else(|_| load(operators, &path, &bound)) {
        Ok(imported) => imported,
        Err(why) => return Some(why.to_string()),
    };
    let graph = imported.graph;
    let mut values: Vec<Tensor> = Vec::new();
    for (id, node) in graph.nodes() {
        values.push(if node.op == INPUT {
            inputs[&*node.name].clone()
        } else if node.op == CONST {
            graph.constant(id).unwrap().clone()
        } else {
            let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
            node.op.evaluate(&node.attrs, &operands, &node.ty)
        });
    }
    let wrong =
        graph.outputs().zip(&interface.outputs).enumerate().filter_map(|(at, ((name, id), (_, ty)))| {
            let want = read(folder, &format!("output_{at}.pb"), ty);
            difference(&values[id.index()], &want).map(|why| format!("`{name}` {why}"))
        });
    let wrong: Vec<String> = wrong.collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

#[test]
fn stored_operators_give_what_onnx_runtime_gave() {
    let folders = folders();
    assert!(!folders.is_empty());
    let wrong =
        folders.iter().filter_map(|folder| wrong(folder).map(|why| format!("{}: {why}", folder.display())));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
