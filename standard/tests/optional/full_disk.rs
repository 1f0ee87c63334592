//! Tests a full disk: a file system of a few pages, which the test mounts in its own namespace.

use crate::common;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command in a shell that has mounted 64 kB on the cache folder, and lists the folder at the end.
fn full(folder: &Path, command: &[String]) -> std::io::Result<Output> {
    let script = "mount -t tmpfs -o size=64k none \"$OVOLO_CACHE\" && \"$@\" && ls -R \"$OVOLO_CACHE\" >&2";
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args(command)
        .env("OVOLO_CACHE", folder)
        .env("OVOLO_PIPELINE", "native")
        .current_dir(common::root())
        .output()
}

/// Whether a file system can be mounted.
pub fn can_mount() -> Result<(), String> {
    let output =
        full(&common::folder("can-mount"), &["true".to_owned()]).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("unshare: {said}")) }
}

/// `ovolo run` of the digits model.
fn arguments(outputs: &Path) -> Vec<String> {
    let line = "run examples/digits/digits.onnx --dim N=360 --input image=examples/digits/images.npy --cost flops \
                --threads 2 --json --output-dir";
    let words = [env!("CARGO_BIN_EXE_ovolo")].into_iter().chain(line.split_whitespace());
    words.map(str::to_owned).chain([outputs.display().to_string()]).collect()
}

/// The messages of a run, and its scores.
fn ran(output: &Output, outputs: &Path) -> (String, Vec<u8>) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_ne!(json["cached"], true);
    (said, std::fs::read(outputs.join("scores.npy")).unwrap())
}

pub fn a_full_disk_loses_nothing_but_the_entry() {
    let at = common::folder("tmpfs");
    let (cache, expected, outputs): (PathBuf, PathBuf, PathBuf) =
        (at.join("cache"), at.join("expected"), at.join("outputs"));
    std::fs::create_dir_all(&cache).unwrap();
    let [program, words @ ..] = &arguments(&expected)[..] else { panic!("there is a program") };
    let output = Command::new(program)
        .args(words)
        .arg("--no-cache")
        .env("OVOLO_PIPELINE", "native")
        .current_dir(common::root())
        .output();
    let (_, wanted) = ran(&output.unwrap(), &expected);
    let (said, scores) = ran(&full(&cache, &arguments(&outputs)).unwrap(), &outputs);
    assert!(scores == wanted);
    assert!(
        said.contains("note: the plan was not stored in the cache: ") && said.contains("No space left"),
        "{said}"
    );
    assert!(!said.contains(".part"), "{said}");
}
