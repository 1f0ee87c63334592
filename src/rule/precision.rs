//! The precision of arithmetic: what a rule rounds to, and the least that a pipeline allows.

use std::fmt;

/// A precision, the finer one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// That of the model: a rule is an equality, and rounds nowhere to a narrower type.
    #[default]
    F32,
    /// Values are rounded to `bf16`, which keeps 8 bits: a relative error of 2^-9 each time.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// The name in rule files and pipelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// The precision of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
