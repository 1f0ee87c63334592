//! Recurrent layers over a whole sequence.
//!
//! The products of the inputs with their weights are computed before, for all steps at once. The op has the rest: the
//! products of the state with its weights, and the cell. Its result is `[S + n, D, B, H]`: the state after each of the
//! S steps, and then the final state (`n` is 1, or 2 for a cell with a memory, which comes last). So results of the
//! layer are slices along the first axis.

mod drawn;
pub mod layer;

use super::independence::none;
use super::{Arity, AttrDef, Elements, Flags, OpDef, OpError, plain};
use crate::attr::{self, Attr, AttrKind, Attrs, Float};
use crate::scalar;
use crate::tensor::{DType, Tensor, TensorType};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::sync::LazyLock;

/// The cells of recurrent layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The gates are input, output, forget and cell.
    Lstm,
    /// The gates are update, reset and hidden.
    Gru,
    /// There is one gate.
    Rnn,
}

impl Cell {
    /// Returns the cell that an op computes, by the op's own name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "lstm" => Some(Self::Lstm),
            "gru" => Some(Self::Gru),
            "rnn" => Some(Self::Rnn),
            _ => None,
        }
    }

    /// Returns the number of gates.
    pub const fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }

    /// Returns the number of activations of one direction.
    pub const fn activations(self) -> usize {
        match self {
            Self::Lstm => 3,
            Self::Gru => 2,
            Self::Rnn => 1,
        }
    }

    /// Returns the number of final states: the state, and the memory if there is one.
    pub const fn finals(self) -> usize {
        match self {
            Self::Lstm => 2,
            Self::Gru | Self::Rnn => 1,
        }
    }
}

