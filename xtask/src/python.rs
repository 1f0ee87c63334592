//! A Python environment in the build folder, and other functions that tasks share.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root folder of the workspace. Cargo names the package that it runs, which counts more than the one that was
/// compiled: checkouts that share a build folder may share this program.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map(Path::to_owned).unwrap_or_default()
}

/// The build folder.
pub fn build_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Makes a Python environment in a folder, and returns the path of its interpreter.
pub fn environment(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin").join("python");
    if !python.exists() {
        println!("making a Python environment in {}", folder.display());
        command(Command::new("python3").arg("-m").arg("venv").arg(folder))
            .map_err(|error| format!("{error}\nthis task needs Python 3 with its module venv"))?;
    }
    Ok(python)
}

/// Makes a Python environment with packages, and returns the path of its interpreter.
pub fn with(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let python = environment(folder)?;
    command(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages),
    )
    .map_err(|error| format!("{error}\npip could not install {}", packages.join(", ")))?;
    Ok(python)
}

/// Runs a command; an error unless it succeeds.
pub fn command(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}

/// Removes a folder if it exists.
pub fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
