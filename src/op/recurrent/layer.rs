//! Recurrent layers with the products of their inputs, as libraries compute them.
//!
//! `lstm-layer` and `rnn-layer` have the usual functions and no settings but the direction. Their weights are those of
//! libraries: a matrix for each gate, whose rows belong to features and whose columns belong to units.

use super::{Cell, Layer, compute, drawn};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::op::{Arity, AttrDef, Flags, OpDef, OpError, plain};
use crate::tensor::{DType, Tensor, TensorType};

/// The gates of `lstm` in the order of `lstm-layer`: input, forget, cell and output.
const ORDER: [usize; 4] = [0, 2, 3, 1];

/// The sizes of a layer, read from its operands: inputs `[S,B,I]`, weights `[D,I,G,H]` and `[D,H,G,H]`, a bias
/// `[D,G,H]`, and states `[D,B,H]`.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The cell.
    pub cell: Cell,
    /// The number of steps.
    pub steps: usize,
    /// The number of sequences.
    pub batch: usize,
    /// The number of features of the input.
    pub features: usize,
    /// The number of directions.
    pub directions: usize,
    /// The size of the state.
    pub hidden: usize,
    /// Whether the first direction goes from the last step to the first. A second one always does.
    pub reverse: bool,
}

impl Sizes {
    /// Reads the sizes of a layer of `lstm-layer` or `rnn-layer`.
    ///
    /// # Errors
    /// Which operand is wrong.
    pub fn new(cell: Cell, attrs: &Attrs, types: &[&TensorType]) -> Result<Self, OpError> {
        let (x, r) = (types[0], types[2]);
        if x.shape.rank() != 3 || r.shape.rank() != 4 {
            return Err(OpError::operands(format!(
                "the inputs are {x} and the weights of the state are {r}"
            )));
        }
        let sizes = Self {
            cell,
            steps: x.shape[0],
            batch: x.shape[1],
            features: x.shape[2],
            directions: r.shape[0],
            hidden: r.shape[3],
            reverse: attrs.expect_int("reverse") == 1,
        };
        let Self { batch, features, directions, hidden, .. } = sizes;
        if !(1..=2).contains(&directions) {
            return Err(OpError::operand(2, r, ", and its first dimension must be 1 or 2"));
        }
        let gates = cell.gates();
        let state = vec![directions, batch, hidden];
        let mut shapes = vec![
            x.shape.to_vec(),
            vec![directions, features, gates, hidden],
            vec![directions, hidden, gates, hidden],
            vec![directions, gates, hidden],
        ];
        shapes.resize(4 + cell.finals(), state);
        for (operand, (ty, shape)) in types.iter().zip(&shapes).enumerate() {
            if ty.shape[..] != shape[..] || ty.dtype != x.dtype || !ty.dtype.is_float() {
                let why = format!(", and must be {}{shape:?}", x.dtype.name());
                return Err(OpError::operand(operand, ty, why));
            }
        }
        Ok(sizes)
    }

    /// Returns the shape of the result, which is that of `lstm` and `rnn`.
    pub fn shape(&self) -> [usize; 4] {
        [self.steps + self.cell.finals(), self.directions, self.batch, self.hidden]
    }
}

impl Cell {
    /// Returns the cell of a layer op by the op's own name; `None` for other ops.
    pub fn of_layer(name: &str) -> Option<Self> {
        match name {
            "lstm-layer" => Some(Self::Lstm),
            "rnn-layer" => Some(Self::Rnn),
            _ => None,
        }
    }
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        definition(
            "lstm-layer",
            "the result of `lstm` with sigmoid and tanh for inputs x[S,B,I] themselves: weights w[D,I,4,H] of the inputs and r[D,H,4,H] of the state, with the gates input, forget, cell and output, a bias[D,4,H], a state and a memory[D,B,H]",
            6,
            |attrs, types| infer(Cell::Lstm, attrs, types),
            |attrs, operands, ty| eval(Cell::Lstm, attrs, operands, ty),
            |draw| drawn::layer(draw, Cell::Lstm),
        ),
        definition(
            "rnn-layer",
            "the result of `rnn` with tanh for inputs x[S,B,I] themselves: weights w[D,I,1,H] of the inputs and r[D,H,1,H] of the state, a bias[D,1,H], and a state[D,B,H]",
            5,
            |attrs, types| infer(Cell::Rnn, attrs, types),
            |attrs, operands, ty| eval(Cell::Rnn, attrs, operands, ty),
            |draw| drawn::layer(draw, Cell::Rnn),
        ),
    ]
}