/// An activation of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// Which function.
    pub kind: Kind,
    /// Its first parameter.
    pub alpha: f64,
    /// Its second parameter.
    pub beta: f64,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $alpha:literal $beta:literal,)*) => {
        /// The functions of activations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $variant,)* }

        impl Activation {
            /// Returns the function of this name with its usual parameters. Case and hyphens do not matter.
            pub fn named(name: &str) -> Option<Self> {
                let name = name.to_ascii_lowercase().replace('-', "");
                match name.as_str() {
                    $(name if name == $name.replace('-', "") => {
                        Some(Self { kind: Kind::$variant, alpha: $alpha, beta: $beta })
                    })*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for Activation {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let name = match self.kind { $(Kind::$variant => $name,)* };
                write!(f, "{name} {} {}", self.alpha, self.beta)
            }
        }
    };
}

kinds! {
    /// `1 / (1 + exp(-x))`.
    Sigmoid "sigmoid" 0.0 0.0,
    /// The hyperbolic tangent.
    Tanh "tanh" 0.0 0.0,
    /// `max(x, 0)`.
    Relu "relu" 0.0 0.0,
    /// `alpha x + beta`.
    Affine "affine" 1.0 0.0,
    /// `x`, or `alpha x` below zero.
    LeakyRelu "leaky-relu" 0.01 0.0,
    /// `x`, or 0 below `alpha`.
    ThresholdedRelu "thresholded-relu" 1.0 0.0,
    /// `alpha tanh(beta x)`.
    ScaledTanh "scaled-tanh" 1.0 1.0,
    /// `alpha x + beta` between 0 and 1.
    HardSigmoid "hard-sigmoid" 0.2 0.5,
    /// `x`, or `alpha (exp(x) - 1)` below zero.
    Elu "elu" 1.0 0.0,
    /// `x / (1 + |x|)`.
    Softsign "softsign" 0.0 0.0,
    /// `log(1 + exp(x))`.
    Softplus "softplus" 0.0 0.0,
}

impl Activation {
    /// Returns the value of the function.
    pub fn apply(self, x: f64) -> f64 {
        let value = |x, (name, parameters): (&str, Parameters)| function(name).evaluate(&parameters, &[x]);
        self.functions().into_iter().fold(x, value)
    }

    /// Returns the steps of a chain that computes the function of operands whose magnitude is at most `clip`, where
    /// that is above zero.
    pub fn steps(self, clip: f64) -> Vec<attr::Step> {
        let bound = (clip > 0.0).then(|| ("clip", smallvec![-clip, clip]));
        let step = |(op, parameters): (&'static str, Parameters)| attr::Step {
            op: op.into(),
            parameters: parameters.into_iter().map(Float).collect(),
        };
        bound.into_iter().chain(self.functions()).map(step).collect()
    }

    /// Returns the functions of `ops/scalar.ron` that make up this one, the first one first, each with its parameters.
    fn functions(self) -> SmallVec<[(&'static str, Parameters); 3]> {
        let Self { kind, alpha, beta } = self;
        match kind {
            Kind::Sigmoid => smallvec![("sigmoid", smallvec![])],
            Kind::Tanh => smallvec![("tanh", smallvec![])],
            Kind::Relu => smallvec![("relu", smallvec![])],
            Kind::Affine => smallvec![("scale", smallvec![alpha]), ("shift", smallvec![beta])],
            Kind::LeakyRelu => smallvec![("leaky-relu", smallvec![alpha])],
            Kind::ThresholdedRelu => smallvec![("thresholded-relu", smallvec![alpha])],
            Kind::ScaledTanh => {
                smallvec![("scale", smallvec![beta]), ("tanh", smallvec![]), ("scale", smallvec![alpha])]
            }
            Kind::HardSigmoid => smallvec![("hard-sigmoid", smallvec![alpha, beta])],
            Kind::Elu => smallvec![("elu", smallvec![alpha])],
            Kind::Softsign => smallvec![("softsign", smallvec![])],
            Kind::Softplus => smallvec![("softplus", smallvec![])],
        }
    }

    /// Reads a list as the attribute `activations` has it; `None` if it is not one.
    pub fn list(text: &str) -> Option<Vec<Self>> {
        let one = |item: &str| {
            let mut words = item.split_whitespace();
            let usual = Self::named(words.next()?)?;
            let mut parameter = |usual: f64| words.next().map_or(Some(usual), |word| word.parse().ok());
            let (alpha, beta) = (parameter(usual.alpha)?, parameter(usual.beta)?);
            Some(Self { alpha, beta, ..usual })
        };
        text.split(',').map(one).collect()
    }
}

/// The parameters of a function.
type Parameters = SmallVec<[f64; 2]>;

/// Returns one of ovolo's own functions of one number.
///
/// # Panics
/// If there is no such function.
fn function(name: &str) -> scalar::Function {
    static FUNCTIONS: LazyLock<FxHashMap<&str, scalar::Function>> =
        LazyLock::new(|| scalar::built_in().iter().map(|function| (function.name(), *function)).collect());
    FUNCTIONS[name]
}

/// The sizes and settings of a layer, read from the attributes and operands of its op.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The cell.
    pub cell: Cell,
    /// The number of steps.
    pub steps: usize,
    /// The number of sequences.
    pub batch: usize,
    /// The number of directions.
    pub directions: usize,
    /// The size of the state.
    pub hidden: usize,
    /// Whether the first direction goes from the last step to the first.
    pub reverse: bool,
    /// The largest magnitude that activations are given.
    pub clip: Option<f64>,
    /// Whether a GRU applies the reset gate after its product.
    pub linear: bool,
    /// Whether the forget gate is what the input gate leaves.
    pub coupled: bool,
    /// Whether the state is rounded to 256 levels before each product.
    pub rounded: bool,
    /// The activations, those of each direction together.
    pub activations: Vec<Activation>,
    /// The operand that has weights of the memory for the gates, or the bias inside of the reset gate.
    pub extra: Option<usize>,
    /// The operand that has the lengths of the sequences.
    pub lengths: Option<usize>,
}

impl Layer {
    /// Reads the layer of an op.
    ///
    /// # Errors
    /// Which operand or attribute is wrong.
    pub fn new(cell: Cell, attrs: &Attrs, types: &[&TensorType]) -> Result<Self, OpError> {
        plain(types)?;
        let least = 2 + cell.finals();
        let (x, r) = (types[0], types[1]);
        if x.shape.rank() != 4 || r.shape.rank() != 3 {
            return Err(OpError::operands(format!("the products are {x} and the weights are {r}")));
        }
        let [steps, batch, directions, width] = [0, 1, 2, 3].map(|axis| x.shape[axis]);
        let hidden = r.shape[2];
        let mut layer = Self {
            cell,
            steps,
            batch,
            directions,
            hidden,
            reverse: attrs.expect_int("reverse") == 1,
            clip: Some(attrs.expect_float("clip")).filter(|clip| *clip > 0.0),
            linear: cell == Cell::Gru && attrs.expect_int("linear") == 1,
            coupled: cell == Cell::Lstm && attrs.expect_int("coupled") == 1,
            rounded: attrs.expect_int("rounded") == 1,
            activations: Activation::list(attrs.expect_str("activations")).unwrap_or_default(),
            extra: None,
            lengths: None,
        };
        let wanted = directions * cell.activations();
        if layer.activations.len() != wanted {
            return Err(OpError::attribute("activations", format!("does not name {wanted} functions")));
        }
        let check = |operand: usize, dims: &[usize]| {
            let ty = types[operand];
            let fits = ty.shape[..] == *dims && ty.dtype == x.dtype && ty.dtype.is_float();
            let why = || format!(", and must be {}[{dims:?}]", x.dtype.name());
            if fits { Ok(()) } else { Err(OpError::operand(operand, ty, why())) }
        };
        check(0, &[steps, batch, directions, cell.gates() * hidden])?;
        check(1, &[directions, width, hidden])?;
        for operand in 2..least {
            check(operand, &[directions, batch, hidden])?;
        }
        for (operand, ty) in types.iter().enumerate().skip(least) {
            if ty.dtype == DType::I32 && ty.shape[..] == [batch] {
                layer.lengths = Some(operand);
            } else {
                check(operand, &[directions, if cell == Cell::Lstm { 3 * hidden } else { hidden }])?;
                layer.extra = Some(operand);
            }
        }
        Ok(layer)
    }

    /// Reads the layer of `lstm-integer`, whose weights are 8-bit integers `[D,H,4H]` with zero points and scales
    /// `[D,1,4H]` or `[D,1,1]`. Operands after these are those of `lstm` after its weights.
    ///
    /// # Errors
    /// Which operand or attribute is wrong.
    pub fn of_integers(attrs: &Attrs, types: &[&TensorType]) -> Result<Self, OpError> {
        let (x, w) = (types[0], types[1]);
        if w.shape.rank() != 3 || !matches!(w.dtype, DType::I8 | DType::U8) {
            return Err(OpError::operand(1, w, ", not 8-bit integers of three dimensions"));
        }
        let [directions, hidden, width] = [0, 1, 2].map(|axis| w.shape[axis]);
        for operand in [2, 3] {
            let shape = &types[operand].shape[..];
            let fits = shape == [directions, 1, width] || shape == [directions, 1, 1];
            if !fits || types[operand].dtype != DType::F32 || !types[operand].layout.is_plain() {
                let why = format!(", and must be f32[{directions},1,{width}] or f32[{directions},1,1]");
                return Err(OpError::operand(operand, types[operand], why));
            }
        }
        let weights = TensorType::plain(x.dtype, [directions, width, hidden]);
        let mut own = vec![x, &weights];
        own.extend(&types[4..]);
        let attrs = attrs.clone().int("rounded", 1);
        Self::new(Cell::Lstm, &attrs, &own)
    }

    /// Returns the activations of a direction.
    pub fn activations(&self, direction: usize) -> &[Activation] {
        let count = self.cell.activations();
        &self.activations[direction * count..][..count]
    }

    /// Returns whether a direction goes from the last step to the first.
    pub fn is_reversed(&self, direction: usize) -> bool {
        self.reverse || direction == 1
    }

    /// Returns the shape of the result.
    pub fn shape(&self) -> [usize; 4] {
        [self.steps + self.cell.finals(), self.directions, self.batch, self.hidden]
    }

    fn clipped(&self, value: f64) -> f64 {
        self.clip.map_or(value, |clip| value.clamp(-clip, clip))
    }
}

/// The sequences of a batch are kept, unless the state of all of them is rounded by one scale. The result is
/// `[S + n, D, B, H]`.
fn sequences(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    if attrs.expect_int("rounded") != 0 {
        return types.iter().map(|ty| none(ty)).collect();
    }
    let own = |(operand, ty): (usize, &&TensorType)| {
        // Products of the inputs are [S, B, D, H], states [D, B, H] and lengths [B]; weights have no sequences.
        let batch = match (operand, ty.shape.rank()) {
            (1, _) | (_, 2) => None,
            (_, 1) => Some(0),
            _ => Some(1),
        };
        (0..ty.shape.rank()).map(|axis| (Some(axis) == batch).then_some(2)).collect()
    };
    types.iter().enumerate().map(own).collect()
}

/// Sequences are no longer than there are steps. No other operand is of the type of the lengths.
fn lengths(_: &Attrs, types: &[&TensorType]) -> Option<(usize, Elements)> {
    let is_lengths = |ty: &&TensorType| ty.dtype == DType::I32 && ty.shape.rank() == 1;
    let operand = types.iter().position(is_lengths)?;
    Some((operand, Elements::at_most("length of the sequence", *types[0].shape.first()?)))
}

fn definition(
    name: &'static str,
    doc: &'static str,
    infer: super::Infer,
    eval: super::Eval,
    sample: super::SampleOf,
    operands: usize,
    own: &[(&'static str, &'static str)],
) -> OpDef {
    let flag = |name, doc| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(0)), doc);
    let mut attrs = vec![
        AttrDef::new("activations", AttrKind::Str, None, "the functions of the gates, separated by commas"),
        AttrDef::new(
            "clip",
            AttrKind::Float,
            Some(Attr::Float(Float(0.0))),
            "the largest magnitude of what functions are given; 0 for no limit",
        ),
        flag("reverse", "1: the first direction goes from the last step to the first"),
        flag("rounded", "1: the state is rounded to 256 levels before each product"),
    ];
    attrs.extend(own.iter().map(|(name, doc)| flag(name, doc)));
    OpDef {
        name,
        doc,
        arity: Arity::Between(operands, operands + 2),
        attrs,
        flags: Flags { demands: Some(lengths), ..Flags::independent(sequences) },
        infer,
        eval,
        #[allow(clippy::cast_precision_loss)]
        flops: |_, types, _| {
            let hidden = types[1].shape.last().copied().unwrap_or(1);
            types[0].shape.count() as f64 * (2.0 * hidden as f64 + 8.0)
        },
        sample: Some(sample),
        lowered: None,
    }
}

