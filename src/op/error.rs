//! What can be wrong with an op's attributes and operands, and why a kernel does not take a call.

use crate::tensor::TensorType;

/// Why an op does not take its attributes or operands, or has no kernel for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Too few or too many operands.
    #[error("`{op}` takes {takes}, {given} {} given", if *given == 1 { "is" } else { "are" })]
    Count {
        /// The op.
        op: &'static str,
        /// How many it takes, in words.
        takes: String,
        /// How many there are.
        given: usize,
    },
    /// One operand is of a type, in a layout or in a memory that the op does not take.
    #[error("operand {operand} is {ty}{why}")]
    Operand {
        /// Its place among the operands.
        operand: usize,
        /// Its type.
        ty: Box<TensorType>,
        /// What is wrong with it: how the sentence goes on, with its punctuation.
        why: String,
    },
    /// Operands that do not fit each other or the attributes.
    #[error("{why}")]
    Operands {
        /// How they differ.
        why: String,
    },
    /// An attribute has a value that the op does not take.
    #[error("attribute `{name}` {why}")]
    Attribute {
        /// The attribute.
        name: String,
        /// What is wrong with it: how the sentence goes on.
        why: String,
    },
    /// A chain or tree of elementwise steps that is none.
    #[error("{why}")]
    Steps {
        /// Which step, and what is wrong with it.
        why: String,
    },
    /// The type of a leaf is declared: nothing infers it.
    #[error("the type of a leaf is declared, not inferred")]
    Leaf,
    /// No kernel runs a logical op.
    #[error("`{op}` is a logical op: no kernel runs it")]
    Logical {
        /// The op.
        op: &'static str,
    },
    /// The backend that has the kernel is not one of those that a pipeline names.
    #[error("backend `{backend}` is not in this pipeline")]
    NotInPlay {
        /// The backend.
        backend: String,
    },
    /// A cost model has no price for the call.
    #[error("the cost model `{model}` has no price for {call}")]
    Unpriced {
        /// The cost model.
        model: String,
        /// The call, in words.
        call: String,
    },
    /// The kernel does not take the call, though the op takes its operands.
    #[error("{why}")]
    Kernel {
        /// What it does not take.
        why: String,
    },
    /// The library or the device that runs the kernel is absent, or refused the call.
    #[error("{why}")]
    Backend {
        /// What it said.
        why: String,
    },
}

impl OpError {
    /// That an operand is wrong; `why` goes on after its type, with its punctuation.
    pub fn operand(operand: usize, ty: &TensorType, why: impl Into<String>) -> Self {
        Self::Operand { operand, ty: Box::new(ty.clone()), why: why.into() }
    }

    /// That operands do not fit each other or the attributes.
    pub fn operands(why: impl Into<String>) -> Self {
        Self::Operands { why: why.into() }
    }

    /// That an attribute is wrong; `why` goes on after its name.
    pub fn attribute(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Attribute { name: name.into(), why: why.into() }
    }

    /// That a step of a chain or tree is wrong.
    pub fn steps(why: impl Into<String>) -> Self {
        Self::Steps { why: why.into() }
    }

    /// That the kernel does not take the call.
    pub fn kernel(why: impl Into<String>) -> Self {
        Self::Kernel { why: why.into() }
    }

    /// That the library or the device is absent, or refused the call.
    pub fn backend(why: impl std::fmt::Display) -> Self {
        Self::Backend { why: why.to_string() }
    }
}
