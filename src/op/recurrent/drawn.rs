//! Samples of recurrent layers.

use super::Cell;
use crate::attr::Attrs;
use crate::op::{Draw, Sample};
use crate::tensor::{DType, TensorType};

/// Functions of recurrent layers: those of most models, and the others with parameters. Jumps are left out, since a
/// rounding error beside one looks like a mistake.
const ACTIVATIONS: [&str; 14] = [
    "sigmoid 0 0",
    "tanh 0 0",
    "sigmoid 0 0",
    "tanh 0 0",
    "relu 0 0",
    "affine 0.5 -0.25",
    "leaky-relu 0.2 0",
    "leaky-relu -0.5 0",
    "scaled-tanh 0.75 1.5",
    "hard-sigmoid 0.3 0.4",
    "hard-sigmoid -0.2 0.5",
    "elu 0.5 0",
    "softsign 0 0",
    "softplus 0 0",
];

/// Draws the steps of a recurrent layer. Rules that write out one step, or that divide layers, ask for few steps, for one
/// direction or two, and for operands after the states.
pub(super) fn cell(draw: &mut dyn Draw, cell: Cell) -> Option<Sample> {
    let known = |operand: usize, axis: usize| draw.known(operand).and_then(|ty| ty.shape.get(axis).copied());
    let (steps, directions, batch) = (known(0, 0), known(0, 2), known(0, 1));
    let steps = steps.unwrap_or_else(|| if draw.percent(40) { 1 } else { draw.small() });
    let directions = directions.unwrap_or_else(|| 1 + draw.below(2));
    let (batch, hidden) = (batch.unwrap_or_else(|| draw.small()), draw.small());
    let (gates, usual, states): (usize, &[&str], usize) = match cell {
        Cell::Lstm => (4, &["sigmoid 0 0", "tanh 0 0", "tanh 0 0"], 2),
        Cell::Gru => (3, &["sigmoid 0 0", "tanh 0 0"], 1),
        Cell::Rnn => (1, &["tanh 0 0"], 1),
    };
    let dtype = draw.pick(&[DType::F32, DType::F32, DType::F64]);
    let mut operands = vec![
        TensorType::plain(dtype, vec![steps, batch, directions, gates * hidden]),
        TensorType::plain(dtype, vec![directions, gates * hidden, hidden]),
    ];
    operands.resize(2 + states, TensorType::plain(dtype, vec![directions, batch, hidden]));
    // Weights of the memory, or the bias inside of a reset gate.
    let extra = if gates == 4 { 3 * hidden } else { hidden };
    let takes = *draw.operands().end() > operands.len()
        && (*draw.operands().start() > operands.len() || draw.percent(40));
    if takes {
        operands.push(TensorType::plain(dtype, vec![directions, extra]));
        // The op takes two and reads the last one.
        if *draw.operands().end() > operands.len() && draw.percent(10) {
            operands.push(TensorType::plain(dtype, vec![directions, extra]));
        }
    }
    // Guards may ask for the usual functions of all gates.
    let all_usual = draw.usual();
    let mut function = |at: usize| match all_usual || draw.usual() {
        true => usual[at % usual.len()],
        false => draw.pick(&ACTIVATIONS),
    };
    let activations: Vec<&str> = (0..directions * usual.len()).map(&mut function).collect();
    let attrs = Attrs::new().text("activations", &activations.join(", "));
    let clip = draw.float("clip");
    let (reverse, rounded) = (draw.below(2), draw.percent(20));
    let attrs = attrs.float("clip", clip).size("reverse", reverse).size("rounded", usize::from(rounded));
    let attrs = match cell {
        Cell::Lstm => attrs.int("coupled", draw.flag("coupled")),
        Cell::Gru => attrs.int("linear", draw.flag("linear")),
        Cell::Rnn => attrs,
    };
    Some(Sample::new(attrs, operands))
}

/// Draws the steps of an LSTM with weights of 8 bits.
pub(super) fn integers(draw: &mut dyn Draw) -> Option<Sample> {
    let (steps, batch, hidden, directions) = (draw.small(), draw.small(), draw.small(), 1 + draw.below(2));
    let dtype = draw.pick(&[DType::U8, DType::I8]);
    let mut operands = vec![
        TensorType::plain(DType::F32, vec![steps, batch, directions, 4 * hidden]),
        TensorType::plain(dtype, vec![directions, hidden, 4 * hidden]),
    ];
    for _ in 0..2 {
        let columns = if draw.percent(50) { 1 } else { 4 * hidden };
        operands.push(TensorType::plain(DType::F32, vec![directions, 1, columns]));
    }
    operands.resize(6, TensorType::plain(DType::F32, vec![directions, batch, hidden]));
    let activations = vec!["sigmoid 0 0, tanh 0 0, tanh 0 0"; directions].join(", ");
    let attrs = Attrs::new().text("activations", &activations);
    let reverse = if directions == 1 { draw.below(2) } else { 0 };
    Some(Sample::new(attrs.size("reverse", reverse), operands))
}

/// Draws the inputs, weights, bias and states of a recurrent layer with the products of its inputs.
pub(super) fn layer(draw: &mut dyn Draw, cell: Cell) -> Option<Sample> {
    let known = |operand: usize, axis: usize| draw.known(operand).and_then(|ty| ty.shape.get(axis).copied());
    let (steps, batch, features) = (known(0, 0), known(0, 1), known(0, 2));
    let (steps, batch, features) = (
        steps.unwrap_or_else(|| draw.small()),
        batch.unwrap_or_else(|| draw.small()),
        features.unwrap_or_else(|| draw.small()),
    );
    let (gates, states) = if cell == Cell::Lstm { (4, 2) } else { (1, 1) };
    let (directions, hidden) = (1 + draw.below(2), draw.small());
    let dtype = draw.pick(&[DType::F32, DType::F32, DType::F64]);
    let mut operands = vec![
        TensorType::plain(dtype, vec![steps, batch, features]),
        TensorType::plain(dtype, vec![directions, features, gates, hidden]),
        TensorType::plain(dtype, vec![directions, hidden, gates, hidden]),
        TensorType::plain(dtype, vec![directions, gates, hidden]),
    ];
    operands.resize(4 + states, TensorType::plain(dtype, vec![directions, batch, hidden]));
    Some(Sample::new(Attrs::new().size("reverse", draw.below(2)), operands))
}
