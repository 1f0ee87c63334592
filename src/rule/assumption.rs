//! What rules assume of the numbers that a run gives, and pipelines allow them to assume.

use std::fmt;

/// An assumption about values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assumption {
    /// No value is infinite or NaN, unless it is computed from constants alone. Where one is, the right side of a rule may
    /// be NaN in more elements than the left side, or in fewer.
    Finite,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Self; 1] = [Self::Finite];

    /// Returns the name in rule files and pipelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finite => "finite",
        }
    }

    /// Returns the assumption of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
