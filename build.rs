//! Tells the crate what it is built of.

/// What kernels, rules and plans are made of. The other crates have fingerprints of their own.
const SOURCES: &[&str] =
    &["Cargo.toml", "Cargo.lock", "build.rs", "onednn-sys", "passes", "rules", "src", "team"];

fn main() {
    ovolo_fingerprint::emit(SOURCES);
}
