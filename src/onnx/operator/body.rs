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
mod row;

use super::Operator;
use crate::diagnostic::{Diagnostics, Source};
pub(super) use import::apply_to;
use row::{Action, Attribute, AttributeKind, Body, Line, Operand};
use std::sync::LazyLock;

/// ovolo's own tables, each with its name and text.
const TABLES: [(&str, &str); 4] = [
    ("ops/onnx.ron", include_str!("../../../ops/onnx.ron")),
    ("ops/quantised.ron", include_str!("../../../ops/quantised.ron")),
    ("ops/ml.ron", include_str!("../../../ops/ml.ron")),
    ("ops/microsoft.ron", include_str!("../../../ops/microsoft.ron")),
];

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