fn infer(cell: Cell, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let layer = Layer::new(cell, attrs, types)?;
    Ok(TensorType::plain(types[0].dtype, layer.shape()))
}

pub(super) fn ops() -> Vec<OpDef> {
    let mut ops = vec![
        definition(
            "lstm",
            "the states of an LSTM, for products x[S,B,D,4H] of its inputs, weights[D,4H,H], a state and a memory[D,B,H], and possibly weights[D,3H] of the memory and lengths i32[B]",
            |attrs, types| infer(Cell::Lstm, attrs, types),
            |attrs, operands, ty| eval(Cell::Lstm, attrs, operands, ty),
            |draw| drawn::cell(draw, Cell::Lstm),
            4,
            &[("coupled", "1: the forget gate is what the input gate leaves")],
        ),
        definition(
            "gru",
            "the states of a GRU, for products x[S,B,D,3H] of its inputs, weights[D,3H,H], a state[D,B,H], and possibly a bias[D,H] inside of the reset gate and lengths i32[B]",
            |attrs, types| infer(Cell::Gru, attrs, types),
            |attrs, operands, ty| eval(Cell::Gru, attrs, operands, ty),
            |draw| drawn::cell(draw, Cell::Gru),
            3,
            &[("linear", "1: the reset gate is applied after the product")],
        ),
        definition(
            "rnn",
            "the states of a simple recurrent layer, for products x[S,B,D,H] of its inputs, weights[D,H,H], a state[D,B,H], and possibly lengths i32[B]",
            |attrs, types| infer(Cell::Rnn, attrs, types),
            |attrs, operands, ty| eval(Cell::Rnn, attrs, operands, ty),
            |draw| drawn::cell(draw, Cell::Rnn),
            3,
            &[],
        ),
        integers(),
        OpDef {
            name: "round-to-levels",
            doc: "each element, rounded to the nearest of 256 levels between the least and the greatest one and zero",
            arity: Arity::Exactly(1),
            attrs: Vec::new(),
            flags: Flags::default(),
            infer: |_, types| {
                plain(types)?;
                if types[0].dtype.is_float() {
                    return Ok(types[0].clone());
                }
                Err(OpError::operand(0, types[0], ", not floats"))
            },
            eval: |_, operands, ty| {
                let mut values = operands[0].to_f64();
                round_to_levels(&mut values);
                Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
            },
            #[allow(clippy::cast_precision_loss)]
            flops: |_, types, _| 4.0 * types[0].shape.count() as f64,
            sample: Some(|draw| draw.one()),
            lowered: None,
        },
    ];
    ops.extend(layer::ops());
    ops
}

