//! A graph of the model, or one inside an operator such as `Loop`, ready to be walked.

use super::OnnxError;
use super::initializer::Initializer;
use super::proto::{GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto};
use super::weight::Weights;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// A node of the model, with the opset that defines its operator.
#[derive(Debug)]
pub(super) struct Operation {
    /// The node. Its subgraphs are in `bodies` instead of its attributes.
    pub node: NodeProto,
    /// The version of the node's domain, if the model imports it.
    pub opset: Option<i64>,
    /// The subgraphs among its attributes, by the names of these.
    pub bodies: Vec<(String, Arc<Body>)>,
    /// The names of values of the enclosing graphs that it reads, through its subgraphs as well.
    pub reads: Vec<String>,
}

/// The nodes of a graph in an order in which they can run, with its inputs, outputs and constants.
#[derive(Debug)]
pub(super) struct Body {
    /// The inputs, initializers not included.
    pub inputs: Vec<ValueInfoProto>,
    /// The outputs.
    pub outputs: Vec<ValueInfoProto>,
    /// The nodes. Operands come before their users.
    pub operations: Vec<Operation>,
    /// The position of the last node that reads a name; the number of nodes for an output.
    last_use: FxHashMap<String, usize>,
    initializers: Vec<TensorProto>,
    sparse: Vec<SparseTensorProto>,
    constants: OnceLock<Vec<(Arc<str>, Tensor)>>,
}

impl Body {
    /// Makes a body of a graph and its nodes in an order in which they can run.
    pub fn new(graph: GraphProto, operations: Vec<Operation>, sequence: Vec<usize>) -> Self {
        let mut unordered: Vec<Option<Operation>> = operations.into_iter().map(Some).collect();
        let operations: Vec<Operation> = sequence.into_iter().filter_map(|at| unordered[at].take()).collect();
        let mut last_use = FxHashMap::default();
        for (at, operation) in operations.iter().enumerate() {
            for name in &operation.reads {
                last_use.insert(name.clone(), at);
            }
        }
        for output in &graph.output {
            last_use.insert(output.name.clone(), operations.len());
        }
        let initial = |name: &str| Initializer::all(&graph).any(|initializer| initializer.name() == name);
        let inputs = graph.input.iter().filter(|input| !initial(&input.name)).cloned().collect();
        Self {
            inputs,
            outputs: graph.output,
            operations,
            last_use,
            initializers: graph.initializer,
            sparse: graph.sparse_initializer,
            constants: OnceLock::new(),
        }
    }

    /// Returns whether the node at a position, a later one or an output reads a name.
    pub fn reads_from(&self, at: usize, name: &str) -> bool {
        self.last_use.get(name).is_some_and(|last| *last >= at)
    }

    /// Returns the constants of the graph, which are read when they are first needed.
    pub fn constants(&self, weights: &mut Weights) -> Result<&[(Arc<str>, Tensor)], OnnxError> {
        if let Some(constants) = self.constants.get() {
            return Ok(constants);
        }
        let mut constants = Vec::with_capacity(self.initializers.len());
        for initializer in Initializer::of(&self.initializers, &self.sparse) {
            constants.push((initializer.name().into(), initializer.read(weights)?));
        }
        if !weights.missing.is_empty() {
            return Err(OnnxError::MissingWeights { names: std::mem::take(&mut weights.missing) });
        }
        Ok(self.constants.get_or_init(|| constants))
    }
}
