//! Elementwise functions of one or two operands. Tables define each function by a formula of a few primitives.
//!
//! A table is a RON file. `ops/scalar.ron` (one operand) and `ops/binary.ron` (two operands) are ovolo's own, and a
//! registry accepts others. The following are derived from a row: the logical op with its reference evaluation, the
//! steps of post chains and trees, the vector code of the native backend, the text for devices, the gradient, the
//! price if no price list has one, the import from ONNX, and the rows of rules that apply to all functions.
//!
//! A formula consists of `x`, the parameters of its function, numbers, `pi`, `inf`, `+ - * /`, the primitives of
//! [`Unary`] and [`Binary`], `clamp(a, low, high)`, `if(a < b, then, else)`, and functions from earlier rows of the
//! table. An example is `x * tanh(softplus(x))`. A function whose formula has `y` takes two operands, as in
//! `sqrt(x * x + y * y)`.
//!
//! A formula that is one primitive of `x` and `y` means that primitive for every element type ([`Domain`]). Functions
//! of all other formulas take numbers and give numbers. Of integers they are computed as integers where the formula
//! only negates, rounds and compares, and otherwise in double precision.

mod binary;
mod derive;
mod formula;
mod operator;
mod parse;
mod primitive;
mod program;
mod read;

pub use binary::{Binary, Domain};
pub(crate) use formula::Formula;
pub(crate) use operator::{Operator, Setting};
pub use primitive::{Compare, Unary};
pub(crate) use primitive::{larger, smaller};
pub use program::{Instruction, Operand, Program};
pub use read::read;

use crate::diagnostic::{Diagnostics, Source};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, OnceLock};

/// The texts of ovolo's own tables. A formula may use the functions of the tables before its own.
const TABLES: [(&str, &str); 2] = [
    ("ops/scalar.ron", include_str!("../ops/scalar.ron")),
    ("ops/binary.ron", include_str!("../ops/binary.ron")),
];

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
    operands: usize,
    commutative: bool,
    /// With respect to `x` and to `y`.
    derivatives: [OnceLock<Formula>; 2],
    /// The names of the step that takes its operands in the other order, and of the step that joins two values.
    reversed: &'static str,
    join: &'static str,
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
    /// Whether the attribute is an integer.
    pub whole: bool,
}

/// Returns ovolo's own functions of one number, in the order of their table.
///
/// # Panics
/// If ovolo's own tables have mistakes.
pub fn built_in() -> &'static [Function] {
    &own()[0]
}

/// Returns ovolo's own functions of two operands, in the order of their table.
///
/// # Panics
/// If ovolo's own tables have mistakes.
pub fn built_in_of_two() -> &'static [Function] {
    &own()[1]
}

/// Returns ovolo's own functions: those of one number, and those of two operands.
fn own() -> &'static [Vec<Function>; 2] {
    static FUNCTIONS: LazyLock<[Vec<Function>; 2]> = LazyLock::new(|| {
        let mut found = Diagnostics::new();
        let mut functions = Vec::new();
        for (name, text) in TABLES {
            functions.extend(read(&Source::new(name, text), &functions, &mut found));
        }
        assert!(found.is_empty(), "{found}");
        let (one, two) = functions.into_iter().partition(|function| function.operands() == 1);
        [one, two]
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

    /// Returns the number of operands: two if the formula has `y`.
    pub fn operands(self) -> usize {
        self.0.operands
    }

    /// Returns whether the function has the same value with its operands swapped.
    pub fn commutative(self) -> bool {
        self.0.commutative
    }

    /// Returns the element types of a function of two operands.
    pub fn domain(self) -> Domain {
        match &self.0.formula {
            Formula::Binary(kind, parts) if **parts == [Formula::X, Formula::Y] => kind.domain(),
            _ => Domain::Numbers,
        }
    }

    /// Returns the primitive of two operands that the function is for these parameters, if it is only that.
    pub fn primitive(self, parameters: &[f64]) -> Option<Binary> {
        Program::for_function(self, parameters).primitive()
    }

    /// Returns whether the function may be a step of a chain: it gives a number, and its parameters are numbers.
    pub fn is_step(self) -> bool {
        self.domain() == Domain::Numbers && !self.parameters().iter().any(|one| one.whole)
    }

    /// Returns the name of the step that takes the value of a chain as the second operand, such as `rsub`; `None` for
    /// a function of one number, and for one that has the same value either way.
    pub fn reversed_name(self) -> Option<&'static str> {
        (self.operands() == 2 && !self.commutative()).then_some(self.0.reversed)
    }

    /// Returns the name of the step that joins two values of a tree, such as `pop-sub`; `None` for a function of one
    /// number.
    pub fn join_name(self) -> Option<&'static str> {
        (self.operands() == 2).then_some(self.0.join)
    }

    /// Returns the derivative with respect to an operand: the one in the table, or otherwise the one derived from the
    /// formula. At a corner it is one of the two slopes.
    ///
    /// # Panics
    /// If `operand` is neither 0 nor 1.
    pub fn derivative(self, operand: usize) -> &'static Formula {
        let by = if operand == 0 { Formula::X } else { Formula::Y };
        self.0.derivatives[operand].get_or_init(|| self.0.formula.derivative_by(&by))
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

    /// Returns the value for these operands, in double precision.
    pub fn evaluate(self, parameters: &[f64], operands: &[f64]) -> f64 {
        self.0.formula.evaluate(parameters, operands)
    }

    /// Returns the derivative with respect to an operand, in double precision.
    pub fn slope(self, parameters: &[f64], operand: usize, operands: &[f64]) -> f64 {
        self.derivative(operand).evaluate(parameters, operands)
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
