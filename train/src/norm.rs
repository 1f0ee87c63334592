//! Batch norms in training: they take mean and variance from the batch, and keep running means of both.

use super::builder::Builder;
use super::error::TrainError;
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::op::Ops;
use std::collections::BTreeSet;

/// How much of a running mean is kept in a step, which is ONNX's default.
const MOMENTUM: f64 = 0.9;

/// A graph whose batch norms are in training, without outputs.
pub(crate) struct InTraining {
    /// The graph.
    pub graph: Graph,
    /// For each node of the graph before, its node here.
    pub ids: Vec<NodeId>,
    /// The next running mean or variance for each input that a batch norm reads, by the input's name.
    pub next: Vec<(String, NodeId)>,
}

/// Lets the batch norms with these inputs as mean and variance compute both from the batch: over all axes but the second,
/// the variance without Bessel's correction, as ONNX defines it.
///
/// # Errors
/// An op cannot be applied, which is a mistake here.
pub(crate) fn in_training(ops: &Ops, graph: &Graph, statistics: &[String]) -> Result<InTraining, TrainError> {
    let statistics: BTreeSet<NodeId> = statistics.iter().filter_map(|name| graph.find(name)).collect();
    let mut builder = Builder::new(ops, Graph::new());
    let mut ids: Vec<NodeId> = Vec::with_capacity(graph.len());
    let mut next = Vec::new();
    for (id, node) in graph.nodes() {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|input| ids[input.index()]).collect();
        let kept = node.op == "batch-norm" && node.inputs[3..].iter().all(|input| statistics.contains(input));
        ids.push(match graph.constant(id) {
            Some(value) => builder.constant(&node.name, value.clone()),
            None if node.op.is_leaf() => builder.input(&node.name, node.ty.clone()),
            None if kept => {
                let [normal, mean, variance] = norm(&mut builder, node, &inputs)?;
                for (input, value) in node.inputs[3..].iter().zip([mean, variance]) {
                    next.push((graph[*input].name.to_string(), value));
                }
                normal
            }
            None => builder.copy(node, inputs),
        });
    }
    Ok(InTraining { graph: builder.into_graph(), ids, next })
}

/// Adds one batch norm: its result, and the next running means of mean and variance.
fn norm(builder: &mut Builder<'_>, node: &Node, inputs: &[NodeId]) -> Result<[NodeId; 3], TrainError> {
    let &[x, scale, bias, mean, variance] = inputs else { unreachable!("a batch norm has five operands") };
    let rank = node.ty.shape.rank();
    let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
    let mut channels = vec![1; rank - 1];
    channels[0] = node.ty.shape[1];
    let name = &*node.name;
    let op = |builder: &mut Builder<'_>, part: &str, op: &str, attrs: Attrs, inputs: Vec<NodeId>| {
        builder.named(&format!("{name}.{part}"), op, attrs, inputs)
    };
    let axes = Attrs::new().sizes("axes", &axes);
    let shape = Attrs::new().sizes("shape", &channels);
    let plain = Attrs::new;
    let now = op(builder, "batch-mean", "reduce-mean", axes.clone(), vec![x])?;
    let centred = op(builder, "centred", "sub", plain(), vec![x, now])?;
    let squares = op(builder, "squares", "mul", plain(), vec![centred, centred])?;
    let spread = op(builder, "batch-variance", "reduce-mean", axes, vec![squares])?;
    let epsilon = builder.number(node.attrs.expect_float("epsilon"));
    let above = op(builder, "above-zero", "add", plain(), vec![spread, epsilon])?;
    let root = op(builder, "deviation", "sqrt", plain(), vec![above])?;
    let factor = op(builder, "factor", "reciprocal", plain(), vec![root])?;
    let normal = op(builder, "normal", "mul", plain(), vec![centred, factor])?;
    let scale = op(builder, "scale", "reshape", shape.clone(), vec![scale])?;
    let bias = op(builder, "bias", "reshape", shape, vec![bias])?;
    let scaled = op(builder, "scaled", "mul", plain(), vec![normal, scale])?;
    let result = builder.named(name, "add", plain(), vec![scaled, bias])?;
    let (old, new) = (builder.number(MOMENTUM), builder.number(1.0 - MOMENTUM));
    let running = |builder: &mut Builder<'_>, part: &str, before: NodeId, now: NodeId| {
        let flat = Attrs::new().sizes("shape", &[channels[0]]);
        let now = op(builder, part, "reshape", flat, vec![now])?;
        let kept = op(builder, part, "mul", plain(), vec![before, old])?;
        let added = op(builder, part, "mul", plain(), vec![now, new])?;
        op(builder, part, "add", plain(), vec![kept, added])
    };
    Ok([result, running(builder, "mean", mean, now)?, running(builder, "variance", variance, spread)?])
}
