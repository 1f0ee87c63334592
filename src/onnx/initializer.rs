//! The constants of a graph, by name: each is given as a whole, or by its elements that are not zero.

use super::proto::{GraphProto, SparseTensorProto, TensorProto};
use super::weight::Weights;
use super::{OnnxError, sparse};
use crate::tensor::Tensor;

/// How a model gives a constant.
#[derive(Clone, Copy)]
pub(super) enum Initializer<'a> {
    Dense(&'a TensorProto),
    Sparse(&'a SparseTensorProto),
}

impl<'a> Initializer<'a> {
    /// Returns the constants of a graph, the sparse ones last.
    pub fn all(graph: &'a GraphProto) -> impl Iterator<Item = Self> {
        Self::of(&graph.initializer, &graph.sparse_initializer)
    }

    /// Returns these constants, the sparse ones last.
    pub fn of(dense: &'a [TensorProto], sparse: &'a [SparseTensorProto]) -> impl Iterator<Item = Self> {
        dense.iter().map(Self::Dense).chain(sparse.iter().map(Self::Sparse))
    }

    /// Returns the name: a sparse constant has that of its values.
    pub fn name(self) -> &'a str {
        match self {
            Self::Dense(tensor) => &tensor.name,
            Self::Sparse(tensor) => tensor.values.as_ref().map_or("", |values| &values.name),
        }
    }

    /// Returns the tensors that the model has for it.
    pub fn parts(self) -> impl Iterator<Item = &'a TensorProto> {
        let parts = match self {
            Self::Dense(tensor) => [Some(tensor), None],
            Self::Sparse(tensor) => [tensor.values.as_ref(), tensor.indices.as_ref()],
        };
        parts.into_iter().flatten()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// What cannot be read, and why.
    pub fn read(self, weights: &mut Weights) -> Result<Tensor, OnnxError> {
        let what = format!("initializer `{}`", self.name());
        match self {
            Self::Dense(tensor) => weights.read(tensor, &what),
            Self::Sparse(tensor) => sparse::read(weights, tensor, &what),
        }
    }
}
