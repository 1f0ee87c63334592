//! What can be wrong with an op's attributes and operands, and why there is no kernel for a call.

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
    /// The op does not take the type, the layout or the memory of an operand.
    #[error("operand {operand} is {ty}{why}")]
    Operand {
        /// The index of the operand.
        operand: usize,
        /// Its type.
        ty: Box<TensorType>,
        /// What is wrong with it, as the rest of the sentence, with its punctuation.
        why: String,
    },
    /// Operands do not fit each other or the attributes.
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
        /// What is wrong with it, as the rest of the sentence.
        why: String,
    },
    /// A list of steps is not a valid chain or tree.
    #[error("{why}")]
    Steps {
        /// Which step is wrong, and why.
        why: String,
    },
    /// Inference was asked for the type of a leaf, which is declared.
    #[error("the type of a leaf is declared, not inferred")]
    Leaf,
    /// A kernel was asked for a logical op, which has none.
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
    /// There is no kernel for the call, although the op takes its operands.
    #[error("{why}")]
    Kernel {
        /// What the kernel does not support.
        why: String,
    },
    /// The contract of a kernel cannot be kept, which is a mistake of its backend.
    #[error("the contract of `{op}` {why}: this is a mistake of its backend")]
    Contract {
        /// The lowered op.
        op: &'static str,
        /// What is wrong with the contract, as the rest of the sentence.
        why: String,
    },
    /// The device has not enough memory for the call now.
    #[error("{why}")]
    Memory {
        /// The message of the device.
        why: String,
    },
    /// The library or the device that runs the kernel is absent, or refused the call.
    #[error("{why}")]
    Backend {
        /// The message of the library or device.
        why: String,
    },
}

impl OpError {
    /// Makes the error of a wrong operand. `why` continues the sentence after the operand's type, with its
    /// punctuation.
    pub fn operand(operand: usize, ty: &TensorType, why: impl Into<String>) -> Self {
        Self::Operand { operand, ty: Box::new(ty.clone()), why: why.into() }
    }

    /// Makes the error of operands that do not fit each other or the attributes.
    pub fn operands(why: impl Into<String>) -> Self {
        Self::Operands { why: why.into() }
    }

    /// Makes the error of a wrong attribute. `why` continues the sentence after its name.
    pub fn attribute(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Attribute { name: name.into(), why: why.into() }
    }

    /// Makes the error of a wrong step in a chain or tree.
    pub fn steps(why: impl Into<String>) -> Self {
        Self::Steps { why: why.into() }
    }

    /// Makes the error of a call for which there is no kernel.
    pub fn kernel(why: impl Into<String>) -> Self {
        Self::Kernel { why: why.into() }
    }

    /// Makes the error of a device that has not enough memory.
    pub fn memory(why: impl Into<String>) -> Self {
        Self::Memory { why: why.into() }
    }

    /// Makes the error of a library or device that is absent or refused the call.
    pub fn backend(why: impl std::fmt::Display) -> Self {
        Self::Backend { why: why.to_string() }
    }
}