fn integers() -> OpDef {
    let mut op = definition(
        "lstm-integer",
        "`lstm` with a rounded state and the weights (w - z) s, for 8-bit integers w[D,H,4H], zero points z and scales s of f32[D,1,4H] or f32[D,1,1]; its operands are x, w, z, s, and then those of `lstm` after its weights",
        |attrs, types| {
            let layer = Layer::of_integers(attrs, types)?;
            Ok(TensorType::plain(types[0].dtype, layer.shape()))
        },
        eval_integers,
        drawn::integers,
        6,
        &[("coupled", "1: the forget gate is what the input gate leaves")],
    );
    op.attrs.retain(|attr| attr.name != "rounded");
    // One scale rounds the states of all sequences.
    op.flags = Flags { demands: Some(lengths), ..Flags::default() };
    op.flops = |_, types, _| {
        let hidden = types[1].shape.get(1).copied().unwrap_or(1);
        #[allow(clippy::cast_precision_loss)]
        let flops = types[0].shape.count() as f64 * (2.0 * hidden as f64 + 8.0);
        flops
    };
    op
}

fn eval_integers(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [directions, hidden, width] = [0, 1, 2].map(|axis| operands[1].ty().shape[axis]);
    let [weights, zeros, scales] = [1, 2, 3].map(|at| operands[at].to_f64());
    let mut rows = vec![0.0; weights.len()];
    for direction in 0..directions {
        for (at, column) in (0..hidden).flat_map(|at| (0..width).map(move |column| (at, column))) {
            let own = |list: &[f64]| {
                let each = list.len() / directions;
                list[direction * each + if each == 1 { 0 } else { column }]
            };
            let weight = weights[(direction * hidden + at) * width + column];
            rows[(direction * width + column) * hidden + at] = (weight - own(&zeros)) * own(&scales);
        }
    }
    let rows = Tensor::from_f64(DType::F64, [directions, width, hidden], &rows);
    let mut own = vec![operands[0], &rows];
    own.extend(&operands[4..]);
    let types: Vec<TensorType> =
        own.iter().map(|one| TensorType { dtype: ty.dtype, ..one.ty().clone() }).collect();
    let types: Vec<&TensorType> = types.iter().collect();
    let attrs = attrs.clone().int("rounded", 1);
    let Ok(layer) = Layer::new(Cell::Lstm, &attrs, &types) else { return Tensor::zeros(ty.clone()) };
    compute(&layer, &own, ty)
}

