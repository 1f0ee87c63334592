//! Tells the crate what it is built of, so that what one build has cached is not taken up by another.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What kernels, rules and plans are made of.
const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "cli",
    "lab",
    "onednn-sys",
    "passes",
    "proof",
    "rules",
    "src",
    "tune",
];

/// What the compiler is told.
const SETTINGS: &[&str] =
    &["TARGET", "PROFILE", "OPT_LEVEL", "DEBUG", "CARGO_ENCODED_RUSTFLAGS", "CARGO_CFG_TARGET_FEATURE"];

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for source in SOURCES {
        // Not all of them are there where the crate comes from a registry.
        if root.join(source).exists() {
            println!("cargo::rerun-if-changed={source}");
            collect(&root.join(source), &mut files);
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().replace('\\', "/").hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    for setting in SETTINGS {
        std::env::var_os(setting).hash(&mut hasher);
    }
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-vV").output().map(|output| output.stdout);
    version.unwrap_or_default().hash(&mut hasher);
    println!("cargo::rustc-env=OVOLO_BUILD={:016x}", hasher.finish());
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != "target" {
            collect(&entry.path(), files);
        }
    }
}
