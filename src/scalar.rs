//! Functions of one number: tables of them, each function a formula over a few primitives.
//!
//! A table is a RON file; `ops/scalar.ron` is ovolo's own, and a registry takes others. From a row follow the logical
//! op and its reference evaluation, the step of post chains, the lanes of the native backend, the text for devices,
//! the gradient, the price where no list has one, the import from ONNX, and the rows of rules that are for all
//! functions.
//!
//! A [`Formula`] is of `x`, the parameters of its function, numbers, `pi`, `inf`, `+ - * /`, the primitives of
//! [`Unary`], `min(a, b)`, `max(a, b)`, `clamp(a, low, high)`, `if(a < b, then, else)`, and the functions before it in
//! the table: `x * tanh(softplus(x))`.

mod derive;
mod formula;
mod parse;
mod primitive;
mod program;
mod read;

pub use formula::Formula;
pub use primitive::{Binary, Compare, Unary, erf};
pub use program::{Instruction, Operand, Program};
pub use read::read;

use crate::diagnostic::{Diagnostics, Source};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, OnceLock};

/// The table that ships.
const TABLE: &str = include_str!("../ops/scalar.ron");

/// The handle of a function: small, copied freely. Its definition lives as long as the process.
///
/// Handles are compared, ordered and hashed by the name.
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

/// A parameter of a function: an attribute of its op.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its value where none is written.
    pub default: f64,
    /// What it means, in one line.
    pub doc: &'static str,
}

/// An ONNX operator that is the function. Its attributes that are called as parameters are these.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The operator's name; one that is not ONNX's own has its domain in front.
    pub name: &'static str,
    /// The values of attributes for which it is the function; one without conditions always is.
    pub when: Vec<(&'static str, Setting)>,
    /// What attributes are that the model does not write; a parameter that is absent has its own default.
    pub defaults: Vec<(&'static str, Setting)>,
}

impl Operator {
    /// What an attribute is where the model does not write it.
    pub fn default_of(&self, attribute: &str) -> Option<&Setting> {
        self.defaults.iter().find(|(name, _)| *name == attribute).map(|(_, value)| value)
    }
}

/// The value of an ONNX attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// Text.
    Text(&'static str),
}

/// The functions that ovolo has, in the order of the table.
///
/// # Panics
/// If the table that ships has mistakes.
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
    /// The name, in kebab case.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it computes, in one line.
    pub fn doc(self) -> &'static str {
        self.0.doc
    }

    /// Its parameters, in order.
    pub fn parameters(self) -> &'static [Parameter] {
        &self.0.parameters
    }

    /// What it is.
    pub fn formula(self) -> &'static Formula {
        &self.0.formula
    }

    /// Its derivative: that of the table, or else what follows from the formula. At a corner it is one of the two slopes.
    pub fn derivative(self) -> &'static Formula {
        self.0.derivative.get_or_init(|| self.0.formula.derivative())
    }

    /// The ONNX operators that it is.
    pub fn operators(self) -> &'static [Operator] {
        &self.0.operators
    }

    /// The primitives that it takes, by name, each as often as it is computed; a quotient by a number is a product.
    pub fn primitives(self) -> &'static [&'static str] {
        self.0.primitives.get_or_init(|| {
            let defaults: Vec<f64> = self.parameters().iter().map(|one| one.default).collect();
            let name = |instruction: &Instruction| match instruction {
                Instruction::Unary(kind, _) => kind.name(),
                Instruction::Binary(Binary::Div, [_, Operand::Number(_)]) => Binary::Mul.name(),
                Instruction::Binary(kind, _) => kind.name(),
                Instruction::If(compare, _) => compare.name(),
            };
            Program::of(self, &defaults).instructions.iter().map(name).collect()
        })
    }

    /// Its value, in double precision.
    pub fn evaluate(self, parameters: &[f64], x: f64) -> f64 {
        self.0.formula.evaluate(parameters, x)
    }

    /// Its slope, in double precision.
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

#[cfg(test)]
mod tests;
