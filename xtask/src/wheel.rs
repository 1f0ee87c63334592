//! Fetches libraries from wheels of the Python package index.

use crate::python::{build_folder, command, environment, remove};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library to fetch.
pub struct Wheel {
    /// The package and its version.
    pub package: &'static str,
    /// The SHA-256 of its wheel for Linux on x86-64.
    pub sha256: &'static str,
    /// The folder in the build folder.
    pub folder: &'static str,
    /// The files that are taken from the wheel.
    pub files: &'static [&'static str],
    /// What to do on other systems.
    pub elsewhere: &'static str,
}

impl Wheel {
    /// Fetches the library, unless it is there already.
    pub fn fetch(&self) -> Result<(), String> {
        let Self { package, sha256, .. } = self;
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(format!("{package} is for Linux on x86-64: {}", self.elsewhere));
        }
        let target = build_folder();
        let out = target.join(self.folder);
        let kept = std::fs::read_to_string(out.join("stamp"));
        if kept.is_ok_and(|kept| kept == *sha256) && self.files.iter().all(|file| out.join(file).exists()) {
            println!("{} is up to date", out.join(self.files[0]).display());
            return Ok(());
        }
        let python = environment(&target.join("python"))?;
        let temporary = target.join(format!("{}.tmp", self.folder));
        remove(&temporary)?;
        let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(&temporary).map_err(|error| said(&temporary, error))?;
        // pip refuses a file with a different hash.
        let requirements = temporary.join("requirements.txt");
        std::fs::write(&requirements, format!("{package} --hash=sha256:{sha256}\n"))
            .map_err(|error| said(&requirements, error))?;
        println!("fetching {package}");
        command(
            Command::new(&python)
                .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
                .args(["--only-binary", ":all:", "--require-hashes", "--dest"])
                .arg(&temporary)
                .arg("--requirement")
                .arg(&requirements),
        )
        .map_err(|error| format!("{error}\npip could not fetch {package}"))?;
        let wheel = find(&temporary, &|name| name.ends_with(".whl"))?;
        let unpacked = temporary.join("wheel");
        command(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
        remove(&out)?;
        std::fs::create_dir_all(&out).map_err(|error| said(&out, error))?;
        for file in self.files {
            let library = find(&unpacked, &|name| name == *file)?;
            std::fs::copy(&library, out.join(file)).map_err(|error| said(&library, error))?;
            runnable(&out.join(file)).map_err(|error| said(&library, error))?;
        }
        std::fs::write(out.join("stamp"), sha256).map_err(|error| said(&out, error))?;
        remove(&temporary)?;
        println!(
            "fetched {}; `ovolo doctor` shows whether it can be used",
            out.join(self.files[0]).display()
        );
        Ok(())
    }
}

/// Lets a file be run as a program, which is what some wheels contain; unpacking them loses that.
fn runnable(file: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let _ = file;
    Ok(())
}

/// The first file below a folder whose name `fits` accepts.
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
    Err(format!("the expected file is missing in {}", folder.display()))
}
