//! Expressions over what a match binds: guards and computed attributes.

use super::{AttrVar, Expr, OperandVar, RestVar, compute, guard};
use crate::attr::Attr;
use crate::tensor::{Tensor, TensorType};
use std::fmt;

/// What is known of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Fact<'a> {
    /// Its type.
    pub ty: &'a TensorType,
    /// Whether it is computed from constants alone.
    pub constant: bool,
    /// Its value, where it is constant and small.
    pub value: Option<&'a Tensor>,
}

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// An attribute.
    Attr(Attr),
    /// An operand.
    Operand(Fact<'a>),
    /// The rest of the operands.
    Rest(Vec<Fact<'a>>),
}

/// A guard or a computed attribute.
pub struct Function {
    /// Its name, in kebab case.
    pub name: &'static str,
    /// What it says or gives, in one line.
    pub doc: &'static str,
    /// The fewest and the most arguments.
    pub arity: (usize, usize),
    /// Whether it is a condition.
    pub guard: bool,
    /// A guard's error is its reason for no; a computed attribute's is why there is none.
    pub eval: for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, String>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}

/// Every guard and computed attribute.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    guard::GUARDS.iter().chain(compute::COMPUTED)
}

/// Looks up what variables stand for.
pub trait Bindings {
    /// An operand.
    fn operand(&self, var: OperandVar) -> Option<Fact<'_>>;
    /// The rest of the operands.
    fn rest(&self, var: RestVar) -> Option<Vec<Fact<'_>>>;
    /// An attribute.
    fn attr(&self, var: AttrVar) -> Option<Attr>;
}

/// The value of an expression.
///
/// # Errors
/// A guard's reason for no, or why an attribute cannot be computed.
pub fn eval<'a>(expr: &Expr, bindings: &'a dyn Bindings) -> Result<Value<'a>, String> {
    let unbound = || "a variable is not bound".to_owned();
    match expr {
        Expr::Literal(attr) => Ok(Value::Attr(attr.clone())),
        Expr::Attr(var) => bindings.attr(*var).map(Value::Attr).ok_or_else(unbound),
        Expr::Operand(var) => bindings.operand(*var).map(Value::Operand).ok_or_else(unbound),
        Expr::Rest(var) => bindings.rest(*var).map(Value::Rest).ok_or_else(unbound),
        // These two are about their arguments' noes, so they see them.
        Expr::Call(function, arguments) if function.name == "not" => {
            match arguments.first().map(|one| eval(one, bindings)) {
                Some(Ok(_)) => Err("what must not hold holds".into()),
                _ => Ok(guard::yes()),
            }
        }
        Expr::Call(function, arguments) if function.name == "any" => {
            let mut reasons = Vec::new();
            for argument in arguments {
                match eval(argument, bindings) {
                    Ok(_) => return Ok(guard::yes()),
                    Err(why) => reasons.push(why),
                }
            }
            Err(reasons.join("; and "))
        }
        Expr::Call(function, arguments) => {
            let values = arguments.iter().map(|one| eval(one, bindings)).collect::<Result<Vec<_>, _>>()?;
            (function.eval)(&values)
        }
    }
}

/// Arguments by kind; errors name the position.
pub(super) mod argument {
    use super::{Attr, Fact, Value};
    use crate::attr::Step;

    pub fn operand<'v, 'a>(values: &'v [Value<'a>], at: usize) -> Result<&'v Fact<'a>, String> {
        match values.get(at) {
            Some(Value::Operand(fact)) => Ok(fact),
            other => Err(format!("argument {} is {other:?}, not an operand", at + 1)),
        }
    }

    pub fn rest<'v, 'a>(values: &'v [Value<'a>], at: usize) -> Result<&'v [Fact<'a>], String> {
        match values.get(at) {
            Some(Value::Rest(facts)) => Ok(facts),
            other => Err(format!("argument {} is {other:?}, not a rest of operands", at + 1)),
        }
    }

    pub fn attr<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v Attr, String> {
        match values.get(at) {
            Some(Value::Attr(attr)) => Ok(attr),
            other => Err(format!("argument {} is {other:?}, not an attribute", at + 1)),
        }
    }

    pub fn int(values: &[Value<'_>], at: usize) -> Result<i64, String> {
        match attr(values, at)? {
            Attr::Int(value) => Ok(*value),
            other => Err(format!("argument {} is {other}, not an integer", at + 1)),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub fn float(values: &[Value<'_>], at: usize) -> Result<f64, String> {
        match attr(values, at)? {
            Attr::Float(value) => Ok(value.0),
            Attr::Int(value) => Ok(*value as f64),
            other => Err(format!("argument {} is {other}, not a number", at + 1)),
        }
    }

    pub fn ints<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v [i64], String> {
        match attr(values, at)? {
            Attr::Ints(list) => Ok(list),
            other => Err(format!("argument {} is {other}, not a list", at + 1)),
        }
    }

    pub fn post<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v [Step], String> {
        match attr(values, at)? {
            Attr::Post(steps) => Ok(steps),
            other => Err(format!("argument {} is {other}, not a post chain", at + 1)),
        }
    }

    pub fn text<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v str, String> {
        match attr(values, at)? {
            Attr::Str(text) => Ok(text),
            other => Err(format!("argument {} is {other}, not text in quotes", at + 1)),
        }
    }
}
