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
    /// Constant weights of products become levels of 8 bits, with one scale for each column: each weight is off by at
    /// most half a level. Nothing else is rounded.
    Int8,
    /// Constant weights of products become levels of 4 bits, with a scale for each block of rows of each column.
    /// Nothing else is rounded.
    Int4,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 6] = [Self::F32, Self::Tf32, Self::F16, Self::Bf16, Self::Int8, Self::Int4];

    /// Returns the name in rule files and pipelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// Returns the precision of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns whether a pipeline of this precision may use a rule that rounds to `rule`: the same precision, or one
    /// that rounds the same values less. TF32 rounds less than the narrow floats, of which neither is finer: one has more
    /// bits, the other a larger range. Levels of 8 bits round less than those of 4, and neither allows a rule that rounds
    /// anything but weights.
    pub fn allows(self, rule: Self) -> bool {
        match rule {
            Self::F32 => true,
            Self::Tf32 => matches!(self, Self::Tf32 | Self::F16 | Self::Bf16),
            Self::F16 | Self::Bf16 => self == rule,
            Self::Int8 => self.levels(),
            Self::Int4 => self == Self::Int4,
        }
    }

    /// Returns whether what is rounded are weights, which become levels.
    pub fn levels(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
