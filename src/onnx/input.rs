//! Checks the inputs of a run against the graph, before anything runs.

use super::OnnxError;
use super::error::{InputProblem, closest};
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
            problems.push(InputProblem::Twice { name: name.to_owned() });
            continue;
        }
        let Some((_, want)) = expected.iter().find(|(known, _)| **known == *name) else {
            let close = closest(name, expected.iter().map(|(known, _)| &**known));
            problems.push(InputProblem::Unknown { name: name.to_owned(), close });
            continue;
        };
        let have = tensor.ty();
        let (name, ty, given) = (name.to_owned(), want.clone(), have.clone());
        if want.dtype != have.dtype {
            problems.push(InputProblem::Elements { name, dtype: want.dtype, ty: Some(ty), given });
        } else if want != have {
            problems.push(InputProblem::Type { name, ty, given });
        }
    }
    for (name, ty) in expected.iter().filter(|(name, _)| !given.contains(&**name)) {
        problems.push(InputProblem::Missing { name: name.to_string(), ty: Some(ty.clone()) });
    }
    if problems.is_empty() { Ok(()) } else { Err(OnnxError::Inputs { problems }) }
}
