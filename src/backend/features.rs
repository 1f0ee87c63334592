//! The processor: its name, and the instruction sets that kernels choose by.

/// The instruction sets of this processor that some kernel has a version for, by name.
pub fn detected() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
        ];
        found.extend(known.into_iter().filter(|(_, has)| *has).map(|(name, _)| name));
    }
    found
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
