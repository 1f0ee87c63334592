//! Computes the crate's build fingerprint.

fn main() {
    ovolo_fingerprint::emit(&["Cargo.toml", "build.rs", "src"]);
}
