//! Tells the crate what it is built of.

fn main() {
    ovolo_fingerprint::emit(&["Cargo.toml", "build.rs", "src"]);
}
