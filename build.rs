//! Embeds the rules and pipelines that ship, and tells the crate what it is built of.

use std::path::{Path, PathBuf};

/// What kernels, rules and plans are made of. The other crates have fingerprints of their own.
const SOURCES: &[&str] =
    &["Cargo.toml", "Cargo.lock", "build.rs", "costs", "ops", "passes", "rules", "src", "team"];

/// Folders of texts that are embedded: each with the constant that lists them, and the file that declares it.
const EMBEDDED: &[(&str, &str, &str)] = &[
    ("costs", "COSTS", "costs.rs"),
    ("passes", "PIPELINES", "passes.rs"),
    ("rules", "RULES", "rules.rs"),
    ("rules/examples", "EXAMPLES", "examples.rs"),
];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    embed(&root);
    ovolo_fingerprint::emit(SOURCES);
}

/// Writes for each embedded folder a list of the names and texts of its RON files, sorted by name.
fn embed(root: &Path) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for (folder, constant, file) in EMBEDDED {
        let mut names: Vec<String> = std::fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".ron"))
            .collect();
        names.sort();
        let mut text = format!("const {constant}: &[(&str, &str)] = &[\n");
        for name in names {
            // Two checkouts may share a target folder: the compiler finds the file in the one that it compiles.
            let file = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{folder}/{name}\")");
            text += &format!("    (\"{folder}/{name}\", include_str!({file})),\n");
        }
        text += "];\n";
        if let Err(error) = std::fs::write(out.join(file), text) {
            println!("cargo::error=the list of embedded files cannot be written: {error}");
        }
    }
}
