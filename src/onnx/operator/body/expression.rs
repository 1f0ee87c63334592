//! Expressions in bodies, which are computed when a model is imported.
//!
//! | Form | Meaning |
//! |---|---|
//! | `2`, `0.5`, `'text'`, `[1, -1]` | an integer, a float, a text, a list |
//! | `@axis` | the attribute of the operator |
//! | `a + b`, `a - b`, `a * b`, `a / b`, `-a` | arithmetic; `+` joins lists, and `/` of integers rounds down |
//! | `a == b`, `!=`, `<`, `<=`, `>`, `>=`, `not a`, `a and b`, `a or b` | conditions |
//! | `given(x)`, `given(@axis)` | whether an operand or an attribute is given |
//! | `wanted(y)` | whether the model has a name for a result |
//! | `rank(x)`, `dim(x, 1)`, `dims(x)` | the number of dimensions, one of them, all of them; `-1` is the last |
//! | `type(x)`, `code(x)` | the element type of a value by its name (`'f32'`) and by its number in ONNX |
//! | `value(x)` | the elements of a value that must be known; one element is a number |
//! | `opset()` | the opset of the node whose body this is |
//! | `least(x)`, `most(x)` | the limits of the element type of a value |
//! | `sqrt(a)`, `min(a, b)`, `max(a, b)`, `product(list)`, `length(list)` | functions of numbers and lists |
//! | `first(list, n)`, `rest(list, n)` | the first `n` entries, and those after them |
//! | `at(list, n)` | the entry after the first `n` |
//! | `range(n)` | the list from 0 to `n - 1` |
//! | `repeat(a, n)` | a list of `n` times the same entry |

use crate::onnx::Refusal;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Number(Number),
    Attribute(String),
    /// A name of a value, which only functions take.
    Name(String),
    List(Vec<Expression>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Function(Function, Vec<Expression>),
}

/// What an expression is when it is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// An attribute that is not given.
    Absent,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Number>),
}

/// The operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
}

/// The operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

