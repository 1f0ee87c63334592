//! First values of parameters.

use super::step::Kept;
use ovolo::graph::{Graph, NodeId, text};
use ovolo::tensor::Tensor;

/// Ops whose second operand is a scale.
const NORMS: [&str; 3] = ["batch-norm", "layer-norm", "instance-norm"];

/// Returns the first value of a parameter of a graph, seeded by its name. Parameters of one dimension are 1 where they are
/// the scale of a norm or a factor, else 0. Others are normal with mean 0. Those of more than two dimensions are weights of a
/// convolution, with the variance 2 / (the elements of one output channel) (He et al., 2015). Those of two dimensions have
/// the variance 2 / (the sum of both sizes) (Glorot and Bengio, 2010), which is the same for either order of the axes.
pub(crate) fn value(graph: &Graph, kept: &Kept, seed: u64) -> Tensor {
    let shape = &kept.ty.shape;
    #[allow(clippy::cast_precision_loss)]
    let variance = match &shape[..] {
        [_] => {
            let scale = if scales(graph, kept) { 1.0 } else { 0.0 };
            return Tensor::from_f64(kept.ty.dtype, shape.clone(), &vec![scale; shape.count()]);
        }
        [rows, columns] => 2.0 / (rows + columns).max(1) as f64,
        [_, one @ ..] => 2.0 / one.iter().product::<usize>().max(1) as f64,
        [] => return Tensor::zeros(kept.ty.clone()),
    };
    let hash = kept.name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let normal = text::random(&kept.ty, hash).to_f64();
    let values: Vec<f64> = normal.into_iter().map(|value| value * variance.sqrt()).collect();
    Tensor::from_f64(kept.ty.dtype, shape.clone(), &values)
}

/// Returns whether the model multiplies by a parameter, element by element. What the optimiser does with it does not count.
fn scales(graph: &Graph, kept: &Kept) -> bool {
    let loss = graph.outputs().next().map_or(0, |(_, loss)| loss.index());
    let mut values: Vec<NodeId> = graph.find(&kept.name).into_iter().collect();
    for (id, node) in graph.nodes().take(loss) {
        let Some(place) = node.inputs.iter().position(|input| values.contains(input)) else { continue };
        match node.op.name {
            "mul" => return true,
            norm if NORMS.contains(&norm) => return place == 1,
            "reshape" | "expand" => values.push(id),
            _ => {}
        }
    }
    false
}
