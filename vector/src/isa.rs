//! The instruction sets that kernels are compiled for.

use ovolo::backend::BackendError;
use ovolo::backend::features::{InstructionSet, InstructionSets};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The instruction sets that native kernels are compiled for, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// No instruction set in particular: the compiler vectorises code on arrays.
    Portable,
    /// 8 lanes: AVX2 and FMA.
    Avx2,
    /// 16 lanes: AVX-512F and DQ.
    Avx512,
}

/// The instruction set that was requested first, or that was first used for planning.
static PLANNED: OnceLock<Isa> = OnceLock::new();

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Self, UnknownIsa> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == name);
        let known = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| UnknownIsa { name: name.to_owned(), known: known() })
    }
}

impl Isa {
    /// All of them, the smallest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Returns the name, which is part of the names of implementations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Returns the number of `f32` elements in a vector.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Portable | Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// Returns the best instruction set that this processor has.
    pub fn host() -> Self {
        static HOST: OnceLock<Isa> = OnceLock::new();
        *HOST.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                    return Self::Avx512;
                }
                if avx2 {
                    return Self::Avx2;
                }
            }
            Self::Portable
        })
    }

    /// Returns the instruction set that kernels are planned for: the one that [`Isa::plan_for`] was given,
    /// or else the best of this processor.
    pub fn planned() -> Self {
        *PLANNED.get_or_init(Self::host)
    }

    /// Makes this process plan native kernels for an instruction set. A plan for less than the processor has runs
    /// here; a plan for more can be inspected but not run. Call this once, before anything is planned.
    ///
    /// # Errors
    /// If something was already planned for another instruction set.
    pub fn plan_for(self) -> Result<(), PlannedIsa> {
        match *PLANNED.get_or_init(|| self) {
            planned if planned == self => Ok(()),
            planned => Err(PlannedIsa { planned, wanted: self }),
        }
    }

    /// Returns the instruction set that native kernels use when they run, which is never more than the processor
    /// has.
    pub fn running() -> Self {
        static RUNNING: OnceLock<Isa> = OnceLock::new();
        *RUNNING.get_or_init(|| Self::planned().min(Self::host()))
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The instruction sets for which vector code exists.
pub const ISAS: &[&str] = &[Isa::Avx2.name(), Isa::Avx512.name()];

/// The instruction sets as the framework asks for them.
pub struct Isas;

impl InstructionSets for Isas {
    fn all(&self) -> Vec<InstructionSet> {
        Isa::ALL.map(instruction_set).to_vec()
    }

    fn planned(&self) -> InstructionSet {
        instruction_set(Isa::planned())
    }

    fn baseline(&self) -> &'static str {
        Isa::Avx2.name()
    }

    fn plan_for(&self, name: &str) -> Result<(), BackendError> {
        let refused = |why: String| BackendError::InstructionSet { wanted: name.to_owned(), why };
        let isa: Isa = name.parse().map_err(|why: UnknownIsa| refused(why.to_string()))?;
        isa.plan_for().map_err(|why| refused(why.to_string()))
    }
}

fn instruction_set(isa: Isa) -> InstructionSet {
    let features: &[&str] = match isa {
        Isa::Portable => &[],
        Isa::Avx2 => &["avx2", "fma"],
        Isa::Avx512 => &["avx2", "fma", "avx512f"],
    };
    InstructionSet { name: isa.name(), features, lanes: isa.lanes(), runs_here: isa <= Isa::host() }
}

/// A name that no instruction set has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not an instruction set: there are {known}")]
pub struct UnknownIsa {
    /// The name.
    pub name: String,
    /// The names of instruction sets.
    pub known: String,
}

/// Kernels are already planned for another instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernels are already planned for {planned}, so they cannot be planned for {wanted}")]
pub struct PlannedIsa {
    /// The instruction set that they are planned for.
    pub planned: Isa,
    /// The instruction set that was asked for.
    pub wanted: Isa,
}
