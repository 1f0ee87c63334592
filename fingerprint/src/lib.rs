//! Tells a crate, in its build script, what it is built of, so that what one build has cached is never taken up
//! by another.
//!
//! Each crate whose code decides results calls [`emit`] for its own sources, and publishes the fingerprint as a
//! constant. A change of one crate then rebuilds that crate and those above it, and no other. Whatever depends
//! on the code of several crates joins their fingerprints.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The settings of the compiler that change what it makes.
const SETTINGS: &[&str] =
    &["TARGET", "PROFILE", "OPT_LEVEL", "DEBUG", "CARGO_ENCODED_RUSTFLAGS", "CARGO_CFG_TARGET_FEATURE"];

/// Sets `OVOLO_BUILD` for the crate whose build script calls this, to be read by `env!`: sixteen hexadecimal
/// digits that change with every byte of the sources, with the names of the files, with the compiler, and with
/// its settings.
///
/// `sources` are files and folders, from the folder of the crate; those that do not exist are left out, since a
/// crate from a registry does not bring all of them.
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

/// The fingerprint of some sources in a folder, and of settings.
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

/// The files of a folder and of those in it, without build outputs; or a file itself.
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
            std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
            std::fs::write(path, text).expect("it is written");
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
        std::fs::rename(root.join("src/deep/a.rs"), root.join("src/deep/b.rs")).expect("it is renamed");
        assert_ne!(second, now());
        assert_ne!(now(), digest(&root, &["Cargo.toml", "src"], &[None]));
        std::fs::remove_dir_all(&root).expect("it is removed");
    }
}
