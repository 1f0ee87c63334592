//! A rehearsal of the kit where there is neither network nor device: it runs up to the first call of the driver, in a
//! namespace without network, with nothing of Rust on the search path.

use super::kit::Kit;
use super::{finished, text};
use crate::python::{build_folder, remove, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the search path has: the system's programs, without those of Rust.
const PATH: &str = "/usr/bin:/bin";
/// Programs that must not be there.
const FORBIDDEN: &[&str] = &["cargo", "rustc"];

/// A driver that finds no device, or one with which nothing can be done.
const DRIVER: &str = r#"
int cuInit(unsigned flags) { return DEVICES ? 0 : 100; }
int cuDeviceGetCount(int* count) { *count = DEVICES; return 0; }
int cuDriverGetVersion(int* version) { *version = 12090; return 0; }
int cuGetErrorName(int code, const char** name) { *name = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuGetErrorString(int code, const char** text) { *text = "no device is detected"; return 0; }
"#;
/// Where NVRTC is looked for in the rehearsal.
const ABSENT: &str = "/nowhere/libnvrtc.so.12";
/// The list of the functions that the program looks for before it calls the first one.
const FUNCTIONS: &str = "cuda/src/driver/calls.rs";

/// Packs the kit, and runs it three times: without a driver, with one that finds no device, and without NVRTC, which it
/// must not fetch.
///
/// # Errors
/// If the kit works in another way than it should: it says what is missing, measures nothing, and fails.
pub fn run(kit: &Kit) -> Result<(), String> {
    let folder = build_folder().join("gpu-rehearsal");
    remove(&folder)?;
    let packed = folder.join("kit");
    kit.pack(&packed)?;
    let home = folder.join("home");
    std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    let isolated = Isolated { folder: &packed, home: &home };
    isolated.is_isolated()?;
    let absent = folder.join("libcuda.so.1");
    isolated.says(
        &absent,
        &[
            "there is no NVIDIA device here, so nothing was measured",
            "install NVIDIA's driver",
            "libcuda.so.1",
        ],
    )?;
    isolated.says(
        &driver(&folder, 0)?,
        &["there is no NVIDIA device here, so nothing was measured", "cuInit: CUDA_ERROR_NO_DEVICE"],
    )?;
    isolated.says(&driver(&folder, 1)?, &["a kit does not fetch it", "cuda NVRTC: not found", ABSENT])?;
    // Nothing was written as if it were measured.
    let rows = packed.join("results/rows.tsv");
    if rows.exists() {
        return Err(format!("{} exists, although nothing was measured", rows.display()));
    }
    remove(&folder)
}

/// How the kit is run.
struct Isolated<'a> {
    folder: &'a Path,
    /// An empty folder, where nothing of this user is found.
    home: &'a Path,
}

impl Isolated<'_> {
    /// Returns a command in a namespace without network, with hardly any variables.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command.arg("-rn").arg(program).env_clear().env("PATH", PATH).env("HOME", self.home);
        command.current_dir(self.folder);
        command
    }

    /// Checks that there are neither a network nor programs of Rust.
    fn is_isolated(&self) -> Result<(), String> {
        let mut list = self.command(Path::new("cat"));
        let devices = finished(list.arg("/proc/net/dev"))
            .map_err(|why| format!("{why}: the rehearsal needs `unshare` with namespaces for users"))?;
        let others = |line: &&str| line.contains(':') && !line.trim_start().starts_with("lo:");
        if let Some(line) = text(&devices).lines().find(others) {
            return Err(format!("there is a network in the rehearsal: {line}"));
        }
        let folders: Vec<&Path> = PATH.split(':').map(Path::new).collect();
        let there = FORBIDDEN.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        match there.into_iter().find(|program| program.exists()) {
            Some(program) => Err(format!("{} is on the search path of the rehearsal", program.display())),
            None => Ok(()),
        }
    }

    /// Runs the kit with a driver. It must fail and say some words.
    fn says(&self, driver: &Path, words: &[&str]) -> Result<(), String> {
        let mut command = self.command(&self.folder.join("measure"));
        let output = command.arg("gpu").env("OVOLO_CUDA_DRIVER", driver).env("OVOLO_NVRTC", ABSENT).output();
        let output: Output = output.map_err(|error| format!("unshare: {error}"))?;
        let said = format!("{}{}", text(&output), String::from_utf8_lossy(&output.stderr));
        let missing: Vec<&&str> = words.iter().filter(|word| !said.contains(**word)).collect();
        if output.status.code() != Some(1) || !missing.is_empty() {
            return Err(format!("the kit ended with {} and does not say {missing:?}: {said}", output.status));
        }
        Ok(())
    }
}

/// Makes a driver's library that finds no device, with all functions that the program looks for.
fn driver(folder: &Path, devices: usize) -> Result<PathBuf, String> {
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let list = root().join(FUNCTIONS);
    let list = std::fs::read_to_string(&list).map_err(|error| said(&list, error))?;
    let names = list.lines().filter_map(|line| line.trim().split_once('(')).map(|(name, _)| name);
    let other = |name: &&str| name.starts_with("cu") && !DRIVER.contains(&format!(" {name}("));
    let others: String =
        names.filter(other).map(|name| format!("int {name}(void) {{ return 100; }}\n")).collect();
    let (source, library) = (folder.join("driver.c"), folder.join(format!("libcuda-{devices}.so.1")));
    std::fs::write(&source, format!("{DRIVER}{others}")).map_err(|error| said(&source, error))?;
    let devices = format!("-DDEVICES={devices}");
    finished(Command::new("cc").args(["-shared", "-fPIC", &devices, "-o"]).arg(&library).arg(&source))?;
    Ok(library)
}