/// Rounds values to 256 levels from their least to their greatest, among which is 0.
pub(crate) fn round_to_levels(values: &mut [f64]) {
    #[allow(clippy::cast_possible_truncation)]
    let single = |value: f64| f64::from(value as f32);
    let least = values.iter().copied().fold(0.0, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let scale = if most > least { single(single(most - least) / 255.0) } else { 1.0 };
    let zero = single(-least / scale).clamp(0.0, 255.0).round_ties_even();
    for value in values {
        let level = (single(*value / scale).round_ties_even() + zero).clamp(0.0, 255.0);
        *value = (level - zero) * scale;
    }
}

fn eval(cell: Cell, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let Ok(layer) = Layer::new(cell, attrs, &types) else { return Tensor::zeros(ty.clone()) };
    compute(&layer, operands, ty)
}

/// Computes all directions.
fn compute(layer: &Layer, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let values: Vec<Vec<f64>> = operands.iter().map(|operand| operand.to_f64()).collect();
    let mut result = vec![0.0; ty.shape.count()];
    for direction in 0..layer.directions {
        walk(layer, &values, direction, &mut result);
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Computes one direction.
fn walk(layer: &Layer, values: &[Vec<f64>], direction: usize, result: &mut [f64]) {
    let Layer { cell, steps, batch, directions, hidden, .. } = *layer;
    let plane = batch * hidden;
    let mut state = values[2][direction * plane..][..plane].to_vec();
    let mut memory = match cell {
        Cell::Lstm => values[3][direction * plane..][..plane].to_vec(),
        _ => Vec::new(),
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let length =
        |row: usize| layer.lengths.map_or(steps, |at| (values[at][row].max(0.0) as usize).min(steps));
    for step in 0..steps {
        let mut seen = state.clone();
        if layer.rounded {
            round_to_levels(&mut seen);
        }
        for row in (0..batch).filter(|row| step < length(*row)) {
            let time = if layer.is_reversed(direction) { length(row) - 1 - step } else { step };
            let x = (time * batch + row) * directions + direction;
            let gates = cell.gates() * hidden;
            let one = Step {
                layer,
                direction,
                x: &values[0][x * gates..][..gates],
                weights: &values[1][direction * gates * hidden..][..gates * hidden],
                extra: layer.extra.map(|at| {
                    let count = values[at].len() / directions;
                    &values[at][direction * count..][..count]
                }),
            };
            let (before, seen) = (state[row * hidden..][..hidden].to_vec(), &seen[row * hidden..][..hidden]);
            let next = match cell {
                Cell::Lstm => one.lstm(seen, &mut memory[row * hidden..][..hidden]),
                Cell::Gru => one.gru(seen, &before),
                Cell::Rnn => {
                    let gate = one.gate(0, seen);
                    gate.iter().map(|v| one.activate(0, *v)).collect()
                }
            };
            result[((time * directions + direction) * batch + row) * hidden..][..hidden]
                .copy_from_slice(&next);
            state[row * hidden..][..hidden].copy_from_slice(&next);
        }
    }
    let last = (steps * directions + direction) * plane;
    result[last..][..plane].copy_from_slice(&state);
    if cell == Cell::Lstm {
        result[last + directions * plane..][..plane].copy_from_slice(&memory);
    }
}

/// One step of one sequence.
struct Step<'a> {
    layer: &'a Layer,
    direction: usize,
    x: &'a [f64],
    weights: &'a [f64],
    extra: Option<&'a [f64]>,
}

impl Step<'_> {
    fn activate(&self, which: usize, value: f64) -> f64 {
        self.layer.activations(self.direction)[which].apply(self.layer.clipped(value))
    }

    /// Returns the products of a gate's weights with a state.
    fn products(&self, gate: usize, state: &[f64]) -> Vec<f64> {
        let hidden = self.layer.hidden;
        let row = |at: usize| &self.weights[(gate * hidden + at) * hidden..][..hidden];
        (0..hidden).map(|at| row(at).iter().zip(state).map(|(w, h)| w * h).sum()).collect()
    }

    /// Returns the sums of a gate.
    fn gate(&self, gate: usize, state: &[f64]) -> Vec<f64> {
        let x = &self.x[gate * self.layer.hidden..];
        self.products(gate, state).iter().zip(x).map(|(product, x)| product + x).collect()
    }

    fn lstm(&self, state: &[f64], memory: &mut [f64]) -> Vec<f64> {
        let hidden = self.layer.hidden;
        let [input, output, forget, cell] = [0, 1, 2, 3].map(|gate| self.gate(gate, state));
        // Without weights of the memory a gate does not see it, also where it is infinite.
        let look = |which: usize, at: usize, memory: f64| {
            self.extra.map_or(0.0, |p| p[which * hidden + at] * memory)
        };
        let unit = |at: usize| {
            let kept = self.activate(0, input[at] + look(0, at, memory[at]));
            let forgets = if self.layer.coupled {
                1.0 - kept
            } else {
                self.activate(0, forget[at] + look(2, at, memory[at]))
            };
            memory[at] = forgets * memory[at] + kept * self.activate(1, cell[at]);
            let open = self.activate(0, output[at] + look(1, at, memory[at]));
            open * self.layer.activations(self.direction)[2].apply(memory[at])
        };
        (0..hidden).map(unit).collect()
    }

    fn gru(&self, seen: &[f64], state: &[f64]) -> Vec<f64> {
        let hidden = self.layer.hidden;
        let [update, reset] = [0, 1]
            .map(|gate| self.gate(gate, seen).iter().map(|v| self.activate(0, *v)).collect::<Vec<f64>>());
        let product = if self.layer.linear {
            let inner = self.products(2, seen);
            let bias = |at: usize| self.extra.map_or(0.0, |bias| bias[at]);
            (0..hidden).map(|at| reset[at] * (inner[at] + bias(at))).collect()
        } else {
            let left: Vec<f64> = reset.iter().zip(seen).map(|(reset, state)| reset * state).collect();
            self.products(2, &left)
        };
        let unit = |at: usize| {
            let new = self.activate(1, self.x[2 * hidden + at] + product[at]);
            (1.0 - update[at]) * new + update[at] * state[at]
        };
        (0..hidden).map(unit).collect()
    }
}
