//! A graph of operations as plain data, and its text, which says all that the library is told.

use ovolo::tensor::{DType, TensorType};
use std::fmt;

/// A graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graph {
    /// Each value's number in the library is its place here and one.
    pub values: Vec<Value>,
    /// In an order in which they can be computed.
    pub operations: Vec<Operation>,
    /// Whether what is multiplied may be rounded to TF32.
    pub tf32: bool,
    /// Whether operands are `f32`, which tensor cores round.
    pub single: bool,
}

/// A value: four sizes, the elements from one to the next along each, their type, and where they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub sizes: [usize; 4],
    pub strides: [usize; 4],
    pub dtype: DType,
    pub place: Place,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Input(usize),
    Output,
    /// In no memory: it goes from one operation to the next.
    Between,
    /// On the host.
    Number(f32),
}

/// What is computed of one value or two, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// With the slope below zero.
    Relu(f64),
    Elu(f64),
    Sigmoid,
    Tanh,
    Silu,
    Gelu,
    GeluTanh,
    Softplus,
    Exp,
    Erf,
    Abs,
    Sqrt,
    Neg,
}

/// An operation; values are by their places in the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    Convolution {
        x: usize,
        w: usize,
        y: usize,
        /// Rows and columns before, then after.
        pads: [[usize; 2]; 2],
        strides: [usize; 2],
        dilations: [usize; 2],
    },
    Pointwise {
        function: Function,
        x: usize,
        b: Option<usize>,
        y: usize,
    },
    /// Products of the last two dimensions.
    Product {
        a: usize,
        b: usize,
        y: usize,
    },
    /// Along the last dimension.
    Softmax {
        x: usize,
        y: usize,
    },
}

/// Strides of four dimensions, the second one innermost or where it is.
pub(super) fn strides(sizes: [usize; 4], nhwc: bool) -> [usize; 4] {
    let [_, c, h, w] = sizes;
    if nhwc { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
}

impl Value {
    /// An operand, with ones before its dimensions where it has fewer than four.
    pub fn operand(number: usize, ty: &TensorType) -> Result<Self, String> {
        let rank = ty.shape.rank();
        let skip = 4_usize.checked_sub(rank).ok_or_else(|| format!("{ty} has more than 4 dimensions"))?;
        let mut sizes = [1; 4];
        sizes[skip..].copy_from_slice(&ty.shape);
        let strides = strides(sizes, !ty.layout.is_plain());
        Ok(Self { sizes, strides, dtype: ty.dtype, place: Place::Input(number) })
    }
}

impl Graph {
    /// An empty one for a call's types.
    pub fn new(dtype: DType, tf32: bool) -> Self {
        Self { values: Vec::new(), operations: Vec::new(), tf32, single: dtype == DType::F32 }
    }

    /// Takes a value in; its place.
    pub fn add(&mut self, value: Value) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// A number on the host.
    pub fn number(&mut self, number: f64) -> usize {
        #[allow(clippy::cast_possible_truncation)]
        let place = Place::Number(number as f32);
        self.add(Value { sizes: [1; 4], strides: [1; 4], dtype: DType::F32, place })
    }

    /// A value like another one that goes from one operation to the next: `f32`, whatever is stored.
    pub fn between(&mut self, like: usize) -> usize {
        let Value { sizes, strides, .. } = self.values[like];
        self.add(Value { sizes, strides, dtype: DType::F32, place: Place::Between })
    }

    /// Computes a function of a value, and of another one where it takes two.
    pub fn pointwise(&mut self, function: Function, x: usize, b: Option<usize>) -> usize {
        let y = self.between(x);
        self.operations.push(Operation::Pointwise { function, x, b, y });
        y
    }

    /// Stores a value that went between operations as the call's result.
    pub fn store(&mut self, value: usize, dtype: DType) {
        self.values[value].dtype = dtype;
        self.values[value].place = Place::Output;
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Value { sizes, strides, dtype, place }) in self.values.iter().enumerate() {
            writeln!(f, "{}: {dtype}{sizes:?} by {strides:?} {place:?}", number + 1)?;
        }
        for operation in &self.operations {
            writeln!(f, "{operation:?}")?;
        }
        write!(f, "tf32 {}", self.tf32)
    }
}
