//! Tests the example that runs the shards of an experiment under Ray, on a cluster that is started here.
//!
//! `cargo xtask ray` installs Ray into the build folder.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python interpreter that has Ray.
pub fn python() -> Result<PathBuf, String> {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("there is no build folder")?;
    let python = build.join("ray/bin/python");
    if python.exists() && build.join("ray/stamp").exists() {
        return Ok(python);
    }
    Err(format!("{} is absent; `cargo xtask ray` installs it", python.display()))
}

pub fn shards_of_a_local_cluster_give_the_results_of_one_run() {
    let python = python().unwrap();
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ray");
    let _ = std::fs::remove_dir_all(&at);
    std::fs::create_dir_all(&at).unwrap();
    let root = crate::common::root();
    let spec = root.join("examples/experiments/digits.ron");
    let ovolo = env!("CARGO_BIN_EXE_ovolo");
    let whole = Command::new(ovolo)
        .args(["experiment", spec.to_str().unwrap(), "--out", "whole"])
        .current_dir(&at)
        .env("OVOLO_CACHE", at.join("cache"))
        .output()
        .unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let cluster = Command::new(python)
        .arg(root.join("examples/experiments/shards.py"))
        .args([spec.to_str().unwrap(), "--shards", "2", "--out", "merged", "--ovolo", ovolo])
        .current_dir(&at)
        .env("OVOLO_CACHE", at.join("cache"))
        .env("RAY_USAGE_STATS_ENABLED", "0")
        .output()
        .unwrap();
    let said = [&cluster.stdout, &cluster.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(cluster.status.success(), "{said:?}");
    for table in ["plans", "ablation", "memory", "gap"] {
        let read = |folder: &str| std::fs::read(at.join(folder).join(format!("{table}.csv"))).unwrap();
        assert!(read("merged") == read("whole"), "{table}");
    }
}
