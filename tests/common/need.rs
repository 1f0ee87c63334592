//! The needs of tests that may not be met: a library, a compiler, a processor, or time.
//!
//! A test whose needs are not met counts as ignored, and its line names them. If the variable of a need is
//! set, as in CI, the test fails with the reason instead.
#![allow(dead_code)]

use libtest_mimic::{Failed, Trial};
use ovolo_native::Isa;

/// A need of a test.
#[derive(Clone)]
pub struct Need {
    /// Its name, shown next to the test's.
    what: &'static str,
    /// Why it is not met; `None` if it is.
    missing: Option<String>,
    /// The variable that makes an unmet need a failure.
    variable: Option<&'static str>,
}

impl Need {
    pub fn new(what: &'static str, found: Result<(), String>, variable: &'static str) -> Self {
        Self { what, missing: found.err(), variable: Some(variable) }
    }

    /// Returns a need without such a variable.
    pub fn undemanded(what: &'static str, found: Result<(), String>) -> Self {
        Self { what, missing: found.err(), variable: None }
    }

    pub fn is_met(&self) -> bool {
        self.missing.is_none()
    }

    /// Returns a test with this need.
    pub fn trial(
        &self,
        name: impl Into<String>,
        run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        trial(name, std::slice::from_ref(self), run)
    }
}

/// Returns a test with some needs.
pub fn trial(
    name: impl Into<String>,
    needs: &[Need],
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let unmet: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    let Some(Need { what, missing, .. }) = unmet.first() else { return Trial::test(name, || joined(run)) };
    let why = format!("the test needs {what}: {}", missing.as_deref().unwrap_or_default());
    let demanded =
        unmet.iter().all(|need| need.variable.is_some_and(|name| std::env::var_os(name).is_some()));
    Trial::test(name, move || Err(why.into())).with_kind(format!("needs {what}")).with_ignored_flag(!demanded)
}

/// Runs a test on a thread of its own, and waits until this thread has ended. The threads of the test program may still
/// destroy their thread-local values while the program exits and libraries destroy what is global; oneDNN accesses freed
/// memory then.
fn joined(run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Result<(), Failed> {
    match std::thread::spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The library oneDNN.
pub fn onednn() -> Need {
    let found = crate::common::registry().backends().find("onednn").map_err(Into::into);
    let found = found.and_then(|backend| backend.found()).map(|_| ());
    let found = found.map_err(|why| format!("the library is {why}; `cargo xtask onednn` fetches it"));
    Need::new("oneDNN", found, "OVOLO_REQUIRE_ONEDNN")
}

/// A processor with AVX-512. Without it oneDNN has no kernels in `nChw16c` or in bf16.
pub fn avx512() -> Need {
    let found = match Isa::host() {
        Isa::Avx512 => Ok(()),
        other => Err(format!("this processor has {other}")),
    };
    Need::new("AVX-512", found, "OVOLO_REQUIRE_AVX512")
}

/// A processor with AVX-512 VNNI, for which oneDNN has kernels of bytes with exact sums.
pub fn vnni() -> Need {
    Need::new("VNNI", feature(2, 11), "OVOLO_REQUIRE_VNNI")
}

/// A processor with AMX, whose registers are matrices of bytes.
pub fn amx() -> Need {
    Need::new("AMX", feature(3, 25), "OVOLO_REQUIRE_AMX")
}

/// Asks `cpuid` for a bit of the extended features, in EBX (1), ECX (2) or EDX (3).
fn feature(register: usize, bit: u32) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let found = __cpuid_count(7, 0);
        let registers = [found.eax, found.ebx, found.ecx, found.edx];
        if __cpuid(0).eax >= 7 && registers[register] & (1 << bit) != 0 {
            return Ok(());
        }
    }
    Err(format!("`cpuid` does not report it (leaf 7, register {register}, bit {bit})"))
}

/// Native kernels for AVX-512, unless `OVOLO_ISA` asks for others.
pub fn running_avx512() -> Need {
    crate::common::isa();
    match Isa::running() {
        Isa::Avx512 => Need::undemanded("AVX-512", Ok(())),
        _ if Isa::host() == Isa::Avx512 => {
            Need::undemanded("AVX-512", Err("others are asked for".to_owned()))
        }
        other => Need::new("AVX-512", Err(format!("this processor has {other}")), "OVOLO_REQUIRE_AVX512"),
    }
}

/// Plans for AVX-512 on any processor, as in the snapshots. `OVOLO_ISA` may ask for others.
pub fn plans_for_avx512() -> Need {
    let found = match crate::common::isa() {
        Isa::Avx512 => Ok(()),
        other => Err(format!("plans are for {other}; `{}=avx512` asks for it", crate::common::ISA)),
    };
    Need::undemanded("plans for AVX-512", found)
}

/// Plans that this processor can run. `OVOLO_ISA` may ask for others.
pub fn plans_that_run() -> Need {
    let found = match crate::common::isa() {
        isa if isa <= Isa::host() => Ok(()),
        isa => Err(format!("plans are for {isa}, and this processor has {}", Isa::host())),
    };
    Need::undemanded("plans that this processor runs", found)
}

/// Time. A test that takes a long time and seldom fails runs only if it is asked for, as in CI.
pub fn patience() -> Need {
    let found = match std::env::var_os("OVOLO_SLOW_TESTS") {
        Some(_) => Ok(()),
        None => Err("it takes a long time; `OVOLO_SLOW_TESTS=1` runs it".to_owned()),
    };
    Need::new("OVOLO_SLOW_TESTS", found, "OVOLO_SLOW_TESTS")
}
