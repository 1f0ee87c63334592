//! The expressions of price lists, and their evaluation.

use super::quantity::{self, Place};
use super::trace::Trace;
use super::view::View;
use crate::cost::feature::BASIC;
use crate::cost::{Machine, Query};
use smallvec::SmallVec;
use std::sync::Arc;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Number(f64),
    /// A number that every kernel has, by its index in the list of features.
    Feature(usize),
    /// A speed of the machine, by its index in [`quantity::SPEEDS`].
    Speed(usize),
    /// Bytes of the constants of the model.
    Constants,
    /// A parameter of the definition that the expression belongs to.
    Parameter(usize),
    /// A defined word with its arguments, by its index among the words.
    Word(usize, Vec<Expr>),
    /// A number from the op's declaration for cost models, by its name.
    Own(String),
    /// An integer attribute, and the value if the op has no such attribute.
    Attribute(String, Box<Expr>),
    /// A measure of an operand or of the result, by its index in [`quantity::MEASURES`].
    Measure(usize, Place, Box<Expr>),
    /// A function of numbers.
    Call(&'static Function, Vec<Expr>),
    /// An expression, and operators that are applied to it from left to right. They are in one list, so that a long
    /// sum does not need deep recursion.
    Chain(Box<Expr>, Vec<(&'static Function, Expr)>),
    /// A conjunction (`true`) or a disjunction (`false`), with the value 1 or 0.
    Logic(bool, Vec<Expr>),
    /// A condition, the value if it holds, and the value if it does not.
    If(Box<[Expr; 3]>),
    /// A first value, and a term that is added for each operand.
    EachOperand(Box<[Expr; 2]>),
    /// The operations of the functions on elements, by the prices of a table.
    Functions(usize),
    /// The number of steps after the kernel whose names are not these.
    StepsBesides(Vec<String>),
}

/// A function of numbers.
#[derive(Debug)]
pub(super) struct Function {
    /// Its name; for an operator, its sign.
    pub name: &'static str,
    /// The number of its arguments, or the least number if it accepts more.
    pub arity: usize,
    /// Whether it accepts more arguments.
    pub variadic: bool,
    /// What it returns.
    pub doc: &'static str,
    apply: Apply,
}

#[derive(Debug)]
enum Apply {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    /// The first argument, and then each of the others.
    Fold(fn(f64, f64) -> f64),
    /// Returns the index of the first argument among the others, from 0; 0 if it is absent.
    Index,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn one(name: &'static str, doc: &'static str, apply: fn(f64) -> f64) -> Function {
    Function { name, arity: 1, variadic: false, doc, apply: Apply::One(apply) }
}

const fn two(name: &'static str, doc: &'static str, apply: fn(f64, f64) -> f64) -> Function {
    Function { name, arity: 2, variadic: false, doc, apply: Apply::Two(apply) }
}

const fn any(name: &'static str, arity: usize, doc: &'static str, apply: Apply) -> Function {
    Function { name, arity, variadic: true, doc, apply }
}

fn truth(whether: bool) -> f64 {
    f64::from(u8::from(whether))
}

/// Every function of numbers. Operators are functions whose names are signs.
#[allow(clippy::float_cmp)] // `==` and `!=` are for whole numbers, which are exact.
pub(super) static FUNCTIONS: &[Function] = &[
    two("+", "sum", |a, b| a + b),
    two("-", "difference", |a, b| a - b),
    two("*", "product", |a, b| a * b),
    two("/", "quotient", |a, b| a / b),
    two("^", "power", f64::powf),
    two("<", "1 where it holds, else 0, as for all comparisons", |a, b| truth(a < b)),
    two("<=", "at most", |a, b| truth(a <= b)),
    two(">", "greater", |a, b| truth(a > b)),
    two(">=", "at least", |a, b| truth(a >= b)),
    two("==", "equal", |a, b| truth(a == b)),
    two("!=", "not equal", |a, b| truth(a != b)),
    any("max", 1, "the largest argument", Apply::Fold(f64::max)),
    any("min", 1, "the smallest argument", Apply::Fold(f64::min)),
    any(
        "index",
        2,
        "the place of the first argument among the others, from 0; 0 where it is absent",
        Apply::Index,
    ),
    two("round_up", "the first argument, rounded up to a multiple of the second", |number, step| {
        (number / step).ceil() * step
    }),
    one("not", "1 for 0, else 0", |number| truth(number == 0.0)),
    one("sqrt", "square root", f64::sqrt),
    one("exp", "exponential function", f64::exp),
    one("log", "natural logarithm", f64::ln),
    one("log2", "logarithm to the base 2", f64::log2),
    one("ceil", "the next whole number above", f64::ceil),
    one("floor", "the next whole number below", f64::floor),
    one("abs", "absolute value", f64::abs),
];

/// Returns the function or operator with this name.
pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Function {
    fn apply_to(&self, arguments: &[Expr], scope: &mut Scope<'_, '_>) -> f64 {
        let Some((first, rest)) = arguments.split_first() else { return f64::NAN };
        let first = first.evaluate(scope);
        match self.apply {
            Apply::One(apply) => apply(first),
            Apply::Two(apply) => rest.first().map_or(f64::NAN, |second| apply(first, second.evaluate(scope))),
            Apply::Fold(apply) => rest.iter().fold(first, |value, next| apply(value, next.evaluate(scope))),
            Apply::Index => {
                #[allow(clippy::float_cmp, clippy::cast_precision_loss)]
                let found = rest.iter().position(|one| one.evaluate(scope) == first);
                #[allow(clippy::cast_precision_loss)]
                found.map_or(0.0, |at| at as f64)
            }
        }
    }

    fn apply_signs(&self, left: f64, right: f64) -> f64 {
        match self.apply {
            Apply::Two(apply) | Apply::Fold(apply) => apply(left, right),
            Apply::One(_) | Apply::Index => f64::NAN,
        }
    }
}

/// Gives words and functions their values.
pub(super) trait Words {
    /// Returns the value of a word with these arguments; NaN if it has none.
    fn word(&self, at: usize, arguments: &[f64], scope: &mut Scope<'_, '_>) -> f64;

    /// Returns the price of a function in a table, if the table has one.
    fn price(&self, table: usize, function: &str, scope: &Scope<'_, '_>) -> Option<f64>;
}

/// The arguments of a word.
pub(super) type Arguments = SmallVec<[f64; 4]>;

/// The data for which an expression is evaluated.
pub(super) struct Scope<'s, 'q> {
    pub machine: &'s Machine,
    /// The kernel; `None` for a copy, which is not a kernel.
    pub query: Option<&'s Query<'q>>,
    /// Bytes of the constants of the model, for a kernel that reads some of them.
    pub constants: f64,
    pub words: &'s dyn Words,
    /// The values of the words without parameters that are already known.
    pub known: Vec<Option<f64>>,
    /// The part of the list that is about the op.
    pub view: Arc<View>,
    /// The features that were read so far.
    pub numbers: [Option<f64>; BASIC.len()],
    /// The parameters of the definition that is evaluated.
    pub parameters: Arguments,
    /// The index of the current operand in [`Expr::EachOperand`].
    pub operand: usize,
    /// What is evaluated, if it is to be shown.
    pub trace: Option<Trace>,
}

impl Scope<'_, '_> {
    /// Notes a number that is read, and returns it.
    fn noted(&mut self, name: &str, value: f64) -> f64 {
        if let Some(trace) = &mut self.trace {
            trace.reads(name, value);
        }
        value
    }
}

impl Expr {
    /// Returns the value; NaN if the kernel lacks something that the expression reads.
    pub(super) fn evaluate(&self, scope: &mut Scope<'_, '_>) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Speed(at) => {
                let speed = &quantity::SPEEDS[*at];
                scope.noted(speed.name, speed.value(scope.machine))
            }
            Self::Constants => scope.noted("constants", scope.constants),
            Self::Parameter(at) => scope.parameters.get(*at).copied().unwrap_or(f64::NAN),
            Self::Feature(at) => {
                let query = scope.query;
                let read = || query.map_or(f64::NAN, |query| quantity::feature(*at, query));
                let value = *scope.numbers[*at].get_or_insert_with(read);
                scope.noted(BASIC[*at].name, value)
            }
            Self::Own(name) => {
                let value = scope.query.map_or(f64::NAN, |query| query.own(name));
                scope.noted(name, value)
            }
            Self::Word(at, arguments) => {
                let arguments: Arguments = arguments.iter().map(|one| one.evaluate(scope)).collect();
                let words = scope.words;
                words.word(*at, &arguments, scope)
            }
            Self::Attribute(name, absent) => {
                match scope.query.and_then(|query| quantity::attribute(name, query)) {
                    Some(value) => value,
                    None => absent.evaluate(scope),
                }
            }
            Self::Measure(at, place, argument) => {
                let argument = argument.evaluate(scope);
                let Some(query) = scope.query else { return f64::NAN };
                quantity::measure(*at, *place, scope.operand, argument, query)
            }
            Self::Call(function, arguments) => function.apply_to(arguments, scope),
            Self::Chain(first, rest) => {
                let first = first.evaluate(scope);
                rest.iter().fold(first, |value, (sign, next)| sign.apply_signs(value, next.evaluate(scope)))
            }
            Self::Logic(all, conditions) => {
                let held = |one: &Expr, scope: &mut Scope<'_, '_>| one.evaluate(scope) != 0.0;
                truth(match all {
                    true => conditions.iter().all(|one| held(one, scope)),
                    false => conditions.iter().any(|one| held(one, scope)),
                })
            }
            Self::If(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.evaluate(scope) == 0.0 { no.evaluate(scope) } else { yes.evaluate(scope) }
            }
            Self::EachOperand(parts) => {
                let [first, term] = &**parts;
                let mut sum = first.evaluate(scope);
                for operand in 0..scope.query.map_or(0, |query| query.call.inputs.len()) {
                    scope.operand = operand;
                    sum += term.evaluate(scope);
                }
                sum
            }
            Self::Functions(table) => {
                let Some(query) = scope.query else { return f64::NAN };
                let words = scope.words;
                quantity::functions(query, &|name| words.price(*table, name, scope))
            }
            Self::StepsBesides(names) => {
                scope.query.map_or(f64::NAN, |query| quantity::steps_besides(names, query))
            }
        }
    }

    /// Visits the expression and all expressions within it.
    pub(super) fn visit(&self, look: &mut dyn FnMut(&Self)) {
        look(self);
        match self {
            Self::Number(_)
            | Self::Feature(_)
            | Self::Speed(_)
            | Self::Constants
            | Self::Parameter(_)
            | Self::Own(_)
            | Self::Functions(_)
            | Self::StepsBesides(_) => {}
            Self::Word(_, parts) | Self::Call(_, parts) | Self::Logic(_, parts) => {
                parts.iter().for_each(|part| part.visit(look));
            }
            Self::Attribute(_, part) | Self::Measure(_, _, part) => part.visit(look),
            Self::Chain(first, rest) => {
                first.visit(look);
                rest.iter().for_each(|(_, part)| part.visit(look));
            }
            Self::If(parts) => parts.iter().for_each(|part| part.visit(look)),
            Self::EachOperand(parts) => parts.iter().for_each(|part| part.visit(look)),
        }
    }
}
