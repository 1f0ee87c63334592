//! Functions of one number. Tables define each function by a formula of a few primitives.
//!
//! A table is a RON file. `ops/scalar.ron` is ovolo's own, and a registry accepts others. The following are derived
//! from a row: the logical op with its reference evaluation, the step of post chains, the vector code of the native
//! backend, the text for devices, the gradient, the price if no price list has one, the import from ONNX, and the
//! rows of rules that apply to all functions.
//!
//! A formula consists of `x`, the parameters of its function, numbers, `pi`, `inf`, `+ - * /`, the primitives of
//! [`Unary`], `min(a, b)`, `max(a, b)`, `clamp(a, low, high)`, `if(a < b, then, else)`, and functions from earlier
//! rows of the table. An example is `x * tanh(softplus(x))`.

mod derive;
mod formula;
mod operator;
mod parse;
mod primitive;
mod program;
mod read;

pub(crate) use formula::Formula;
pub(crate) use operator::{Operator, Setting};
pub use primitive::{Binary, Compare, Unary};
pub(crate) use primitive::{larger, smaller};
pub use program::{Instruction, Operand, Program};
pub use read::read;

use crate::diagnostic::{Diagnostics, Source};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, OnceLock};

/// The text of ovolo's own table.
const TABLE: &str = include_str!("../ops/scalar.ron");

/// The handle of a function, which is small and can be copied. Its definition lives until the process ends.
///
/// Handles are compared, ordered and hashed by their names.
#[derive(Clone, Copy)]
pub struct Function(&'static Definition);

struct Definition {
    name: &'static str,
    doc: &'static str,
    parameters: Vec<Parameter>,
    formula: Formula,
    derivative: OnceLock<Formula>,
    operators: Vec<Operator>,
    primitives: OnceLock<Vec<&'static str>>,
}

/// A parameter of a function, which is an attribute of its op.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The value if none is written.
    pub default: f64,
    /// The meaning, in one line.
    pub doc: &'static str,
}

/// Returns ovolo's own functions, in the order of the table.
///
/// # Panics
/// If ovolo's own table has mistakes.
pub fn built_in() -> &'static [Function] {
    static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
        let mut found = Diagnostics::new();
        let functions = read(&Source::new("ops/scalar.ron", TABLE), &[], &mut found);
        assert!(found.is_empty(), "{found}");
        functions
    });
    &FUNCTIONS
}

impl Function {
    /// Returns the name, in kebab case.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns what the function computes, in one line.
    pub fn doc(self) -> &'static str {
        self.0.doc
    }

    /// Returns the parameters, in order.
    pub fn parameters(self) -> &'static [Parameter] {
        &self.0.parameters
    }

    /// Returns the formula.
    pub fn formula(self) -> &'static Formula {
        &self.0.formula
    }

    /// Returns the derivative from the table, or otherwise the one derived from the formula. At a corner it is one of
    /// the two slopes.
    pub fn derivative(self) -> &'static Formula {
        self.0.derivative.get_or_init(|| self.0.formula.derivative())
    }

    /// Returns the ONNX operators that compute the function.
    pub fn operators(self) -> &'static [Operator] {
        &self.0.operators
    }

    /// Returns the names of the primitives that the function uses, each as often as it is computed. A division by a
    /// constant counts as a product.
    pub fn primitives(self) -> &'static [&'static str] {
        self.0.primitives.get_or_init(|| {
            let defaults: Vec<f64> = self.parameters().iter().map(|one| one.default).collect();
            let name = |instruction: &Instruction| match instruction {
                Instruction::Unary(kind, _) => kind.name(),
                Instruction::Binary(Binary::Div, [_, Operand::Number(_)]) => Binary::Mul.name(),
                Instruction::Binary(kind, _) => kind.name(),
                Instruction::If(compare, _) => compare.name(),
            };
            Program::for_function(self, &defaults).instructions.iter().map(name).collect()
        })
    }

    /// Returns the value, in double precision.
    pub fn evaluate(self, parameters: &[f64], x: f64) -> f64 {
        self.0.formula.evaluate(parameters, x)
    }

    /// Returns the derivative, in double precision.
    pub fn slope(self, parameters: &[f64], x: f64) -> f64 {
        self.derivative().evaluate(parameters, x)
    }

    fn define(definition: Definition) -> Self {
        Self(Box::leak(Box::new(definition)))
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0.name == other.0.name
    }
}

impl Eq for Function {}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(other.0.name)
    }
}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.0.name)
    }
}
