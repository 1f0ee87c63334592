//! `cargo xtask onednn`: the library oneDNN, from the Python package index.

use crate::python::{build_folder, command, environment, remove};
use std::path::{Path, PathBuf};
use std::process::Command;

/// oneDNN 3.1, which needs nothing but GNU OpenMP.
const PACKAGE: &str = "onednn-cpu-gomp==2023.1.0";
/// Of its wheel for Linux on x86-64, the only one there is.
const SHA256: &str = "5635b0c0ea5d9ae0688fbab8346c465c40cb0db3a5db39ff744353ccda435cac";
/// The library in the wheel, and its name in the build folder.
const FILE: &str = "libdnnl.so.3";

/// Fetches the library into `onednn` in the build folder, unless it is there already.
pub fn run() -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(format!("{PACKAGE} is for Linux on x86-64: install oneDNN 3 and set OVOLO_ONEDNN"));
    }
    let target = build_folder();
    let out = target.join("onednn");
    let kept = std::fs::read_to_string(out.join("stamp"));
    if kept.is_ok_and(|kept| kept == SHA256) && out.join(FILE).exists() {
        println!("{} is up to date", out.join(FILE).display());
        return Ok(());
    }
    let python = environment(&target.join("python"))?;
    let temporary = target.join("onednn.tmp");
    remove(&temporary)?;
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&temporary).map_err(|error| said(&temporary, error))?;
    // pip refuses a file with another hash.
    let requirements = temporary.join("requirements.txt");
    std::fs::write(&requirements, format!("{PACKAGE} --hash=sha256:{SHA256}\n"))
        .map_err(|error| said(&requirements, error))?;
    println!("fetching {PACKAGE}");
    command(
        Command::new(&python)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary", ":all:", "--require-hashes", "--dest"])
            .arg(&temporary)
            .arg("--requirement")
            .arg(&requirements),
    )
    .map_err(|error| format!("{error}\npip could not fetch {PACKAGE}"))?;
    let wheel = find(&temporary, &|name| name.ends_with(".whl"))?;
    let unpacked = temporary.join("wheel");
    command(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
    let library = find(&unpacked, &|name| name == FILE)?;
    remove(&out)?;
    std::fs::create_dir_all(&out).map_err(|error| said(&out, error))?;
    std::fs::copy(&library, out.join(FILE)).map_err(|error| said(&library, error))?;
    std::fs::write(out.join("stamp"), SHA256).map_err(|error| said(&out, error))?;
    remove(&temporary)?;
    println!("{} is there; `ovolo doctor` says whether it can be used", out.join(FILE).display());
    Ok(())
}

/// The first file below a folder whose name fits.
fn find(folder: &Path, fits: &dyn Fn(&str) -> bool) -> Result<PathBuf, String> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| fits(&name.to_string_lossy())) {
                return Ok(path);
            }
        }
    }
    Err(format!("{} lacks the file that was expected in it", folder.display()))
}
