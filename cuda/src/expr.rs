//! Scalar expressions: what a kernel computes of one element of each operand.

use super::scalar;
use super::space::{Access, Bound};
use ovolo::scalar::{Function, Program};
use ovolo::tensor::DType;

/// Stands for the scratch of a job among the operands of its kernels.
pub(super) const SCRATCH: usize = usize::MAX;

/// The name of the parameter that points at an operand.
pub(super) fn parameter(operand: usize) -> String {
    if operand == SCRATCH { "parts".to_owned() } else { format!("p{operand}") }
}

/// An operand as a kernel reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    /// Which operand of the call.
    pub operand: usize,
    /// Its element type.
    pub dtype: DType,
    /// Where its elements are.
    pub access: Access,
    /// Where it is read at all; elsewhere it is zero.
    pub bounds: Vec<Bound>,
    /// A position that another operand gives.
    pub picked: Option<Picked>,
}

/// A position that is read from memory; negative ones count from the end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picked {
    /// The leaf with the positions.
    pub leaf: usize,
    /// How many there are to pick from.
    pub size: usize,
    /// Elements from one to the next.
    pub stride: usize,
}

impl Leaf {
    /// An operand read everywhere.
    pub(super) fn new(operand: usize, dtype: DType, access: Access) -> Self {
        Self { operand, dtype, access, bounds: Vec::new(), picked: None }
    }
}

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    /// The type of its value.
    pub dtype: DType,
    /// How it is computed.
    pub node: Node,
}

/// What an expression is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// The element of a leaf.
    Load(usize),
    /// Whether all bounds of a leaf hold.
    Inside(usize),
    /// A value that the kernel has computed: what was reduced.
    Given,
    /// A number.
    Number(f64),
    /// An elementwise op with its parameters, of which text is written by hand.
    Unary(&'static str, Vec<f64>, Box<Expr>),
    /// A formula with its parameters in it, of a floating-point number.
    Formula(Program, Box<Expr>),
    /// An elementwise op of two.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// The second where the first holds, else the third.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Another type.
    Cast(Box<Expr>),
}

/// Binary ops whose result is a truth value.
const COMPARISONS: &[&str] = &["equal", "greater", "less", "greater-equal", "less-equal"];

impl Expr {
    /// The element of a leaf.
    pub(super) fn load(leaves: &[Leaf], leaf: usize) -> Self {
        Self { dtype: leaves[leaf].dtype, node: Node::Load(leaf) }
    }

    /// Whether a leaf's bounds hold.
    pub(super) fn inside(leaf: usize) -> Self {
        Self { dtype: DType::Bool, node: Node::Inside(leaf) }
    }

    /// What was reduced.
    pub(super) fn given(dtype: DType) -> Self {
        Self { dtype, node: Node::Given }
    }

    /// A number.
    pub(super) fn number(dtype: DType, value: f64) -> Self {
        Self { dtype, node: Node::Number(value) }
    }

    /// An elementwise op.
    pub(super) fn unary(op: &'static str, parameters: Vec<f64>, x: Self) -> Self {
        let dtype = if matches!(op, "isnan" | "not") { DType::Bool } else { x.dtype };
        Self { dtype, node: Node::Unary(op, parameters, Box::new(x)) }
    }

    /// A function of one number: by the text that is written for it, or else by its formula.
    pub(super) fn function(function: Function, parameters: Vec<f64>, x: Self) -> Self {
        if scalar::OVERRIDES.contains(&function.name()) {
            return Self::unary(function.name(), parameters, x);
        }
        // Integers are computed as the reference computes them.
        let dtype = x.dtype;
        let float = if dtype.is_float() { dtype } else { DType::F64 };
        Self::formula(Program::of(function, &parameters), x.cast(float)).cast(dtype)
    }

    /// A formula of a floating-point number.
    pub(super) fn formula(program: Program, x: Self) -> Self {
        Self { dtype: x.dtype, node: Node::Formula(program, Box::new(x)) }
    }

    /// An elementwise op of two.
    pub(super) fn binary(op: &'static str, a: Self, b: Self) -> Self {
        let dtype = if COMPARISONS.contains(&op) { DType::Bool } else { a.dtype };
        Self { dtype, node: Node::Binary(op, Box::new(a), Box::new(b)) }
    }

    /// A choice.
    pub(super) fn select(condition: Self, then: Self, otherwise: Self) -> Self {
        Self {
            dtype: then.dtype,
            node: Node::Select(Box::new(condition), Box::new(then), Box::new(otherwise)),
        }
    }

    /// Another type.
    pub(super) fn cast(self, dtype: DType) -> Self {
        if self.dtype == dtype { self } else { Self { dtype, node: Node::Cast(Box::new(self)) } }
    }
}
