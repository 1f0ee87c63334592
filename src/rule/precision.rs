//! The precision of arithmetic: to which precision a rule rounds, and which precisions a pipeline allows.

use std::fmt;

/// A precision of arithmetic, finest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// The precision of the model: the rule is an equality, and does not round to a narrower type.
    #[default]
    F32,
    /// Factors of products are rounded to TF32, which keeps 11 bits and the range of `f32`: a relative error of 2^-12
    /// each time. Stored values are not rounded.
    Tf32,
    /// Values are rounded to `f16`, which keeps 11 bits and has no values above 65504.
    F16,
    /// Values are rounded to `bf16`, which keeps 8 bits: a relative error of 2^-9 each time.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 4] = [Self::F32, Self::Tf32, Self::F16, Self::Bf16];

    /// Returns the name in rule files and pipelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Returns the precision of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns whether a pipeline of this precision may use a rule that rounds to `rule`: the same precision, or
    /// TF32, which rounds less than the narrow types. Neither of the two narrow types is finer: one has more bits,
    /// the other a larger range.
    pub fn allows(self, rule: Self) -> bool {
        rule == self || rule == Self::F32 || rule == Self::Tf32 && self != Self::F32
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
