//! The processor: its name, and the instruction sets by which kernels are chosen.

mod error;

use error::{Planned, UnknownIsa};
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
    const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

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

    /// Returns the instruction set that native kernels are planned for: the one that [`Isa::plan_for`] was given,
    /// or else the best of this processor.
    pub fn planned() -> Self {
        *PLANNED.get_or_init(Self::host)
    }

    /// Makes this process plan native kernels for an instruction set. A plan for less than the processor has runs
    /// here; a plan for more can be inspected but not run. Call this once, before anything is planned.
    ///
    /// # Errors
    /// If something was already planned for another instruction set.
    pub fn plan_for(self) -> Result<(), Planned> {
        match *PLANNED.get_or_init(|| self) {
            planned if planned == self => Ok(()),
            planned => Err(Planned { planned, wanted: self }),
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

/// Returns the instruction sets that plans are made for, by the names of processor features.
pub fn planned() -> Vec<&'static str> {
    let all = [("avx2", Isa::Avx2), ("fma", Isa::Avx2), ("avx512f", Isa::Avx512)];
    all.into_iter().filter(|(_, isa)| *isa <= Isa::planned()).map(|(name, _)| name).collect()
}

/// Returns the processor's architecture, name, family, model and stepping, as far as the system reports them.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let parts = ["model name", "cpu family", "model", "stepping"].map(|name| field(name).unwrap_or_default());
    format!("{} {}", std::env::consts::ARCH, parts.join(" ")).trim().to_owned()
}
