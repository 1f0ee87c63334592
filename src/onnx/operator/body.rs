//! Operators that are said in other operators. Tables of bodies define them.
//!
//! A table is a RON file, such as `ops/microsoft.ron`. A row has the operator's name with its domain, the names of its
//! operands (an optional one ends in `?`) and results, its attributes with their defaults, the opset of the operators
//! in its body, and the body. The body is a list of lines, which are carried out in order:
//!
//! ```text
//! t = Mul(x, 0.5)
//! y = Softmax(t) {axis: @axis}
//! y = Mul(y, scale) if given(scale)
//! @axis = @axis + rank(x) if @axis < 0
//! refuse('it has no mask') if not given(mask)
//! ```
//!
//! A name stands for the value that it was last given. An operand is a name, `_` for an operand that is left out, or
//! an expression: a number becomes a scalar of the type of the line's last value, and a list of whole numbers becomes
//! a list of int64. [`expression`] says what expressions are made of. They are computed when a model is imported, so
//! they may depend on the attributes of the operator and on the types of values.

mod expression;
mod import;
mod parse;
mod read;

use super::Operator;
use crate::diagnostic::{Diagnostics, Source};
use expression::{Expression, Number};
pub(super) use import::apply_to;
use std::sync::LazyLock;

/// ovolo's own tables, each with its name and text.
const TABLES: [(&str, &str); 3] = [
    ("ops/quantised.ron", include_str!("../../../ops/quantised.ron")),
    ("ops/ml.ron", include_str!("../../../ops/ml.ron")),
    ("ops/microsoft.ron", include_str!("../../../ops/microsoft.ron")),
];

/// A row of a table.
struct Body {
    name: &'static str,
    /// The names of the operands, and whether an operand may be left out.
    inputs: Vec<(String, bool)>,
    outputs: Vec<String>,
    attributes: Vec<Attribute>,
    /// The opset of the operators of ONNX's own in the lines.
    opset: i64,
    lines: Vec<Line>,
}

/// An attribute of the operator.
struct Attribute {
    name: &'static str,
    kind: AttributeKind,
    /// The value if a model does not write it.
    default: Option<Number>,
}

/// The kinds of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeKind {
    Int,
    Float,
    Text,
    Ints,
    Floats,
    Texts,
}

/// A line of a body.
struct Line {
    /// The names that the results are given; `_` for a result that is not used.
    targets: Vec<String>,
    action: Action,
    /// Without a condition, the line is always carried out.
    condition: Option<Expression>,
    /// The line as it is written.
    text: String,
}

/// What a line does.
enum Action {
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
enum Operand {
    Absent,
    Value(String),
    Constant(Expression),
}

/// Returns ovolo's own bodies.
///
/// # Panics
/// If one of ovolo's own tables has mistakes.
fn built_in() -> &'static [Body] {
    static BODIES: LazyLock<Vec<Body>> = LazyLock::new(|| {
        let mut found = Diagnostics::new();
        let mut bodies = Vec::new();
        for (name, text) in TABLES {
            let more = read::read(&Source::new(name, text), &bodies, &mut found);
            bodies.extend(more);
        }
        assert!(found.is_empty(), "{found}");
        bodies
    });
    &BODIES
}

/// Returns the operators that have bodies.
pub(super) fn operators() -> impl Iterator<Item = Operator> {
    built_in().iter().map(|body| Operator {
        name: body.name,
        operands: (body.inputs.iter().take_while(|(_, optional)| !optional).count(), body.inputs.len()),
        import: import::import,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a table with one body, and returns the mistakes.
    fn mistakes(lines: &str) -> String {
        let text = format!(
            "[\n    Body(\n        name: \"com.example.Twice\",\n        inputs: [\"x\", \"y?\"],\n        \
             outputs: [\"z\"],\n        attributes: {{\"factor\": 2.0}},\n        body: [{lines}],\n    ),\n]"
        );
        let mut found = Diagnostics::new();
        read::read(&Source::new("x.ron", text.as_str()), &[], &mut found);
        found.to_string()
    }

    #[test]
    fn mistakes_in_bodies_have_their_places() {
        assert_eq!(mistakes(r#""z = Mul(x, @factor)", "z = Add(z, y) if given(y)""#), "");
        let found = mistakes(r#""t = Mul(x, @factr)", "z = Add(u, x)""#);
        assert!(found.contains("the operator has no attribute `factr`"), "{found}");
        assert!(found.contains("did you mean `factor`?"), "{found}");
        assert!(found.contains("there is no value `u`"), "{found}");
    }

    #[test]
    fn every_operator_in_a_body_is_known() {
        let operators = super::super::operators();
        for body in built_in() {
            for line in &body.lines {
                if let Action::Apply { operator, .. } = &line.action {
                    assert!(operators.get(operator).is_some(), "{}: {}", body.name, line.text);
                }
            }
        }
    }
}
