//! Computes the build fingerprint of the crate.

fn main() {
    ovolo_fingerprint::emit(&["Cargo.toml", "build.rs", "src", "ops"]);
}
