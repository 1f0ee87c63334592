//! What the tables of bodies hold.

use super::expression::{Expression, Number};

/// A row of a table.
pub(super) struct Body {
    pub name: &'static str,
    /// The names of the operands, and whether an operand may be left out.
    pub inputs: Vec<(String, bool)>,
    pub outputs: Vec<String>,
    pub attributes: Vec<Attribute>,
    /// The opset of the operators of ONNX's own in the lines.
    pub opset: i64,
    pub lines: Vec<Line>,
}

/// An attribute of the operator.
pub(super) struct Attribute {
    pub name: &'static str,
    pub kind: AttributeKind,
    /// The value if a model does not write it.
    pub default: Option<Number>,
}

/// The kinds of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeKind {
    Int,
    Float,
    Text,
    Ints,
    Floats,
    Texts,
}

/// A line of a body.
pub(super) struct Line {
    /// The names that the results are given; `_` for a result that is not used.
    pub targets: Vec<String>,
    pub action: Action,
    /// Without a condition, the line is always carried out.
    pub condition: Option<Expression>,
    /// The line as it is written.
    pub text: String,
}

/// What a line does.
pub(super) enum Action {
    /// Applies an operator.
    Apply { operator: String, operands: Vec<Operand>, attributes: Vec<(String, Expression)> },
    /// Gives a value another name.
    Name(String),
    /// Changes an attribute, or makes one that only the body has.
    Set(&'static str, Expression),
    /// Refuses the node with this message.
    Refuse(Expression),
}

/// An operand of a line.
pub(super) enum Operand {
    Absent,
    Value(String),
    Constant(Expression),
}
