//! The processor: its name, and the instruction sets that kernels choose by.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The instruction sets that native kernels are compiled for, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the compiler makes of arrays.
    Portable,
    /// 8 lanes: AVX2 and FMA.
    Avx2,
    /// 16 lanes: AVX-512F and DQ.
    Avx512,
}

/// What was said or taken first.
static PLANNED: OnceLock<Isa> = OnceLock::new();

/// A name of no instruction set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no instruction set: there are {known}")]
pub struct UnknownIsa {
    /// The name.
    pub name: String,
    /// The names of instruction sets.
    pub known: String,
}

/// Kernels are planned for another instruction set already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernels are planned for {planned} already, and cannot be for {wanted}")]
pub struct Planned {
    /// The instruction set that they are planned for.
    pub planned: Isa,
    /// The one that was asked for.
    pub wanted: Isa,
}

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

    /// Its name, which is in the names of implementations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// `f32` elements of a vector.
    pub const fn lanes(self) -> usize {
        match self {
            Self::Portable | Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// The best that this processor has.
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

    /// The one that native kernels are planned for: what [`Isa::plan_for`] was told, or else the best of this
    /// processor.
    pub fn planned() -> Self {
        *PLANNED.get_or_init(Self::host)
    }

    /// Has native kernels of this process planned for an instruction set: less than the processor has runs here,
    /// and more can be looked at and not run. It is said once, before anything is planned.
    ///
    /// # Errors
    /// If something was planned for another already.
    pub fn plan_for(self) -> Result<(), Planned> {
        match *PLANNED.get_or_init(|| self) {
            planned if planned == self => Ok(()),
            planned => Err(Planned { planned, wanted: self }),
        }
    }

    /// The one that native kernels run by: never more than the processor has.
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

/// The instruction sets that plans are made for, by the names of processors' features.
pub fn planned() -> Vec<&'static str> {
    let all = [("avx2", Isa::Avx2), ("fma", Isa::Avx2), ("avx512f", Isa::Avx512)];
    all.into_iter().filter(|(_, isa)| *isa <= Isa::planned()).map(|(name, _)| name).collect()
}

/// The processor's architecture, name, family, model and stepping, as far as the system tells them.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let parts = ["model name", "cpu family", "model", "stepping"].map(|name| field(name).unwrap_or_default());
    format!("{} {}", std::env::consts::ARCH, parts.join(" ")).trim().to_owned()
}
