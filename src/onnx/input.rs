//! Checks the inputs of a run against the graph, before anything runs.

use super::OnnxError;
use super::error::suggestion;
use crate::graph::Graph;
use crate::tensor::{Tensor, TensorType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks that each input of the graph is given exactly once, with its type and shape.
///
/// # Errors
/// [`OnnxError::Inputs`] with every problem: unknown names (with the closest known one), inputs that are given
/// twice or not at all, wrong element types, and wrong shapes.
pub fn check_inputs<N: AsRef<str>>(graph: &Graph, inputs: &[(N, Tensor)]) -> Result<(), OnnxError> {
    let expected: Vec<_> =
        graph.inputs().map(|(_, node)| (Arc::clone(&node.name), node.ty.clone())).collect();
    check_types(&expected, inputs)
}

/// Checks inputs as [`check_inputs`] does, given their names and types only.
///
/// # Errors
/// As [`check_inputs`].
pub fn check_types<N: AsRef<str>>(
    expected: &[(Arc<str>, TensorType)],
    inputs: &[(N, Tensor)],
) -> Result<(), OnnxError> {
    let mut problems = Vec::new();
    let mut given = BTreeSet::new();
    for (name, tensor) in inputs {
        let name = name.as_ref();
        if !given.insert(name) {
            problems.push(format!("input `{name}` is given twice; give it once"));
            continue;
        }
        let Some((_, want)) = expected.iter().find(|(known, _)| **known == *name) else {
            let hint = suggestion(name, expected.iter().map(|(known, _)| &**known));
            problems.push(format!("the model has no input `{name}`{hint}"));
            continue;
        };
        let have = tensor.ty();
        if want.dtype != have.dtype {
            problems.push(format!(
                "input `{name}` must be {want}, but is {have}; convert its elements to {}",
                want.dtype
            ));
        } else if want.shape != have.shape {
            let why = if want.shape.count() == have.shape.count() {
                "; it has as many elements, so reshape it".to_owned()
            } else if want.shape.rank() != have.shape.rank() {
                format!("; it needs {} dimensions, not {}", want.shape.rank(), have.shape.rank())
            } else {
                let axes = (0..want.shape.rank()).filter(|&axis| want.shape[axis] != have.shape[axis]);
                let list: Vec<String> = axes
                    .map(|axis| format!("dimension {axis} is {}, not {}", have.shape[axis], want.shape[axis]))
                    .collect();
                format!("; {}", list.join(", "))
            };
            problems.push(format!("input `{name}` must be {want}, but is {have}{why}"));
        } else if want != have {
            problems.push(format!("input `{name}` must be {want}, but is {have}"));
        }
    }
    for (name, ty) in expected.iter().filter(|(name, _)| !given.contains(&**name)) {
        problems.push(format!("input `{name}` ({ty}) is not given"));
    }
    if problems.is_empty() { Ok(()) } else { Err(OnnxError::Inputs { problems }) }
}