macro_rules! functions {
    ($($variant:ident $name:literal $count:literal,)*) => {
        /// The functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($variant,)* }

        impl Function {
            /// The names of all functions.
            pub(super) const NAMES: &[&str] = &[$($name,)*];

            /// Returns the function of this name, and the number of its operands.
            pub(super) fn find(name: &str) -> Option<(Self, usize)> {
                match name {
                    $($name => Some((Self::$variant, $count)),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Given "given" 1,
    Wanted "wanted" 1,
    Rank "rank" 1,
    Dim "dim" 2,
    Dims "dims" 1,
    Type "type" 1,
    Code "code" 1,
    Value "value" 1,
    Opset "opset" 0,
    Least "least" 1,
    Most "most" 1,
    Sqrt "sqrt" 1,
    Min "min" 2,
    Max "max" 2,
    Product "product" 1,
    Length "length" 1,
    First "first" 2,
    Rest "rest" 2,
    At "at" 2,
    Range "range" 1,
    Repeat "repeat" 2,
}

/// What expressions may ask of the call whose body they are in.
pub(super) trait Scope {
    /// Returns the value of an attribute.
    fn attribute(&self, name: &str) -> Result<Number, Refusal>;
    /// Returns the opset of the node.
    fn opset(&self) -> i64;
    /// Applies a function that takes the name of a value.
    fn of_value(&self, function: Function, name: &str) -> Result<Number, Refusal>;
}

impl Expression {
    /// Computes the expression.
    pub(super) fn compute(&self, scope: &dyn Scope) -> Result<Number, Refusal> {
        match self {
            Self::Number(number) => Ok(number.clone()),
            Self::Attribute(name) => scope.attribute(name),
            Self::Name(name) => Err(Refusal::other(format!("`{name}` is a value, not a number"))),
            Self::List(items) => {
                items.iter().map(|item| item.compute(scope)).collect::<Result<_, _>>().map(Number::List)
            }
            Self::Unary(kind, operand) => unary(*kind, operand.compute(scope)?),
            // The right operand is only computed where it decides.
            Self::Binary(Binary::And, a, b) => {
                Ok(Number::Bool(a.compute(scope)?.truth()? && b.compute(scope)?.truth()?))
            }
            Self::Binary(Binary::Or, a, b) => {
                Ok(Number::Bool(a.compute(scope)?.truth()? || b.compute(scope)?.truth()?))
            }
            Self::Binary(kind, a, b) => binary(*kind, &a.compute(scope)?, &b.compute(scope)?),
            Self::Function(function, operands) => match (function, &operands[..]) {
                (Function::Given, [operand @ Self::Attribute(_)]) => {
                    Ok(Number::Bool(operand.compute(scope)? != Number::Absent))
                }
                (Function::Dim, [Self::Name(name), at]) => {
                    let dims = scope.of_value(Function::Dims, name)?.list()?;
                    let at = at.compute(scope)?.int()?;
                    let place = if at < 0 { at + length(&dims) } else { at };
                    let dim = usize::try_from(place).ok().and_then(|place| dims.get(place).cloned());
                    dim.ok_or_else(|| Refusal::other(format!("`{name}` has no dimension {at}")))
                }
                (Function::Opset, _) => Ok(Number::Int(scope.opset())),
                (_, [Self::Name(name)]) => scope.of_value(*function, name),
                (_, operands) => {
                    let operands = operands.iter().map(|operand| operand.compute(scope));
                    apply(*function, &operands.collect::<Result<Vec<_>, _>>()?)
                }
            },
        }
    }
}

impl Number {
    /// Returns whether a condition holds.
    pub(super) fn truth(&self) -> Result<bool, Refusal> {
        match self {
            Self::Bool(truth) => Ok(*truth),
            Self::Int(number) => Ok(*number != 0),
            other => Err(other.is_not("a condition")),
        }
    }

    /// Returns a whole number.
    pub(super) fn int(&self) -> Result<i64, Refusal> {
        match self {
            Self::Int(number) => Ok(*number),
            Self::Bool(truth) => Ok(i64::from(*truth)),
            other => Err(other.is_not("a whole number")),
        }
    }

    /// Returns any number.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn float(&self) -> Result<f64, Refusal> {
        match self {
            Self::Int(number) => Ok(*number as f64),
            Self::Float(number) => Ok(*number),
            other => Err(other.is_not("a number")),
        }
    }

    /// Returns a text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of a list.
    pub(super) fn list(self) -> Result<Vec<Self>, Refusal> {
        match self {
            Self::List(items) => Ok(items),
            other => Err(other.is_not("a list")),
        }
    }

    fn is_not(&self, wanted: &str) -> Refusal {
        match self {
            Self::Absent => Refusal::other("an attribute that it needs is missing"),
            other => Refusal::other(format!("{other:?} is not {wanted}")),
        }
    }
}

fn length(list: &[Number]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

fn unary(kind: Unary, operand: Number) -> Result<Number, Refusal> {
    match (kind, operand) {
        (Unary::Not, operand) => operand.truth().map(|truth| Number::Bool(!truth)),
        (Unary::Minus, Number::Int(number)) => Ok(Number::Int(-number)),
        (Unary::Minus, operand) => operand.float().map(|number| Number::Float(-number)),
    }
}

#[allow(clippy::float_cmp)]
fn binary(kind: Binary, a: &Number, b: &Number) -> Result<Number, Refusal> {
    use Number::{Bool, Float, Int, List};
    if let (Binary::Add, List(first), List(second)) = (kind, a, b) {
        return Ok(List(first.iter().chain(second).cloned().collect()));
    }
    if let (Int(a), Int(b)) = (a, b) {
        let overflow = || Refusal::other(format!("{kind:?} of {a} and {b} has no result"));
        let number = match kind {
            Binary::Add => a.checked_add(*b),
            Binary::Sub => a.checked_sub(*b),
            Binary::Mul => a.checked_mul(*b),
            Binary::Div => a.checked_div_euclid(*b),
            _ => Some(0),
        };
        let number = number.ok_or_else(overflow)?;
        if matches!(kind, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) {
            return Ok(Int(number));
        }
    }
    if matches!(kind, Binary::Equal | Binary::NotEqual) {
        let same = match (a.float(), b.float()) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        };
        return Ok(Bool(same == (kind == Binary::Equal)));
    }
    let (a, b) = (a.float()?, b.float()?);
    Ok(match kind {
        Binary::Add => Float(a + b),
        Binary::Sub => Float(a - b),
        Binary::Mul => Float(a * b),
        Binary::Div => Float(a / b),
        Binary::Less => Bool(a < b),
        Binary::LessEqual => Bool(a <= b),
        Binary::Greater => Bool(a > b),
        Binary::GreaterEqual => Bool(a >= b),
        // Handled above, before both operands were computed.
        Binary::Equal | Binary::NotEqual | Binary::And | Binary::Or => Bool(false),
    })
}

fn apply(function: Function, operands: &[Number]) -> Result<Number, Refusal> {
    let list = |at: usize| operands[at].clone().list();
    let place = |at: usize| -> Result<usize, Refusal> {
        let number = operands[at].int()?;
        usize::try_from(number).map_err(|_| Refusal::other(format!("{number} is negative")))
    };
    Ok(match function {
        Function::Sqrt => Number::Float(operands[0].float()?.sqrt()),
        Function::Min | Function::Max => {
            let first = operands[0].float()? <= operands[1].float()?;
            operands[usize::from(first != (function == Function::Min))].clone()
        }
        Function::Product => {
            let product = list(0)?.iter().try_fold(1_i64, |product, item| {
                product.checked_mul(item.int()?).ok_or_else(|| Refusal::other("a product is too large"))
            });
            Number::Int(product?)
        }
        Function::Length => Number::Int(length(&list(0)?)),
        Function::First => Number::List(list(0)?.into_iter().take(place(1)?).collect()),
        Function::Rest => Number::List(list(0)?.into_iter().skip(place(1)?).collect()),
        Function::At => {
            let (list, place) = (list(0)?, place(1)?);
            list.get(place).cloned().ok_or_else(|| Refusal::other(format!("a list has no entry {place}")))?
        }
        Function::Range => Number::List((0..operands[0].int()?).map(Number::Int).collect()),
        Function::Repeat => Number::List(vec![operands[0].clone(); place(1)?]),
        Function::Given
        | Function::Wanted
        | Function::Rank
        | Function::Dim
        | Function::Dims
        | Function::Type
        | Function::Code
        | Function::Value
        | Function::Opset
        | Function::Least
        | Function::Most => {
            return Err(Refusal::other(format!("{function:?} takes the name of a value")));
        }
    })
}
