//! The programs and files that the measurements need: of this checkout, built here, or of a kit, which a machine with a
//! device runs without Rust and without network.

use super::{cargo, finished, text};
use crate::python::{build_folder, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names in a kit.
const PROGRAM: &str = "ovolo";
const TESTS: &str = "cuda-tests";
const TASKS: &str = "measure";
const COMMIT: &str = "commit";

/// What the measurements run.
pub struct Kit {
    /// The program `ovolo`.
    pub ovolo: PathBuf,
    /// The program with the tests of `cuda`.
    tests: PathBuf,
    /// The root of the checkout, or of the kit, which has the same files in the same places.
    pub root: PathBuf,
    /// The folder for results and intermediate files.
    pub work: PathBuf,
    /// Whether this is a kit, which needs no network, and not a checkout.
    pub packed: bool,
    /// The commit, with a note if files were changed after it.
    pub commit: String,
    /// Whether results of earlier runs count: not where files were changed after the commit, because they may have been
    /// changed since. The programs of a kit stay the same.
    pub repeatable: bool,
}

impl Kit {
    /// Returns the kit beside this program, or builds the programs of this checkout.
    pub fn open() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = program.parent().unwrap_or(Path::new(""));
        match std::fs::read_to_string(folder.join(COMMIT)) {
            Ok(commit) => Ok(Self {
                ovolo: folder.join(PROGRAM),
                tests: folder.join(TESTS),
                root: folder.to_owned(),
                work: folder.join("results"),
                packed: true,
                repeatable: true,
                commit,
            }),
            Err(_) => Self::built(&[]),
        }
    }

    /// Builds the programs of this checkout, with more words for Cargo.
    pub fn built(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cargo(&[&["build", "--release", "--workspace"], &words[..]].concat(), &[])?;
        let tests = ["test", "--release", "--workspace", "--no-run", "--test", "cuda"];
        let listed = cargo(&[&tests, &words[..]].concat(), &[])?;
        let listed = String::from_utf8_lossy(&listed.stderr).into_owned();
        // Cargo names the program in parentheses: `Executable tests/cuda.rs (target/release/deps/cuda-…)`.
        let path =
            listed.lines().find_map(|line| line.trim().strip_prefix("Executable")?.split(['(', ')']).nth(1));
        let tests = path.ok_or_else(|| format!("cargo names no program with the tests of cuda: {listed}"))?;
        let git = |words: &[&str]| {
            finished(Command::new("git").current_dir(root()).args(words))
                .map(|output| text(&output).trim().to_owned())
        };
        let changed = !git(&["status", "--porcelain"]).is_ok_and(|files| files.is_empty());
        let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|why| why);
        Ok(Self {
            ovolo: build_folder().join("release").join(PROGRAM),
            tests: root().join(tests),
            root: root(),
            work: build_folder().join("gpu"),
            commit: if changed { format!("{commit} with changes") } else { commit },
            packed: false,
            repeatable: !changed,
        })
    }

    /// Writes a kit to a folder: programs without symbols, scripts, models and pipelines.
    pub fn pack(&self, folder: &Path) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        crate::python::remove(folder)?;
        let files = [(&self.ovolo, PROGRAM), (&self.tests, TESTS), (&program, TASKS)];
        for (from, name) in files {
            self.copy(from, &folder.join(name))?;
            finished(Command::new("strip").arg(folder.join(name)))?;
        }
        for name in ["Cargo.lock", "xtask/python/gpu.py"] {
            self.copy(&self.root.join(name), &folder.join(name))?;
        }
        for directory in ["passes", "tests/models", "standard/tests/cuda"] {
            let from = self.root.join(directory);
            let said = |error: std::io::Error| format!("{}: {error}", from.display());
            for entry in std::fs::read_dir(&from).map_err(said)? {
                let path = entry.map_err(said)?.path();
                if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                    self.copy(&path, &folder.join(directory).join(name))?;
                }
            }
        }
        let file = folder.join(COMMIT);
        std::fs::write(&file, &self.commit).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<(), String> {
        let said = |error: std::io::Error| format!("{} to {}: {error}", from.display(), to.display());
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(said)?;
        }
        std::fs::copy(from, to).map(drop).map_err(said)
    }

    /// Returns the command that runs the device tests with this name, one after another, under a tool if one is given.
    pub fn tests(&self, name: &str, under: &[&str]) -> Command {
        let mut command = match under.split_first() {
            Some((tool, words)) => {
                let mut command = Command::new(tool);
                command.args(words).arg(&self.tests);
                command
            }
            None => Command::new(&self.tests),
        };
        command.args(["--test-threads", "1", name]).current_dir(&self.root);
        command.envs([("OVOLO_TEST_DEVICE", "1"), ("OVOLO_REQUIRE_NVRTC", "1")]);
        // The tests look here for models, and write temporary files there.
        command.env("CARGO_MANIFEST_DIR", self.root.join("standard"));
        command.env("OVOLO_TEST_FOLDER", &self.work).env("OVOLO_TEST_PROGRAM", &self.ovolo);
        command
    }

    /// Returns the script that measures PyTorch.
    pub fn script(&self) -> Command {
        let mut command = Command::new("python3");
        command.arg(self.root.join("xtask/python/gpu.py"));
        command
    }
}
