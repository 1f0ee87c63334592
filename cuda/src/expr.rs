//! Scalar expressions, which a kernel computes from one element of each operand.

use super::scalar::{self, Override};
use super::space::{Access, Bound};
use ovolo::scalar::{Binary, Domain, Function, Instruction, Operand, Program, Unary};
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
    /// Whether a boolean is false.
    Not(Box<Expr>),
    /// Whether a number is NaN.
    IsNan(Box<Expr>),
    /// A function of floating-point numbers whose text is written by hand, with its parameters.
    Own(&'static Override, Vec<f64>, Vec<Expr>),
    /// A formula of one or two operands, with its parameters filled in. Of integers it must be exact.
    Formula(Program, Vec<Expr>),
    /// A primitive of two operands, for their element type.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// The second expression if the first is true, and otherwise the third.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to the type of this expression.
    Cast(Box<Expr>),
}

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

    /// Returns whether a boolean is false.
    pub(super) fn not(x: Self) -> Self {
        Self { dtype: DType::Bool, node: Node::Not(Box::new(x)) }
    }

    /// Returns whether a number is NaN.
    pub(super) fn is_nan(x: Self) -> Self {
        Self { dtype: DType::Bool, node: Node::IsNan(Box::new(x)) }
    }

    /// Returns the square root of a floating-point number.
    pub(super) fn sqrt(x: Self) -> Self {
        let instructions = vec![Instruction::Unary(Unary::Sqrt, Operand::X)];
        Self::formula(Program { instructions, result: Operand::Result(0) }, vec![x])
    }

    /// Returns a function of operands of one type: its handwritten text if there is one, and otherwise its formula.
    pub(super) fn function(function: Function, parameters: &[f64], operands: Vec<Self>) -> Self {
        let dtype = operands[0].dtype;
        if dtype.is_float()
            && let Some(own) = scalar::OVERRIDES.iter().find(|own| own.function == function.name())
        {
            return Self { dtype, node: Node::Own(own, parameters.to_vec(), operands) };
        }
        let program = Program::for_function(function, parameters);
        if let (Some(kind), [a, b]) = (program.primitive(), &operands[..]) {
            return Self::binary(kind, a.clone(), b.clone());
        }
        if dtype.is_float() || scalar::exact_on_integers(&program) {
            return Self::formula(program, operands);
        }
        // Integers are computed as the reference computes them: those that the function only chooses stay exact.
        let wide: Vec<Self> = operands.iter().map(|operand| operand.clone().cast(DType::F64)).collect();
        let value = Self::formula(program, wide.clone());
        let rounded = value.clone().cast(dtype);
        match function.formula().chooses() {
            true => {
                let kept = Self::binary(Binary::Equal, value, wide[0].clone());
                Self::select(kept, operands[0].clone(), rounded)
            }
            false => rounded,
        }
    }

    /// Returns a formula of floating-point numbers, or of integers for which it is exact. It has only the operands that
    /// the formula reads.
    pub(super) fn formula(program: Program, mut operands: Vec<Self>) -> Self {
        let dtype = operands[0].dtype;
        match program.result {
            Operand::Number(number) => return Self::number(dtype, number),
            Operand::X => return operands.swap_remove(0),
            Operand::Y => return operands.swap_remove(1),
            Operand::Result(_) => {}
        }
        let reads = |operand: Operand| {
            program.instructions.iter().any(|instruction| instruction.operands().contains(&operand))
        };
        let program = match (reads(Operand::X), reads(Operand::Y)) {
            (true, true) => program,
            (_, false) => {
                operands.truncate(1);
                program
            }
            (false, true) => {
                operands.remove(0);
                program.swapped()
            }
        };
        Self { dtype, node: Node::Formula(program, operands) }
    }

    /// Returns a primitive of two operands.
    pub(super) fn binary(kind: Binary, a: Self, b: Self) -> Self {
        let dtype = match kind.domain() {
            Domain::Numbers | Domain::Logic | Domain::Bits => a.dtype,
            Domain::Comparison | Domain::Equality => DType::Bool,
        };
        Self { dtype, node: Node::Binary(kind, Box::new(a), Box::new(b)) }
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
