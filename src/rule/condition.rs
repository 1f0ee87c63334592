//! The conditions of a rule.

use super::Expr;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The text.
    pub text: String,
    /// The condition.
    pub expr: Expr,
}
