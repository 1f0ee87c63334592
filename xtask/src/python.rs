//! A Python of the build folder's own, and what tasks share.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Where builds go.
pub fn build_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A Python environment in a folder; the path of its interpreter.
pub fn environment(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin").join("python");
    if !python.exists() {
        println!("making a Python environment in {}", folder.display());
        command(Command::new("python3").arg("-m").arg("venv").arg(folder))
            .map_err(|error| format!("{error}\nPython 3 with its venv module is needed for this task"))?;
    }
    Ok(python)
}

/// The same with packages.
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

/// Runs a command; anything but success is an error.
pub fn command(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} ended with {status}")) }
}

/// Removes a folder that may not be there.
pub fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
