//! The processor: its name, and the instruction sets that kernels choose by.

use std::fmt;
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

/// The variable that names the instruction set for which plans are made.
pub const ISA: &str = "OVOLO_ISA";

/// The variable [`ISA`] names no instruction set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ISA} is `{name}`, and an instruction set is one of {known}")]
pub struct UnknownIsa {
    /// What it is.
    pub name: String,
    /// The names of instruction sets.
    pub known: String,
}

impl Isa {
    const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Its name: in [`ISA`], and in the names of implementations.
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

    /// The one that [`ISA`] names; `None` where it is not set.
    ///
    /// # Errors
    /// If it names none.
    pub fn wanted() -> Result<Option<Self>, UnknownIsa> {
        let Some(name) = std::env::var_os(ISA) else { return Ok(None) };
        let found = Self::ALL.into_iter().find(|isa| name == isa.name());
        found.map(Some).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            UnknownIsa { name: name.display().to_string(), known }
        })
    }

    /// The one that native kernels are planned for: what [`ISA`] names, or else the best of this processor. A
    /// program asks [`Isa::wanted`] first; here a name that is none counts as none.
    pub fn planned() -> Self {
        static PLANNED: OnceLock<Isa> = OnceLock::new();
        *PLANNED.get_or_init(|| Self::wanted().ok().flatten().unwrap_or_else(Self::host))
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
