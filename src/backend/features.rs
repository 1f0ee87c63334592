//! The processor's instruction sets that kernels choose by.

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
