//! Computes, in a build script, a fingerprint of the sources a crate is built from, so that nothing cached by
//! one build is used by another.
//!
//! Each crate whose code decides results calls [`emit`] for its own sources and publishes the fingerprint as
//! a constant. A change in one crate then rebuilds that crate and those that depend on it, and no other. Code
//! that depends on several crates joins their fingerprints.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler settings that change the generated code.
const SETTINGS: &[&str] =
    &["TARGET", "PROFILE", "OPT_LEVEL", "DEBUG", "CARGO_ENCODED_RUSTFLAGS", "CARGO_CFG_TARGET_FEATURE"];

/// Sets `OVOLO_BUILD`, to be read by `env!`, for the crate whose build script calls this. The value has
/// sixteen hexadecimal digits, which change with any byte of the sources, the names of the files, the
/// compiler, and its settings.
///
/// `sources` are files and folders relative to the folder of the crate. Missing ones are skipped, because a
/// crate from a registry does not contain all of them.
pub fn emit(sources: &[&str]) {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    for source in sources.iter().filter(|source| root.join(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
    }
    let mut settings: Vec<Option<OsString>> = SETTINGS.iter().map(std::env::var_os).collect();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-vV").output().ok();
    settings.push(version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned().into()));
    println!("cargo::rustc-env=OVOLO_BUILD={}", digest(&root, sources, &settings));
}

/// The fingerprint of the sources in a folder and of the settings.
fn digest(root: &Path, sources: &[&str], settings: &[Option<OsString>]) -> String {
    let mut files = Vec::new();
    sources.iter().for_each(|source| collect(&root.join(source), &mut files));
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/").hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    settings.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Collects a file, or the files of a folder and its subfolders, except build outputs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_every_file_its_name_and_every_setting() {
        let root = std::env::temp_dir().join(format!("ovolo-fingerprint-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("the file has a folder")).expect("a folder");
            std::fs::write(path, text).expect("the file is written");
        };
        write("Cargo.toml", "one");
        write("src/deep/a.rs", "two");
        write("src/target/b.rs", "a build output");
        let setting = [Some(OsString::from("release"))];
        let now = || digest(&root, &["Cargo.toml", "src", "absent"], &setting);
        let first = now();
        assert_eq!(first, now());
        write("src/target/b.rs", "another build output");
        write("tests/c.rs", "no source");
        assert_eq!(first, now());
        write("src/deep/a.rs", "twO");
        let second = now();
        assert_ne!(first, second);
        std::fs::rename(root.join("src/deep/a.rs"), root.join("src/deep/b.rs")).expect("the file is renamed");
        assert_ne!(second, now());
        assert_ne!(now(), digest(&root, &["Cargo.toml", "src"], &[None]));
        std::fs::remove_dir_all(&root).expect("the file is removed");
    }
}
