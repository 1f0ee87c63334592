//! A graph of operations as plain data, and its text, which contains everything that the library receives.

use ovolo::tensor::{DType, TensorType};
use std::fmt;

/// A graph of operations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graph {
    /// The values. The library's number of a value is its index here plus one.
    pub values: Vec<GraphValue>,
    /// The operations, in an order in which they can be computed.
    pub operations: Vec<Operation>,
    /// Whether the factors of products may be rounded to TF32.
    pub tf32: bool,
    /// Whether operands are `f32`, which tensor cores round.
    pub single: bool,
}

/// A value: four sizes, the stride of each dimension in elements, the element type, and the place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GraphValue {
    pub sizes: [usize; 4],
    pub strides: [usize; 4],
    pub dtype: DType,
    pub place: ValuePlace,
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValuePlace {
    Input(usize),
    Output,
    /// In no memory: one operation passes it to the next.
    Between,
    /// A number in host memory.
    Number(f32),
}

/// A function of one or two values, computed elementwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// A rectified linear unit with a slope below zero.
    Relu(f64),
    Elu(f64),
    Sigmoid,
    Tanh,
    Silu,
    Gelu,
    GeluTanh,
    Softplus,
    Exp,
    Log,
    Erf,
    Abs,
    Sqrt,
    Neg,
}

/// How a reduction combines the elements of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reduction {
    Max,
    Sum,
}

/// An operation. Values are given by their indices in the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    Convolution {
        x: usize,
        w: usize,
        y: usize,
        /// The padding of rows and columns, before and after.
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
    /// Matrix products of the last two dimensions.
    Product {
        a: usize,
        b: usize,
        y: usize,
    },
    /// A reduction along the last dimension.
    Reduction {
        reduction: Reduction,
        x: usize,
        y: usize,
    },
    /// A softmax along the last dimension.
    Softmax {
        x: usize,
        y: usize,
    },
}

/// Returns the strides of four dimensions, with the second one innermost for `nhwc`.
pub(super) fn strides(sizes: [usize; 4], nhwc: bool) -> [usize; 4] {
    let [_, c, h, w] = sizes;
    if nhwc { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
}

impl GraphValue {
    /// Returns an operand of the call; shapes with fewer than four dimensions get leading ones.
    pub(crate) fn operand(number: usize, ty: &TensorType) -> Result<Self, String> {
        let rank = ty.shape.rank();
        let skip = 4_usize.checked_sub(rank).ok_or_else(|| format!("{ty} has more than 4 dimensions"))?;
        let mut sizes = [1; 4];
        sizes[skip..].copy_from_slice(&ty.shape);
        let strides = strides(sizes, !ty.layout.is_plain());
        Ok(Self { sizes, strides, dtype: ty.dtype, place: ValuePlace::Input(number) })
    }
}

impl Graph {
    /// Returns an empty graph for a call with this element type.
    pub fn new(dtype: DType, tf32: bool) -> Self {
        Self { values: Vec::new(), operations: Vec::new(), tf32, single: dtype == DType::F32 }
    }

    /// Adds a value and returns its index.
    pub fn add(&mut self, value: GraphValue) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Adds a number in host memory.
    pub fn number(&mut self, number: f64) -> usize {
        #[allow(clippy::cast_possible_truncation)]
        let place = ValuePlace::Number(number as f32);
        self.add(GraphValue { sizes: [1; 4], strides: [1; 4], dtype: DType::F32, place })
    }

    /// Adds an intermediate value with the sizes and strides of another value. It is `f32`, independently of the
    /// stored type.
    pub fn between(&mut self, like: usize) -> usize {
        let GraphValue { sizes, strides, .. } = self.values[like];
        self.add(GraphValue { sizes, strides, dtype: DType::F32, place: ValuePlace::Between })
    }

    /// Adds a function of a value, and of a second value if it takes two. Returns the index of the result.
    pub fn pointwise(&mut self, function: Function, x: usize, b: Option<usize>) -> usize {
        let y = self.between(x);
        self.operations.push(Operation::Pointwise { function, x, b, y });
        y
    }

    /// Adds a reduction along the last dimension, which has size 1 in the result. Returns the index of the result.
    pub fn reduction(&mut self, reduction: Reduction, x: usize) -> usize {
        let [batch, head, row, _] = self.values[x].sizes;
        let sizes = [batch, head, row, 1];
        let place = ValuePlace::Between;
        let y = self.add(GraphValue { sizes, strides: strides(sizes, false), dtype: DType::F32, place });
        self.operations.push(Operation::Reduction { reduction, x, y });
        y
    }

    /// Makes an intermediate value the result of the call.
    pub fn store(&mut self, value: usize, dtype: DType) {
        self.values[value].dtype = dtype;
        self.values[value].place = ValuePlace::Output;
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, GraphValue { sizes, strides, dtype, place }) in self.values.iter().enumerate() {
            writeln!(f, "{}: {dtype}{sizes:?} by {strides:?} {place:?}", number + 1)?;
        }
        for operation in &self.operations {
            writeln!(f, "{operation:?}")?;
        }
        write!(f, "tf32 {}", self.tf32)
    }
}
