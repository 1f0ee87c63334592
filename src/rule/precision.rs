//! The precision of arithmetic: what a rule rounds to, and what a pipeline allows.

use std::fmt;

/// A precision, the finer one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// That of the model: a rule is an equality, and rounds nowhere to a narrower type.
    #[default]
    F32,
    /// What is multiplied is rounded to TF32, which keeps 11 bits and the range of `f32`: a relative error of 2^-12
    /// each time. What is stored is not.
    Tf32,
    /// Values are rounded to `f16`, which keeps 11 bits, and has none above 65504.
    F16,
    /// Values are rounded to `bf16`, which keeps 8 bits: a relative error of 2^-9 each time.
    Bf16,
}

impl Precision {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::F32, Self::Tf32, Self::F16, Self::Bf16];

    /// The name in rule files and pipelines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// The precision of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether a pipeline of this precision may have a rule that rounds to another: to its own, or to TF32, which
    /// rounds less than the narrow types do. Of these neither is finer: one has more bits, the other more range.
    pub fn allows(self, rule: Self) -> bool {
        rule == self || rule == Self::F32 || rule == Self::Tf32 && self != Self::F32
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Precision::{self, Bf16, F16, F32, Tf32};

    #[test]
    fn a_pipeline_allows_its_own_precision_and_those_that_round_less() {
        let allowed =
            |one: Precision| Precision::ALL.into_iter().filter(|rule| one.allows(*rule)).collect::<Vec<_>>();
        assert_eq!(allowed(F32), [F32]);
        assert_eq!(allowed(Tf32), [F32, Tf32]);
        assert_eq!(allowed(F16), [F32, Tf32, F16]);
        assert_eq!(allowed(Bf16), [F32, Tf32, Bf16]);
    }
}