fn definition(
    name: &'static str,
    doc: &'static str,
    operands: usize,
    infer: crate::op::Infer,
    eval: crate::op::Eval,
    sample: crate::op::SampleOf,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(operands),
        attrs: vec![AttrDef::new(
            "reverse",
            AttrKind::Int,
            Some(Attr::Int(0)),
            "1: the first direction goes from the last step to the first",
        )],
        flags: Flags::default(),
        infer,
        eval,
        #[allow(clippy::cast_precision_loss)]
        flops: |_, types, _| {
            let (rows, weights) = (&types[0].shape, &types[2].shape);
            let columns = [0, 2, 3].iter().map(|axis| weights.get(*axis).copied().unwrap_or(1));
            let sums = columns.product::<usize>() * rows.iter().take(2).product::<usize>();
            let depth = rows.last().copied().unwrap_or(1) + weights.last().copied().unwrap_or(1);
            sums as f64 * (2.0 * depth as f64 + 8.0)
        },
        sample: Some(sample),
        lowered: None,
    }
}

fn infer(cell: Cell, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let sizes = Sizes::new(cell, attrs, types)?;
    Ok(TensorType::plain(types[0].dtype, sizes.shape()))
}

/// Computes the products of the inputs, and then the layer of `lstm` or `rnn`.
fn eval(cell: Cell, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let Ok(sizes) = Sizes::new(cell, attrs, &types) else { return Tensor::zeros(ty.clone()) };
    let Sizes { steps, batch, features, directions, hidden, .. } = sizes;
    let [x, w, r, bias] = [0, 1, 2, 3].map(|at| operands[at].to_f64());
    let gates = cell.gates();
    let source = |gate: usize| if cell == Cell::Lstm { position(gate) } else { gate };
    let mut products = vec![0.0; steps * batch * directions * gates * hidden];
    let mut rows = vec![0.0; directions * gates * hidden * hidden];
    for direction in 0..directions {
        for (gate, unit) in (0..gates).flat_map(|gate| (0..hidden).map(move |unit| (gate, unit))) {
            let column =
                |depth: usize, at: usize| ((direction * depth + at) * gates + source(gate)) * hidden + unit;
            for (row, x) in x.chunks_exact(features.max(1)).take(steps * batch).enumerate() {
                let sum: f64 = x.iter().enumerate().map(|(at, x)| x * w[column(features, at)]).sum();
                products[((row * directions + direction) * gates + gate) * hidden + unit] = sum;
            }
            for at in 0..hidden {
                rows[((direction * gates + gate) * hidden + unit) * hidden + at] = r[column(hidden, at)];
            }
            for row in 0..steps * batch {
                products[((row * directions + direction) * gates + gate) * hidden + unit] +=
                    bias[(direction * gates + source(gate)) * hidden + unit];
            }
        }
    }
    let products = Tensor::from_f64(DType::F64, [steps, batch, directions, gates * hidden], &products);
    let rows = Tensor::from_f64(DType::F64, [directions, gates * hidden, hidden], &rows);
    let mut own = vec![&products, &rows];
    own.extend(&operands[4..]);
    let types: Vec<TensorType> =
        own.iter().map(|one| TensorType { dtype: ty.dtype, ..one.ty().clone() }).collect();
    let functions = if cell == Cell::Lstm { "sigmoid,tanh,tanh" } else { "tanh" };
    let attrs = Attrs::new()
        .with("activations", Attr::Str(vec![functions; directions].join(",").into()))
        .float("clip", 0.0)
        .int("reverse", i64::from(sizes.reverse))
        .int("rounded", 0)
        .int("coupled", 0);
    match Layer::new(cell, &attrs, &types.iter().collect::<Vec<_>>()) {
        Ok(layer) => compute(&layer, &own, ty),
        Err(_) => Tensor::zeros(ty.clone()),
    }
}

/// Returns where `lstm-layer` has a gate of `lstm`.
fn position(gate: usize) -> usize {
    ORDER.iter().position(|own| *own == gate).unwrap_or(gate)
}
