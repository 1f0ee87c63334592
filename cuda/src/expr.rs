//! Scalar expressions, which a kernel computes from one element of each operand.

use super::scalar;
use super::space::{Access, Bound};
use ovolo::scalar::{Function, Program};
use ovolo::tensor::DType;

/// Stands for the scratch memory of a job in the list of a kernel's operands.
pub(super) const SCRATCH: usize = usize::MAX;

/// Returns the name of the parameter for an operand.
pub(super) fn parameter(operand: usize) -> String {
    if operand == SCRATCH { "parts".to_owned() } else { format!("p{operand}") }
}

/// An operand as a kernel reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    /// The number of the call's operand.
    pub operand: usize,
    /// The element type.
    pub dtype: DType,
    /// The offsets of its elements.
    pub access: Access,
    /// The conditions for reading an element; if one of them does not hold, the value is zero.
    pub bounds: Vec<Bound>,
    /// An offset that another operand adds.
    pub picked: Option<Picked>,
}

/// A position that is read from memory. Negative positions count from the end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picked {
    /// The leaf that contains the positions.
    pub leaf: usize,
    /// The number of elements to select from.
    pub size: usize,
    /// The distance between these elements.
    pub stride: usize,
}

impl Leaf {
    /// Returns a leaf without conditions.
    pub(super) fn new(operand: usize, dtype: DType, access: Access) -> Self {
        Self { operand, dtype, access, bounds: Vec::new(), picked: None }
    }
}

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    /// The type of the value.
    pub dtype: DType,
    /// The computation.
    pub node: Node,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// The element of a leaf.
    Load(usize),
    /// Whether all conditions of a leaf hold.
    Inside(usize),
    /// A value that the kernel has already computed, such as a reduction.
    Given,
    /// A constant.
    Number(f64),
    /// A unary elementwise op with its parameters, whose text is written by hand.
    Unary(&'static str, Vec<f64>, Box<Expr>),
    /// A formula with its parameters filled in, applied to a floating-point number.
    Formula(Program, Box<Expr>),
    /// A binary elementwise op.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// The second expression if the first is true, and otherwise the third.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to the type of this expression.
    Cast(Box<Expr>),
}

/// The binary ops whose result is a boolean.
const COMPARISONS: &[&str] = &["equal", "greater", "less", "greater-equal", "less-equal"];

impl Expr {
    /// Returns the element of a leaf.
    pub(super) fn load(leaves: &[Leaf], leaf: usize) -> Self {
        Self { dtype: leaves[leaf].dtype, node: Node::Load(leaf) }
    }

    /// Returns whether the conditions of a leaf hold.
    pub(super) fn inside(leaf: usize) -> Self {
        Self { dtype: DType::Bool, node: Node::Inside(leaf) }
    }

    /// Returns the value that the kernel has already computed.
    pub(super) fn given(dtype: DType) -> Self {
        Self { dtype, node: Node::Given }
    }

    /// Returns a constant.
    pub(super) fn number(dtype: DType, value: f64) -> Self {
        Self { dtype, node: Node::Number(value) }
    }

    /// Returns a unary elementwise op.
    pub(super) fn unary(op: &'static str, parameters: Vec<f64>, x: Self) -> Self {
        let dtype = if matches!(op, "isnan" | "not") { DType::Bool } else { x.dtype };
        Self { dtype, node: Node::Unary(op, parameters, Box::new(x)) }
    }

    /// Returns a function of one number: its handwritten text if there is one, and otherwise its formula.
    pub(super) fn function(function: Function, parameters: Vec<f64>, x: Self) -> Self {
        if scalar::OVERRIDES.contains(&function.name()) {
            return Self::unary(function.name(), parameters, x);
        }
        // Integers are computed as the reference computes them.
        let dtype = x.dtype;
        let float = if dtype.is_float() { dtype } else { DType::F64 };
        Self::formula(Program::for_function(function, &parameters), x.cast(float)).cast(dtype)
    }

    /// Returns a formula of a floating-point number.
    pub(super) fn formula(program: Program, x: Self) -> Self {
        Self { dtype: x.dtype, node: Node::Formula(program, Box::new(x)) }
    }

    /// Returns a binary elementwise op.
    pub(super) fn binary(op: &'static str, a: Self, b: Self) -> Self {
        let dtype = if COMPARISONS.contains(&op) { DType::Bool } else { a.dtype };
        Self { dtype, node: Node::Binary(op, Box::new(a), Box::new(b)) }
    }

    /// Returns a choice between two expressions.
    pub(super) fn select(condition: Self, then: Self, otherwise: Self) -> Self {
        Self {
            dtype: then.dtype,
            node: Node::Select(Box::new(condition), Box::new(then), Box::new(otherwise)),
        }
    }

    /// Returns the expression, converted to another type if necessary.
    pub(super) fn cast(self, dtype: DType) -> Self {
        if self.dtype == dtype { self } else { Self { dtype, node: Node::Cast(Box::new(self)) } }
    }
}
