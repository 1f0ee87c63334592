//! The variables of a rule.

/// An operand variable: the index of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandVar(pub usize);

/// A variable for any number of operands, or for one that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestVar(pub usize);

/// An attribute variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttrVar(pub usize);

/// A variable for the rest of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestAttrVar(pub usize);

/// The declaration of a rest variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// Its name.
    pub name: String,
    /// Whether it stands for at most one operand.
    pub optional: bool,
}

impl std::fmt::Display for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "?{}{}", self.name, if self.optional { "?" } else { ".." })
    }
}
