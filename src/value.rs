//! The values that models take and give: tensors, sequences, optional values and maps.
//!
//! Plans compute with tensors alone. The other kinds are arranged, read and written outside of plans.

use crate::tensor::{DType, Tensor};
use std::fmt;

/// A value of any kind.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A list of values.
    Sequence(Vec<Self>),
    /// A value that may be absent.
    Optional(Option<Box<Self>>),
    /// A list of keys, each with a value.
    Map(Map),
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
    /// A sequence of values of one type.
    Sequence(Box<Self>),
    /// An optional value of this type.
    Optional(Box<Self>),
    /// A map from keys to values. The keys are integers of this type, or strings.
    Map(Option<DType>, Box<Self>),
}

impl Value {
    /// Returns the tensor; `None` for another kind.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the kind in words, for messages: `a tensor`, `a sequence`, ….
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "a tensor",
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

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(dtype) => write!(f, "tensor({dtype})"),
            Self::Sequence(element) => write!(f, "seq({element})"),
            Self::Optional(element) => write!(f, "optional({element})"),
            Self::Map(Some(key), value) => write!(f, "map({key},{value})"),
            Self::Map(None, value) => write!(f, "map(string,{value})"),
        }
    }
}
