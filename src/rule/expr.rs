//! Expressions over the variables that a match binds: guards and computed attributes.

use super::{AttrVar, Expr, Guard, Kind, OperandVar, RestVar};
use crate::attr::{Attr, Step};
use crate::tensor::{Tensor, TensorType};
use std::fmt;
use std::ops::Deref;

/// The facts about an operand.
#[derive(Clone, Copy, Debug)]
pub struct Fact<'a> {
    /// The type.
    pub ty: &'a TensorType,
    /// Whether it is computed only from constants.
    pub constant: bool,
    /// The value, if it is constant and small.
    pub value: Option<&'a Tensor>,
    /// The value, if it is one of the graph's constants.
    pub leaf: Option<&'a Tensor>,
    /// The graph's constants among whose elements all of its elements are; empty if that is not known, or if it is no
    /// constant.
    pub sources: &'a [Tensor],
    /// Whether it is a value that the match computes: the operand equals the result.
    pub root: bool,
}

impl Fact<'_> {
    /// The most elements of a value that is kept as a fact, for guards to read. In the e-graph, ops on such values are
    /// evaluated at once.
    pub const SMALL: usize = 64;
}

/// Returns the value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// An attribute.
    Attr(Attr),
    /// An operand.
    Operand(Fact<'a>),
    /// The rest of the operands.
    Rest(Vec<Fact<'a>>),
}

impl Value<'_> {
    /// Returns the value of a guard that accepts the match.
    pub fn yes() -> Self {
        Self::Attr(Attr::Int(1))
    }
}

/// A word of rules: a guard or a computed attribute.
pub struct Word {
    /// The name, in kebab case.
    pub name: &'static str,
    /// The meaning, in one line.
    pub doc: &'static str,
    /// The kinds of the arguments.
    pub takes: &'static [Kind],
    /// The kind of further arguments, if there may be any number of them.
    pub more: Option<Kind>,
    /// The kind of the result: a guard, or an attribute of some kind.
    pub gives: Kind,
    /// The evaluation. The error says why a guard rejects the match, or why an attribute cannot be computed.
    pub eval: Eval,
}

/// A guard's no, or why an attribute cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum No {
    /// A guard of a rule says no.
    #[error("{guard}: {why}")]
    Guard {
        /// The guard, as the rule writes it.
        guard: String,
        /// Its reason.
        why: Box<No>,
    },
    /// A variable is not bound.
    #[error("a variable is not bound")]
    Unbound,
    /// The optional operand is absent.
    #[error("the optional operand is absent")]
    Absent,
    /// An argument is of another kind than the function takes.
    #[error("argument {place} is {found}, not {wanted}")]
    Argument {
        /// Its place, from 1.
        place: usize,
        /// What it is.
        found: String,
        /// What the function takes.
        wanted: &'static str,
    },
    /// The reason of a function of its own, in words.
    #[error("{0}")]
    Reason(String),
}

impl No {
    fn argument(at: usize, found: impl fmt::Display, wanted: &'static str) -> Self {
        Self::Argument { place: at + 1, found: found.to_string(), wanted }
    }
}

impl From<String> for No {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

/// The function that evaluates a guard or a computed attribute.
pub type Eval = for<'v, 'a> fn(&Arguments<'v, 'a>) -> Result<Value<'a>, No>;

/// The arguments of a guard or a computed attribute: values with their texts.
pub struct Arguments<'v, 'a> {
    values: &'v [Value<'a>],
    exprs: &'v [Expr],
    bindings: &'v dyn Bindings,
}

impl<'a> Deref for Arguments<'_, 'a> {
    type Target = [Value<'a>];
    fn deref(&self) -> &Self::Target {
        self.values
    }
}

impl<'a> Arguments<'_, 'a> {
    /// Returns the text of an argument with its value, for messages.
    pub fn show(&self, at: usize) -> String {
        match (self.values.get(at), self.exprs.get(at)) {
            (Some(value), Some(expr)) => shown(expr, value, self.bindings),
            _ => String::new(),
        }
    }

    /// Returns an argument that is an operand.
    ///
    /// # Errors
    /// This and the following: if there is no such argument, or it is of another kind. The error says which one, and
    /// rejects the match.
    pub fn operand(&self, at: usize) -> Result<&Fact<'a>, No> {
        argument::operand(self.values, at)
    }

    /// Returns an argument that is a rest of operands.
    pub fn rest(&self, at: usize) -> Result<&[Fact<'a>], No> {
        argument::rest(self.values, at)
    }

    /// Returns an argument that is an attribute of any kind.
    pub fn attr(&self, at: usize) -> Result<&Attr, No> {
        argument::attr(self.values, at)
    }

    /// Returns an argument that is an integer.
    pub fn int(&self, at: usize) -> Result<i64, No> {
        argument::int(self.values, at)
    }

    /// Returns an argument that is a number.
    pub fn float(&self, at: usize) -> Result<f64, No> {
        argument::float(self.values, at)
    }

    /// Returns an argument that is a list of integers.
    pub fn ints(&self, at: usize) -> Result<&[i64], No> {
        argument::ints(self.values, at)
    }

    /// Returns an argument that is a text.
    pub fn text(&self, at: usize) -> Result<&str, No> {
        argument::text(self.values, at)
    }

    /// Returns an argument that is a post chain.
    pub fn post(&self, at: usize) -> Result<&[Step], No> {
        argument::post(self.values, at)
    }
}

