//! The values that models take and give: tensors of numbers, tensors of strings, sequences, optional values and maps.
//!
//! Plans compute with tensors of numbers alone. The other kinds are arranged, read and written outside of plans.

use crate::tensor::{DType, Shape, Tensor};
use std::fmt;

/// A value of any kind.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor of numbers or booleans.
    Tensor(Tensor),
    /// A tensor of strings.
    Strings(Strings),
    /// A list of values.
    Sequence(Vec<Self>),
    /// A value that may be absent.
    Optional(Option<Box<Self>>),
    /// A list of keys, each with a value.
    Map(Map),
}

/// A tensor of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// Its shape.
    pub shape: Shape,
    /// Its elements, in row-major order.
    pub elements: Vec<String>,
}

/// A list of keys, each with a value.
#[derive(Clone, Debug)]
pub struct Map {
    /// The keys.
    pub keys: Keys,
    /// The values, in the order of the keys.
    pub values: Vec<Value>,
}

/// The keys of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Integers of this type.
    Integers(DType, Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

/// The type of a value, without shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A tensor of elements of this type.
    Tensor(DType),
    /// A tensor of strings.
    Strings,
    /// A sequence of values of one type.
    Sequence(Box<Self>),
    /// An optional value of this type.
    Optional(Box<Self>),
    /// A map from keys to values. The keys are integers of this type, or strings.
    Map(Option<DType>, Box<Self>),
}

impl Value {
    /// Returns the tensor of numbers; `None` for another kind.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the tensor of strings; `None` for another kind.
    pub fn strings(&self) -> Option<&Strings> {
        match self {
            Self::Strings(strings) => Some(strings),
            _ => None,
        }
    }

    /// Returns the kind in words, for messages: `a tensor`, `a sequence`, ….
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "a tensor",
            Self::Strings(_) => "a tensor of strings",
            Self::Sequence(_) => "a sequence",
            Self::Optional(_) => "an optional value",
            Self::Map(_) => "a map",
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl Strings {
    /// Makes a tensor of strings; `None` if there are not as many elements as the shape has.
    pub fn new(shape: impl Into<Shape>, elements: Vec<String>) -> Option<Self> {
        let shape = shape.into();
        (shape.count() == elements.len()).then_some(Self { shape, elements })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(dtype) => write!(f, "tensor({dtype})"),
            Self::Strings => f.write_str("tensor(string)"),
            Self::Sequence(element) => write!(f, "seq({element})"),
            Self::Optional(element) => write!(f, "optional({element})"),
            Self::Map(Some(key), value) => write!(f, "map({key},{value})"),
            Self::Map(None, value) => write!(f, "map(string,{value})"),
        }
    }
}
