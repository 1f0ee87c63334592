//! What a test needs and may not find: a library, a compiler, a processor, patience.
//!
//! A test whose needs are not met counts as ignored, and its line names them. With the variable of a need set, as in
//! CI, the test runs instead and fails with the reason.
#![allow(dead_code)]

use libtest_mimic::{Failed, Trial};
use ovolo::backend::features::Isa;

/// Something that a test needs.
#[derive(Clone)]
pub struct Need {
    /// Its name, beside the test's.
    what: &'static str,
    /// Why it is not met.
    missing: Option<String>,
    /// The variable that demands it.
    variable: Option<&'static str>,
}

impl Need {
    pub fn new(what: &'static str, found: Result<(), String>, variable: &'static str) -> Self {
        Self { what, missing: found.err(), variable: Some(variable) }
    }

    /// One that no variable demands.
    pub fn undemanded(what: &'static str, found: Result<(), String>) -> Self {
        Self { what, missing: found.err(), variable: None }
    }

    pub fn is_met(&self) -> bool {
        self.missing.is_none()
    }

    /// A test with this need.
    pub fn trial(
        &self,
        name: impl Into<String>,
        run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        trial(name, std::slice::from_ref(self), run)
    }
}

/// A test with some needs.
pub fn trial(
    name: impl Into<String>,
    needs: &[Need],
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let unmet: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    let Some(Need { what, missing, .. }) = unmet.first() else { return Trial::test(name, run) };
    let why = format!("it needs {what}: {}", missing.as_deref().unwrap_or_default());
    let demanded =
        unmet.iter().all(|need| need.variable.is_some_and(|name| std::env::var_os(name).is_some()));
    Trial::test(name, move || Err(why.into())).with_kind(format!("needs {what}")).with_ignored_flag(!demanded)
}

/// The library oneDNN.
pub fn onednn() -> Need {
    let found = crate::common::registry().backends().find("onednn").map_err(Into::into);
    let found = found.and_then(|backend| backend.found()).map(|_| ());
    let found = found.map_err(|why| format!("it is {why}; `cargo xtask onednn` fetches it"));
    Need::new("oneDNN", found, "OVOLO_REQUIRE_ONEDNN")
}

/// A processor with AVX-512: without it oneDNN has no kernels in `nChw16c` or in bf16.
pub fn avx512() -> Need {
    let found = match Isa::host() {
        Isa::Avx512 => Ok(()),
        other => Err(format!("this processor has {other}")),
    };
    Need::new("AVX-512", found, "OVOLO_REQUIRE_AVX512")
}

/// The kernels for AVX-512 among the native ones, unless `OVOLO_ISA` asks for others.
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

/// Plans for AVX-512, of which the snapshots are, on any processor; `OVOLO_ISA` may ask for others.
pub fn plans_for_avx512() -> Need {
    let found = match crate::common::isa() {
        Isa::Avx512 => Ok(()),
        other => Err(format!("plans are for {other}; `{}=avx512` asks for it", crate::common::ISA)),
    };
    Need::undemanded("plans for AVX-512", found)
}

/// Patience: what takes minutes and seldom fails runs only where it is asked for, as in CI.
pub fn patience() -> Need {
    let found = match std::env::var_os("OVOLO_SLOW_TESTS") {
        Some(_) => Ok(()),
        None => Err("it takes minutes; `OVOLO_SLOW_TESTS=1` runs it".to_owned()),
    };
    Need::new("OVOLO_SLOW_TESTS", found, "OVOLO_SLOW_TESTS")
}