/// Returns the text of an expression, if names are known, with its value.
fn shown(expr: &Expr, value: &Value<'_>, bindings: &dyn Bindings) -> String {
    let value = match value {
        Value::Attr(attr) => attr.to_string(),
        Value::Operand(fact) => fact.ty.to_string(),
        Value::Rest(facts) => facts.iter().map(|fact| fact.ty.to_string()).collect::<Vec<_>>().join(", "),
    };
    match bindings.written(expr) {
        Some(text) if !matches!(expr, Expr::Literal(_) | Expr::Step(_)) => format!("{text} ({value})"),
        _ => value,
    }
}

impl Word {
    /// Returns whether the function is a guard.
    pub fn is_guard(&self) -> bool {
        self.gives == Kind::Guard
    }

    /// Returns the smallest and the largest number of arguments.
    pub(crate) fn arity(&self) -> (usize, usize) {
        (self.takes.len(), if self.more.is_some() { usize::MAX } else { self.takes.len() })
    }

    /// Returns the kind of the argument at this index.
    pub(crate) fn argument(&self, at: usize) -> Option<Kind> {
        self.takes.get(at).copied().or(self.more)
    }

    /// Returns the signature as text: `rank(operand, size)`.
    pub fn signature(&self) -> String {
        let mut takes: Vec<String> = self.takes.iter().map(ToString::to_string).collect();
        takes.extend(self.more.map(|kind| format!("{kind}..")));
        format!("{}({})", self.name, takes.join(", "))
    }

    /// Returns a guard. Its error says why it rejects a match.
    pub const fn guard(name: &'static str, doc: &'static str, takes: &'static [Kind], eval: Eval) -> Self {
        Self { name, doc, takes, more: None, gives: Kind::Guard, eval }
    }

    /// Returns a computed attribute of a kind. Its error says why it cannot be computed.
    pub const fn computed(
        name: &'static str,
        doc: &'static str,
        takes: &'static [Kind],
        gives: Kind,
        eval: Eval,
    ) -> Self {
        Self { name, doc, takes, more: None, gives, eval }
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({})", self.name)
    }
}

/// The values of variables in a match.
pub trait Bindings {
    /// An operand.
    fn operand(&self, var: OperandVar) -> Option<Fact<'_>>;
    /// The rest of the operands.
    fn rest(&self, var: RestVar) -> Option<Vec<Fact<'_>>>;
    /// An attribute.
    fn attr(&self, var: AttrVar) -> Option<Attr>;
    /// Returns the text of an expression in the rule, if it is known. Messages use it.
    fn written(&self, expr: &Expr) -> Option<String>;
}

/// Evaluates a guard. A guard that uses an absent optional operand is skipped and accepts the match.
///
/// # Errors
/// If the guard rejects the match; with the guard and the reason.
pub fn ask(guard: &Guard, bindings: &dyn Bindings) -> Result<(), No> {
    let refused = |why| No::Guard { guard: guard.text.to_string(), why: Box::new(why) };
    match eval(&guard.expr, bindings) {
        Ok(Value::Attr(Attr::Int(1))) => Ok(()),
        Ok(_) => Err(refused(String::from("it returns neither `Value::yes()` nor a reason").into())),
        Err(_) if names_absent(&guard.expr, bindings) => Ok(()),
        Err(why) => Err(refused(why)),
    }
}

fn names_absent(expr: &Expr, bindings: &dyn Bindings) -> bool {
    match expr {
        Expr::Optional(var) => bindings.rest(*var).is_some_and(|facts| facts.is_empty()),
        Expr::Call(_, arguments) => arguments.iter().any(|one| names_absent(one, bindings)),
        _ => false,
    }
}

/// Returns the value of an expression.
///
/// # Errors
/// If a guard rejects the match, or an attribute cannot be computed; with the reason.
pub fn eval<'a>(expr: &Expr, bindings: &'a dyn Bindings) -> Result<Value<'a>, No> {
    let unbound = || No::Unbound;
    match expr {
        Expr::Literal(attr) => Ok(Value::Attr(attr.clone())),
        Expr::Step(op) => Ok(Value::Attr(Attr::Post(vec![Step { op: *op, parameters: Vec::new() }]))),
        Expr::Attr(var) => bindings.attr(*var).map(Value::Attr).ok_or_else(unbound),
        Expr::Operand(var) => bindings.operand(*var).map(Value::Operand).ok_or_else(unbound),
        Expr::Rest(var) => bindings.rest(*var).map(Value::Rest).ok_or_else(unbound),
        Expr::Optional(var) => match bindings.rest(*var).ok_or_else(unbound)?[..] {
            [fact] => Ok(Value::Operand(fact)),
            _ => Err(No::Absent),
        },
        // These two functions depend on whether their arguments are rejected, so they evaluate them themselves.
        Expr::Call(function, arguments) if function.name == "not" => {
            match arguments.first().map(|one| (one, eval(one, bindings))) {
                Some((inner, Ok(_))) => Err(holds(inner, bindings).into()),
                _ => Ok(Value::yes()),
            }
        }
        Expr::Call(function, arguments) if function.name == "any" => {
            let mut reasons = Vec::new();
            for argument in arguments {
                match eval(argument, bindings) {
                    Ok(_) => return Ok(Value::yes()),
                    Err(why) => reasons.push(why.to_string()),
                }
            }
            Err(reasons.join("; and ").into())
        }
        Expr::Call(function, arguments) => {
            let values = arguments.iter().map(|one| eval(one, bindings)).collect::<Result<Vec<_>, _>>()?;
            (function.eval)(&Arguments { values: &values, exprs: arguments, bindings })
        }
    }
}

/// Returns the message that a guard holds that must not, with its arguments.
fn holds(guard: &Expr, bindings: &dyn Bindings) -> String {
    let Expr::Call(function, arguments) = guard else { return "what must not hold holds".into() };
    let values: Vec<String> = arguments
        .iter()
        .filter(|one| !matches!(one, Expr::Literal(_) | Expr::Step(_)))
        .filter_map(|one| Some(shown(one, &eval(one, bindings).ok()?, bindings)))
        .collect();
    let text = bindings.written(guard).unwrap_or_else(|| function.name.to_owned());
    format!("`{text}` holds of {}", values.join(" and "))
}

/// Access to arguments by kind. Errors name the position.
pub(super) mod argument {
    use super::{Attr, Fact, No, Value};
    use crate::attr::Step;

    pub(crate) fn operand<'v, 'a>(values: &'v [Value<'a>], at: usize) -> Result<&'v Fact<'a>, No> {
        match values.get(at) {
            Some(Value::Operand(fact)) => Ok(fact),
            other => Err(No::argument(at, kind(other), "an operand")),
        }
    }

    pub(crate) fn rest<'v, 'a>(values: &'v [Value<'a>], at: usize) -> Result<&'v [Fact<'a>], No> {
        match values.get(at) {
            Some(Value::Rest(facts)) => Ok(facts),
            other => Err(No::argument(at, kind(other), "a rest of operands")),
        }
    }

    pub(crate) fn attr<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v Attr, No> {
        match values.get(at) {
            Some(Value::Attr(attr)) => Ok(attr),
            other => Err(No::argument(at, kind(other), "an attribute")),
        }
    }

    fn kind(value: Option<&Value<'_>>) -> String {
        match value {
            Some(Value::Attr(attr)) => attr.to_string(),
            Some(Value::Operand(fact)) => format!("an operand of type {}", fact.ty),
            Some(Value::Rest(_)) => "a rest of operands".into(),
            None => "missing".into(),
        }
    }

    pub(crate) fn int(values: &[Value<'_>], at: usize) -> Result<i64, No> {
        match attr(values, at)? {
            Attr::Int(value) => Ok(*value),
            other => Err(No::argument(at, other, "an integer")),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn float(values: &[Value<'_>], at: usize) -> Result<f64, No> {
        match attr(values, at)? {
            Attr::Float(value) => Ok(value.0),
            Attr::Int(value) => Ok(*value as f64),
            other => Err(No::argument(at, other, "a number")),
        }
    }

    pub(crate) fn ints<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v [i64], No> {
        match attr(values, at)? {
            Attr::Ints(list) => Ok(list),
            other => Err(No::argument(at, other, "a list")),
        }
    }

    pub(crate) fn text<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v str, No> {
        match attr(values, at)? {
            Attr::Str(text) => Ok(text),
            other => Err(No::argument(at, other, "text")),
        }
    }

    pub(crate) fn post<'v>(values: &'v [Value<'_>], at: usize) -> Result<&'v [Step], No> {
        match attr(values, at)? {
            Attr::Post(steps) => Ok(steps),
            other => Err(No::argument(at, other, "a post chain")),
        }
    }
}
